"""The predicate of a spec's `when` and `require`: a small typed form, never code.

when      = { name : test , ... }           all must hold; the empty mapping always holds
test      = value                           equal, and of the same type
          | [ value , ... ]                 one of these
          | { operator : operand , ... }    all must hold
operator  = "not" (value or list) | "at_least" | "at_most" | "multiple_of" (integer) | "contains" | "lacks" (value)
name      = an axis, a launch field, or one of target.name, target.backend, target.arch, target.wavefront_size,
            target.features
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from assay.bundle.faults import Fault, did_you_mean

from .yaml_source import KeyPath, YamlSource

INTEGER_OPERATORS = ("at_least", "at_most", "multiple_of")
LIST_OPERATORS = ("contains", "lacks")
OPERATORS = ("not", *LIST_OPERATORS, *INTEGER_OPERATORS)


def same(a: Any, b: Any) -> bool:
    """Equality without coercion: 1 is not True, 4 is not '4'."""
    return type(a) is type(b) and a == b


def holds(when: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
    """Whether every test of a checked predicate holds for `facts`, which has a value for each name it uses."""
    return all(test_holds(test, facts[name]) for name, test in when.items())


def test_holds(test: Any, value: Any) -> bool:
    """Whether one test of a checked predicate holds for the value of its name."""
    if isinstance(test, dict):
        return all(_operator_holds(operator, operand, value) for operator, operand in test.items())
    return _is_one_of(test, value)


def _is_one_of(test: Any, value: Any) -> bool:
    return any(same(item, value) for item in test) if isinstance(test, list) else same(test, value)


def _operator_holds(operator: str, operand: Any, value: Any) -> bool:
    match operator:
        case "not":
            return not _is_one_of(operand, value)
        case "contains":
            return operand in value
        case "lacks":
            return operand not in value
        case "at_least":
            return value >= operand
        case "at_most":
            return value <= operand
        case "multiple_of":
            return value % operand == 0
    raise AssertionError(f"unchecked operator {operator}")


def check_predicate(
    when: Mapping[str, Any], path: KeyPath, source: YamlSource, domains: Mapping[str, Collection[Any] | None]
) -> list[Fault]:
    """Everything wrong with a predicate.

    `domains` maps each name that may be used to the values it can take, or to None where they are not known.
    """
    faults: list[Fault] = []
    for name, test in when.items():
        here = (*path, name)
        if name not in domains:
            allowed = ", ".join(sorted(domains))
            where = source.where(here, key=True)
            faults.append(Fault(where, f"unknown name {name!r}", allowed, did_you_mean(name, domains)))
        elif (domain := domains[name]) is not None:
            faults.extend(_check_test(name, test, here, source, domain))
    return faults


def _check_test(name: str, test: Any, path: KeyPath, source: YamlSource, domain: Collection[Any]) -> list[Fault]:
    if not isinstance(test, dict):
        return _check_values(name, test, path, source, domain)
    faults: list[Fault] = []
    if not test:
        faults.append(Fault(source.where(path), "an empty test", "a value, a list of values or an operator"))
    for operator, operand in test.items():
        here = (*path, operator)
        if operator not in OPERATORS:
            given, allowed = f"unknown operator {operator!r}", ", ".join(OPERATORS)
            faults.append(Fault(source.where(here, key=True), given, allowed, did_you_mean(operator, OPERATORS)))
        elif operator == "not":
            faults.extend(_check_values(name, operand, here, source, domain))
        elif operator in INTEGER_OPERATORS:
            faults.extend(_check_integer(operator, operand, here, source, domain))
        else:
            faults.extend(_check_list_operator(operator, operand, here, source, domain))
    return faults


def _check_list_operator(
    operator: str, operand: Any, path: KeyPath, source: YamlSource, domain: Collection[Any]
) -> list[Fault]:
    if not all(isinstance(value, tuple) for value in domain):
        return [Fault(source.where(path, key=True), operator, "on a list only, as target.features is")]
    known = sorted({item for value in domain for item in value})
    if any(same(item, operand) for item in known):
        return []
    # A name that no list holds would exclude every problem, or none, without a word.
    given = f"{_spell(operand)}, which no target has"
    return [Fault(source.where(path), given, ", ".join(known), did_you_mean(operand, known))]


def _check_integer(
    operator: str, operand: Any, path: KeyPath, source: YamlSource, domain: Collection[Any]
) -> list[Fault]:
    if type(operand) is not int or (operator == "multiple_of" and operand < 1):
        return [Fault(source.where(path), f"{operator}: {operand!r}", "an integer")]
    if not all(type(value) is int for value in domain):
        return [Fault(source.where(path, key=True), operator, "on integers only")]
    return []


def _check_values(name: str, test: Any, path: KeyPath, source: YamlSource, domain: Collection[Any]) -> list[Fault]:
    values = test if isinstance(test, list) else [test]
    if not values:
        return [Fault(source.where(path), "an empty list, which nothing satisfies", "at least one value")]
    numbers = all(type(value) is int for value in domain)
    allowed = ", ".join(_spell(value) for value in (sorted(domain) if numbers else domain))
    return [
        Fault(
            source.where((*path, index) if isinstance(test, list) else path),
            f"{name} is never {_spell(value)}",
            allowed,
            _value_hint(value, domain),
        )
        for index, value in enumerate(values)
        if not any(same(value, known) for known in domain)
    ]


def _value_hint(value: Any, domain: Collection[Any]) -> str:
    for known in domain:
        if str(known) == str(value):
            return f"{_spell(value)} is {type(value).__name__}, {_spell(known)} is {type(known).__name__}"
    return did_you_mean(value, [str(known) for known in domain])


def _spell(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}'" if isinstance(value, str) and value.lstrip("-").isdigit() else str(value)
