"""Rewrite conditions on terms as conditions that an automaton decides while it reads.

- A term of one variable with one event is a value of that event: `2 * x[a] > 5` is
  `x[2 * a > 5]`, and every aggregate of one event is its value.
- A comparison of the values of two such events is one of attributes, which an index can keep:
  `b[p] >= 1.01 * a[p]` compares `p` with the calculated attribute `1.01 * p`, and so does `=`.
- A condition on the difference of two events is one on bounds that one of them has (`distances`).
- `COUNT(x) >= 3` is `{3,}` if x holds the events of one iteration of single events, and the like.
- `MAX(x[a]) <= 5` of such an iteration asks each event (NULLs are left out), and needs one that has
  a value; `MAX(x[a]) >= 5` needs one event. So do MIN, FIRST and LAST: the iteration is split at
  the first such event. Beside `MAX(x[a]) >= 5`, `MIN(x[a]) > 2` asks each event, and needs no more.
  Elsewhere every event is asked, which prunes, and candidates are checked.
- `PREV(x)[a] + 5 > y[b]` compares calculated attributes of neighbours, `a + 5` and `b`: each side
  looks at one of the two events.
- `x INCREASING BY a` is `PREV(x)[a] < x[a]` if nothing of the match stands between two events of x.
- `y[a] < LAST(x[a])` of such an iteration compares y with one event, the last of x that has a
  value: an index keeps the order where that is the neighbour of y. Where events without a value
  follow it, the two are compared while matches are listed. FIRST likewise.
- `NOT x[P]` of one event is `x[NOT P]`, and `NOT a[u] = b[u]` of two is `a[u] != b[u]`. Of an order
  it is no other order, because of NaN.
- AND and OR are rewritten part by part.
- Beside a calculated number a decimal counts as the nearest float: where the events have decimals,
  `b[p] >= 2 * a[p]` compares the calculated attribute `p + 0`.

Everything else stays as it is, and is checked on candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple, cast

from cernis.automata.correlated.pcea import EVERY_INDEX, Unindexed
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.check.scopes import is_single_event
from cernis.pattern.functions import FUNCTIONS
from cernis.pattern.guard import split_guard
from cernis.pattern.query import Pattern
from cernis.pattern.variables import single_variables
from cernis.pattern.waits import list_waits
from cernis.pattern.write import name_calculated, write_condition, write_term
from cernis.plan.distances import compare_distance

_MOST_ROUNDS = 100
"""Larger bounds unroll the automaton too far; such counts are checked on candidates."""


def lower_terms(pattern: Pattern, unindexed: Unindexed = EVERY_INDEX) -> Pattern:
    """Return the pattern with the conditions on terms that automata decide rewritten.

    `unindexed` names the decimals that stand beside calculated numbers.

    >>> from cernis.languages.ceql import parse
    >>> text = "SELECT * WHERE (A AS a ; B+ AS b) FILTER 2 * a[v] > 5 AND b INCREASING BY v"
    >>> print(lower_terms(parse(text)))
    SELECT * WHERE (A AS a ; B+ AS b) FILTER a[2 * v > 5] AND PREV(b)[v] < b[v]
    """
    return _Lowering(pattern, unindexed).pattern


def find_decimals(
    leaf: pred.Compare, decimals: Container[str], whole: Container[str] = ()
) -> Iterator[str]:
    """Yield the decimals of a comparison that stand beside a calculated number (`Unindexed`).

    A number that is calculated from attributes that are `whole` is compared exactly.

    >>> from cernis.languages.ceql import parse
    >>> text = "SELECT * WHERE (A AS a ; B AS b) FILTER 2 * a[v] > b[v]"
    >>> list(find_decimals(lower_terms(parse(text)).formula.condition, {"v"}))
    ['v beside (2 * v)']
    """
    for side, other in ((leaf.left, leaf.right), (leaf.right, leaf.left)):
        value = _read_number(side.attribute)
        is_decimal = isinstance(value, pred.Attribute) and value.name in decimals
        calculated = _read_number(other.attribute)
        if is_decimal and _gives_float(calculated) and not _is_whole(calculated, whole):
            yield _stand_beside(side, other)


def _stand_beside(side: pred.Reference, other: pred.Reference) -> str:
    return f"{side.attribute.name} beside {other.attribute.name}"


def _read_number(attribute: pred.Attribute) -> pred.Value | None:
    """Return the number that an attribute is, without its sign."""
    value: pred.Value | None = attribute.own_value
    if attribute.term is not None:
        value = _to_value(cast(pred.MatchTerm, attribute.term))
    while isinstance(value, pred.Negative):
        value = value.body
    return value


def _gives_float(value: pred.Value | None) -> bool:
    """Whether decimals become floats in a calculation."""
    if not isinstance(value, pred.Call):
        return isinstance(value, pred.Arithmetic)
    function = FUNCTIONS[value.function]
    takes_number = "number" in function.takes[:1]
    return takes_number and function.gives in ("number", "same") and not function.is_whole


def _is_whole(value: pred.Value | None, whole: Container[str]) -> bool:
    match value:
        case pred.Literal(value=number):
            return isinstance(number, int)
        case pred.Attribute(name=name):
            return name in whole
        case pred.Negative(body=body):
            return _is_whole(body, whole)
        case pred.Arithmetic(op=op, left=left, right=right):
            return op != "/" and _is_whole(left, whole) and _is_whole(right, whole)
    return False


def list_decided(pattern: Pattern) -> tuple[str, ...]:
    """Return the conditions on whole iterations that the automaton decides.

    >>> from cernis.languages.ceql import parse
    >>> list_decided(parse("SELECT * WHERE B+ AS b FILTER MAX(b[v]) < 5 AND SUM(b[v]) < 9"))
    ('MAX(b[v]) < 5',)
    """
    return tuple(map(write_condition, _Lowering(pattern).decided))


class _Lowering:
    """A pattern with its conditions rewritten."""

    def __init__(self, pattern: Pattern, unindexed: Unindexed = EVERY_INDEX) -> None:
        self.unindexed = unindexed
        self.decided: list[pred.Condition] = []
        """The conditions that iterations have taken up."""
        # what fits an arrow is told by the conditions on its event: they must not become more
        self.splits = next(list_waits(pattern.formula), None) is None
        self.pattern = replace(pattern, formula=self._lower(pattern.formula))

    def _lower(self, node: cel.Formula) -> cel.Formula:
        match node:
            case cel.Filter(body=body, condition=condition):
                body, left = self._count_rounds(body, condition)
                lowered = None if left is None else _lower_condition(left, body)
                if lowered is not None:  # a range is several conditions
                    lowered = pred.conjoin([*pred.conjuncts(self._adapt(lowered))], lowered.span)
                body = self._lower(body)
                if lowered is not None and self.splits:
                    body, lowered = self._split_rounds(body, lowered)
                return body if lowered is None else replace(node, body=body, condition=lowered)
            case cel.Unless(body=body, guard=guard):
                split = split_guard(guard)
                inner = cel.put_filter(self._lower(split.formula), split.conditions)
                return replace(node, body=self._lower(body), guard=inner)
            case _:
                return cel.map_children(node, self._lower)

    def _adapt(self, condition: pred.Condition) -> pred.Condition:
        """Return a condition as the indexes are to decide it that the events allow."""
        match condition:
            case pred.AllOf(parts=parts) | pred.AnyOf(parts=parts):
                return replace(condition, parts=tuple(map(self._adapt, parts)))
            case pred.Compare(op="=" | "!=", origin=pred.CompareTerms() as origin) if (
                self.unindexed.far
            ):
                return origin
            case pred.Compare(left=left, right=right):
                known = self.unindexed.decimals
                one = _to_float(left) if _stand_beside(left, right) in known else left
                other = _to_float(right) if _stand_beside(right, left) in known else right
                return replace(condition, left=one, right=other)
        return condition

    def _count_rounds(
        self, body: cel.Formula, condition: pred.Condition
    ) -> tuple[cel.Formula, pred.Condition | None]:
        """Return the body with the bounds that counts give, and what is left of the condition."""
        left: list[pred.Condition] = []
        for part in pred.conjuncts(condition):
            bounds = _read_bounds(part)
            tightened = None if bounds is None else _tighten(body, *bounds)
            if tightened is None:
                left.append(part)
            else:
                self.decided.append(part)
                body = tightened
        return body, pred.conjoin(left, condition.span) if left else None

    def _split_rounds(
        self, body: cel.Formula, condition: pred.Condition
    ) -> tuple[cel.Formula, pred.Condition | None]:
        """Return the body with iterations split at an event, and what is left of the condition."""
        left: list[pred.Condition] = []
        present, known = _find_present(condition), set[tuple[str, pred.Attribute]]()
        # bounds on every event come last: whether some event has a value may be known then
        for part in sorted(pred.conjuncts(condition), key=_is_bound):
            split = _read_split(part)
            changed = None
            if split is not None:
                is_known = split.bounds is not None and (split.variable, split.bounds) in known
                changed = body if is_known else _change_rounds(body, split.variable, split.apply)
            if changed is not None and split is not None:
                self.decided.append(part)
                if changed is body and split.every is not None:
                    left.append(pred.Holds(split.variable, split.every, span=part.span))
                elif split.finds is not None:
                    known.add((split.variable, split.finds))
                body = changed
                continue
            ends = _compare_ends(part, body, present)
            if ends is not None:
                body, part = ends
            left.append(part)
            if split is not None and split.every is not None:
                asked = pred.Holds(split.variable, split.every, span=part.span)
                if asked not in pred.conjuncts(condition):
                    left.append(asked)
        return body, pred.conjoin(left, condition.span) if left else None


# ------------------------------------------------------------- COUNT(x) op n


def _read_bounds(condition: pred.Condition) -> tuple[str, int, int | None] | None:
    """Return x with the least and the greatest number of `COUNT(x) op n`."""
    match condition:
        case pred.CompareTerms(op=op, left=pred.Literal(), right=pred.Aggregate() as count):
            return _read_bounds(pred.CompareTerms(pred.MIRRORED[op], count, condition.left))
        case pred.CompareTerms(
            op=op,
            left=pred.Aggregate(function="COUNT", argument=str(variable)),
            right=pred.Literal(value=int(n)),
        ) if not isinstance(n, bool) and 0 <= n <= _MOST_ROUNDS:
            bounds = {">=": (n, None), ">": (n + 1, None), "<=": (0, n), "<": (0, n - 1)}
            low, high = bounds.get(op, (n, n))
            return None if op == "!=" else (variable, low, high)
    return None


Change = Callable[[cel.Iterate], cel.Formula | None]


def _change_rounds(node: cel.Formula, variable: str, change: Change) -> cel.Formula | None:
    """Return the formula with another iteration of the events that the variable holds."""
    match node:
        case cel.As(variable=name, body=cel.Iterate() as body) if name == variable:
            rounds = None if _mentions(body, variable) else change(body)
            return None if rounds is None else replace(node, body=rounds)
        case cel.Iterate(body=cel.As(variable=name)) if name == variable:
            return change(node)
        case cel.Iterate(body=cel.Event(type=name)) if name == variable:
            return change(node)
        case cel.Sequence(parts=parts) | cel.Contiguous(parts=parts):
            holding = [i for i, part in enumerate(parts) if _mentions(part, variable)]
            if len(holding) != 1:
                return None
            part = _change_rounds(parts[holding[0]], variable, change)
            if part is None:
                return None
            return replace(node, parts=(*parts[: holding[0]], part, *parts[holding[0] + 1 :]))
        case cel.As() | cel.Filter() | cel.PartitionBy() | cel.Within():
            inside = _change_rounds(node.body, variable, change)
            return None if inside is None else replace(node, body=inside)
        case _:
            return None


def _tighten(node: cel.Formula, variable: str, low: int, high: int | None) -> cel.Formula | None:
    """Return the formula with bounds on the iteration whose events the variable holds."""
    return _change_rounds(node, variable, lambda rounds: _tighten_rounds(rounds, low, high))


def _tighten_rounds(node: cel.Iterate, low: int, high: int | None) -> cel.Iterate | None:
    if not is_single_event(node.body):
        return None
    least = max(node.low, low)
    most = min((each for each in (node.high, high) if each is not None), default=None)
    if most is not None and most < max(least, 1):
        return None
    return replace(node, low=least, high=most)


# ---------------------------------------------------------- MAX(x[a]) op c, …


class _Split(NamedTuple):
    """A condition that holds if an event of x passes `at`, those before it and after it as well.

    None: any event does.
    """

    variable: str
    before: pred.Predicate | None
    at: pred.Predicate
    after: pred.Predicate | None
    every: pred.Predicate | None = None
    """What every event passes."""
    finds: pred.Attribute | None = None
    """What the event has a number of."""
    bounds: pred.Attribute | None = None
    """What every event is asked for, with no more asked of that one."""
    name: str | None = None
    """A hidden variable for the event."""
    is_first: bool = False
    is_last: bool = False
    """Whether there are no events of x before it, or after it."""

    def apply(self, node: cel.Iterate) -> cel.Formula | None:
        """Return the iteration with its rounds before and after the event apart."""
        is_plain = node.low <= 1 and node.high is None and node.separator == cel.LATER
        if not is_plain or not is_single_event(node.body):
            return None
        before, after = (self.repeat(node, test) for test in (self.before, self.after))
        at = self.ask(node, self.at)
        if self.name is not None:
            at = cel.As(at, self.name, hidden=True)
        parts = (before,) * (not self.is_first) + (at,) + (after,) * (not self.is_last)
        if len(parts) == 1:
            return at
        return cel.Contiguous(parts) if node.contiguous else cel.Sequence(parts)

    def ask(self, node: cel.Iterate, test: pred.Predicate | None) -> cel.Formula:
        """Return one round whose event passes a test."""
        body = node.body
        if not _mentions(body, self.variable):
            body = cel.As(body, self.variable)
        return body if test is None else cel.Filter(body, pred.Holds(self.variable, test))

    def repeat(self, node: cel.Iterate, test: pred.Predicate | None) -> cel.Formula:
        """Return any number of rounds whose events pass a test."""
        return cel.Optional(cel.Iterate(self.ask(node, test), contiguous=node.contiguous))


_WORSE: Mapping[str, tuple[pred.Operator, ...]] = {"MAX": ("<", "<=", "="), "MIN": (">", ">=", "=")}
"""The comparisons that one more event can only make false."""
_OUTSIDE: Mapping[str, pred.Operator] = {"MAX": ">", "MIN": "<"}


def _read_split(condition: pred.Condition) -> _Split | None:
    """Return how `MAX(x[a]) op c`, MIN, FIRST or LAST is decided event by event."""
    match condition:
        case pred.CompareTerms(op=op, left=pred.Literal(), right=pred.Aggregate() as term):
            return _read_split(pred.CompareTerms(pred.MIRRORED[op], term, condition.left))
        case pred.CompareTerms(
            op=op,
            left=pred.Aggregate(function=function, argument=pred.Reference() as side),
            right=pred.Literal(value=int() | float() | Decimal()) as limit,
        ) if not isinstance(limit.value, bool):
            x, a = side.variable, side.attribute
            at, is_null = pred.Comparison(op, a, limit), pred.IsNull(a)
            if function == "FIRST":
                return _Split(x, is_null, at, None)
            if function == "LAST":
                return _Split(x, None, at, is_null)
            if function not in _WORSE or op == "!=":
                return None
            before = pred.Or((pred.Negation(at), is_null))
            if op not in _WORSE[function]:
                return _Split(x, before, at, None, finds=a)
            outside = _OUTSIDE[function] if op == "=" else pred.OPPOSITE[op]
            every = pred.Or((pred.Negation(pred.Comparison(outside, a, limit)), is_null))
            bounds = None if op == "=" else a
            return _Split(x, pred.And((before, every)), at, every, every, finds=a, bounds=bounds)
    return None


def _is_bound(condition: pred.Condition) -> bool:
    """Whether a condition asks every event of an iteration that has a value."""
    split = _read_split(condition)
    return split is not None and split.bounds is not None


# ------------------------------------------------------- y[a] < LAST(x[a])


class _End(NamedTuple):
    """A value of the first or the last event of a variable; or of its only one."""

    function: str | None
    variable: str
    attribute: pred.Attribute | None
    """The attribute that the event must have; None for the only one."""
    value: pred.Value

    @property
    def name(self) -> str:
        return self.variable if self.function is None else f"{self.function}({self.variable})"

    def split(self, present: Container[tuple[str, str]]) -> _Split:
        """Return how an iteration is split at the event.

        Where every event has the attribute (`present`), it is the first or the last of all.
        """
        assert self.attribute is not None
        is_null, is_first = pred.IsNull(self.attribute), self.function == "FIRST"
        before, after = (is_null, None) if is_first else (None, is_null)
        found = _Split(self.variable, before, pred.Negation(is_null), after, name=self.name)
        if (self.variable, self.attribute.name) in present:
            found = found._replace(is_first=is_first, is_last=not is_first)
        return found


class _FirstAndLast(NamedTuple):
    """The first and the last event of one variable that have an attribute, compared."""

    one: _Split
    other: _Split
    alone: pred.Predicate
    """What the event passes if it is both."""

    def apply(self, node: cel.Iterate) -> cel.Formula | None:
        """Return the iteration as one event that is both, or as two with others between."""
        single = self.one._replace(name=None, at=pred.And((self.one.at, self.alone)))
        first, last = sorted((self.one, self.other), key=lambda end: end.before is None)
        single = single._replace(before=first.before, after=last.after)
        single = single._replace(is_first=first.is_first, is_last=last.is_last)
        alone = single.apply(node)
        begun, ended = first._replace(is_last=True), last._replace(is_first=True)
        parts = begun.apply(node), first.repeat(node, None), ended.apply(node)
        if alone is None or parts[0] is None or parts[2] is None:
            return None
        between = (parts[0], parts[1], parts[2])
        return cel.Choice(
            (alone, cel.Contiguous(between) if node.contiguous else cel.Sequence(between))
        )


def _find_present(condition: pred.Condition) -> set[tuple[str, str]]:
    """Return the attributes that each event of a variable has, by the conditions on it alone."""
    found: set[tuple[str, str]] = set()
    for part in pred.conjuncts(condition):
        if isinstance(part, pred.Holds):
            tests = [part.predicate]
            while tests:
                match tests.pop():
                    case pred.And(parts=parts):
                        tests += parts
                    case pred.Comparison(left=left, right=right):
                        sides = (*pred.attributes_of(left), *pred.attributes_of(right))
                        found |= {(part.variable, side.name) for side in sides}
                    case (
                        pred.IsNull(body=pred.Attribute() as attribute, negated=True)
                        | pred.Negation(body=pred.IsNull(pred.Attribute() as attribute, False))
                    ):
                        found.add((part.variable, attribute.name))
    return found


def _compare_ends(
    condition: pred.Condition, body: cel.Formula, present: Container[tuple[str, str]]
) -> tuple[cel.Formula, pred.Condition] | None:
    """Return the body with names for the ends of iterations, and the comparison of these events."""
    if not isinstance(condition, pred.CompareTerms):
        return None
    ends = [_read_end(term, body) for term in (condition.left, condition.right)]
    one, other = ends
    if one is None or other is None:
        return None
    if one.variable == other.variable:
        if one.function == other.function or one.attribute != other.attribute:
            return None
        alone = pred.Comparison(condition.op, one.value, other.value)
        both = _FirstAndLast(one.split(present), other.split(present), alone)
        changed = _change_rounds(body, one.variable, both.apply)
        if changed is None:
            return None
        body = changed
    for end in (one, other):
        if end.function is not None and one.variable != other.variable:
            changed = _change_rounds(body, end.variable, end.split(present).apply)
            if changed is None:
                return None
            body = changed
    left, right = (
        pred.Reference(end.name, name_calculated(end.value), span=condition.span)
        for end in (one, other)
    )
    return body, pred.Compare(condition.op, left, right, span=condition.span)


def _read_end(term: pred.MatchTerm, body: cel.Formula) -> _End | None:
    """Return a term that looks at one attribute of one event of an iteration, or at one event."""
    value, names = _to_value(term), set(pred.variables_of(term))
    if value is None or len(names) != 1:
        return None
    variable = names.pop()
    if variable in single_variables(body):
        return _End(None, variable, None, value)
    leaves = {
        (part.function, part.argument.attribute)
        for part in pred.walk_term(term)
        if isinstance(part, pred.Aggregate) and isinstance(part.argument, pred.Reference)
    }
    others = any(
        isinstance(part, pred.Reference)
        or (isinstance(part, pred.Aggregate) and not isinstance(part.argument, pred.Reference))
        for part in pred.walk_term(term)
    )
    if others or len(leaves) != 1:
        return None
    function, attribute = leaves.pop()
    return _End(function, variable, attribute, value) if function in ("FIRST", "LAST") else None


# ------------------------------------------------------------------ other terms


def _lower_condition(condition: pred.Condition, body: cel.Formula) -> pred.Condition:
    """Return a condition rewritten."""
    match condition:
        case pred.AllOf(parts=parts) | pred.AnyOf(parts=parts):
            return replace(condition, parts=tuple(_lower_condition(p, body) for p in parts))
        case pred.CompareTerms(op=op, left=left, right=right, span=span):
            sides = {*pred.variables_of(left)}, {*pred.variables_of(right)}
            names = sides[0] | sides[1]
            one, other = _to_value(left), _to_value(right)
            if one is None or other is None or not names <= single_variables(body):
                return compare_distance(condition, body) or condition
            if len(names) == 1:
                test = pred.Comparison(op, one, other, span=span)
                return pred.Holds(names.pop(), test, span=span)
            if len(sides[0]) == len(sides[1]) == 1:
                former, latter = (
                    pred.Reference(variables.pop(), name_calculated(value), span=span)
                    for variables, value in zip(sides, (one, other), strict=True)
                )
                origin = condition if op in ("=", "!=") else None
                return pred.Compare(op, former, latter, origin=origin, span=span)
            return compare_distance(condition, body) or condition
        case pred.CompareNeighbours():
            return _compare_columns(condition)
        case pred.Denied(body=denied, span=span):
            lowered = _lower_condition(denied, body)
            if isinstance(lowered, pred.Holds) and lowered.variable in single_variables(body):
                return replace(lowered, predicate=pred.Negation(lowered.predicate), span=span)
            names = {*pred.leaf_variables(denied)}
            match lowered:
                case pred.Compare(op="=" | "!=", origin=pred.CompareTerms() as origin) if (
                    names <= single_variables(body)
                ):
                    opposite = replace(origin, op=pred.OPPOSITE[origin.op], span=span)
                    return _lower_condition(opposite, body)
                case (
                    pred.Compare(op="=" | "!=", adjacent=False) | pred.CompareTerms(op="=" | "!=")
                ) if names <= single_variables(body):
                    return replace(lowered, op=pred.OPPOSITE[lowered.op], span=span)
        case pred.Monotone(variable=variable, attribute=attribute, op=op, span=span):
            if _is_run(body, variable):
                side = pred.Reference(variable, attribute, span=span)
                return pred.Compare(op, side, side, adjacent=True, span=span)
    return condition


def _to_float(side: pred.Reference) -> pred.Reference:
    """Return the nearest float of a decimal."""
    attribute = side.attribute
    if attribute.term is None:
        value = pred.Arithmetic("+", attribute.own_value, pred.Literal(0))
        return replace(side, attribute=name_calculated(value))
    term = pred.Calculation("+", attribute.term, pred.Literal(0))
    return replace(side, attribute=pred.Attribute((f"({write_term(term)})",), term=term))


def _compare_columns(condition: pred.CompareNeighbours) -> pred.Condition:
    """Return the comparison of calculated attributes, if each side looks at one of the events.

    A difference of times is written as a sum first, which is exact: `y[b] - PREV(x)[a] < 5 MINUTES`
    is `PREV(x)[a] + 5 MINUTES > y[b]`. For numbers it is not.
    """
    op, left, right = condition.op, condition.left, condition.right
    if isinstance(left, pred.ConstantDuration):
        left, right, op = right, left, pred.MIRRORED[op]
    match left, right:
        case pred.Calculation(op="-", left=one, right=other), pred.ConstantDuration() if (
            right.nanoseconds.denominator == 1
        ):
            left, right = one, pred.Calculation("+", other, right)
    if pred.list_pair_sides(left) == {False}:
        left, right, op = right, left, pred.MIRRORED[op]
    sides = pred.list_pair_sides(left), pred.list_pair_sides(right)
    if op == "!=" or sides != ({True}, {False}):
        return condition
    former, latter = (
        pred.Reference(
            variable,
            pred.Attribute((f"({write_term(term)})",), term=cast(pred.PairTerm, term)),
            span=term.span,
        )
        for variable, term in zip(condition.variables, (left, right), strict=True)
    )
    span = condition.span
    return pred.Compare(op, former, latter, adjacent=True, origin=condition, span=span)


def _to_value(term: pred.MatchTerm) -> pred.Value | None:
    """Return a term of one variable with one event as a value of that event."""
    match term:
        case pred.Literal():
            return term
        case pred.Reference(attribute=attribute):
            return attribute.own_value
        case pred.Aggregate(function="COUNT", argument=str()):
            return pred.Literal(1)
        case pred.Aggregate(function=function, argument=pred.Reference(attribute=attribute)):
            return None if function in ("COUNT", "AVG") else attribute.own_value
        case pred.Opposite(body=body):
            value = _to_value(body)
            return None if value is None else pred.Negative(value)
        case pred.Calculation(op=op, left=left, right=right):
            one, other = _to_value(left), _to_value(right)
            return None if one is None or other is None else pred.Arithmetic(op, one, other)
        case pred.TermCall(function=function, arguments=arguments):
            values = [_to_value(each) for each in arguments]
            known = tuple(value for value in values if value is not None)
            return pred.Call(function, known) if len(known) == len(values) else None
        case _:
            return None


def _is_run(node: cel.Formula, variable: str) -> bool:
    """Whether the events of a variable stand together among all events of each valuation."""
    match node:
        case cel.Event():
            return True
        case cel.As(body=body, variable=name):
            return name == variable or _is_run(body, variable)
        case cel.Sequence(parts=parts) | cel.Contiguous(parts=parts):
            holding = [part for part in parts if _mentions(part, variable)]
            return len(holding) == 1 and _is_run(holding[0], variable)
        case cel.Choice(parts=parts):
            return all(_is_run(part, variable) for part in parts if _mentions(part, variable))
        case cel.Iterate(body=body):
            return _holds_all(body, variable)
        case cel.Filter() | cel.PartitionBy() | cel.Within() | cel.Unless() | cel.Optional():
            return _is_run(node.body, variable)
        case _:
            return False


def _mentions(node: cel.Formula, variable: str) -> bool:
    return any(
        (isinstance(part, cel.As) and part.variable == variable)
        or (isinstance(part, cel.Event) and part.type == variable)
        for part in cel.walk(node)
    )


def _holds_all(node: cel.Formula, variable: str) -> bool:
    """Whether the variable holds every event of each valuation."""
    match node:
        case cel.Event(type=name):
            return name == variable
        case cel.As(body=body, variable=name):
            return name == variable or _holds_all(body, variable)
        case cel.Not():
            return True
        case cel.Unless(body=body):
            return _holds_all(body, variable)
        case _:
            return all(_holds_all(child, variable) for child in cel.children(node))
