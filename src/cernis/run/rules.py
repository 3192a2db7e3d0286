"""`RuleSet`: many rules over the same events, in one pass.

Events are opened, ordered and merged once for all rules. A `Router` sends each event to the rules
that it can move; rules that must see every event share the batches, and the codes of equal
predicates. All rules share the classes of the values that equal predicates tell apart.

Cost contract: reading once; per event one look-up for each indexed attribute; per rule the cost of
a session over its own events, and some calls for each chunk: a million events, or up to eight
where there are thousands of rules. State: that of a session for each rule, and the events that its
matches reach back to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cernis.encoding.encode import AtomEncoder, Encoder, KnownGroups
from cernis.errors import (
    CernisError,
    DataError,
    Diagnostic,
    QueryError,
    StrictError,
    WarningNote,
    list_warnings,
)
from cernis.events.batch import EventBatch, Int32s, Int64s, select_events
from cernis.events.mistakes import Mistakes
from cernis.events.order import Ordering, Scale, StreamPosition, join_table
from cernis.events.source import DescribedStream, Source
from cernis.languages.ceql.rules import parse_rules
from cernis.pattern.atom import Atom
from cernis.pattern.query import Pattern
from cernis.results.matches import Matches
from cernis.run.advice.absent_types import SampledTypes
from cernis.run.advice.odd_times import TimeSpan, check_times, extend_span
from cernis.run.advice.skipped_rows import note_skipped
from cernis.run.derived import (
    DerivedEvents,
    DerivedStream,
    PlacedBatch,
    count_steps,
    derive_events,
    derive_schema,
    merge_events,
    order_rules,
    unite_schemas,
)
from cernis.run.metrics import SessionMetrics
from cernis.run.query import Query
from cernis.run.routing import ConstantTest, Router, find_equalities, why_whole
from cernis.run.session import RunOptions, Session
from cernis.schema import Schema

_CHUNK = 1 << 20
"""So many events are routed at once: each rule has a cost for each chunk."""
_CHUNK_PER_RULE = 1 << 12
"""Many rules take larger chunks, of so many events for each rule."""
_LARGEST_CHUNK = 1 << 23
_CHUNK_BYTES = 1 << 28
"""Limits of larger chunks, in events and in bytes."""


class RuleSetError(CernisError):
    """The mistakes of a rule set, of all its rules."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = tuple(mistakes)


@dataclass(frozen=True, eq=False)
class Rule:
    """A query with a name, and the file that it stands in."""

    name: str
    query: Query[Any]
    origin: str = ""

    @cached_property
    def whole(self) -> str:
        """Why its plan has it read every event; empty: it reads those that can move it."""
        return why_whole(self.query.plan)

    @cached_property
    def equalities(self) -> frozenset[ConstantTest] | None:
        """The equalities of which one holds for every event that can move it."""
        return find_equalities(self.query.plan)


class RuleSet:
    """Rules that run over the same events.

    >>> two = RuleSet.of({"buys": "SELECT * WHERE BUY", "sells": "SELECT * WHERE SELL"})
    >>> {name: found.count() for name, found in two.run([{"type": "BUY"}]).items()}
    {'buys': 1, 'sells': 0}
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)

    @classmethod
    def of(cls, source: Any) -> RuleSet:
        """Read rules: a text, a file, a folder, texts in a list, or queries by name.

        All mistakes of all rules are raised together.
        """
        reader = _RuleReader()
        reader.read(source)
        return reader.finish()

    def __len__(self) -> int:
        return len(self.rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __getitem__(self, name: str) -> Query[Any]:
        for rule in self.rules:
            if rule.name == name:
                return rule.query
        raise KeyError(name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(rule.name for rule in self.rules)

    def run(self, events: Any, **options: Any) -> dict[str, Any]:
        """Return what each rule finds in the events; the options are those of `Query.run`."""
        return self.session(**options).collect(events)

    def session(self, **options: Any) -> RuleSession:
        """Return a session to push events to, for all rules."""
        return RuleSession(self, RunOptions(**options))

    @cached_property
    def wholes(self) -> dict[str, str]:
        """The rules that read every event, and why."""
        made = {rule.query.pattern.into for rule in self.rules}
        found = {}
        for rule in self.rules:
            pattern = rule.query.pattern
            derives = pattern.into is not None or not made.isdisjoint(pattern.streams)
            why = "its events, or its matches, are put in order with those of other rules"
            found[rule.name] = why if derives else rule.whole
        return {name: why for name, why in found.items() if why}

    def explain(self) -> str:
        """Return how the rules share the work, and which of them cost most."""
        return "\n".join(self._explain())

    def _explain(self) -> Iterator[str]:
        yield f"rules        {len(self.rules)}"
        router = make_router(self.rules, "type")
        indexed = ", ".join(f"{n} ({count:,} constants)" for n, count in router.attributes.items())
        yield f"routed       {len(router.rules)} rules read the events that can move them"
        if indexed:
            yield f"             by look-ups of {indexed}"
        yield f"whole        {len(self.wholes)} rules read every event"
        for name, why in self.wholes.items():
            yield f"             {name}: {why}"
        kinds: dict[str, int] = {}
        for rule in self.rules:
            title = rule.query.plan.guarantee.value
            kinds[title] = kinds.get(title, 0) + 1
        shown = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
        yield f"classes      {shown}"


def make_router(rules: Sequence[Rule], type_column: str) -> Router:
    """Return the index of the rules that need not read every event."""
    wanted: dict[int, frozenset[ConstantTest]] = {}
    made = {rule.query.pattern.into for rule in rules}
    for number, rule in enumerate(rules):
        pattern = rule.query.pattern
        if pattern.into is not None or not made.isdisjoint(pattern.streams) or rule.whole:
            continue
        if rule.equalities is not None:
            wanted[number] = rule.equalities
    return Router(wanted, type_column)


class RuleChanges(NamedTuple):
    """What `RuleSession.update` has done: the names of rules."""

    added: tuple[str, ...]
    replaced: tuple[str, ...]
    removed: tuple[str, ...]
    kept: tuple[str, ...]

    def __str__(self) -> str:
        """Return what has changed, in words.

        >>> print(RuleChanges(("a",), (), ("b", "c"), ()))
        added a; removed b, c
        """
        changes = [f"{word} {', '.join(names)}" for word, names in self._asdict().items() if names]
        return "; ".join(changes)


class RuleSession:
    """The rules of a set over one stream of events."""

    def __init__(self, rules: RuleSet, options: RunOptions) -> None:
        self.options = options
        self.mistakes = Mistakes(options.on_error)
        self.progress = StreamPosition()
        self.notes: list[str] = []
        self._types = SampledTypes()
        self._is_updated = False
        self._events = 0
        self._encoders: dict[tuple[Atom, ...], Encoder] = {}
        self._groups: KnownGroups = {}
        self._begin(rules, {})

    def update(self, rules: RuleSet) -> RuleChanges:
        """Go on with other rules: those with the same name and text keep their state.

        A rule that is new, or has another text, begins with the next events. Rules that are wrong
        raise an error when they are read (`cernis.rules`), and the session goes on as it was.
        """
        texts = {rule.name: str(rule.query) for rule in self.rules}
        sessions = dict(zip(self.rules.names, self.sessions, strict=True))
        same = {rule.name for rule in rules if texts.get(rule.name) == str(rule.query)}
        before, after = {*texts}, {*rules.names}
        self._is_updated = True
        self._begin(rules, {name: sessions[name] for name in same})
        return RuleChanges(
            tuple(sorted(after - before)),
            tuple(sorted((after & before) - same)),
            tuple(sorted(before - after)),
            tuple(sorted(same)),
        )

    def metrics(self) -> dict[str, SessionMetrics]:
        """Return the numbers of each rule at this moment; they cost nothing."""
        pairs = zip(self.rules.names, self.sessions, strict=True)
        return {name: session.metrics() for name, session in pairs}

    def _begin(self, rules: RuleSet, kept: Mapping[str, Session[Any]]) -> None:
        """Make the sessions of the rules, but for those that are kept, and their index."""
        options = self.options
        self.rules = rules
        self.sessions: list[Session[Any]] = [
            kept.get(rule.name) or Session(rule.query.plan, options, encode=self._share_encoder)
            for rule in rules
        ]
        self._router = make_router(rules.rules, options.type_column)
        self._patterns = [rule.query.pattern for rule in rules]
        self._order, _ = order_rules(self._patterns)
        self._width = 1 + 2 * count_steps(self._patterns, self._order)
        self._made = {each.into for each in self._patterns if each.into is not None}
        self._schemas: dict[str, pa.Schema] = {}
        """The columns of derived streams."""
        self._found: list[list[Matches]] = [[] for _ in self.sessions]
        """What rules with INSERT INTO have found since the last answer."""

    def _share_encoder(self, atoms: Sequence[Atom]) -> Encoder:
        """Return one encoder for all rules that ask the same atoms."""
        key = tuple(atoms)
        if key not in self._encoders:
            self._encoders[key] = _SharedEncoder(key, self.options.type_column, self._groups)
        return self._encoders[key]

    # ------------------------------------------------------------- reading

    def collect(self, events: Any) -> dict[str, Any]:
        """Return all that the rules find in the last events of a stream."""
        read = self._read(events, forget=False)
        found = self._conclude(read, last=True, warns=True)
        if self.options.strict:
            pairs = ((rule, list_warnings(found[rule.name].notes)) for rule in self.rules)
            self._refuse([(rule, one) for rule, several in pairs for one in several])
        return found

    def push(self, events: Any) -> dict[str, Any]:
        """Return what each rule finds in these events, which follow all events pushed before."""
        for session in self.sessions:
            session.renew_budget()
        return self._conclude(self._read(events))

    def finish(self) -> dict[str, Any]:
        """Return what is certain now that no further event comes."""
        return self._conclude([[] for _ in self.sessions], last=True)

    def _conclude(
        self, read: list[list[Any]], *, last: bool = False, warns: bool = False
    ) -> dict[str, Any]:
        found = {}
        for number, segments in enumerate(read):
            rule, session = self.rules.rules[number], self.sessions[number]
            odd = self._warn_about_events(number) if warns else ()
            session.notes = [*self.notes, *session.plan.warnings, *odd, *session.plan.notes]
            found[rule.name] = session.conclude(segments, last=last)
        for number, parts in enumerate(self._found):
            if parts:
                name = self.rules.rules[number].name
                found[name] = parts[0].join([*parts[1:], found[name]])
        self._found = [[] for _ in self.sessions]
        return found

    def _warn_about_events(self, number: int) -> Iterator[WarningNote]:
        """Yield warnings about the events of a rule that has read all events of its types."""
        pattern = self._patterns[number]
        derived = not self._made.isdisjoint(pattern.streams)
        misses_events = derived or self._is_updated or number in self._router.narrowed
        if self._events and not misses_events:
            yield from self.sessions[number].warn_about_truths(self._types)

    def _refuse(self, warnings: Sequence[tuple[Rule, WarningNote]]) -> None:
        """Raise the warnings of rules, if there are any; those of all rules once."""
        named = [one if one in self.notes else name_warning(rule, one) for rule, one in warnings]
        if named:
            raise StrictError(dict.fromkeys(named))

    def _read(self, events: Any, *, forget: bool = True) -> list[list[Any]]:
        sources = self._open(events)
        ordering = Ordering(sources, after=self.progress)
        self._prepare(sources, ordering.scale)
        read: list[list[Any]] = [[] for _ in self.sessions]
        times: TimeSpan | None = None
        most = min(max(_CHUNK, _CHUNK_PER_RULE * len(self.rules)), _LARGEST_CHUNK)
        for batch in _join_batches(ordering, most):
            times = extend_span(times, batch, ordering.unit_ns)
            self._types.add(batch)
            self._events += len(batch)
            self._take(batch, ordering.scale, read, forget)
        self.mistakes.complete()
        self.progress = ordering.progress
        odd = () if times is None else check_times(sources, times)
        self.notes = [*ordering.notes, *note_skipped(sources), *map(WarningNote.of, odd)]
        return read

    def _open(self, events: Any) -> list[Source]:
        """Open the streams that any rule reads."""
        names, declared = name_streams(self._patterns), unite_declared(self._patterns)
        sources = self.options.open_sources(events, names, self.mistakes, declared)
        for source in sources:
            if source.name in self._made:
                raise DataError(f"rules insert into the stream {source.name!r}, which is given too")
        return sources

    def _prepare(self, sources: Sequence[Source], scale: Scale) -> None:
        """Check each rule against its streams; raise all mistakes together."""
        mistakes = []
        types, times = sources[0].type_column, sources[0].time_column
        made: dict[str, list[pa.Schema]] = {}
        for number in self._order:
            rule, session = self.rules.rules[number], self.sessions[number]
            pattern = self._patterns[number]
            own: list[DescribedStream] = [
                source
                for source in sources
                if not pattern.streams or source.name in pattern.streams
            ]
            for name in pattern.streams:
                if name in made:
                    own.append(DerivedStream(name, unite_schemas(name, made[name])))
            try:
                session.prepare(own)
                session.check_scale(scale)
            except CernisError as error:
                mistakes.append(describe_mistake(rule.name, rule.origin, error))
                continue
            for each in own:
                schema, tables = each.schema, session.tables
                schema = schema if tables is None else tables.extend(each.name, schema)
                session.store.expect(schema, types, times)
            if pattern.into is not None:
                empty = session.conclude([], forget=False)
                made.setdefault(pattern.into, []).append(derive_schema(empty, types, times))
        if mistakes:
            raise RuleSetError(mistakes)
        if self.options.strict:
            pairs = zip(self.rules, self.sessions, strict=True)
            self._refuse([(rule, one) for rule, each in pairs for one in each.plan.warnings])
        self._schemas = {name: unite_schemas(name, schemas) for name, schemas in made.items()}

    def _take(self, batch: EventBatch, scale: Scale, read: list[list[Any]], forget: bool) -> None:
        """Let each rule read its events of a batch, those that rules have derived among them."""
        views: dict[tuple[str, ...], EventBatch] = {}
        routed = self._route(batch) if scale.unit_ns is not None else {}
        can_route = {*self._router.rules} if scale.unit_ns is not None else set[int]()
        derived: dict[str, list[DerivedEvents]] = {}
        for number in self._order:
            session, pattern = self.sessions[number], self._patterns[number]
            if pattern.into is not None or not self._made.isdisjoint(pattern.streams):
                self._derive(number, batch, scale, derived, read, forget)
                continue
            if number in can_route:
                own = routed.get(number)
                own = None if own is None else _confine(own, pattern.streams)
            else:
                if pattern.streams not in views:
                    views[pattern.streams] = _confine(batch, pattern.streams)
                own = views[pattern.streams]
                tables = session.tables
                own = own if tables is None else tables.join(own)
            if own is not None and len(own):
                read[number] += session.read(replace(own, base=session.events), scale)

    def _derive(
        self,
        number: int,
        batch: EventBatch,
        scale: Scale,
        derived: dict[str, list[DerivedEvents]],
        read: list[list[Any]],
        forget: bool,
    ) -> None:
        """Let a rule read a batch with derived events, and add those that its matches become."""
        session, pattern = self.sessions[number], self._patterns[number]
        streams = pattern.streams or tuple(name for name, _ in batch.parts)
        placed = merge_events(batch, derived, streams, self._width)
        if placed is None:
            return
        own, paths = placed
        if session.tables is not None:
            own, stays = session.tables.join_marked(own)
            paths = paths[stays]
        placed = PlacedBatch(replace(own, base=session.events), paths)
        segments = session.read(placed.batch, scale)
        if pattern.into is None:
            read[number] += segments
            return
        found = session.conclude(segments, forget=forget)
        self._found[number].append(found)
        made = derive_events(found, placed, number, self._schemas[pattern.into])
        if made is not None:
            derived.setdefault(pattern.into, []).append(made)

    def _route(self, batch: EventBatch) -> dict[int, EventBatch]:
        """Return the events that can move each rule."""
        if not self._router.rules:
            return {}
        if len(batch.parts) == 1 and batch.index is None:
            return _copy_events(batch, self._router.route(batch.parts[0][1]))
        found: dict[int, list[Int64s]] = {}
        empty = np.empty(0, np.int64)
        for place, (_, table) in enumerate(batch.parts):
            for number, at in self._router.route(table).items():
                found.setdefault(number, [empty] * len(batch.parts))[place] = at
        return {number: _select(batch, at) for number, at in found.items()}


class _SharedEncoder(AtomEncoder):
    """An encoder of several rules: it encodes a batch that they share once."""

    def __init__(self, atoms: Sequence[Atom], type_column: str, known: KnownGroups) -> None:
        super().__init__(atoms, type_column, known)
        self._last: tuple[EventBatch, Int32s] | None = None

    def encode(self, batch: EventBatch) -> Int32s:
        if self._last is not None:
            known, codes = self._last
            if known.parts is batch.parts and known.index is batch.index:
                return codes
        codes = super().encode(batch)
        self._last = (batch, codes)
        return codes


def _copy_events(batch: EventBatch, rows: Mapping[int, Int64s]) -> dict[int, EventBatch]:
    """Return the events at the rows of each rule; all rules share one copy, rule after rule."""
    if not rows:
        return {}
    (name, table), order = batch.parts[0], np.concatenate([*rows.values()])
    copied = join_table(table).take(pa.array(order))
    found, first = {}, 0
    for number, at in rows.items():
        found[number] = replace(
            batch,
            rows=batch.rows[at],
            time=None if batch.time is None else batch.time[at],
            parts=((name, copied.slice(first, len(at))),),
        )
        first += len(at)
    return found


def _select(batch: EventBatch, rows: Sequence[Int64s]) -> EventBatch:
    kept = []
    for at, (_, table) in zip(rows, batch.parts, strict=True):
        keep = np.zeros(table.num_rows, np.bool_)
        keep[at] = True
        kept.append(keep)
    return select_events(batch, kept)


def _confine(batch: EventBatch, streams: tuple[str, ...]) -> EventBatch:
    """Return the events of some streams; none named: of all."""
    if not streams or all(name in streams for name, _ in batch.parts):
        return batch
    kept = [np.full(table.num_rows, name in streams) for name, table in batch.parts]
    return select_events(batch, kept)


def _join_batches(batches: Iterable[EventBatch], most: int) -> Iterator[EventBatch]:
    """Yield batches of up to so many events, where those of one stream follow each other."""
    waiting: list[EventBatch] = []
    events = size = 0
    for batch in batches:
        events, size = events + len(batch), size + batch.parts[0][1].nbytes
        is_large = events > most or (events > _CHUNK and size > _CHUNK_BYTES)
        if waiting and (is_large or not _is_alike(waiting[0], batch)):
            yield _concatenate(waiting)
            waiting, events, size = [], len(batch), batch.parts[0][1].nbytes
        waiting.append(batch)
    if waiting:
        yield _concatenate(waiting)


def _is_alike(first: EventBatch, batch: EventBatch) -> bool:
    plain = all(len(each.parts) == 1 and each.index is None for each in (first, batch))
    return (
        plain
        and first.parts[0][0] == batch.parts[0][0]
        and first.parts[0][1].schema == batch.parts[0][1].schema
    )


def _concatenate(batches: Sequence[EventBatch]) -> EventBatch:
    if len(batches) == 1:
        return batches[0]
    first = batches[0]
    times = [batch.time for batch in batches if batch.time is not None]
    table = pa.concat_tables([batch.parts[0][1] for batch in batches])
    return replace(
        first,
        rows=np.concatenate([batch.rows for batch in batches]),
        time=np.concatenate(times) if times else None,
        parts=((first.parts[0][0], table),),
    )


def name_streams(patterns: Sequence[Pattern]) -> list[str]:
    """Return the streams that are given to rules; none: a rule without FROM reads all."""
    if not all(pattern.streams for pattern in patterns):
        return []
    made = {pattern.into for pattern in patterns}
    every = dict.fromkeys(name for each in patterns for name in each.streams)
    return [name for name in every if name not in made]


def unite_declared(patterns: Iterable[Pattern]) -> Schema | None:
    """Return the streams that any rule declares."""
    streams = {
        stream.name: stream
        for pattern in patterns
        if pattern.declared is not None
        for stream in pattern.declared.streams
    }
    return Schema(tuple(streams.values())) if streams else None


# ----------------------------------------------------------------- reading rules


def refuse_inserts(rules: RuleSet) -> None:
    """Raise an error for rules with INSERT INTO, which Spark does not run."""
    mistakes = []
    for rule in rules:
        pattern = rule.query.pattern
        if pattern.into is not None:
            span = next(iter(pattern.spans.get("into", ())), None)
            message = f"INSERT INTO {pattern.into} runs on the embedded engine alone so far"
            error = QueryError([Diagnostic(message, span)], pattern.source)
            mistakes.append(describe_mistake(rule.name, rule.origin, error))
    if mistakes:
        raise RuleSetError(mistakes)


def name_warning(rule: Rule, warning: WarningNote) -> WarningNote:
    """Return a warning with the rule and the file that it is about."""
    named = WarningNote(describe_mistake(rule.name, rule.origin, warning))
    named.code = warning.code
    return named


def describe_mistake(name: str, origin: str, error: CernisError | str) -> str:
    """Return a mistake with the rule and the file that it is in."""
    where = f"{origin}: rule {name}" if origin else f"rule {name}"
    return f"{where}: {error}"


class _RuleReader:
    """Reads rules from everywhere, and collects their mistakes."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self.mistakes: list[str] = []
        self._origins: dict[str, str] = {}

    def finish(self) -> RuleSet:
        if self.mistakes:
            raise RuleSetError(self.mistakes)
        if not self.rules:
            raise CernisError("there are no rules")
        _, circle = order_rules([rule.query.pattern for rule in self.rules])
        if circle:
            raise RuleSetError([f"rules insert into streams in a circle: {' → '.join(circle)}"])
        return RuleSet(self.rules)

    def read(self, source: Any) -> None:
        match source:
            case RuleSet():
                for rule in source.rules:
                    self._add(rule.name, rule.query, rule.origin)
            case Path():
                self._read_path(source)
            case str():
                self._read_text(source, "")
            case Mapping():
                for name, query in source.items():
                    self._add(str(name), query, "")
            case Iterable():
                for each in source:
                    self.read(each)
            case _:
                kind = type(source).__name__
                raise CernisError(
                    f"rules are a text, a path, a list of these, or queries by name, not {kind}"
                )

    def _read_path(self, path: Path) -> None:
        if path.is_dir():
            files = sorted(file for file in path.rglob("*.ceql") if file.is_file())
            if not files:
                raise CernisError(f"{path}: no file of rules (.ceql)")
            for file in files:
                self._read_path(file)
            return
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise CernisError(f"{path}: cannot be read: {error}") from error
        self._read_text(text, str(path))

    def _read_text(self, text: str, origin: str) -> None:
        try:
            parsed = parse_rules(text)
        except CernisError as error:
            self.mistakes.append(f"{origin}: {error}" if origin else str(error))
            return
        for rule in parsed:
            where = f"{origin}, line {rule.line}" if origin else f"line {rule.line}"
            if rule.mistake is not None:
                self.mistakes.append(describe_mistake(rule.name, origin, rule.mistake))
            else:
                self._add(rule.name, rule.pattern, origin, where)

    def _add(self, name: str, query: Any, origin: str, where: str = "") -> None:
        if name in self._origins:
            first = self._origins[name]
            places = f": {first} and {where}" if first and where else ""
            self.mistakes.append(f"two rules are named {name!r}{places}")
            return
        self._origins[name] = where
        try:
            made = query if isinstance(query, Query) else Query(query)
        except CernisError as error:
            self.mistakes.append(describe_mistake(name, origin, error))
            return
        self.rules.append(Rule(name, made, origin))
