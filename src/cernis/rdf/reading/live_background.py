"""`BackgroundFiles`: files of background knowledge that are read again when they change.

A *version* is the content of all files at one time. Its name is a digest of that content, so that
equal content has the same name in every process, on every machine and after a restart.

Files should be replaced whole (written beside, then renamed): a file that is read while it is
written is a version of its own, or a mistake.

Cost: `look` asks the system for the state of each file; the content is read when that has changed.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cernis.errors import CernisError, DataError
from cernis.rdf.reading.background import Graphs, merge_graphs, read_graphs
from cernis.rdf.reading.quads import find_format
from cernis.rdf.reading.terms import Terms

_DIGEST = 8


class BackgroundFile(NamedTuple):
    """A file, and the name of the graph that its triples without a graph belong to."""

    name: str | None
    path: str


class BackgroundContent(NamedTuple):
    """The content of all files at one time."""

    version: str
    files: tuple[BackgroundFile, ...]
    contents: tuple[bytes, ...]

    def load(self, terms: Terms) -> Graphs:
        """Return all graphs, by the code of their name."""
        return merge_graphs(
            read_graphs(content, terms, name=name, format=find_format(path))
            for (name, path), content in zip(self.files, self._unpack(), strict=True)
        )

    def _unpack(self) -> list[bytes]:
        found = []
        for (_, path), content in zip(self.files, self.contents, strict=True):
            try:
                found.append(gzip.decompress(content) if path.lower().endswith(".gz") else content)
            except (OSError, EOFError, zlib.error) as error:
                raise DataError(f"{path}: cannot be read: {error}") from error
        return found


class BackgroundFiles:
    """Files that may change; `sources` are paths, or paths by the name of their graph."""

    def __init__(self, sources: Any) -> None:
        self.files = list_background_files(sources)
        self._seen: tuple[Any, ...] = ()

    def look(self) -> bool:
        """Return whether a file is another one than when it was read last."""
        return self._stat() != self._seen

    def read(self) -> BackgroundContent:
        """Read all files."""
        seen, contents = self._stat(), []
        for file in self.files:
            try:
                contents.append(Path(file.path).read_bytes())
            except OSError as error:
                raise DataError(f"{file.path}: cannot be read: {error.strerror}") from error
        self._seen = seen
        return BackgroundContent(name_version(self.files, contents), self.files, tuple(contents))

    def _stat(self) -> tuple[Any, ...]:
        found: list[Any] = []
        for file in self.files:
            try:
                state = os.stat(file.path)
                found.append((state.st_mtime_ns, state.st_size, state.st_ino))
            except OSError as error:
                found.append(error.errno)
        return tuple(found)


def list_background_files(sources: Any) -> tuple[BackgroundFile, ...]:
    """Return the files of background knowledge; an error where it is something else."""
    if sources is None:
        return ()
    named = sources if isinstance(sources, Mapping) else {None: sources}
    files = []
    for name, given in named.items():
        for one in given if isinstance(given, list | tuple) else [given]:
            if not isinstance(one, str | Path):
                raise CernisError(
                    f"live background knowledge is a file, not {type(one).__name__}: only files "
                    "are read again"
                )
            files.append(BackgroundFile(name, str(one)))
    return tuple(files)


def name_version(files: Sequence[BackgroundFile], contents: Sequence[bytes]) -> str:
    """Return the name of a version: a digest of its files.

    >>> name_version([BackgroundFile(None, "a/kb.ttl")], [b"<urn:a> <urn:p> 1 ."])
    'eaa13ded91dc79a4'
    """
    digest = hashlib.blake2b(digest_size=_DIGEST)
    for (name, path), content in zip(files, contents, strict=True):
        digest.update(repr((name, find_format(path), len(content))).encode())
        digest.update(content)
    return digest.hexdigest()
