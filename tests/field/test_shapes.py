"""Every head size and format, over short and long requests (field cases C10, D9)."""

import io
import tokenize
from pathlib import Path

import numpy as np
import pytest

from assay.codegen.builder import Builder, default_jobs
from assay.codegen.cache import CompileCache
from assay.codegen.expand import candidates
from assay.codegen.render import Renderer
from assay.codegen.store import default_cache_directory
from assay.codegen.toolchain import find_toolchain
from assay.codegen.variants import make_variant
from assay.emulator import Program
from assay.qualify.selection import Selector
from assay.qualify.waiving import WaiverBook, today_utc
from tests.kernels.shipped import TARGET, problems, run_merge, shipped_merge, shipped_specs

from .calls import KINDS, assert_attention, kernel, random_call, widened

HEAD_DIMS = {64, 128, 256}


def test_no_rendered_source_names_a_head_size():
    """C10: a head size left over in a template is right for one of them only."""
    specs = shipped_specs()
    renderer, target = Renderer(specs.templates), specs.target(TARGET)
    seen = set()
    for family in ("decode_attention", "merge_splits", "extend_attention"):
        model = specs.families[family].model
        for problem in problems(specs, family):
            for candidate in candidates(model, target, problem):
                seen.add(make_variant(model, target, candidate, renderer).request.source)
    assert len(seen) > 10
    for source in seen:
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        assert not {int(t.string) for t in tokens if t.type == tokenize.NUMBER and t.string.isdigit()} & HEAD_DIMS


@pytest.mark.slow
@pytest.mark.parametrize("head_dim", sorted(HEAD_DIMS))
@pytest.mark.parametrize("kind", KINDS)
def test_every_format_and_head_size_over_one_to_4097_keys(kind, head_dim):
    """C10"""
    call = random_call(kind, [1, 31, 32, 4097], [1, 1, 2, 16], head_dim=head_dim, window=0)
    assert_attention(kernel(kind, head_dim=head_dim, window=False), call)


@pytest.mark.parametrize("head_dim", sorted(HEAD_DIMS))
def test_every_head_size_merges(head_dim):
    """C10"""
    rng = np.random.default_rng(2)
    partial = rng.standard_normal((1, 2, 3, head_dim)).astype(np.float32)
    lse = rng.standard_normal((1, 2, 3)).astype(np.float32)
    out, _ = run_merge(shipped_merge(head_dim=head_dim, sinks=False), partial, lse, [3])
    weights = np.exp(lse.astype(np.float64))
    wanted = (weights[..., None] * partial).sum(2) / weights.sum(2)[..., None]
    np.testing.assert_allclose(widened(out), wanted, rtol=0.02, atol=0.002)


@pytest.mark.slow
def test_no_shipped_binary_has_a_bf16_product_that_truncates():
    """D9: v_dot2_bf16_bf16 and v_dot2_f32_bf16, looked for in every decoded core object."""
    specs = shipped_specs()
    families = ("decode_attention", "merge_splits", "extend_attention")
    found = [problem for family in families for problem in problems(specs, family)]
    waivers = WaiverBook.of(specs.waivers, TARGET, "core", today_utc())
    cache = CompileCache(Path(default_cache_directory()))
    with Builder(cache, find_toolchain(), jobs=default_jobs()) as builder:
        results = Selector(specs, specs.target(TARGET), builder, waivers).run(found, lambda _: None)
    codes = {result.chosen.outcome.code for result in results}
    assert len(codes) > 200
    for code in codes:
        names = {instruction.opcode for instruction in Program.load(code, where="core").instructions}
        assert not {name for name in names if name.startswith("v_dot2") and "bf16" in name}
