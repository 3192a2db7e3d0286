"""The state of a bucket in Spark's state store: a log of the events that it has accepted.

The state of a bucket follows from the events that it has accepted and from the watermark. So a
micro-batch writes its events, as one *chunk*, and a *header* of fixed size. A worker that ran
the bucket before continues with its memory. Another worker reads the chunks and runs the
engine over them again, without reporting matches.

With a window in time, a chunk is dropped when the watermark is a window past its last event, and
an event that has left the window when its batch has been read is not written.
Without one (or if matches consume events, or answers are distinct), older events matter too:
when the chunks outweigh the last snapshot, a new *snapshot* replaces them, with the frozen
session and the buffered events.

Tokens tell whether a worker's memory is a prefix of the log in the store: each chunk has the
token of the state before it, a digest of all chunks before. Headers and chunks carry a digest of
their content (`seal`), and the header has that of the snapshot. A worker that reads them checks the
digest before anything else: damage is a `StateError`, never another match. With a secret of the
user, the digest of the header has a key. The header has the last token and the digest of the
snapshot, so that a chunk or a snapshot that was changed does not belong to a signed header.

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
from dataclasses import dataclass, field, fields
from typing import NamedTuple, Protocol

import pyarrow as pa

from cernis.errors import DataError, StateError
from cernis.events.reading.reader import read_stream
from cernis.signature import check_signature, check_signed
from cernis.state import MOST_EVENTS
from cernis.work.carriers import write_blob

VERSION = 3
_BEFORE = "before"
_DIGEST = 16
_SIGNED = b" signed"
SMALLEST_SNAPSHOT = 1 << 16


def seal(content: bytes, key: bytes = b"") -> bytes:
    """Return the content after its digest.

    >>> open_seal(seal(b"events"), "chunk 0")
    b'events'
    >>> open_seal(seal(b"events")[:-1], "chunk 0")
    Traceback (most recent call last):
        ...
    cernis.StateError: the checkpoint is damaged: chunk 0 is not as it was written; ...
    """
    return hashlib.blake2b(content, digest_size=_DIGEST, key=key).digest() + content


def open_seal(sealed: bytes, what: str) -> bytes:
    """Return the content that was sealed; StateError if it has changed since."""
    content = sealed[_DIGEST:]
    if seal(content) != sealed:
        raise damaged(f"{what} is not as it was written")
    return content


def damaged(what: str) -> StateError:
    """Return the error for a checkpoint that cannot be continued."""
    return StateError(
        f"the checkpoint is damaged: {what}; restore its folder from a copy, or begin with a new "
        "checkpoint folder"
    )


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
    snapshot_digest: str = ""
    timer: int | None = None

    def to_bytes(self, key: bytes = b"") -> bytes:
        signed = _SIGNED if key else b""
        return b"%d%b\n" % (VERSION, signed) + seal(json.dumps(vars(self)).encode(), key)

    @staticmethod
    def from_bytes(written: bytes, key: bytes = b"") -> Header:
        version, _, sealed = written.partition(b"\n")
        is_signed = version.endswith(_SIGNED)
        if version.removesuffix(_SIGNED) != b"%d" % VERSION:
            raise StateError(
                "the checkpoint was written by another version of Cernis; run it with that "
                "version, or begin a new one in another folder"
            )
        check_signed(is_signed, key, "the checkpoint")
        if is_signed:
            check_signature(sealed, seal(sealed[_DIGEST:], key), "the checkpoint")
        known = json.loads(sealed[_DIGEST:] if is_signed else open_seal(sealed, "its header"))
        kinds = {f.name: f.type for f in fields(Header)}
        if not isinstance(known, dict) or known.keys() != kinds.keys():
            raise damaged("its header has other fields")
        for name, value in known.items():
            is_sound = isinstance(value, str)
            if kinds[name] != "str":
                is_sound = type(value) is int and -MOST_EVENTS < value < MOST_EVENTS
            if not is_sound and (value is not None or kinds[name] != "int | None"):
                raise damaged(f"{name!r} in its header is {value!r}")
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
        chunk = seal(write_blob(table, {_BEFORE: header.token}))
        store.put_chunk(header.next, chunk)
        self.add(StoredChunk(header.next, last, len(chunk)))
        header.token = _token_after(header.token, chunk)
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
        self.header.snapshot_digest = _digest_snapshot(session, waiting)
        while self.kept:
            self._drop(store)

    def mark(self, change: str) -> None:
        """Note a change of the state that is no chunk: what was known before does not lead here."""
        self.header.token = _token_after(self.header.token, change.encode())

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
        return chunk is not None and _token_before(read_chunk(chunk, own.next)) == own.token

    def read_missed(self, store: Store, header: Header) -> Iterator[tuple[int, int, pa.Table]]:
        """Yield the chunks after this log: number, bytes, events; and take the store's header.

        The caller must `add()` each chunk, whose times it knows.
        """
        known = self.header.next
        self.header = header
        while self.kept and self.kept[0].number < header.first:
            self.kept.popleft()
        token = None
        for number in range(max(known, header.first), header.next):
            chunk = store.chunk(number)
            if chunk is None:
                raise damaged(f"chunk {number} is missing")
            table = read_chunk(chunk, number)
            if token not in (None, before := _token_before(table)):
                raise damaged(f"chunk {number} does not follow the one before it")
            token = _token_after(before, chunk)
            yield number, len(chunk), table
        if token not in (None, header.token):
            raise damaged(f"chunk {header.next - 1} is not the last one")


def read_snapshot(store: Store, header: Header) -> tuple[bytes, pa.Table | None]:
    """Return the frozen session in the store, and the events that waited beside it."""
    snapshot = store.snapshot()
    if snapshot is None:
        raise damaged("its snapshot is missing")
    frozen, waiting = snapshot
    if _digest_snapshot(frozen, waiting) != header.snapshot_digest:
        raise damaged("its snapshot is not as it was written")
    return frozen, _read_table(waiting, "its snapshot") if waiting else None


def read_chunk(chunk: bytes, number: int) -> pa.Table:
    """Return the events of a chunk, if it is as it was written."""
    return _read_table(open_seal(chunk, f"chunk {number}"), f"chunk {number}")


def _read_table(blob: bytes, what: str) -> pa.Table:
    try:
        return read_stream(blob)
    except DataError as error:
        raise damaged(f"{what}: {error}") from error


def _digest_snapshot(session: bytes, waiting: bytes) -> str:
    digest = hashlib.blake2b(b"%d\n" % len(session), digest_size=_DIGEST)
    digest.update(session)
    digest.update(waiting)
    return digest.hexdigest()


def _token_before(table: pa.Table) -> str:
    """Return the token of the state that a chunk follows."""
    metadata = table.schema.metadata or {}
    return str(metadata.get(_BEFORE.encode(), b"").decode(errors="replace"))


def _token_after(before: str, chunk: bytes) -> str:
    """Return the token of the state after a chunk."""
    return hashlib.sha256(before.encode() + chunk).hexdigest()[:32]
