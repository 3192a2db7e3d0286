"""Check rules against the columns of their streams, before they read events.

All mistakes of all rules are raised together. A group whose rules these columns do not tell apart
is split: its rules run alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from cernis.errors import CernisError, DataError
from cernis.events.order import Scale
from cernis.events.source import DescribedStream
from cernis.integers import count_noun
from cernis.run.rules.reading.derived import KnownStream, unite_schemas
from cernis.run.rules.reading.running import RunningRule, RunningRules, SessionOpener
from cernis.run.rules.reading.streams import choose_streams
from cernis.run.rules.rule import (
    RuleSetError,
    describe_mistake,
    shorten_mistakes,
    shorten_names,
)


class GivenStreams(NamedTuple):
    """The streams that are given to rules."""

    sources: Sequence[DescribedStream]
    scale: Scale
    type_column: str
    time_column: str | None


class PreparedStreams(NamedTuple):
    """The streams that rules were checked against last."""

    schemas: Sequence[tuple[str, pa.Schema]]
    scale: Scale
    columns: tuple[str, str | None]

    @classmethod
    def of(cls, given: GivenStreams) -> PreparedStreams | None:
        """Return what is to be known of streams; None: one has not shown its columns yet."""
        if any(stream.is_blank for stream in given.sources):
            return None
        schemas = [(stream.name, stream.schema) for stream in given.sources]
        return cls(schemas, given.scale, (given.type_column, given.time_column))

    def fits(self, given: GivenStreams) -> bool:
        """Whether these are streams like the given ones."""
        return (
            len(given.sources) == len(self.schemas)
            and all(
                stream.name == name and not stream.is_blank and stream.schema.equals(schema)
                for stream, (name, schema) in zip(given.sources, self.schemas, strict=True)
            )
            and given.scale == self.scale
            and (given.type_column, given.time_column) == self.columns
        )


def split_groups(
    running: RunningRules, given: GivenStreams, opener: SessionOpener
) -> list[RunningRule] | None:
    """Return all rules at work, without groups that the columns do not fit; None: all fit."""
    found: list[RunningRule] = []
    for each in running:
        own = [s for s in choose_streams(given.sources, each.pattern) if not s.is_blank]
        group = each.group
        if group is None or not own or group.fits(own, given.scale):
            found.append(each)
        elif each.session.events and group.is_family:
            name, kind = group.template.attribute, type(group.template.constant)
            raise DataError(
                f"{name!r} is compared with values of the type {kind.__name__} by "
                f"{len(each.rules)} rules, and is no such column any more; begin a new session"
            )
        else:
            found += [
                RunningRule((rule,), opener.open(rule.query), number=running.numbers[rule.name])
                for rule in each.rules
            ]
    return sorted(found, key=lambda each: each.number) if len(found) > len(running) else None


def check_rules(
    running: RunningRules,
    given: GivenStreams,
    opener: SessionOpener,
    prepared: PreparedStreams | None = None,
) -> dict[str, pa.Schema]:
    """Check each rule against its streams, and return the columns of derived streams.

    Rules that were checked against the same `prepared` streams are not checked again, unless some
    rule inserts into a stream. Raises all mistakes together.
    """
    known = None if running.made else prepared
    mistakes: dict[str, str] = {}
    made: dict[str, list[pa.Schema]] = {}
    types, times = given.type_column, given.time_column
    for index in running.order:
        each = running[index]
        if known is not None and each.checked is known:
            continue
        session, pattern = each.session, each.pattern
        own = choose_streams(given.sources, pattern)
        for name in pattern.streams:
            if name in made:
                own.append(KnownStream(name, unite_schemas(name, made[name])))
        if opener.options.missing == "null":
            own = _add_missing(each, own, opener.missing)
        try:
            session.prepare(own)
            session.check_scale(given.scale)
        except CernisError as error:
            mistakes |= _blame(each, own, given.scale, opener, error)
            continue
        for stream in own:
            schema, tables = stream.schema, session.tables
            schema = schema if tables is None else tables.extend(stream.name, schema)
            session.store.expect(schema, types, times)
        each.checked = known
        if pattern.into is not None:
            made.setdefault(pattern.into, []).extend(each.derive_schemas(types, times))
    if mistakes:
        raise RuleSetError([*mistakes.values()], [*mistakes])
    return {name: unite_schemas(name, schemas) for name, schemas in made.items()}


def _add_missing(
    running: RunningRule, streams: Sequence[DescribedStream], missing: dict[str, tuple[str, ...]]
) -> list[DescribedStream]:
    """Return streams that have the columns which rules name, and note those that they lack."""
    if not streams or any(stream.is_blank for stream in streams):
        return [*streams]
    known = {name for stream in streams for name in stream.schema.names}
    joined = {join.table for join in running.pattern.joins}
    lacking: dict[str, None] = {}
    for rule in running.rules:
        roots = (name for name in sorted(rule.columns) if not {".", ")"} & {*name})
        own = [name for name in roots if name not in known and name not in joined]
        if own:
            missing[rule.name] = tuple(own)
            lacking |= dict.fromkeys(own)
    first, *others = streams
    fields = [pa.field(name, pa.null()) for name in lacking]
    return [KnownStream(first.name, pa.schema([*first.schema, *fields])), *others]


def note_missing(missing: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield a note on the columns that are NULL because the events lack them."""
    if missing:
        named = [f"{rule} ({', '.join(names)})" for rule, names in missing.items()]
        several = count_noun(len(missing), "rule names", "rules name")
        yield f"{several} columns that the events lack, which are NULL: {shorten_names(named)}"


def note_refused(refused: Sequence[str]) -> Iterator[str]:
    """Yield what is wrong with rules that were left out."""
    if refused:
        yield f"{count_noun(len(refused), 'rule is', 'rules are')} left out"
        yield from shorten_mistakes(refused)


def note_stopped(stopped: Mapping[str, str]) -> Iterator[str]:
    """Yield why rules were left out that had run until then."""
    if stopped:
        yield f"{count_noun(len(stopped), 'rule has', 'rules have')} stopped, the others go on"
        yield from shorten_mistakes([*stopped.values()])


def _blame(
    running: RunningRule,
    streams: Sequence[DescribedStream],
    scale: Scale,
    opener: SessionOpener,
    error: CernisError,
) -> Mapping[str, str]:
    """Return what is wrong with each rule, in words."""
    mistakes: dict[str, CernisError] = {}
    for rule in running.rules if running.group is not None else ():
        try:
            session = opener.open(rule.query)
            session.prepare(streams)
            session.check_scale(scale)
        except CernisError as own:
            mistakes[rule.name] = own
    mistakes = mistakes or {running.rules[0].name: error}
    rules = (rule for rule in running.rules if rule.name in mistakes)
    return {
        rule.name: describe_mistake(rule.name, rule.origin, mistakes[rule.name]) for rule in rules
    }
