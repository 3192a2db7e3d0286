"""The contestants: how each is started, which questions it can answer, and its answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import IO, Any

import psutil
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.peers.installing import (
    compile_java,
    find_core,
    find_esper,
    find_flink,
    find_siddhi,
)
from benchmarks.peers.questions import PeerQuestion
from cernis.errors import CernisError

PATIENCE = 120.0
"""Processor seconds in which a contestant must start, and have the events in its memory."""
_CHECKOUT = Path(__file__).parents[2]
CAPPED = "longer than the cap"
_TICK = 0.01
"""What the system counts processor seconds in."""
_LOOK = 0.2
"""Seconds from one look at the processor seconds of a contestant to the next."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """A contestant: the command that starts it, and the languages of a question that it reads."""

    name: str
    command: Callable[[], list[str]]
    languages: tuple[str, ...]
    form: str = "parquet"

    def takes(self, question: PeerQuestion) -> bool:
        """Return whether it can answer a question."""
        return any(question.texts.get(language) for language in self.languages)

    def write_request(self, question: PeerQuestion) -> str:
        """Return a question in the languages that it reads."""
        texts = {name: text for name, text in question.texts.items() if name in self.languages}
        return json.dumps({"lateness": question.lateness, **texts})


@dataclass(frozen=True, slots=True)
class PeerAnswer:
    """What a contestant has found, in which time; None: it took longer than the cap, or failed."""

    seconds: float
    processor: float
    found: tuple[int, ...] | None
    note: str = ""


class ContestantError(CernisError):
    """A contestant refused a question or ended."""


def _run_module(name: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", f"benchmarks.peers.by_{name}"]


def _run_core() -> list[str]:
    return [str(find_core()), "-P", str(Path(__file__).with_name("by_core.py"))]


CONTESTANTS = (
    Contestant("Cernis", _run_module("cernis"), ("query", "sql", "spaseq")),
    Contestant("CORE", _run_core, ("core",), "csv"),
    Contestant("FlinkCEP", lambda: compile_java("FlinkPeer", find_flink()), ("flink",), "csv"),
    Contestant(
        "Flink SQL", lambda: compile_java("FlinkSqlPeer", find_flink()), ("flinksql",), "csv"
    ),
    Contestant("Esper", lambda: compile_java("EsperPeer", find_esper()), ("epl",), "csv"),
    Contestant("Siddhi", lambda: compile_java("SiddhiPeer", find_siddhi()), ("siddhi",), "csv"),
    Contestant("DuckDB", _run_module("duckdb"), ("duckdb",)),
    Contestant("Spark SQL", _run_module("spark"), ("spark",)),
    Contestant("polars", _run_module("polars"), ("frames",)),
    Contestant("pandas", _run_module("pandas"), ("frames",)),
    Contestant("run list", _run_module("run_list"), ("steps",)),
    Contestant("SPARQL store", _run_module("store"), ("spaseq",)),
)


class ContestantProcess:
    """A contestant that runs, with the events of one file in its memory."""

    def __init__(
        self, process: subprocess.Popen[str], contestant: Contestant, log: IO[str]
    ) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._contestant, self._log = process, contestant, log
        self._input, self._output = process.stdin, process.stdout
        self._opened: Path | None = None
        self.is_ended = False
        """Whether it has ended, by itself or at the cap."""
        self._expect(self._read(PATIENCE), "start")

    def open(self, file: Path) -> None:
        """Read the events of a file, unless it has them."""
        if file != self._opened:
            self._send(json.dumps({"open": str(file)}))
            before = _read_processor(self._process.pid)
            self._expect(self._read(before + PATIENCE), file.stem)
            self._opened = file

    def ask(self, question: PeerQuestion, cap: float) -> PeerAnswer:
        """Ask a question; more processor seconds than the cap end the contestant."""
        before, begin = _read_processor(self._process.pid), time.perf_counter()
        self._send(self._contestant.write_request(question))
        answer, after = self._read(before + cap)
        spent, seconds = max(after - before, _TICK), time.perf_counter() - begin
        if answer is None:
            return PeerAnswer(seconds, spent, None, CAPPED)
        if "error" in answer:
            return PeerAnswer(seconds, spent, None, str(answer["error"])[:200])
        return PeerAnswer(answer["seconds"], spent, tuple(answer["found"]))

    def _send(self, line: str) -> None:
        with suppress(BrokenPipeError):  # reading says why it ended
            self._input.write(line + "\n")
            self._input.flush()

    def _expect(self, read: tuple[dict[str, Any] | None, float], what: str) -> None:
        answer, _ = read
        if answer is None or "error" in answer:
            raise ContestantError(f"{self._contestant.name}, {what}: {answer or 'no answer'}")

    def _read(self, most: float) -> tuple[dict[str, Any] | None, float]:
        """Return the answer, or None where its processor seconds were too many, and these."""
        capped: list[float] = []
        is_answered = Event()

        def watch() -> None:
            while not is_answered.wait(_LOOK):
                spent = _read_processor(self._process.pid)
                if spent > most:
                    capped.append(spent)
                    end_processes(self._process.pid)
                    return

        watcher = Thread(target=watch)
        watcher.start()
        line = self._output.readline()
        is_answered.set()
        watcher.join()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer, _read_processor(self._process.pid)
        self.is_ended = True
        if capped:
            return None, capped[0]
        self._log.seek(0)
        return {"error": f"it ended without an answer: {self._log.read()[-600:]}"}, 0.0


def end_processes(pid: int) -> None:
    """End a process and those that it started."""
    for process in _list_processes(pid):
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _list_processes(pid: int) -> list[psutil.Process]:
    """Return a process and those that it started."""
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    return []


def _read_processor(pid: int) -> float:
    """Return the processor seconds of a process and of those that it started."""
    seconds = 0.0
    for process in _list_processes(pid):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


@contextmanager
def start(contestant: Contestant) -> Iterator[ContestantProcess]:
    """Start a contestant."""
    with tempfile.TemporaryDirectory(prefix="cernis-peer-") as folder:
        pipe = subprocess.PIPE
        with (
            Path(folder, "log").open("w+") as log,
            subprocess.Popen(
                contestant.command(),
                cwd=folder,  # CORE writes a log there
                env={**os.environ, "PYTHONPATH": f"{_CHECKOUT}{os.pathsep}{_CHECKOUT / 'src'}"},
                stdin=pipe,
                stdout=pipe,
                stderr=log,
                text=True,
            ) as process,
        ):
            try:
                yield ContestantProcess(process, contestant, log)
            finally:
                end_processes(process.pid)


def write_events(events: pa.Table, file: Path) -> None:
    """Write the events in the form of a file's suffix."""
    if file.suffix == ".csv":
        plain = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
        pyarrow.csv.write_csv(events, file, plain)
    else:
        pq.write_table(events, file)
