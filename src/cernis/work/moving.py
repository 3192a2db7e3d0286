"""The state of a bucket as rows, which move from one state store to another.

A checkpoint of one process and one of Spark hold the same log: header, chunks, snapshot. So a
stream moves between them by a copy of these, and of the positions of its sources. What does not
move is the timer, which the store of the new host sets anew. Does not import Spark.

Cost: one copy of the state, of which each piece is in memory once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from cernis.work.log import Header, Store, damaged

HEADER, CHUNK, SESSION, WAITING = "header", "chunk", "session", "waiting"


class StatePiece(NamedTuple):
    """A piece of the state of a bucket."""

    kind: str
    number: int
    content: bytes


def list_pieces(store: Store, key: bytes) -> Iterator[StatePiece]:
    """Yield the state in a store; `key` signs its header. Nothing for a store without state."""
    written = store.header()
    if written is None:
        return
    header = Header.from_bytes(written, key)
    yield StatePiece(HEADER, 0, replace(header, timer=None).to_bytes(key))
    for number in range(header.first, header.next):
        chunk = store.chunk(number)
        if chunk is None:
            raise damaged(f"chunk {number} is missing")
        yield StatePiece(CHUNK, number, chunk)
    if header.snapshot and (snapshot := store.snapshot()) is not None:
        for kind, content in zip((SESSION, WAITING), snapshot, strict=True):
            yield StatePiece(kind, 0, content)


class StatePieces:
    """State in memory, as a store: pieces of it come in any order."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int], bytes] = {}

    def put(self, piece: StatePiece) -> None:
        self._found[piece.kind, piece.number] = piece.content

    def header(self) -> bytes | None:
        return self._found.get((HEADER, 0))

    def chunk(self, number: int) -> bytes | None:
        return self._found.get((CHUNK, number))

    def snapshot(self) -> tuple[bytes, bytes] | None:
        session, waiting = (self._found.get((kind, 0)) for kind in (SESSION, WAITING))
        return None if session is None or waiting is None else (session, waiting)


def copy_state(source: StatePieces, store: Store, key: bytes) -> Header:
    """Replace the state in a store by another; return its header."""
    if (before := store.header()) is not None:
        header = Header.from_bytes(before, key)
        for number in range(header.first, header.next):
            store.drop_chunk(number)
    written = source.header()
    if written is None:
        raise damaged("its header is missing")
    header = Header.from_bytes(written, key)
    for number in range(header.first, header.next):
        chunk = source.chunk(number)
        if chunk is None:
            raise damaged(f"chunk {number} is missing")
        store.put_chunk(number, chunk)
    if header.snapshot:
        snapshot = source.snapshot()
        if snapshot is None:
            raise damaged("its snapshot is missing")
        store.put_snapshot(*snapshot)
    store.put_header(written)
    return header
