"""`RowTrace`: the rows and matches of a MATCH_RECOGNIZE clause, and *why are these rows no match?*

`why` reads the pattern from the first of the rows on, in every way that conditions allow, and
remembers how far each way gets. The answer is about the one that gets farthest: which row it cannot
read, and which condition of DEFINE is in the way. Where the rows can be read as the pattern, the
search did not report them for another reason: a preferred match, AFTER MATCH SKIP, or WITHIN.

Cost contract: a trace holds the rows of the clause. `why` visits each row, state and set of
registers once, in plain Python, and gives up after `_MOST_STEPS`: people ask it of few rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from sqlglot import exp

from cernis.automata.rows.construct import ACCEPT, AT_END, AT_START
from cernis.engine.rows.search import PathConditions, extend_path, start_path
from cernis.errors import DataError
from cernis.integers import count_noun
from cernis.languages.sql.row_pattern import SkipMode
from cernis.languages.sql.terms import RowTerm, find_terms
from cernis.plan.rows.matcher import PARTITION
from cernis.plan.rows.plan import RowPlan
from cernis.results.finding import Finding, Obstacle, write_finding
from cernis.results.result import Result
from cernis.run.rows.feed import MatchedRows, RowFeed

Numbers = np.ndarray[Any, np.dtype[np.int64]]
_MOST_STEPS = 50_000
_MOST_TRIED = 4


class FoundInterval(NamedTuple):
    """A match: its first row, the row after its last, and the variable of each row."""

    first: int
    end: int
    variables: tuple[str, ...]


class _FarthestReading(NamedTuple):
    """The farthest way to read rows as the pattern."""

    variables: tuple[str, ...]
    is_complete: bool
    wanted: tuple[tuple[str, int], ...]
    """What the pattern asks for next: variables, with the anchors that are missing."""


@dataclass(frozen=True)
class RowTrace:
    """The rows of a clause, in the order of partitions and ORDER BY, and its matches."""

    plan: RowPlan
    rows: pa.Table
    """The columns of the relation."""
    numbers: Numbers
    """The number of each row in the relation, from 0 on."""
    table: pa.Table
    """What the matcher reads."""
    matched: MatchedRows
    feed: RowFeed
    result: Result[dict[str, Any]]
    """The rows of the statement."""

    @cached_property
    def matches(self) -> list[FoundInterval]:
        """The matches that have rows, in order."""
        found, names = self.matched, self.plan.clause.variables
        begins = np.flatnonzero(found.offsets == 0).tolist()
        shown = []
        for begin, end in pairwise([*begins, len(found.rows)]):
            own = found.variables[begin:end].tolist()
            if own[0] < 0:
                continue
            first = int(found.starts[begin])
            shown.append(FoundInterval(first, first + len(own), tuple(names[v] for v in own)))
        return shown

    @cached_property
    def partitions(self) -> Numbers:
        """The partition of each row, by the number of its first row."""
        return np.asarray(self.table.column(PARTITION), np.int64)

    @cached_property
    def _index(self) -> dict[int, int]:
        return {number: i for i, number in enumerate(self.numbers.tolist())}

    def _name(self, row: int) -> str:
        return f"row {int(self.numbers[row])}"

    # ----------------------------------------------------------------------- why

    def count_fitting(self) -> dict[str, int]:
        """Return how many rows fit each variable, as far as a condition looks at single rows."""
        fitting = np.count_nonzero(self.holds, axis=0)
        return dict(zip(self.plan.clause.variables, map(int, fitting), strict=True))

    def describe(self) -> str:
        """Return how many rows, matches, and rows for each variable there are."""
        rows = count_noun(self.rows.num_rows, "row")
        partitions = count_noun(len(np.unique(self.partitions)), "partition")
        matches = count_noun(len(self.matches), "match", "matches")
        lines = [f"PATTERN ({self.plan.clause.pattern}): {matches} in {rows}, {partitions}"]
        for name, number in self.count_fitting().items():
            defined = self.plan.clause.define.get(name)
            told = "" if defined is None else f" AS {self._quote(defined)}"
            depends = name in self.plan.conditions.dependent
            rest = ", before what depends on the path" if depends else ""
            lines.append(f"  {name}{told}: {count_noun(number, 'row')}{rest}")
        return "\n".join(lines)

    def why(self, rows: Iterable[int]) -> Finding:
        """Return whether rows, by their numbers in the relation, are in a match, and why not.

        Of several rows, the match begins at the first and ends at the last, in the order of the
        clause. Of one row, it begins there.
        """
        asked = sorted({self._find(number) for number in rows})
        if not asked:
            raise DataError("no rows are given")
        ranks = {row: int(self.numbers[row]) for row in asked}
        for one in self.matches:
            if one.first <= asked[0] and asked[-1] < one.end:
                names = {row: (one.variables[row - one.first],) for row in asked}
                agreed = f"a match has {self._name(one.first)} to {self._name(one.end - 1)}"
                return write_finding(ranks, names, (), agreed)
        if (other := self._find_other_partition(asked)) is not None:
            return write_finding(ranks, {}, [other], "")
        last = asked[-1] if len(asked) > 1 else None
        reading = self._read(asked[0], last)
        if reading is None:
            told = "these rows can be read in too many ways to say why they are no match"
            return Finding(False, (), None, told)
        names = {asked[0] + i: (name,) for i, name in enumerate(reading.variables)}
        obstacles = list(self._explain(asked[0], last, reading))
        for name, _ in reading.wanted[:_MOST_TRIED]:
            stop = asked[0] + len(reading.variables)
            names[stop] = (*names.get(stop, ()), name)
        return write_finding(ranks, names, obstacles, "")

    def _find(self, number: int) -> int:
        if number not in self._index:
            raise DataError(f"the clause reads no row {number}")
        return self._index[number]

    def _find_other_partition(self, asked: Sequence[int]) -> Obstacle | None:
        for row in asked[1:]:
            if self.partitions[row] != self.partitions[asked[0]]:
                columns = ", ".join(part.tree.name for part in self.plan.clause.partition)
                reason = f"{self._name(asked[0])} and {self._name(row)} are in two partitions"
                return Obstacle("key", row, f"PARTITION BY {columns}", reason)
        return None

    def _explain(
        self, first: int, last: int | None, reading: _FarthestReading
    ) -> Iterator[Obstacle]:
        """Yield what keeps the rows from being a match."""
        stop = first + len(reading.variables)
        pattern = f"PATTERN ({self.plan.clause.pattern})"
        if reading.is_complete:
            yield self._explain_choice(first, stop - 1, pattern)
        elif last is not None and stop > last:
            needs = " or ".join(dict.fromkeys(name for name, _ in reading.wanted))
            reason = f"it is not complete after {self._name(last)}: it still needs {needs}"
            yield Obstacle("missing", last, pattern, reason)
        elif not reading.wanted:
            yield Obstacle("extra", stop, pattern, f"it is complete before {self._name(stop)}")
        elif stop == len(self.partitions) or self.partitions[stop] != self.partitions[first]:
            needs = " or ".join(dict.fromkeys(name for name, _ in reading.wanted))
            reason = f"it still needs {needs}, and no row of the partition follows"
            yield Obstacle("missing", stop - 1, pattern, reason)
        else:
            for name, anchors in reading.wanted[:_MOST_TRIED]:
                yield self._explain_variable(first, stop, name, anchors, reading)

    def _explain_choice(self, first: int, last: int, pattern: str) -> Obstacle:
        """Say why rows that can be read as the pattern are not reported."""
        clause = self.plan.clause
        if clause.within is not None and last >= self._limits[first]:
            told = f"{self._name(last)} is too late for a match from {self._name(first)} on"
            return Obstacle("window", last, f"WITHIN {self._quote(clause.within)}", told)
        for one in self.matches:
            if one.first == first:
                preferred = f"the match from {self._name(first)} to {self._name(one.end - 1)}"
                return Obstacle("strategy", last, pattern, f"{preferred} is preferred")
        empty = self.matched.starts[(self.matched.variables < 0) & (self.matched.numbers > 0)]
        if first in empty:
            return Obstacle("strategy", last, pattern, "an empty match is preferred")
        before = [one for one in self.matches if one.first < first][-1]
        between = f"{self._name(before.first)} to {self._name(before.end - 1)}"
        skips = {SkipMode.PAST_LAST_ROW: "PAST LAST ROW", SkipMode.TO_NEXT_ROW: "TO NEXT ROW"}
        target = "" if clause.target is None else f"{clause.skip.name} {clause.target.text}"
        told = skips.get(clause.skip, target.replace("_", " "))
        reason = f"{between} are a match, and the search goes on after {self._name(first)}"
        return Obstacle("strategy", first, f"AFTER MATCH SKIP {told}", reason)

    def _explain_variable(
        self, first: int, row: int, name: str, anchors: int, reading: _FarthestReading
    ) -> Obstacle:
        """Say why a row does not fit a variable."""
        if anchors:
            sign, edge = ("^", "first") if anchors & AT_START else ("$", "last")
            reason = f"{self._name(row)} is not the {edge} of its partition"
            return Obstacle("order", row, f"{sign} in PATTERN", reason)
        source = self.plan.clause.define[name]
        values = self._list_values(first, row, name, reading.variables)
        told = ", ".join(f"{text} = {_write(value)}" for text, value in values.items())
        reason = f"{self._name(row)} does not fit{told and f': {told}'}"
        return Obstacle("condition", row, f"{name} AS {self._quote(source)}", reason)

    def _quote(self, expression: Any) -> str:
        return " ".join(self.plan.text[expression.span.start : expression.span.end].split())

    def _list_values(
        self, first: int, row: int, name: str, variables: Sequence[str]
    ) -> Mapping[str, Any]:
        """Return the columns that a condition looks at, with the values that it sees."""
        clause = self.plan.clause
        condition = find_terms(clause.define[name], clause, self.plan.text, variable=name)
        found: dict[str, Any] = {}
        for term in condition.terms:
            if not isinstance(term, RowTerm) or not isinstance(term.value, exp.Column):
                continue
            if term.has_classifier:
                continue
            tried = (*variables, name)
            own = [
                first + i
                for i, one in enumerate(tried)
                if term.variables is None or one in term.variables
            ]
            at = term.offset if term.first else len(own) - 1 - term.offset
            seen = own[at] + term.shift if 0 <= at < len(own) else -1
            there = 0 <= seen < len(self.partitions)
            there = there and bool(self.partitions[seen] == self.partitions[row])
            column = self._find_column(term.value.name)
            found[_name_term(term, name)] = (
                self.rows.column(column)[seen].as_py() if there else None
            )
        return found

    def _find_column(self, name: str) -> str:
        names: list[str] = self.rows.column_names
        return next(one for one in names if one.lower() == name.lower())

    # ------------------------------------------------------------------- reading

    @cached_property
    def holds(self) -> Any:
        """Per row and variable, whether the conditions on single rows hold."""
        return self.feed.read_masks(self.table)

    @cached_property
    def _limits(self) -> Numbers:
        partitions = self.partitions
        begins = np.flatnonzero(np.append(True, partitions[1:] != partitions[:-1]))
        return self.feed.read_limits(self.table, np.append(begins, len(partitions)))

    @cached_property
    def _conditions(self) -> PathConditions | None:
        own = self.feed.matcher
        if own.registers is None or own.programs is None:
            return None
        return self.feed.read_conditions(self.table)

    def _read(self, first: int, last: int | None) -> _FarthestReading | None:
        """Read rows as the pattern, up to the last one; None: there are too many ways."""
        automaton, conditions = self.plan.automaton, self._conditions
        names = automaton.variables
        members = np.flatnonzero(self.partitions == self.partitions[first])
        begin, end = int(members[0]), int(members[-1]) + 1
        stop = end if last is None else last + 1
        path = np.empty(0)
        if conditions is not None:
            starts = self.matched.starts[(self.matched.offsets == 0) & (self.matched.numbers > 0)]
            number = int(np.count_nonzero((begin <= starts) & (starts < first))) + 1
            path = start_path(conditions, number)
        stack: list[tuple[int, int, Any, tuple[Any, ...] | None]] = [(first, 0, path, None)]
        seen: set[tuple[int, int, bytes]] = set()
        best: tuple[Any, ...] | None = None
        farthest, wanted, steps = first - 1, dict[tuple[str, int], None](), 0
        while stack:
            row, state, path, before = stack.pop()
            if (key := (row, state, path.tobytes())) in seen:
                continue
            seen.add(key)
            if row > farthest:
                farthest, best, wanted = row, before, {}
            following = []
            here = (AT_START if row == begin else 0) | (AT_END if row == end else 0)
            for edge in automaton.edges[state]:
                steps += 1
                if steps > _MOST_STEPS:
                    return None
                missing = edge.anchors & ~here
                if edge.variable == ACCEPT:
                    if not missing and (last is None or row == stop) and row > first:
                        return _FarthestReading(_list_variables(before, names), True, ())
                    continue
                if row == farthest:
                    wanted[names[edge.variable], missing] = None
                if missing or row >= stop or not self.holds[row, edge.variable]:
                    continue
                longer = path
                if conditions is not None:
                    longer = extend_path(conditions, path, row, edge.variable)
                if longer is not None:
                    following.append((row + 1, edge.target, longer, (edge.variable, before)))
            stack += reversed(following)
        return _FarthestReading(_list_variables(best, names), False, tuple(wanted))


def _list_variables(path: tuple[Any, ...] | None, names: Sequence[str]) -> tuple[str, ...]:
    found = []
    while path is not None:
        found.append(names[path[0]])
        path = path[1]
    return tuple(reversed(found))


def _name_term(term: RowTerm, variable: str) -> str:
    """Return a term as a condition of a variable may write it."""
    text = term.value.name
    if term.variables is not None and term.variables != {variable}:
        text = f"{'|'.join(sorted(term.variables))}.{text}"
    if term.first or term.offset:
        offset = f", {term.offset}" if term.offset else ""
        text = f"{'FIRST' if term.first else 'LAST'}({text}{offset})"
    if term.shift:
        number = f", {abs(term.shift)}" if abs(term.shift) > 1 else ""
        text = f"{'PREV' if term.shift < 0 else 'NEXT'}({text}{number})"
    return text


def _write(value: Any) -> str:
    return "NULL" if value is None else repr(value) if isinstance(value, str) else str(value)
