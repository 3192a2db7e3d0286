"""Show how far a long run is: a bar in a terminal (`rich`), a line with a bar in a notebook.

A run of less than a second shows nothing, and nothing is shown where the output is neither. The
bar asks for the number of events that have been read, a few times a second, from a thread of its
own; the run does not know of it.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import perf_counter
from typing import TYPE_CHECKING, Any

from cernis.integers import count_noun

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

DELAY, EVERY = 1.0, 0.25
"""Seconds before a bar appears, and between its steps."""


class RunDisplay(ABC):
    """Shows the number of events read so far, of a total that may be unknown."""

    @abstractmethod
    def show(self, events: int, total: int | None, seconds: float) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


class TerminalDisplay(RunDisplay):
    """A bar on standard error that leaves no trace."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console
        self._shown: tuple[Progress, TaskID] | None = None

    def show(self, events: int, total: int | None, seconds: float) -> None:
        progress, task = self._shown = self._shown or self._start(total)
        progress.update(task, completed=events, description=say_events(events, total))

    def _start(self, total: int | None) -> tuple[Progress, TaskID]:
        from rich import progress as bars
        from rich.console import Console

        columns = (
            bars.SpinnerColumn(),
            bars.BarColumn(),
            bars.TextColumn("{task.description}"),
            bars.TimeElapsedColumn(),
        )
        console = self._console or Console(stderr=True)
        progress = bars.Progress(*columns, console=console, transient=True)
        progress.start()
        return progress, progress.add_task("", total=total)

    def close(self) -> None:
        if self._shown is not None:
            self._shown[0].stop()


class NotebookDisplay(RunDisplay):
    """A line under the cell of a notebook, which goes when the run ends."""

    def __init__(self, display: Callable[..., Any], make_html: Callable[[str], Any]) -> None:
        self._display, self._html = display, make_html
        self._handle: Any = None

    def show(self, events: int, total: int | None, seconds: float) -> None:
        bar = f'<progress value="{events}" max="{total}"></progress> ' if total else ""
        shown = self._html(f"{bar}{say_events(events, total)}, {seconds:.0f} s")
        if self._handle is None:
            self._handle = self._display(shown, display_id=True)
        else:
            self._handle.update(shown)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.update(self._html(""))


def say_events(events: int, total: int | None) -> str:
    """Return how many events have been read.

    >>> say_events(1500, 3000), say_events(1500, None)
    ('1,500 of 3,000 events', '1,500 events')
    """
    counted = count_noun(total or events, "event")
    return f"{events:,} of {counted}" if total else counted


def find_display() -> RunDisplay | None:
    """Return where progress is shown here; None: nowhere."""
    if "ipykernel" in sys.modules:
        from IPython import get_ipython
        from IPython.display import HTML, display

        if getattr(get_ipython(), "kernel", None) is not None:  # a program may import ipykernel
            return NotebookDisplay(display, HTML)
    return TerminalDisplay() if sys.stderr.isatty() else None


def count_rows(events: Any) -> int | None:
    """Return how many events there are, if that is known before they are read."""
    if isinstance(events, dict):
        counts = [count_rows(each) for each in events.values()]
        return None if None in counts else sum(count for count in counts if count is not None)
    if isinstance(events, str | bytes) or not hasattr(events, "__len__"):
        return None
    if isinstance(events, list | tuple) and events and not isinstance(events[0], dict):
        return None
    return len(events)


@contextmanager
def show_progress(
    count: Callable[[], int], total: int | None, display: RunDisplay | None, delay: float = DELAY
) -> Iterator[None]:
    """Show what `count` says while the block runs, once it has taken a while."""
    if display is None:
        yield
        return
    done, began = Event(), perf_counter()

    def watch() -> None:
        if done.wait(delay):
            return
        while True:
            display.show(count(), total, perf_counter() - began)
            if done.wait(EVERY):
                return

    watcher = Thread(target=watch, name="cernis-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        display.close()
