"""The work of Spark's Python workers for rule sets: rows in, the matches of all rules out.

The rules of one key share a session (`RuleSession`) over the events of a bucket: the rows have
travelled once for all of them. A line has the name of its rule as its first member, since rules
have answers of different columns. As columns, matches have those of all rules, NULL where a rule
has no such one. Rules that have a column of one name share it, in a type that holds the values of
all. Counts and sums of integers travel as decimals, since a task does not know how large those of
others are. Where the output has the order of one process, rule after rule, the last columns have
that order.

Rules travel as text: a frozen session holds the texts of its rules, so a bucket that has had no
event for long knows which rules it has run with. A worker parses and plans each text once.

Cost contract: as for a `RuleSession`, plus one line for each match. Does not import Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from cernis.pattern.functions import FUNCTIONS, Function
from cernis.pattern.query import Pattern, Strategy
from cernis.results.formats.jsonlines import TextEvents, name_lines
from cernis.results.groups import Groups
from cernis.results.matches import Matches
from cernis.results.of_rules import fill_table, name_rules, unite_columns
from cernis.run.query import Query
from cernis.run.rules.freeze import read_rule_texts
from cernis.run.rules.reading.derived import KnownStream
from cernis.run.rules.rule import Rule
from cernis.run.rules.rule_set import RuleSet
from cernis.run.rules.session import RuleSession
from cernis.work.carriers import carrier_of
from cernis.work.columns import BUCKET, NOW
from cernis.work.group_parts import DECIMAL, cast_groups, exact_columns
from cernis.work.reading import AnswerForm, Recognizer, RowWork, cast_answer
from cernis.work.report import EngineState
from cernis.work.rule_record import RuleText, RuleTexts

NUMBERS = ("events", "matches", "suppressed", "records", "milliseconds")
"""What is counted for each rule. All but `records` count from one report to the next."""

MEASURES = pa.schema({"rule": pa.string(), "numbers": pa.string()})
"""The columns of the numbers of each rule in a task."""

ORDER = ("@rule", "@time", "@end", "@place")
"""The columns that order matches: the number of the rule, the time and the row of the end."""

_BEFORE_ALL = -(2**63)
_ROWS = 1 << 14
_FORGET_EVERY = 1 << 17


@dataclass(frozen=True, kw_only=True)
class RuleWork(RowWork):
    """The rules of a task, the columns of its rows, and those of the answer."""

    rows: pa.Schema
    """The columns that travel."""
    lots: tuple[RuleTexts, ...] = ()
    """Of batches: the rules of a task, or lots of them; then rows have the number of their lot."""
    form: AnswerForm = "lines"
    text: TextEvents = "named"
    """Which events of its matches a line, or a flat column, has."""
    united: pa.Schema | None = None
    """The columns of all rules, as these name them, where matches have columns."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """The number of each rule in the set, where the answer has columns that order it."""
    limit: int | None = None
    """Each task gives at most so many matches of a rule, its first."""
    functions: Mapping[str, Function] = field(default_factory=dict)
    """The functions of users that the rules call; a worker registers them."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        FUNCTIONS.update(self.functions)

    def open(self, frozen: bytes | None = None) -> RuleRecognizer:
        return RuleRecognizer(self, frozen)

    @cached_property
    def known_streams(self) -> list[KnownStream]:
        """The streams with the columns that travel."""
        empty = self.rows.empty_table()
        return [
            KnownStream(own.name, own.select(empty).schema, is_blank=own.is_blank)
            for own in self.streams
        ]


def make_rules(texts: Iterable[RuleText]) -> RuleSet:
    """Return the rules of these texts; a worker parses and plans each rule once."""
    return RuleSet([_read_rule(rule.name, rule.text) for rule in texts])


@lru_cache(maxsize=1 << 15)
def _read_rule(name: str, text: str) -> Rule:
    return Rule(name, Query(text))


class RuleRecognizer(Recognizer):
    """The session of rules in one task, or in one bucket."""

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
        self._now: int | None = None
        """The last time of the whole input, where rows carry it."""
        self._passed = _BEFORE_ALL
        """Up to where time has passed, in nanoseconds."""
        self._matches: dict[str, int] = {}
        """How many matches of each rule were given."""
        self._told: dict[str, tuple[float, ...]] = self._read_numbers()

    def change_rules(self, texts: RuleTexts) -> bool:
        if self.texts == texts:
            return False
        self.update(texts)
        return True

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
        lot = 0
        if BUCKET in table.column_names:
            lot, table = table.column(BUCKET)[0].as_py(), table.drop_columns([BUCKET])
        if not self.texts and self.work.lots:
            self.update(self.work.lots[lot])
        if NOW in table.column_names:
            self._now = self.work.read_now(table)
        yield from self.give(self.session.take(self.work.read_batch(table), self.work.scale))

    def replay(self, table: pa.Table) -> None:
        for _ in self.session.take(self.work.read_batch(table), self.work.scale):
            pass
        self._told = self._read_numbers()

    def pass_time(self, nanoseconds: int) -> Iterator[pa.RecordBatch]:
        self._passed = nanoseconds
        yield from self.give(self.session.pass_time(nanoseconds, self.work.scale))

    def finish(self) -> Iterator[pa.RecordBatch]:
        scale = self.work.scale
        if self._now is not None and scale.unit_ns is not None:
            yield from self.give(self.session.pass_time(self._now * scale.unit_ns, scale))
        yield from self.give(self.session.finish().items())
        if self.work.form == "measures":
            yield from self._measure()

    def _measure(self) -> Iterator[pa.RecordBatch]:
        """Yield the numbers of rules as JSON: `SessionMetrics`, and how many matches they have."""
        numbers = {
            rule: {**asdict(own), "matches": str(self._matches.get(rule, 0))}
            for rule, own in self.session.metrics().items()
        }
        rows = [{"rule": rule, "numbers": json.dumps(own)} for rule, own in numbers.items()]
        yield from pa.Table.from_pylist(rows, MEASURES).to_batches()

    @property
    def first_end(self) -> int | None:
        ends = (session.first_group_end for session in self.session.sessions)
        # what has passed waits for matches that stand before it
        return min((end for end in ends if end is not None and end > self._passed), default=None)

    @property
    def next_deadline(self) -> int | None:
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
            if self.work.form == "measures":
                self._matches[rule] = self._matches.get(rule, 0) + each.count()
                continue
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
        ranks = pa.array(np.arange(self.given, self.given + batch.num_rows))
        self.given += batch.num_rows
        self._matches[rule] = self._matches.get(rule, 0) + batch.num_rows
        names = pa.array([rule] * batch.num_rows, pa.string())
        if work.form == "lines":
            ends, times, lines = batch.columns
            lines = lines if work.numbers else name_lines(rule, lines)
            columns = [names, ends, times, lines, ranks]
        else:
            assert work.united is not None
            columns = [names, *fill_columns(batch, work.united)]
        if work.numbers:
            columns += order_answers(batch, work.numbers[rule], ranks, self._patterns[rule])
        assert work.schema is not None
        return cast_answer(pa.RecordBatch.from_arrays(columns, work.schema.names), work.schema)


def _is_found_in_order(pattern: Pattern) -> bool:
    """Return whether a session finds the matches of a rule in the order of their ends."""
    return pattern.strategy is not Strategy.LONGEST and not pattern.without


def _join(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


# ------------------------------------------------------------------ answers


def list_answers(found: Any, form: AnswerForm, text: TextEvents) -> Iterable[pa.RecordBatch]:
    """Return what a rule has found as lines or columns."""
    if form == "lines":
        return found.lines(text) if isinstance(found, Matches) else found.lines()
    if form == "flat":
        return found.flat_batches(events=text != "named")  # type: ignore[no-any-return]
    if isinstance(found, Matches) and not found.counting:
        return found.batches()
    return found.counts().to_batches()  # type: ignore[no-any-return]


def unite_answers(session: RuleSession, form: AnswerForm, text: TextEvents) -> pa.Schema:
    """Return the columns of all rules of a session that is prepared, in the engine's types."""
    schemas, exact = list[pa.Schema](), set[str]()
    for running in session.running:
        found = running.session.empty_result()
        if form == "flat":
            schema = next(found.flat_batches(events=text != "named")).schema
        else:
            schema = found.counts().schema if found.counting else found.schema
        schemas.append(schema)
        if isinstance(found, Groups):
            exact.update(exact_columns(running.pattern, schema))
        elif found.counting:
            exact.add("count")
    fields = [
        column.with_type(DECIMAL)
        if column.name in exact and pa.types.is_int64(column.type)
        else column
        for column in unite_columns(schemas)
    ]
    return pa.schema(fields)


def name_answers(united: pa.Schema, *, ordered: bool) -> pa.Schema:
    """Return the columns of named matches in the types that carry them in Spark.

    >>> name_answers(pa.schema({"rule": pa.string()}), ordered=False).names
    ['rule', 'rule_']
    """
    carried = [each.with_type(carrier_of(each.type) or each.type) for each in name_rules(united)]
    return add_order(pa.schema(carried)) if ordered else pa.schema(carried)


def add_order(schema: pa.Schema) -> pa.Schema:
    """Return a schema with the columns that order matches."""
    return pa.schema([*schema, *(pa.field(name, pa.int64()) for name in ORDER)])


def fill_columns(batch: pa.RecordBatch, united: pa.Schema) -> list[pa.Array]:
    """Return the columns of all rules for the matches of one."""
    table = pa.Table.from_batches([batch])
    exact = [each.name for each in united if each.type == DECIMAL]
    table = cast_groups(table, [name for name in exact if name in table.column_names], "decimal")
    filled = fill_table(table, united)
    return [column.combine_chunks() for column in filled.columns]


def is_ordered_by_rank(pattern: Pattern) -> bool:
    """Return whether one task has to find all matches of a rule, for their order."""
    grouping = pattern.grouping
    ranks_matches = pattern.ranks_intervals or pattern.ranks_overall
    return ranks_matches or (grouping is not None and not grouping.end)


def order_answers(
    batch: pa.RecordBatch, number: int, ranks: pa.Array, pattern: Pattern
) -> list[pa.Array]:
    """Return the columns of `ORDER` for some matches of a rule."""
    size = batch.num_rows
    first = pa.repeat(pa.scalar(number, pa.int64()), size)
    if is_ordered_by_rank(pattern):
        nothing = pa.repeat(pa.scalar(0, pa.int64()), size)
        return [first, nothing, nothing, ranks]
    times = batch.column(batch.schema.names.index("end_ts"))
    if pa.types.is_date32(times.type):
        times = times.cast(pa.int32())
    end = batch.column(batch.schema.names.index("end"))
    return [first, times.cast(pa.int64(), safe=False), end.cast(pa.int64()), ranks]
