"""The queries of a clause, in the host's SQL: its rows with masks, and its measures.

    rows ─ write_rows ─▶ rows in order, with masks and values ─ matcher ─▶ rows of matches
         ─ write_measures ─▶ result of the clause

`write_rows` adds to each row its number in its partition, a column for each mask and each value
that the matcher looks at, and the values that PREV and NEXT see from it. The matcher gives the rows
of matches, each with its match, its classifier and its index in the match. `write_measures`
computes each term as an aggregate over the rows of a match, grouped by match for ONE ROW PER MATCH
and in a window for ALL ROWS PER MATCH, and the measures over these.

Everything is text in one SQL dialect; nothing runs here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import sqlglot
from sqlglot import exp

from cernis.errors import Diagnostic, QueryError, Span
from cernis.languages.sql.host_errors import write_host_sql
from cernis.languages.sql.row_pattern import RowsPerMatch
from cernis.languages.sql.statement import PLACEHOLDER
from cernis.languages.sql.terms import (
    CLASSIFIER,
    AggregateTerm,
    MatchNumberTerm,
    RowTerm,
    Term,
    TermExpression,
    name_term,
)
from cernis.plan.rows.conditions import HostValue
from cernis.plan.rows.matcher import (
    EXCLUDED,
    MATCH,
    NUMBER,
    PARTITION,
    PLACE,
    RANK,
    ROW,
    TIME,
    UNTIL,
    name_mask,
    name_value,
)
from cernis.plan.rows.neighbours import find_fitting_edges
from cernis.plan.rows.plan import RowPlan


@dataclass(frozen=True)
class QueryWriter:
    """Writes the queries of a plan in a dialect, `duckdb` or `spark`."""

    plan: RowPlan
    dialect: str
    columns: tuple[str, ...]
    """The columns of the rows."""
    part: str = ""
    """A column that cuts partitions into parts, which windows keep apart."""
    is_sorted: bool = False
    """Whether rows come in order, with ROW, RANK and PARTITION: then windows sort nothing."""

    def quote(self, name: str) -> str:
        return exp.to_identifier(name, quoted=True).sql(self.dialect)

    def write(self, tree: exp.Expr) -> str:
        """Return an expression in the dialect."""
        return write_host_sql(tree, self.dialect, self.plan.text)

    def isolate(self) -> Iterator[tuple[Span | None, QueryWriter]]:
        """Yield a writer of ORDER BY alone, then of it and each other expression, with its span.

        So an error of the host about the whole can be traced to one expression.
        """
        clause = self.plan.clause
        masks = tuple(None for _ in self.plan.conditions.masks)
        values = tuple(HostValue(exp.null(), ()) for _ in self.plan.conditions.values)
        measures = tuple(
            replace(one, expression=TermExpression(exp.null(), (), one.expression.source))
            for one in self.plan.measures
        )
        conditions = replace(self.plan.conditions, masks=masks, values=values)
        bare = replace(self.plan.recognition, clause=replace(clause, within=None))
        empty = RowPlan(bare, self.plan.text, self.plan.automaton, conditions, measures)
        yield clause.order[0].span if clause.order else None, replace(self, plan=empty)
        if clause.within is not None:
            own_bound = replace(empty, recognition=self.plan.recognition)
            yield clause.within.span, replace(self, plan=own_bound)
        for i, mask in enumerate(self.plan.conditions.masks):
            if mask is not None:
                own = replace(conditions, masks=(*masks[:i], mask, *masks[i + 1 :]))
                yield mask.span, replace(self, plan=replace(empty, conditions=own))
        for i, value in enumerate(self.plan.conditions.values):
            own = replace(conditions, values=(*values[:i], value, *values[i + 1 :]))
            yield value.span, replace(self, plan=replace(empty, conditions=own))
        for i, measure in enumerate(self.plan.measures):
            alone = (*measures[:i], measure, *measures[i + 1 :])
            span = measure.expression.source.span
            yield span, replace(self, plan=replace(empty, measures=alone))

    # --------------------------------------------------------------------- rows

    @property
    def keys(self) -> list[str]:
        """The columns of PARTITION BY."""
        return [self.write(part.tree) for part in self.plan.clause.partition]

    @property
    def order(self) -> list[str]:
        return [self.write(part.tree) for part in self.plan.clause.order]

    @property
    def window(self) -> str:
        """The partition of a row, in order; ROW breaks ties."""
        keys = [*self.keys, *([self.quote(self.part)] if self.part else [])]
        partition = f"PARTITION BY {', '.join(keys)} " if keys else ""
        return f"({partition}ORDER BY {', '.join([*self.order, self.quote(ROW)])})"

    @property
    def time(self) -> str:
        """What WITHIN compares: the first expression of ORDER BY."""
        return self.write(self.plan.clause.order[0].tree.this)

    @property
    def within(self) -> str:
        assert self.plan.clause.within is not None
        return self.write(self.plan.clause.within.tree)

    def write_rows(self, source: str) -> str:
        """Return the query of the rows; `source` has them, numbered by ROW."""
        plan, window = self.plan, self.window
        added = {}
        if not self.is_sorted:
            added[RANK] = f"row_number() OVER {window}"
            added[PARTITION] = f"first_value({self.quote(ROW)}) OVER {window}"
        for number, mask in enumerate(plan.conditions.masks):
            if mask is not None:
                told = self._write_value(mask)
                added[name_mask(number)] = f"coalesce({told}, false)"
        for number, value in enumerate(plan.conditions.values):
            added[name_value(number)] = self._write_value(value)
        for name, term in self.list_shifted():
            added[name] = self._write_term_value(term)
        if plan.clause.within is not None:
            added[TIME] = self.time
            added[UNTIL] = f"{self.time} + {self.within}"
        columns = [f"{sql} AS {self.quote(name)}" for name, sql in added.items()]
        return f"SELECT {', '.join(['*', *columns])} FROM {source}"

    def write_fitting(self) -> str | None:
        """Return the condition on rows that fit a variable; None: all do, or are needed."""
        masks = self.plan.conditions.masks
        if self.plan.needs_every_row or None in masks:
            return None
        return " OR ".join(self.quote(name_mask(number)) for number in range(len(masks)))

    def write_possible(self) -> str | None:
        """Return the condition on rows that a match may have, with windows; None: all."""
        masks = [mask is not None for mask in self.plan.conditions.masks]
        edges = find_fitting_edges(self.plan.automaton, masks)
        if self.plan.needs_every_row or edges is None:
            return None

        def write(variables: Iterable[int]) -> str:
            held = [self.quote(name_mask(v)) if masks[v] else "true" for v in variables]
            return "true" if "true" in held else f"({' OR '.join(held) or 'false'})"

        ways = []
        for edge in edges:
            parts = [write([edge.variable])]
            for function, beside in (("lag", edge.before), ("lead", edge.after)):
                if beside is not None:
                    near = f"{function}({write(beside)}) OVER {self.window}"
                    parts.append(f"coalesce({near}, false)")
            ways.append(" AND ".join(parts))
        return " OR ".join(ways)

    def _write_value(self, value: HostValue) -> str:
        text = self.write(value.tree)
        for number, term in reversed(list(enumerate(value.terms))):
            name = self.quote(name_term(number))
            if name in text:
                assert isinstance(term, RowTerm)
                text = text.replace(
                    name, f"({self._write_term_value(term, missing=value.missing)})"
                )
        return text

    def _write_term_value(self, term: RowTerm, *, missing: bool = False) -> str:
        """Return the value of a row, or of a row near it; `missing`: of a row that is none."""
        value = self.write(term.value)
        if missing:
            return f"CASE WHEN false THEN {value} END"
        if term.shift == 0:
            return value
        function, far = "lag" if term.shift < 0 else "lead", abs(term.shift)
        if not self.is_sorted:
            return f"{function}({value}, {far}) OVER {self.window}"
        part = self.quote(PARTITION)
        is_there = f"{function}({part}, {far}) OVER () = {part}"
        return f"CASE WHEN {is_there} THEN {function}({value}, {far}) OVER () END"

    def list_shifted(self) -> Iterator[tuple[str, RowTerm]]:
        """Yield the terms of measures that look at neighbours of a row, with their columns."""
        for i, measure in enumerate(self.plan.measures):
            for j, term in enumerate(measure.expression.terms):
                if isinstance(term, RowTerm) and term.shift and not term.has_classifier:
                    yield f"@near{i}_{j}", term

    # ----------------------------------------------------------------- measures

    @property
    def kept(self) -> list[str]:
        """The columns of rows that the result, or a measure, needs."""
        near = [name for name, _ in self.list_shifted()]
        if self.plan.clause.rows is not RowsPerMatch.ONE:
            return [*self.columns, *near]
        used = {part.tree.name.lower() for part in self.plan.clause.partition}
        for measure in self.plan.measures:
            for term in measure.expression.terms:
                if isinstance(term, RowTerm) and term.shift:
                    continue
                if isinstance(term, RowTerm | AggregateTerm):
                    used |= {column.name.lower() for column in term.value.find_all(exp.Column)}
        return [*(name for name in self.columns if name.lower() in used), *near]

    @property
    def partition_columns(self) -> list[str]:
        names = {name.lower(): name for name in self.columns}
        return [names[part.tree.name.lower()] for part in self.plan.clause.partition]

    def write_measures(self, source: str) -> str:
        """Return the query of the clause's result; `source` has the rows of matches."""
        if self.plan.clause.rows is RowsPerMatch.ONE:
            return self._write_one_row(self._add_counts(source))
        return self._write_all_rows(self._add_counts(source))

    def _write_one_row(self, source: str) -> str:
        q = self.quote
        inner = [f"any_value({q(name)}) AS {q(name)}" for name in self.partition_columns]
        inner.append(f"any_value({q(NUMBER)}) AS {q(NUMBER)}")
        for i, j, term in self._list_terms():
            inner.append(f"{self._write_term(i, j, term, None)} AS {q(f'@t{i}_{j}')}")
        outer = [q(name) for name in self.partition_columns] + self._list_measures()
        selected = ", ".join(outer) or f"1 AS {q(PLACEHOLDER)}"
        grouped = f"SELECT {q(MATCH)}, {', '.join(inner)} FROM {source} GROUP BY {q(MATCH)}"
        return f"SELECT {selected} FROM ({grouped}) AS m{self._write_order(MATCH)}"

    def _write_all_rows(self, source: str) -> str:
        q, clause = self.quote, self.plan.clause
        inner = ["*"]
        for i, j, term in self._list_terms():
            inner.append(
                f"{self._write_term(i, j, term, self._write_frame(term))} AS {q(f'@t{i}_{j}')}"
            )
        first = [*self.partition_columns]
        ordered = {
            part.tree.this.name.lower()
            for part in clause.order
            if isinstance(part.tree.this, exp.Column)
        }
        first += [name for name in self.columns if name.lower() in ordered and name not in first]
        rest = [name for name in self.columns if name not in first]
        outer = [*map(q, first), *self._list_measures(), *map(q, rest)]
        where = f"NOT {q(EXCLUDED)}"
        if clause.rows is RowsPerMatch.ALL_OMIT_EMPTY:
            where += f" AND {q(CLASSIFIER)} IS NOT NULL"
        windows = f"SELECT {', '.join(inner)} FROM {source}"
        order = self._write_order(MATCH, PLACE)
        return f"SELECT {', '.join(outer)} FROM ({windows}) AS m WHERE {where}{order}"

    def _write_order(self, *names: str) -> str:
        """Sort the result where one process has it."""
        if self.dialect != "duckdb":
            return ""
        return f" ORDER BY {', '.join(map(self.quote, names))}"

    def _list_measures(self) -> list[str]:
        return [
            f"{self._write_measure(i)} AS {self.quote(measure.name)}"
            for i, measure in enumerate(self.plan.measures)
        ]

    def _write_measure(self, i: int) -> str:
        q, expression = self.quote, self.plan.measures[i].expression
        text = self.write(expression.tree)
        for j, term in reversed(list(enumerate(expression.terms))):
            known = q(NUMBER) if isinstance(term, MatchNumberTerm) else q(f"@t{i}_{j}")
            text = text.replace(q(name_term(j)), known)
        if self.plan.clause.rows is RowsPerMatch.ALL_WITH_UNMATCHED:
            return f"CASE WHEN {q(NUMBER)} IS NOT NULL THEN {text} END"
        return text

    def _list_terms(self) -> Iterator[tuple[int, int, RowTerm | AggregateTerm]]:
        for i, measure in enumerate(self.plan.measures):
            for j, term in enumerate(measure.expression.terms):
                if not isinstance(term, MatchNumberTerm):
                    yield i, j, term

    def _write_frame(self, term: Term) -> str:
        """Return the rows of the match that a term may look at from a row."""
        q = self.quote
        final = isinstance(term, RowTerm | AggregateTerm) and term.final
        until = "UNBOUNDED FOLLOWING" if final else "CURRENT ROW"
        return (
            f"(PARTITION BY {q(MATCH)} ORDER BY {q(PLACE)} "
            f"ROWS BETWEEN UNBOUNDED PRECEDING AND {until})"
        )

    def _write_mapped(self, variables: frozenset[str] | None) -> str:
        """Return the condition that a row is mapped to one of some variables."""
        if variables is None:
            return f"{self.quote(CLASSIFIER)} IS NOT NULL"
        names = ", ".join(exp.Literal.string(name).sql(self.dialect) for name in sorted(variables))
        return f"coalesce({self.quote(CLASSIFIER)} IN ({names}), false)"

    def _add_counts(self, source: str) -> str:
        """Number the rows of each variable, for FIRST and LAST with a number of rows.

        PREV and NEXT of CLASSIFIER() look at the rows of the match.
        """
        q, added = self.quote, []
        near = [
            f"{'lag' if term.shift < 0 else 'lead'}({self.write(term.value)}, {abs(term.shift)}) "
            f"OVER (PARTITION BY {q(MATCH)} ORDER BY {q(PLACE)}) AS {q(f'@near{i}_{j}')}"
            for i, j, term in self._list_terms()
            if isinstance(term, RowTerm) and term.shift and term.has_classifier
        ]
        if near:
            source = f"(SELECT *, {', '.join(near)} FROM {source}) AS n"
        for i, j, term in self._list_terms():
            if isinstance(term, RowTerm) and term.offset:
                mapped = self._write_mapped(term.variables)
                over = f"OVER (PARTITION BY {q(MATCH)}, {mapped} ORDER BY {q(PLACE)})"
                value = f"lag({self._write_row_value(i, j, term)}, {term.offset}) {over}"
                added.append(
                    f"{f'row_number() {over}' if term.first else value} AS {q(f'@count{i}_{j}')}"
                )
        return f"(SELECT *, {', '.join(added)} FROM {source}) AS r" if added else source

    def _write_row_value(self, i: int, j: int, term: RowTerm) -> str:
        return self.quote(f"@near{i}_{j}") if term.shift else self.write(term.value)

    def _write_term(self, i: int, j: int, term: RowTerm | AggregateTerm, frame: str | None) -> str:
        mapped = self._write_mapped(term.variables)
        if isinstance(term, AggregateTerm):
            is_ordered = isinstance(term.value.this, exp.Order)
            if self.dialect == "spark" and isinstance(term.value, exp.ArrayAgg) and is_ordered:
                span = self.plan.measures[i].expression.source.span
                found = Diagnostic("Spark has no ORDER BY inside of a list", span)
                raise QueryError([found], self.plan.text)
            return self._write_aggregate(term, mapped, frame)
        value, counted = self._write_row_value(i, j, term), self.quote(f"@count{i}_{j}")
        if frame is not None and term == RowTerm(None, term.value, shift=term.shift):
            return f"CASE WHEN {mapped} THEN {value} END"  # the row itself
        if term.offset and term.first:
            mapped += f" AND {counted} = {term.offset + 1}"
        elif term.offset:
            value = counted
        over = "" if frame is None else f" OVER {frame}"
        index = self.quote(PLACE)
        if self.dialect == "duckdb":
            pick = "arg_min" if term.first else "arg_max"
            picked = f"{pick}(struct_pack(v := {value}), {index}) FILTER (WHERE {mapped}){over}"
            return f"struct_extract({picked}, 'v')"
        pick = "min_by" if term.first else "max_by"
        return f"({pick}(named_struct('v', {value}), CASE WHEN {mapped} THEN {index} END){over}).v"

    def _write_aggregate(self, term: AggregateTerm, mapped: str, frame: str | None) -> str:
        is_list = isinstance(term.value, exp.ArrayAgg)
        if self.dialect == "spark" and is_list and not isinstance(term.value.this, exp.Distinct):
            return self._write_spark_list(term.value, mapped, frame)
        over = "" if frame is None else f" OVER {frame}"
        value = self._sort_rows(term.value) if frame is None else term.value
        if self.dialect == "duckdb" or frame is None:
            text = self.write(value)
            written = sqlglot.parse_one(text, dialect=self.dialect)
            if isinstance(written, exp.Filter):  # of a function that leaves NULL out
                own = self.write(written.expression.this)
                text, mapped = self.write(written.this), f"({own}) AND {mapped}"
            return f"{text} FILTER (WHERE {mapped}){over}"
        return f"{self._write_guarded(term.value, mapped)}{over}"

    def _sort_rows(self, value: exp.Expr) -> exp.Expr:
        """Return an aggregate that reads the rows of a match in order, if order matters to it.

        Groups have no order: threads of DuckDB and tasks of Spark may share the rows of a match.
        """
        inner = value.this
        if isinstance(inner, exp.Distinct) or not isinstance(value, exp.ArrayAgg | exp.GroupConcat):
            return value
        in_order = exp.Ordered(this=exp.column(exp.to_identifier(PLACE, quoted=True)))
        changed = value.copy()
        if isinstance(inner, exp.Order):
            changed.this.append("expressions", in_order)
        else:
            changed.set("this", exp.Order(this=inner.copy(), expressions=[in_order]))
        return changed

    def _write_spark_list(self, value: exp.Expr, mapped: str, frame: str | None) -> str:
        """Return a list of the rows of a match, in order.

        COLLECT_LIST has no order and leaves NULL out, so it collects structures.
        """
        item = self.write(value.this)
        if value.args.get("nulls_excluded"):
            mapped = f"({item}) IS NOT NULL AND {mapped}"
        entry = f"named_struct('place', {self.quote(PLACE)}, 'item', {item})"
        if frame is None:
            earlier = "(a, b) -> CASE WHEN a.place < b.place THEN -1 ELSE 1 END"
            rows = f"array_sort(collect_list({entry}) FILTER (WHERE {mapped}), {earlier})"
        else:
            rows = f"collect_list(CASE WHEN {mapped} THEN {entry} END) OVER {frame}"
        return f"transform({rows}, a -> a.item)"

    def _write_guarded(self, value: exp.Expr, mapped: str) -> str:
        """Return an aggregate of the mapped rows, for a host without FILTER in windows."""
        inner = value.copy()
        argument = inner.this
        if isinstance(argument, exp.Star):
            argument.replace(exp.Literal.number(1))
            argument = inner.this
        hold = argument.expressions[0] if isinstance(argument, exp.Distinct) else argument
        name = exp.column(exp.to_identifier("@guarded", quoted=True))
        text = self.write(hold)
        hold.replace(name)
        guarded = f"CASE WHEN {mapped} THEN {text} END"
        return self.write(inner).replace(self.quote("@guarded"), guarded)
