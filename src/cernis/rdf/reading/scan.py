"""The first pass over an N-Quads file: where each graph begins and ends, without parsing.

A kernel looks at every line for the graph that it belongs to, at some 200 MB a second; parsing
reaches 40. `cernis.rdf.reading.parts` cuts files where no graph is open.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import kernel
from cernis.rdf.reading.events import Int64s
from cernis.rdf.reading.group import REACH
from cernis.rdf.reading.terms import Codes

_CHUNK = 1 << 24


class GraphIndex(NamedTuple):
    """Every graph of a file that has a quad, in the order of their first quads."""

    begin: Int64s
    """The byte at which the line of the first quad begins."""
    first: Int64s
    last: Int64s
    """The indices of the first and the last quad in the file."""
    before: Int64s
    """The number of events before; exact for the graphs of `clean`."""
    events: int

    def clean(self) -> Int64s:
        """Return the graphs that begin where no other graph is open."""
        if not len(self.first):
            return np.empty(0, np.int64)
        reached = np.maximum.accumulate(self.last)
        return np.flatnonzero(np.concatenate([[True], self.first[1:] > reached[:-1]]))


class _GraphTable(NamedTuple):
    """The graphs so far, by the hash of their names."""

    slots: Codes
    keys: NDArray[np.uint64]
    begin: Int64s
    first: Int64s
    last: Int64s
    named: NDArray[np.bool_]
    counts: Int64s


def scan_graphs(path: Path) -> GraphIndex | None:
    """Return the graphs of an N-Quads file; None if a line has escapes or does not parse."""
    table = _allocate(1 << 12)
    position = offset = 0
    for chunk in _chunks(path):
        text = np.frombuffer(chunk, np.uint8)
        lines = int(np.count_nonzero(text == 10))
        keys, named = np.empty(lines, np.uint64), np.empty(lines, np.bool_)
        at = np.empty(lines, np.int64)
        quads = _scan(
            text, 3 if offset == 0 and chunk[:3] == b"\xef\xbb\xbf" else 0, keys, named, at
        )
        if quads < 0:
            return None
        while int(table.counts[0]) + quads > len(table.keys):
            table = _grow(table)
        if not _record_graphs(
            table, keys[:quads], named[:quads], at[:quads] + offset, position, REACH
        ):
            return None
        position, offset = position + quads, offset + len(chunk)
    size = int(table.counts[0])
    upto = np.cumsum(table.named[:size])
    events = int(upto[-1]) if size else 0
    before: Int64s = upto - table.named[:size]
    return GraphIndex(table.begin[:size], table.first[:size], table.last[:size], before, events)


def _chunks(path: Path) -> Iterator[bytes]:
    """Yield the file in chunks of whole lines."""
    left = b""
    with path.open("rb") as file:
        while block := file.read(_CHUNK):
            cut = block.rfind(b"\n") + 1
            if cut:
                yield left + block[:cut]
                left = block[cut:]
            else:
                left += block
    if left:
        yield left + b"\n"


def _allocate(size: int) -> _GraphTable:
    begin, first, last = (np.empty(size, np.int64) for _ in range(3))
    slots = np.full(2 * size, -1, np.int32)
    keys, named = np.empty(size, np.uint64), np.empty(size, np.bool_)
    return _GraphTable(slots, keys, begin, first, last, named, np.zeros(1, np.int64))


def _grow(table: _GraphTable) -> _GraphTable:
    larger = _allocate(2 * len(table.keys))
    size = len(table.keys)
    for old, new in zip(table[1:6], larger[1:6], strict=True):
        new[:size] = old
    larger.counts[:] = table.counts
    _rehash(larger)
    return larger


@kernel
def _rehash(table: _GraphTable) -> None:
    mask = np.uint64(len(table.slots) - 1)
    for entry in range(table.counts[0]):
        slot = table.keys[entry] & mask
        while table.slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        table.slots[slot] = entry


@kernel
def _record_graphs(
    table: _GraphTable,
    keys: NDArray[np.uint64],
    named: NDArray[np.bool_],
    at: Int64s,
    position: Any,
    reach: Any,
) -> Any:
    """Record the graphs of some quads; return False if one comes back from beyond `reach`."""
    mask = np.uint64(len(table.slots) - 1)
    for i in range(len(keys)):
        slot = keys[i] & mask
        while table.slots[slot] >= 0 and table.keys[table.slots[slot]] != keys[i]:
            slot = (slot + np.uint64(1)) & mask
        entry = table.slots[slot]
        if entry < 0:
            entry = np.int32(table.counts[0])
            table.counts[0] += 1
            table.slots[slot] = entry
            table.keys[entry] = keys[i]
            table.begin[entry] = at[i]
            table.first[entry] = position + i
            table.named[entry] = False
        elif position + i - table.last[entry] > reach:
            return False
        table.last[entry] = position + i
        table.named[entry] |= named[i]
    return True


_PRIME = np.uint64(0x100000001B3)
_BASIS = np.uint64(0xCBF29CE484222325)


@kernel
def _is_blank(byte: Any) -> Any:
    return byte == 32 or byte == 9


@kernel
def _skip_term(text: NDArray[np.uint8], i: Any) -> Any:
    """Return the end of a term; -1 if there is none, or one with escapes in a name."""
    n = len(text)
    if text[i] == 60:  # <
        i += 1
        while i < n and text[i] != 62:
            if text[i] == 60 or text[i] == 92 or text[i] <= 32:
                return -1
            i += 1
        return i + 1 if i < n else -1
    if text[i] == 95:  # _
        while i < n and text[i] > 32 and text[i] != 60:
            i += 1
        return i if text[i - 1] != 46 else -1
    if text[i] != 34:  # "
        return -1
    i += 1
    while i < n and text[i] != 34:
        if text[i] == 10 or text[i] == 13:
            return -1
        i += 2 if text[i] == 92 else 1
    i += 1
    if i < n and text[i] == 64:  # @
        while i < n and text[i] > 32 and text[i] != 46 and text[i] != 60:
            i += 1
        return i
    if i + 2 < n and text[i] == 94 and text[i + 2] == 60:  # ^^<
        return _skip_term(text, i + 2)
    return i if i < n else -1


@kernel
def _scan(
    text: NDArray[np.uint8],
    i: Any,
    keys: NDArray[np.uint64],
    named: NDArray[np.bool_],
    at: Int64s,
) -> Any:
    """Write for each quad the hash of its graph's name (of its subject in the default graph),
    whether it has a graph, and where its line begins. Return the number of quads; -1: a line has
    escapes or does not parse."""
    n, row = len(text), 0
    while i < n:
        line = i
        while i < n and _is_blank(text[i]):
            i += 1
        if i < n and text[i] > 32 and text[i] != 35:  # not empty, no comment
            begin, end, column = i, i, 0
            while column < 4 and i < n and text[i] != 46:
                after = _skip_term(text, i)
                if after < 0:
                    return -1
                if column == 0 or column == 3:
                    begin, end = i, after
                column += 1
                i = after
                while i < n and _is_blank(text[i]):
                    i += 1
            if column < 3 or i >= n or text[i] != 46:
                return -1
            value = _BASIS
            for k in range(begin, end):
                value = (value ^ np.uint64(text[k])) * _PRIME
            keys[row] = value ^ (value >> np.uint64(32))
            named[row] = column == 4
            at[row] = line
            row += 1
            i += 1
            while i < n and _is_blank(text[i]):
                i += 1
        if i < n and text[i] == 35:
            while i < n and text[i] != 10 and text[i] != 13:
                i += 1
        if i < n and text[i] == 13:
            i += 1
        if i >= n or text[i] != 10:
            return -1
        i += 1
    return row
