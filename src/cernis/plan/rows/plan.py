"""`RowPlan`: what a MATCH_RECOGNIZE clause asks of the host and of the matcher, and its cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from sqlglot import exp

from cernis.automata.rows.construct import RowAutomaton, construct
from cernis.engine.rows.tables import Skipping, make_tables
from cernis.errors import BudgetError, Diagnostic, QueryError, Span
from cernis.integers import count_noun
from cernis.languages.sql.clause import RecognizeClause, SqlExpression
from cernis.languages.sql.row_pattern import (
    RowAnchor,
    RowsPerMatch,
    SkipMode,
    is_nullable,
    walk_pattern,
)
from cernis.languages.sql.statement import Recognition, SqlStatement
from cernis.languages.sql.terms import (
    NUMBER,
    AggregateTerm,
    MatchNumberTerm,
    RowTerm,
    TermExpression,
    find_terms,
)
from cernis.pattern.suggest import did_you_mean
from cernis.plan.rows.conditions import RowConditions, plan_conditions
from cernis.plan.rows.matcher import RowMatcher

_FIXED = ("WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
_UNITS = (*_FIXED, "MONTH", "QUARTER", "YEAR", "DECADE", "CENTURY", "MILLENNIUM")
_SKIPS = {
    SkipMode.PAST_LAST_ROW: "past the last row of a match",
    SkipMode.TO_NEXT_ROW: "to the next row",
    SkipMode.TO_FIRST: "to the first row of",
    SkipMode.TO_LAST: "to the last row of",
}


@dataclass(frozen=True)
class PlannedMeasure:
    """A measure: its name, and its expression over terms."""

    name: str
    expression: TermExpression
    span: Span


@dataclass(frozen=True)
class RowPlan:
    """A clause, ready to run on a host."""

    recognition: Recognition
    text: str
    automaton: RowAutomaton
    conditions: RowConditions
    measures: tuple[PlannedMeasure, ...]

    @property
    def clause(self) -> RecognizeClause:
        return self.recognition.clause

    @cached_property
    def matcher(self) -> RowMatcher:
        """What finds the matches, for this process or a worker."""
        clause, conditions = self.clause, self.conditions
        target = clause.target
        aims = () if target is None else clause.expand(target.text)
        names = clause.variables
        skipping = Skipping(clause.skip.value, np.array([name in aims for name in names], np.bool_))
        return RowMatcher(
            text=self.text,
            variables=names,
            tables=make_tables(self.automaton),
            size=self.automaton.size,
            masks=tuple(mask is not None for mask in conditions.masks),
            values=len(conditions.values),
            registers=conditions.registers,
            programs=conditions.programs,
            condition_spans=tuple(
                clause.define[name].span if name in clause.define else clause.pattern_span
                for name in names
            ),
            skipping=skipping,
            target="" if target is None else target.text,
            target_span=clause.pattern_span if target is None else target.span,
            pattern_span=clause.pattern_span,
            has_limits=clause.within is not None,
            shows_unmatched=clause.rows is RowsPerMatch.ALL_WITH_UNMATCHED,
        )

    @property
    def is_dependent(self) -> bool:
        """Whether some condition depends on the path."""
        return bool(self.conditions.dependent)

    @property
    def needs_every_row(self) -> bool:
        """Whether rows of no match matter: for anchors, empty matches, unmatched rows."""
        pattern = self.clause.pattern
        anchored = any(isinstance(part, RowAnchor) for part in walk_pattern(pattern))
        unmatched = self.clause.rows is RowsPerMatch.ALL_WITH_UNMATCHED
        return anchored or unmatched or is_nullable(pattern)

    @property
    def is_numbered(self) -> bool:
        """Whether a measure or a condition looks at MATCH_NUMBER()."""
        terms = (term for measure in self.measures for term in measure.expression.terms)
        return self.conditions.are_numbered or any(
            isinstance(term, MatchNumberTerm)
            or any(column.name == NUMBER for column in term.value.find_all(exp.Column))
            for term in terms
        )

    @property
    def whole_partitions(self) -> str:
        """Why one task reads a partition on Spark; empty: it can be cut into slices of time."""
        clause = self.clause
        if clause.within is None:
            return "no WITHIN bounds a match"
        units = {str(one.args.get("unit")) for one in clause.within.tree.find_all(exp.Interval)}
        if any(unit.upper().rstrip("S") not in _FIXED for unit in units):
            return "the interval of WITHIN has no fixed length"
        if any(isinstance(part, RowAnchor) for part in walk_pattern(clause.pattern)):
            return "^ and $ look at the ends of a partition"
        if clause.rows is RowsPerMatch.ALL_WITH_UNMATCHED:
            return "rows without a match are shown"
        if self.conditions.are_numbered:
            return "a condition looks at MATCH_NUMBER()"
        return ""

    def count_neighbours(self) -> tuple[int, int]:
        """Return how many rows before and after a row its conditions and measures look at."""
        clause = self.clause
        found = [measure.expression for measure in self.measures]
        found += [
            find_terms(clause.define[n], clause, self.text, variable=n) for n in clause.define
        ]
        shifts = [t.shift for one in found for t in one.terms if isinstance(t, RowTerm)]
        return -min([0, *shifts]), max([0, *shifts])

    # ------------------------------------------------------------------ columns

    def find_table(self) -> str:
        """Return the table that the clause reads; empty where its relation is a query."""
        rows = self.recognition.rows
        source = rows.args["from_"].this
        if not isinstance(source, exp.Table) or not isinstance(source.this, exp.Identifier):
            return ""
        plain = not (source.db or rows.args.get("joins") or rows.args.get("with_"))
        return source.name if plain else ""

    def list_columns(self) -> Iterator[tuple[SqlExpression, exp.Column]]:
        """Yield the columns of rows that the clause names, with the expressions that have them."""
        clause = self.clause
        for expression in (*clause.partition, *clause.order):
            for column in expression.tree.find_all(exp.Column):
                yield expression, column
        for name in clause.define:
            known = find_terms(clause.define[name], clause, self.text, variable=name)
            yield from _list_of_terms(known)
        for measure in self.measures:
            yield from _list_of_terms(measure.expression)

    def check_columns(self, names: Iterable[str]) -> None:
        """Refuse columns that the rows do not have."""
        known = {name.lower(): name for name in names}
        mistakes = [
            Diagnostic(
                f"unknown column '{column.name}'",
                expression.locate(column),
                suggestion=did_you_mean(column.name, known.values()),
            )
            for expression, column in self.list_columns()
            if column.name.lower() not in known
            and not column.name.startswith("@")
            and not isinstance(column.this, exp.Star)
        ]
        returned = set(known)
        if self.clause.rows is RowsPerMatch.ONE:
            returned = {part.tree.name.lower() for part in self.clause.partition}
        mistakes += [
            Diagnostic(f"the rows have a column '{measure.name}', too", measure.span)
            for measure in self.measures
            if measure.name.lower() in returned
        ]
        if mistakes:
            raise QueryError(mistakes, self.text)

    # -------------------------------------------------------------- explanation

    def explain(self) -> str:
        """Return what the clause does and costs."""
        return "\n".join(f"{name:13}{told}" for name, told in self._describe())

    def _describe(self) -> Iterator[tuple[str, str]]:
        clause, conditions = self.clause, self.conditions
        yield "pattern", str(clause.pattern)
        if self.is_dependent:
            yield "class", "path-dependent: a search that remembers what has failed"
            yield "", "per row: as many steps as there are paths with different registers"
            yield "", "a budget ends a search that takes too many steps"
        else:
            yield "class", "path-independent: two passes, without backtracking"
            yield "", f"per row: O({count_noun(self.automaton.size, 'transition')})"
        heading = "conditions"
        for variable, mask in zip(clause.variables, conditions.masks, strict=True):
            told = "computed by the host"
            if variable in conditions.dependent:
                rest = ", after the part of it that the host computes" if mask is not None else ""
                told = f"depends on the path, decided by the matcher{rest}"
            elif mask is None:
                told = "none: every row fits"
            yield heading, f"{variable}: {told}"
            heading = ""
        columns = ", ".join(part.tree.name for part in clause.partition)
        yield "partition", f"by {columns}" if columns else "none: all rows are one"
        told = f"one task reads {'a partition' if columns else 'all rows'}"
        if why := self.whole_partitions:
            told += f": {why}"
        else:
            option = "sample=" if columns else "tasks="
            told += f", or several read slices of time ({option})"
        yield "on Spark", told
        order = ", ".join(part.tree.sql() for part in clause.order)
        yield "order", order or "none: rows as they come"
        if clause.within is not None:
            yield "within", f"{clause.within.tree.sql()}, from the first row to the last, exclusive"
        bound = "no WITHIN bounds them" if clause.within is None else "within this interval"
        yield "on streams", f"the state keeps the rows that a match may still need: {bound}"
        yield "rows", clause.rows.value
        target = "" if clause.target is None else f" {clause.target.text}"
        yield "skip", f"{_SKIPS[clause.skip]}{target}"
        states = count_noun(len(self.automaton.edges), "state")
        yield "automaton", f"{states}, {count_noun(self.automaton.size, 'transition')}"


def _list_of_terms(expression: TermExpression) -> Iterator[tuple[SqlExpression, exp.Column]]:
    for term in expression.terms:
        if isinstance(term, RowTerm | AggregateTerm):
            for column in term.value.find_all(exp.Column):
                yield expression.source, column


def plan_rows(recognition: Recognition, text: str) -> RowPlan:
    """Plan a clause; raise its mistakes."""
    clause = recognition.clause
    measures = tuple(
        PlannedMeasure(name.text, find_terms(expression, clause, text), name.span)
        for name, expression in clause.measures
    )
    conditions = plan_conditions(clause, text)
    try:
        automaton = construct(clause.pattern, clause.variables)
    except BudgetError as error:
        raise BudgetError(str(error), clause.pattern_span).locate(text) from None
    _check_within(clause, text)
    return RowPlan(recognition, text, automaton, conditions, measures)


def _check_within(clause: RecognizeClause, text: str) -> None:
    if clause.within is None:
        return
    if not clause.order:
        raise QueryError([Diagnostic("WITHIN needs ORDER BY", clause.within.span)], text)
    first = clause.order[0]
    if first.tree.args.get("desc"):
        message = "WITHIN needs an ascending ORDER BY"
        raise QueryError([Diagnostic(message, first.span)], text)
    if clause.within.tree.find(exp.Column, exp.Query, exp.Alias) is not None:
        message = "WITHIN takes a constant interval, such as INTERVAL '1' HOUR"
        raise QueryError([Diagnostic(message, clause.within.span)], text)
    for interval in clause.within.tree.find_all(exp.Interval):
        unit = interval.args.get("unit")
        if isinstance(unit, exp.Var) and unit.name.upper().removesuffix("S") not in _UNITS:
            help_ = did_you_mean(unit.name.upper(), _UNITS)
            found = Diagnostic(f"unknown unit '{unit.name}'", clause.within.span, suggestion=help_)
            raise QueryError([found], text)


def plan_statement(statement: SqlStatement) -> tuple[RowPlan, ...]:
    """Plan every clause of a statement."""
    return tuple(plan_rows(one, statement.text) for one in statement.recognitions)
