import re

import pytest

from assay.objects import Argument, ObjectError, identify, read_object

ASSEMBLY_FIGURES = {
    ".vgpr_count": "vgpr_count",
    ".sgpr_count": "sgpr_count",
    ".vgpr_spill_count": "vgpr_spill_count",
    ".sgpr_spill_count": "sgpr_spill_count",
    ".private_segment_fixed_size": "scratch_bytes",
    ".group_segment_fixed_size": "lds_static_bytes",
    ".max_flat_workgroup_size": "max_threads",
    ".wavefront_size": "wavefront_size",
    ".kernarg_segment_size": "kernarg_bytes",
}


def only_kernel(raw):
    (kernel,) = read_object(raw, where="test.hsaco").kernels
    return kernel


def refusal(raw):
    with pytest.raises(ObjectError) as caught:
        read_object(raw, where="test.hsaco")
    assert "\n" not in str(caught.value)
    assert caught.value.where.startswith("test.hsaco")
    return str(caught.value)


@pytest.mark.parametrize(("name", "arch"), [("plain", "gfx1201"), ("spills", "gfx1200")])
def test_triton_kernels_read_as_the_compilers_assembly_says(compiled, name, arch):
    text = compiled(f"{name}.{arch}.amdgcn").decode()
    kernel = only_kernel(compiled(f"{name}.{arch}.hsaco"))
    figures = kernel.resources.to_dict()
    for key, resource in ASSEMBLY_FIGURES.items():
        assert figures[resource] == int(re.search(rf"^ +{re.escape(key)}: +(\d+)$", text, re.M)[1]), key
    assert figures["dynamic_stack"] is False
    assert kernel.arch == re.search(r"amdhsa--(\w+)", text)[1]
    assert kernel.resources.code_bytes == int(re.search(r"codeLenInByte = (\d+)", text)[1])
    assert len(kernel.arguments) == text.count(".value_kind:")


def test_a_spilling_triton_kernel_shows_spills_and_scratch_apart(compiled):
    resources = only_kernel(compiled("spills.gfx1200.hsaco")).resources
    assert resources.vgpr_spill_count > 0
    assert resources.scratch_bytes > 0
    assert resources.scratch_bytes != 4 * resources.vgpr_spill_count


def test_every_kernel_of_a_file_is_read(data):
    code_object = read_object(data("four.gfx1201.hsaco"), where="four")
    assert (code_object.kind, code_object.arch, code_object.backend) == ("hsaco", "gfx1201", "hip")
    figures = {
        k.name: (k.resources.scratch_bytes, k.resources.lds_static_bytes, k.resources.dynamic_stack)
        for k in code_object.kernels
    }
    assert figures == {
        "copy": (0, 0, False),
        "lds": (0, 2048, False),
        "stack": (68, 0, False),
        "dynamic": (16, 0, True),
    }
    assert [k.resources.code_bytes for k in code_object.kernels] == [60, 80, 72, 104]
    assert all(len(k.code) == k.resources.code_bytes for k in code_object.kernels)


def test_launch_time_sizes_are_not_in_a_bare_file(data):
    resources = read_object(data("four.gfx1201.hsaco"), where="four").kernels[1].resources
    assert (resources.lds_dynamic_bytes, resources.lds_total_bytes) == (None, None)
    assert resources.with_launch(100).lds_total_bytes == 2148


def test_hidden_arguments_are_reported_where_the_note_puts_them(data):
    kernel = only_kernel(data("copy.gfx1200.hsaco"))
    assert kernel.arguments[:4] == (
        Argument(0, 8, "global_buffer", "x"),
        Argument(8, 8, "global_buffer", "y"),
        Argument(16, 4, "by_value", "n"),
        Argument(24, 4, "hidden_block_count_x"),
    )
    assert kernel.resources.kernarg_bytes == 280


def test_wave64_and_feature_suffixes_are_kept_as_the_target_id(data):
    kernel = only_kernel(data("copy.gfx942.hsaco"))
    assert (kernel.arch, kernel.resources.wavefront_size) == ("gfx942:sramecc+:xnack-", 64)


def test_a_version_that_does_not_record_dynamic_stacks_leaves_it_unknown(data):
    # This kernel does have one; code object V4 has no key for it and only guesses a size.
    assert only_kernel(data("dynamic.gfx90a.hsaco")).resources.dynamic_stack is None


def test_code_starts_at_the_descriptors_entry(data):
    kernel = read_object(data("four.gfx1201.hsaco"), where="four").kernels[2]
    assert kernel.code.endswith(bytes.fromhex("0000b0bf"))  # s_endpgm
    assert kernel.descriptor.private_segment_bytes == 68


@pytest.mark.parametrize(
    ("fact", "value"),
    [("vgpr_spill_count", 4), ("sgpr_spill_count", 7), ("scratch_bytes", 20), ("dynamic_stack", True)],
)
def test_four_independent_facts_are_reported_independently(synthetic, fact, value):
    clean = only_kernel(synthetic.build_hsaco(synthetic.kernel())).resources.to_dict()
    changed = only_kernel(synthetic.build_hsaco(synthetic.kernel(**{fact: value}))).resources.to_dict()
    assert changed == clean | {fact: value}
    assert (clean["vgpr_spill_count"], clean["sgpr_spill_count"], clean["scratch_bytes"]) == (0, 0, 0)
    assert clean["dynamic_stack"] is False


@pytest.mark.parametrize("key", [".vgpr_spill_count", ".sgpr_spill_count", ".uses_dynamic_stack"])
def test_an_optional_fact_left_out_is_unknown_and_not_zero(synthetic, key):
    resources = only_kernel(synthetic.build_hsaco(synthetic.kernel(drop=[key]))).resources
    name = next(name for name, note_key in synthetic.NOTE_KEYS.items() if note_key == key)
    assert getattr(resources, name) is None


@pytest.mark.parametrize("drop", [[".uses_dynamic_stack"], []])
def test_a_dynamic_stack_in_the_descriptor_alone_counts(synthetic, drop):
    kernel = synthetic.kernel(drop=drop, descriptor={"properties": 0x8 | 1 << 10 | 1 << 11})
    assert only_kernel(synthetic.build_hsaco(kernel)).resources.dynamic_stack is True


def test_the_descriptor_is_found_by_the_symbol_as_written(synthetic):
    kernels = (synthetic.kernel("a", symbol="elsewhere", scratch_bytes=4), synthetic.kernel("elsewhere.kd"))
    read = read_object(synthetic.build_hsaco(*kernels), where="x").kernels
    assert [(k.name, k.symbol, k.descriptor.private_segment_bytes) for k in read] == [
        ("a", "elsewhere", 4),
        ("elsewhere.kd", "elsewhere.kd.kd", 0),
    ]


def test_the_code_symbol_need_not_carry_the_kernels_name(synthetic):
    raw = synthetic.build_hsaco(synthetic.kernel("a", function="b", code=synthetic.S_ENDPGM * 3))
    assert only_kernel(raw).code == synthetic.S_ENDPGM * 3


def test_a_file_without_the_note_is_refused(synthetic, data):
    assert "0 notes" in refusal(synthetic.build_hsaco(synthetic.kernel(), with_note=False))
    real = data("copy.gfx1200.hsaco")
    assert "0 notes" in refusal(real.replace(b"AMDGPU\0", b"AMDGPV\0", 1))


def test_a_note_with_zero_kernels_is_refused(synthetic):
    assert "zero kernels" in refusal(synthetic.build_hsaco())


def test_every_missing_key_of_every_kernel_is_named(synthetic):
    message = refusal(
        synthetic.build_hsaco(
            synthetic.kernel("a", drop=[".vgpr_count", ".kernarg_segment_size"]),
            synthetic.kernel("b", drop=[".symbol", ".args"]),
        )
    )
    for part in ("'a' .vgpr_count: missing", "'a' .kernarg_segment_size: missing"):
        assert part in message
    for part in ("'b' .symbol: missing", "'b' .args: missing"):
        assert part in message


@pytest.mark.parametrize(
    "record",
    [
        {".vgpr_count": "24"},
        {".vgpr_count": True},
        {".vgpr_count": -1},
        {".vgpr_count": 2**40},
        {".vgpr_spill_count": None},
        {".sgpr_spill_count": 1.5},
        {".uses_dynamic_stack": 1},
        {".name": b"kernel"},
        {".name": ""},
        {".symbol": ["x"]},
        {".wavefront_size": 16},
        {".max_flat_workgroup_size": 0},
        {".max_flat_workgroup_size": 2048},
        {".args": {}},
        {".args": [8]},
        {".args": [{".offset": 0, ".size": 8}]},
        {".args": [{".offset": 0, ".size": 8, ".value_kind": "flobal_buffer"}]},
        {".args": [{".offset": 4, ".size": 8, ".value_kind": "by_value"}]},
        {".args": [{".offset": 0, ".size": 8, ".value_kind": "by_value"}] * 2},
    ],
    ids=str,
)
def test_a_value_of_the_wrong_type_or_range_is_refused(synthetic, record):
    assert next(iter(record)) in refusal(synthetic.build_hsaco(synthetic.kernel(record=record)))


@pytest.mark.parametrize(
    "root",
    [
        {"amdhsa.kernels": {}},
        {"amdhsa.kernels": None},
        {"amdhsa.kernels": ["kernel"]},
        {"amdhsa.version": [2, 0]},
        {"amdhsa.version": "1.2"},
        {"amdhsa.target": None},
        {"amdhsa.target": "gfx1201"},
        {"amdhsa.target": "amdgpu-amd-amdhsa--gfx1201"},
        {"amdhsa.target": "amdgpu12.01-amd-amdpal-unknown-gfx1201"},
        {"amdhsa.target": "amdgpu12.01-amd-amdhsa-unknown-gfx1200"},
    ],
    ids=str,
)
def test_a_note_of_another_shape_is_refused(synthetic, root):
    refusal(synthetic.build_hsaco(synthetic.kernel(), root=root))


@pytest.mark.parametrize(
    "target",
    ["amdgcn-amd-amdhsa--gfx1201", "amdgpu12.01-amd-amdhsa-unknown-gfx1201", "amdgpu12.01-amd-amdhsa--gfx1201"],
)
def test_a_target_is_read_in_every_spelling_of_its_triple(synthetic, target):
    assert only_kernel(synthetic.build_hsaco(synthetic.kernel(), root={"amdhsa.target": target})).arch == "gfx1201"


@pytest.mark.parametrize(
    "note",
    [b"", b"\xc1", b"\x83", b"\xdf\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff", b"\x91" * 5000, b"\x80\x80"],
    ids=["empty", "reserved", "cut", "huge map", "huge list", "deep", "two values"],
)
def test_msgpack_that_cannot_be_read_is_refused(synthetic, note):
    refusal(synthetic.build_hsaco(synthetic.kernel(), note=note))


def test_a_key_given_twice_is_refused_and_not_overridden(synthetic):
    note = b"\x82" + b"\xaeamdhsa.kernels\x90" * 2
    assert "twice" in refusal(synthetic.build_hsaco(synthetic.kernel(), note=note))


@pytest.mark.parametrize(
    ("field", "key"),
    [
        ("group", ".group_segment_fixed_size"),
        ("private", ".private_segment_fixed_size"),
        ("kernarg", ".kernarg_segment_size"),
        ("properties", ".wavefront_size"),
    ],
)
def test_note_and_descriptor_must_agree(synthetic, field, key):
    kernel = synthetic.kernel(descriptor={field: 0 if field in ("kernarg", "properties") else 64})
    assert key in refusal(synthetic.build_hsaco(kernel))


def test_a_descriptor_symbol_that_does_not_exist_is_refused(synthetic):
    kernel = synthetic.kernel(record={".symbol": "nowhere.kd"})
    assert "nowhere.kd" in refusal(synthetic.build_hsaco(kernel))


def test_two_kernels_of_one_name_or_one_symbol_are_refused(synthetic):
    assert "occurs twice" in refusal(synthetic.build_hsaco(*[synthetic.kernel()] * 2))
    kernels = (synthetic.kernel("a", symbol="s"), synthetic.kernel("b", symbol="s"))
    assert "symbol occurs twice: s" in refusal(synthetic.build_hsaco(*kernels))


def test_elf_header_and_note_must_name_one_processor(synthetic):
    message = refusal(synthetic.build_hsaco(synthetic.kernel(), arch="gfx1201", target="gfx1200"))
    assert "gfx1201" in message
    assert "gfx1200" in message


@pytest.mark.parametrize("flags", [0x00, 0xFE, 0x10004E])
def test_an_unknown_processor_number_is_named(synthetic, flags):
    assert f"{flags:#x}" in refusal(synthetic.build_hsaco(synthetic.kernel(), flags=flags))


def test_an_older_or_unknown_code_object_version_is_refused(synthetic):
    for version in (0, 5):
        assert "ABI version" in refusal(synthetic.build_hsaco(synthetic.kernel(), abi_version=version))


def test_a_relocatable_object_is_refused(synthetic):
    raw = bytearray(synthetic.build_hsaco(synthetic.kernel()))
    raw[16] = 1
    assert "ET_REL" in refusal(bytes(raw))


def test_identify_goes_by_the_machine_number(synthetic, data):
    assert identify(synthetic.build_hsaco(synthetic.kernel())) == "hsaco"
    assert identify(data("three.sm_80.cubin")) == "cubin"
    for other in (b"", b"\x7fELF", b"MZ" * 40, bytes(64)):
        assert identify(other) is None
