"""Conditions that no event can satisfy, and conditions that every event satisfies.

A predicate is taken apart into cases, an OR of ANDs, and each case into what it allows each
attribute: an interval of numbers, a set of constants, NULL or not. It never holds if every case
contradicts itself, and always holds (of events that have the attributes) if its negation never
does. Text is compared for equality only, since times may be written in several ways. What is not
understood is taken to be satisfiable. At most `_MOST_CASES` cases.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property

from cernis.errors import Diagnostic, Span
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.query import Pattern
from cernis.pattern.variables import bound_variables, single_variables
from cernis.pattern.write import write_condition

NEVER, ALWAYS = "never-holds", "always-holds"

_MOST_CASES = 64
_OPPOSITE: dict[pred.Operator, pred.Operator] = {
    "=": "!=",
    "!=": "=",
    "<": ">=",
    ">=": "<",
    ">": "<=",
    "<=": ">",
}

Case = tuple[pred.Predicate, ...]
"""Simple predicates that must all hold."""


def find_settled_conditions(pattern: Pattern) -> Iterator[Diagnostic]:
    """Yield a warning for each condition whose truth does not depend on the events."""
    for node in pattern.nodes:
        if isinstance(node, cel.Filter):
            yield from _check_condition(node.condition, _ConditionScope(node.body))


class _ConditionScope:
    """The formula that a condition is about; how many events its variables hold."""

    def __init__(self, body: cel.Formula) -> None:
        self._body = body

    @cached_property
    def bound(self) -> frozenset[str]:
        """The variables that hold at least one event."""
        return bound_variables(self._body)

    @cached_property
    def single(self) -> frozenset[str]:
        """The variables that hold exactly one event."""
        return single_variables(self._body)


def _check_condition(condition: pred.Condition, scope: _ConditionScope) -> Iterator[Diagnostic]:
    by_variable: dict[str, list[pred.Holds]] = {}
    for part in pred.conjuncts(condition):
        match part:
            case pred.Holds(variable=variable):
                by_variable.setdefault(variable, []).append(part)
            case pred.AnyOf(parts=parts):
                for each in parts:
                    yield from _check_condition(each, scope)
            case pred.Compare(op="<" | ">", left=left, right=right, adjacent=False, shift=None):
                if left == right:
                    yield _compares_itself(part)
            case pred.CompareTerms():
                if (held := _to_predicate(part, scope)) is not None:
                    by_variable.setdefault(held.variable, []).append(held)
                else:
                    yield from _check_terms(part, scope)
    for several in by_variable.values():
        yield from _check_predicates(several)


def _to_predicate(condition: pred.CompareTerms, scope: _ConditionScope) -> pred.Holds | None:
    """Return `x[a] < 3` as `x[a < 3]`, where x is one event."""
    op, span = condition.op, condition.span
    match condition.left, condition.right:
        case pred.Reference(variable=x, attribute=a), pred.Literal() as right:
            test = pred.Comparison(op, a, right, span=span)
        case pred.Literal() as left, pred.Reference(variable=x, attribute=a):
            test = pred.Comparison(op, left, a, span=span)
        case _:
            return None
    return pred.Holds(x, test, span=span) if x in scope.single else None


def _check_predicates(several: list[pred.Holds]) -> Iterator[Diagnostic]:
    """Check the predicates that the events of one variable must all satisfy."""
    impossible = [one for one in several if never_holds(one.predicate)]
    for one in impossible:
        offer = _offer(one, pred.And, pred.Or) or _offer_name(one)
        yield _never_holds(write_condition(one), one.span, offer)
    if not impossible and len(several) > 1 and never_holds(pred.And(_predicates(several))):
        spans = [one.span for one in several]
        either = write_condition(pred.Holds(several[0].variable, pred.Or(_predicates(several))))
        written = " AND ".join(map(write_condition, several))
        yield _never_holds(written, _cover(spans), f"if one of them is enough: {either}")
    for one in several:
        if never_holds(pred.Negation(one.predicate), nan=False):
            names = dict.fromkeys(each.name for each in pred.attributes_of(one.predicate))
            unless = f", unless {' or '.join(names)} is NULL or NaN" if names else ""
            yield Diagnostic(
                f"{write_condition(one)} always holds{unless}",
                one.span,
                suggestion=_offer(one, pred.Or, pred.And),
                code=ALWAYS,
            )


def _predicates(several: list[pred.Holds]) -> tuple[pred.Predicate, ...]:
    return tuple(one.predicate for one in several)


def _never_holds(written: str, span: Span | None, suggestion: str | None) -> Diagnostic:
    return Diagnostic(f"no event can satisfy {written}", span, suggestion=suggestion, code=NEVER)


def _offer(
    one: pred.Holds, written: type[pred.And | pred.Or], meant: type[pred.And | pred.Or]
) -> str | None:
    """Return the condition with the other one of AND and OR."""
    if not isinstance(one.predicate, written):
        return None
    other = pred.Holds(one.variable, meant(one.predicate.parts))
    if never_holds(other.predicate) or never_holds(pred.Negation(other.predicate), nan=False):
        return None
    which = "one of them is enough" if meant is pred.Or else "all of them must hold"
    return f"if {which}: {write_condition(other)}"


def _offer_name(one: pred.Holds) -> str | None:
    """Return the condition with the attribute that was written in quotes."""
    match one.predicate:
        case pred.Comparison(
            op=op, left=pred.Literal(value=str(name)), right=pred.Literal() as right
        ):
            meant = pred.Holds(one.variable, pred.Comparison(op, pred.Attribute((name,)), right))
            return f"attributes have no quotes: {write_condition(meant)}"
    return None


def _compares_itself(condition: pred.Compare) -> Diagnostic:
    name, attribute = condition.left.variable, condition.left.attribute.name
    word = "INCREASING" if condition.op == "<" else "DECREASING"
    return Diagnostic(
        f"{write_condition(condition)} never holds: every event of {name} is compared with itself",
        condition.span,
        suggestion=f"to compare each event with the next: {name} {word} BY {attribute}",
        code=NEVER,
    )


def _check_terms(condition: pred.CompareTerms, scope: _ConditionScope) -> Iterator[Diagnostic]:
    """Check a comparison of COUNT(x) with a number."""
    op, left, right = condition.op, condition.left, condition.right
    if isinstance(left, pred.Literal):
        op, left, right = pred.MIRRORED[op], right, left
    match left, right:
        case pred.Aggregate("COUNT", str(name), False), pred.Literal(
            value=int() | float() | Decimal() as most
        ):
            least, is_single = int(name in scope.bound), name in scope.single
        case _:
            return
    reach = _Reach(low=least, high=1 if is_single else None)
    written = write_condition(condition)
    several = "one event" if is_single else "at least one event" if least else "none or more"
    if not reach.copy().narrow(op, most):
        message = f"{written} never holds: {name} has {several}"
        yield Diagnostic(message, condition.span, code=NEVER)
    elif not reach.copy().narrow(_OPPOSITE[op], most):
        message = f"{written} always holds: {name} has {several}"
        yield Diagnostic(message, condition.span, code=ALWAYS)


def _cover(spans: list[Span | None]) -> Span | None:
    known = [span for span in spans if span is not None]
    return Span(known[0].start, known[-1].end) if known else None


# ------------------------------------------------------------------ cases


def never_holds(predicate: pred.Predicate, *, nan: bool = True) -> bool:
    """Whether no event satisfies a predicate; False where that is not known.

    NaN satisfies `NOT a < 5` and `NOT a >= 5` alike; without `nan`, no attribute is NaN.
    """
    cases = _list_cases(predicate, True, _asks_for_null(predicate))
    return cases is not None and all(_contradicts(case, nan) for case in cases)


def _asks_for_null(predicate: pred.Predicate) -> bool:
    """Whether IS NULL stands in a predicate: only then it counts which attributes others name."""
    match predicate:
        case pred.Negation(body=body):
            return _asks_for_null(body)
        case pred.And(parts=parts) | pred.Or(parts=parts):
            return any(map(_asks_for_null, parts))
    return isinstance(predicate, pred.IsNull)


def _list_cases(predicate: pred.Predicate, holds: bool, nulls: bool) -> list[Case] | None:
    """Return the cases in which a predicate holds (or does not); None if they are too many.

    A part that contradicts nothing is a case without predicates. Without `nulls`, no part asks
    for NULL.
    """
    match predicate:
        case pred.Negation(body=body):
            return _list_cases(body, not holds, nulls)
        case pred.And(parts=parts) | pred.Or(parts=parts):
            together = isinstance(predicate, pred.And) == holds
            each = []
            for part in parts:
                cases = _list_cases(part, holds, nulls)
                if cases == [()]:
                    if not together:
                        return cases
                    continue
                each.append(cases)
            return _combine(each, together)
        case pred.Comparison() if not nulls and _is_silent(predicate, holds):
            return [()]
        case pred.InRange(body=body, low=low, high=high):
            ends = pred.Comparison(">=", body, low), pred.Comparison("<=", body, high)
            return [ends] if holds else [(pred.Negation(end),) for end in ends]
        case pred.InSet(body=body, values=values) if not holds:
            return [tuple(pred.Comparison("!=", body, value) for value in values)]
        case pred.InSet(body=body, values=values) if len(values) <= _MOST_CASES:
            return [(pred.Comparison("=", body, value),) for value in values]
        case pred.Comparison() if not holds:
            return [(pred.Negation(predicate),)]
        case pred.IsNull(body=body, negated=negated) if not holds:
            return [(pred.IsNull(body, not negated),)]
        case pred.Like() if not holds:
            return [()]
        case _:
            return [(predicate,)]


def _is_silent(predicate: pred.Comparison, holds: bool) -> bool:
    """Whether a comparison, or its negation, bounds no attribute."""
    return _read_comparison(predicate if holds else pred.Negation(predicate)) is None


def _combine(each: list[list[Case] | None], together: bool) -> list[Case] | None:
    cases: list[Case] = [()] if together else []
    for some in each:
        if some is None:
            return None
        size = len(cases) * len(some) if together else len(cases) + len(some)
        if size > _MOST_CASES:
            return None
        cases = [a + b for a in cases for b in some] if together else [*cases, *some]
    return cases


# ------------------------------------------------------ what a case allows


@dataclass
class _Reach:
    """The numbers that an attribute may be: an interval without some points."""

    low: pred.Number | None = None
    low_open: bool = False
    high: pred.Number | None = None
    high_open: bool = False
    excluded: set[pred.Number] = field(default_factory=set)

    def copy(self) -> _Reach:
        return _Reach(self.low, self.low_open, self.high, self.high_open, set(self.excluded))

    def narrow(self, op: pred.Operator, value: pred.Number) -> bool:
        """Take a comparison into account; return whether any number is left."""
        if op in (">", ">=", "=") and (self.low is None or value >= self.low):
            is_open = op == ">" or (value == self.low and self.low_open)
            self.low, self.low_open = value, is_open
        if op in ("<", "<=", "=") and (self.high is None or value <= self.high):
            is_open = op == "<" or (value == self.high and self.high_open)
            self.high, self.high_open = value, is_open
        if op == "!=":
            self.excluded.add(value)
        elif op == "=" and not (self.low == self.high == value):
            return False
        if self.low is None or self.high is None or self.low < self.high:
            return True
        point = self.low == self.high and not self.low_open and not self.high_open
        return point and self.low not in self.excluded


def _contradicts(case: Case, nan: bool) -> bool:
    """Whether no event satisfies all predicates of a case."""
    reaches: dict[str, _Reach] = {}
    texts: dict[str, set[str]] = {}
    nulls: dict[str, bool] = {}
    empty: set[str] = set()
    no_nan: set[str] = set()
    for predicate in case:
        for name, is_null in _list_nulls(predicate):
            if nulls.setdefault(name, is_null) != is_null:
                return True
        is_negated = isinstance(predicate, pred.Negation)
        match _read_comparison(predicate):
            case None:
                pass
            case bool(truth):
                if not truth and not (is_negated and nan):
                    return True
            case name, op, str(text):
                if op == "=":
                    texts.setdefault(name, set()).add(text)
                    no_nan.add(name)
            case name, op, value:
                if not reaches.setdefault(name, _Reach()).narrow(op, value):
                    empty.add(name)
                if not is_negated and op != "!=":
                    no_nan.add(name)
    if any(len(some) > 1 and not any(map(_may_be_time, some)) for some in texts.values()):
        return True
    return any(not nan or name in no_nan for name in empty)


def _list_nulls(predicate: pred.Predicate) -> Iterator[tuple[str, bool]]:
    """Yield the attributes that must be NULL, or must not, for a simple predicate to hold."""
    if isinstance(predicate, pred.IsNull) and not predicate.negated:
        if isinstance(predicate.body, pred.Attribute):
            yield predicate.body.name, True
        return
    for attribute in pred.attributes_of(predicate):
        yield attribute.name, False


def _read_comparison(
    predicate: pred.Predicate,
) -> bool | tuple[str, pred.Operator, str | pred.Number] | None:
    """Return a comparison of an attribute with a constant; its truth if there is no attribute."""
    is_negated = isinstance(predicate, pred.Negation)
    predicate = predicate.body if isinstance(predicate, pred.Negation) else predicate
    if not isinstance(predicate, pred.Comparison):
        return None
    written = _OPPOSITE[predicate.op] if is_negated else predicate.op
    op, left, right = written, predicate.left, predicate.right
    if isinstance(left, pred.Literal):
        op, left, right = pred.MIRRORED[op], right, left
    match left, right:
        case pred.Attribute(name=name), pred.Literal(value=value) if not isinstance(value, bool):
            return name, op, value if isinstance(value, str) else pred.to_exact(value)
        case pred.Attribute(), pred.Attribute() if left == right and op in ("<", ">"):
            return False
        case pred.Literal(value=one), pred.Literal(value=other):
            if pred.is_number(one) and pred.is_number(other):
                return pred.compare_values(written, other, one)
            if isinstance(one, str) and isinstance(other, str) and written == "=":
                return one == other
    return None


def _may_be_time(text: str) -> bool:
    """Whether another text may stand for the same value."""
    return text[:1].isdigit() or text[:1] in "+-"
