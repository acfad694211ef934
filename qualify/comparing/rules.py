"""Rules for what a change may touch: `--allow code,family=merge_splits` and `--only target=gfx1201,reader=packed`.

    rule   = item ("," item)*
    item   = aspect | name "=" value        ; of --only the second alone
    aspect = one of records.ASPECTS
    name   = "target" | "family" | an axis

A rule covers a difference where it names the difference's aspect, or none at all, and the variant has one of the
values that it gives for each name.  A variant without that axis is not covered: a rule says what may change, and what
it does not speak of must not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from assay.bundle import Fault
from assay.bundle.faults import did_you_mean

from .errors import CompareError
from .records import ASPECTS, Aspect, Pair


@dataclass(frozen=True, slots=True)
class Rule:
    """option and text: as given.  aspects: none for all.  values: name -> any of which will do."""

    option: str
    text: str
    aspects: frozenset[str]
    values: Mapping[str, tuple[str, ...]]

    def speaks_of(self, facts: Mapping[str, str]) -> bool:
        """Whether a variant of this target, family and axes is one of those that it names."""
        return all(facts.get(name) in values for name, values in self.values.items())

    def allows(self, facts: Mapping[str, str], aspect: Aspect) -> bool:
        """Whether this may differ.  Who allows other code allows renamed registers."""
        named = not self.aspects or aspect in self.aspects or (aspect == "renamed" and "code" in self.aspects)
        return named and self.speaks_of(facts)

    def __str__(self) -> str:
        return f"{self.option} {self.text}"


def parse_rules(allow: Iterable[str], only: Iterable[str]) -> tuple[Rule, ...]:
    """The rules of both options.  Raises CompareError with everything wrong in them."""
    faults: list[Fault] = []
    rules = [_parse("--allow", text, faults) for text in allow] + [_parse("--only", text, faults) for text in only]
    if faults:
        raise CompareError(faults)
    return tuple(rules)


def _parse(option: str, text: str, faults: list[Fault]) -> Rule:
    where = f"{option} {text}"
    items = [item.strip() for item in text.split(",")]
    aspects = [item for item in items if item in ASPECTS]
    if option == "--only":
        faults += [Fault(where, repr(item), "NAME=VALUE[,…]", f"--allow {text} may name it") for item in aspects]
    values: dict[str, tuple[str, ...]] = {}
    if others := ",".join(item for item in items if item not in ASPECTS):
        try:
            values = parse_values(where, others, ASPECTS if option == "--allow" else ())
        except CompareError as error:
            faults += error.faults
    elif "" in items:
        faults.append(Fault(where, "''", "NAME=VALUE[,…]"))
    return Rule(option, text, frozenset(aspects), values)


def parse_values(where: str, text: str, also: Sequence[str] = ()) -> dict[str, tuple[str, ...]]:
    """`family=decode_attention,block_m=4,block_m=8`: a name given twice means either value.

    also: words that may stand for an item, for the message.  Raises CompareError.
    """
    values: dict[str, tuple[str, ...]] = {}
    faults = []
    for item in text.split(","):
        name, equals, value = item.strip().partition("=")
        if not (name and equals and value):
            faults.append(Fault(where, repr(item.strip()), ", ".join(["NAME=VALUE", *also]), did_you_mean(name, also)))
        values[name] = (*values.get(name, ()), value)
    if faults:
        raise CompareError(faults)
    return values


def check_rules(rules: Sequence[Rule], variants: Sequence[Mapping[str, str]]) -> None:
    """Raises CompareError for a name, a value or a combination that no variant of either side has.

    A misspelt rule would otherwise prove that nothing else changed, of everything.
    """
    faults = [fault for rule in rules for fault in value_faults(str(rule), rule.values, variants)]
    if not faults:
        given = "no variant of either side has these values together"
        faults = [Fault(str(rule), given, "at least one") for rule in rules if not any(map(rule.speaks_of, variants))]
    if faults:
        raise CompareError(faults)


def value_faults(
    where: str, values: Mapping[str, tuple[str, ...]], variants: Iterable[Mapping[str, str]]
) -> list[Fault]:
    """Names and values that no variant has, each with the nearest that there is."""
    known: dict[str, set[str]] = {}
    for facts in variants:
        for name, value in facts.items():
            known.setdefault(name, set()).add(value)
    faults = []
    for name, wanted in values.items():
        if name not in known:
            faults.append(Fault(where, f"{name}: no such name", ", ".join(sorted(known)), did_you_mean(name, known)))
            continue
        for value in wanted:
            if value not in known[name]:
                allowed = ", ".join(sorted(known[name], key=lambda text: (len(text), text)))
                faults.append(Fault(where, f"{name}={value}: no such value", allowed, did_you_mean(value, known[name])))
    return faults


def violations(pair: Pair, rules: Iterable[Rule]) -> tuple[Aspect, ...]:
    """The aspects in which a pair differs and no rule allows it to."""
    rules, facts = tuple(rules), pair.entry.facts
    return tuple(a for a in pair.aspects if not any(rule.allows(facts, a) for rule in rules))
