"""A stream of one process goes on with another host, and comes back.

The other host reads the same sources from the same positions. Its tasks read rows by `TaskReading`,
which has the readers and the columns of this process, so that rows, state and matches are the same.
Then the positions that it has come to, and the state, come back into the store.

Cost: a copy of the state. A task parses as this process does, and opens its readers for each file,
or each batch of messages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from cernis.errors import CernisError
from cernis.events.batch import Int64s
from cernis.events.source import Source
from cernis.live.inputs import FolderInput, KnownText, LiveInput, TextInput
from cernis.live.prepare import Prepared, RowTravel
from cernis.live.store import LocalStore
from cernis.live.topics import TopicInput, join_messages
from cernis.work.columns import EVENT
from cernis.work.moving import StatePieces, copy_state

MOVED, RULES, RULES_ON_SPARK = "moved", "rules", "rules on Spark"
"""Notes in a checkpoint: how it has moved, which rules run here, and which elsewhere."""
_ELSEWHERE = "elsewhere"


class _GivenFiles(FolderInput):
    """Some files of a folder."""

    def __init__(self, folder: Path, paths: Iterable[Path]) -> None:
        super().__init__(folder, once=True)
        self._paths = [*paths]

    def _list_files(self) -> list[Path]:
        return [path for path in self._paths if path.name not in self.done]


class _GivenText(TextInput):
    """Some messages of a topic."""

    def __init__(self, label: str) -> None:
        super().__init__(label)
        self.is_stamped = False
        self._messages: tuple[list[bytes], list[int]] | None = None

    def give(self, values: list[bytes], milliseconds: list[int]) -> None:
        self._messages = values, milliseconds

    def read1(self, size: int) -> bytes:
        if self._messages is None:
            return b""
        (values, times), self._messages = self._messages, None
        return join_messages(values, times if self.is_stamped else None)


@dataclass(frozen=True, kw_only=True)
class GivenInput:
    """An input of which tasks read a part."""

    label: str
    known: KnownText
    folder: Path | None
    """None: a topic."""
    position: Any
    done: frozenset[str]

    def open(self, batch: pa.RecordBatch | None = None) -> LiveInput:
        """Return the input with the files, or the messages, of a batch; None: with none."""
        input_: LiveInput
        if self.folder is not None:
            paths = [] if batch is None else batch.column("path").to_pylist()
            input_ = _GivenFiles(self.folder, (Path(p.removeprefix("file:")) for p in paths))
            input_.resume(self.position or ("", 0), {*self.done})
        else:
            input_ = _GivenText(self.label)
            if batch is not None:
                times = batch.column("timestamp").cast(pa.int64()).to_numpy() // 1000
                input_.give(batch.column("value").to_pylist(), times.tolist())
        input_.known = self.known
        return input_


@dataclass(frozen=True, kw_only=True)
class TaskReading:
    """How tasks of another host read rows."""

    opening: Callable[[Mapping[str, Any]], Sequence[Source]]
    travel: RowTravel
    inputs: Mapping[str, GivenInput]
    """In the order of the sources."""
    tick: int
    has_text: bool
    """Rows travel with their text, for those that are set aside."""

    def __call__(self, number: int, batch: pa.RecordBatch) -> Iterator[tuple[pa.Table, Int64s]]:
        """Yield the rows of a batch of files, or messages, of an input, and their times."""
        inputs = {
            name: each.open(batch if index == number else None)
            for index, (name, each) in enumerate(self.inputs.items())
        }
        for chunk in self.opening(inputs)[number].chunks(tick=self.tick):
            assert chunk.time is not None
            table = self.travel.carry(number, chunk.table)
            if self.has_text:
                texts = [json.dumps(event, default=str) for event in chunk.table.to_pylist()]
                table = table.append_column(EVENT, pa.array(texts, pa.string()))
            yield table, chunk.time


def read_in_tasks(
    prepared: Prepared, inputs: Mapping[str, LiveInput], *, has_text: bool
) -> TaskReading:
    """Return how tasks read the inputs; an error for those that only a process reads."""
    given = {}
    if prepared.opening is None or prepared.travel.counts:
        raise CernisError(
            "the checkpoint cannot move: RDF, and a table that the only stream joins, number their "
            "events as they come; begin with a new checkpoint on the other engine"
        )
    for name, input_ in inputs.items():
        if not isinstance(input_, FolderInput | TopicInput) or input_.known is None:
            raise CernisError(
                f"{input_.label}: only a folder or a topic moves to Spark; begin with a new "
                "checkpoint there"
            )
        is_folder = isinstance(input_, FolderInput)
        given[name] = GivenInput(
            label=input_.label,
            known=input_.known,
            folder=input_.folder if isinstance(input_, FolderInput) else None,
            position=input_.position if is_folder else None,
            done=frozenset(input_.done) if isinstance(input_, FolderInput) else frozenset(),
        )
    return TaskReading(
        opening=prepared.opening,
        travel=prepared.travel,
        inputs=given,
        tick=prepared.tick,
        has_text=has_text,
    )


class CameTo(NamedTuple):
    """Where another host has come to."""

    run: str
    """The name of its run."""
    state: StatePieces
    positions: Mapping[str, tuple[Any, Iterable[str]]]
    """Of the inputs, by their labels: the position, and the files that were read."""
    watermark: int
    """In ticks."""
    notes: Mapping[str, Any]


def take_back(store: LocalStore, key: bytes, came: CameTo, lateness: int) -> None:
    """Go on where another host has come to; `lateness` is in ticks."""
    header = copy_state(came.state, store, key)
    watermark = max(
        came.watermark, came.watermark if header.watermark is None else header.watermark
    )
    latest = {}
    for number, (label, (position, files)) in enumerate(came.positions.items()):
        store.put_position(label, position)
        store.put_files(label, files)
        latest[number] = watermark + lateness  # or later: the watermark is that of the last input
    clock = {**store.read_note("clock"), "watermark": watermark, "latest": latest}
    for name, value in {**came.notes, "clock": clock, _ELSEWHERE: came.run}.items():
        store.write_note(name, value)
    store.commit()


def was_taken_back(store: LocalStore, run: str) -> bool:
    """Return whether the state of a run elsewhere is in the store already."""
    return bool(store.read_note(_ELSEWHERE) == run)
