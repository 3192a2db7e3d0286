"""`MemoryStore`: the state store of a bucket (`cernis.spark.streaming`) in memory, for tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


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

    @classmethod
    def load(cls, folder: Path) -> MemoryStore:
        """Read a store that `save` has written."""
        session = folder / "session.bin"
        frozen = (session, folder / "waiting.bin") if session.exists() else None
        return cls(
            (folder / "header.bin").read_bytes(),
            {int(file.stem[6:]): file.read_bytes() for file in folder.glob("chunk-*.bin")},
            None if frozen is None else (frozen[0].read_bytes(), frozen[1].read_bytes()),
        )

    def save(self, folder: Path) -> None:
        """Write the store to a new folder, a file for each part."""
        folder.mkdir(parents=True)
        parts = {f"chunk-{number}": chunk for number, chunk in self.chunks.items()}
        if self.frozen is not None:
            parts |= zip(("session", "waiting"), self.frozen, strict=True)
        for name, content in {"header": self.head or b"", **parts}.items():
            (folder / f"{name}.bin").write_bytes(content)

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
