"""The live view of a running stream: a few lines of numbers, and the last matches.

    Progress (one micro-batch) ─ Tally ─▶ View ─ render ─▶ terminal

`render` is a pure function of a `View`, which has only what the terminal shows. A `Tally` adds
up the numbers of micro-batches, each of them once, however often it receives it.

Cost: a few additions for each micro-batch, and a redrawing four times a second. If the sink is
a folder, the last matches are read from the newest file that Spark has noted; the running
query is not asked.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cernis.errors import neutralize
from cernis.integers import count_noun

if TYPE_CHECKING:
    from cernis.work.progress import Progress

_SHOWN = 3
_WINDOW = 30.0
"""Seconds over which rates are taken."""
_TAIL = 1 << 16
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RECENT = datetime(2000, 1, 1, tzinfo=UTC)
_PARTS = {
    "reading": ("latestOffset", "getBatch"),
    "planning": ("queryPlanning",),
    "running": ("addBatch",),
    "committing": ("walCommit", "commitOffsets"),
    "engine": ("engine",),
    "state": ("state",),
}
_OF_ALL_TASKS = ("engine", "state")
"""Parts of the running, summed over tasks."""
_LEFT_OUT = {
    "late": "late",
    "ahead": "ahead",
    "undecodable": "undecodable",
    "untimed": "without a time",
}
_SUMS = ("rows", "matches", *_LEFT_OUT)


@dataclass(frozen=True, kw_only=True)
class View:
    """What the terminal shows of a stream at one moment."""

    title: str
    rows: int = 0
    rows_per_second: float = 0.0
    matches: int = 0
    matches_per_second: float = 0.0
    late: int = 0
    ahead: int = 0
    undecodable: int = 0
    untimed: int = 0
    waiting: int = 0
    state_bytes: int = 0
    watermark: str | None = None
    behind: float | None = None
    """Seconds from the watermark to now."""
    batch: int | None = None
    batches: int = 0
    seconds: float = 0.0
    """How long the last micro-batch took."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """The seconds of its parts."""
    last: Sequence[str] = ()
    """Matches as short texts, the latest first."""
    state: str = "starting"


def render(view: View) -> RenderableType:
    """Return the view as lines."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold cyan")
    grid.add_column()
    grid.add_row("rows", f"{view.rows:,}  ({_rate(view.rows_per_second)})")
    grid.add_row("matches", f"{view.matches:,}  ({_rate(view.matches_per_second)})")
    counts = [f"{getattr(view, name):,} {text}" for name, text in _LEFT_OUT.items()]
    grid.add_row("left out", ", ".join(counts))
    grid.add_row("waiting", count_noun(view.waiting, "event"))
    grid.add_row("state", _size(view.state_bytes))
    grid.add_row("watermark", _watermark(view))
    grid.add_row("batch", _batch(view))
    lines: list[RenderableType] = [
        Text(neutralize(f"{view.title}  [{view.state}]"), style="bold"),
        grid,
    ]
    if view.last:
        lines.append(Text("last matches", style="bold cyan"))
        lines += [
            Text(f"  {neutralize(text)}", overflow="ellipsis", no_wrap=True) for text in view.last
        ]
    return Group(*lines)


def summarize(view: View) -> str:
    """Return the view in one line, for the end."""
    texts = [
        f"{count_noun(view.rows, 'row')} in {count_noun(view.batches, 'micro-batch')}",
        count_noun(view.matches, "match"),
    ]
    counts = {text: getattr(view, name) for name, text in _LEFT_OUT.items()}
    texts += [f"{count:,} {text}" for text, count in counts.items() if count]
    return "; ".join(texts)


def describe_waiting(view: View, lateness: str, clauses: Iterable[str] = ()) -> Iterator[str]:
    """Yield notes if a stream has ended before some of its events could be read, or results told.

    >>> [*describe_waiting(View(title="", waiting=1), "5s")]
    ['1 event waits for the watermark: a run reads it once an event is later by --lateness (5s)']
    """
    if view.waiting:
        waits, them = ("waits", "it") if view.waiting == 1 else ("wait", "them")
        yield (
            f"{count_noun(view.waiting, 'event')} {waits} for the watermark: a run reads {them} "
            f"once an event is later by --lateness ({lateness})"
        )
    if own := " and ".join(dict.fromkeys(clauses)):
        yield (
            f"results of {own} that events to come decide, if any, are left to "
            "the run that reads these"
        )


def _watermark(view: View) -> str:
    if view.watermark is None:
        return "–"
    return view.watermark if view.behind is None else f"{view.watermark}  ({_ago(view.behind)})"


def _batch(view: View) -> str:
    if view.batch is None:
        return "–"
    times = {name: f"{name} {_time(spent)}" for name, spent in view.parts.items()}
    whole = [text for name, text in times.items() if name not in _OF_ALL_TASKS]
    inside = [text for name, text in times.items() if name in _OF_ALL_TASKS]
    text = ", ".join(whole) + (f" (of all tasks: {', '.join(inside)})" if inside else "")
    return f"{view.batch} in {_time(view.seconds)}" + (f": {text}" if text else "")


# ------------------------------------------------------------------ numbers


def _rate(per_second: float) -> str:
    return f"{per_second:,.0f}/s" if per_second >= 10 or not per_second else f"{per_second:.1f}/s"


def _size(size: int) -> str:
    """
    >>> _size(999), _size(1_200_000)
    ('999 B', '1.2 MB')
    """
    number, unit = float(size), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if number < 1000:
            break
        number, unit = number / 1000, larger
    return f"{size} B" if unit == "B" else f"{number:.1f} {unit}"


def _time(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _ago(seconds: float) -> str:
    """
    >>> _ago(12.3), _ago(-90), _ago(200_000)
    ('12 s ago', '1 min 30 s ahead', '2 d 7 h ago')
    """
    left = round(abs(seconds))
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        number, left = divmod(left, size)
        if number or (unit == "s" and not parts):
            parts.append(f"{number} {unit}")
    return f"{' '.join(parts[:2])} {'ahead' if seconds < 0 else 'ago'}"


# -------------------------------------------------------------------- tally


@dataclass(frozen=True)
class WatermarkClock:
    """How to read the watermark, which Spark gives as a time."""

    shift_ms: int = 0
    """Milliseconds added to times that are plain numbers."""
    unit_ns: int | None = None
    """Nanoseconds in the unit of plain numbers; None: times are timestamps."""

    def read(self, watermark: str | None) -> tuple[str | None, datetime | None]:
        """Return the watermark as text, and its time, if it has one.

        >>> WatermarkClock().read("2024-01-02T10:00:00.000Z")[0]
        '2024-01-02 10:00:00'
        >>> WatermarkClock(shift_ms=2**43, unit_ns=10**6).read("2248-09-26T15:10:22.213Z")
        ('5', None)
        """
        if watermark is None:
            return None, None
        time = datetime.fromisoformat(watermark)
        if time <= _EPOCH:
            return None, None  # nothing has come yet
        if self.unit_ns is None:
            return time.strftime("%Y-%m-%d %H:%M:%S"), time
        milliseconds = (time - _EPOCH) // timedelta(milliseconds=1) - self.shift_ms
        text = str(milliseconds * 10**6 // self.unit_ns)
        with suppress(OverflowError):
            own = _EPOCH + timedelta(milliseconds=milliseconds)
            if own >= _RECENT:
                return text, own
        return text, None


class Tally:
    """The sums of all micro-batches."""

    def __init__(
        self, title: str, clock: WatermarkClock | None = None, sink: Path | None = None
    ) -> None:
        self._view = View(title=title)
        self._clock = clock or WatermarkClock()
        self._sink = sink
        self._lock = threading.Lock()
        self._kept: dict[int, int] = {}
        self._waiting: dict[int, int] = {}
        self._recent: deque[tuple[float, int, int]] = deque()
        self._watermark_time: datetime | None = None

    def take(self, progress: Progress, now: float | None = None) -> None:
        """Add one micro-batch, if it is new."""
        with self._lock:
            if self._view.batch is not None and progress.batch <= self._view.batch:
                return
            self._add(progress, time() if now is None else now)

    def _add(self, progress: Progress, now: float) -> None:
        view = self._view
        took = progress.milliseconds.get("triggerExecution", 0.0) / 1000
        self._recent.append((now - took, progress.rows, progress.matches))
        self._kept |= progress.per_bucket
        self._waiting |= progress.waiting_per_bucket
        watermark, self._watermark_time = self._clock.read(progress.watermark)
        self._view = replace(
            view,
            state="running" if view.state == "starting" else view.state,
            **{name: getattr(view, name) + getattr(progress, name) for name in _SUMS},
            waiting=sum(self._waiting.values()) if self._waiting else progress.waiting,
            state_bytes=sum(self._kept.values()) if self._kept else progress.state_bytes,
            watermark=watermark,
            batch=progress.batch,
            batches=view.batches + 1,
            seconds=took,
            parts=_parts(progress.milliseconds),
            last=self._latest(progress) or view.last,
        )

    def take_lines(self, lines: Sequence[str]) -> None:
        """Take lines of matches that this process has printed, the latest last."""
        with self._lock:
            self._view = replace(self._view, last=[*reversed(lines[-_SHOWN:])])

    def stopping(self) -> None:
        """Show that the micro-batch that runs is the last."""
        with self._lock:
            self._view = replace(self._view, state="stopping after this micro-batch")

    def view(self, now: float | None = None) -> View:
        """Return the view at this moment."""
        now = time() if now is None else now
        with self._lock:
            while self._recent and self._recent[0][0] < now - _WINDOW:
                self._recent.popleft()
            since = max(now - self._recent[0][0], 1.0) if self._recent else 1.0
            return replace(
                self._view,
                rows_per_second=sum(rows for _, rows, _ in self._recent) / since,
                matches_per_second=sum(matches for *_, matches in self._recent) / since,
                behind=None
                if self._watermark_time is None
                else now - self._watermark_time.timestamp(),
            )

    def _latest(self, progress: Progress) -> list[str]:
        if self._sink is None or not progress.matches:
            return []
        with suppress(Exception):  # the files may be changed or removed meanwhile
            return [*latest_matches(self._sink, progress.batch)]
        return []


def _parts(milliseconds: Mapping[str, float]) -> dict[str, float]:
    return {
        name: sum(milliseconds.get(own, 0.0) for own in owns) / 1000
        for name, owns in _PARTS.items()
    }


# ------------------------------------------------------------- last matches


def latest_matches(sink: Path, batch: int) -> Iterator[str]:
    """Yield a few matches of a micro-batch from a file that it wrote; none without its note.

    Every tenth note of Spark's lists all files of the folder, and is not read.
    """
    note = sink / "_spark_metadata" / str(batch)
    if not note.is_file():
        return
    files = [json.loads(line) for line in note.read_text().splitlines()[1:]]
    paths = [Path(unquote(urlsplit(file["path"]).path)) for file in files]
    for path in reversed(paths):
        texts = _of_parquet(path) if path.suffix == ".parquet" else _of_lines(path)
        if texts:
            yield from texts
            return


def _of_lines(path: Path) -> list[str]:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        lines = file.read().decode(errors="replace").splitlines()
    return [line for line in reversed(lines[-_SHOWN:]) if line]


def _of_parquet(path: Path) -> list[str]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        first = next(file.iter_batches(batch_size=_SHOWN), None)
    return [] if first is None else [match_text(match) for match in first.to_pylist()]


def match_text(match: Mapping[str, Any]) -> str:
    """Return a match in few words: its values, and how many events its variables have.

    >>> match_text({"start": 1, "end": 3, "k": "x", "a": [{"v": 1}], "b": []})
    'start=1 end=3 k=x a=1 event b=0 events'
    """
    return " ".join(f"{name}={_value(value)}" for name, value in match.items())


def _value(value: object) -> str:
    return count_noun(len(value), "event") if isinstance(value, list) else str(value)


# ----------------------------------------------------------------- terminal


@contextmanager
def show_live(tally: Tally, console: Console, *, wanted: bool) -> Iterator[None]:
    """Show the view on a terminal while the body runs, if wanted."""
    if not wanted:
        yield
        return
    live = Live(
        console=console,
        get_renderable=lambda: render(tally.view()),
        refresh_per_second=4,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    with live:
        yield


# ------------------------------------------------------------------ signals


class CaughtSignals:
    """The number of signals to stop."""

    number = 0

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    def caught(self, number: int, frame: object) -> None:
        self.number += 1
        if self.number > 2:
            raise KeyboardInterrupt
        self._call()


@contextmanager
def caught_hangup(call: Callable[[], None] | None) -> Iterator[None]:
    """Let SIGHUP `call`, as services do; on a terminal, it still says that the terminal is gone."""
    hangup = getattr(signal, "SIGHUP", None)
    is_main = threading.current_thread() is threading.main_thread()
    if call is None or hangup is None or not is_main or sys.stderr.isatty():
        yield
        return
    before = signal.signal(hangup, lambda *_: call())
    try:
        yield
    finally:
        signal.signal(hangup, before)


@contextmanager
def caught_signals(call: Callable[[], None] = lambda: None) -> Iterator[CaughtSignals]:
    """Count the signals to stop, and `call` at each; the third stops at once."""
    caught = CaughtSignals(call)
    if threading.current_thread() is not threading.main_thread():
        yield caught  # only the main thread receives signals
        return
    before = {n: signal.signal(n, caught.caught) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
