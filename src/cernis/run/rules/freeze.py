"""A session of rules as versioned bytes, and back.

The bytes hold the names and the texts of the rules, the groups that run, and the state of each
session that has read events. Thawing them with other rules is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cernis.errors import StateError
from cernis.events.order import Scale, StreamPosition
from cernis.events.times import DAY, UNITS
from cernis.run.freeze import (
    Columns,
    check_versions,
    freeze_reading,
    list_versions,
    read_reading,
)
from cernis.run.rules.reading.derived import NOTHING, is_held, is_late
from cernis.run.rules.reading.pending import PendingEvents, freeze_log, thaw_input, thaw_log
from cernis.run.rules.reading.read_chunk import ChunkReader
from cernis.run.rules.reading.running import RunningRule, SessionOpener
from cernis.run.rules.shared.group import RuleGroup
from cernis.run.rules.shared.shared_rules import SharedRules, join_group
from cernis.state import (
    check_list,
    check_mapping,
    check_number,
    check_text,
    pack,
    read_array,
    require,
    unpack,
)

_MOST = 2**63 - 1


class StreamState(NamedTuple):
    """How a session of rules reads its stream, how far it is, and what it has reported."""

    columns: Columns
    progress: StreamPosition
    time_column: str | None
    matches: Mapping[str, int]
    """How many matches of each rule were pushed."""


def freeze_rules(rules: SharedRules, reader: ChunkReader, stream: StreamState) -> bytes:
    """Return the state of a session of rules."""
    running = reader.running
    meta: dict[str, Any] = {
        "rules": [[rule.name, rule.text] for rule in rules],
        "groups": [
            [[running.numbers[rule.name] for rule in each.rules], [*group.owners], group.is_family]
            for each in running
            if (group := each.group) is not None
        ],
        "progress": list(astuple(stream.progress)),
        "reading": freeze_reading(stream.columns),
        "events": reader.events,
        "matches": {name: min(number, _MOST) for name, number in stream.matches.items() if number},
        "pending": {},
        "derived": [*reader.schemas],
        "time": stream.time_column,
        "scale": None if reader.scale is None else [*astuple(reader.scale)],
    }
    if versions := list_versions(*(rule.text for rule in rules)):
        meta["functions"] = versions
    arrays: dict[str, np.ndarray[Any, Any]] = {
        f"derived.{number}": np.frombuffer(schema.serialize(), np.uint8)
        for number, schema in enumerate(reader.schemas.values())
    }
    arrays |= {"input.time": reader.input.time, "input.rows": reader.input.rows}
    for each in running:
        number = each.number
        if each.session.events:
            arrays[f"rule.{number}"] = np.frombuffer(each.session.freeze(), np.uint8)
        if len(each.counted):
            arrays[f"events.{number}"] = each.counted
        if is_held(each.pattern):
            arrays |= freeze_log(f"log.{number}", each.log)
        if len(each.pending):
            streams, own = each.pending.freeze(f"pending.{number}")
            meta["pending"][str(number)] = streams
            arrays |= own
    return pack({**meta, **arrays, "states": sorted(arrays)})


class FrozenRules:
    """The state of a session of rules, read from bytes; StateError where it is not sound."""

    def __init__(self, rules: SharedRules, state: bytes) -> None:
        """`rules` are those that were frozen."""
        self._meta = self._arrays = unpack(state)
        _check_same(rules, _read_texts(self._meta))
        check_versions(self._meta.get("functions"), *(rule.text for rule in rules))
        own = [name for name, value in self._arrays.items() if isinstance(value, np.ndarray)]
        require(sorted(own) == self._meta.get("states"), "the state of a rule is missing")
        self._reading = read_reading(self._meta)
        self._rules = rules

    @property
    def columns(self) -> Columns:
        """The columns that events are read by."""
        return self._reading.columns

    def read_groups(self) -> list[RuleGroup]:
        """Return the groups of rules that ran."""
        found, inside = list[RuleGroup](), set[int]()
        for each in check_list(self._meta.get("groups"), "the groups"):
            members, written, is_family = check_list(each, "a group", 3)
            numbers = [
                check_number(number, "a rule of a group", 0, len(self._rules))
                for number in check_list(members, "a group")
            ]
            owners = [
                check_number(number, "the owner of a partition", 0, 1 << 20)
                for number in check_list(written, "the owners of partitions", len(numbers))
            ]
            distinct = {*numbers}
            require(
                bool(numbers) and len(distinct) == len(numbers) and inside.isdisjoint(distinct),
                "a rule is in two groups",
            )
            inside |= distinct
            rules = [self._rules.rules[number] for number in numbers]
            found.append(join_group(rules, owners, is_family=is_family is True))
        return found

    def thaw_sessions(self, running: Sequence[RunningRule], opener: SessionOpener) -> None:
        """Give all rules at work the sessions that were frozen."""
        arrays = self._arrays
        pending = check_mapping(self._meta.get("pending", {}), "the waiting events")
        for each in running:
            if (name := f"rule.{each.number}") in arrays:
                opener.thaw(each, read_array(arrays, name, np.uint8).tobytes())
            if (name := f"events.{each.number}") in arrays:
                shape = (len(each.rules),)
                each.counted = read_array(arrays, name, np.int64, shape, low=0).copy()
            each.log = thaw_log(f"log.{each.number}", arrays, each.session.events)
            if is_held(each.pattern) and each.pattern.into is not None:
                waits = each.session.pipeline.first_open()
                if waits is not None and not is_late(each.pattern):
                    require(waits >= each.log.first, "a place is missing")
            if (streams := pending.get(str(each.number))) is not None:
                name = f"pending.{each.number}"
                each.pending = PendingEvents.thaw(name, streams, arrays)

    def thaw_reader(self, reader: ChunkReader) -> None:
        """Give a reader of chunks the state that was frozen, after the sessions of its rules."""
        meta, arrays = self._meta, self._arrays
        for each in reader.running:
            if each.pattern.into is not None:  # its matches go two steps further
                known = [each.log.paths, *(part.paths for part in each.pending.parts)]
                steps = max((paths != NOTHING).sum(axis=1).max(initial=0) for paths in known)
                require(steps + 2 <= reader.running.width, "a path is too long")
        reader.events = check_number(meta.get("events"), "the number of events", 0)
        reader.input = thaw_input(arrays, reader.events)
        reader.scale = _read_scale(meta)
        reader.schemas = _read_schemas(meta, arrays)

    def read_stream(self, time_column: str | None) -> StreamState:
        """Return how far the session was; `time_column` is that of states without one."""
        meta = self._meta
        position, *_ = check_list(meta.get("progress"), "the progress", 4)
        number = check_number(position, "the progress", 0)
        matches = check_mapping(meta.get("matches", {}), "the numbers of matches")
        if meta.get("time") is not None:
            time_column = check_text(meta["time"], "the time column")
        return StreamState(
            self.columns,
            replace(self._reading.progress, position=number),
            time_column,
            {name: check_number(number, "matches", 0) for name, number in matches.items()},
        )


def read_rule_texts(state: bytes) -> list[tuple[str, str]]:
    """Return the names and the texts of the rules of a frozen session."""
    return _read_texts(unpack(state))


def _read_texts(meta: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the names and the texts of the rules that a state holds."""
    if "rules" not in meta:
        raise StateError("the state was frozen by a query, not by a rule set; thaw it with that")
    written = [check_list(each, "a rule", 2) for each in check_list(meta["rules"], "the rules")]
    return [(check_text(name, "a name"), check_text(text, "a rule")) for name, text in written]


def _read_scale(meta: Mapping[str, Any]) -> Scale | None:
    """Return the unit of times of a frozen session; None: it has read no events."""
    if meta.get("scale") is None:
        return None
    unit, own = check_list(meta["scale"], "the units of time", 2)
    units = (None, DAY, *UNITS.values())
    require(unit in units and own in units, "it has another unit of time")
    return Scale(unit, own)


def _read_schemas(meta: Mapping[str, Any], arrays: Mapping[str, Any]) -> dict[str, pa.Schema]:
    """Return the columns of the derived streams of a frozen session."""
    found = {}
    for number, name in enumerate(check_list(meta.get("derived", []), "the derived streams")):
        written = read_array(arrays, f"derived.{number}", np.uint8).tobytes()
        try:
            schema = pa.ipc.read_schema(pa.py_buffer(written))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise StateError(f"the frozen state is damaged: {error}") from error
        found[check_text(name, "a derived stream")] = schema
    return found


def _check_same(rules: SharedRules, frozen: Sequence[tuple[str, str]]) -> None:
    """Raise an error for the state of other rules."""
    own, before = {rule.name: rule.text for rule in rules}, dict(frozen)
    require(len(before) == len(frozen), "a rule comes twice")
    other = [name for name in {**before, **own} if own.get(name) != before.get(name)]
    if other:
        shown = ", ".join(other[:5]) + (", …" if other[5:] else "")
        raise StateError(
            f"the state was frozen by other rules ({shown}); thaw it with the rules that froze it, "
            "and go on with others by update"
        )
    if list(own) != list(before):
        raise StateError(
            "the state was frozen by the same rules in another order; thaw it with that order"
        )
