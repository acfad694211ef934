"""The problems that constraints admit, beside every combination tried by the predicates themselves."""

import itertools
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from assay.codegen import admitted as admitted_module
from assay.codegen import predicates
from assay.codegen.admitted import admitted, excludes_any, fold, holds_at
from assay.codegen.predicates import holds
from assay.codegen.spec_models import Constraint
from assay.codegen.specs import load_specs

SHIPPED = Path(__file__).parents[2] / "kernel_specs"

AXES = {"dim": [64, 96, 128], "kind": ["a", "b"], "wide": [False, True], "rows": [1, 8]}
TARGETS = [
    {"target.name": "one", "target.features": ("fast",)},
    {"target.name": "two", "target.features": ()},
]


def drawn_for(name):
    if name == "target.features":
        return st.sampled_from([{"contains": "fast"}, {"lacks": "fast"}])
    values = ["one", "two"] if name == "target.name" else AXES[name]
    plain = [st.sampled_from(values), st.lists(st.sampled_from(values), min_size=1, unique=True)]
    plain.append(st.sampled_from(values).map(lambda value: {"not": value}))
    if name in ("dim", "rows"):
        plain += [st.sampled_from(values).map(lambda value, by=by: {by: value}) for by in ("at_least", "at_most")]
    return st.one_of(*plain)


conjunctions = st.lists(st.sampled_from([*AXES, *TARGETS[0]]), unique=True, max_size=3).flatmap(
    lambda names: st.fixed_dictionaries({name: drawn_for(name) for name in names})
)
constraints = st.builds(
    lambda when, require: Constraint(when=when, require=require, reason="because"), conjunctions, conjunctions
)


def every_combination(facts):
    for values in itertools.product(*AXES.values()):
        yield dict(zip(AXES, values, strict=True)), {**facts, **dict(zip(AXES, values, strict=True))}


def breaks(constraint, known):
    return holds(constraint.when, known) and not holds(constraint.require, known)


@given(st.lists(constraints, max_size=4), st.sampled_from(TARGETS))
def test_they_are_those_that_break_no_constraint_in_the_same_order(rules, facts):
    wanted = [axes for axes, known in every_combination(facts) if not any(breaks(rule, known) for rule in rules)]
    found = [
        {name: AXES[name][place] for name, place in zip(AXES, places, strict=True)}
        for places in admitted(rules, facts, AXES)
    ]
    assert found == wanted


@given(constraints, st.sampled_from(TARGETS))
def test_a_constraint_excludes_something_if_a_combination_breaks_it(rule, facts):
    assert excludes_any(rule, facts, AXES) == any(breaks(rule, known) for _, known in every_combination(facts))


@given(conjunctions, st.sampled_from(TARGETS))
def test_a_folded_predicate_holds_where_it_did(when, facts):
    tests = fold(when, facts, AXES)
    for places in itertools.product(*(range(len(values)) for values in AXES.values())):
        axes = {name: AXES[name][place] for name, place in zip(AXES, places, strict=True)}
        assert holds_at(tests, places) == holds(when, {**facts, **axes})


def test_the_shipped_families_are_not_tried_combination_by_combination(monkeypatch):
    """Nine targets have 500,000 combinations, and loading the specs stands before every command."""
    asked = []
    test_holds = predicates.test_holds
    for module in (predicates, admitted_module):
        monkeypatch.setattr(module, "test_holds", lambda test, value: asked.append(1) or test_holds(test, value))
    load_specs(SHIPPED)
    assert len(asked) < 50_000
