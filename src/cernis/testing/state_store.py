"""`MemoryStore`: the state store of a bucket (`cernis.spark.streaming`) in memory, for tests."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class MemoryStore:
    """A state store, with the number of bytes that were read and written."""

    head: bytes | None = None
    chunks: dict[int, bytes] = field(default_factory=dict)
    frozen: tuple[bytes, bytes] | None = None
    written: int = 0
    read: int = 0

    def copy(self) -> MemoryStore:
        """Return a store with the same content."""
        return MemoryStore(self.head, dict(self.chunks), self.frozen)

    def header(self) -> bytes | None:
        return self.head

    def put_header(self, header: bytes) -> None:
        self.head = header
        self.written += len(header)

    def chunk(self, number: int) -> bytes | None:
        chunk = self.chunks.get(number)
        self.read += len(chunk or b"")
        return chunk

    def put_chunk(self, number: int, chunk: bytes) -> None:
        self.chunks[number] = chunk
        self.written += len(chunk)

    def drop_chunk(self, number: int) -> None:
        del self.chunks[number]

    def snapshot(self) -> tuple[bytes, bytes] | None:
        return self.frozen

    def put_snapshot(self, session: bytes, waiting: bytes) -> None:
        self.frozen = (session, waiting)
        self.written += len(session) + len(waiting)

    @property
    def size(self) -> int:
        """The bytes in the store."""
        return sum(map(len, self.chunks.values())) + sum(map(len, self.frozen or ()))
