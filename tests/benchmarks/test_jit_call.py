"""Under the JIT the bundle's sources get the arguments, constants and launch of the bundle's own call."""

import ast
from pathlib import Path
from types import SimpleNamespace

import pytest

from assay import kernel_specs
from assay.codegen.expand import Selection, candidates, expand
from assay.codegen.records import Problem
from assay.codegen.render import Renderer
from assay.codegen.specs import load_specs
from assay.codegen.variants import make_variant

from .calls import Recorder, Stage, small_inputs, variant

torch = pytest.importorskip("torch")
SPLITS = 5


@pytest.fixture(scope="module")
def specs():
    return load_specs(Path(kernel_specs.DIRECTORY))


def rendered(specs, family, **wanted):
    """The first candidate of the first problem on sm90 that is as wanted."""
    only = {name: (str(value).lower(),) for name, value in wanted.items()} | {"family": (family,)}
    problem = next(p for p in expand(specs, "sm90", Selection("core", only)) if isinstance(p, Problem))
    model, target = specs.families[family].model, specs.target("sm90")
    made = make_variant(model, target, candidates(model, target, problem)[0], Renderer(specs.templates))
    return variant(family, made.request.source, dict(problem.axes), dict(made.candidate.launch))


@pytest.fixture
def call(specs, monkeypatch):
    """Makes a JitCall on the CPU, its kernels replaced by recorders."""
    import gpu

    monkeypatch.setattr(gpu, "DEVICE", "cpu")
    import jit_call

    def make(*, fp8, inputs=None, unsplit=False):
        kv_format = "fp8_per_token_head" if fp8 else "bf16"
        wanted = {"kv_format": kv_format, "block_m": 4, "head_dim": 64, "window": False, "pairs": "any"}
        variants = [
            rendered(specs, "decode_attention", **wanted),
            rendered(specs, "merge_splits", head_dim=64, sinks=False, most_splits=16),
        ]
        if unsplit:
            variants = [rendered(specs, "decode_attention_unsplit", **{**wanted, "block_m": 8}, sinks=False)]
        inputs = inputs or small_inputs(fp8=fp8)
        recorders = {made.id: Recorder() for made in variants}
        monkeypatch.setattr(jit_call, "_imported", lambda name, *_: recorders[name])
        rows = [SimpleNamespace(id=made.id, symbol=made.family) for made in variants]
        grids = ((2, 2, 1),) if unsplit else ((2, 2, SPLITS), (2, 8, 1))
        plan = SimpleNamespace(stages=tuple(map(Stage, rows, grids)))
        known = {made.id: made for made in variants}
        kernels = SimpleNamespace(variant=known.__getitem__)
        made = jit_call.JitCall(kernels, inputs, plan, copy=1)
        made.both()
        return inputs, [(known[name], *recorder.launches[0]) for name, recorder in recorders.items()]

    return make


def named(record, given, constants):
    """The arguments by the names of the rendered kernel; every one of them, and no other."""
    functions = [node for node in ast.parse(record.source).body if isinstance(node, ast.FunctionDef)]
    kernel = next(node for node in functions if node.args.args[0].arg in ("q", "partial_out"))
    names = [argument.arg for argument in kernel.args.args]
    positional, rest = names[: len(given)], names[len(given) :]
    assert sorted(rest) == sorted(set(constants) - {"num_warps", "num_stages", "launch_pdl"})
    return dict(zip(positional, given, strict=True)) | constants


@pytest.mark.parametrize("fp8", [False, True])
def test_stage_1_gets_each_argument_in_its_place(call, fp8):
    inputs, ((record, grid, given, constants), _) = call(fp8=fp8)
    seen = named(record, given, constants)
    assert grid == (2, 2, SPLITS)
    assert seen["indices"] is inputs.copies[1]
    caches = {"k_cache": "k", "v_cache": "v", "k_scale": "k_scale", "v_scale": "v_scale"}
    for argument, name in caches.items():
        if name in inputs.caches:
            assert seen[argument] is inputs.caches[name]
            stride = argument.removesuffix("_cache") + "_stride"
            assert (seen[f"{stride}_slot"], seen[f"{stride}_head"]) == inputs.caches[name].stride()[:2]
    assert seen["partial_out"].shape == (2, 8, SPLITS, 64)
    assert tuple(seen[f"out_stride_{axis}"] for axis in ("batch", "head", "split")) == seen["partial_out"].stride()[:3]
    assert tuple(seen[f"lse_stride_{axis}"] for axis in ("batch", "head", "split")) == seen["partial_lse"].stride()
    assert seen["num_kv_splits"].tolist() == [SPLITS, SPLITS]
    assert seen["sm_scale"] == inputs.sm_scale
    assert seen["group"] == 4
    assert (seen["q_stride_batch"], seen["q_stride_head"]) == inputs.q.stride()[:2]
    constants = [seen[name] for name in ("HEAD_DIM", "BLOCK_D", "BLOCK_M", "BLOCK_N")]
    assert constants == [64, 64, 4, record.launch["block_n"]]


def test_the_merge_gets_each_argument_in_its_place(call):
    _, (stage_1, (record, grid, given, constants)) = call(fp8=True)
    seen, before = named(record, given, constants), named(stage_1[0], stage_1[2], stage_1[3])
    assert grid == (2, 8, 1)
    assert seen["partial_out"] is before["partial_out"]
    assert seen["partial_lse"] is before["partial_lse"]
    assert seen["num_kv_splits"] is before["num_kv_splits"]
    strides = {
        "partial": seen["partial_out"].stride()[:3], "partial_lse": seen["partial_lse"].stride(),
        "out": seen["out"].stride()[:2], "lse": seen["lse"].stride(),
    }  # fmt: skip
    for name, wanted in strides.items():
        words = ("batch", "head", "split")[: len(wanted)]
        assert tuple(seen[f"{name}_stride_{word}"] for word in words) == wanted
        assert seen[f"{name}_stride_row"] == 0
    assert (seen["HEAD_DIM"], seen["BLOCK_D"], seen["MAX_SPLITS"]) == (64, 64, 16)


@pytest.mark.parametrize("fp8", [False, True])
def test_an_unsplit_call_is_one_kernel_that_writes_the_output(call, fp8):
    inputs, ((record, grid, given, constants),) = call(fp8=fp8, unsplit=True)
    seen = named(record, given, constants)
    assert grid == (2, 2, 1)
    assert (seen["q"], seen["indices"], seen["q_positions"]) == (inputs.q, inputs.copies[1], inputs.positions)
    for cache in inputs.caches:
        argument = f"{cache}_cache" if len(cache) == 1 else cache
        assert seen[argument] is inputs.caches[cache]
    assert (seen["out"].shape, seen["lse"].shape) == (inputs.q.shape, inputs.q.shape[:2])
    assert (seen["out_stride_batch"], seen["out_stride_head"]) == seen["out"].stride()[:2]
    assert (seen["lse_stride_batch"], seen["lse_stride_head"]) == seen["lse"].stride()
    assert (seen["sm_scale"], seen["group"]) == (inputs.sm_scale, 4)


def test_the_launch_is_the_bundles_own_with_its_dependent_start(call):
    for record, _, _, constants in call(fp8=True)[1]:
        assert record.launch["programmatic_dependent_launch"] is True
        options = {name: constants[name] for name in ("num_warps", "num_stages", "launch_pdl")}
        assert options == {
            "num_warps": record.launch["num_warps"], "num_stages": record.launch["num_stages"], "launch_pdl": True,
        }  # fmt: skip


@pytest.mark.parametrize("other", ["format", "group"])
def test_inputs_of_another_call_are_refused(call, other):
    import gpu

    # The same block takes six query heads of two KV heads.
    inputs = small_inputs(fp8=False) if other == "format" else gpu.make_inputs(gpu.Shape(2, 64, 6, 2, 64), fp8=True)
    with pytest.raises(ValueError, match="the plan is not one of"):
        call(fp8=True, inputs=inputs)


def test_a_source_is_imported_once():
    import jit_call

    source = "def kernel():\n    return 1\n"
    first = jit_call._imported("a", source, "kernel")
    assert first() == 1
    assert jit_call._imported("a", source, "kernel") is first
