"""`Notes`: warnings about the events of a query on Spark, counted in the JVM.

    rows ─ aggregates ─▶ Sights ─▶ the warnings of a session (`cernis.run.advice`)

The aggregates are the number of rows, the first and the last time, which tests of the query some
row has passed (bits of an integer), and some types that the query does not name, for suggestions:
at most one of each of `_CLASSES` classes of their hashes. On a stream they go along with the rows,
each micro-batch reports them, and `take` adds them up. Of a batch, `explain(…, measure=True)` has
them, in a job of its own.

Turned down: the numbers of the workers. Rows that no test passes never reach them, and these rows
are what the warnings are about. Also turned down: an `Observation` of the rows of a batch. A source
of files could not skip rows any more, and where no row is relevant, Spark drops it.

Cost: for each row of a stream, the tests once more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cernis.automata.unary.cea import Is, Test
from cernis.errors import CernisError, Diagnostic, WarningNote
from cernis.events.odd_times import TimeSpan, find_odd_times
from cernis.events.times import UNITS
from cernis.pattern.atom import TypeIs
from cernis.plan.plan import Plan
from cernis.run.advice import skipped_rows
from cernis.run.advice.absent_types import describe_absent_type
from cernis.run.advice.unmet_conditions import find_unmet_conditions, list_needed_conditions
from cernis.run.requirements import tests_and_atoms
from cernis.run.rules.rule import Rule, name_warning
from cernis.spark.catalyst import join_balanced
from cernis.spark.frame import Frame
from cernis.spark.relevance import relevance_condition
from cernis.work.columns import AHEAD, LATE, UNDECODABLE, UNTIMED

if TYPE_CHECKING:
    from cernis.work.progress import Progress

FEWEST_ROWS = 1_000
"""Before so many rows have come, a stream may just not have had a type yet."""

_TESTS = 63
_CLASSES = 8
_PASSED, _FIRST, _LAST, _TYPE = "passed", "first", "last", "type"
_REASONS = {
    UNTIMED: "without a time",
    UNDECODABLE: "undecodable",
    AHEAD: "ahead of the clock",
    LATE: "late",
}
_HELP = {
    AHEAD: "--ahead none (ahead=None) reads events of any time",
    LATE: "--lateness (lateness=) says how late an event may come",
}


class WatchedQuery(NamedTuple):
    """A query whose events are watched; of a rule set, with its rule."""

    plan: Plan
    rule: Rule | None = None

    @property
    def types(self) -> list[TypeIs]:
        """The types that the query names."""
        return [atom for atom in tests_and_atoms(self.plan)[1] if isinstance(atom, TypeIs)]


@dataclass
class Sights:
    """What the rows of a query are like."""

    rows: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    """Rows that were not read, by reason."""
    first: int | None = None
    """The first time, in microseconds."""
    last: int | None = None
    passed: int = 0
    """A bit for each test that some row has passed."""
    types: set[str] = field(default_factory=set)
    """Some types that the query does not name."""

    def add(self, row: Mapping[str, Any]) -> None:
        """Add the numbers of some rows."""
        self.rows += row.get("rows") or 0
        for reason in _REASONS:
            self.skipped[reason] += row.get(reason) or 0
        firsts = [self.first, row.get(_FIRST)]
        lasts = [self.last, row.get(_LAST)]
        self.first = min((time for time in firsts if time is not None), default=None)
        self.last = max((time for time in lasts if time is not None), default=None)
        self.passed |= row.get(_PASSED) or 0
        found = (row.get(f"{_TYPE} {i}") for i in range(_CLASSES))
        self.types.update(name for name in found if name is not None)


class Notes:
    """Warnings about the events of one stream, or of one batch.

    Give one to `recognize` with streaming DataFrames, and tell it each `Progress`:
    `cernis.spark.watch(spark, notes.take)`. `warnings` has those so far.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._queries: tuple[WatchedQuery, ...] = ()
        self._tests: dict[Test, int] = {}
        self._frame: Frame | None = None
        self._stream: str | None = None
        self._batch = -1
        self._sights = Sights()

    # ------------------------------------------------------------- watching

    def watch_batch(self, query: WatchedQuery, frames: Sequence[Frame]) -> None:
        """Watch the rows of a batch."""
        self._begin([query], frames)

    def watch_stream(
        self, queries: Sequence[WatchedQuery], frames: Sequence[Frame], name: str
    ) -> None:
        """Watch the rows of streams, whose observed metrics have a name."""
        self._begin(queries, frames)
        self._stream = name

    def _begin(self, queries: Sequence[WatchedQuery], frames: Sequence[Frame]) -> None:
        if self._queries or self._stream:
            raise CernisError("these notes belong to another DataFrame: make new ones for each")
        self._queries = tuple(queries)
        self._frame = frames[0] if frames else None
        tests: list[Test] = [Is(atom) for query in queries for atom in query.types]
        if len(queries) == 1 and not queries[0].plan.warnings:
            for needed in list_needed_conditions(queries[0].plan.pattern):
                tests += needed.tests
        self._tests = {test: i for i, test in enumerate(list(dict.fromkeys(tests))[:_TESTS])}

    def batch_columns(self, frame: Frame) -> Iterator[Column]:
        """Yield all aggregates over the rows of a frame of a batch."""
        yield F.count(F.lit(1)).alias("rows")
        if frame.untimed is not None:
            yield F.count_if(frame.untimed).alias(UNTIMED)
        yield from self.columns(frame)

    def columns(self, frame: Frame) -> Iterator[Column]:
        """Yield the aggregates over the rows of a frame, beside the numbers of rows."""
        micros = frame.micros
        if micros is not None:
            yield F.min(micros).alias(_FIRST)
            yield F.max(micros).alias(_LAST)
        if self._tests:
            bits = [_bit_where(test, i, frame) for test, i in self._tests.items()]
            yield F.bit_or(join_balanced(bits, lambda a, b: a.bitwiseOR(b))).alias(_PASSED)
        names = {atom.type for query in self._queries for atom in query.types}
        if names and frame.type in frame.columns:
            own = frame.columns[frame.type][0].cast("string")
            other, class_ = ~own.isin(*names), F.pmod(F.hash(own), F.lit(_CLASSES))
            for i in range(_CLASSES):
                yield F.max(F.when(other & (class_ == i), own)).alias(f"{_TYPE} {i}")

    def take(self, progress: Progress) -> None:
        """Add the numbers of a micro-batch, if it is new."""
        own = [row for name, row in progress.streams.items() if self._is_own(name)]
        with self._lock:
            if own and progress.batch > self._batch:
                self._batch = progress.batch
                for row in own:
                    self._sights.add(row)
                self._sights.skipped[LATE] += progress.late

    def _is_own(self, name: str) -> bool:
        return self._stream is not None and name.split(".")[0] == self._stream

    # -------------------------------------------------------------- warning

    def warnings(self, fewest: int = 1) -> list[WarningNote]:
        """Return the warnings; of fewer rows than `fewest`, those about times alone."""
        with self._lock:
            return self.read(self._sights, fewest)

    def read(self, sights: Sights, fewest: int = 1) -> list[WarningNote]:
        """Return the warnings about rows that are like this."""
        odd = self._find_odd_times(sights)
        found = [] if odd is None else [WarningNote.of(odd)]
        if sights.rows < fewest:
            return found
        if (skipped := self._find_skipped(sights, odd)) is not None:
            found.append(WarningNote.of(skipped))
        for query in self._queries if sights.rows else ():
            pattern = query.plan.pattern
            for warning in self._find_about(query, sights):
                note = WarningNote.of(warning, pattern.source)
                found.append(note if query.rule is None else name_warning(query.rule, note))
        return found

    def _find_odd_times(self, sights: Sights) -> Diagnostic | None:
        frame = self._frame
        if frame is None or frame.time is None or sights.first is None or sights.last is None:
            return None
        typed = isinstance(frame.time_type, T.TimestampType | T.TimestampNTZType)
        if isinstance(frame.time_type, T.DateType):
            return None
        unit = UNITS["us" if typed else frame.time_unit]
        us = UNITS["us"]
        span = TimeSpan(sights.first * us, sights.last * us)
        return find_odd_times(span, unit, repr(frame.time), typed=typed)

    def _find_skipped(self, sights: Sights, odd: Diagnostic | None) -> Diagnostic | None:
        skipped = {why: sights.skipped[why] for why in _REASONS if sights.skipped[why]}
        if odd is not None:
            skipped.pop(AHEAD, None)  # which follows from it
        number = sum(skipped.values())
        if not 2 * number > sights.rows > 1:
            return None
        most = max(skipped, key=lambda why: skipped[why])
        said = [f"{count:,} {_REASONS[why]}" for why, count in skipped.items()]
        return Diagnostic(
            f"{number:,} of {sights.rows:,} rows were skipped: {', '.join(said)}",
            suggestion=_HELP.get(most, skipped_rows.HELP),
            code=skipped_rows.CODE,
        )

    def _find_about(self, query: WatchedQuery, sights: Sights) -> Iterator[Diagnostic]:
        """Yield warnings about the types and the conditions of a query."""

        def passed(test: Test) -> bool | None:
            at = self._tests.get(test)
            return None if at is None else bool(sights.passed >> at & 1)

        pattern, so_far = query.plan.pattern, self._stream is not None
        for atom in query.types:
            if passed(Is(atom)) is False:
                yield describe_absent_type(pattern, atom, sorted(sights.types), so_far=so_far)
        if query.rule is None and not query.plan.warnings:
            yield from find_unmet_conditions(pattern, passed, so_far=so_far)


def _bit_where(test: Test, index: int, frame: Frame) -> Column:
    """Return a bit that is set where an event may pass a test."""
    may_pass = relevance_condition([test], frame.columns, frame.type, frame.stream)
    bit, none = (F.lit(number).cast("bigint") for number in (1 << index, 0))
    return bit if may_pass is None else F.when(may_pass, bit).otherwise(none)
