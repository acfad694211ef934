"""`assay retarget`: the bundle's very kernels, assembled for another GPU; everything that cannot be is told at once."""

import shutil

import pytest

from assay.bundle import Bundle, write_bundle
from assay.qualify import bundling
from tests.specs import SHIPPED, TEMPLATE, copy_toy, edit

# In the place of the product: what Blackwell alone has, in PTX of which the assembler knows one or refuses it.
ASSEMBLY = """\
            values = tl.inline_asm_elementwise(
                "{text}", "=f,f,f", [values.to(tl.float32), factor], dtype=tl.float32, is_pure=True, pack=1
            )
"""
THREE = "max.f32 $0, $1, $2, 0f3F800000;"
ABSOLUTE = "max.abs.f32 $0, $1, $2, 0f3F800000;"
# Two FP32 to two E2M1: sm_120a has it, sm_90a has not, and nothing here rewrites it.
NARROW = "{ .reg .b8 a; .reg .b16 b; cvt.rn.satfinite.e2m1x2.f32 a, $1, $2; mov.b16 b, {a, 0}; cvt.rn.f32.u16 $0, b; }"


def with_target(specs):
    """The toy specs with the shipped sm120 target, of which a companion for sm90 can be made."""
    shutil.copy(SHIPPED / "targets" / "sm120.yaml", specs / "targets")
    return specs


@pytest.fixture(scope="module")
def specs(tmp_path_factory):
    return with_target(copy_toy(tmp_path_factory.mktemp("specs") / "toy"))


def build(assay, specs, out, *options, target="sm120"):
    ran = assay("qualify", "--target", target, "--specs", specs, "--out", out, "--update-lock", *options)
    assert ran.status == 0, ran.text
    return out / target / (f"{target}.only.assay" if "--only" in options else f"{target}.assay")


@pytest.fixture
def bundle(assay, specs, tmp_path):
    return build(assay, specs, tmp_path)


@pytest.fixture
def made_of(assay, tmp_path):
    """Retargets a bundle of the one toy kernel with the assembly in it."""

    def make(text):
        specs = with_target(copy_toy(tmp_path / "assembly"))
        edit(
            specs,
            TEMPLATE,
            "        tl.store(",
            ASSEMBLY.format(text=text).replace("            v", "        v", 1) + "        tl.store(",
        )
        only = ("--only", "width=64,alignment=4")
        path = build(assay, specs, tmp_path, *only)
        return path, assay("retarget", path, "--for", "sm90", "--specs", specs)

    return make


def test_every_variant_is_assembled_for_the_other_gpu(assay, specs, bundle):
    ran = assay("retarget", bundle, "--for", "sm90", "--specs", specs)
    assert ran.status == 0, ran.text
    path = bundle.with_suffix(".sm90.companion")
    assert f"wrote {path}: 4 variants" in ran.text
    assert len([line for line in ran.err.splitlines() if "] ok scale" in line]) == 4
    with Bundle.open(bundle) as original, Bundle.open(path, companion=True) as opened:
        companion = opened.manifest.companion
        assert (companion["of"], companion["target"], companion["arch"]) == (original.identity, "sm90", "sm_90a")
        (target,) = opened.manifest.targets
        assert (target.name, target.arch, target.lds_limit) == ("sm120", "sm_90a", 232_448)
        assert opened.variant_ids() == original.variant_ids()
        for id in original.variant_ids():
            before, after = original.variant(id), opened.variant(id)
            assert companion["variants"][id]["code_sha256"] == before.code_sha256 != after.code_sha256
            assert (after.problem, after.launch, after.source) == (before.problem, before.launch, before.source)
            assert after.resources["stack_bytes"] == 0
        before = [row._replace(object="") for row in original.rows("scale")]
        assert [row._replace(object="") for row in opened.rows("scale")] == before
    assert assay("verify", path).status == 0
    assert {kernel["arch"] for kernel in assay("inspect", path, "--json").document["kernels"]} == {"sm_90a"}


def test_a_second_run_compiles_nothing_and_gives_the_same_bytes(assay, specs, bundle, tmp_path, monkeypatch):
    first, second = tmp_path / "first", tmp_path / "second"
    assert assay("retarget", bundle, "--for", "sm90", "--specs", specs, "--out", first).status == 0
    monkeypatch.setattr("assay.codegen.workers.ProcessPool", None)
    assert assay("retarget", bundle, "--for", "sm90", "--specs", specs, "--out", second, "--jobs", "3").status == 0
    assert first.read_bytes() == second.read_bytes()


def test_damaged_cache_entries_are_told_and_made_anew(assay, specs, bundle, tmp_path, compile_cache):
    first, second = tmp_path / "first", tmp_path / "second"
    assert assay("retarget", bundle, "--for", "sm90", "--specs", specs, "--out", first).status == 0
    for entry in compile_cache.glob("ptxs/*/*.ptx"):
        entry.write_bytes(entry.read_bytes()[:-1])
    ran = assay("retarget", bundle, "--for", "sm90", "--specs", specs, "--out", second)
    assert ran.status == 0
    assert ran.text.count("damaged cache entry") == 4
    assert first.read_bytes() == second.read_bytes()


def test_json_says_what_was_made_of_what(assay, specs, bundle):
    document = assay("retarget", bundle, "--for", "sm90", "--specs", specs, "--json").document
    with Bundle.open(bundle) as opened:
        assert document["identity"] == opened.identity
        assert document["variants"].keys() == set(opened.variant_ids())
    assert (document["schema"], document["target"], document["arch"]) == ("assay.retarget/1", "sm90", "sm_90a")
    assert document["rewritten"] == {}


def test_a_part_is_named_as_one(assay, specs, bundle):
    ran = assay("retarget", bundle, "--for", "sm90", "--specs", specs, "--only", "x_dtype=f32")
    assert ran.status == 0
    with Bundle.open(bundle.with_suffix(".sm90.only.companion"), companion=True) as opened:
        assert len(opened.rows("scale")) == 2


def test_what_was_rewritten_is_told_and_recorded(made_of):
    path, ran = made_of(THREE)
    assert ran.status == 0, ran.text
    with Bundle.open(path.with_suffix(".sm90.companion"), companion=True) as opened:
        ((said),) = opened.manifest.companion["variants"].values()
    assert said["rewritten"].keys() == {"max.f32 of three"}
    assert f"rewritten max.f32 of three: {said['rewritten']['max.f32 of three']} in 1 variants" in ran.out


@pytest.mark.parametrize(
    ("text", "said"),
    [(ABSOLUTE, "max.abs.f32"), (NARROW, "cannot be assembled for sm_90a")],
    ids=["no equivalent", "refused by the assembler"],
)
def test_what_cannot_be_retargeted_is_1_by_name_and_nothing_is_written(made_of, text, said):
    path, ran = made_of(text)
    assert ran.status == 1
    assert said in ran.said
    assert "x_dtype=f32 width=64 alignment=4" in ran.said
    assert [file.name for file in path.parent.glob("*.companion")] == []


def test_a_kernel_that_does_not_fit_the_other_gpu_is_1(assay, bundle, tmp_path):
    small = with_target(copy_toy(tmp_path / "small"))
    edit(small, "targets/sm90.yaml", "lds_bytes: 232448\n  threads", "lds_bytes: 16\n  threads")
    contents = bundling._read(bundle).contents
    rows = tuple(row._replace(lds_bytes=32) for row in contents.rows)
    variants = tuple(item._replace(resources={**item.resources, "lds_dynamic_bytes": 32}) for item in contents.variants)
    write_bundle(tmp_path / "large.assay", contents._replace(rows=rows, variants=variants))
    ran = assay("retarget", tmp_path / "large.assay", "--for", "sm90", "--specs", small)
    assert ran.status == 1
    assert ran.said.count("needs 32 bytes of shared memory; allowed: at most 16 on sm90") == 4


def test_sources_that_changed_are_2_and_named(assay, bundle, tmp_path):
    other = with_target(copy_toy(tmp_path / "other"))
    edit(other, TEMPLATE, '"""Rows of', '"""All rows of')
    ran = assay("retarget", bundle, "--for", "sm90", "--specs", other)
    assert ran.status == 2
    assert "4 variants are not what the specs make" in ran.said
    assert f"changed since it was built: {TEMPLATE}" in ran.said


def test_a_code_object_that_does_not_come_out_again_is_3(assay, specs, bundle, tmp_path):
    contents = bundling._read(bundle).contents
    first, second = (row.object for row in contents.rows[:2])
    swap = {first: second, second: first}
    rows = tuple(row._replace(object=swap.get(row.object, row.object)) for row in contents.rows)
    variants = tuple(
        item._replace(code_sha256=swap.get(item.code_sha256, item.code_sha256)) for item in contents.variants
    )
    write_bundle(tmp_path / "other.assay", contents._replace(rows=rows, variants=variants))
    ran = assay("retarget", tmp_path / "other.assay", "--for", "sm90", "--specs", specs)
    assert ran.status == 3
    swapped = sum(row.object in swap for row in rows)
    assert ran.said.count("compiled again, its code object has SHA-256") == swapped >= 2
    assert not (tmp_path / "other.sm90.companion").exists()


def test_another_compiler_is_3_before_anything_is_compiled(assay, specs, bundle, tmp_path):
    contents = bundling._read(bundle).contents
    manifest = contents.manifest._replace(toolchain={**contents.manifest.toolchain, "triton": "2.1.0"})
    write_bundle(tmp_path / "old.assay", contents._replace(manifest=manifest))
    ran = assay("retarget", tmp_path / "old.assay", "--for", "sm90", "--specs", specs)
    assert ran.status == 3
    assert "triton 2.1.0" in ran.said
    assert "[1/" not in ran.said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--for", "sm91"), "did you mean sm90?"),
        (("--for", "gfx1201"), "gfx1201 is a hip target"),
        (("--for", "sm120"), "a cuda target that is not sm_120a"),
        (("--for", "sm90", "--only", "width=65"), "width=65; allowed: width: 64, 96"),
        (("--for", "sm90", "--out", "absent/x"), "a file in a folder that is there"),
        ((), "Missing option '--for'"),
    ],
)
def test_bad_input_is_2_before_anything_is_compiled(assay, specs, bundle, options, said):
    ran = assay("retarget", bundle, "--specs", specs, *options)
    assert (ran.status, ran.out) == (2, "")
    assert said in ran.said
    assert "[1/" not in ran.said


def test_a_bundle_is_never_written_over(assay, specs, bundle):
    before = bundle.read_bytes()
    ran = assay("retarget", bundle, "--for", "sm90", "--specs", specs, "--out", bundle)
    assert ran.status == 2
    assert "is there, and is no companion" in ran.said
    assert bundle.read_bytes() == before


def test_a_bundle_without_nvidia_code_and_what_is_no_bundle_are_2(assay, specs, built, tmp_path):
    assert "holds gfx1201" in assay("retarget", built("gfx1201").bundle, "--for", "sm90", "--specs", specs).said
    (tmp_path / "x").write_bytes(b"x")
    for path in (tmp_path / "x", tmp_path / "absent", tmp_path):
        assert assay("retarget", path, "--for", "sm90", "--specs", specs).status == 2


@pytest.mark.parametrize("path", [".", "", "/", ".."])
def test_a_folder_without_a_name_is_told_like_any_other(assay, specs, path):
    ran = assay("retarget", path, "--for", "sm90", "--specs", specs)
    assert (ran.status, ran.out) == (2, "")
    assert ran.said == f"{path or '.'}: a folder; allowed: a regular file"
    ran = assay("retarget", path, "--for", "sm90", "--specs", specs, "--out", "absent/x")
    assert (ran.status, ran.said.count("; allowed: ")) == (2, 2)


def test_of_several_targets_those_that_run_as_they_are_are_left_out(assay, specs, bundle, tmp_path):
    other = build(assay, specs, tmp_path, target="sm90")
    both = tmp_path / "both.assay"
    assert assay("bundle", bundle, other, "--out", both).status == 0
    document = assay("retarget", both, "--for", "sm90", "--specs", specs, "--json").document
    assert document["left_out"] == ["sm90"]
    assert len(document["variants"]) == 4


@pytest.mark.parametrize("command", ["wheel", "attest", "bundle", "explain", "run", "retarget"])
def test_no_command_takes_a_companion_for_a_bundle(assay, specs, bundle, tmp_path, command):
    assert assay("retarget", bundle, "--for", "sm90", "--specs", specs).status == 0
    path = bundle.with_suffix(".sm90.companion")
    options = {
        "attest": (path,), "bundle": ("--out", tmp_path / "x"), "explain": ("scale",), "run": ("scale",),
        "retarget": ("--for", "sm120", "--specs", specs), "wheel": ("--out", tmp_path / "wheels"),
    }  # fmt: skip
    ran = assay(command, path, *options[command])
    assert ran.status in (1, 2)
    assert "is a companion (sm120 re-assembled for sm_90a)" in ran.said
    assert not (tmp_path / "wheels").exists()
