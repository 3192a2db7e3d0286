"""The state of a bucket in Spark's state store: a log of the events that it has accepted.

The state of a bucket follows from the events that it has accepted and from the watermark. So a
micro-batch writes its events, as one *chunk*, and a *header* of fixed size. A worker that ran
the bucket before continues with its memory. Another worker reads the chunks and runs the
engine over them again, without reporting matches.

With a window in time, a chunk is dropped when the watermark is a window past its last event.
Without one (or if matches consume events, or answers are distinct), older events matter too:
when the chunks outweigh the last snapshot, a new *snapshot* replaces them, with the frozen
session and the buffered events.

Tokens tell whether a worker's memory is a prefix of the log in the store: each chunk has the
token of the state before it, a digest of all chunks before.

Cost contract: a micro-batch writes its events and reads the header; over time, snapshots cost
about as much as the chunks. Turned down: writing the engine's arena, which is append-only as
well, but several times larger than its events, and has tables beside it that change in place.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import NamedTuple, Protocol

import pyarrow as pa

from cernis.errors import StateError
from cernis.spark.streaming.packing import read_blob, write_blob

VERSION = 1
_BEFORE = "before"
SMALLEST_SNAPSHOT = 1 << 16


class Store(Protocol):
    """The part of a state store that a bucket uses."""

    def header(self) -> bytes | None: ...
    def put_header(self, header: bytes) -> None: ...
    def chunk(self, number: int) -> bytes | None: ...
    def put_chunk(self, number: int, chunk: bytes) -> None: ...
    def drop_chunk(self, number: int) -> None: ...
    def snapshot(self) -> tuple[bytes, bytes] | None: ...
    def put_snapshot(self, session: bytes, waiting: bytes) -> None: ...


@dataclass
class Header:
    """The summary of a state, without its chunks."""

    query: str
    """A digest of the query."""
    born: str = field(default_factory=lambda: secrets.token_hex(8))
    token: str = ""
    first: int = 0
    """The number of the first chunk in the store."""
    next: int = 0
    """The number of the next chunk."""
    rows: int = 0
    """How many events have been accepted."""
    watermark: int | None = None
    """In milliseconds; earlier events have been read."""
    log: int = 0
    """Bytes in chunks."""
    snapshot: int = 0
    """Bytes in the snapshot."""
    timer: int | None = None

    def to_bytes(self) -> bytes:
        return json.dumps({"version": VERSION, **asdict(self)}).encode()

    @staticmethod
    def from_bytes(written: bytes) -> Header:
        known = json.loads(written)
        if known.pop("version", None) != VERSION:
            raise StateError(
                "the checkpoint was written by another version of Cernis; run it with that "
                "version, or begin a new one in another folder"
            )
        return Header(**known)


class StoredChunk(NamedTuple):
    """A chunk in the store: its number, the tick of its last event, its bytes."""

    number: int
    last: int
    size: int


class Log:
    """The chunks of a bucket that this worker knows."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.kept: deque[StoredChunk] = deque()
        self.latest = 0
        """The last tick of all chunks since the log was last empty."""

    @property
    def size(self) -> int:
        """Bytes in the store."""
        return self.header.log + self.header.snapshot

    def append(self, store: Store, table: pa.Table, last: int) -> None:
        """Write a chunk."""
        header = self.header
        chunk = write_blob(table, {_BEFORE: header.token})
        store.put_chunk(header.next, chunk)
        self.add(StoredChunk(header.next, last, len(chunk)))
        header.token = hashlib.sha256(header.token.encode() + chunk).hexdigest()[:32]
        header.next += 1
        header.log += len(chunk)

    def add(self, chunk: StoredChunk) -> None:
        """Add a chunk that is in the store."""
        self.latest = max(self.latest, chunk.last) if self.kept else chunk.last
        self.kept.append(chunk)

    def drop_before(self, store: Store, tick: int) -> None:
        """Drop the first chunks, as long as all their events lie before a time."""
        while self.kept and self.kept[0].last < tick:
            self._drop(store)

    @property
    def needs_snapshot(self) -> bool:
        """Whether the chunks outweigh the last snapshot."""
        return self.header.log > max(SMALLEST_SNAPSHOT, self.header.snapshot)

    def write_snapshot(self, store: Store, session: bytes, waiting: bytes) -> None:
        """Replace all chunks by a snapshot."""
        store.put_snapshot(session, waiting)
        self.header.snapshot = len(session) + len(waiting)
        while self.kept:
            self._drop(store)

    def _drop(self, store: Store) -> None:
        gone = self.kept.popleft()
        store.drop_chunk(gone.number)
        self.header.log -= gone.size
        self.header.first = gone.number + 1

    def leads_to(self, store: Store, header: Header) -> bool:
        """Return whether this log is a prefix of the log in the store."""
        own = self.header
        if own.born != header.born or not header.first <= own.next <= header.next:
            return False
        if own.watermark is not None and (
            header.watermark is None or own.watermark > header.watermark
        ):
            return False
        if own.next == header.next:
            return own.token == header.token
        chunk = store.chunk(own.next)
        return chunk is not None and token_before(read_blob(chunk)) == own.token

    def read_missed(self, store: Store, header: Header) -> Iterator[tuple[int, int, pa.Table]]:
        """Yield the chunks after this log: number, bytes, events; and take the store's header.

        The caller must `add()` each chunk, whose times it knows.
        """
        known = self.header.next
        self.header = header
        while self.kept and self.kept[0].number < header.first:
            self.kept.popleft()
        for number in range(max(known, header.first), header.next):
            chunk = store.chunk(number)
            if chunk is None:
                raise StateError(f"the checkpoint is damaged: chunk {number} is missing")
            yield number, len(chunk), read_blob(chunk)


def token_before(table: pa.Table) -> str:
    """Return the token of the state that a chunk follows."""
    metadata = table.schema.metadata or {}
    return str(metadata.get(_BEFORE.encode(), b"").decode())
