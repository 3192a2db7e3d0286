"""From the rules of the grammar to a `Pattern`.

One method for each rule of the grammar, on top of those in `text/tree.py`. A reader notes what
a `Pattern` cannot hold; everything else is for `cernis.pattern.check`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple, cast

from cernis.errors import Span
from cernis.languages.text.tokens import Name, Token, span_of
from cernis.languages.text.tree import OPERATORS, TreeReader, unquote
from cernis.languages.text.words import NANOSECONDS
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.formula import Gap, Unit
from cernis.pattern.functions import find_function
from cernis.pattern.query import (
    Absence,
    Consume,
    Grouping,
    OrderBy,
    Overall,
    Pattern,
    Select,
    SelectedTerm,
    Strategy,
    Suppression,
    TableJoin,
    Variable,
)
from cernis.pattern.variables import marked_variables, starred_variables
from cernis.pattern.write import (
    call_terms,
    capitalize_ascii,
    choose_terms,
    name_calculated,
    write_term,
)
from cernis.schema import Schema

INTERVAL_TIMES = ("START", "END")

_DIRECTION = {"<": 1, "<=": 1, ">": -1, ">=": -1}


class Owner(NamedTuple):
    """`x`, or `S>E`."""

    name: Name
    stream: Name | None
    span: Span


class Alone(NamedTuple):
    """A variable where a value may stand."""

    variable: str
    span: Span


class When(NamedTuple):
    """`WHEN test THEN value` of a CASE."""

    test: Any
    value: Any


def _split_branches(parts: list[Any]) -> tuple[list[When], Any]:
    """Return the branches of a CASE and its ELSE, None if it has none."""
    branches = [part for part in parts if isinstance(part, When)]
    last = parts[-1]
    return branches, None if isinstance(last, When) else last


class EveryOf(NamedTuple):
    """`EVERY d OF START`, or OF END."""

    size: pred.ConstantDuration
    of_start: bool
    span: Span


class Everything(NamedTuple):
    span: Span


class Nothing(NamedTuple):
    span: Span


LimitScope = pred.ConstantDuration | Overall
"""The matches that LIMIT counts together, in place of those of one end."""


class CeqlReader(TreeReader):
    """Reads one text; `mistakes` holds what was wrong with it."""

    def __init__(self, source: str, zone: str | None = None) -> None:
        super().__init__(source)
        self.zone = zone
        """The time zone of functions that name none; None: UTC."""
        self.qualified: list[cel.Event] = []
        self.spans: dict[str, tuple[Span, ...]] = {}
        self.calculated: dict[str, pred.Value] = {}
        self._bare: list[Alone] = []
        """Names that stand for values; the formula, read later, says which are variables."""
        self._columns: dict[str, pred.MatchTerm] = {}
        """The terms that SELECT names."""
        self._renamed: list[Alone] = []
        """Names of such terms that stand for values."""

    # ---------------------------------------------------------------------- query

    def query(self, span: Span, parts: list[Any]) -> Pattern:
        declared, into, (strategy, select), streams, formula, *clauses = parts
        without, clauses = tuple(clauses[:-8]), clauses[-8:]
        partition, within, grouping, consume, order, limited, forget, suppress = clauses
        limit, scope = limited or (None, None)
        ordered = self._read_order(order, scope)
        self._note_bare_names(formula, without)
        self._note_early_columns([one.span for one in (grouping, ordered) if one is not None])
        return Pattern(
            formula=formula,
            select=select,
            strategy=strategy,
            streams=tuple(name.text for name, _ in streams or ()),
            joins=tuple(join for _, joins in streams or () for join in joins),
            partition=partition or (),
            within=within,
            grouping=grouping,
            consume=consume or Consume.NONE,
            order=ordered,
            limit=limit,
            forget=forget,
            suppress=self._read_suppress(suppress, partition or (), select),
            without=without,
            into=None if into is None else into.text,
            declared=declared,
            source=self.source,
            spans=self.spans,
            qualified=tuple(self.qualified),
            calculated=self.calculated,
        )

    def schema(self, span: Span, parts: list[Any]) -> Schema:
        return cast(Schema, parts[0] or Schema())

    # -------------------------------------------------------------------- clauses

    def insert(self, span: Span, parts: list[Name]) -> Name:
        self.spans["into"] = (span,)
        return parts[0]

    def select(self, span: Span, parts: list[Any]) -> tuple[Strategy, Select]:
        strategy = cast(Strategy, parts[0] or Strategy.ALL)
        first = parts[1]
        if isinstance(first, Everything):
            return strategy, Select(True, (), span=first.span)
        if isinstance(first, Nothing):
            return strategy, Select(False, (), span=first.span)
        span = Span(first.span.start, parts[-1].span.end)
        return strategy, Select(False, tuple(parts[1:]), span=span)

    def strategy(self, span: Span, parts: list[Token]) -> Strategy:
        return Strategy(parts[0].value.upper())

    def everything(self, span: Span, parts: list[Any]) -> Everything:
        return Everything(span)

    def nothing(self, span: Span, parts: list[Any]) -> Nothing:
        return Nothing(span)

    def alone_value(self, span: Span, parts: list[Any]) -> pred.Value:
        return cast(pred.Value, parts[0])

    def attributes_of(self, span: Span, parts: list[Any]) -> Variable:
        owner: Owner = parts[0]
        attributes = tuple(part.name for part in parts[1:])
        return Variable(self._read_variable(owner), attributes, span=span)

    def column(self, span: Span, parts: list[Any]) -> Variable | SelectedTerm:
        term, alias = parts
        if isinstance(term, Alone) and alias is None:
            return Variable(term.variable, span=span)
        name = None if alias is None else alias.text
        selected = SelectedTerm(self._read_term(term), name, span=span)
        if name is not None:
            self._columns[name] = selected.term
        return selected

    def from_clause(self, span: Span, parts: list[Any]) -> list[tuple[Name, list[TableJoin]]]:
        self.spans["streams"] = tuple(name.span for name, _ in parts)
        return parts

    def stream(self, span: Span, parts: list[Any]) -> tuple[Name, list[TableJoin]]:
        name, *joins = parts
        return name, [replace(join, stream=name.text) for join in joins]

    def join(self, span: Span, parts: list[Any]) -> TableJoin:
        left, name, *equals = parts
        keys = []
        for one, op, other, where in equals:
            one, other = self._name_value(one), self._name_value(other)
            if other.path[0] != name.text or one.path[0] == name.text:
                one, other = other, one
            if op != "=" or len(other.path) < 2 or other.path[0] != name.text:
                self.mistakes.note(
                    f"ON compares an attribute of the stream with a column of '{name.text}' by =",
                    where,
                    expected=f"a = {name.text}.b",
                )
            keys.append((one.name, ".".join(other.path[1:])))
        return TableJoin("", name.text, tuple(keys), left is not None, span=span)

    def on_equal(self, span: Span, parts: list[Any]) -> tuple[Any, str, Any, Span]:
        one, op, other = parts
        return one, OPERATORS[op.value], other, span

    def partition(self, span: Span, parts: list[Any]) -> tuple[tuple[str, ...], ...]:
        return tuple(parts)

    def group(self, span: Span, parts: list[pred.Value]) -> tuple[str, ...]:
        spans = tuple(cast(Span, part.span) for part in parts)
        self.spans["partition"] = self.spans.get("partition", ()) + spans
        return tuple(self._name_value(part).name for part in parts)

    def _name_value(self, value: pred.Value) -> pred.Attribute:
        """Return the attribute that has a value; the pattern keeps a calculated one by its name."""
        attribute = name_calculated(value)
        if attribute.value is not None:
            self.calculated[attribute.name] = attribute.value
        return attribute

    def component(self, span: Span, parts: list[pred.Value]) -> Variable:
        names = (name_calculated(part).name for part in parts)
        return Variable("|".join(names), span=span)

    def every(self, span: Span, parts: list[pred.ConstantDuration]) -> pred.ConstantDuration:
        return parts[0]

    def every_of(self, span: Span, parts: list[Any]) -> EveryOf:
        every, name = parts
        if capitalize_ascii(name.text) not in ("START", "END"):
            self.mistakes.note(
                f"'{name.text}' is no time of a match", name.span, expected="START or END"
            )
        return EveryOf(every, capitalize_ascii(name.text) == "START", span)

    def having(self, span: Span, parts: list[pred.Condition]) -> pred.Condition:
        return parts[0]

    def grouping(self, span: Span, parts: list[Any]) -> Grouping:
        *keys, having = parts
        components: list[str] = []
        every: pred.ConstantDuration | None = None
        end = of_start = False
        for key in keys:
            match key:
                case Variable(name=name) if name not in components:
                    components.append(name)
                case pred.ConstantDuration() if every is None:
                    every = key
                case EveryOf(size=size) if every is None:
                    every, of_start = size, key.of_start
                case Name(text=text) if capitalize_ascii(text) == "END" and not end:
                    end = True
                case Name(text=text) if capitalize_ascii(text) != "END":
                    self.mistakes.note(
                        f"'{text}' is no key of a group",
                        key.span,
                        expected="[a] of PARTITION BY, EVERY with a duration, or END",
                        suggestion=f"write [{text}]",
                    )
                case _:
                    self.mistakes.note("GROUP BY names this twice", key.span)
        length = None if every is None else every.nanoseconds
        return Grouping(tuple(components), length, end, having, of_start, span=span)

    def consume(self, span: Span, parts: list[Consume]) -> Consume:
        self.spans["consume"] = (span,)
        return parts[0]

    def policy(self, span: Span, parts: list[Token]) -> Consume:
        return Consume(parts[0].value.upper())

    def order(self, span: Span, parts: list[Any]) -> tuple[Any, bool, Span]:
        term, direction = parts
        is_descending = direction is not None and direction.value.upper() == "DESC"
        return term, is_descending, span

    def _read_order(
        self,
        order: tuple[Any, bool, Span] | None,
        scope: LimitScope | None,
    ) -> OrderBy | None:
        """Return ORDER BY, in whose term columns of SELECT may be named."""
        every = scope if isinstance(scope, pred.ConstantDuration) else None
        overall = scope if isinstance(scope, Overall) else None
        if order is None:
            if scope is not None:
                word, words = ("EVERY", "EVERY duration") if every else ("OVERALL", "OVERALL")
                self.mistakes.note(
                    f"{word} after LIMIT needs ORDER BY",
                    self.spans["limit"][0] if every is None else every.span,
                    suggestion=f"write ORDER BY term DESC LIMIT k {words}",
                )
            return None
        term, is_descending, span = order
        size = None if every is None else every.nanoseconds
        return OrderBy(self._read_term(term), is_descending, size, overall, span=span)

    def overall(self, span: Span, parts: list[Any]) -> Overall:
        return Overall.INPUT if parts[0] is None else Overall.PARTITION

    def limit(self, span: Span, parts: list[Any]) -> tuple[int, LimitScope | None]:
        (is_negative, token), scope = parts
        self.spans["limit"] = (span,)
        if token.type != "INT":
            self.mistakes.note("LIMIT takes a whole number", span_of(token))
            return 1, scope
        limit = self._read_whole(token)
        return (-limit if is_negative else limit), scope

    def forget(self, span: Span, parts: list[Token]) -> Fraction:
        self.spans["forget"] = (span,)
        return self._read_nanoseconds(parts)

    def silenced_by(self, span: Span, parts: list[pred.Value]) -> tuple[str, ...]:
        return tuple(name_calculated(part).name for part in parts)

    def suppress(self, span: Span, parts: list[Any]) -> tuple[list[Any], Fraction, Span]:
        *brackets, duration = parts
        return brackets, duration.nanoseconds, span

    def _read_suppress(
        self,
        written: tuple[list[tuple[str, ...]], Fraction, Span] | None,
        partition: tuple[tuple[str, ...], ...],
        select: Select,
    ) -> Suppression | None:
        """Return SUPPRESS BY, in which a group of PARTITION BY is one component."""
        if written is None:
            return None
        brackets, length, span = written
        known = {"|".join(group) for group in partition} | {item.name for item in select.items}
        names: list[str] = []
        for bracket in brackets:
            is_group = bracket in partition and not known.issuperset(bracket)
            names += ["|".join(bracket)] if is_group else bracket
        return Suppression(tuple(names), length, span=span)

    def without(self, span: Span, parts: list[Any]) -> Absence:
        formula, *before, within = parts
        return Absence(formula, within, before=bool(before), span=span)

    # ------------------------------------------------------------------- formulas

    def event(self, span: Span, parts: list[Owner]) -> cel.Event:
        owner = parts[0]
        stream = owner.stream.text if owner.stream else None
        return cel.Event(owner.name.text, stream, span=owner.span)

    def any_event(self, span: Span, parts: list[Token]) -> cel.Event:
        return cel.Event(cel.ANY_TYPE, span=span)

    def negated(self, span: Span, parts: list[Any]) -> cel.Not:
        return cel.Not(parts[-1], span=span)

    def as_variable(self, span: Span, parts: list[Any]) -> cel.As:
        return cel.As(parts[0], parts[1].text, span=span)

    def iterate(self, span: Span, parts: list[Any]) -> cel.Iterate:
        body, how, *gap = parts
        opening, low, high = (how, 1, None) if isinstance(how, Token) else how
        contiguous = opening.type.startswith("COLON")
        separator = cel.Separator(opening.type.startswith("ARROW"), gap[0] if gap else None)
        return cel.Iterate(body, low, high, contiguous, separator, span=span)

    def bounds(self, span: Span, parts: list[Any]) -> tuple[Token, int, int | None]:
        opening, low_token, rest = parts
        low = self._read_whole(low_token)
        return opening, low, low if rest is None else rest[0]

    def range_to(self, span: Span, parts: list[Token | None]) -> tuple[int | None]:
        return (None if parts[0] is None else self._read_whole(parts[0]),)

    def optional(self, span: Span, parts: list[cel.Formula]) -> cel.Optional:
        return cel.Optional(parts[0], span=span)

    def sequence(self, span: Span, parts: list[Any]) -> cel.Sequence:
        return cel.Sequence(tuple(parts[::2]), tuple(parts[1::2]), span=span)

    def separator(self, span: Span, parts: list[Any]) -> cel.Separator:
        return cel.Separator(parts[0].type == "ARROW", parts[1])

    def gap(self, span: Span, parts: list[Gap]) -> Gap:
        return replace(parts[0], span=span)

    def gap_events(self, span: Span, parts: list[Any]) -> Gap:
        least = Fraction(0) if parts[0] is None else self._read_number(parts[0])
        return Gap(Unit.EVENTS, self._read_number(parts[1]), least)

    def gap_time(self, span: Span, parts: list[Any]) -> Gap:
        first, most = parts
        if not isinstance(first, Token):
            least = Fraction(0) if first is None else first.nanoseconds
            return Gap(Unit.TIME, most.nanoseconds, least)
        words = self.source[most.span.start : most.span.end].split()
        if len(words) > 2:
            self.mistakes.note(
                "this number needs a unit of its own",
                span_of(first),
                suggestion=f"write {first.value} {words[-1]} TO …",
            )
        unit = NANOSECONDS.get(words[-1].upper(), 1)
        return Gap(Unit.TIME, most.nanoseconds, self._read_number(first) * unit)

    def inner_window(self, span: Span, parts: list[Any]) -> cel.Within:
        return cel.Within(parts[0], parts[1], span=span)

    def contiguous(self, span: Span, parts: list[cel.Formula]) -> cel.Contiguous:
        return cel.Contiguous(tuple(parts), span=span)

    def all_of(self, span: Span, parts: list[cel.Formula]) -> cel.All:
        return cel.All(tuple(parts), span=span)

    def choice(self, span: Span, parts: list[cel.Formula]) -> cel.Choice:
        return cel.Choice(tuple(parts), span=span)

    def unless(self, span: Span, parts: list[cel.Formula]) -> cel.Unless:
        return cel.Unless(parts[0], parts[1], span=span)

    def filter(self, span: Span, parts: list[Any]) -> cel.Filter:
        return cel.Filter(parts[0], parts[1], span=span)

    def partitioned(self, span: Span, parts: list[Any]) -> cel.PartitionBy:
        return cel.PartitionBy(parts[0], tuple(parts[1:]), span=span)

    def key(self, span: Span, parts: list[Any]) -> cel.KeyPart:
        attribute = name_calculated(parts[-1])
        variable = None if len(parts) == 1 else parts[0].text
        return cel.KeyPart(variable, attribute, span=span)

    # ----------------------------------------------------------------- conditions

    def any_holds(self, span: Span, parts: list[pred.Condition]) -> pred.AnyOf:
        return pred.AnyOf(tuple(parts), span=span)

    def all_hold(self, span: Span, parts: list[pred.Condition]) -> pred.AllOf:
        return pred.AllOf(tuple(parts), span=span)

    def holds(self, span: Span, parts: list[Any]) -> pred.Holds:
        return pred.Holds(self._read_variable(parts[0]), parts[1], span=span)

    def compare(self, span: Span, parts: list[Any]) -> pred.Condition:
        left, token, right = parts
        op = OPERATORS[token.value]
        left, right = self._read_term(left), self._read_term(right)
        return replace(pred.compare_terms(op, left, right), span=span)

    def denied(self, span: Span, parts: list[Any]) -> pred.Condition:
        return pred.deny(parts[1], span)

    def claim(self, span: Span, parts: list[pred.MatchTerm]) -> pred.Condition:
        term = parts[0]
        return replace(pred.compare_terms("=", term, pred.Literal(True, span=span)), span=span)

    def claim_any(self, span: Span, parts: list[Any]) -> pred.Condition:
        _, term, name, _, test = parts
        span, owner = span, self._read_term(term)
        value, names = pred.to_value(owner), {*pred.variables_of(owner)}
        if value is None or len(names) != 1:
            self.mistakes.note("ANY looks at a list of one event", span, expected="ANY(x[a], …)")
            names, value = names or {""}, pred.Literal(0)
        return pred.Holds(
            names.pop(), pred.AnyElement(value, name.text, test, span=span), span=span
        )

    def monotone(self, span: Span, parts: list[Any]) -> pred.Monotone:
        owner, word, attribute = parts
        op = pred.MONOTONE[word.value.upper()]
        return pred.Monotone(self._read_variable(owner), attribute, op, span=span)

    def previous(self, span: Span, parts: list[Any]) -> pred.Reference:
        _, owner, attribute = parts
        name = self._read_variable(owner)
        return pred.Reference(name, name_calculated(attribute), previous=True, span=owner.span)

    def reference(self, span: Span, parts: list[Any]) -> pred.Reference:
        name, attribute = self._read_variable(parts[0]), name_calculated(parts[1])
        return pred.Reference(name, attribute, span=span)

    def dotted(self, span: Span, parts: list[Any]) -> pred.Reference:
        """Read `x.a`, the habit of SQL, as `x[a]`."""
        return pred.Reference(parts[0].text, parts[1], span=span)

    # ---------------------------------------------------------------------- terms

    def _read_term(self, term: Any) -> pred.MatchTerm:
        """Return the term; for the name of a column, the term that it names.

        A variable where a value should stand is noted as a mistake.
        """
        if isinstance(term, Alone) and term.variable in self._columns:
            self._renamed.append(term)
            return self._columns[term.variable]
        if isinstance(term, Alone):
            self._bare.append(term)
            return pred.Literal(0, span=term.span)
        return cast(pred.MatchTerm, term)

    def _note_bare_names(self, formula: cel.Formula, without: tuple[Absence, ...]) -> None:
        """Note each variable, or attribute without a variable, that stands for a value."""
        formulas = (formula, *(one.formula for one in without)) if self._bare else ()
        known = dict.fromkeys(name for each in formulas for name in marked_variables(each))
        for name, span in self._bare:
            message = f"'{name}' is a variable, not a value"
            instead = f"{name}[price] or COUNT({name})"
            if name not in known:
                message = f"'{name}' of which event?"
                variable = next(iter(starred_variables(formula)), "x")
                instead = f"{variable}[{name}], with the variable whose events have it"
            expected = "an attribute or an aggregate"
            self.mistakes.note(message, span, expected=expected, suggestion=f"write {instead}")

    def _note_early_columns(self, late: Sequence[Span | None]) -> None:
        """Note each name of a column outside of the clauses that are decided after SELECT."""
        for name, span in self._renamed:
            if not any(one and one.start <= span.start < one.end for one in late):
                self.mistakes.note(
                    f"'{name}' is a column of SELECT",
                    span,
                    expected="an attribute or an aggregate",
                    suggestion=f"write {write_term(self._columns[name])}",
                )

    def _calculate(self, span: Span, parts: list[Any]) -> pred.Calculation:
        left, operator, right = parts
        left, right = self._read_term(left), self._read_term(right)
        return pred.Calculation(operator.value, left, right, span=span)

    term_sum = term_product = _calculate

    def opposite(self, span: Span, parts: list[Any]) -> pred.MatchTerm:
        body = self._read_term(parts[1])
        if isinstance(body, pred.Literal) and self._is_bare_number(span, body):
            return pred.Literal(pred.negate(cast(pred.Number, body.value)), span=span)
        return pred.Opposite(body, span=span)

    def same(self, span: Span, parts: list[Any]) -> pred.MatchTerm:
        return self._read_term(parts[1])

    def aggregate(self, span: Span, parts: list[Any]) -> pred.Aggregate:
        function, *distinct, inside = parts
        argument: str | pred.Reference | None
        match inside:
            case Everything():
                argument = None
            case Alone(variable=argument):
                pass
            case pred.IntervalTime(which=argument):
                pass
            case term:
                argument = self._read_argument(function.value.upper(), self._read_term(term), span)
        return pred.Aggregate(function.value.upper(), argument, any(distinct), span=span)

    def _read_argument(
        self, function: str, term: pred.MatchTerm, span: Span
    ) -> pred.Reference | None:
        """Return what an aggregate goes over: an attribute of each event, or one calculated."""
        if isinstance(term, pred.Reference):
            return term
        value, names = pred.to_value(term), set(pred.variables_of(term))
        if value is None or len(names) != 1:
            self.mistakes.note(
                f"{function} goes over the events of one variable",
                term.span or span,
                expected=f"{function}(x[a]), or a value of x such as {function}(x[a] * x[b])",
            )
            return None
        return pred.Reference(names.pop(), name_calculated(value), span=term.span or span)

    star = everything

    def alone(self, span: Span, parts: list[Owner]) -> Alone | pred.IntervalTime:
        owner = parts[0]
        word = capitalize_ascii(self.source[span.start : span.end])
        if word in INTERVAL_TIMES:
            return pred.IntervalTime(cast(Any, word), span=span)
        return Alone(self._read_variable(owner), span)

    def term_call(self, span: Span, parts: list[Any]) -> pred.MatchTerm:
        word, *terms = parts
        known = [one for one in terms if one is not None]
        return self._fold(word.value, self._add_zone(word.value, known), span)

    def term_cast(self, span: Span, parts: list[Any]) -> pred.MatchTerm:
        _, term, name, zone = parts
        function, rest = self._read_cast(name, zone)
        return self._fold(function, [term, *rest], span)

    def _fold(self, function: str, terms: Sequence[Any], span: Span) -> pred.MatchTerm:
        return call_terms(function, tuple(map(self._read_term, terms)), span)

    def term_when(self, span: Span, parts: list[Any]) -> When:
        return When(parts[0], self._read_term(parts[1]))

    def term_case(self, span: Span, parts: list[Any]) -> pred.MatchTerm:
        branches, otherwise = _split_branches(parts)
        return self._choose(branches, otherwise, span)

    def term_if(self, span: Span, parts: list[Any]) -> pred.MatchTerm:
        _, condition, chosen, otherwise = parts
        return self._choose([(condition, self._read_term(chosen))], otherwise, span)

    def _choose(
        self, branches: Sequence[tuple[Any, Any]], otherwise: Any, span: Span
    ) -> pred.MatchTerm:
        """Return a choice between values."""
        rest = None if otherwise is None else self._read_term(otherwise)
        found = choose_terms(branches, rest, span)
        if found is None:
            self.mistakes.note(
                "PREV, INCREASING and its relatives do not stand in IF and CASE",
                span,
                suggestion="write the choice as two conditions, joined with OR",
            )
            return pred.Literal(0, span=span)
        return found

    def constant(self, span: Span, parts: list[Token]) -> pred.Literal:
        return self._read_constant(parts[0])

    def duration(self, span: Span, parts: list[Any]) -> pred.ConstantDuration:
        return pred.ConstantDuration(self._read_nanoseconds(parts), span=span)

    # ----------------------------------------------------------------- predicates

    def disjunction(self, span: Span, parts: list[pred.Predicate]) -> pred.Or:
        return pred.Or(tuple(parts), span=span)

    def conjunction(self, span: Span, parts: list[pred.Predicate]) -> pred.And:
        return pred.And(tuple(parts), span=span)

    def denial(self, span: Span, parts: list[Any]) -> pred.Negation:
        return pred.Negation(parts[-1], span=span)

    def comparison(self, span: Span, parts: list[Any]) -> pred.Predicate:
        """Read `a < b`, or a chain `a < b < c`, which is `a < b AND b < c`."""
        values, tokens = parts[::2], parts[1::2]
        operators = [OPERATORS[token.value] for token in tokens]
        if len(tokens) == 1:
            return pred.Comparison(operators[0], values[0], values[1], span=span)
        if len({_DIRECTION.get(operator, 0) for operator in operators} | {0}) != 2 or any(
            operator not in _DIRECTION for operator in operators
        ):
            self.mistakes.note(
                "a chain of comparisons must go one way",
                span,
                suggestion="join the comparisons with AND",
            )
        links = zip(operators, values, values[1:], strict=False)
        return pred.And(
            tuple(pred.Comparison(op, a, b, span=span) for op, a, b in links), span=span
        )

    def _negate(self, negation: Token | None, test: pred.Predicate, span: Span) -> pred.Predicate:
        return test if negation is None else pred.Negation(test, span=span)

    def like(self, span: Span, parts: list[Any]) -> pred.Predicate:
        body, negation, text = parts
        test = pred.Like(body, unquote(text.value), span=span, pattern_span=span_of(text))
        return self._negate(negation, test, span)

    def in_set(self, span: Span, parts: list[Any]) -> pred.Predicate:
        body, negation, *values = parts
        return self._negate(negation, pred.InSet(body, tuple(values), span=span), span)

    def in_range(self, span: Span, parts: list[Any]) -> pred.Predicate:
        body, negation, low, high = parts
        test: pred.Predicate
        if low is None and high is None:
            self.mistakes.note(
                "a range needs at least one end", span, suggestion="write {1..5} or {1..}"
            )
            test = pred.IsNull(body, span=span)
        elif low is None:
            test = pred.Comparison("<=", body, high, span=span)
        elif high is None:
            test = pred.Comparison(">=", body, low, span=span)
        else:
            test = pred.InRange(body, low, high, span=span)
        return self._negate(negation, test, span)

    def in_span(self, span: Span, parts: list[Any]) -> pred.Predicate:
        body, negation, low, high = parts
        test: pred.Predicate
        if isinstance(low, pred.Literal) and isinstance(high, pred.Literal):
            test = pred.InRange(body, low, high, span=span)
        else:
            ends = (
                pred.Comparison(">=", body, low, span=span),
                pred.Comparison("<=", body, high, span=span),
            )
            test = pred.And(ends, span=span)
        return self._negate(negation, test, span)

    def any_element(self, span: Span, parts: list[Any]) -> pred.AnyElement:
        _, body, name, _, test = parts
        return pred.AnyElement(body, name.text, test, span=span)

    def is_null(self, span: Span, parts: list[Any]) -> pred.IsNull:
        body, negation = parts
        return pred.IsNull(body, negation is not None, span=span)

    def is_true(self, span: Span, parts: list[Any]) -> pred.Comparison:
        body, negation, word = parts
        if not isinstance(body, pred.Predicate):  # a value that is true or false
            body = pred.Comparison("=", body, pred.Literal(True), span=body.span)
        if word.type == "FALSE":
            body = pred.Negation(body, span=body.span)
        return _decide(body, negation is None, span)

    def is_distinct(self, span: Span, parts: list[Any]) -> pred.Predicate:
        left, negation, _, right = parts
        comparison = pred.Comparison("=", left, right, span=span)
        if isinstance(left, pred.Literal) or isinstance(right, pred.Literal):  # which is not NULL
            return _decide(comparison, negation is not None, span)
        equal = _decide(comparison, True, span)
        nulls = pred.And((pred.IsNull(left, span=span), pred.IsNull(right, span=span)), span=span)
        same = pred.Or((equal, nulls), span=span)
        return same if negation is not None else pred.Negation(same, span=span)

    # --------------------------------------------------------------------- values

    def call(self, span: Span, parts: list[Any]) -> pred.Call:
        word, *values = parts
        name = capitalize_ascii(word.value)
        arguments = self._add_zone(name, [value for value in values if value is not None])
        return pred.Call(name, tuple(arguments), span=span)

    def truth(self, span: Span, parts: list[Any]) -> pred.Comparison:
        return pred.Comparison("=", self.call(span, parts), pred.Literal(True), span=span)

    def cast(self, span: Span, parts: list[Any]) -> pred.Call:
        _, value, name, zone = parts
        function, rest = self._read_cast(name, zone)
        return pred.Call(function, (value, *rest), span=span)

    def _read_cast(self, name: Name, zone: Token | None) -> tuple[str, list[pred.Literal]]:
        """Return the function that CAST is, and its arguments after the value."""
        type_ = self._read_type(name)
        given = self._read_constant(zone) if zone is not None else None
        if given is None and self.zone is not None and type_.value in ("DATE", "STRING"):
            given = pred.Literal(self.zone)
        if type_.value == "DATE" and given is not None:
            return "DATE", [given]
        return "CAST", [type_] if given is None else [type_, given]

    def _add_zone(self, name: str, arguments: list[Any]) -> list[Any]:
        """Return the arguments of a function of time, with the zone if it names none."""
        function = None if self.zone is None else find_function(name)
        if function is None or function.group != "Time":
            return arguments
        is_open = len(arguments) == len(function.takes) - 1
        return [*arguments, pred.Literal(cast(str, self.zone))] if is_open else arguments

    def _read_type(self, name: Name) -> pred.Literal:
        return pred.Literal(capitalize_ascii(name.text), span=name.span)

    def when(self, span: Span, parts: list[Any]) -> When:
        return When(parts[0], parts[1])

    def case_value(self, span: Span, parts: list[Any]) -> pred.Case:
        branches, otherwise = _split_branches(parts)
        chosen = tuple((test, value) for test, value in branches)
        return pred.Case(chosen, otherwise, span=span)

    def if_value(self, span: Span, parts: list[Any]) -> pred.Case:
        _, test, chosen, otherwise = parts
        return pred.Case(((test, chosen),), otherwise, span=span)

    def _make_arithmetic(self, span: Span, parts: list[Any]) -> pred.Arithmetic:
        left, operator, right = parts
        return pred.Arithmetic(operator.value, left, right, span=span)

    sum = product = _make_arithmetic

    def _is_bare_number(self, span: Span, value: pred.Literal) -> bool:
        """Whether a number after a sign has neither sign nor parentheses of its own."""
        first = cast(Span, value.span).start
        between = self.source[span.start + 1 : first]
        is_number = not isinstance(value.value, str | bool)
        written = "0123456789." + ("$" if is_number and str(value.value)[0] != "-" else "")
        return self.source[first] in written and "(" not in between

    def minus(self, span: Span, parts: list[Any]) -> pred.Value:
        body: pred.Value = parts[1]
        if isinstance(body, pred.Literal) and self._is_bare_number(span, body):
            return pred.Literal(pred.negate(cast(pred.Number, body.value)), span=span)
        return pred.Negative(body, span=span)

    def plus(self, span: Span, parts: list[Any]) -> pred.Value:
        return cast(pred.Value, parts[1])

    def literal_value(self, span: Span, parts: list[Token]) -> pred.Literal:
        return self._read_constant(parts[0])

    def signed(self, span: Span, parts: list[Any]) -> tuple[bool, Token]:
        sign, number = parts
        return sign is not None and sign.type == "MINUS", number

    # ---------------------------------------------------------------------- names

    def owner(self, span: Span, parts: list[Any]) -> Owner:
        first, arrow, second = parts
        if arrow is None:
            return Owner(first, None, first.span)
        return Owner(second, first, span)

    def _read_variable(self, owner: Owner) -> str:
        if owner.stream is not None:
            self.qualified.append(cel.Event(owner.name.text, owner.stream.text, span=owner.span))
        return owner.name.text


def _decide(predicate: pred.Predicate, wanted: bool, span: Span | None) -> pred.Comparison:
    """Return whether a predicate is true, or is not, where unknown is not: it is never unknown."""
    branch = (predicate, pred.Literal(True, span=span))
    decided = pred.Case((branch,), pred.Literal(False, span=span), span=span)
    return pred.Comparison("=", decided, pred.Literal(wanted, span=span), span=span)
