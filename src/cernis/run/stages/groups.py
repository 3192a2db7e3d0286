"""Aggregate over the matches of each group of `GROUP BY`.

Where the plan allows it, the sliding aggregator gives the aggregates of all matches that end at
a position (`engine.unary.aggregate`), and no match is ever made. Otherwise the match set counts its
matches, where nothing but `COUNT(*)` is asked for. Where events are compared it adds numbers up on
its vertices (`engine.dag.measure`). Else matches are listed, and the values of their events are
added up block by block. Matches are listed for `COUNT(DISTINCT …)` as well; that spends the budget.
A group `EVERY` some time stays open until time has passed its end, one of `OF START` as long
as the window lets a match that starts in it end; one of `END` does not wait.

Cost contract: per batch, a few NumPy passes over its ends, and Python for each group that they
belong to. Listing costs what listing costs, and Python for each match where values are no
numbers of 64 bits. State: the open groups, with the different values that they count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cernis.encoding.measure import read_numbers
from cernis.engine.unary.aggregate import (
    EndAggregates,
    Measure,
    MeasuredColumn,
    MeasuredPairs,
    join_found,
)
from cernis.engine.words import add_up, is_zero, list_integers
from cernis.errors import DataError, StateError
from cernis.events.column_types import common_type, is_text
from cernis.events.evaluation.evaluate import compare
from cernis.events.frozen import read_table, write_table
from cernis.events.source import list_attributes
from cernis.events.store import EventStore
from cernis.events.times import DAY, UNITS, tick_of
from cernis.integers import read_integer, to_nearest, write_integer
from cernis.pattern import predicate as pred
from cernis.pattern.query import Grouping, Pattern, SelectedTerm
from cernis.pattern.selection import group_terms, list_distinct
from cernis.pattern.write import write_term
from cernis.results.formats.columns import MatchFields, count_column, partition_columns
from cernis.results.formats.group_columns import (
    average_column,
    number_column,
    sum_column,
    to_decimal,
    to_integer,
    to_operand,
    value_column,
)
from cernis.results.sets.correlated import CorrelatedMatches
from cernis.results.sets.counted import CountedMatches, read_counts
from cernis.results.sets.matchset import ListedMatches, MatchBlock, MatchSet, pieces
from cernis.results.terms.aggregate import evaluate
from cernis.results.terms.distinct import make_hashable, number_distinct, write_value
from cernis.results.terms.term import calculate_term, to_column
from cernis.results.values import python_values
from cernis.run.feed import Measures, number_ticks
from cernis.run.stages.stage import ClosingStage, Run, Stages
from cernis.schema import Kind, Schema
from cernis.state import Tree

Source = tuple[str, str | None]
"""A variable, and the attribute that is aggregated; None: the events themselves."""

_TIME = "@time"
_LATEST = 2**63 - 1
_PIECE = 1 << 22
"""So many events of matches are added at a time."""
_SHORT = 18
"""Any number of so many digits has 64 bits."""


class Totals(NamedTuple):
    """The aggregates of one source over some matches; the last three are None over no pairs.

    The total of decimals is an integer, that of their last places.
    """

    pairs: int
    total: Any = None
    least: Any = None
    greatest: Any = None

    def add(self, other: Totals) -> Totals:
        if not other.pairs or not self.pairs:
            return other if other.pairs else self
        return Totals(
            self.pairs + other.pairs,
            None if self.total is None else _add(self.total, other.total),
            None if self.least is None else _choose(min, self.least, other.least),
            None if self.greatest is None else _choose(max, self.greatest, other.greatest),
        )


def _choose(of: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    """Return the least or greatest of two values; NaN is neither, if the other one is none."""
    return of(one, other) if one == one else other


def _add(one: float, other: float) -> float:
    """Return the sum of integers of any size, or of floats where one of the two is."""
    if isinstance(one, int) and isinstance(other, int):
        return one + other
    return to_nearest(one) + to_nearest(other)


@dataclass(slots=True)
class OpenGroup:
    """A group that may still grow."""

    count: int
    totals: list[Totals]
    values: list[set[str]]
    """The different values of each attribute that COUNT(DISTINCT …) counts (`write_value`)."""

    def add(self, count: int, totals: Sequence[Totals]) -> None:
        self.count += count
        self.totals = [one.add(other) for one, other in zip(self.totals, totals, strict=True)]


GroupKey = tuple[int, tuple[Any, ...]]
"""The number of the interval or the end position, and the components of the partition."""


def find_sources(pattern: Pattern) -> dict[Source, set[str]]:
    """Return what SELECT and HAVING aggregate, with the functions that they apply.

    Without what `COUNT(DISTINCT …)` counts.
    """
    found: dict[Source, set[str]] = {}
    for term in group_terms(pattern):
        for part in pred.walk_term(term):
            match part:
                case pred.Aggregate(distinct=True):
                    pass
                case pred.Aggregate(argument=str(variable)):
                    found.setdefault((variable, None), set())
                case pred.Aggregate(function=function, argument=pred.Reference() as argument):
                    source = (argument.variable, argument.attribute.name)
                    found.setdefault(source, set()).add(function)
    return found


def find_measures(
    pattern: Pattern, schema: Schema, columns: Iterable[pa.Schema]
) -> Measures | None:
    """Return what the sliding aggregator measures; None if it cannot hold some attribute.

    It holds numbers of 64 bits, as decimals of up to 18 digits are, if all have as many places.
    """
    if list_distinct(pattern):
        return None
    types: dict[str, set[pa.DataType]] = {}
    for own in columns:
        for name, type_ in list_attributes(own):
            types.setdefault(name, set()).add(type_)
    measures: dict[Measure, tuple[str, ...]] = {}
    for (variable, attribute), functions in find_sources(pattern).items():
        kinds = {Kind.INT} if attribute is None else _kinds_of(attribute, schema)
        found = types.get(attribute or "", set())
        if kinds - {Kind.INT, Kind.FLOAT} or any(map(pa.types.is_uint64, found)):
            return None
        measure = _make_measure(variable, attribute, functions, is_real=Kind.FLOAT in kinds)
        if any(map(pa.types.is_decimal, found)):
            kind, *others = found
            if others or not _is_short(kind):
                return None
            measure = replace(measure, is_real=False, scale=kind.scale)
        path = () if attribute is None else tuple(attribute.split("."))
        measures[measure] = path
    return measures


def _is_short(kind: pa.DataType) -> bool:
    """Whether 64 bits hold each decimal of a type, without its point."""
    return bool(kind.precision <= _SHORT and 0 <= kind.scale <= kind.precision)


def _make_measure(
    variable: str, attribute: str | None, functions: set[str], *, is_real: bool
) -> Measure:
    return Measure(
        variable,
        attribute or "",
        is_real=is_real,
        total=bool(functions & {"SUM", "AVG"}),
        least="MIN" in functions,
        greatest="MAX" in functions,
    )


def _kinds_of(attribute: str, schema: Schema) -> set[Kind]:
    """Return the kinds that an attribute has in the streams; OTHER where none has it."""
    kinds = {
        kind
        for stream in schema.streams
        for attributes in (stream.attributes, *stream.events.values())
        for name, kind in attributes.items()
        if name == attribute
    }
    return kinds or {Kind.OTHER}


def number_intervals(
    store: EventStore, ends: NDArray[np.int64], size: int, clause: str
) -> NDArray[np.int64]:
    """Return the number of the interval of so many nanoseconds that each event lies in."""
    return number_ticks(*_read_times(store, ends, clause), size, clause)


def _read_times(
    store: EventStore, positions: NDArray[np.int64], clause: str
) -> tuple[NDArray[np.int64], int]:
    """Return the times of events in their own ticks, and the nanoseconds of a tick."""
    times = store.times(positions)
    tick = tick_of(times.type, store.time_unit) or 1
    ticks, unusable = store.ticks(positions, tick)
    if not store.is_timed or (unusable is not None and unusable.any()):
        raise DataError(f"{clause} needs a column of times")
    return ticks, tick


class Grouper(ClosingStage):
    """The open groups of one query."""

    name = "groups"
    heeds_time = drops = True

    def __init__(self, run: Run, grouping: Grouping) -> None:
        super().__init__(run)
        self.pattern, self.store, self.budget = run.plan.pattern, run.store, run.budget
        self.grouping = grouping
        self.groups: dict[GroupKey, OpenGroup] = {}
        self.ended: list[EndAggregates] = []
        """With GROUP BY END, the aggregates of ends that are not reported yet."""
        self.sources = find_sources(self.pattern)
        self.distinct = list_distinct(self.pattern)
        self.lists = grouping.of_start or bool(self.distinct)
        self._wait = self.pattern.group_wait
        self._fields = MatchFields.of(self.pattern, ())
        self._known: dict[str, pa.DataType] = {}
        self._scales: dict[str, int] = {}
        self._nothing: tuple[tuple[int, bool], pa.Table] | None = None
        """No group, in the columns of the events so far."""

    def describe_waits(self, *, endless: bool, last: bool) -> Iterator[str]:
        if endless and self._wait is None:
            yield "EVERY … OF START pushes groups when the input ends; add WITHIN a time"

    def awaits_time(self) -> bool:
        return bool(self.groups or self.ended)

    def report(self, found: MatchSet, stages: Stages, *, last: bool) -> pa.Table:
        """Add matches; report the groups that time has passed, or all if no event follows."""
        if isinstance(found, CountedMatches):
            self.add_ends(found.taken)
        else:
            self.add_matches(found)
        return self.take_all() if last else self._take_closed(stages)

    # -------------------------------------------------------------- adding

    def add_ends(self, found: Iterable[EndAggregates]) -> None:
        """Add the aggregates of all matches at some ends."""
        for each in found:
            if self.grouping.end:
                self.ended.append(each)
            elif len(each.ends):
                self._add_reduced(each)

    def _add_reduced(self, found: EndAggregates) -> None:
        """Add up the ends of each group, then add the sums to the groups."""
        numbers = self._numbers_of(found.ends) if found.intervals is None else found.intervals
        which = self._number_groups(found.ends, numbers)
        order = np.argsort(which, kind="stable")
        starts = np.searchsorted(which[order], np.arange(which.max() + 1))
        counts = add_up(found.counts[order], starts)
        columns = [
            self._scale_values(_reduce_totals(measure, order, starts), attribute)
            for measure, (_, attribute) in zip(found.measures, self.sources, strict=True)
        ]
        first = order[starts]
        for row, key in enumerate(self._keys_of(found.ends[first], numbers[first])):
            self._put(key, counts[row], [column[row] for column in columns])

    def _scale_values(self, found: list[Totals], attribute: str | None) -> list[Totals]:
        """Return aggregates with decimals for the least and greatest of measured ones."""
        scale = None if attribute is None else self._find_scale(attribute)
        if scale is None:
            return found

        def write(value: Any) -> Any:
            return None if value is None else to_decimal(value, scale)

        return [
            each._replace(least=write(each.least), greatest=write(each.greatest)) for each in found
        ]

    def _number_groups(
        self, ends: NDArray[np.int64], numbers: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the number, from 0, of the group of each end with the number of its interval."""
        held = dict(zip(self._fields.keys, self._partition_of(ends), strict=True))
        which = _number_values(numbers)
        for name in self.grouping.components:
            codes = number_distinct(held[name])
            which = np.unique(which * (codes.max() + 1) + codes, return_inverse=True)[1]
        return which

    def add_matches(self, found: MatchSet) -> None:
        """Add matches: their numbers where nothing else is asked for, or else their values."""
        if not self.sources and not self.lists:
            ends, counts = read_counts(found)
            self.add_ends([EndAggregates(ends, counts)] if len(ends) else [])
            return
        measures = self._list_measures()
        if measures is not None and not self.lists and self._add_measured(found, measures):
            return
        for block in chain.from_iterable(pieces(one, _PIECE) for one in found.blocks()):
            if self.lists and not isinstance(found, ListedMatches):
                self.budget.spend(len(block.end), "the query lists matches for its groups")
                if self.budget.spent:
                    return
            if measures is not None:
                self._add_pairs(block, found.variables, measures)
                continue
            columns = []
            for (variable, attribute), functions in self.sources.items():
                argument = _argument(variable, attribute)
                none = [None] * len(block.end)
                values = [
                    python_values(
                        evaluate(pred.Aggregate(name, argument), block, found.variables, self.store)
                    )
                    if name == "COUNT" or name in functions | {"SUM" if "AVG" in functions else ""}
                    else none
                    for name in ("COUNT", "SUM", "MIN", "MAX")
                ]
                scale = None if attribute is None else self._find_scale(attribute)
                if scale is not None:
                    values[1] = [to_integer(value, scale) for value in values[1]]
                columns.append([Totals(*each) for each in zip(*values, strict=True)])
            for row, key in enumerate(self._keys_of(block.end, self._numbers_in(block))):
                self._put(key, 1, [column[row] for column in columns])
            self._add_values(block, found.variables)

    def _list_measures(self) -> list[Measure] | None:
        """Return what is measured; None where values are no numbers of 64 bits."""
        measures = []
        for (variable, attribute), functions in self.sources.items():
            kind = pa.int64() if attribute is None else self._find_type(attribute)
            if kind is None:  # no event has a value
                return None
            is_real, is_decimal = pa.types.is_floating(kind), pa.types.is_decimal(kind)
            if is_decimal and not _is_short(kind):
                return None
            if not (is_real or is_decimal or pa.types.is_signed_integer(kind)):
                return None
            measure = _make_measure(variable, attribute, functions, is_real=is_real)
            if is_decimal:
                measure = replace(measure, scale=self._find_scale(str(attribute)) or 0)
            measures.append(measure)
        return measures

    def _add_pairs(
        self, block: MatchBlock, variables: Sequence[str], measures: Sequence[Measure]
    ) -> None:
        """Add the matches of a block: all pairs of a match and an event, group by group."""
        numbers = self._numbers_in(block)
        which = self._number_groups(block.end, numbers)
        present, first, counts = np.unique(which, return_index=True, return_counts=True)
        columns = []
        for measure in measures:
            v = variables.index(measure.variable)
            column = self._read_measure(measure, block.positions[v])
            groups = np.repeat(which, np.diff(block.offsets[v]))
            totals = _total_pairs(measure, column, groups, len(present))
            columns.append(self._scale_values(totals, measure.attribute or None))
        for row, key in enumerate(self._keys_of(block.end[first], numbers[first])):
            self._put(key, int(counts[row]), [column[row] for column in columns])
        self._add_values(block, variables)

    def _add_values(self, block: MatchBlock, variables: Sequence[str]) -> None:
        """Add the different values in the matches of a block, whose groups are open, to these."""
        if not self.distinct:
            return
        numbers = self._numbers_in(block)
        which = self._number_groups(block.end, numbers)
        first = np.unique(which, return_index=True)[1]
        groups = [self.groups[key] for key in self._keys_of(block.end[first], numbers[first])]
        for index, source in enumerate(self.distinct):
            attribute, v = source.attribute.name, variables.index(source.variable)
            owners = np.repeat(which, np.diff(block.offsets[v]))
            for kind in self.store.list_kinds(attribute):
                column = self.store.column_of_kind(block.positions[v], attribute, kind)
                codes = number_distinct(column)
                pairs = owners * (codes.max(initial=0) + 1) + codes
                once = np.unique(pairs, return_index=True)[1]
                values = python_values(column.take(pa.array(once)))
                for owner, value in zip(owners[once].tolist(), values, strict=True):
                    if value is not None:
                        groups[owner].values[index].add(write_value(value))

    def _add_measured(self, found: MatchSet, measures: Sequence[Measure]) -> bool:
        """Add up numbers on the vertices of compared events; return whether that is possible."""
        if (
            not isinstance(found, CorrelatedMatches)
            or found.steps is not None
            or found.lists_to_count
        ):
            return False
        stored = self.store.span
        if stored:
            ends = found.aggregate(measures, self._read_measure, stored.start)
            if len(ends.ends):
                self._add_reduced(ends)
        return True

    def _read_measure(self, measure: Measure, positions: NDArray[np.int64]) -> MeasuredColumn:
        """Return the values of a measure at these positions."""
        if not measure.attribute:
            return MeasuredColumn()
        column = self.store.column(positions, measure.attribute)
        return MeasuredColumn(*read_numbers(column, is_real=measure.is_real, scale=measure.scale))

    def _put(self, key: GroupKey, count: int, totals: list[Totals]) -> None:
        group = self.groups.get(key)
        if group is None:
            self.groups[key] = OpenGroup(count, totals, [set() for _ in self.distinct])
        else:
            group.add(count, totals)

    def _keys_of(self, ends: NDArray[np.int64], numbers: NDArray[np.int64]) -> Iterator[GroupKey]:
        """Return the group of each end, with the number of its interval."""
        named = dict(zip(self._fields.keys, self._partition_of(ends), strict=True))
        components = [
            map(make_hashable, python_values(named[name])) for name in self.grouping.components
        ]
        held = zip(*components, strict=True) if components else iter([()] * len(ends))
        return zip(numbers.tolist(), held, strict=True)

    def _numbers_in(self, block: MatchBlock) -> NDArray[np.int64]:
        """Return the number of the interval, or the end, of each match."""
        return self._numbers_of(block.start if self.grouping.of_start else block.end)

    def _numbers_of(self, ends: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.grouping.end:
            return ends
        if self.grouping.every is None:
            return np.zeros(len(ends), np.int64)
        return number_intervals(self.store, ends, int(self.grouping.every), "GROUP BY EVERY")

    # ------------------------------------------------------------ reporting

    def _take_closed(self, stages: Stages) -> pa.Table:
        """Report the groups that time has passed.

        A match that is not certain yet may join the groups of its end. An event that is stored no
        longer was the last one before: what it closes was reported then.
        """
        if self.grouping.end:
            return self.take_all()
        waiting = stages.first_end()
        last = self.run.position - 1 if waiting is None else waiting
        closed: list[GroupKey] = []
        if self.grouping.every is not None and self.groups:
            closed = self._list_complete(last) if last in self.store.span else []
            if (passed := self.passed) is not None:
                complete = {*self._list_complete(waiting)} - {*closed}
                closed += [key for key in complete if self._closes_at(key) <= passed]
        return self._report(closed)

    def pass_time(self, nanoseconds: int, stages: Stages) -> pa.Table:
        closed = self._list_complete(stages.first_end())
        return self._report([key for key in closed if self._closes_at(key) <= nanoseconds])

    def first_close(self, stages: Stages) -> int | None:
        """Return the time, in nanoseconds, that closes the next group of EVERY; None: none does.

        A group that a match which is not certain yet may join does not close.
        """
        complete = self._list_complete(stages.first_end())
        return min(map(self._closes_at, complete), default=None)

    def _list_complete(self, waiting: int | None) -> list[GroupKey]:
        """List the groups of EVERY that no match can join which ends at `waiting` or later."""
        if self.grouping.every is None or self._wait is None:
            return []
        if waiting is None or not self.groups:
            return list(self.groups)
        ticks, tick = _read_times(self.store, np.array([waiting]), "GROUP BY EVERY")
        now = int(ticks[0]) * tick
        return [key for key in self.groups if self._closes_at(key) <= now]

    def _closes_at(self, key: GroupKey) -> int:
        """Return the time from which on no match that ends can join a group of EVERY."""
        assert self.grouping.every is not None
        assert self._wait is not None
        return (int(key[0]) + 1) * int(self.grouping.every) + self._wait

    def take_all(self) -> pa.Table:
        """Report all groups: no further event comes."""
        if not self.ended:
            return self._report(list(self.groups))
        ended, self.ended = join_found(self.ended), []
        columns = self._time_columns(ended.ends)
        held = dict(zip(self._fields.keys, self._partition_of(ended.ends), strict=True))
        columns |= {name: held[name] for name in self.grouping.components}
        return self._finish(columns, lambda leaf: self._read_ended(leaf, ended), len(ended.ends))

    def report_nothing(self) -> pa.Table:
        return self._report([])

    def _report(self, keys: list[GroupKey]) -> pa.Table:
        if keys:
            return self._report_some(keys)
        known = self.store.schema_count, self.store.is_timed
        if self._nothing is None or self._nothing[0] != known:
            self._nothing = known, self._report_some([])
        return self._nothing[1]

    def _report_some(self, keys: list[GroupKey]) -> pa.Table:
        try:
            keys.sort()
        except TypeError:  # records have no order
            keys.sort(key=lambda key: (key[0], repr(key[1])))
        groups = [self.groups.pop(key) for key in keys]
        if self.run.purpose.parts:
            return self._write_groups(keys, groups)
        columns = self._time_columns(np.array([number for number, _ in keys], np.int64))
        for index, name in enumerate(self.grouping.components):
            columns[name] = pa.array([held[index] for _, held in keys], self._find_type(name))
        return self._finish(columns, lambda leaf: self._aggregate(leaf, groups), len(groups))

    def _finish(
        self,
        columns: dict[str, pa.Array],
        aggregate: Callable[[pred.Aggregate], pa.Array],
        length: int,
    ) -> pa.Table:
        """Return the groups that HAVING keeps, with the columns of SELECT."""
        unit = self.store.time_unit

        def read(leaf: pred.MatchTerm) -> pa.Array:
            assert isinstance(leaf, pred.Aggregate)
            return aggregate(leaf)

        for item in self.pattern.select.items:
            if isinstance(item, SelectedTerm):
                columns[item.name] = to_column(calculate_term(item.term, read, unit), length)
        table = pa.table(columns)
        having = self.grouping.having
        if having is None:
            return table
        return table.filter(pa.array(_find_kept(having, read, unit, length)))

    # -------------------------------------------------------------- frozen

    def freeze(self, stages: Stages) -> Tree:
        table = self._write_groups(list(self.groups), list(self.groups.values()))
        return {"table": write_table(table)}

    def thaw(self, tree: Tree) -> None:
        self.read_groups(read_table(tree.get("table")))

    def _write_groups(self, keys: Sequence[GroupKey], groups: Sequence[OpenGroup]) -> pa.Table:
        """Return groups as a table; integers of any size are texts."""
        columns = {"number": pa.array([number for number, _ in keys], pa.int64())}
        for index, name in enumerate(self.grouping.components):
            held = [values[index] for _, values in keys]
            columns[f"component.{index}"] = pa.array(held, self._find_type(name))
        columns["time"] = pa.nulls(len(keys), self._find_type(_TIME))
        columns["count"] = _write_integers([group.count for group in groups])
        for index, source in enumerate(self.sources):
            totals = [group.totals[index] for group in groups]
            columns[f"pairs.{index}"] = _write_integers([t.pairs for t in totals])
            columns[f"total.{index}"] = self._write_totals(source, [t.total for t in totals])
            kind = self._find_type(str(source[1]))
            columns[f"least.{index}"] = value_column([t.least for t in totals], kind)
            columns[f"greatest.{index}"] = value_column([t.greatest for t in totals], kind)
        for index in range(len(self.distinct)):
            values = [sorted(group.values[index]) for group in groups]
            columns[f"distinct.{index}"] = pa.array(values, pa.list_(pa.string()))
        return pa.table(columns)

    def _write_totals(self, source: Source, totals: Sequence[Any]) -> pa.Array:
        kind = None if source[1] is None else self._find_type(source[1])
        if kind is not None and pa.types.is_floating(kind):
            return value_column(totals, pa.float64())
        return _write_integers(totals)

    def read_groups(self, table: pa.Table) -> None:
        """Read groups that were written as a table."""
        try:
            self._learn(table)
            column = {
                name: python_values(table[name].combine_chunks()) for name in table.schema.names
            }
            for row, number in enumerate(column["number"]):
                held = tuple(
                    make_hashable(column[f"component.{index}"][row])
                    for index in range(len(self.grouping.components))
                )
                totals = [
                    Totals(
                        _read_integer(column[f"pairs.{index}"][row]),
                        _read_integer(column[f"total.{index}"][row]),
                        column[f"least.{index}"][row],
                        column[f"greatest.{index}"][row],
                    )
                    for index in range(len(self.sources))
                ]
                values = [
                    {str(value) for value in column[f"distinct.{index}"][row]}
                    for index in range(len(self.distinct))
                ]
                key = (int(number), held)
                self.groups[key] = OpenGroup(_read_integer(column["count"][row]), totals, values)
        except (KeyError, TypeError, ValueError) as error:
            raise StateError("the frozen state is damaged: its groups cannot be read") from error

    def _learn(self, table: pa.Table) -> None:
        """Remember the types of the frozen columns: there may be no events that have them."""
        kinds = {_TIME: table.schema.field("time").type}
        for index, name in enumerate(self.grouping.components):
            kinds[name] = table.schema.field(f"component.{index}").type
        for index, (_, attribute) in enumerate(self.sources):
            kinds[str(attribute)] = table.schema.field(f"least.{index}").type
        self._known, self._nothing = kinds, None
        self._scales = {
            name: kind.scale for name, kind in kinds.items() if pa.types.is_decimal(kind)
        }

    def _find_type(self, name: str) -> pa.DataType | None:
        """Return the type of the times, a component or an attribute; None if it is not known."""
        nowhere = np.zeros(0, np.int64)
        if name == _TIME:
            kind = self.store.times(nowhere).type if self.store.is_timed else pa.null()
        elif name in self._fields.keys:
            kind = self._partition_of(nowhere)[self._fields.keys.index(name)].type
        else:
            kind = self.store.column(nowhere, name).type
            kind = common_type(kind, self._known.get(name, kind))
        kind = self._known.get(name, kind) if pa.types.is_null(kind) else kind
        return None if pa.types.is_null(kind) else kind

    def _find_scale(self, attribute: str) -> int | None:
        """Return how many places the decimals of an attribute have; None: it has other values.

        Totals of decimals are integers, so all decimals have as many places.
        """
        kind = self._find_type(attribute)
        if kind is None or not pa.types.is_decimal(kind):
            return None
        scale = self._scales.setdefault(attribute, kind.scale)
        if scale != kind.scale:
            raise DataError(
                f"{attribute!r} holds {kind} here, and held decimals with a scale of {scale} "
                "before; GROUP BY aggregates values of one type"
            )
        return scale

    def _partition_of(self, ends: NDArray[np.int64]) -> list[pa.Array]:
        return partition_columns(ends, self._fields, self.store)

    def _time_columns(self, numbers: NDArray[np.int64]) -> dict[str, pa.Array]:
        """Return the interval or the end of each group."""
        if self.grouping.every is not None:
            size, first = int(self.grouping.every), numbers.tolist()
            return {
                "from_ts": self._write_times([number * size for number in first]),
                "to_ts": self._write_times([(number + 1) * size for number in first]),
            }
        if self.grouping.end:
            rows = pa.array(self.store.rows(numbers), pa.int64())
            return {"end": rows, "end_ts": self.store.times(numbers)}
        return {}

    def _write_times(self, nanoseconds: Sequence[int]) -> pa.Array:
        """Return bounds of intervals as times like those of the events; NULL: later than any."""
        kind, tick = self._find_bounds()
        if kind == pa.float64():
            return pa.array([each / tick for each in nanoseconds], kind)
        ticks = (each // tick for each in nanoseconds)
        held = [each if -_LATEST <= each <= _LATEST else None for each in ticks]
        return pa.array(held, pa.int32() if pa.types.is_date32(kind) else pa.int64()).cast(kind)

    def _find_bounds(self) -> tuple[pa.DataType, int]:
        """Return the type of bounds of intervals, and the nanoseconds that its numbers count.

        Bounds have the type of the events' times. If that is too coarse for a bound, the type is
        finer. Text is read as times in UTC.
        """
        size = int(self.grouping.every or 0)
        kind, tick = self._find_type(_TIME) or pa.null(), UNITS[self.store.time_unit]
        if is_text(kind):
            kind = pa.timestamp("us", "UTC")
        if pa.types.is_date(kind) and size % DAY == 0:
            return kind, DAY if pa.types.is_date32(kind) else UNITS["ms"]
        if pa.types.is_date(kind):
            kind = pa.timestamp("s")
        if not pa.types.is_timestamp(kind):
            return (pa.float64() if size % tick else pa.int64()), tick
        coarsest = UNITS[kind.unit]
        unit = next(name for name, each in UNITS.items() if each <= coarsest and size % each == 0)
        return pa.timestamp(unit, kind.tz), UNITS[unit]

    def _find_source(self, leaf: pred.Aggregate) -> int:
        match leaf.argument:
            case pred.Reference(variable=variable, attribute=attribute):
                return list(self.sources).index((variable, attribute.name))
            case variable:
                return list(self.sources).index((str(variable), None))

    def _aggregate(self, leaf: pred.Aggregate, groups: Sequence[OpenGroup]) -> pa.Array:
        """Return the values of an aggregate over each group."""
        if leaf.argument is None:
            return count_column([group.count for group in groups])
        if leaf.distinct:
            assert isinstance(leaf.argument, pred.Reference)
            index = self.distinct.index(leaf.argument)
            return count_column([len(group.values[index]) for group in groups])
        held = [group.totals[self._find_source(leaf)] for group in groups]
        scale = self._scale_of(leaf)
        match leaf.function:
            case "COUNT":
                return count_column([totals.pairs for totals in held])
            case "SUM":
                return sum_column([t.total for t in held], self._kind_of(leaf), scale)
            case "AVG":
                return average_column([t.total for t in held], [t.pairs for t in held], scale)
        values = [t.least if leaf.function == "MIN" else t.greatest for t in held]
        return self._write_values(values, leaf)

    def _read_ended(self, leaf: pred.Aggregate, ended: EndAggregates) -> pa.Array:
        """Return the values of an aggregate over the matches of each end."""
        if leaf.argument is None:
            return number_column(ended.counts)
        measure = ended.measures[self._find_source(leaf)]
        if leaf.function == "COUNT":
            return number_column(measure.pairs)
        empty, scale = pa.array(is_zero(measure.pairs)), self._scale_of(leaf)
        match leaf.function:
            case "SUM":
                assert measure.total is not None
                column = number_column(measure.total, scale)
            case "AVG":
                assert measure.total is not None
                totals, pairs = map(list_integers, (measure.total, measure.pairs))
                return average_column(totals, pairs, scale)
            case "MIN":
                column = self._write_measured(measure.least, empty, leaf)
            case _:
                column = self._write_measured(measure.greatest, empty, leaf)
        return pc.if_else(empty, pa.scalar(None, column.type), column)

    def _write_measured(self, values: Any, empty: pa.Array, leaf: pred.Aggregate) -> pa.Array:
        """Return the least or greatest values as a column; those of decimals are integers."""
        scale = self._scale_of(leaf)
        if scale is None:
            return self._write_values(values, leaf)
        present = np.where(np.asarray(empty), 0, values)
        return number_column(present, scale).cast(self._kind_of(leaf))

    def _write_values(self, values: Any, leaf: pred.Aggregate) -> pa.Array:
        """Return the least or greatest values as a column of the type that the events have."""
        kind = self._kind_of(leaf)
        try:
            if isinstance(values, np.ndarray):
                is_real = kind is not None and pa.types.is_floating(kind)
                return pa.array(values.astype(np.float64) if is_real else values, kind)
            return value_column(values, kind)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise DataError(
                f"{write_term(leaf)}: some values have another type than those before; "
                "GROUP BY aggregates values of one type"
            ) from error

    def _kind_of(self, leaf: pred.Aggregate) -> pa.DataType | None:
        assert isinstance(leaf.argument, pred.Reference)
        return self._find_type(leaf.argument.attribute.name)

    def _scale_of(self, leaf: pred.Aggregate) -> int | None:
        """Return the scale of the decimals that an aggregate goes over; None: they are none."""
        if not isinstance(leaf.argument, pred.Reference):
            return None
        return self._find_scale(leaf.argument.attribute.name)


def _number_values(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rank of each value among the different ones; where they ascend, without a sort.

    >>> _number_values(np.array([4, 4, 9])).tolist(), _number_values(np.array([9, 4, 9])).tolist()
    ([0, 0, 1], [1, 0, 1])
    """
    steps = np.diff(values, prepend=values[:1])
    if (steps >= 0).all():
        return np.cumsum(steps != 0)
    return np.unique(values, return_inverse=True)[1]


def _reduce_totals(
    measure: MeasuredPairs, order: NDArray[np.int64], starts: NDArray[np.int64]
) -> list[Totals]:
    """Return the aggregates of the ends of each group."""
    none = [None] * len(starts)
    empty = is_zero(measure.pairs)

    def reduce(column: NDArray[Any] | None, of: np.ufunc, neutral: float) -> list[Any]:
        if column is None:
            return none
        extreme = neutral
        if column.dtype == np.int64:
            info = np.iinfo(np.int64)
            extreme = info.max if neutral > 0 else info.min
        filled = np.where(empty, column.dtype.type(extreme), column)
        return of.reduceat(filled[order], starts).tolist()  # type: ignore[no-any-return]

    total = none
    if measure.total is not None:
        totals = measure.total  # integers over no pairs are 0
        if totals.dtype == np.float64:
            totals = np.where(empty, 0.0, totals)
        total = add_up(totals[order], starts)
    columns = (
        add_up(measure.pairs[order], starts),
        total,
        reduce(measure.least, np.fmin, np.inf),
        reduce(measure.greatest, np.fmax, -np.inf),
    )
    return [Totals(*each) if each[0] else Totals(0) for each in zip(*columns, strict=True)]


def _total_pairs(
    measure: Measure, column: MeasuredColumn, groups: NDArray[np.int64], number: int
) -> list[Totals]:
    """Return the aggregates of each group, from the value and the group of each pair."""
    values = np.zeros(len(groups), np.int64) if column.values is None else column.values
    if column.valid is not None:
        values, groups = values[column.valid], groups[column.valid]
    found, pairs = [Totals(0)] * number, np.ones(len(groups), np.int64)
    if not len(groups):
        return found
    order = np.argsort(groups, kind="stable")
    present, starts = np.unique(groups[order], return_index=True)
    measured = MeasuredPairs(
        pairs,
        values if measure.total else None,
        values if measure.least else None,
        values if measure.greatest else None,
    )
    for index, totals in zip(present, _reduce_totals(measured, order, starts), strict=True):
        found[index] = totals
    return found


def _find_kept(
    condition: pred.Condition,
    read: Callable[[pred.MatchTerm], pa.Array],
    time_unit: str,
    length: int,
) -> NDArray[np.bool_]:
    """Return which groups a condition of HAVING keeps; `read` gives the values of aggregates."""
    match condition:
        case pred.AllOf(parts=parts) | pred.AnyOf(parts=parts):
            join = np.logical_and if isinstance(condition, pred.AllOf) else np.logical_or
            masks = [_find_kept(part, read, time_unit, length) for part in parts]
            return np.asarray(join.reduce(np.array(masks), 0), np.bool_)
        case pred.CompareTerms(op=op, left=left, right=right):
            one, other = (to_operand(calculate_term(t, read, time_unit)) for t in (left, right))
            return np.asarray(compare(op, one, other, length).fill_null(False), np.bool_)
        case pred.Denied(body=pred.CompareTerms(op=op, left=left, right=right)):
            one, other = (to_operand(calculate_term(t, read, time_unit)) for t in (left, right))
            return ~np.asarray(compare(op, one, other, length).fill_null(True), np.bool_)
        case _:
            raise AssertionError(condition)


def _write_integers(values: Sequence[int | None]) -> pa.Array:
    return pa.array(
        [None if value is None else write_integer(value) for value in values], pa.string()
    )


def _read_integer(value: Any) -> Any:
    return read_integer(value) if isinstance(value, str) else value


def _argument(variable: str, attribute: str | None) -> str | pred.Reference:
    if attribute is None:
        return variable
    return pred.Reference(variable, pred.Attribute.named(attribute))
