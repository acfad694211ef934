"""What must hold of a family's workarounds: names and values that exist, and an alternative that is another form."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from assay.bundle.faults import Fault

from .predicates import check_predicate, holds
from .records import spell
from .spec_checks import LAUNCH_FIELDS, Domains, target_domains, unknown_name
from .spec_models import FamilyFile, TargetFile, Workaround
from .spec_parse import Parsed
from .yaml_source import KeyPath, YamlSource


def check_workarounds(parsed: Parsed[FamilyFile], targets: Collection[TargetFile]) -> list[Fault]:
    """Everything wrong with the workarounds of one family file; `targets` as `spec_checks.check_family` takes them."""
    family, source = parsed.model, parsed.source
    forms: Domains = {
        **{name: axis.values for name, axis in (*family.axes.items(), *family.launch.items())},
        **LAUNCH_FIELDS,
    }
    faults: list[Fault] = []
    seen: set[str] = set()
    for index, workaround in enumerate(family.workarounds):
        path: KeyPath = ("workarounds", index)
        if workaround.name in seen:
            faults.append(Fault(source.where((*path, "name")), f"{workaround.name} twice", "each name once"))
        seen.add(workaround.name)
        faults += _repeated(workaround, (*path, "hardware"), source)
        wrong = check_predicate(workaround.when, (*path, "when"), source, {**forms, **target_domains(targets)})
        wrong += _check_alternative(workaround, (*path, "alternative"), source, family, forms)
        # What a predicate asks can be told only of one that is sound.
        faults += wrong or _check_differs(workaround, path, source)
    return faults


def _repeated(workaround: Workaround, path: KeyPath, source: YamlSource) -> Iterator[Fault]:
    """Each instruction is counted by its mnemonic: one that stood there twice would count twice."""
    names = workaround.hardware
    for index, name in enumerate(names):
        if name in names[:index]:
            yield Fault(source.where((*path, index)), f"{name} twice", "each mnemonic once")


def _check_alternative(
    workaround: Workaround, path: KeyPath, source: YamlSource, family: FamilyFile, forms: Domains
) -> Iterator[Fault]:
    for name, value in workaround.alternative.items():
        here = (*path, name)
        if name not in forms:
            yield unknown_name("axis or launch field", name, forms, source, here)
        elif name in family.dispatch:
            hint = "the plain form must answer the same calls"
            yield Fault(source.where(here, key=True), f"{name}, which a call brings", "an axis that no call has", hint)
        elif name in family.launch and family.launch[name].feature:
            yield Fault(source.where(here, key=True), name, "nothing: the target's features decide it")
        else:
            yield from check_predicate({name: value}, path, source, forms)


def _check_differs(workaround: Workaround, path: KeyPath, source: YamlSource) -> list[Fault]:
    """Whether `when` excludes a value of the alternative: only then the two are never the same variant."""
    asked = {name: test for name, test in workaround.when.items() if name in workaround.alternative}
    if not holds(asked, workaround.alternative):
        return []
    given = ", ".join(f"{name}={spell(value)}" for name, value in workaround.alternative.items())
    where = source.where((*path, "alternative"))
    return [Fault(where, f"{given} is the workaround itself", "a form that `when` excludes")]
