"""Names and types of a pattern, checked against what is known of the events.

`check` returns every mistake, `resolve` raises them together. Without a schema only what
the pattern itself tells is checked: scopes, bounds, constants, and regular expressions, of
which the caller says what is wrong with them: the engine that runs them knows.

Scopes: a type's name is a variable, and so is each AS variable; variables inside NOT and
on the right of UNLESS are not seen outside. An attribute must be known to at least one of
the event types that its variable can stand for; on the others it is NULL. `type` and `ts`
are always known. Linear in the pattern times its depth; recursive, which is safe because
`MAX_DEPTH` is looked at first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from itertools import pairwise

from cernis.errors import Diagnostic, QueryError, Span
from cernis.pattern.formula import (
    All,
    As,
    Choice,
    Contiguous,
    Event,
    Filter,
    Formula,
    Iterate,
    KeyPart,
    Not,
    Optional,
    PartitionBy,
    Sequence,
    Unless,
    children,
)
from cernis.pattern.predicate import (
    TIME,
    TIME_NS,
    AllOf,
    And,
    AnyOf,
    Arithmetic,
    Attribute,
    Compare,
    Comparison,
    Condition,
    Holds,
    InRange,
    InSet,
    IsNull,
    Like,
    Literal,
    Negation,
    Negative,
    Or,
    Predicate,
    Reference,
    Value,
)
from cernis.pattern.query import Aggregate, Pattern, Unit, Variable, Window
from cernis.pattern.suggest import did_you_mean
from cernis.pattern.write import write_name, write_previous, write_value
from cernis.schema import Attributes, Kind, Schema, Stream

__all__ = ["MAX_DEPTH", "check", "resolve", "too_deep"]

MAX_DEPTH = 100
"""How deeply formulas, conditions, predicates and values may be nested, all together."""

MOST_MISTAKES = 50
"""How many mistakes are reported for one schema; the rest of a hopeless query is not."""

AGGREGATES = ("COUNT", "SUM", "MIN", "MAX", "AVG", "FIRST", "LAST")

_ALWAYS = {"type": Kind.STRING, "ts": None}
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
_LONGEST_LIST = 8

RegexMistake = Callable[[str], str | None]
"""What is wrong with a regular expression; None if nothing is."""


def check(
    pattern: Pattern, schema: Schema | None = None, regex_mistake: RegexMistake | None = None
) -> list[Diagnostic]:
    """Return every mistake, in the order of the text.

    The pattern must be right for the schema that it declares itself and for the given one.
    Without `regex_mistake` any regular expression is taken for right.

    >>> from cernis.pattern.formula import Event
    >>> [mistake.message for mistake in check(Pattern(Event("A"), limit=-1))]
    ['LIMIT must not be negative']
    """
    deep = too_deep(pattern)
    if deep is not None:
        return [deep]
    known = [one for one in (pattern.declared, schema) if one is not None]
    schemas: list[Schema | None] = [*known] if known else [None]
    mistakes: dict[Diagnostic, None] = {}
    for one in schemas:
        mistakes.update(dict.fromkeys(_Check(pattern, one, regex_mistake).run()))
    return sorted(mistakes, key=lambda mistake: (mistake.span is None, mistake.span))


def resolve(
    pattern: Pattern, schema: Schema | None = None, regex_mistake: RegexMistake | None = None
) -> Pattern:
    """Return the pattern, if it is right; otherwise raise QueryError with every mistake."""
    mistakes = check(pattern, schema, regex_mistake)
    if mistakes:
        raise QueryError(mistakes, pattern.source)
    return pattern


# ------------------------------------------------------------------------- depth

_Node = Formula | Condition | Predicate | Value | Reference | KeyPart


def _below(node: _Node) -> Iterable[_Node]:
    match node:
        case Event() | Attribute() | Literal():
            return ()
        case Filter(body=body, condition=condition):
            return body, condition
        case PartitionBy(body=body, keys=keys):
            return body, *keys
        case KeyPart(attribute=attribute) | Reference(attribute=attribute):
            return (attribute,)
        case Holds(predicate=predicate):
            return (predicate,)
        case Compare(left=left, right=right):
            return left, right
        case Comparison(left=first, right=second) | Arithmetic(left=first, right=second):
            return first, second
        case InSet(body=value, values=values):
            return value, *values
        case InRange(body=value, low=low, high=high):
            return value, low, high
        case Like(body=value) | IsNull(body=value) | Negative(body=value):
            return (value,)
        case Negation(body=inner):
            return (inner,)
        case AllOf(parts=parts) | AnyOf(parts=parts):
            return parts
        case And(parts=tests) | Or(parts=tests):
            return tests
        case _:
            return children(node)


def too_deep(pattern: Pattern) -> Diagnostic | None:
    """The mistake of a pattern that is nested more than MAX_DEPTH deep; not recursive."""
    stack: list[tuple[_Node, int]] = [(pattern.formula, 1)]
    while stack:
        node, depth = stack.pop()
        if depth > MAX_DEPTH:
            return Diagnostic(f"the query is nested more than {MAX_DEPTH} deep", node.span)
        stack.extend((child, depth + 1) for child in _below(node))
    return None


# ------------------------------------------------------------------------- kinds

_CLASS = {
    Kind.INT: "number",
    Kind.FLOAT: "number",
    Kind.STRING: "string",
    Kind.BOOL: "boolean",
    Kind.TIMESTAMP: "timestamp",
}


def _class(kind: Kind | None) -> str | None:
    """What a kind may be compared with; None where nothing is known."""
    return None if kind is None else _CLASS.get(kind)


def _together(kinds: Iterable[Kind | None]) -> Kind | None:
    distinct = set(kinds)
    if len(distinct) == 1:
        return distinct.pop()
    if all(kind is not None and kind.numeric for kind in distinct):
        return Kind.FLOAT
    return None


def _literal_kind(literal: Literal) -> Kind:
    match literal.value:
        case bool():
            return Kind.BOOL
        case int():
            return Kind.INT
        case float():
            return Kind.FLOAT
        case _:
            return Kind.STRING


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


# ------------------------------------------------------------------------ scopes

_Kinds = Mapping[str, Kind | None]
_Sort = tuple[str | None, str]  # the stream, where one is named, and the type of an event


@dataclass(frozen=True, slots=True)
class _Scope:
    """What a formula binds: each variable with the sorts of events that it can hold."""

    variables: Mapping[str, frozenset[_Sort]]
    sorts: frozenset[_Sort]


_NOTHING = _Scope({}, frozenset())


def _union(scopes: list[_Scope]) -> _Scope:
    if len(scopes) == 1:
        return scopes[0]
    variables: dict[str, frozenset[_Sort]] = {}
    sorts: set[_Sort] = set()
    for scope in scopes:
        sorts |= scope.sorts
        for name, its in scope.variables.items():
            known = variables.get(name)
            variables[name] = its if known is None or known is its else known | its
    return _Scope(variables, frozenset(sorts))


def _bind(scope: _Scope, variable: str) -> _Scope:
    known = scope.variables.get(variable, frozenset())
    return _Scope({**scope.variables, variable: known | scope.sorts}, scope.sorts)


def _is_single_event(formula: Formula) -> bool:
    stack = [formula]
    while stack:
        node = stack.pop()
        match node:
            case Event():
                pass
            case As() | Filter() | Choice():
                stack.extend(children(node))
            case _:
                return False
    return True


def _uncovered(body: Formula, variables: set[str]) -> Iterator[Event]:
    """The events of a formula that none of the variables holds."""
    stack = [body]
    while stack:
        node = stack.pop()
        match node:
            case Event(type=kind):
                if kind not in variables:
                    yield node
            case As(variable=variable) if variable in variables:
                pass
            case Not():
                pass
            case Unless(body=inner):
                stack.append(inner)
            case _:
                stack.extend(reversed(children(node)))


class _Check:
    """One pass over a pattern with one schema."""

    def __init__(
        self, pattern: Pattern, schema: Schema | None, regex_mistake: RegexMistake | None
    ) -> None:
        self.pattern = pattern
        self.schema = schema
        self.regex_mistake = regex_mistake
        self.mistakes: list[Diagnostic] = []
        named = set(pattern.streams)
        self.streams: tuple[Stream, ...] = tuple(
            stream
            for stream in (schema.streams if schema else ())
            if not named or stream.name in named
        )
        self._kinds_of: dict[frozenset[_Sort], _Kinds | None] = {}

    def note(
        self,
        message: str,
        span: Span | None,
        *,
        expected: str | None = None,
        suggestion: str | None = None,
    ) -> None:
        if len(self.mistakes) < MOST_MISTAKES:
            self.mistakes.append(Diagnostic(message, span, expected, suggestion))

    def unknown(self, what: str, name: str, options: Iterable[str], span: Span | None) -> None:
        """Notes a name that is not known: with the closest one, or else all of them."""
        if len(self.mistakes) == MOST_MISTAKES:
            return
        known = sorted(set(options))
        suggestion = did_you_mean(name, known)
        expected = None
        if suggestion is None and known:
            more = ", …" if len(known) > _LONGEST_LIST else ""
            expected = ", ".join(known[:_LONGEST_LIST]) + more
        self.note(f"unknown {what}", span, expected=expected, suggestion=suggestion)

    def run(self) -> list[Diagnostic]:
        self.from_clause()
        scope = self.formula(self.pattern.formula)
        self.select(scope)
        self.partition()
        if self.pattern.within is not None:
            self.window(self.pattern.within)
        if self.pattern.limit is not None and self.pattern.limit < 0:
            self.note("LIMIT must not be negative", self.place("limit", 0))
        return self.mistakes

    def place(self, clause: str, index: int) -> Span | None:
        spans = self.pattern.spans.get(clause, ())
        return spans[index] if index < len(spans) else None

    # ----------------------------------------------------------- what is known

    def kinds(self, sorts: frozenset[_Sort]) -> _Kinds | None:
        """The attributes that events of these sorts have; None where that is not known."""
        if sorts not in self._kinds_of:
            self._kinds_of[sorts] = self._find_kinds(sorts)
        return self._kinds_of[sorts]

    def _find_kinds(self, sorts: frozenset[_Sort]) -> _Kinds | None:
        if not sorts:  # under NOT: a variable that holds no event has any attribute
            return None
        found: dict[str, list[Kind]] = {}
        for stream_name, kind in sorts:
            maps = self._maps(stream_name, kind)
            if not maps:
                return None
            for attributes in maps:
                for name, its in attributes.items():
                    found.setdefault(name, []).append(its)
        return {**_ALWAYS, **{name: _together(its) for name, its in found.items()}}

    def _maps(self, stream_name: str | None, kind: str) -> list[Attributes]:
        """What is known of one sort of event; nothing, if any stream of it tells nothing."""
        maps = []
        for stream in self.streams:
            if stream_name is None or stream.name == stream_name:
                if kind in stream.events:
                    maps.append(stream.events[kind])
                elif not stream.events:
                    if not stream.attributes:
                        return []
                    maps.append(stream.attributes)
        return maps

    def kind_of_attribute(self, attribute: Attribute, known: _Kinds | None) -> Kind | None:
        """Notes an unknown attribute."""
        if attribute in (TIME, TIME_NS):
            return Kind.INT
        if not attribute.path or not all(attribute.path):
            self.note("an attribute must have a name", attribute.span)
            return None
        if known is None:
            return None
        if attribute.name in known:
            return known[attribute.name]
        prefixes = (".".join(attribute.path[:n]) for n in range(1, len(attribute.path)))
        if any(known.get(prefix, Kind.INT) in (Kind.OTHER, None) for prefix in prefixes):
            return None
        self.unknown(f"attribute '{attribute.name}'", attribute.name, known, attribute.span)
        return None

    # ------------------------------------------------------------------- clauses

    def from_clause(self) -> None:
        seen: set[str] = set()
        for index, name in enumerate(self.pattern.streams):
            if name in seen:
                self.note(f"stream '{name}' stands twice in FROM", self.place("streams", index))
            seen.add(name)
            if self.schema is not None and self.schema.stream(name) is None:
                names = [stream.name for stream in self.schema.streams]
                self.unknown(f"stream '{name}'", name, names, self.place("streams", index))

    def variable(self, name: str, scope: _Scope, where: str, span: Span | None) -> _Kinds | None:
        """The attributes of a variable's events; notes a variable that is not bound."""
        sorts = scope.variables.get(name)
        if sorts is None:
            written = write_name(name)
            if span is not None and self.pattern.source.startswith(written, span.start):
                span = Span(span.start, span.start + len(written))
            self.unknown(f"variable '{name}' in {where}", name, scope.variables, span)
            return None
        return self.kinds(sorts)

    def select(self, scope: _Scope) -> None:
        select = self.pattern.select
        if select.everything and select.items:
            self.note("'*' stands alone in SELECT", select.span)
        seen: set[str] = set()
        for item in select.items:
            match item:
                case Variable(name=name, attributes=attributes, span=span):
                    if name in seen:
                        self.note(f"'{name}' is selected twice", span)
                    seen.add(name)
                    known = self.variable(name, scope, "SELECT", span)
                    for attribute in attributes:
                        path = tuple(attribute.split("."))
                        self.kind_of_attribute(Attribute(path, span=span), known)
                case Aggregate():
                    self.aggregate(item, scope)

    def aggregate(self, aggregate: Aggregate, scope: _Scope) -> None:
        function, span = aggregate.function, aggregate.span
        if function not in AGGREGATES:
            self.unknown(f"aggregate '{function}'", function, AGGREGATES, span)
            return
        match aggregate.argument:
            case Reference(variable=variable, attribute=attribute):
                if function == "COUNT":
                    self.note("COUNT takes '*' or a variable, not an attribute", span)
                known = self.variable(variable, scope, function, span)
                kind = self.kind_of_attribute(attribute, known)
                if function in ("SUM", "AVG") and _class(kind) not in ("number", None):
                    message = f"{function} needs numbers, {attribute.name} is a {_class(kind)}"
                    self.note(message, span)
            case str(variable):
                if function != "COUNT":
                    self.note(f"{function} needs an attribute", span)
                self.variable(variable, scope, function, span)
            case None if function != "COUNT":
                self.note(f"{function}(*) has no meaning", span)

    def _every_kind(self) -> _Kinds | None:
        """The attributes that any event of any stream of the query can have."""
        if not self.streams:
            return None
        found: dict[str, list[Kind]] = {}
        for stream in self.streams:
            for attributes in (stream.attributes, *stream.events.values()):
                for name, kind in attributes.items():
                    found.setdefault(name, []).append(kind)
        return {**_ALWAYS, **{name: _together(kinds) for name, kinds in found.items()}}

    def partition(self) -> None:
        known = self._every_kind()
        index = 0
        for group in self.pattern.partition:
            if not group:
                self.note("a group of PARTITION BY is empty", None)
            unknown = [] if known is None else [name for name in group if name not in known]
            for name in group:
                if name in unknown:
                    nothing = len(unknown) == len(group)
                    message = f"attribute '{name}' in PARTITION BY"
                    if nothing:
                        message += ": the group covers nothing"
                    self.unknown(message, name, known or (), self.place("partition", index))
                index += 1

    def window(self, window: Window) -> None:
        if window.size < 0:
            self.note("WITHIN must not be negative", window.span)
        if window.unit is Unit.EVENTS and Fraction(window.size).denominator != 1:
            self.note("a number of events must be whole", window.span)
        if not _is_decimal(Fraction(window.size)):
            self.note("the size of WITHIN must be a decimal number", window.span)
        if window.unit is Unit.ATTRIBUTE:
            if window.attribute is None:
                self.note("WITHIN n [a] needs an attribute", window.span)
                return
            kind = self.kind_of_attribute(window.attribute, self._every_kind())
            if _class(kind) not in ("number", None):
                message = f"WITHIN needs numbers, {window.attribute.name} is a {_class(kind)}"
                self.note(message, window.attribute.span)

    # ------------------------------------------------------------------ formulas

    def formula(self, node: Formula) -> _Scope:
        """Checks a formula and returns what it binds."""
        match node:
            case Event():
                return self.event(node)
            case Not(body=body):
                if not _is_single_event(body):
                    self.note(
                        "NOT takes a single event",
                        node.span,
                        expected="an event type, with FILTER, OR and AS if need be",
                        suggestion="to forbid a pattern between two events, use UNLESS",
                    )
                self.formula(body)
                return _NOTHING
            case As(body=body, variable=variable):
                return _bind(self.formula(body), variable)
            case Iterate(body=body):
                self.bounds(node)
                return self.formula(body)
            case Optional(body=body):
                return self.formula(body)
            case Filter(body=body, condition=condition):
                scope = self.formula(body)
                self.condition(condition, scope)
                return scope
            case PartitionBy(body=body):
                scope = self.formula(body)
                self.keys(node, scope)
                return scope
            case Unless(body=body, guard=guard):
                scope = self.formula(body)
                self.formula(guard)
                return scope
            case Sequence(parts=parts) | Contiguous(parts=parts):
                pass
            case Choice(parts=parts) | All(parts=parts):
                pass
        if len(parts) < 2:
            self.note(f"{type(node).__name__} needs at least two parts", node.span)
        scopes = []
        for part in parts:
            scopes.append(self.formula(part))
        return _union(scopes) if scopes else _NOTHING

    def event(self, event: Event) -> _Scope:
        self.event_type(event)
        sort = (event.stream, event.type)
        sorts = frozenset((sort,))
        return _Scope({event.type: sorts}, sorts)

    def event_type(self, event: Event) -> None:
        name = event.stream
        if name is not None and self.pattern.streams and name not in self.pattern.streams:
            self.note(
                f"stream '{name}' is not in FROM",
                event.span,
                expected=", ".join(self.pattern.streams),
                suggestion=did_you_mean(name, self.pattern.streams),
            )
            return
        if self.schema is None:
            return
        if name is not None and self.schema.stream(name) is None:
            if not self.pattern.streams:
                names = [stream.name for stream in self.schema.streams]
                self.unknown(f"stream '{name}'", name, names, event.span)
            return
        streams = [s for s in self.streams if name is None or s.name == name]
        if streams and all(s.events and event.type not in s.events for s in streams):
            types = [kind for stream in streams for kind in stream.events]
            self.unknown(f"event type '{event.type}'", event.type, types, event.span)

    def bounds(self, node: Iterate) -> None:
        low, high = node.low, node.high
        if low < 0 or (high is not None and high < low):
            self.note(
                f"the bounds {{{low},{'' if high is None else high}}} allow no number",
                node.span,
                suggestion=None if high is None or low < 0 else f"write {{{high},{low}}}",
            )
        elif high == 0:
            self.note("zero repetitions match nothing", node.span)

    def keys(self, node: PartitionBy, scope: _Scope) -> None:
        kinds = []
        variables: set[str] = set()
        for key in node.keys:
            if key.variable is None:
                known = self.kinds(scope.sorts)
            else:
                variables.add(key.variable)
                known = self.variable(key.variable, scope, "PARTITION BY", key.span)
            kinds.append((key, self.kind_of_attribute(key.attribute, known)))
        bare = [key for key in node.keys if key.variable is None]
        if bare:
            if len(node.keys) > 1:
                self.note(
                    "PARTITION BY inside a formula takes one attribute, or x[a] for each variable",
                    bare[0].span,
                    suggestion="name the variable that the attribute belongs to",
                )
            return
        missing = list(dict.fromkeys(e.type for e in _uncovered(node.body, variables)))
        if missing:
            names = ", ".join(f"'{name}'" for name in missing)
            self.note(
                f"PARTITION BY does not cover {names}",
                node.keys[0].span if node.keys else node.span,
                suggestion=f"add {write_name(missing[0])}[…]",
            )
        classes = [(key, _class(kind)) for key, kind in kinds if _class(kind) is not None]
        for (first, one), (second, other) in pairwise(classes):
            if one != other:
                self.note(
                    f"type clash: {_key_text(first)} is a {one}, {_key_text(second)} is a {other}",
                    second.span,
                )

    # ---------------------------------------------------------------- conditions

    def condition(self, node: Condition, scope: _Scope) -> None:
        match node:
            case Holds(variable=variable, predicate=predicate):
                known = self.variable(variable, scope, "FILTER", node.span)
                self.predicate(predicate, known)
            case Compare(left=left, right=right, adjacent=adjacent):
                earlier = write_previous(left) if adjacent else _reference_text(left)
                self.classes(
                    (earlier, self.reference(left, scope)),
                    (_reference_text(right), self.reference(right, scope)),
                    node.span,
                )
            case AllOf(parts=parts) | AnyOf(parts=parts):
                if len(parts) < 2:
                    self.note("AND and OR need at least two conditions", node.span)
                for part in parts:
                    self.condition(part, scope)

    def reference(self, node: Reference, scope: _Scope) -> Kind | None:
        known = self.variable(node.variable, scope, "FILTER", node.span)
        return self.kind_of_attribute(node.attribute, known)

    def classes(
        self,
        left: tuple[str, Kind | None],
        right: tuple[str, Kind | None],
        span: Span | None,
    ) -> None:
        """Notes a comparison between two kinds that cannot be compared."""
        one, other = _class(left[1]), _class(right[1])
        if one is not None and other is not None and one != other:
            message = f"type clash: {left[0]} is a {one}, {right[0]} is a {other}"
            self.note(message, span)

    # ---------------------------------------------------------------- predicates

    def predicate(self, node: Predicate, known: _Kinds | None) -> None:
        match node:
            case Comparison(left=left, right=right):
                self.comparable(left, [right], known, node.span)
            case InSet(body=body, values=values):
                if not values:
                    self.note("IN needs at least one value", node.span)
                self.alike(values, node.span)
                self.comparable(body, list(values), known, node.span)
            case InRange(body=body, low=low, high=high):
                self.alike((low, high), node.span)
                self.comparable(body, [low, high], known, node.span)
                if _is_empty_range(low, high):
                    text = f"{write_value(low)}..{write_value(high)}"
                    self.note(f"the range {text} is empty", node.span)
            case Like(body=body, pattern=pattern):
                kind = self.value(body, known)
                if _class(kind) not in ("string", None):
                    message = f"LIKE needs a string, {write_value(body)} is a {_class(kind)}"
                    self.note(message, body.span)
                wrong = None if self.regex_mistake is None else self.regex_mistake(pattern)
                if wrong is not None:
                    self.note(
                        f"bad regular expression: {wrong}",
                        node.pattern_span or node.span,
                        expected="the syntax of RE2, without backreferences and lookaround",
                    )
            case IsNull(body=body):
                self.value(body, known)
            case Negation(body=inner):
                self.predicate(inner, known)
            case And(parts=parts) | Or(parts=parts):
                if len(parts) < 2:
                    self.note("AND and OR need at least two predicates", node.span)
                for part in parts:
                    self.predicate(part, known)

    def alike(self, constants: Iterable[Literal], span: Span | None) -> None:
        first: dict[str | None, Literal] = {}
        for constant in constants:
            first.setdefault(_class(_literal_kind(constant)), constant)
        if len(first) > 1:
            texts = [f"{write_value(constant)} is a {its}" for its, constant in first.items()]
            self.note(f"type clash: {', '.join(texts)}", span)

    def comparable(
        self,
        body: Value,
        others: list[Value],
        known: _Kinds | None,
        span: Span | None,
    ) -> None:
        kind = self.value(body, known)
        for other in others:
            its = self.value(other, known)
            pair = {_class(kind): body, _class(its): other}
            text = pair.get("string")
            if len(pair) == 2 and "timestamp" in pair and isinstance(text, Literal):
                if not _is_time(str(text.value)):
                    moment = pair["timestamp"]
                    self.note(
                        f"{write_value(moment)} is a timestamp, {write_value(text)} is not a time",
                        text.span,
                        suggestion="write it as in '2024-05-31T12:30:00'",
                    )
                continue
            self.classes((write_value(body), kind), (write_value(other), its), span)

    def value(self, node: Value, known: _Kinds | None) -> Kind | None:
        """The kind of a value; notes arithmetic on what is not a number."""
        match node:
            case Attribute():
                return self.kind_of_attribute(node, known)
            case Literal():
                self.literal(node)
                return _literal_kind(node)
            case Negative(body=body):
                return self.operand(body, known)
            case Arithmetic(op=op, left=left, right=right):
                one, other = self.operand(left, known), self.operand(right, known)
                if one is None or other is None:
                    return None
                return Kind.FLOAT if op == "/" or Kind.FLOAT in (one, other) else Kind.INT

    def operand(self, node: Value, known: _Kinds | None) -> Kind | None:
        kind = self.value(node, known)
        if _class(kind) not in ("number", None):
            message = f"arithmetic needs numbers, {write_value(node)} is a {_class(kind)}"
            self.note(message, node.span)
            return None
        return kind

    def literal(self, node: Literal) -> None:
        value = node.value
        if isinstance(value, float) and not math.isfinite(value):
            self.note("a number must be finite", node.span)
        elif isinstance(value, int) and not _SMALLEST <= value <= _LARGEST:
            self.note("a whole number must fit in 64 bits", node.span)


def _is_empty_range(low: Literal, high: Literal) -> bool:
    if _class(_literal_kind(low)) != _class(_literal_kind(high)):
        return False
    return low.value > high.value  # type: ignore[operator]


def _is_decimal(number: Fraction) -> bool:
    rest = number.denominator
    for factor in (2, 5):
        while rest % factor == 0:
            rest //= factor
    return rest == 1


def _reference_text(node: Reference) -> str:
    return f"{write_name(node.variable)}[{write_value(node.attribute)}]"


def _key_text(node: KeyPart) -> str:
    text = write_value(node.attribute)
    return text if node.variable is None else f"{write_name(node.variable)}[{text}]"
