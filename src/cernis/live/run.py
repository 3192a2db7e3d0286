"""`LiveRun`: the loop of a live stream in one process.

    arrivals ─▶ clock: late or not, watermark ─▶ bucket ─▶ sink.add
    every `pace` seconds, or at once where matches wait for a delivery:
        sink.stage, positions ─▶ store.commit ─▶ sink.release

A commit has the positions of the inputs, the state, and what was staged for the sinks. So a process
that ends at any moment, and is started again, reads each event once, and gives each match once, or
again where the sink cannot tell (`sinks`). What has come since the last commit comes again.

Where a server takes the matches, a release runs in a thread while the next events are read. The
next commit waits for its end: the checkpoint keeps one delivery.

Cost contract: for each event, the cost of its bucket. For each step some milliseconds at most:
events are read as soon as they are there, and as many as are there.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from time import monotonic, time
from typing import Any

import numpy as np
import pyarrow as pa

from cernis.compiled.tiers import expect_events
from cernis.errors import CernisError, StateError
from cernis.events.batch import Bools, Int64s
from cernis.live.arrivals import Arrival, InputEnded, InputReaders, join_arrivals
from cernis.live.clock import EventClock
from cernis.live.inputs import KnownText, LiveInput, describe_input, resume_input
from cernis.live.prepare import Prepared, check_rules, record_rules
from cernis.live.sinks import LINE, Sink
from cernis.live.store import LocalStore
from cernis.results.formats.jsonlines import answer_lines
from cernis.run.rules.rule_set import RuleSet
from cernis.work.bucket import restore_bucket
from cernis.work.checkpoint import check_same
from cernis.work.columns import AHEAD, LATE, ROW
from cernis.work.progress import Progress, RuleNumbers
from cernis.work.query import QueryWork
from cernis.work.reading import RowWork
from cernis.work.rule_record import RuleRecord
from cernis.work.rules import RuleWork, make_rules

_LONGEST_STEP = 0.1
_COMMIT, _SEEN = 1.0, 0.1
"""Seconds between commits, and where matches are seen before them."""
_SHORT_RUN, _MANY = 1.0, 1_000_000
"""After so many seconds, many events are to come: kernels are compiled, whose calls cost least."""
_MS = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How a live stream keeps time."""

    lateness: float = 0.0
    """Seconds that events may come behind later ones."""
    ahead: float | None = None
    """Seconds that events may be ahead of the clock; None: any number."""
    idle: float | None = None
    """Seconds of silence after which an input holds nothing back."""
    commit: float | None = None
    """Seconds between commits; None: one, or as a match comes, or 0.1 where no sink waits."""


class LiveRun:
    """A query or rules at work on live inputs."""

    def __init__(
        self,
        prepared: Prepared,
        inputs: Mapping[str, LiveInput],
        store: LocalStore,
        sinks: Sequence[Sink],
        pace: Pace,
    ) -> None:
        """The first sink receives matches; another one, events that are not read."""
        self.prepared, self.store, self.sinks, self.pace = prepared, store, sinks, pace
        self.told: Callable[[Progress], None] | None = None
        """Is told of commits, each with those since the last one that it was told of."""
        self._told_at, self._is_told = 0.0, True
        self._counts: Counter[str] = Counter()
        """Rows, events, matches and events aside since `told` was called."""
        self._positions: dict[str, Any] = {}
        self._done: dict[str, list[str]] = {}
        """Of inputs: where they go on, and which files were read, since the last commit."""
        self._milliseconds: Counter[str] = Counter()
        self._rows = 0
        """The number of the next row, where rows are numbered as they come."""
        self.inputs = [inputs[name] for name in match_inputs(inputs, prepared)]
        self._tick = prepared.tick
        self.clock = EventClock(
            inputs=len(self.inputs),
            lateness=int(pace.lateness * 1000) * _MS // self._tick,
            tick=self._tick,
            idle=pace.idle,
        )
        self._batch = self._restore()
        self.bucket = restore_bucket(self._buckets, 0, store, None)
        self.arrivals = InputReaders(self.inputs, prepared.sources, self._tick)
        self._is_dirty = False
        self._is_hot = False
        self._deliverer = ThreadPoolExecutor(1, "delivery")
        self._delivery: Future[None] | None = None
        """A release that runs while events are read."""
        self._committed = self._began = monotonic()

    # ---------------------------------------------------------- beginning

    def _restore(self) -> int:
        """Check that the checkpoint is of this run, and put out what the last run staged."""
        store, folder = self.store, str(self.store.folder)
        before = store.read_note("run")
        batch = 0
        self._buckets = replace(self.prepared.buckets, is_kept=store.folder is not None)
        if before is None:
            store.write_note("run", self.prepared.note)
            known = {
                input_.label: text.to_note()
                for input_, source in zip(self.inputs, self.prepared.sources, strict=True)
                if (text := describe_input(input_, source.columns)) is not None
            }
            store.write_note("inputs", known)
        else:
            check_same(folder, before, self.prepared.note)
            noted = store.read_note("clock")
            batch = int(store.read_note("batch") or 0)
            if noted is not None:
                self.clock.watermark, self._rows = noted["watermark"], noted["rows"]
                self.clock.latest = {int(n): time_ for n, time_ in noted["latest"].items()}
            record = self._buckets.record
            if record is not None:
                ran = RuleRecord.from_note(folder, store.read_note("rules") or {})
                rules = make_rules(record.versions[-1].rules[0])
                self._buckets = replace(self._buckets, record=record_rules(rules, ran, batch))
            self._release(batch)
        for sink in self.sinks:
            sink.recover(batch)
        return batch

    @property
    def sink(self) -> Sink:
        return self.sinks[0]

    # ------------------------------------------------------------- the loop

    def run(self, is_stopping: Callable[[], bool], look: Callable[[], None] | None = None) -> None:
        """Read until all inputs have ended or the run is to stop; then commit."""
        self.start()
        try:
            while not is_stopping() and (self.arrivals.running or self.step(0)):
                self.step(_LONGEST_STEP)
                if look is not None:
                    look()
            if self.store.folder is None and not is_stopping():
                self.finish()
            self.commit()
            self._await_delivery()
            self._tell()
        finally:
            self.close()

    def start(self) -> None:
        self.arrivals.start()
        self._began = monotonic()

    def close(self) -> None:
        """End the threads; nothing is committed."""
        self.arrivals.stop()
        self._deliverer.shutdown()
        for sink in self.sinks:
            sink.close()

    def step(self, seconds: float) -> bool:
        """Read what has come, after some seconds at the latest; return whether something has.

        Commits first, if it is time: what the caller was given before this step, it has.
        """
        if self._delivery is not None and self._delivery.done():
            self._await_delivery()
        if self._is_dirty and self._is_due():
            self.commit()
        if not self._is_told and monotonic() >= self._told_at + _SEEN:
            self._tell()
        arrived = self.arrivals.take(self._wait(seconds))
        if arrived and not self._is_hot and monotonic() > self._began + _SHORT_RUN:
            self._is_hot = True
            expect_events(_MANY)
        self.take(arrived)
        return bool(arrived)

    def _wait(self, seconds: float) -> float:
        if not self._is_dirty:
            return seconds
        return max(0.0, min(seconds, self._committed + self._every - monotonic()))

    @property
    def _every(self) -> float:
        """A match that waits for a delivery is not kept waiting, unless the user has said so."""
        if self.pace.commit is not None:
            return self.pace.commit
        if self._delivery is not None:
            return _COMMIT  # then the run waits for it: what was read since is bounded
        if self.sink.is_pressing:
            return 0.0
        return _COMMIT if self.sink.waits else _SEEN

    def _is_due(self) -> bool:
        return monotonic() >= self._committed + self._every

    def take(self, arrived: list[Arrival | InputEnded], *, last: bool = False) -> None:
        """Read rows that have come; with `last`, nothing follows, and all of them are read."""
        now, before = monotonic(), self.clock.watermark
        tables = []
        for each in join_arrivals(arrived):
            if isinstance(each, InputEnded):
                if each.error is not None:
                    raise each.error
                self.clock.end(each.input, now)
            elif len(each.ticks):
                tables.append(self._accept(each, now))
            self._note_position(each)
        self.clock.pass_time(now)
        watermark = self.clock.watermark
        if last and self.clock.latest:
            watermark = self._end()
        if not tables and watermark == before and not last:
            return
        self._is_dirty = True
        self.bucket.revise(self.store, self._batch)
        rows = [self.prepared.travel.unite(tables)] if tables else []
        for batch in self.bucket.take_rows(self.store, rows, watermark, lambda *_: None):
            self._counts["matches"] += batch.num_rows
            self.sink.add(self._write_lines(batch))
        for part in ("engine", "state"):
            self._milliseconds[part] += getattr(self.bucket.report, f"{part}_ms")

    def _end(self) -> int:
        """Return the watermark at which the events of the last time are read.

        For rows no time passes after them: a deadline at that time is not past, as in a batch.
        RDF ends a time so, and a log with several inputs is read again up to its watermark.
        """
        buckets = self._buckets
        in_order = not buckets.is_kept and isinstance(buckets.work, RowWork)
        in_order = in_order or buckets.in_order
        self.bucket.stream = replace(buckets, in_order=in_order)
        return max(self.clock.latest.values()) + (not in_order)

    def finish(self) -> None:
        """Read all that waits, and give what is certain at the end of the input."""
        self.take([], last=True)
        for batch in self.bucket.recognizer.finish():
            self._counts["matches"] += batch.num_rows
            self.sink.add(self._write_lines(batch))
            self._is_dirty = True

    def commit(self) -> None:
        """Make all that was read certain, and let the matches be seen."""
        self._committed = monotonic()
        if not self._is_dirty:
            return
        self._await_delivery()
        self._batch += 1
        staged = [sink.stage(self._batch) for sink in self.sinks]
        if self.store.folder is not None:
            self._write_notes(staged)
        self._is_dirty = False
        self._release(self._batch, staged)
        self._is_told = False

    def _tell(self) -> None:
        """Tell the numbers since the last time; counting what the state holds takes a while."""
        if self.told is None or self._is_told:
            return
        self._told_at, self._is_told = monotonic(), True
        self.told(self._measure())
        self._counts.clear()
        self._milliseconds.clear()

    def _release(self, number: int, staged: Any = None) -> None:
        if staged is None or not any(sink.releases_aside for sink in self.sinks):
            release_staged(self.store, self.sinks, number, staged)
        elif any(own is not None for own in staged):
            wanted = (self.store, self.sinks, number, staged)
            self._delivery = self._deliverer.submit(release_staged, *wanted)
            self._delivery.add_done_callback(lambda _: self.arrivals.wake())

    def _await_delivery(self) -> None:
        """Wait for the end of a release; raise its error."""
        delivery, self._delivery = self._delivery, None
        if delivery is not None:
            delivery.result()

    def _write_notes(self, staged: list[Any]) -> None:
        store, clock = self.store, self.clock
        for name, position in self._positions.items():
            store.put_position(name, position)
        for name, files in self._done.items():
            store.put_files(name, files)
        self._positions.clear()
        self._done.clear()
        store.write_note("staged", staged)
        store.write_note("batch", self._batch)
        noted = {"watermark": clock.watermark, "latest": clock.latest, "rows": self._rows}
        store.write_note("clock", noted)
        if self._buckets.record is not None:
            store.write_note("rules", self._buckets.record.to_note())
        store.commit()

    def _measure(self) -> Progress:
        """Return the numbers since the last commit."""
        report, counts = self.bucket.measure(), self._counts
        watermark, rules = self.clock.watermark, self.bucket.recognizer.list_numbers()
        numbers = {rule: RuleNumbers(*own) for rule, own in json.loads(rules or "{}").items()}
        return Progress(
            query=self._buckets.query,
            run=self.store.run,
            batch=self._batch,
            rows=counts["rows"],
            events=counts["events"],
            late=counts[LATE],
            ahead=counts[AHEAD],
            untimed=0,
            undecodable=0,
            waiting=report.waiting,
            matches=counts["matches"],
            state_bytes=report.kept,
            per_bucket={0: report.kept},
            waiting_per_bucket={0: report.waiting},
            keys_per_bucket={0: report.keys},
            records_per_bucket={0: report.records},
            recalled=report.recalled,
            watermark=None if watermark is None else _write_time(watermark * self._tick),
            milliseconds=dict(self._milliseconds),
            stored_per_bucket={0: report.stored},
            stored_bytes_per_bucket={0: report.stored_bytes},
            rules_per_bucket={0: numbers} if numbers else {},
        )

    # ------------------------------------------------------------- changes

    def check_rules(self, rules: RuleSet) -> None:
        """Raise the mistakes that rules have on the streams."""
        work = self._buckets.work
        assert isinstance(work, RuleWork)
        check_rules(work, rules)

    def change_rules(self, rules: RuleSet) -> None:
        """Go on with other rules; those that stay keep their state."""
        record = record_rules(rules, self._buckets.record, self._batch)
        self._buckets = self.bucket.stream = replace(self._buckets, record=record)
        self._is_dirty = True

    # ---------------------------------------------------------------- rows

    def _accept(self, arrival: Arrival, now: float) -> pa.Table:
        """Return the rows that are read, as they travel; set the others aside."""
        table, ticks = arrival.table, arrival.ticks
        self._counts["rows"] += len(ticks)
        if self.prepared.travel.counts:
            numbers: Int64s = np.arange(self._rows, self._rows + len(ticks))
            self._rows += len(ticks)
            table = table.append_column(ROW, pa.array(numbers))
        if self.pace.ahead is not None:
            bound = int((time() + self.pace.ahead) * 1000) * _MS // self._tick
            table, ticks = self._set_aside(arrival.input, table, ticks, ticks > bound, AHEAD)
        if len(ticks):
            late = self.clock.take(arrival.input, ticks, now)
            table, ticks = self._set_aside(arrival.input, table, ticks, late, LATE)
        self._counts["events"] += len(ticks)
        return self.prepared.travel.carry(arrival.input, table)

    def _set_aside(
        self, input_: int, table: pa.Table, ticks: Any, aside: Bools, reason: str
    ) -> tuple[pa.Table, Any]:
        if not aside.any():
            return table, ticks
        rows = table.filter(pa.array(aside))
        self._counts[reason] += rows.num_rows
        for sink in self.sinks[1:]:
            stream = self.prepared.sources[input_].name
            lines = [
                json.dumps({"reason": reason, "stream": stream, "event": event}, default=str)
                for event in rows.to_pylist()
            ]
            sink.add(pa.record_batch({LINE: pa.array(lines, pa.string())}))
            self._is_dirty = True
        return table.filter(pa.array(~aside)), ticks[~aside]

    def _note_position(self, arrived: Arrival | InputEnded) -> None:
        name = self.inputs[arrived.input].label
        if arrived.position is not None:
            self._positions[name] = arrived.position
            self._is_dirty = True
        if arrived.done and self.store.folder is not None:
            self._done.setdefault(name, []).extend(arrived.done)

    def _write_lines(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return matches with their lines, if the sink wants lines."""
        work = self._buckets.work
        if not isinstance(work, QueryWork) or work.form != "lines":
            return batch
        if (names := work.plan.answer_names) is None:
            return batch
        *values, ends, times = batch.columns
        return pa.record_batch({LINE: answer_lines(names, values, ends, times, "")})


def release_staged(
    store: LocalStore, sinks: Sequence[Sink], number: int, staged: Any = None
) -> None:
    """Let a delivery be seen; `staged` is what its sinks have staged, None: as the store has it."""
    staged = store.read_note("staged") if staged is None else staged
    if staged is None:
        return
    if not isinstance(staged, list) or len(staged) != len(sinks):
        raise StateError("the checkpoint was written with other sinks; name the same ones")
    for sink, own in zip(sinks, staged, strict=True):
        if own is not None:
            sink.release(number, own)


def _write_time(nanoseconds: int) -> str | None:
    """Return a time as text; None beyond the years that text has."""
    try:
        time = _EPOCH + timedelta(microseconds=nanoseconds // 1000)
    except OverflowError:
        return None
    return time.isoformat(timespec="milliseconds")


def match_inputs(inputs: Mapping[str, LiveInput], prepared: Prepared) -> list[str]:
    """Return the names of the inputs in the order of the sources."""
    if len(inputs) == len(prepared.sources) == 1:
        return list(inputs)
    return [source.name for source in prepared.sources]


def resume_inputs(inputs: Mapping[str, LiveInput], store: LocalStore) -> None:
    """Let inputs go on where the last run came to; before they are opened."""
    known = store.read_note("inputs") or {}
    for input_ in inputs.values():
        position = store.position(input_.label)
        if input_.label in known:
            input_.known = KnownText.from_note(known[input_.label])
        if position is not None:
            resume_input(input_, position, store.files(input_.label))
        elif store.header() and input_.position is not None and input_.label not in known:
            raise CernisError(f"{input_.label}: the checkpoint does not know this input")
