"""Build formulas: event types and what combines them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.builder.arguments import Written, check_name, check_whole, refuse, show
from cernis.pattern.builder.conditions import ConditionBuilder, Property, refer_to, unwrap_condition
from cernis.pattern.builder.durations import make_gap, make_window
from cernis.pattern.builder.predicates import PredicateBuilder, make_attribute, unwrap_predicate
from cernis.pattern.formula import Gap
from cernis.pattern.write import write_formula


@dataclass(frozen=True, slots=True)
class FormulaBuilder(Written):
    """A formula being built; every method gives a new one."""

    formula: cel.Formula
    chained: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return write_formula(self.formula)

    def __bool__(self) -> bool:
        raise refuse("a formula has no truth value in Python", "combine with >> | & instead")

    def as_(self, variable: str) -> FormulaBuilder:
        """`φ AS x`."""
        return FormulaBuilder(cel.As(self.formula, check_name(variable, "a variable")))

    def where(self, test: PredicateBuilder) -> FormulaBuilder:
        """`φ FILTER x[P]` for a single event, or for what `as_` has just named."""
        match self.formula:
            case cel.As(variable=name) | cel.Event(type=name):
                return FormulaBuilder(
                    cel.Filter(self.formula, pred.Holds(name, unwrap_predicate(test)))
                )
            case cel.Filter(body=cel.As(variable=name)) | cel.Filter(body=cel.Event(type=name)):
                return FormulaBuilder(
                    cel.Filter(self.formula, pred.Holds(name, unwrap_predicate(test)))
                )
            case _:
                raise refuse(
                    f"where() needs an event or a named formula, not {self}",
                    "name it with as_() first, or use filter(p.var('x')[…])",
                )

    def filter(self, condition: ConditionBuilder) -> FormulaBuilder:
        """`φ FILTER condition`."""
        return FormulaBuilder(cel.Filter(self.formula, unwrap_condition(condition)))

    def plus(
        self, *, contiguous: bool = False, follow: bool = False, gap: Gap | timedelta | None = None
    ) -> FormulaBuilder:
        """`φ+`, `φ:+` or, with `follow`, `φ->+`: one or more times; `φ+[gap]`."""
        link = _make_link(contiguous, follow, gap)
        return FormulaBuilder(cel.Iterate(self.formula, 1, None, *link))

    def times(
        self,
        low: int,
        high: int | None = -1,
        *,
        contiguous: bool = False,
        follow: bool = False,
        gap: Gap | timedelta | None = None,
    ) -> FormulaBuilder:
        """`φ{low}`, `φ{low,high}`, or with high None `φ{low,}`; with `follow` `φ->{low}`."""
        least = check_whole(low, "the lower bound")
        most = least if high == -1 else high
        if most is not None:
            most = check_whole(most, "the upper bound")
        if least < 0 or (most is not None and most < max(least, 1)):
            raise refuse(f"times({low}, {most}) allows no number of repetitions")
        link = _make_link(contiguous, follow, gap)
        return FormulaBuilder(cel.Iterate(self.formula, least, most, *link))

    def optional(self) -> FormulaBuilder:
        """`φ?`."""
        return FormulaBuilder(cel.Optional(self.formula))

    def unless(self, guard: FormulaBuilder | str) -> FormulaBuilder:
        """`φ UNLESS ψ`: no ψ lies strictly inside."""
        return FormulaBuilder(cel.Unless(self.formula, make_formula(guard)))

    def within(
        self,
        length: timedelta | None = None,
        *,
        events: int | None = None,
        attribute: str | None = None,
        size: float | Decimal | Fraction | None = None,
        **units: float | Decimal | Fraction,
    ) -> FormulaBuilder:
        """`(φ WITHIN w)`, with the arguments of the query's `within`."""
        window = make_window(length, events, attribute, size, units)
        return FormulaBuilder(cel.Within(self.formula, window))

    def partition_by(self, *keys: str | Property) -> FormulaBuilder:
        """`(φ PARTITION BY [a])`, or with p.var('x')['a'] for each variable."""
        if not keys:
            raise refuse("partition_by() needs an attribute")
        return FormulaBuilder(cel.PartitionBy(self.formula, tuple(map(_make_key, keys))))

    def _chain(
        self, node: type[cel.Sequence | cel.Choice | cel.All], other: object
    ) -> FormulaBuilder:
        mine = self.formula
        plain = not isinstance(mine, cel.Sequence) or not mine.separators
        head = mine.parts if self.chained and isinstance(mine, node) and plain else (mine,)
        return FormulaBuilder(node((*head, make_formula(other))), chained=True)

    def __rshift__(self, other: FormulaBuilder | str) -> FormulaBuilder:
        return self._chain(cel.Sequence, other)

    def __or__(self, other: FormulaBuilder | str) -> FormulaBuilder:
        return self._chain(cel.Choice, other)

    def __and__(self, other: FormulaBuilder | str) -> FormulaBuilder:
        return self._chain(cel.All, other)


def _make_link(
    contiguous: bool, follow: bool, between: Gap | timedelta | None
) -> tuple[bool, cel.Separator]:
    """Return how the rounds of an iteration follow each other."""
    if contiguous and (follow or between is not None):
        raise refuse("contiguous rounds have nothing between them", "leave out follow and gap")
    return contiguous, cel.Separator(follow, make_gap(between))


def _make_key(key: str | Property) -> cel.KeyPart:
    if isinstance(key, Property):
        reference = refer_to(key, "partition_by()")
        return cel.KeyPart(reference.variable, reference.attribute)
    return cel.KeyPart(None, make_attribute((check_name(key, "an attribute"),)))


_NAME = re.compile(r"[\w \-./#@]+")
_KEYWORDS = frozenset({"AS", "IN", "OR", "ALL", "NOT", "FILTER", "UNLESS", "WITHIN", "PARTITION"})


def make_formula(part: object) -> cel.Formula:
    """Return a formula; text is the name of an event type, and must not look like CEQL."""
    match part:
        case FormulaBuilder(formula=formula):
            return formula
        case str():
            name = check_name(part, "an event type")
            if name != "*" and (not _NAME.fullmatch(name) or _KEYWORDS & {*name.split()}):
                raise refuse(
                    f"text names an event type here, but {show(name)} looks like a formula",
                    "build the formula, as in p.seq('A', 'B'), or write the whole query as text; "
                    f"for a type of this name write p.event({show(name)})",
                )
            return cel.Event(name)
        case (
            cel.Event()
            | cel.Not()
            | cel.As()
            | cel.Sequence()
            | cel.Contiguous()
            | cel.Choice()
            | cel.All()
            | cel.Iterate()
            | cel.Optional()
            | cel.Filter()
            | cel.PartitionBy()
            | cel.Within()
            | cel.Unless()
        ):
            return part
        case _:
            raise refuse(f"expected a formula such as p.event('A'), not {show(part)}")


def _make_parts(what: str, parts: tuple[object, ...]) -> tuple[cel.Formula, ...]:
    if len(parts) < 2:
        raise refuse(f"{what}() needs at least two formulas")
    return tuple(map(make_formula, parts))


def event(type_: str, *, stream: str | None = None) -> FormulaBuilder:
    """`E`, or `S>E`."""
    source = None if stream is None else check_name(stream, "a stream")
    return FormulaBuilder(cel.Event(check_name(type_, "an event type"), source))


def no(body: FormulaBuilder | str) -> FormulaBuilder:
    """`NOT E`, `NOT (E FILTER P)`: one event that is not such an E."""
    return FormulaBuilder(cel.Not(make_formula(body)))


def seq(*parts: FormulaBuilder | str, gap: Gap | timedelta | None = None) -> FormulaBuilder:
    """`φ ; ψ`: some time later; with a gap `φ ;[gap] ψ`."""
    made = _make_parts("seq", parts)
    separators = (cel.Separator(gap=make_gap(gap)),) * (len(made) - 1)
    return FormulaBuilder(cel.Sequence(made, separators))


def follow(*parts: FormulaBuilder | str, gap: Gap | timedelta | None = None) -> FormulaBuilder:
    """`φ -> ψ`: each part begins with the first event that fits; with a gap `φ ->[gap] ψ`.

    >>> print(follow("DEPLOY", event("FAILURE").plus()))
    DEPLOY -> FAILURE+
    """
    made = _make_parts("follow", parts)
    separators = (cel.Separator(True, make_gap(gap)),) * (len(made) - 1)
    return FormulaBuilder(cel.Sequence(made, separators))


def then(*parts: FormulaBuilder | str) -> FormulaBuilder:
    """`φ : ψ`: right after."""
    return FormulaBuilder(cel.Contiguous(_make_parts("then", parts)))


def either(*parts: FormulaBuilder | str) -> FormulaBuilder:
    """`φ OR ψ`."""
    return FormulaBuilder(cel.Choice(_make_parts("either", parts)))


def all_of(*parts: FormulaBuilder | str) -> FormulaBuilder:
    """`φ ALL ψ`: in any order."""
    return FormulaBuilder(cel.All(_make_parts("all_of", parts)))
