"""The progress of long runs: shown in a terminal and in a notebook, and nowhere else."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from threading import Event
from typing import Any

import pytest
from jupyter_client import manager
from rich.console import Console

import cernis
from cernis.views.progress import (
    NotebookDisplay,
    RunDisplay,
    TerminalDisplay,
    count_rows,
    find_display,
    show_progress,
)


class Recorded(RunDisplay):
    def __init__(self) -> None:
        self.seen: list[tuple[int, int | None]] = []
        self.was_shown, self.closed = Event(), False

    def show(self, events: int, total: int | None, seconds: float) -> None:
        self.seen.append((events, total))
        self.was_shown.set()

    def close(self) -> None:
        self.closed = True


def test_a_long_block_is_shown_and_a_short_one_is_not() -> None:
    long, short = Recorded(), Recorded()
    with show_progress(lambda: 7, 10, long, delay=0):
        assert long.was_shown.wait(30)
    assert long.seen[0] == (7, 10)
    assert long.closed
    with show_progress(lambda: 7, 10, short, delay=3600):
        pass
    assert short.seen == []


def test_an_error_ends_the_display() -> None:
    seen = Recorded()
    with pytest.raises(ValueError, match="x"), show_progress(lambda: 1, None, seen, delay=0):
        raise ValueError("x")
    assert seen.closed


def test_a_terminal_has_a_bar_that_leaves_no_trace() -> None:
    file = io.StringIO()
    display = TerminalDisplay(Console(file=file, force_terminal=True, width=80))
    display.show(1500, 3000, 2.0)
    display.close()
    assert "1,500 of 3,000 events" in file.getvalue()
    assert "\x1b[2K" in file.getvalue()


def test_a_notebook_has_a_line_that_goes() -> None:
    shown: list[str] = []

    class Handle:
        def update(self, text: str) -> None:
            shown.append(text)

    def display(text: str, display_id: bool) -> Handle:
        shown.append(text)
        return Handle()

    seen = NotebookDisplay(display, lambda text: text)
    seen.show(5, 10, 2.0)
    seen.show(6, None, 3.4)
    seen.close()
    assert shown == [
        '<progress value="5" max="10"></progress> 5 of 10 events, 2 s',
        "6 events, 3 s",
        "",
    ]


_CELL = """
from threading import Event
import cernis
from cernis.views.progress import NotebookDisplay

shown, show = Event(), NotebookDisplay.show

def show_and_tell(self, *args):
    show(self, *args)
    shown.set()

NotebookDisplay.show = show_and_tell

def read():
    yield {"type": "A"}
    shown.wait(60)
    yield {"type": "A"}

cernis.query("SELECT * FROM S WHERE A").run(read(), progress=True)
"""


def test_a_kernel_shows_the_line_while_a_run_lasts_and_then_its_matches() -> None:
    kernel, client = manager.start_new_kernel(kernel_name="python3", stderr=subprocess.DEVNULL)
    told: list[tuple[str, dict[str, Any]]] = []
    try:
        reply = client.execute_interactive(
            _CELL, output_hook=lambda one: told.append((one["msg_type"], one["content"]))
        )
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)
    assert reply["content"]["status"] == "ok", told
    pages = [(kind, content["data"]["text/html"]) for kind, content in told if "data" in content]
    (first, line), *_, (last, gone), (result, page) = pages
    assert (first, last, result) == ("display_data", "update_display_data", "execute_result")
    assert re.fullmatch(r"\d events, \d+ s", line)
    assert gone == ""
    assert "<b>2 matches</b>" in page
    assert "<svg" in page


def test_nothing_is_shown_where_output_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert find_display() is None
    assert cernis.query("SELECT * FROM S WHERE A").run([{"type": "A"}], progress=True).count() == 1
    assert sys.stderr.getvalue() == ""


@pytest.mark.parametrize(
    ("events", "count"),
    [
        ([{"type": "A"}], 1),
        ({"S": [{"type": "A"}], "R": [{"type": "A"}] * 2}, 3),
        ("trips.csv", None),
        (["a.csv", "b.csv"], None),
        ({"S": "trips.csv"}, None),
        (iter([]), None),
    ],
)
def test_the_total_is_known_for_what_is_in_memory(events: Any, count: int | None) -> None:
    assert count_rows(events) == count
