import re
import struct

import pytest

from assay.objects import Argument, ObjectError, read_object

CUBINS = (
    "three.sm_80.cubin",
    "three.sm_90a.cubin",
    "three.sm_120.cubin",
    "linked.sm_90a.cubin",
    "shared.sm_90a.abi7.cubin",
    "shared.sm_120a.cubin",
)

# Registers, stack and shared bytes as `cuobjdump -res-usage` (13.1) printed them, before the reserve.
THREE = {
    "sm_80": {"calls": (16, 32, 0), "reverse": (12, 0, 1024), "add_one": (8, 0, 0)},
    "sm_90a": {"calls": (16, 32, 0), "reverse": (14, 0, 2048), "add_one": (8, 0, 0)},
    "sm_120": {"calls": (15, 32, 0), "reverse": (14, 0, 2048), "add_one": (8, 0, 0)},
}


def refusal(raw):
    with pytest.raises(ObjectError) as caught:
        read_object(raw, where="test.cubin")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def by_name(raw):
    return {kernel.name: kernel for kernel in read_object(raw, where="test.cubin").kernels}


@pytest.mark.parametrize("arch", THREE)
def test_every_kernel_of_a_foreign_file_is_read(data, arch):
    code_object = read_object(data(f"three.{arch}.cubin"), where="three")
    assert (code_object.kind, code_object.arch, code_object.backend) == ("cubin", arch, "cuda")
    reserve = 0 if arch == "sm_80" else 1024
    for kernel in code_object.kernels:
        registers, stack, shared = THREE[arch][kernel.name]
        assert (kernel.resources.register_count, kernel.resources.stack_bytes) == (registers, stack)
        assert kernel.resources.lds_static_bytes == (shared - reserve if shared else 0)
        assert kernel.resources.wavefront_size == 32
    assert len(code_object.kernels) == len(THREE[arch])


def test_the_drivers_reserve_is_not_the_kernels_shared_memory(data):
    # 256 floats are 1,024 B in every file; the section shows 2,048 from sm_90 on.
    for arch in THREE:
        assert by_name(data(f"three.{arch}.cubin"))["reverse"].resources.lds_static_bytes == 1024
    for name in ("shared.sm_90a.abi7.cubin", "shared.sm_120a.cubin"):
        assert by_name(data(name))["shared_100"].resources.lds_static_bytes == 100


def test_a_triton_kernel_has_no_static_shared_memory(compiled):
    for name in ("plain.90.cubin", "spills.120.cubin"):
        (kernel,) = by_name(compiled(name)).values()
        assert kernel.resources.lds_static_bytes == 0


def test_parameters_are_read_with_their_alignment(data):
    kernels = by_name(data("three.sm_120.cubin"))
    assert kernels["calls"].arguments == (Argument(0, 8, "param"), Argument(8, 4, "param"))
    assert kernels["calls"].resources.kernarg_bytes == 12
    assert kernels["reverse"].arguments == (Argument(0, 8, "param"), Argument(8, 8, "param"))


def test_tritons_two_trailing_scratch_pointers_are_arguments(compiled):
    (kernel,) = by_name(compiled("plain.90.cubin")).values()
    assert [(a.offset, a.size) for a in kernel.arguments] == [(0, 8), (8, 8), (16, 4), (20, 4), (24, 8), (32, 8)]
    assert kernel.resources.kernarg_bytes == 40


def test_threads_come_from_either_form_of_bound(data, compiled):
    three = by_name(data("three.sm_90a.cubin"))
    assert three["reverse"].resources.max_threads == 256  # at most
    assert three["add_one"].resources.max_threads is None  # nothing said
    assert by_name(data("shared.sm_90a.abi7.cubin"))["shared_100"].resources.max_threads == 128  # 64 × 2 × 1
    assert by_name(compiled("plain.90.cubin"))["scale"].resources.max_threads == 128


def test_a_stack_without_a_bound_is_dynamic_and_of_unknown_size(data):
    resources = by_name(data("linked.sm_90a.cubin"))["recursive"].resources
    assert (resources.stack_bytes, resources.dynamic_stack) == (None, True)


def test_figures_that_a_cubin_cannot_tell_are_none(data):
    resources = by_name(data("three.sm_90a.cubin"))["add_one"].resources
    unknown = "vgpr_count sgpr_count vgpr_spill_count sgpr_spill_count scratch_bytes dynamic_stack "
    unknown += "lds_dynamic_bytes local_load_count local_store_count spill_load_bytes spill_store_bytes"
    assert {name: getattr(resources, name) for name in unknown.split()} == dict.fromkeys(unknown.split())


@pytest.mark.parametrize("name", CUBINS)
def test_figures_agree_with_nvidias_resource_dump(data, wheel_tool, tmp_path, name):
    path = tmp_path / name
    path.write_bytes(data(name))
    dump = wheel_tool("cuobjdump", "-res-usage", path)
    kernels = by_name(data(name))
    assert set(kernels) <= set(re.findall(r"Function (\w+):", dump))
    reserve = 0 if "sm_80" in name else 1024
    for kernel in kernels.values():
        line = dump.split(f"Function {kernel.name}:")[1].splitlines()[1]
        registers, stack, shared = re.search(r"REG:(\d+) STACK:(\w+) SHARED:(\d+)", line).groups()
        assert kernel.resources.register_count == int(registers)
        assert kernel.resources.stack_bytes == (None if stack == "UNKNOWN" else int(stack))
        assert kernel.resources.lds_static_bytes == max(0, int(shared) - reserve)


@pytest.mark.parametrize("name", CUBINS)
def test_the_architecture_is_spelled_as_nvidias_tool_spells_it(data, wheel_tool, tmp_path, name):
    path = tmp_path / name
    path.write_bytes(data(name))
    spelled = re.search(r"\bsm=(\w+)", wheel_tool("cuobjdump", "-elf", path))[1]
    assert read_object(data(name), where=name).arch == f"sm_{spelled}"


def test_tritons_files_are_bound_to_one_chip(compiled):
    assert read_object(compiled("plain.90.cubin"), where="x").arch == "sm_90a"
    assert read_object(compiled("spills.120.cubin"), where="x").arch == "sm_120a"


def test_a_rewritten_architecture_number_contradicts_the_recorded_command_line(data):
    raw = bytearray(data("three.sm_120.cubin"))
    raw[0x31] = 121
    message = refusal(bytes(raw))
    assert "sm_121" in message
    assert "sm_120" in message


def test_a_cleared_accelerator_mark_contradicts_the_recorded_command_line(data):
    raw = data("three.sm_90a.cubin")
    assert raw.count(b"\x02\x09\x01\x00") == 1  # .nv.compat, attribute 9
    assert "sm_90a" in refusal(raw.replace(b"\x02\x09\x01\x00", b"\x02\x09\x00\x00"))


def test_an_unknown_architecture_number_is_named(data):
    raw = bytearray(data("shared.sm_90a.abi7.cubin"))
    raw[0x30] = 91
    assert "91" in refusal(bytes(raw))


def test_an_unknown_cuda_abi_is_refused(data):
    raw = bytearray(data("three.sm_80.cubin"))
    raw[8] = 9
    assert "version 9" in refusal(bytes(raw))


def test_a_relocatable_object_is_refused_with_the_way_out(data):
    message = refusal(data("relocatable.sm_90a.cubin"))
    assert "ET_REL" in message
    assert "nvlink" in message


@pytest.mark.parametrize(
    "section", [".nv.info\0", ".nv.info.calls\0", ".text.calls\0", ".nv.shared.reverse\0", ".nv.compat\0"]
)
def test_a_renamed_section_cannot_hide_a_fact(data, section):
    raw = data("three.sm_120.cubin")
    old = section.encode()
    assert b"\0" + old in raw
    refusal(raw.replace(b"\0" + old, b"\0" + old[:-2] + b"~\0"))


def symbol_offset(raw, name):
    """File offset of the named function's symbol, through the section headers, without the reader."""
    table, count = struct.unpack_from("<Q", raw, 0x28)[0], struct.unpack_from("<H", raw, 0x3C)[0]
    headers = [struct.unpack_from("<IIQQQQIIQQ", raw, table + 64 * i) for i in range(count)]
    symtab = next(h for h in headers if h[1] == 2)
    strings = headers[symtab[6]][4]
    for at in range(symtab[4], symtab[4] + symtab[5], 24):
        label = raw[strings + struct.unpack_from("<I", raw, at)[0] :].split(b"\0")[0]
        if label == name.encode() and raw[at + 4] & 15 == 2:
            return at
    raise AssertionError(name)


def test_a_kernel_cannot_vanish_by_a_flipped_symbol(data):
    raw = data("three.sm_90a.cubin")
    for offset, flip in ((4, 0x03), (5, 0x10)):  # kind: function → object; other: kernel → device function
        damaged = bytearray(raw)
        damaged[symbol_offset(raw, "reverse") + offset] ^= flip
        assert "reverse" in refusal(bytes(damaged))


def test_a_file_of_device_functions_alone_has_zero_kernels(data):
    raw = bytearray(data("linked.sm_90a.cubin").replace(b".nv.constant0.recursive", b".xv.constant0.recursive"))
    raw[symbol_offset(bytes(raw), "recursive") + 5] = 0
    assert "zero kernels" in refusal(bytes(raw))


def records(raw, attribute, size):
    """Offsets of the payloads of sized records with this attribute."""
    head = bytes([4, attribute]) + size.to_bytes(2, "little")
    return [match.end() for match in re.finditer(re.escape(head), raw)]


@pytest.mark.parametrize("attribute", [0x2F, 0x11, 0x12], ids=["REGCOUNT", "FRAME_SIZE", "MIN_STACK_SIZE"])
def test_a_missing_figure_is_refused_by_name(data, attribute):
    raw = bytearray(data("shared.sm_90a.abi7.cubin"))
    (payload,) = records(raw, attribute, 8)
    raw[payload - 3] = 0x7F
    names = {0x2F: "REGCOUNT", 0x11: "FRAME_SIZE", 0x12: "MIN_STACK_SIZE"}
    assert names[attribute] in refusal(bytes(raw))


def test_figures_beyond_the_hardware_are_refused(data):
    for attribute, value in ((0x2F, 0), (0x2F, 256), (0x11, 2**30)):
        raw = bytearray(data("shared.sm_90a.abi7.cubin"))
        (payload,) = records(raw, attribute, 8)
        struct.pack_into("<I", raw, payload + 4, value)
        assert str(value) in refusal(bytes(raw))


def test_a_parameter_that_is_lost_is_noticed(data):
    raw = bytearray(data("three.sm_90a.cubin"))
    raw[records(raw, 0x17, 12)[0] - 3] = 0x7F
    assert "parameter" in refusal(bytes(raw))
