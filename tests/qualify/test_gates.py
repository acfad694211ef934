"""Each gate refuses on its own, with its own reason; what a binary does not tell is refused, never taken for zero."""

import dataclasses

import pytest

from assay import objects
from assay.codegen.expand import Selection, candidates, expand
from assay.codegen.records import Outcome
from assay.codegen.render import Renderer
from assay.codegen.spec_checks import REQUIRED_BUDGETS
from assay.codegen.spec_models import Budgets, InstructionRule
from assay.codegen.specs import load_specs
from assay.codegen.variants import make_variant
from assay.qualify import gates
from assay.qualify.gates import judge
from tests.objects.synthetic import build_hsaco, kernel
from tests.specs import TOY

SPECS = load_specs(TOY)
FAMILY = SPECS.families["scale"].model
# x, out, factor, x_stride_row and Triton's two scratch pointers.
LAYOUT = [(0, 8), (8, 8), (16, 4), (24, 8), (32, 8), (40, 8)]


def variant_of(target):
    problem = next(expand(SPECS, target, Selection("core", {})))
    candidate = candidates(FAMILY, SPECS.target(target), problem)[0]
    return make_variant(FAMILY, SPECS.target(target), candidate, Renderer(SPECS.templates))


def good_kernel(name="scale_rows", layout=LAYOUT, **changes):
    arguments = [{".offset": offset, ".size": size, ".value_kind": "by_value"} for offset, size in layout]
    record = {".args": arguments, ".kernarg_segment_size": 48} | changes.pop("record", {})
    return kernel(name, record=record, **({"max_threads": 64} | changes))


def outcome_of(code, **changes):
    fields = {"symbol": "scale_rows", "num_warps": 2, "shared_bytes": 0, "instructions": {"v_mul_f32": 1}}
    return Outcome(
        "compiled", code=code, **(fields | {"global_scratch_bytes": 0, "profile_scratch_bytes": 0} | changes)
    )


def judged(code, *, target="gfx1201", family=FAMILY, **outcome):
    """The reasons against a binary, as text."""
    judgement = judge(variant_of(target), outcome_of(code, **outcome), SPECS.target(target), family)
    assert judgement.qualified == (not judgement.reasons)
    return [str(reason) for reason in judgement.reasons]


def test_a_clean_kernel_qualifies():
    assert judged(build_hsaco(good_kernel())) == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"vgpr_spill_count": 1}, "vgpr_spill_count 1 > 0 (1 over)"),
        ({"sgpr_spill_count": 20}, "sgpr_spill_count 20 > 0 (20 over)"),
        ({"scratch_bytes": 308}, "scratch_bytes 308 > 0 (308 over)"),
        ({"dynamic_stack": True}, "dynamic_stack 1 > 0 (1 over)"),
    ],
)
def test_each_amd_budget_refuses_alone_with_its_own_reason(changes, reason):
    assert judged(build_hsaco(good_kernel(**changes))) == [reason]


def test_every_broken_budget_is_reported_and_none_is_derived_from_another():
    code = build_hsaco(good_kernel(vgpr_spill_count=4, sgpr_spill_count=60, scratch_bytes=20, dynamic_stack=True))
    assert judged(code, shared_bytes=65_792) == [
        "vgpr_spill_count 4 > 0 (4 over)",
        "sgpr_spill_count 60 > 0 (60 over)",
        "scratch_bytes 20 > 0 (20 over)",
        "dynamic_stack 1 > 0 (1 over)",
        "lds_total_bytes 65,792 > 65,536 (256 over)",
    ]


@pytest.mark.parametrize(
    ("static", "dynamic", "reasons"),
    [
        (0, 65_536, []),
        (0, 65_792, ["lds_total_bytes 65,792 > 65,536 (256 over)"]),
        (0, 131_072, ["lds_total_bytes 131,072 > 65,536 (65,536 over)"]),
        (65_536, 0, []),
        (1_024, 64_512, []),
        (1_024, 64_513, ["lds_total_bytes 65,537 > 65,536 (1 over)"]),
        (0, None, ["lds_total_bytes: unknown, limit 65536"]),
    ],
)
def test_shared_memory_is_the_sum_of_the_binarys_and_the_launchs(static, dynamic, reasons):
    assert judged(build_hsaco(good_kernel(lds_static_bytes=static)), shared_bytes=dynamic) == reasons


@pytest.mark.parametrize(
    "key", ["vgpr_spill_count", "sgpr_spill_count", "scratch_bytes", "dynamic_stack", "wavefront_size"]
)
def test_what_the_note_leaves_out_is_never_taken_for_zero(key, synthetic_keys):
    reasons = judged(build_hsaco(good_kernel(drop=[synthetic_keys[key]])))
    assert len(reasons) >= 1
    assert all("unreadable" in reason or "unknown" in reason for reason in reasons), reasons


@pytest.fixture
def synthetic_keys():
    from tests.objects.synthetic import NOTE_KEYS

    return NOTE_KEYS


@pytest.fixture
def judged_with(monkeypatch):
    """Reasons against a kernel with any resources whatever, as if the reader had found them."""

    def run(target, outcome=None, family=FAMILY, **resources):
        arch, backend = SPECS.target(target).arch, SPECS.target(target).backend
        known = {"lds_static_bytes": 0, "max_threads": 64, "wavefront_size": 32, **resources}
        arguments = tuple(objects.Argument(offset, size, "param") for offset, size in LAYOUT)
        found = objects.Kernel("scale_rows", "s", arch, backend, objects.Resources(**known), arguments, b"")
        code_object = objects.CodeObject("cubin" if backend == "cuda" else "hsaco", arch, backend, (found,))
        monkeypatch.setattr(gates.objects, "read_object", lambda *_, **__: code_object)
        return judged(b"code", target=target, family=family, **(outcome or {}))

    return run


NVIDIA_OUTCOME = {"sass_local": (0, 0), "assembler_spills": (0, 0)}


@pytest.mark.parametrize(
    ("outcome", "resources", "reason"),
    [
        ({}, {"stack_bytes": 28}, "stack_bytes 28 > 0 (28 over)"),
        ({"sass_local": (4, 0)}, {}, "local_load_count 4 > 0 (4 over)"),
        ({"sass_local": (0, 1)}, {}, "local_store_count 1 > 0 (1 over)"),
        ({"assembler_spills": (8, 0)}, {}, "spill_load_bytes 8 > 0 (8 over)"),
        ({"assembler_spills": (0, 4)}, {}, "spill_store_bytes 4 > 0 (4 over)"),
        ({"shared_bytes": 232_448}, {}, None),
        ({"shared_bytes": 232_449}, {}, "lds_total_bytes 232,449 > 232,448 (1 over)"),
        ({}, {"stack_bytes": None}, "stack_bytes: unknown, limit 0"),
        ({}, {"lds_static_bytes": None}, "lds_total_bytes: unknown, limit 232448"),
    ],
)
def test_each_nvidia_budget_refuses_alone_with_its_own_reason(judged_with, outcome, resources, reason):
    known = {"stack_bytes": 0, **resources}
    assert judged_with("sm90", NVIDIA_OUTCOME | outcome, **known) == ([reason] if reason else [])


def test_a_cubin_whose_tools_could_not_be_run_is_refused_for_each_missing_figure(judged_with):
    assert judged_with("sm90", {"sass_local": None, "assembler_spills": None}, stack_bytes=0) == [
        f"{name}: unknown, limit 0"
        for name in ("local_load_count", "local_store_count", "spill_load_bytes", "spill_store_bytes")
    ]


AMD_CLEAN = {"vgpr_spill_count": 0, "sgpr_spill_count": 0, "scratch_bytes": 0, "dynamic_stack": False}


@pytest.mark.parametrize("missing", AMD_CLEAN)
def test_a_missing_amd_figure_is_unknown_and_refused(judged_with, missing):
    reasons = judged_with("gfx1201", **(AMD_CLEAN | {missing: None}))
    assert reasons == [f"{missing}: unknown, limit 0"]


def test_a_family_may_tighten_a_budget_and_never_loosen_one(judged_with):
    tight = FAMILY.model_copy(update={"budgets": Budgets(vgpr_count=128, lds_total_bytes=1024)})
    loose = FAMILY.model_copy(update={"budgets": Budgets(vgpr_spill_count=4, lds_total_bytes=131_072)})
    counts = AMD_CLEAN | {"vgpr_count": 129}
    assert judged_with("gfx1201", {"shared_bytes": 1025}, tight, **counts) == [
        "lds_total_bytes 1,025 > 1,024 (1 over)",
        "vgpr_count 129 > 128 (1 over)",
    ]
    spilling = counts | {"vgpr_spill_count": 1}
    assert judged_with("gfx1201", {"shared_bytes": 65_537}, loose, **spilling) == [
        "vgpr_spill_count 1 > 0 (1 over)",
        "lds_total_bytes 65,537 > 65,536 (1 over)",
    ]


BOTH_VENDORS = FAMILY.model_copy(update={"budgets": Budgets(vgpr_count=68, register_count=64, code_bytes=100)})


@pytest.mark.parametrize(
    ("target", "outcome", "own"),
    [("gfx1201", {}, "vgpr_count"), ("sm90", NVIDIA_OUTCOME, "register_count")],
)
def test_a_familys_budget_of_one_vendor_holds_on_its_targets_alone(judged_with, target, outcome, own):
    """Its own budget holds, and fails where the figure is unknown; the other vendor's is passed over."""
    clean = {"gfx1201": AMD_CLEAN, "sm90": {"stack_bytes": 0}}[target] | {"code_bytes": 100}
    limit = getattr(BOTH_VENDORS.budgets, own)
    assert judged_with(target, outcome, BOTH_VENDORS, **clean, **{own: limit}) == []
    assert judged_with(target, outcome, BOTH_VENDORS, **clean, **{own: limit + 1}) == [
        f"{own} {limit + 1} > {limit} (1 over)"
    ]
    assert judged_with(target, outcome, BOTH_VENDORS, **clean) == [f"{own}: unknown, limit {limit}"]
    del clean["code_bytes"]
    assert judged_with(target, outcome, BOTH_VENDORS, **clean, **{own: limit}) == ["code_bytes: unknown, limit 100"]


def test_every_budget_is_known_on_some_backend_and_those_that_a_target_must_state_on_its_own():
    for name in Budgets.model_fields:
        assert name in {field.name for field in dataclasses.fields(objects.Resources)}
        assert any(name not in foreign for foreign in objects.FOREIGN.values()), name
    for backend, names in REQUIRED_BUDGETS.items():
        assert not objects.FOREIGN[backend].intersection(names)


def test_a_targets_budget_of_the_other_vendor_is_unknown_and_fails():
    target = SPECS.target("gfx1201")
    wrong = target.model_copy(update={"budgets": target.budgets.model_copy(update={"register_count": 64})})
    judgement = judge(variant_of("gfx1201"), outcome_of(build_hsaco(good_kernel())), wrong, FAMILY)
    assert [str(reason) for reason in judgement.reasons] == ["register_count: unknown, limit 64"]


def test_code_for_the_sister_chip_is_refused():
    assert judged(build_hsaco(good_kernel(), arch="gfx1200")) == ["architecture: hip gfx1200, must be hip gfx1201"]


def test_code_of_the_other_backend_is_refused():
    reasons = judged(build_hsaco(good_kernel()), target="sm90", **NVIDIA_OUTCOME)
    assert "architecture: hip gfx1201, must be cuda sm_90a" in reasons


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (b"", "empty file"),
        (b"not an object", "not an ELF file"),
        (build_hsaco(good_kernel())[:200], "unreadable"),
        (build_hsaco(good_kernel(), with_note=False), "unreadable"),
        (build_hsaco(), "unreadable"),
    ],
    ids=["empty", "text", "truncated", "no note", "zero kernels"],
)
def test_a_binary_that_cannot_be_read_is_refused_for_that_alone(code, words):
    (reason,) = judged(code)
    assert reason.startswith("code_object: unreadable, must be readable")
    assert words in reason


def test_a_binary_of_two_kernels_or_of_another_one_is_refused():
    both = build_hsaco(good_kernel(), good_kernel("other"))
    assert judged(both) == ["kernels: scale_rows, other, must be exactly one, scale_rows"]
    assert judged(build_hsaco(good_kernel("other"))) == ["kernels: other, must be exactly one, scale_rows"]


@pytest.mark.parametrize("status", ["compile_error", "compiler_complaint", "crashed", "timed_out"])
def test_a_failed_compilation_is_refused_whatever_came_with_it(status):
    outcome = dataclasses.replace(outcome_of(build_hsaco(good_kernel())), status=status, messages="because")
    judgement = judge(variant_of("gfx1201"), outcome, SPECS.target("gfx1201"), FAMILY)
    said = status.replace("_", " ")
    assert [str(reason) for reason in judgement.reasons] == [f"compilation: {said}, must be compiled (because)"]


@pytest.mark.parametrize(
    ("layout", "detail"),
    [
        (LAYOUT[:-1], "argument 5, hidden: offset 40 size 8 expected, nothing found"),
        ([*LAYOUT, (48, 8)], "1 more than the spec has"),
        ([*LAYOUT[:2], (16, 8), *LAYOUT[3:]], "argument 2, factor: offset 16 size 4 expected, offset 16 size 8 found"),
        (
            [(0, 8), (8, 4), (12, 8), (20, 8), (28, 8)],
            "argument 1, out: offset 8 size 8 expected, offset 8 size 4 found",
        ),
    ],
    ids=["one hidden argument", "three hidden arguments", "a wider scalar", "a folded argument"],
)
def test_another_argument_layout_is_refused_with_the_first_difference(layout, detail):
    size = max(offset + size for offset, size in layout)
    (reason,) = judged(build_hsaco(good_kernel(layout=layout, record={".kernarg_segment_size": size})))
    assert reason.startswith("kernarg_layout: ")
    assert "must be 6 arguments in 48 bytes" in reason
    assert detail in reason


@pytest.mark.parametrize(
    ("outcome", "resources", "reasons"),
    [
        ({"num_warps": 4}, {}, ["num_warps 4 > 2 (2 over)"]),
        ({"num_warps": None}, {}, ["num_warps: unknown, limit 2"]),
        ({}, {"max_threads": 128}, ["max_threads 128 > 64 (64 over)"]),
        ({}, {"max_threads": 32}, ["max_threads 32 < 64 (32 short)"]),
        ({}, {"wavefront_size": 64}, ["wavefront_size 64 > 32 (32 over)"]),
    ],
)
def test_a_workgroup_of_another_size_than_asked_for_is_refused(outcome, resources, reasons):
    assert judged(build_hsaco(good_kernel(**resources)), **outcome) == reasons


def test_more_threads_than_the_target_has_are_refused(judged_with, monkeypatch):
    target = SPECS.target("gfx1201")
    small = target.model_copy(update={"limits": target.limits.model_copy(update={"threads": 32})})
    monkeypatch.setattr(type(SPECS), "target", lambda *_: small)
    assert judged_with("gfx1201", **AMD_CLEAN) == ["threads 64 > 32 (32 over)"]


@pytest.mark.parametrize("which", ["global_scratch_bytes", "profile_scratch_bytes"])
@pytest.mark.parametrize(("size", "said"), [(16, "16 > 0 (16 over)"), (None, None)])
def test_a_kernel_that_needs_tritons_scratch_memory_is_refused(which, size, said):
    expected = f"{which} {said}" if said else f"{which}: unknown, limit 0"
    assert judged(build_hsaco(good_kernel()), **{which: size}) == [expected]


def rules(**fields):
    rule = InstructionRule(when={}, reason="because it must", **fields)
    return FAMILY.model_copy(update={"instructions": [rule]})


def test_a_required_instruction_that_is_not_there_often_enough_is_refused():
    family = rules(require={"v_wmma": 2, "global_load_b128": 1})
    counts = {"v_wmma_f32_16x16x16_bf16": 1, "global_load_b1280": 5}
    assert judged(build_hsaco(good_kernel()), family=family, instructions=counts) == [
        "instruction v_wmma 1 < 2 (1 short)",
        "instruction global_load_b128 0 < 1 (1 short)",
    ]
    enough = {"v_wmma_f32_16x16x16_bf16": 1, "v_wmma_f32_16x16x16_fp8": 1, "global_load_b128": 1}
    assert judged(build_hsaco(good_kernel()), family=family, instructions=enough) == []


def test_a_forbidden_instruction_is_refused_in_every_longer_form_and_no_other():
    family = rules(forbid=["v_dot2_bf16_bf16", "HMMA"])
    counts = {"v_dot2_bf16_bf16_e64": 3, "HMMA.16816": 1, "v_dot2_bf16": 9, "HMMAX": 9}
    assert judged(build_hsaco(good_kernel()), family=family, instructions=counts) == [
        "instruction v_dot2_bf16_bf16 3 > 0 (3 over)",
        "instruction HMMA 1 > 0 (1 over)",
    ]


def test_instructions_that_could_not_be_counted_are_not_taken_for_none():
    code = build_hsaco(good_kernel())
    assert judged(code, family=rules(forbid=["v_dot2"]), instructions=None) == ["instructions: unknown, limit counted"]
    assert judged(code, instructions=None) == [], "a family without rules asks for no counts"


def test_a_rule_applies_where_its_predicate_holds():
    rule = InstructionRule(when={"x_dtype": "f16"}, require={"v_never": 1}, reason="halves only")
    family = FAMILY.model_copy(update={"instructions": [rule]})
    assert judged(build_hsaco(good_kernel()), family=family) == []  # this problem is f32


def test_what_the_binary_says_stands_in_the_record_with_the_figures_of_the_build():
    outcome = outcome_of(build_hsaco(good_kernel(vgpr_count=40, lds_static_bytes=16)), shared_bytes=32)
    resources = judge(variant_of("gfx1201"), outcome, SPECS.target("gfx1201"), FAMILY).resources
    assert (resources.vgpr_count, resources.lds_static_bytes, resources.lds_dynamic_bytes) == (40, 16, 32)
    assert (resources.lds_total_bytes, resources.kernarg_bytes) == (48, 48)
    assert resources.stack_bytes is None, "what an HSACO does not have is unknown, not 0"
