"""Visitors: who asks, what they have uploaded and run, and the worker that answers them.

A visitor is a random token in a cookie. Uploads and runs have random ids, and each belongs to one
visitor: a request cannot name an upload or a run of another visitor. Uploads lie in a private
folder under names that the server chooses. The name that the visitor gave is only a label.

A worker that ends loses its runs. The next request for a run makes it again. If all workers are
taken, a new visitor gets the worker of the visitor who has been idle longest.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

from cernis.errors import neutralize
from cernis.events.reading.files import FORMATS as EVENT_FORMATS
from cernis.serve.failure import RequestError
from cernis.serve.limits import Limits
from cernis.serve.process import WorkerProcess
from cernis.serve.samples import find_sample

FORMATS: Mapping[str, str] = {
    **{suffix: form for suffix, form in EVENT_FORMATS.items() if form != "arrow"},
    ".nq": "nquads",
    ".nquads": "nquads",
}
"""The formats of uploads by the suffixes of their names."""

_LONGEST_LABEL = 100
_MOST_KNOWN = 1000
_MOST_DESCRIBED = 64
_MOST_DOWNLOADS = 2
_GRACE = 60.0
_CHECK_SHARE = 1 / 6
"""Of the time that a run may take: a check is made while a visitor types."""


@dataclass(frozen=True, slots=True)
class GivenFile:
    """A file that may be asked for: an upload, or one of the command line."""

    id: str
    path: Path
    stream: str
    label: str
    format: str
    bytes: int = 0

    def to_source(self) -> dict[str, Any]:
        """Return the file as a worker reads it."""
        names = {"stream": self.stream, "label": self.label, "format": self.format}
        return {"path": str(self.path), **names}


@dataclass
class Visitor:
    """One visitor: the token, the files, the runs, the worker."""

    token: str
    folder: Path
    worker: WorkerProcess
    uploads: dict[str, GivenFile] = field(default_factory=dict)
    arriving: dict[str, int] = field(default_factory=dict)
    """The sizes that uploads under way may have."""
    descriptions: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What the worker said of each source."""
    runs: OrderedDict[str, dict[str, Any]] = field(default_factory=OrderedDict)
    """The request of each run that is kept."""
    downloads: list[Path] = field(default_factory=list)
    dropped: OrderedDict[str, None] = field(default_factory=OrderedDict)
    seen: float = field(default_factory=monotonic)
    is_gone: bool = False
    """Whether the page was left, and nothing has been asked for since."""

    def rank(self) -> tuple[bool, bool, float]:
        """Return how much would be lost with this visitor: the least is forgotten first."""
        return self.worker.is_busy, bool(self.uploads or self.arriving or self.runs), self.seen

    def describe(self, key: str, described: dict[str, Any]) -> None:
        """Keep what the worker said of a source."""
        if len(self.descriptions) >= _MOST_DESCRIBED:
            self.descriptions.clear()
        self.descriptions[key] = described

    def forget_run(self, run: str) -> None:
        """Drop a run, and remember that it was there."""
        self.runs.pop(run, None)
        self.dropped[run] = None
        while len(self.dropped) > _MOST_KNOWN:
            self.dropped.popitem(last=False)


class Visitors:
    """All visitors of a server."""

    def __init__(self, limits: Limits, files: Sequence[GivenFile], reading: Mapping[str, Any]):
        self.limits = limits
        self.files = {file.id: file for file in files}
        self.reading = dict(reading)
        """How the files of the command line are read."""
        self.folder = Path(tempfile.mkdtemp(prefix="cernis-serve-"))
        self._visitors: dict[str, Visitor] = {}
        self._spare = self._new_worker()
        self._checker = self._new_worker()

    def _new_worker(self) -> WorkerProcess:
        return WorkerProcess(self.limits, self._new_folder())

    def _new_folder(self) -> Path:
        folder = self.folder / secrets.token_hex(16)
        folder.mkdir(mode=0o700)
        return folder

    # ---------------------------------------------------------------- visitors

    def find(self, token: str | None) -> Visitor | None:
        """Return the visitor of a cookie, if there is one."""
        visitor = self._visitors.get(token) if token else None
        if visitor is not None:
            visitor.seen, visitor.is_gone = monotonic(), False
        return visitor

    async def admit(self) -> Visitor:
        """Return a new visitor; a token that somebody else has chosen is never taken."""
        if len(self._visitors) >= _MOST_KNOWN:
            await self.forget(min(self._visitors.values(), key=Visitor.rank))
        visitor = Visitor(secrets.token_urlsafe(32), self._new_folder(), self._new_worker())
        self._visitors[visitor.token] = visitor
        return visitor

    async def forget(self, visitor: Visitor) -> None:
        """End a visitor's worker, and remove everything of theirs."""
        self._visitors.pop(visitor.token, None)
        await visitor.worker.stop()
        shutil.rmtree(visitor.folder, ignore_errors=True)

    async def tidy(self) -> None:
        """Forget visitors who have been idle, and end the workers of those who have left."""
        now = monotonic()
        for visitor in list(self._visitors.values()):
            idle = now - visitor.seen
            if visitor.worker.is_busy:
                continue
            if idle > self.limits.idle_seconds:
                await self.forget(visitor)
            elif visitor.is_gone and idle > _GRACE:
                await visitor.worker.stop()

    async def close(self) -> None:
        """End all workers, and remove all files."""
        for visitor in list(self._visitors.values()):
            await self.forget(visitor)
        await self._checker.stop()
        await self._spare.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    # ----------------------------------------------------------------- workers

    async def prepare(self) -> None:
        """Start a worker for the next who comes, if there may be one more."""
        if self._count_workers() < self.limits.visitors:
            await self._spare.start()

    def _count_workers(self) -> int:
        return sum(one.worker.is_alive for one in self._visitors.values())

    async def ask(
        self, visitor: Visitor, request: Mapping[str, Any], *, ends: bool = False
    ) -> bytes:
        """Return what a visitor's worker answers; with `ends`, who stops waiting ends it."""
        if not visitor.worker.is_alive:
            await self._make_room(visitor)
            if self._spare.is_alive:
                visitor.worker.adopt(self._spare)
                await self.prepare()
        return await visitor.worker.ask(request, ends=ends)

    async def _make_room(self, visitor: Visitor) -> None:
        """End the worker that has been idle longest, if there are as many as there may be."""
        alive = [one for one in self._visitors.values() if one.worker.is_alive]
        if len(alive) < self.limits.visitors:
            return
        idle = [one for one in alive if not one.worker.is_busy and one is not visitor]
        if not idle:
            raise RequestError("busy", self.limits.explain_visitors())
        await min(idle, key=lambda one: one.seen).worker.stop()

    async def run(
        self, visitor: Visitor, asked: Mapping[str, Any]
    ) -> tuple[dict[str, Any], str | None]:
        """Run a query; return what it gave, and the run that had to go for it."""
        run = secrets.token_hex(8)
        made = json.loads(await self._run(visitor, run, asked))
        visitor.runs[run] = dict(asked)
        if len(visitor.runs) <= self.limits.runs:
            return made, None
        oldest = next(iter(visitor.runs))
        await self.drop_run(visitor, oldest)
        return made, oldest

    async def _run(self, visitor: Visitor, run: str, asked: Mapping[str, Any]) -> bytes:
        told = await self.ask(visitor, {"do": "run", "run": run, **asked}, ends=True)
        visitor.worker.runs.add(run)
        return told

    async def ask_run(self, visitor: Visitor, run: str, request: Mapping[str, Any]) -> bytes:
        """Return what a worker says of a run; one that its worker has lost is made again."""
        if run not in visitor.runs:
            if run in visitor.dropped:
                raise RequestError("run_dropped", self.limits.explain_runs())
            raise RequestError("not_found", "there is no such run")
        visitor.runs.move_to_end(run)
        if not visitor.worker.is_alive or run not in visitor.worker.runs:
            await self._run(visitor, run, visitor.runs[run])
        return await self.ask(visitor, request)

    async def drop_run(self, visitor: Visitor, run: str) -> None:
        """Forget a run."""
        if run not in visitor.runs:
            raise RequestError("not_found", "there is no such run")
        visitor.forget_run(run)
        if visitor.worker.is_alive and run in visitor.worker.runs:
            visitor.worker.runs.discard(run)
            await visitor.worker.ask({"do": "drop", "run": run})

    async def ask_about_text(self, visitor: Visitor, request: Mapping[str, Any]) -> bytes:
        """Return what a process says of a text: the visitor's own, unless it is at work.

        The other one is for all who wait for a run; it holds nobody's data.
        """
        own = visitor.worker
        worker = own if own.is_alive and not own.is_busy else self._checker
        return await worker.ask(request, _CHECK_SHARE * self.limits.seconds)

    # ------------------------------------------------------------------- files

    def resolve(self, visitor: Visitor, source: Any) -> dict[str, Any]:
        """Return a source as a worker reads it: what is not the visitor's own is not found."""
        match source:
            case {"sample": str(id)} if find_sample(id) is not None:
                return {"sample": id}
            case {"upload": str(id)}:
                return self._join([visitor.uploads.get(id)], read_reading(source))
            case {"uploads": [*ids]} if ids:
                found = [visitor.uploads.get(str(id)) for id in ids]
                return self._join(found, read_reading(source))
            case {"file": str(id)}:
                return self._join([self.files.get(id)], self.reading)
            case {"files": [*ids]} if ids:
                return self._join([self.files.get(str(id)) for id in ids], self.reading)
        raise RequestError(
            "not_found", "there are no such events: choose a sample, or upload a file"
        )

    def _join(
        self, files: Sequence[GivenFile | None], reading: Mapping[str, Any]
    ) -> dict[str, Any]:
        found = [file.to_source() for file in files if file is not None]
        if len(found) < len(files):
            raise RequestError("not_found", "this file is no longer here: upload it again")
        names = {one["stream"] for one in found}
        if len(names) < len(found):
            raise RequestError("data", "two of these files have the same name; rename one")
        return {"files": found, "reading": dict(reading)}

    @contextmanager
    def receive_upload(self, visitor: Visitor, name: str, size: int | None) -> Iterator[GivenFile]:
        """Give the file that an upload goes to; it is the visitor's when it is whole.

        Until then it counts as large as it may become: its `size` if that is told, or the limit.
        The name tells the format, and nothing else.
        """
        limits = self.limits
        if size is not None and size > limits.upload_bytes:
            raise RequestError("too_large", limits.explain_upload())
        if len(visitor.uploads) + len(visitor.arriving) >= limits.uploads:
            raise RequestError("quota", limits.explain_uploads())
        room = limits.upload_bytes if size is None else size
        if self._count_bytes() + room > limits.disk_bytes:
            raise RequestError("busy", limits.explain_disk())
        label = make_label(name)
        format_, suffix = find_format(label)
        id = secrets.token_hex(16)
        path = visitor.folder / f"{id}{suffix}"
        file = GivenFile(id, path, make_stream_name(label), label, format_)
        visitor.arriving[id] = room
        try:
            yield file
            visitor.uploads[id] = replace(file, bytes=path.stat().st_size)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        finally:
            del visitor.arriving[id]

    def _count_bytes(self) -> int:
        """Return how many bytes the uploads of all visitors have, or will have."""
        return sum(
            sum(one.bytes for one in visitor.uploads.values()) + sum(visitor.arriving.values())
            for visitor in self._visitors.values()
        )

    def remove_upload(self, visitor: Visitor, id: str) -> None:
        """Remove an upload of a visitor."""
        file = visitor.uploads.pop(id, None)
        if file is None:
            raise RequestError("not_found", "there is no such upload")
        file.path.unlink(missing_ok=True)

    def new_download(self, visitor: Visitor, form: str) -> Path:
        """Return where a worker writes matches; one that nobody has fetched to its end goes."""
        if len(visitor.downloads) >= _MOST_DOWNLOADS:
            visitor.downloads.pop(0).unlink(missing_ok=True)
        visitor.downloads.append(visitor.folder / f"{secrets.token_hex(16)}.{form}")
        return visitor.downloads[-1]


def read_reading(source: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns of times and types, and the unit, that a source names."""
    names = ("time", "type", "time_unit")
    return {name: source[name] for name in names if isinstance(source.get(name), str)}


def make_label(name: str) -> str:
    r"""Return what people call a file: its last part, without what steers a terminal.

    >>> make_label("../../etc/passwd"), make_label("C:\\x\\trades.csv"), make_label("")
    ('passwd', 'trades.csv', 'upload')
    """
    last = re.split(r"[/\\]", neutralize(name).replace("\n", " "))[-1].strip()
    return last[-_LONGEST_LABEL:] or "upload"


def find_format(label: str) -> tuple[str, str]:
    """Return the format and the suffix of a file's name.

    >>> find_format("Trades.CSV.gz")
    ('csv', '.csv.gz')
    """
    parts = label.lower().split(".")[1:]
    compressed = f".{parts.pop()}" if parts and parts[-1] in ("gz", "zst", "bz2") else ""
    suffix = f".{parts[-1]}" if parts else ""
    if suffix not in FORMATS:
        raise RequestError(
            "data",
            f"{label}: the end of the name tells the format, and this one is not known",
            "name it .csv, .tsv, .jsonl, .parquet or .nq",
        )
    return FORMATS[suffix], suffix + compressed


def make_stream_name(label: str) -> str:
    """Return a name that a query can write.

    >>> make_stream_name("my trades (2).csv"), make_stream_name("2024.csv")
    ('my_trades_2', 's2024')
    """
    stem = re.sub(r"\W+", "_", label.split(".")[0]).strip("_")[:40]
    if not stem or stem[0].isdigit():
        stem = f"s{stem}"
    return stem


async def keep_tidy(visitors: Visitors, every: float = 15.0) -> None:
    """Tidy up for as long as the server runs."""
    while True:
        await asyncio.sleep(every)
        await visitors.tidy()
