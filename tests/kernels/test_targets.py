"""Every shipped target is data: what its features make of the problems, and that its first problems qualify."""

import ast
from pathlib import Path

import pytest

from assay.objects import read_object
from tests.kernels.shipped import first_qualified_on, problems, shipped_specs

ROOT = Path(__file__).parents[2]
# Where nothing ran the code: no emulator knows these architectures.
STATIC = [name for name in shipped_specs().targets if shipped_specs().target(name).evidence == "static"]
# Target to the readers of its FP8 caches, by what its instructions convert.
READERS = {
    "gfx1100": {"emulated_e4m3"},
    "gfx1151": {"emulated_e4m3"},
    "gfx1200": {"packed", "generic"},
    "gfx1201": {"packed", "generic"},
    "gfx942": {"emulated_e4m3"},
    "sm120": {"generic"},
    "sm86": {"emulated_e4m3"},
    "sm89": {"generic"},
    "sm90": {"generic"},
}


@pytest.mark.parametrize("target", sorted(shipped_specs().targets))
def test_the_readers_follow_from_the_targets_features(target):
    axes = [dict(problem.axes) for problem in problems(shipped_specs(), "decode_attention", target=target)]
    assert {each["reader"] for each in axes if each["kv_format"] == "fp8_per_token_head"} == READERS[target]
    assert {each["reader"] for each in axes if each["kv_format"] == "bf16"} == {"generic"}
    for kv_format in ("bf16", "fp8_per_token_head"):
        # Some row takes any layout and any extent.
        assert {each["offset_bits"] for each in axes if each["kv_format"] == kv_format and each["alignment"] == 1} == {
            64
        }


# gfx1201 and the NVIDIA targets of the first bundle are compiled all over the tests.
@pytest.mark.parametrize("target", ["gfx1100", "gfx1151", "gfx942", "sm86", "sm89"])
def test_a_problem_of_each_family_qualifies(target, compile_cache):  # noqa: ARG001
    (reader,) = READERS[target]
    axes = {"head_dim": 64, "block_m": 4, "kv_format": "fp8_per_token_head", "window": False, "offset_bits": 64}
    spec = shipped_specs().target(target)
    for variant, outcome in (
        first_qualified_on(shipped_specs(), target, "decode_attention", reader=reader, alignment=16, **axes),
        first_qualified_on(shipped_specs(), target, "merge_splits", head_dim=64, sinks=True, most_splits=16),
    ):
        (kernel,) = read_object(outcome.code, where=variant.id).kernels
        assert kernel.arch == spec.arch
        assert kernel.resources.max_threads == outcome.num_warps * spec.wavefront_size


@pytest.mark.parametrize("folder", ["bundle", "codegen", "qualify", "reference", "runtime"])
def test_python_knows_no_target_by_name(folder):
    """Object readers and drivers alone know architectures; docstrings may name examples."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        if "drivers" in path.parts:
            continue
        tree = ast.parse(path.read_text())
        documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        named = [node.value for node in texts if id(node) not in documented and any(t in node.value for t in STATIC)]
        assert not named, f"{path}: {named}"
