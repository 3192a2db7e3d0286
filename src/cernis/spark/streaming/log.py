"""The state of a bucket as Spark's state store holds it: a log of the events that came.

Everything that a bucket knows follows from the events that it has accepted and from how far
the watermark had come: which of them wait, and what the engine has made of the others. So
what is written in a micro-batch is what came in it, as one *chunk*, and a *header* of fixed
size. A worker that ran the bucket before goes on with what it has in memory; one that has
not reads the chunks and runs the engine over them again, without looking at matches.

Chunks leave when no match can reach back to them: with a window in time, that is when the
watermark is a window past their last event. Without one (or where matches use events up, or
answers are given once), the state is more than the last events: then now and then, when the
chunks outweigh it, a *snapshot* takes their place: the frozen session and what waits.

Tokens tell whether what a worker has in memory is a beginning of what the store holds: each
chunk has the token of the state before it, made of everything before.

Cost contract: a micro-batch writes what came, and reads the header; snapshots cost, over
time, about as much as the chunks. Turned down: writing the arena of the engine, which is
append-only as well, but several times larger than the events that it is made of, and has
tables beside it that change in place.
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
    """What a bucket needs of a state store."""

    def header(self) -> bytes | None: ...
    def put_header(self, header: bytes) -> None: ...
    def chunk(self, number: int) -> bytes | None: ...
    def put_chunk(self, number: int, chunk: bytes) -> None: ...
    def drop_chunk(self, number: int) -> None: ...
    def snapshot(self) -> tuple[bytes, bytes] | None: ...
    def put_snapshot(self, session: bytes, waiting: bytes) -> None: ...


@dataclass
class Header:
    """What is known of a state without reading its chunks."""

    query: str
    """Whose state it is."""
    born: str = field(default_factory=lambda: secrets.token_hex(8))
    token: str = ""
    first: int = 0
    """The first chunk that is still there."""
    next: int = 0
    """The number of the chunk that comes next."""
    rows: int = 0
    """How many events have been accepted."""
    watermark: int | None = None
    """Up to here (in milliseconds), events have been read."""
    log: int = 0
    """Bytes in chunks."""
    snapshot: int = 0
    """Bytes in the snapshot."""
    timer: int | None = None

    def written(self) -> bytes:
        return json.dumps({"version": VERSION, **asdict(self)}).encode()

    @staticmethod
    def read(written: bytes) -> Header:
        known = json.loads(written)
        if known.pop("version", None) != VERSION:
            raise StateError(
                "the checkpoint was written by another version of Cernis; run it with that "
                "version, or begin a new one in another folder"
            )
        return Header(**known)


class Kept(NamedTuple):
    """A chunk that is still there: its number, its last event, its bytes."""

    number: int
    last: int
    size: int


class Log:
    """The chunks of a bucket, as far as this worker knows them."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.kept: deque[Kept] = deque()
        self.latest = 0
        """The last event of all chunks; chunks leave in order, so while there is one, it is its
        or that of one before it, which would have left with it."""

    @property
    def size(self) -> int:
        """Bytes in the store."""
        return self.header.log + self.header.snapshot

    # ------------------------------------------------------------- writing

    def append(self, store: Store, table: pa.Table, last: int) -> None:
        """Writes a chunk down."""
        header = self.header
        chunk = write_blob(table, {_BEFORE: header.token})
        store.put_chunk(header.next, chunk)
        self.keep(Kept(header.next, last, len(chunk)))
        header.token = hashlib.sha256(header.token.encode() + chunk).hexdigest()[:32]
        header.next += 1
        header.log += len(chunk)

    def keep(self, chunk: Kept) -> None:
        """Takes note of a chunk that is in the store."""
        self.latest = max(self.latest, chunk.last) if self.kept else chunk.last
        self.kept.append(chunk)

    def drop_before(self, store: Store, tick: int) -> None:
        """Lets go of the first chunks, as long as all their events lie before a time."""
        while self.kept and self.kept[0].last < tick:
            self._drop(store)

    @property
    def outweighs(self) -> bool:
        """Whether a snapshot would be worth its price."""
        return self.header.log > max(SMALLEST_SNAPSHOT, self.header.snapshot)

    def replace(self, store: Store, session: bytes, waiting: bytes) -> None:
        """A snapshot in place of all chunks."""
        store.put_snapshot(session, waiting)
        self.header.snapshot = len(session) + len(waiting)
        while self.kept:
            self._drop(store)

    def _drop(self, store: Store) -> None:
        gone = self.kept.popleft()
        store.drop_chunk(gone.number)
        self.header.log -= gone.size
        self.header.first = gone.number + 1

    # ------------------------------------------------------------- reading

    def leads_to(self, store: Store, header: Header) -> bool:
        """Whether the store holds what is known here, and perhaps chunks after it."""
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

    def missed(self, store: Store, header: Header) -> Iterator[tuple[int, int, pa.Table]]:
        """The chunks that have come since: number, bytes, events. The header is the store's then.

        Whoever reads them knows their times, and has them kept.
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
    """The token of the state that a chunk follows."""
    metadata = table.schema.metadata or {}
    return str(metadata.get(_BEFORE.encode(), b"").decode())
