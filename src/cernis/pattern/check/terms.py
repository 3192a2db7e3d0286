"""Check terms: the values of a whole match, in SELECT and in FILTER."""

from __future__ import annotations

from collections.abc import Sequence

from cernis.errors import Span
from cernis.pattern import predicate as pred
from cernis.pattern.check.kinds import (
    Kinds,
    KnownEvents,
    add_tables,
    class_of,
    is_time,
    kind_of_literal,
)
from cernis.pattern.check.predicates import PredicateCheck, RegexMistake
from cernis.pattern.check.scopes import VariableScope
from cernis.pattern.query import Pattern
from cernis.pattern.write import write_name, write_reference, write_term
from cernis.schema import Schema

AGGREGATES = ("COUNT", "SUM", "MIN", "MAX", "AVG", "FIRST", "LAST")

_SUMS = {
    ("timestamp", "-", "timestamp"): "duration",
    ("timestamp", "-", "duration"): "timestamp",
    ("timestamp", "+", "duration"): "timestamp",
    ("duration", "+", "timestamp"): "timestamp",
    ("duration", "+", "duration"): "duration",
    ("duration", "-", "duration"): "duration",
    ("duration", "*", "number"): "duration",
    ("number", "*", "duration"): "duration",
    ("duration", "/", "number"): "duration",
    ("duration", "/", "duration"): "number",
}
"""The class of a calculation with times; of numbers it is a number."""


class TermCheck(PredicateCheck):
    """Notes the mistakes of terms; the class of each is one of `class_of`, or a duration."""

    def __init__(
        self, pattern: Pattern, schema: Schema | None, regex_mistake: RegexMistake | None
    ) -> None:
        self.pattern = pattern
        self.schema = schema
        streams = schema.streams if schema else ()
        read = [one for one in streams if not pattern.streams or one.name in pattern.streams]
        read = [add_tables(one, pattern.joins) for one in read]
        super().__init__(KnownEvents(read), regex_mistake)
        self.tables = frozenset(join.table for join in pattern.joins)

    def check_variable(
        self, name: str, scope: VariableScope, where: str, span: Span | None
    ) -> Kinds | None:
        """Return the attributes of a variable's events; note a variable that is not bound."""
        sorts = scope.variables.get(name)
        if sorts is None:
            written = write_name(name)
            if span is not None and self.pattern.source.startswith(written, span.start):
                span = Span(span.start, span.start + len(written))
            what, instead = f"variable '{name}' in {where}", None
            if where in ("SELECT", "COUNT") and scope.variables and self._may_be_attribute(name):
                event = next(reversed(list(scope.variables)))
                instead = f"an attribute is written with the event's variable: {event}[{written}]"
            self.note_unknown(what, name, scope.variables, span, instead=instead)
            return None
        return self.events.kinds_of(sorts)

    def _may_be_attribute(self, name: str) -> bool:
        """Return whether a name in the text that is no variable may be meant as an attribute."""
        known = self.events.all_kinds()
        is_plausible = len(name) > 1 if known is None else name in known
        return bool(self.pattern.source) and is_plausible

    def check_term(
        self,
        term: pred.MatchTerm,
        scope: VariableScope,
        single: frozenset[str],
        where: str,
        *,
        previous: bool = False,
    ) -> str | None:
        """Return the class of a term's values, None where it is not known.

        PREV may stand in it where `previous` says so.
        """
        match term:
            case pred.Literal():
                self.check_literal(term)
                return class_of(kind_of_literal(term))
            case pred.Reference(variable=variable, attribute=attribute):
                known = self.check_variable(variable, scope, where, term.span)
                if term.previous and not previous:
                    self.mistakes.note(
                        f"{write_reference(term)} has no meaning in {where}",
                        term.span,
                        suggestion="PREV is for conditions: FILTER PREV(x)[price] < x[price]",
                    )
                elif variable in scope.variables and variable not in single:
                    written = write_reference(term)
                    self.mistakes.note(
                        f"{written} has no single value: '{variable}' need not hold one event",
                        term.span,
                        expected="FIRST, LAST, MIN, MAX, SUM or AVG",
                        suggestion=f"write LAST({written})",
                    )
                return class_of(self.check_attribute(attribute, known))
            case pred.Aggregate():
                return self.check_aggregate(term, scope)
            case pred.IntervalTime():
                known = self.events.all_kinds()  # the column of times may hold numbers
                return None if known is None else class_of(known.get("ts"))
            case pred.ConstantDuration():
                return "duration"
            case pred.TermCall(function=function, arguments=arguments):
                given = []
                for each in arguments:
                    of = self.check_term(each, scope, single, where, previous=previous)
                    given.append((each, _read_as_time(each, of)))
                if function in ("AND", "OR", "NOT"):
                    return "boolean"
                if function in pred.COMPARE:
                    self.check_terms_compare(given[0], given[1], term.span)
                    return "boolean"
                if function == "CASE":
                    return self._check_choice([*given[1::2], *given[len(given) // 2 * 2 :]], term)
                return self.check_call(function, given, term.span, write_term)
            case pred.Opposite(body=body):
                of = self.check_term(body, scope, single, where, previous=previous)
                return self.check_calculation(term, ("number", "-", of), of != "duration")
            case pred.Calculation(op=op, left=left, right=right):
                one, other = (
                    _read_as_time(
                        side, self.check_term(side, scope, single, where, previous=previous)
                    )
                    for side in (left, right)
                )
                return self.check_calculation(term, (one, op, other), True)

    def _check_choice(
        self, values: Sequence[tuple[pred.MatchTerm, str | None]], term: pred.TermCall
    ) -> str | None:
        """Return the class of the values that CASE chooses from."""
        (first, own), *others = values
        for one, other in others:
            if own is not None and other is not None and own != other:
                message = (
                    f"type clash: {write_term(first)} is a {own}, {write_term(one)} is a {other}"
                )
                self.mistakes.note(message, term.span)
        if "duration" in (own, *(other for _, other in others)):
            self.mistakes.note("IF and CASE do not choose between durations", term.span)
        return own

    def check_calculation(
        self, term: pred.MatchTerm, what: tuple[str | None, str, str | None], note: bool
    ) -> str | None:
        """Return the class of `left op right`; note values that it cannot take."""
        if None in what:
            return None
        one, op, other = what
        if one == other == "number":
            return "number"
        if "number" in (one, other) and "duration" in (one, other) and op in "+-":
            return None  # a column of times may hold numbers
        found = _SUMS.get((str(one), op, str(other)))
        if found is None and note:
            wrong = next((c for c in (one, other) if c != "number"), one)
            message = f"{write_term(term)}: a {wrong} does not take '{op}' here"
            takes_duration = wrong == "timestamp" and op in "+-" and one != other
            takes_duration = takes_duration and isinstance(term, pred.Calculation)
            expected = "a duration, such as 5 SECONDS" if takes_duration else "numbers"
            help_ = None
            if what == ("string", "-", "string"):
                help_ = "END - START is the time that a match takes"
            self.mistakes.note(message, term.span, expected=expected, suggestion=help_)
        return found

    def check_terms_compare(
        self,
        left: tuple[pred.MatchTerm, str | None],
        right: tuple[pred.MatchTerm, str | None],
        span: Span | None,
    ) -> None:
        """Note a comparison between classes that cannot be compared."""
        (one, its), (other, others) = left, right
        if its is None or others is None or its == others or {its, others} == _TICKS:
            return
        if {its, others} == {"timestamp", "string"}:
            time, text = (one, other) if its == "timestamp" else (other, one)
            # the values of attributes are not known before the run
            if isinstance(text, pred.Literal) and not is_time(str(text.value)):
                self.mistakes.note(
                    f"{write_term(time)} is a timestamp, {write_term(text)} is not a time",
                    text.span or span,
                    suggestion="write it as in '2024-05-31T12:30:00'",
                )
            return
        message = f"type clash: {write_term(one)} is a {its}, {write_term(other)} is a {others}"
        self.mistakes.note(message, span)

    def check_aggregate(self, aggregate: pred.Aggregate, scope: VariableScope) -> str | None:
        """Return the class of an aggregate's values."""
        function, span = aggregate.function, aggregate.span
        if function not in AGGREGATES:
            self.note_unknown(f"aggregate '{function}'", function, AGGREGATES, span)
            return None
        if aggregate.distinct and not (
            function == "COUNT" and isinstance(aggregate.argument, pred.Reference)
        ):
            self.mistakes.note(
                "DISTINCT counts the values of an attribute",
                span,
                expected="COUNT(DISTINCT x[a])",
            )
        match aggregate.argument:
            case pred.Reference(variable=variable, attribute=attribute):
                known = self.check_variable(variable, scope, function, span)
                kind = self.check_attribute(attribute, known)
                if function in ("SUM", "AVG") and class_of(kind) not in ("number", None):
                    message = f"{function} needs numbers, {attribute.name} is a {class_of(kind)}"
                    self.mistakes.note(message, span)
                return class_of(kind) if function in ("MIN", "MAX", "FIRST", "LAST") else "number"
            case str(variable):
                if function != "COUNT":
                    self.mistakes.note(
                        f"{function} needs an attribute",
                        span,
                        suggestion=f"write {function}({write_name(variable)}[…])",
                    )
                self.check_variable(variable, scope, function, span)
            case None if function != "COUNT":
                self.mistakes.note(
                    f"{function}(*) has no meaning",
                    span,
                    suggestion=f"name a variable and an attribute: {function}(x[a])",
                )
        return "number"


_TICKS = {"number", "duration"}
"""A duration compares with a number: the difference of two times where these are numbers."""


def _read_as_time(term: pred.MatchTerm, of: str | None) -> str | None:
    """Return the class of a term in a calculation: the text of a time is a time there."""
    return "timestamp" if of == "string" and pred.is_time(term) else of
