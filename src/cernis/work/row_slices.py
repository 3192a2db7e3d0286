"""The work on slices of partitions: matches that may begin in each, and those that do.

A search that reads a slice does not know where the search of the slice before goes on: at its first
row, or at any of its *early* rows, which a match from before may reach (WITHIN bounds them). So it
begins at each of these. Such searches meet soon, and from there on they are one; the matches that
only some of them find are few, and are kept. Then one task follows the search of a partition from
slice to slice and chooses: after a match the next one is the first that begins where the search
goes on, or later. It sees where matches begin and where the search goes on, not their rows, which
travel in blobs. A third work takes the chosen matches out of these.

    rows ─ SliceWork ─▶ blobs of matches ─ SeamWork, in order ─▶ chosen ones ─ ChosenWork ─▶ rows

Where the searches of a slice do not meet (each of them tiles it with long matches), the slice
travels as it is, and the task that follows the search matches it. So the cost is linear in any
case, and what is lost is that slices are matched side by side.

Cost contract: SliceWork as the matcher, for at most `match._WASTE` times the rows more; memory for
one slice. SeamWork: constant for each match, and the matcher for slices that come whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.engine.rows.match import choose_matches
from cernis.languages.sql.row_pattern import SkipMode
from cernis.plan.rows.matcher import NUMBER, PARTITION, ROW
from cernis.run.rows.feed import MatchedRows, RowFeed, SliceMatches, describe_rows
from cernis.work.carriers import read_blob, write_blob
from cernis.work.columns import OWN
from cernis.work.reading import Recognizer
from cernis.work.row_patterns import RowPatternWork, RowTask

SLICE, CHUNK, EARLY, GROUP, HEAD = "@slice", "@chunk", "@early", "@group", "@head"
_NUMBERS = pa.list_(pa.int64())
SLICE_FIELDS = {
    HEAD: pa.int64(),
    SLICE: pa.int32(),
    CHUNK: pa.int32(),
    OWN: pa.int64(),
    EARLY: _NUMBERS,
    "@ahead": _NUMBERS,
    "@starts": _NUMBERS,
    "@nexts": _NUMBERS,
    "@whole": pa.bool_(),
    "@blob": pa.binary(),
}
"""Of a blob: the first row of its slice, which slice and which chunk of it, the number of the
slice's own rows, its early rows and those that it reads ahead, where the matches of the blob begin
and go on, and whether the blob has the rows of the slice instead of matches."""
CHOSEN_FIELDS = {"@blob": pa.binary(), "@chosen": _NUMBERS, "@before": pa.int64()}
"""A blob of matches, those that are chosen by their numbers in it, and the matches before."""
_BLOB_ROWS = 1 << 18


@dataclass(frozen=True, kw_only=True)
class SliceWork(RowPatternWork):
    """Finds the matches that may begin in each slice."""

    keys: tuple[str, ...]
    """The columns of PARTITION BY."""

    def open(self, frozen: bytes | None = None) -> Recognizer:
        return _SliceRecognizer(self)


@dataclass(frozen=True, kw_only=True)
class SeamWork(RowPatternWork):
    """Follows the search of each partition from slice to slice."""

    def open(self, frozen: bytes | None = None) -> Recognizer:
        return _SeamRecognizer(self)


@dataclass(frozen=True, kw_only=True)
class ChosenWork(RowPatternWork):
    """Gives the rows of the matches that were chosen."""

    def open(self, frozen: bytes | None = None) -> Recognizer:
        return _ChosenRecognizer()


class _SliceRecognizer(RowTask):
    def __init__(self, work: SliceWork) -> None:
        self.work = work
        self.feed = RowFeed(work.matcher, work.budget)
        self.pending: list[pa.Table] = []
        """The rows of the last slice, which may go on."""

    def take(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        slices, partitions = (np.asarray(table.column(n)) for n in (SLICE, PARTITION))
        changes = (slices[1:] != slices[:-1]) | (partitions[1:] != partitions[:-1])
        begins = [0, *(np.flatnonzero(changes) + 1).tolist()]
        if self.pending:
            last = self.pending[-1]
            same = last.column(SLICE)[-1], last.column(PARTITION)[-1]
            if (same[0].as_py(), same[1].as_py()) != (slices[0], partitions[0]):
                yield from self.finish()
        for begin, end in zip(begins, [*begins[1:], None], strict=True):
            self.pending.append(table.slice(begin, None if end is None else end - begin))
            if end is not None:
                yield from self.finish()

    def finish(self) -> Iterator[pa.RecordBatch]:
        if self.pending:
            table, self.pending = pa.concat_tables(self.pending).combine_chunks(), []
            yield from self._match(table)

    def _match(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        own = int(np.count_nonzero(np.asarray(table.column(OWN))))
        if not own:
            return
        rows = np.asarray(table.column(ROW), np.int64)
        early = int(np.count_nonzero(np.asarray(table.column(EARLY))[:own]))
        every = self.work.matcher.skipping.mode == SkipMode.TO_NEXT_ROW.value
        found = self.feed.match_slice(table, own, (0, 0 if every else early))
        keys = {name: table.column(name).slice(0, 1) for name in self.work.keys}
        known = {
            HEAD: int(rows[0]),
            SLICE: table.column(SLICE)[0].as_py(),
            OWN: own,
            EARLY: rows[:early],
            "@ahead": rows[own:],
            "@whole": found is None,
        }
        if found is None:
            blobs = iter([(rows[:0], rows[:0], write_blob(table))])
        else:
            blobs = pack_matches(table, found, self.work)
        for chunk, (starts, nexts, blob) in enumerate(blobs):
            values = {**known, CHUNK: chunk, "@starts": starts, "@nexts": nexts, "@blob": blob}
            own_columns = {
                name: pa.array([values[name]], kind) for name, kind in SLICE_FIELDS.items()
            }
            record = pa.table({**keys, **own_columns}).combine_chunks()
            yield from record.to_batches()


def pack_matches(
    table: pa.Table, found: SliceMatches, work: RowPatternWork
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], bytes]]:
    """Yield where matches begin and go on, and the blob with their rows; at least one."""
    numbers = np.asarray(table.column(ROW), np.int64)
    firsts = np.flatnonzero(found.matched.offsets == 0)
    chunks = np.flatnonzero(np.diff(firsts // _BLOB_ROWS)) + 1
    for begin, end in zip([0, *chunks], [*chunks, len(firsts)], strict=True):
        low = int(firsts[begin]) if begin < len(firsts) else 0
        high = int(firsts[end]) if end < len(firsts) else len(found.matched.rows)
        part = MatchedRows._make(column[low:high] for column in found.matched)
        part = part._replace(numbers=part.numbers - begin)
        rows = table.select(list(work.kept)).take(pa.array(part.rows))
        columns = dict(zip(rows.column_names, rows.columns, strict=True))
        described = describe_rows(part, numbers, work.matcher)
        blob = write_blob(pa.table({**columns, **described}))
        yield found.starts[begin:end], found.nexts[begin:end], blob


class _SeamRecognizer(RowTask):
    def __init__(self, work: SeamWork) -> None:
        self.work = work
        self.feed = RowFeed(work.matcher, work.budget)
        self.group: int | None = None
        self.slice = -1
        self.at = 0
        """The row of the slice at which the search goes on."""
        self.own = 0
        self.ahead = np.zeros(0, np.int64)
        """The rows that the slice reads ahead."""
        self.number = 0
        """How many matches the partition has had."""

    def take(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        for i in range(table.num_rows):
            yield from self._follow({name: table.column(name)[i] for name in table.column_names})

    def _follow(self, blob: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        early, ahead, starts, nexts = (
            np.asarray(blob[name].values, np.int64)
            for name in (EARLY, "@ahead", "@starts", "@nexts")
        )
        if blob[CHUNK].as_py() == 0:
            self._enter(blob[GROUP].as_py(), blob[SLICE].as_py(), early)
            self.own, self.ahead = blob[OWN].as_py(), ahead
        if not blob["@whole"].as_py():
            yield self._choose(starts, nexts, blob["@blob"].as_py())
            return
        table = read_blob(blob["@blob"].as_py())
        found = self.feed.match_slice(table, self.own, (self.at, self.at))
        assert found is not None, "one search is always followed"
        for begins, following, packed in pack_matches(table, found, self.work):
            yield self._choose(begins, following, packed)

    def _enter(self, group: int, number: int, early: NDArray[np.int64]) -> None:
        """Find the row of a slice at which the search goes on."""
        beyond = max(self.at, self.own) - self.own
        follows = self.group == group and number == self.slice + 1
        if self.group != group:
            self.number = 0
        self.group, self.slice, self.at = group, number, 0
        if follows and beyond < len(self.ahead):
            self.at = int(np.flatnonzero(early == self.ahead[beyond])[0])
        elif follows:
            self.at = len(early)

    def _choose(self, starts: Any, nexts: Any, blob: bytes) -> pa.RecordBatch:
        chosen, at = choose_matches(starts, nexts, self.at)
        if at < 0:
            self.feed.check(-at)
        self.at = at
        values = {"@blob": blob, "@chosen": chosen + 1, "@before": self.number}
        self.number += len(chosen)
        columns = {n: pa.array([values[n]], kind) for n, kind in CHOSEN_FIELDS.items()}
        return pa.record_batch(columns)


class _ChosenRecognizer(RowTask):
    def take(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        for i in range(table.num_rows):
            blob, chosen, before = (table.column(name)[i] for name in CHOSEN_FIELDS)
            yield from _unpack(blob.as_py(), np.asarray(chosen.values), before.as_py())


def _unpack(blob: bytes, chosen: NDArray[np.int64], before: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of chosen matches, numbered in their partition."""
    rows = read_blob(blob)
    if not len(chosen):
        return
    at = rows.column_names.index(NUMBER)
    numbers = np.asarray(rows.column(at), np.int64)
    ranks = np.minimum(np.searchsorted(chosen, numbers), len(chosen) - 1)
    own = chosen[ranks] == numbers
    rows = rows.set_column(at, NUMBER, pa.array(ranks + before + 1))
    yield from rows.filter(pa.array(own)).to_batches(max_chunksize=1 << 16)
