"""What must hold inside a spec beyond its shape, and between specs: names that exist, values that can occur."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from assay.bundle.faults import Fault, did_you_mean

from .predicates import check_predicate, holds, same
from .records import spell
from .spec_models import ArgumentSpec, Axis, FamilyFile, ProfileFile, TargetFile, WaiverFile
from .spec_parse import Parsed
from .yaml_source import KeyPath, YamlSource

# A target of a backend states a limit for each of these: one left out would pass whatever the binary says.
REQUIRED_BUDGETS = {
    "hip": ("vgpr_spill_count", "sgpr_spill_count", "scratch_bytes", "dynamic_stack"),
    "cuda": ("stack_bytes", "local_load_count", "local_store_count", "spill_load_bytes", "spill_store_bytes"),
}
# Figures that near-limit warnings and occupancy of a backend need, next to what every target states.
REQUIRED_LIMITS = {"hip": ("vgprs", "sgprs"), "cuda": ("registers",)}
REQUIRED_UNIT = {"hip": "cu", "cuda": "sm"}
LAUNCH_FIELDS = {"num_stages": range(1, 9), "num_warps": (1, 2, 4, 8, 16, 32)}

TARGET_FACTS = ("target.name", "target.backend", "target.arch", "target.wavefront_size", "target.features")

# Names that commands, calls and templates use for something else.
RESERVED_NAMES = frozenset({"family", "target", "device", "constants", "force_row", "forbid_rows"})
_LARGEST_32_BIT = 2**31 - 1

Domains = Mapping[str, Collection[Any]]
TargetDomains = Mapping[str, Collection[Any] | None]


def target_facts(target: TargetFile) -> dict[str, Any]:
    """What a predicate may ask of a target."""
    return {
        "target.name": target.target,
        "target.backend": target.backend,
        "target.arch": target.arch,
        "target.wavefront_size": target.wavefront_size,
        "target.features": tuple(target.features),
    }


def check_target(parsed: Parsed[TargetFile]) -> list[Fault]:
    """Budgets, limits and units that the backend needs and that the file leaves out."""
    model, backend = parsed.model, parsed.model.backend
    needed = [("budgets", f"budget for {name}", name in model.budgets.given()) for name in REQUIRED_BUDGETS[backend]]
    needed += [
        ("limits", f"limit {name}", getattr(model.limits, name) is not None) for name in REQUIRED_LIMITS[backend]
    ]
    needed.append(("occupancy", f"unit {REQUIRED_UNIT[backend]}", REQUIRED_UNIT[backend] in model.occupancy.units))
    return [
        Fault(
            parsed.source.where((key,)), f"no {what}", f"a {what.replace('budget', 'limit')} on every {backend} target"
        )
        for key, what, given in needed
        if not given
    ]


def check_waivers(
    files: Iterable[Parsed[WaiverFile]], targets: Collection[str], profiles: Collection[str]
) -> list[Fault]:
    """Waivers of unknown targets and profiles, impossible dates, and two of one name or for one budget."""
    faults: list[Fault] = []
    seen: set[Any] = set()
    for parsed in files:
        for index, waiver in enumerate(parsed.model.waivers):
            path: KeyPath = ("waivers", index)
            if waiver.target not in targets:
                faults.append(
                    unknown_name("target", waiver.target, targets, parsed.source, (*path, "target"), key=False)
                )
            if waiver.profile not in profiles:
                faults.append(
                    unknown_name("profile", waiver.profile, profiles, parsed.source, (*path, "profile"), key=False)
                )
            try:
                dt.date.fromisoformat(waiver.expires)
            except ValueError as error:
                faults.append(
                    Fault(parsed.source.where((*path, "expires")), f"{waiver.expires}: {error}", "a date, 2027-01-31")
                )
            for identity in (waiver.name, (waiver.target, waiver.profile, waiver.variant, waiver.budget)):
                if identity in seen:
                    given = f"waiver {waiver.name} repeats a name, or a variant and budget"
                    faults.append(Fault(parsed.source.where((*path, "name")), given, "each once"))
                seen.add(identity)
    return faults


def check_profile(parsed: Parsed[ProfileFile], families: Mapping[str, FamilyFile]) -> list[Fault]:
    """Families, axes and values that do not exist."""
    faults: list[Fault] = []
    for family, selection in parsed.model.families.items():
        path: KeyPath = ("families", family)
        if family not in families:
            faults.append(unknown_name("family", family, families, parsed.source, path))
            continue
        domains = {name: axis.values for name, axis in families[family].axes.items()}
        faults += check_predicate(selection, path, parsed.source, domains)
        for axis, values in selection.items():
            faults += _check_once(values, (*path, axis), parsed.source)
    return faults


def check_family(parsed: Parsed[FamilyFile], targets: Collection[TargetFile], templates: Path) -> list[Fault]:
    """Everything in one family file that refers to something which is not there, or contradicts itself.

    `targets` is empty where not all of them could be read: what a predicate asks of a target is then not judged.
    """
    family, source = parsed.model, parsed.source
    axes: Domains = {name: axis.values for name, axis in family.axes.items()}
    on_target: TargetDomains = {**axes, **target_domains(targets)}
    launch: Domains = {**{name: axis.values for name, axis in family.launch.items()}, **LAUNCH_FIELDS}
    faults: list[Fault] = []
    if not (templates / family.template).is_file():
        known = [path.name for path in sorted(templates.glob("*.j2"))]
        faults.append(unknown_name("template", family.template, known, source, ("template",), key=False))
    faults += [
        Fault(
            source.where(("axes", name), key=True), f"{name} is taken", "a name that commands and launches do not use"
        )
        for name in family.axes
        if name in LAUNCH_FIELDS or name in RESERVED_NAMES
    ]
    faults += _check_promises(family, source)
    faults += _check_values(family.axes, "axes", source)
    faults += _check_values(family.launch, "launch", source)
    faults += [
        Fault(source.where(("launch", name, "values")), f"{field.values}", "[false, true] for a field with a feature")
        for name, field in family.launch.items()
        if field.feature and field.values != [False, True]
    ]
    faults += [
        Fault(
            source.where(("launch", name), key=True),
            f"{name} is taken",
            "a name that no axis and no built-in field has",
        )
        for name in family.launch
        if name in axes or name in LAUNCH_FIELDS
    ]
    for index, constraint in enumerate(family.constraints):
        for key in ("when", "require"):
            faults += check_predicate(getattr(constraint, key), ("constraints", index, key), source, on_target)
    faults += _check_arguments(family, source, axes)
    faults += _check_constants(family, source, {**axes, **launch}, on_target)
    faults += _check_grid(family, source, {**axes, **launch})
    faults += _check_candidates(family, source, on_target, launch)
    faults += _check_dispatch(family, source, axes, on_target)
    for index, item in enumerate(family.preferences):
        faults += check_predicate(item.when, ("preferences", index, "when"), source, on_target)
    for index, rule in enumerate(family.instructions):
        faults += check_predicate(rule.when, ("instructions", index, "when"), source, {**on_target, **launch})
        if not rule.require and not rule.forbid:
            where = source.where(("instructions", index))
            faults.append(Fault(where, "a rule that asks for nothing", "require, forbid or both"))
    return faults


def target_domains(targets: Collection[TargetFile]) -> dict[str, Collection[Any] | None]:
    """What each target fact can be.  A backend may be named without a target of it, so that families can be shared."""
    facts = [target_facts(target) for target in targets]
    seen = {name: tuple({fact[name]: None for fact in facts}) if facts else None for name in TARGET_FACTS}
    return {**seen, "target.backend": tuple(REQUIRED_BUDGETS)}


def unknown_name(
    kind: str, name: str, known: Iterable[str], source: YamlSource, path: KeyPath, *, key: bool = True
) -> Fault:
    names = sorted(known)
    return Fault(source.where(path, key=key), f"unknown {kind} {name!r}", ", ".join(names), did_you_mean(name, names))


def _check_values(axes: Mapping[str, Axis], section: str, source: YamlSource) -> list[Fault]:
    faults: list[Fault] = []
    for name, axis in axes.items():
        path: KeyPath = (section, name, "values")
        kinds = {type(value).__name__ for value in axis.values}
        if len(kinds) > 1:
            faults.append(
                Fault(source.where(path), f"values of types {', '.join(sorted(kinds))}", "values of one type")
            )
        faults += _check_once(axis.values, path, source)
    return faults


def _check_once(values: list[Any], path: KeyPath, source: YamlSource) -> list[Fault]:
    return [
        Fault(source.where((*path, index)), f"{spell(value)} twice", "each value once")
        for index, value in enumerate(values)
        if any(same(value, earlier) for earlier in values[:index])
    ]


def _check_arguments(family: FamilyFile, source: YamlSource, axes: Domains) -> list[Fault]:
    faults: list[Fault] = []
    seen: dict[str, ArgumentSpec] = {}
    pointers = {argument.name: argument for argument in family.arguments if argument.kind == "pointer"}
    for index, argument in enumerate(family.arguments):
        path: KeyPath = ("arguments", index)
        if argument.name in seen:
            faults.append(Fault(source.where((*path, "name")), f"{argument.name} twice", "each argument once"))
        seen[argument.name] = argument
        faults += check_predicate(argument.when, (*path, "when"), source, axes)
        faults += check_predicate(argument.within_2gib or {}, (*path, "within_2gib"), source, axes)
        faults += _check_argument_keys(argument, path, source)
        faults += _check_dtype_by(argument, path, source, axes)
        faults += _check_alignment(argument, path, source, axes)
        if argument.of is None:
            continue
        if argument.of not in pointers:
            faults.append(unknown_name("pointer argument", argument.of, pointers, source, (*path, "of"), key=False))
        elif not faults and _outlives(argument, pointers[argument.of], axes):
            given = f"{argument.name} in problems without {argument.of}"
            faults.append(Fault(source.where((*path, "of")), given, f"a when that implies that of {argument.of}"))
        elif argument.dim is not None and argument.dim not in (shape := pointers[argument.of].shape or []):
            faults.append(
                unknown_name(f"dimension of {argument.of}", argument.dim, shape, source, (*path, "dim"), key=False)
            )
    return faults


def _outlives(number: ArgumentSpec, pointer: ArgumentSpec, axes: Domains) -> bool:
    """Whether some problem has the stride or size and not the pointer that it is of."""
    names = [name for name in axes if name in number.when or name in pointer.when]
    problems = (dict(zip(names, values, strict=True)) for values in itertools.product(*(axes[name] for name in names)))
    return any(holds(number.when, problem) and not holds(pointer.when, problem) for problem in problems)


_KEYS_OF_KIND = {"pointer": {"role", "shape"}, "size": {"of", "dim"}, "stride": {"of", "dim"}, "scalar": set()}


def _check_argument_keys(argument: ArgumentSpec, path: KeyPath, source: YamlSource) -> list[Fault]:
    where = source.where(path)
    faults: list[Fault] = []
    if (argument.dtype is None) == (argument.dtype_by is None):
        faults.append(Fault(where, f"{argument.name}: dtype and dtype_by", "exactly one of the two"))
    for key in ("role", "shape", "of", "dim"):
        needed = key in _KEYS_OF_KIND[argument.kind]
        if needed and getattr(argument, key) is None:
            faults.append(Fault(where, f"{argument.name}: no {key}", f"{key} on every {argument.kind}"))
        if not needed and getattr(argument, key) is not None:
            faults.append(
                Fault(
                    source.where((*path, key), key=True),
                    f"{argument.name}: {key}",
                    f"no {key} on a {argument.kind}",
                )
            )
    if argument.kind != "pointer" and argument.within_2gib is not None:
        faults.append(Fault(source.where((*path, "within_2gib"), key=True), "within_2gib", "on pointers only"))
    if argument.kind in ("scalar", "size") and argument.alignment is not None:
        faults.append(Fault(source.where((*path, "alignment"), key=True), "alignment", "on pointers and strides only"))
    dtypes = {dtype for choices in (argument.dtype_by or {}).values() for dtype in choices.values()}
    dtypes |= {argument.dtype} if argument.dtype else set()
    if argument.kind in ("size", "stride") and not dtypes <= {"i32", "i64"}:
        given = f"{argument.name}: {', '.join(sorted(dtypes))}"
        faults.append(Fault(source.where((*path, "dtype")), given, f"i32 or i64 for a {argument.kind}"))
    return faults


def _check_dtype_by(argument: ArgumentSpec, path: KeyPath, source: YamlSource, axes: Domains) -> list[Fault]:
    if argument.dtype_by is None:
        return []
    here = (*path, "dtype_by")
    if len(argument.dtype_by) != 1:
        return [Fault(source.where(here), f"{len(argument.dtype_by)} axes", "exactly one axis")]
    ((axis, choices),) = argument.dtype_by.items()
    if axis not in axes:
        return [unknown_name("axis", axis, axes, source, (*here, axis))]
    missing = [spell(value) for value in axes[axis] if spell(value) not in choices]
    faults = [
        Fault(source.where((*here, axis)), f"no dtype for {value}", f"one for every value of {axis}")
        for value in missing
    ]
    known = [spell(value) for value in axes[axis]]
    faults += [
        unknown_name(f"value of {axis}", value, known, source, (*here, axis, value))
        for value in choices
        if value not in known
    ]
    return faults


def _check_alignment(argument: ArgumentSpec, path: KeyPath, source: YamlSource, axes: Domains) -> list[Fault]:
    alignment = argument.alignment
    if alignment is None:
        return []
    here = (*path, "alignment")
    if (alignment.bytes is None) == (alignment.axis is None):
        return [Fault(source.where(here), "alignment", "either bytes or axis")]
    if alignment.axis is None:
        return []
    if alignment.axis not in axes:
        return [unknown_name("axis", alignment.axis, axes, source, (*here, "axis"), key=False)]
    wrong = [value for value in axes[alignment.axis] if type(value) is not int or value not in (1, 2, 4, 8, 16)]
    return [Fault(source.where((*here, "axis")), f"{value} bytes", "1, 2, 4, 8 or 16 bytes") for value in wrong]


def _check_constants(family: FamilyFile, source: YamlSource, names: Domains, on_target: TargetDomains) -> list[Fault]:
    faults: list[Fault] = []
    for constant, rule in family.constants.items():
        path: KeyPath = ("constants", constant)
        given = rule.source()
        if len(given) != 1:
            faults.append(Fault(source.where(path), f"{len(given)} rules", "value_of, next_power_of_two or literal"))
        for key, name in given.items():
            if key != "literal" and name not in names:
                faults.append(unknown_name("axis or launch field", name, names, source, (*path, key), key=False))
            elif key == "next_power_of_two" and not all(type(v) is int and v > 0 for v in names[name]):
                faults.append(Fault(source.where((*path, key)), f"next_power_of_two: {name}", "positive integers only"))
        if rule.at_least is not None:
            faults += check_predicate(rule.at_least.when, (*path, "at_least", "when"), source, on_target)
    return faults


def _check_grid(family: FamilyFile, source: YamlSource, names: Domains) -> list[Fault]:
    shapes = {dim for argument in family.arguments for dim in argument.shape or ()}
    # A tensor of batch_plus_1 elements tells the batch too.
    of_tensors = shapes | {dim.removesuffix("_plus_1") for dim in shapes}
    faults = [
        Fault(source.where(("dimensions", name), key=True), f"{name} is taken", "a name that no tensor's dimension has")
        for name in family.dimensions
        if name in of_tensors
    ]
    known = of_tensors | family.dimensions.keys()
    for axis, terms in enumerate(family.grid):
        for index, term in enumerate(terms):
            path: KeyPath = ("grid", axis, index)
            dims, slash, per_program = term.partition("/")
            unknown = [dim for dim in dims.split("*") if dim not in known]
            faults += [unknown_name("dimension", dim, known, source, path, key=False) for dim in unknown]
            if slash:
                faults += _check_per_program(per_program, family, names, source, path)
    return faults


def _check_per_program(name: str, family: FamilyFile, names: Domains, source: YamlSource, path: KeyPath) -> list[Fault]:
    """What a program takes of a dimension: a constant, or an axis or launch field of positive integers."""
    if name in family.constants:
        literal = family.constants[name].literal
        return (
            [] if literal is None or literal > 0 else [Fault(source.where(path), f"{name} is {literal}", "at least 1")]
        )
    if name not in names:
        known = [*names, *family.constants]
        return [unknown_name("constant, axis or launch field", name, known, source, path, key=False)]
    if all(type(value) is int and value > 0 for value in names[name]):
        return []
    return [Fault(source.where(path), name, "a constant, axis or launch field of positive integers")]


def _check_candidates(family: FamilyFile, source: YamlSource, on_target: TargetDomains, launch: Domains) -> list[Fault]:
    faults: list[Fault] = []
    for index, group in enumerate(family.candidates):
        faults += check_predicate(group.when, ("candidates", index, "when"), source, on_target)
        for number, item in enumerate(group.launches):
            path: KeyPath = ("candidates", index, "launches", number)
            given = item.model_dump()
            decided = [name for name, field in family.launch.items() if field.feature]
            faults += [
                Fault(source.where((*path, name), key=True), name, "nothing: the target's features decide it")
                for name in decided
                if name in given
            ]
            missing = [name for name in launch if name not in given and name not in decided]
            if missing:
                faults.append(
                    Fault(source.where(path), f"no {', '.join(missing)}", f"all of {', '.join(sorted(launch))}")
                )
            faults += check_predicate(given, path, source, launch)
    return faults


def _check_promises(family: FamilyFile, source: YamlSource) -> list[Fault]:
    """What a kernel is compiled for by an axis must be asked of a call, or a row would answer calls it is wrong for.

    Alignments in plain bytes are the family's contract with every caller, whichever row answers.
    """
    faults: list[Fault] = []
    for index, argument in enumerate(family.arguments):
        axis = argument.alignment.axis if argument.alignment else None
        if axis in family.axes and family.dispatch.get(axis) != "multiple_of":
            where = source.where(("arguments", index, "alignment"))
            hint = f"add `{axis}: multiple_of` to dispatch"
            faults.append(Fault(where, f"{argument.name} promises {axis}, which no call is asked for", "", hint))
        if argument.within_2gib is not None and not any(
            condition.at_most is not None
            and condition.at_most <= _LARGEST_32_BIT
            and argument.name in condition.extent_of
            and condition.when.items() <= argument.within_2gib.items()
            for condition in family.conditions
        ):
            where = source.where(("arguments", index, "within_2gib"), key=True)
            hint = f"add a condition at_most {_LARGEST_32_BIT} with it in extent_of, under the same `when`"
            faults.append(Fault(where, f"{argument.name} promises 2 GiB, which no call is asked for", "", hint))
    return faults


def _check_dispatch(family: FamilyFile, source: YamlSource, axes: Domains, on_target: TargetDomains) -> list[Fault]:
    faults: list[Fault] = []
    for name, how in family.dispatch.items():
        if name not in axes:
            faults.append(unknown_name("axis", name, axes, source, ("dispatch", name)))
        elif how != "equal" and not all(type(value) is int for value in axes[name]):
            faults.append(Fault(source.where(("dispatch", name)), f"{name}: {how}", "equal, as the axis is no integer"))
    for index, condition in enumerate(family.conditions):
        path: KeyPath = ("conditions", index)
        faults += check_predicate(condition.when, (*path, "when"), source, on_target)
        if len(condition.limits()) != 1:
            given = f"{condition.field}: {len(condition.limits())} limits"
            faults.append(Fault(source.where(path), given, "one of equal, multiple_of, at_least and at_most"))
        pointers = {argument.name for argument in family.arguments if argument.kind == "pointer"}
        dims = {dim for argument in family.arguments for dim in argument.shape or ()} | family.dimensions.keys()
        for name in condition.product_of:
            if name not in dims:
                faults.append(unknown_name("dimension", name, dims, source, (*path, "product_of")))
        for name in condition.extent_of:
            if name not in pointers:
                faults.append(unknown_name("pointer", name, pointers, source, (*path, "extent_of")))
        if condition.field in RESERVED_NAMES:
            faults.append(Fault(source.where((*path, "field")), f"{condition.field} is taken", "another name"))
        if condition.field in axes:
            where = source.where((*path, "field"))
            faults.append(
                Fault(where, f"{condition.field} is an axis", "a field that is no axis", "list it in dispatch")
            )
    return faults
