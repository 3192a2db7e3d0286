"""The work of Spark's Python workers for rule sets: rows in, the matches of all rules out.

The rules of one key share a session (`RuleSession`) over the events of a bucket: the rows have
travelled once for all of them. A line has the name of its rule as its first member, since rules
have answers of different columns. As columns, matches have those of all rules (`answers`).

Rules travel as text: a frozen session holds the texts of its rules, so a bucket that has had no
event for long knows which rules it has run with. A worker parses and plans each text once.

Cost contract: as for a `RuleSession`, plus one line for each match, as in `worker.Recognizer`. This
module does not import Spark.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cernis.pattern.query import Pattern, Strategy
from cernis.results.jsonlines import TextEvents, name_lines
from cernis.run.query import Query
from cernis.run.rules.derived import KnownStream
from cernis.run.rules.freeze import read_rule_texts
from cernis.run.rules.rule import Rule
from cernis.run.rules.rule_set import RuleSet
from cernis.run.rules.session import RuleSession
from cernis.spark.carriers import carrier_of
from cernis.spark.rules.answers import fill_columns, list_answers, order_answers
from cernis.spark.streaming.report import EngineState
from cernis.spark.worker import (
    BUCKET,
    NOW,
    AnswerForm,
    RowReading,
    Work,
    answer_schema,
    cast_answer,
    event_batch,
    gather,
    name_columns,
    read_now,
)


class RuleText(NamedTuple):
    """A rule as it travels."""

    name: str
    text: str
    since: int = 0
    """The micro-batch since which it has run: one that comes back is another rule."""


RuleTexts = tuple[RuleText, ...]
NUMBERS = ("events", "matches", "suppressed", "records", "milliseconds")
"""What is counted for each rule. All but `records` count from one report to the next."""

MEASURES = pa.schema({"rule": pa.string(), "numbers": pa.string()})
"""The columns of `measure_rule_rows`."""

_BEFORE_ALL = -(2**63)
_ROWS = 1 << 14
_FORGET_EVERY = 1 << 17


@dataclass(frozen=True, kw_only=True)
class RuleWork(RowReading):
    """The work of a task for rules: the columns of its rows, and those of the answer."""

    rows: pa.Schema
    """The columns that travel."""
    schema: pa.Schema
    """The columns of the answer, in the types that carry them in Spark."""
    form: AnswerForm = "lines"
    text: TextEvents = "named"
    """Which events of its matches a line, or a flat column, has."""
    united: pa.Schema | None = None
    """The columns of all rules, as these name them, where matches have columns."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """The place of each rule in the set, where the answer has columns that order it."""
    limit: int | None = None
    """Each task gives at most so many matches of a rule, its first."""

    @cached_property
    def known_streams(self) -> list[KnownStream]:
        """The streams with the columns that travel."""
        empty = self.rows.empty_table()
        return [KnownStream(own.name, name_columns(empty, own).schema) for own in self.streams]


def line_schema(reading: RowReading, rows: pa.Schema) -> pa.Schema:
    """Return the columns of the lines of rules, in the types that carry them in Spark."""
    plan = Query("SELECT NONE WHERE * AS e").plan
    streams, options, scale = reading.streams, reading.reading, reading.scale
    work = Work(plan=plan, streams=streams, reading=options, scale=scale, form="lines")
    fields = [pa.field("rule", pa.string()), *answer_schema(work, rows.empty_table())]
    return pa.schema([field.with_type(carrier_of(field.type) or field.type) for field in fields])


def make_rules(texts: Iterable[RuleText]) -> RuleSet:
    """Return the rules of these texts; a worker parses and plans each rule once."""
    return RuleSet([_read_rule(rule.name, rule.text) for rule in texts])


@lru_cache(maxsize=1 << 15)
def _read_rule(name: str, text: str) -> Rule:
    return Rule(name, Query(text))


class RuleRecognizer:
    """The rules of one part: it takes tables of events in order of time, and gives lines."""

    def __init__(self, work: RuleWork, frozen: bytes | None = None) -> None:
        self.work = work
        self.texts: RuleTexts = ()
        """The rules that run."""
        if frozen is None:
            self.session = RuleSession(RuleSet(()), work.reading)
        else:
            written, _, state = frozen.partition(b"\n")
            pairs = zip(read_rule_texts(state), json.loads(written), strict=True)
            self.texts = tuple(RuleText(name, text, since) for (name, text), since in pairs)
            self.session = RuleSession.thaw(make_rules(self.texts), state, work.reading)
            self._prepare()
        self.given = 0
        self._passed = _BEFORE_ALL
        """Up to where time has passed, in nanoseconds."""
        self._matches: dict[str, int] = {}
        """How many matches of each rule were given."""
        self._told: dict[str, tuple[float, ...]] = self._read_numbers()

    def update(self, texts: RuleTexts) -> None:
        """Go on with other rules; those that have run since keep their state."""
        stay = {*self.texts}
        self.session.update(make_rules(rule for rule in texts if rule in stay))
        self.session.update(make_rules(texts))
        self.texts = texts
        self._prepare()
        self._told = self._read_numbers()

    def _prepare(self) -> None:
        self._patterns = {rule.name: rule.query.pattern for rule in self.session.rules}
        self.session.prepare(self.work.known_streams, self.work.scale)

    def take(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the lines of the matches that end in some events."""
        batch = event_batch(self.work, table, 0)
        yield from self.give(self.session.take(batch, self.work.scale))

    def replay(self, table: pa.Table) -> None:
        """Read events again whose matches were reported before."""
        for _ in self.session.take(event_batch(self.work, table, 0), self.work.scale):
            pass
        self._told = self._read_numbers()

    def pass_time(self, nanoseconds: int) -> Iterator[pa.RecordBatch]:
        """Yield the lines of what is certain once no event before a time comes."""
        self._passed = nanoseconds
        yield from self.give(self.session.pass_time(nanoseconds, self.work.scale))

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield the lines of what waits for the end of the input."""
        yield from self.give(self.session.finish().items())

    @property
    def first_end(self) -> int | None:
        """The time, in nanoseconds, at which the next group of EVERY ends; None: there is none."""
        ends = (session.first_group_end for session in self.session.sessions)
        # what has passed waits for matches that stand before it
        return min((end for end in ends if end is not None and end > self._passed), default=None)

    @property
    def next_deadline(self) -> int | None:
        """The next time, in ticks, that makes matches certain when it has passed."""
        scale = self.work.scale
        times = (session.pipeline.next_deadline(scale) for session in self.session.sessions)
        passed = self._passed // (scale.unit_ns or 1)
        return min((time for time in times if time is not None and time >= passed), default=None)

    def freeze(self) -> bytes:
        """Return the state as bytes: since when each rule has run, and their session."""
        since = json.dumps([rule.since for rule in self.texts])
        return since.encode() + b"\n" + self.session.freeze()

    def renew_budget(self) -> None:
        self.session.renew_budget()

    def forget(self) -> None:
        """Drop old events of the sessions now and then: a worker has many buckets."""
        self.session.forget_if_due(_FORGET_EVERY)

    def count_state(self) -> EngineState:
        """Return how much the engines of all rules hold; events that rules share count once."""
        numbers = [session.metrics() for session in self.session.sessions]
        keys, records = sum(each.keys for each in numbers), sum(each.records for each in numbers)
        return EngineState(keys, records, *self.session.measure_stored())

    def list_numbers(self) -> str:
        """Return the numbers of the rules that have changed since the last call, as JSON."""
        now, before = self._read_numbers(), self._told
        nothing = (0.0,) * len(NUMBERS)
        at = NUMBERS.index("records")
        self._told = now
        return json.dumps(
            {
                rule: [
                    value if i == at else round(value - earlier, 3)
                    for i, (value, earlier) in enumerate(
                        zip(numbers, before.get(rule, nothing), strict=True)
                    )
                ]
                for rule, numbers in now.items()
                if numbers != before.get(rule)
            }
        )

    def _read_numbers(self) -> dict[str, tuple[float, ...]]:
        return {
            rule: (
                float(each.events),
                float(self._matches.get(rule, 0)),
                float(each.suppressed),
                float(each.records),
                1000 * sum(each.seconds.values()),
            )
            for rule, each in self.session.metrics().items()
        }

    def give(self, found: Iterable[tuple[str, Any]]) -> Iterator[pa.RecordBatch]:
        """Yield what rules have found, the matches of many rules in one batch."""
        batches, rows = [], 0
        for rule, each in found:
            for batch in list_answers(each, self.work.form, self.work.text):
                batch = batch.slice(0, self._count_left(rule))
                if not batch.num_rows:
                    continue
                batches.append(self._name(rule, batch))
                rows += batch.num_rows
                if rows >= _ROWS:
                    yield _join(batches)
                    batches, rows = [], 0
        if batches:
            yield _join(batches)

    def _count_left(self, rule: str) -> int | None:
        """Return how many more matches of a rule are wanted; None: any number."""
        if self.work.limit is None or not _is_found_in_order(self._patterns[rule]):
            return None
        return self.work.limit - self._matches.get(rule, 0)

    def _name(self, rule: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return matches with the name of their rule, in the columns of the answer."""
        work = self.work
        places = pa.array(np.arange(self.given, self.given + batch.num_rows))
        self.given += batch.num_rows
        self._matches[rule] = self._matches.get(rule, 0) + batch.num_rows
        names = pa.array([rule] * batch.num_rows, pa.string())
        if work.form == "lines":
            ends, times, lines = batch.columns
            lines = lines if work.numbers else name_lines(rule, lines)
            columns = [names, ends, times, lines, places]
        else:
            assert work.united is not None
            columns = [names, *fill_columns(batch, work.united)]
        if work.numbers:
            columns += order_answers(batch, work.numbers[rule], places, self._patterns[rule])
        return cast_answer(pa.RecordBatch.from_arrays(columns, work.schema.names), work.schema)


def _is_found_in_order(pattern: Pattern) -> bool:
    """Return whether a session finds the matches of a rule in the order of their ends."""
    return pattern.strategy is not Strategy.LONGEST and not pattern.without


def _join(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def recognize_rule_rows(
    work: RuleWork, lots: Sequence[RuleTexts], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the matches of rules in a task's rows, which are sorted by time.

    Where there are several lots of rules, the rows have the number of that of their task.
    """
    recognizer = RuleRecognizer(work)
    for found in _find_in_rows(recognizer, lots, batches):
        yield from recognizer.give(found)


def measure_rule_rows(
    work: RuleWork, lots: Sequence[RuleTexts], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the numbers of rules in a task's rows, as JSON: one row for each rule.

    No match is listed. The first number counts the matches; `SessionMetrics` has the others.
    """
    recognizer, matches = RuleRecognizer(work), Counter[str]()
    for found in _find_in_rows(recognizer, lots, batches):
        for rule, each in found:
            matches[rule] += each.count()
    rows = [
        {"rule": rule, "numbers": json.dumps({**asdict(own), "matches": str(matches[rule])})}
        for rule, own in recognizer.session.metrics().items()
    ]
    yield from pa.Table.from_pylist(rows, MEASURES).to_batches()


def _find_in_rows(
    recognizer: RuleRecognizer, lots: Sequence[RuleTexts], batches: Iterable[pa.RecordBatch]
) -> Iterator[Iterable[tuple[str, Any]]]:
    """Yield what the rules of a task find in its rows, piece by piece."""
    work, session, now = recognizer.work, recognizer.session, None
    for table in gather(batches):
        lot = 0
        if BUCKET in table.column_names:
            lot, table = table.column(BUCKET)[0].as_py(), table.drop_columns([BUCKET])
        if not recognizer.texts:
            recognizer.update(lots[lot])
        if NOW in table.column_names:
            now = read_now(work, table)
        yield session.take(event_batch(work, table, 0), work.scale)
    if now is not None and work.scale.unit_ns is not None:
        yield session.pass_time(now * work.scale.unit_ns, work.scale)
    yield session.finish().items()
