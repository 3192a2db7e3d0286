"""From a SPAseQ query and live RDF to the work of one bucket.

    bytes, files, messages ─▶ events as rows ─ late or not ─▶ solutions ─▶ bucket

Events are read in the threads of their inputs, and travel as rows (number, time, triples). The
graph patterns are solved after late events are set aside, with one background for all streams. The
bucket logs solutions: a run that goes on never solves a pattern again.

Where an event ends depends on the input:

* Lines of N-Quads (a pipe, a file that grows, a socket): the lines of an event stand together, and
  the first line of another graph ends it. After half of `idle` without a line, silence ends it.
* A file in a folder is a document, as a file is anywhere.
* A message of a topic or a queue is one event.

So events do not depend on how bytes come in pieces. The position in lines is that of the block in
which the open event begins, and how many quads of the block belong to events before it.

Cost contract: parsing, and a few passes over the triples. Turned down: the reach of files
(`rdf.reading.group`), in which an event stays open for thousands of quads.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pyarrow as pa

from cernis.errors import CernisError, DataError
from cernis.events.reading.mistakes import Mistakes
from cernis.events.reading.text import TextPosition, longest_record
from cernis.events.source import Chunk
from cernis.live.inputs import ARRIVED, ArrivedTexts, FolderInput, InputSilent, LiveInput, TextInput
from cernis.live.prepare import LiveOptions, LocalWork, Prepared
from cernis.rdf.matches import GraphMatches
from cernis.rdf.query import GraphQuery, parse_time_rule
from cernis.rdf.reading.events import GraphEvents
from cernis.rdf.reading.group import EventGroup, EventQuads
from cernis.rdf.reading.live_background import BackgroundFiles
from cernis.rdf.reading.messages import GraphTextReader
from cernis.rdf.reading.quads import Quads, find_format, read_quads
from cernis.rdf.reading.streams import StreamReader
from cernis.rdf.reading.terms import Codes, Terms
from cernis.rdf.reading.times import TimeRule
from cernis.rdf.reading.timing import EventTimer
from cernis.rdf.solving.exchange import SolutionFormat, SolutionWriter
from cernis.work.rdf import (
    GraphWork,
    SolutionRecognizer,
    encode_rows,
    solution_answer_schema,
    write_triples,
)
from cernis.work.rdf_sources import check_graph_reading, order_sources
from cernis.work.reading import AnswerForm

_READING = b"reading"
_TRIPLES = pa.list_(pa.struct({"s": pa.string(), "p": pa.string(), "o": pa.string()}))
_EVENTS = pa.schema(
    {"number": pa.int64(), "ts": pa.int64(), "graph": pa.string(), "triples": _TRIPLES}
)
_MANY_TERMS = 1 << 20
_LOOK_EVERY = 0.25
_BLOCK = 1 << 20


@dataclass(frozen=True, kw_only=True)
class GraphOptions:
    """How RDF is read and solved, beyond what `LiveOptions` say."""

    background: Any = None
    live: bool = False
    """The background is read again when its files change."""
    unit: str | None = None
    """The unit of times that are numbers, where it is given."""
    idle: float | None = None
    goes_on: bool = False
    """Another run goes on where this one ends: the last event of a file waits for it."""
    tell: Callable[[str], None] = lambda _: None
    """Is told of new backgrounds."""


class GraphStream(ABC):
    """One stream of RDF as it comes; gives `Chunk`s of events as a `Source` does."""

    def __init__(self, name: str, input_: LiveInput, rule: TimeRule, mistakes: Mistakes) -> None:
        self.name, self.input, self.rule = name, input_, rule
        self.label = input_.label
        self.dated: bool | None = None
        """Whether times are dates, not numbers; None: not known yet."""
        self._mistakes = mistakes
        self._ready: list[pa.Table] = []
        self._tables = self._read()

    def look(self) -> None:
        """Wait for the first events: they say where times are, and whether these are dates."""
        known = None if self.input.known is None else self.input.known.schema.metadata
        if known is not None and _READING in known:
            noted = json.loads(known[_READING])
            if not self.rule.is_decided():
                self.rule = replace(
                    self.rule, property=noted["time"], pattern=noted["name"], unit=noted["unit"]
                )
            self.dated = bool(noted["dates"])
        elif self.dated is None:
            self._ready = [table for table in (next(self._tables, None),) if table is not None]

    @property
    def columns(self) -> pa.Schema:
        """The columns of events, with how the stream is read."""
        return _EVENTS.with_metadata({_READING: json.dumps(self.describe())})

    def describe(self) -> dict[str, Any]:
        """Describe how the stream is read, for the note in a checkpoint."""
        rule = self.rule
        return {
            "time": rule.property,
            "name": rule.pattern,
            "unit": rule.unit,
            "dates": bool(self.dated),
        }

    def chunks(self, *, tick: int) -> Iterator[Chunk]:
        """Yield events as they come; a tick is a nanosecond."""
        while self._ready:
            yield _make_chunk(self._ready.pop())
        yield from map(_make_chunk, self._tables)

    @abstractmethod
    def _read(self) -> Iterator[pa.Table]:
        """Yield events as rows."""

    def _time(self, timer: EventTimer, group: EventGroup, terms: Terms) -> pa.Table | None:
        """Return the events of a group that have a time."""
        timer.rule = self.rule
        if not self.rule.is_decided():
            timer.decide_rule(group)
            self.rule = timer.rule
        events = timer.build_events(group)
        if self.dated is None and timer.numeric_times is not None:
            self.dated = not timer.numeric_times
        names = group.names[np.searchsorted(group.numbers, events.numbers)]
        return _write_rows(events, names, terms) if events.size else None


def _make_chunk(table: pa.Table) -> Chunk:
    numbers, times = (np.asarray(table.column(name), np.int64) for name in ("number", "ts"))
    return Chunk(table, numbers, times)


def _write_rows(events: GraphEvents, names: Codes, terms: Terms) -> pa.Table:
    columns = [
        pa.array(events.numbers),
        pa.array(events.times),
        terms.repeated_texts(names),
        write_triples(events, terms, _TRIPLES),
    ]
    return pa.Table.from_arrays(columns, schema=_EVENTS)


# ---------------------------------------------------------------------- lines


class GraphLines(GraphStream):
    """Lines of N-Quads that come as bytes; those of an event stand together."""

    def __init__(
        self,
        name: str,
        input_: TextInput,
        rule: TimeRule,
        mistakes: Mistakes,
        graphs: GraphOptions,
    ) -> None:
        super().__init__(name, input_, rule, mistakes)
        idle, self._goes_on = graphs.idle, graphs.goes_on
        self.position = TextPosition()
        """Where the open event begins."""
        self._text, self._patience = input_, None if idle is None else idle / 2
        self._terms = Terms()
        self._timer = EventTimer(0, self.label, self._terms, rule, mistakes, ordered=False)
        none = np.empty(0, np.int32)
        self._open = Quads(none, none, none, none)
        """The quads of the event that has not ended."""
        input_.read_by(self)

    def _read(self) -> Iterator[pa.Table]:
        offset, _, line, skip = self.position
        rest = b""
        while True:
            is_open = len(self._open.s) > 0
            at_end = False
            if is_open and self._patience is not None:
                self.input.alarm = monotonic() + self._patience
            try:
                data = self._text.read1(_BLOCK)
                at_end = not data
                text = rest + data
            except InputSilent:
                yield from self._end_event(TextPosition(offset, self.position.row, line))
                continue
            cut = text.rfind(b"\n") + 1
            ends = at_end and (not self._goes_on or self.input.position is None)
            if ends or len(text) > longest_record():
                cut = len(text)
            block, rest = text[:cut], text[cut:]
            quads = self._parse(block, line)
            passed = min(skip, len(quads.s))
            skip -= passed
            yield from self._take(quads, passed, TextPosition(offset, 0, line))
            offset, line = offset + len(block), line + block.count(b"\n")
            if ends:
                yield from self._end_event(TextPosition(offset, self.position.row, line))
            if at_end:
                return
            self._forget()

    def _parse(self, block: bytes, line: int) -> Quads:
        batches = read_quads(
            block,
            self._terms,
            format="nq",
            label=self.label,
            scope=self.name,
            mistakes=self._mistakes,
            line=line,
        )
        return _join_quads(batches)

    def _take(self, quads: Quads, passed: int, block: TextPosition) -> Iterator[pa.Table]:
        """Yield the events that end in a block; some quads of it were passed before."""
        size = len(quads.s)
        joined = _join_quads([self._open, Quads(*(column[passed:] for column in quads))])
        group, used = self._group(joined, at_end=False)
        self._open = Quads(*(column[used:] for column in joined))
        number = self.position.row
        if len(self._open.s) <= size - passed:  # the open event begins in this block
            begin = size - len(self._open.s)
            self.position = TextPosition(block.offset, number, block.line, begin)
        if group is not None:
            yield from self._give(group)

    def _end_event(self, after: TextPosition) -> Iterator[pa.Table]:
        group, _ = self._group(self._open, at_end=True)
        self._open = Quads(*(column[:0] for column in self._open))
        self.position = after
        if group is not None:
            yield from self._give(group)

    def _give(self, group: EventGroup) -> Iterator[pa.Table]:
        self.position = self.position._replace(row=self.position.row + len(group.names))
        table = self._time(self._timer, group, self._terms)
        if table is not None:
            yield table

    def _group(self, quads: Quads, *, at_end: bool) -> tuple[EventGroup | None, int]:
        """Return the events that have ended, and the number of their quads."""
        keys = np.where(quads.g >= 0, quads.g, quads.s)
        begins = np.flatnonzero(np.diff(keys, prepend=-1))
        if not at_end:
            begins, used = begins[:-1], int(begins[-1]) if len(begins) else 0
        else:
            used = len(keys)
        if not len(begins):
            return None, used
        own = Quads(*(column[:used] for column in quads))
        sizes = np.diff(begins, append=used)
        named = np.logical_or.reduceat(own.g >= 0, begins)
        event = np.repeat(np.cumsum(named) - 1, sizes).astype(np.int32)
        inside = np.repeat(named, sizes)
        for i in np.flatnonzero(~inside).tolist():
            self._report_stray(own, i)
        names, first = keys[begins[named]], np.concatenate(([0], np.cumsum(sizes[named])))
        numbers = self.position.row + np.arange(len(names))
        taken = EventQuads(event, own.s, own.p, own.o).take(inside)
        return EventGroup(names, numbers, first, taken), used

    def _report_stray(self, quads: Quads, i: int) -> None:
        terms = (self._terms.text(int(column[i])) for column in quads[:3])
        text = " ".join(terms) + " ."
        reason = (
            f"a triple of the default graph is about no event beside it: {text}; put it into the "
            "named graph of an event, or into background knowledge"
        )
        row = self.position.row
        self._mistakes.bad(self.label, row, None, reason, text=text, where=self.label)

    def _forget(self) -> None:
        """Drop the terms of events that have ended, if there are many."""
        terms = self._terms
        if len(terms) <= _MANY_TERMS:
            return
        used = np.zeros(len(terms), np.bool_)
        for codes in self._open:
            used[codes[codes >= 0]] = True
        new_codes = np.append(terms.keep(used), np.int32(-1))
        self._open = Quads(*(new_codes[codes] for codes in self._open))


def _join_quads(batches: Iterable[Quads]) -> Quads:
    none = np.empty(0, np.int32)
    columns: Any = zip(Quads(none, none, none, none), *batches, strict=True)
    return Quads(*map(np.concatenate, columns))


# ---------------------------------------------------------- files and messages


class GraphDocuments(GraphStream):
    """Files of RDF that appear in a folder; numbers of events go on from file to file."""

    input: FolderInput

    def __init__(
        self, name: str, input_: FolderInput, rule: TimeRule, mistakes: Mistakes, form: str | None
    ) -> None:
        super().__init__(name, input_, rule, mistakes)
        self._format = form

    def _read(self) -> Iterator[pa.Table]:
        while files := self.input.wait_for_files():
            for path in files:
                yield from self._read_file(path)

    def _read_file(self, path: Path) -> Iterator[pa.Table]:
        folder, terms = self.input, Terms()
        reader = _Document(path, terms, self.rule, self._mistakes)
        skipped, before = folder.begin(path), folder.before
        quads = read_quads(
            path,
            terms,
            format=find_format(path, self._format),
            scope=f"{self.name}-{before:x}",
            mistakes=self._mistakes,
        )
        for number, group in enumerate(reader.groups(quads), 1):
            if number > skipped:
                table = self._time(reader.timer, group, terms)
                folder.note(path, number)
                if table is not None:
                    numbers = pa.array(np.asarray(table.column("number")) + before)
                    yield table.set_column(0, "number", numbers)
        folder.before += reader.grouper.event_count
        folder.end(path)


class _Document(StreamReader):
    """A file of events in any order."""

    def __init__(self, path: Path, terms: Terms, rule: TimeRule, mistakes: Mistakes) -> None:
        super().__init__(0, str(path), terms, rule, mistakes, ordered=False)

    def groups(self, quads: Iterator[Quads]) -> Iterator[EventGroup]:
        """Yield the events of the file, group by group."""
        for batch in quads:
            self.grouper.add(batch)
            if (group := self.grouper.close(at_end=False)) is not None:
                yield group
        if (group := self.grouper.close(at_end=True)) is not None:
            yield group


class GraphMessages(GraphStream):
    """Messages, each of which is one event."""

    def __init__(
        self,
        name: str,
        input_: Any,
        rule: TimeRule,
        mistakes: Mistakes,
        form: str,
        *,
        arrived: bool,
    ) -> None:
        super().__init__(name, input_, rule, mistakes)
        self._format, self._arrived = form, arrived

    def _read(self) -> Iterator[pa.Table]:
        while (some := self.input.take_texts()) is not None:  # type: ignore[attr-defined]
            terms = Terms()
            reader = GraphTextReader(terms, self.rule, self._format, timeless=self._arrived)
            scopes = [f"m{number}" for number in some.numbers.tolist()]
            found = reader.read_messages(some.texts, scopes, self._reject(some))
            at = found.events.numbers
            times = some.arrived[at] if self._arrived else found.events.times
            events = found.events._replace(times=times, numbers=some.numbers[at])
            if events.size:
                yield _write_rows(events, found.names, terms)

    def _reject(self, some: ArrivedTexts) -> Callable[[int, str], None]:
        def reject(i: int, reason: str) -> None:
            number, text = int(some.numbers[i]), some.texts[i].decode(errors="replace")
            where = f"{self.label}, message {number}"
            self._mistakes.bad(self.label, number, None, reason, text=text, where=where)

        return reject


# -------------------------------------------------------------------- the work


@dataclass(frozen=True, kw_only=True)
class LocalGraphWork(GraphWork):
    """The work of one process on solutions."""

    live: bool = False

    @property
    def has_versions(self) -> bool:
        return self.live

    def open(self, frozen: bytes | None = None) -> SolutionRecognizer:
        return _NamingRecognizer(self, frozen)


class _NamingRecognizer(SolutionRecognizer):
    """Names the graphs of CONSTRUCT after their matches: a match has the same name each time."""

    def _format(self, found: GraphMatches) -> Iterator[pa.RecordBatch]:
        for batch in super()._format(found):
            if self.work.form != "quads":
                yield batch
                continue
            texts = batch.column("line").to_pylist()
            named = [
                text.replace("\0", hashlib.md5(text.encode(), usedforsecurity=False).hexdigest())
                for text in texts
            ]
            lines = [text.rstrip("\n") for text in named if text]
            yield pa.record_batch({"line": pa.array(lines, pa.string())})


class GraphTravel:
    """How events become solutions, which is how they travel."""

    counts = False

    def __init__(self, query: GraphQuery, options: GraphOptions) -> None:
        self._plan, self._options = query.plan, options
        self._names = [name for name, _ in query.query.streams]
        background = query.name_graphs(options.background)
        self._files = BackgroundFiles(background) if options.live else None
        self._looked = monotonic()
        known = background if self._files is None else self._files.read()
        self._solver = SolutionWriter(self._plan, known)
        self._schema = SolutionFormat(self._plan, live=options.live).schema

    def unite(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Return solutions of several streams as one table."""
        return pa.concat_tables(tables, promote_options="default")

    def carry(self, number: int, table: pa.Table) -> pa.Table:
        """Return the solutions in events of a stream."""
        self._renew()
        named = pa.repeat(pa.scalar(self._names[number], pa.string()), table.num_rows)
        solved = []
        for rows in table.append_column("stream", named).combine_chunks().to_batches():
            events = encode_rows(self._names, rows, self._solver.terms)
            solved.append(self._solver.write(events, ticks=self._plan.counts_all_timestamps).batch)
            self._solver.forget()
        return pa.Table.from_batches(solved, self._schema)

    def _renew(self) -> None:
        """Read a live background again if its files have changed."""
        if self._files is None or monotonic() < self._looked + _LOOK_EVERY:
            return
        self._looked = monotonic()
        if not self._files.look():
            return
        try:
            content = self._files.read()
            self._solver = SolutionWriter(self._plan, content)
            self._options.tell(f"background {content.version}")
        except DataError as error:
            self._options.tell(f"the background is as before: {error}")


def prepare_graphs(
    query: GraphQuery,
    inputs: Mapping[str, LiveInput],
    options: LiveOptions,
    form: AnswerForm,
    graphs: GraphOptions,
) -> Prepared:
    """Open the streams of a query over RDF; waits for the first events of each."""
    check_graph_reading(options.reading)
    if options.columns or options.row is not None:
        raise CernisError(f"--{'schema' if options.columns else 'row'}: RDF has no columns")
    if form == "quads" and query.query.construct is None:
        raise CernisError("--output-format nq: only CONSTRUCT makes graphs; this query SELECTs")
    travel, mistakes = GraphTravel(query, graphs), Mistakes(options.reading.on_error)
    mistakes.open([])
    streams = [
        _open_stream(name, input_, options, graphs, mistakes)
        for name, input_ in _name_inputs(query, inputs).items()
    ]
    for stream in streams:
        stream.look()
    kinds = {stream.dated for stream in streams if stream.dated is not None}
    if len(kinds) > 1:
        raise DataError("the times of one stream are dates and those of another are numbers")
    for stream in streams:
        stream.dated = kinds == {True}
    unit = streams[0].rule.unit
    work = LocalGraphWork(
        plan=query.plan, unit=unit, numeric_times=kinds != {True}, form=form, live=graphs.live
    )
    work = replace(work, schema=solution_answer_schema(work))
    note = {
        "query": str(query.plan.query),
        "reading": {stream.name: stream.describe() for stream in streams},
        "background": "live" if graphs.live else "as given",
    }
    digest = hashlib.sha256(repr(sorted(note.items())).encode()).hexdigest()[:32]
    buckets = LocalWork(
        work=work,
        query=digest,
        buckets=(0,),
        window=query.plan.window,
        finds_late=False,
        secret=options.secret,
    )
    return Prepared(sources=streams, travel=travel, buckets=buckets, note=note)


def _name_inputs(query: GraphQuery, inputs: Mapping[str, LiveInput]) -> dict[str, LiveInput]:
    names = [name for name, _ in query.query.streams]
    if len(names) == len(inputs) == 1:
        return dict(zip(names, inputs.values(), strict=True))
    return order_sources(query.query, inputs)


def _open_stream(
    name: str, input_: LiveInput, options: LiveOptions, graphs: GraphOptions, mistakes: Mistakes
) -> GraphStream:
    asked, time = options.reading.format, options.reading.time
    form = None if asked is None else find_format(b"", str(asked))
    unit = graphs.unit or options.reading.time_unit
    arrived = time == ARRIVED
    rule = parse_time_rule(None if arrived else str(time) if time else None, unit)
    assert isinstance(rule, TimeRule)
    if isinstance(input_, FolderInput):
        return GraphDocuments(name, input_, rule, mistakes, form)
    if hasattr(input_, "take_texts"):
        stream = GraphMessages(name, input_, rule, mistakes, form or "nq", arrived=arrived)
        stream.dated = arrived or graphs.unit is None
        return stream
    assert isinstance(input_, TextInput)
    if form not in (None, "nq"):
        raise CernisError(
            f"{input_.label}: text that goes on is read as N-Quads; a file of {asked} has no lines "
            "to cut it at: write whole files into a folder"
        )
    return GraphLines(name, input_, rule, mistakes, graphs)
