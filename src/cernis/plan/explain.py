"""What a plan says of itself: the class, why, what it keeps, how it can be distributed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from cernis.automata.construct import compares
from cernis.automata.render import as_mermaid, as_text
from cernis.pattern import formula as cel
from cernis.pattern.query import Consume, Strategy, Unit
from cernis.pattern.write import write_condition
from cernis.plan.plan import Distribution, Guarantee, Plan


@dataclass(frozen=True, slots=True)
class Explanation:
    """`str()` is the report; `mermaid()` the automaton as a diagram."""

    plan: Plan
    notes: tuple[str, ...] = ()

    def mermaid(self) -> str:
        return as_mermaid(self.plan.cea)

    def __str__(self) -> str:
        lines = [f"query        {self.plan.pattern}"]
        lines += _entry("class", _guarantee(self.plan))
        lines += _entry("window", [_window(self.plan)])
        lines += _entry("partition", _partition(self.plan))
        lines += _entry("strategy", [_strategy(self.plan)])
        lines += _entry("events", [_relevance(self.plan)])
        lines += _entry("distributed", [_distributed(self.plan)])
        lines += _entry("note", list(self.notes))
        lines += _entry("automaton", [_size(self.plan), *as_text(self.plan.cea).splitlines()])
        return "\n".join(lines)


def _entry(name: str, lines: Sequence[str]) -> list[str]:
    return [f"{name if i == 0 else '':<12} {line}" for i, line in enumerate(lines)]


def _guarantee(plan: Plan) -> list[str]:
    if plan.guarantee is Guarantee.UNARY and not plan.listed:
        return [
            "unary: every condition looks at one event at a time",
            "per event: O(automaton), whatever the window and the partial matches",
            "between two matches: linear in the match",
            "counting and sampling: without enumerating",
        ]
    if plan.guarantee is Guarantee.UNARY:
        return [
            f"unary, but listed: {plan.pattern.strategy.value} where a match may begin with NOT",
            "is decided match by match",
            "per event: O(automaton)",
        ]
    return [
        "residual: these conditions compare events with each other",
        *(f"  {text}" for text in _residual(plan.pattern.formula)),
        "which is checked on each candidate after enumeration; counting enumerates too",
        "per event: O(automaton)",
        "between two matches: no bound; a budget guards the number of candidates",
    ]


def _residual(formula: cel.Formula) -> Iterator[str]:
    for node in cel.walk(formula):
        match node:
            case cel.Filter(condition=condition) if compares(condition):
                yield f"FILTER {write_condition(condition)}"
            case cel.PartitionBy(keys=keys):
                named = ", ".join(
                    f"{key.variable}[{key.attribute.name}]" if key.variable else key.attribute.name
                    for key in keys
                )
                yield f"PARTITION BY [{named}]"


def _window(plan: Plan) -> str:
    within = plan.pattern.within
    if within is None:
        return "none: partial matches are kept for ever (WITHIN bounds memory)"
    if within.unit is Unit.EVENTS:
        return f"{_number(within.size)} events"
    if within.unit is Unit.TIME:
        return f"{_number(within.size / 10**9)} seconds"
    name = within.attribute.name if within.attribute else ""
    return f"{_number(within.size)} units of {name}, which must never decrease"


def _number(size: Fraction) -> str:
    return str(size.numerator) if size.denominator == 1 else str(float(size))


def _partition(plan: Plan) -> list[str]:
    if not plan.pattern.partition:
        return []
    groups = ", ".join(" or ".join(group) for group in plan.pattern.partition)
    return [f"by {groups}; idle keys leave with the window"]


def _strategy(plan: Plan) -> str:
    how = {
        Strategy.ALL: "every match",
        Strategy.STRICT: "by the automaton: no event may be skipped",
        Strategy.NEXT: "by the automaton for each start, then the earliest start",
        Strategy.LAST: "by the latest events, on the compact set",
        Strategy.ANY: "the first of LAST, on the compact set",
        Strategy.MAX: "by the automaton for each start, then those inside others drop",
    }[plan.pattern.strategy]
    if plan.listed and plan.pattern.strategy is not Strategy.ALL:
        how = "decided match by match"
    return f"{plan.pattern.strategy.value}: {how}"


def _relevance(plan: Plan) -> str:
    if _contiguous(plan):
        return "contiguity: no event can be passed over while a match waits"
    return "one that no transition can see costs a look-up"


def _contiguous(plan: Plan) -> bool:
    """Whether events may not be passed over somewhere in a match."""
    return plan.pattern.strategy is Strategy.STRICT or any(
        isinstance(node, cel.Contiguous) or (isinstance(node, cel.Iterate) and node.contiguous)
        for node in cel.walk(plan.pattern.formula)
    )


def _distributed(plan: Plan) -> str:
    match plan.distribution:
        case Distribution.KEYED:
            groups = ", ".join("|".join(group) for group in plan.pattern.partition)
            return f"keyed: by {groups}"
        case Distribution.SLICED:
            return "sliced: overlapping slices of time, each match where it ends"
        case Distribution.SINGLE:
            if plan.pattern.consume is not Consume.NONE:
                return "single: CONSUME BY looks at all matches before"
            return "single: add PARTITION BY or WITHIN to make it parallel"


def _size(plan: Plan) -> str:
    reads = sum(len(reads) for reads in plan.cea.reads)
    return f"{plan.cea.size} states, {reads} transitions, {len(plan.cea.atoms())} predicates"
