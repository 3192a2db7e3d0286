"""A worker: `python -m cernis.serve.worker` answers requests of one visitor, one at a time.

It reads frames from its standard input and writes frames to its standard output (`wire`), the
first one when it is ready. Requests name only what the server has chosen: files by their path,
runs by their id. The text of a query can name streams and tables of the loaded data, and opens
nothing else.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from cernis.errors import BudgetError, CernisError, Diagnostic, QueryError
from cernis.results.index_timeline import LanesBy
from cernis.serve.check import KnownData, diagnose, write_diagnostic
from cernis.serve.complete import complete
from cernis.serve.data import EventData, SourceFile, read_events
from cernis.serve.failure import RequestError
from cernis.serve.limits import Limits
from cernis.serve.rdf import GraphData, read_graphs
from cernis.serve.runs import HeldEventRun, HeldLinkedRun, HeldRun
from cernis.serve.samples import load_sample
from cernis.serve.wire import read_frame, write_frame, write_json
from cernis.serve.workbench import count_funnel, draw_matches, measure_labels
from cernis.workbench.label import By

_MOST_SOURCES = 3
_SPARE_MEMORY = 1 << 30
_LARGEST_FILE = 1 << 32
Source = EventData | GraphData
_NARROWER = (
    "The playground has one budget for all: a smaller WITHIN, PARTITION BY or an equality "
    "between the events helps."
)


class Workroom:
    """The data and the runs of one visitor."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._sources: OrderedDict[str, Source] = OrderedDict()
        self._runs: dict[str, HeldRun] = {}
        self._labels: dict[str, str] = {}
        """What people call a file, by its path."""

    def answer(self, request: Mapping[str, Any]) -> Any:
        """Return the answer to a request."""
        ask: Callable[..., Any] | None = getattr(self, f"do_{request['do']}", None)
        if ask is None:
            raise RequestError("bad_request", f"a worker cannot {request['do']!r}")
        return ask(**{name: value for name, value in request.items() if name != "do"})

    def hide_paths(self, text: str) -> str:
        """Return a text with the names that people know in place of paths."""
        for path, label in self._labels.items():
            text = text.replace(path, label)
        return text

    # ---------------------------------------------------------------- data

    def _load(self, source: Mapping[str, Any]) -> Source:
        key = json.dumps(source, sort_keys=True)
        if key not in self._sources:
            self._sources[key] = self._read(source)
            while len(self._sources) > _MOST_SOURCES:
                self._sources.popitem(last=False)
        self._sources.move_to_end(key)
        return self._sources[key]

    def _read(self, source: Mapping[str, Any]) -> Source:
        if "sample" in source:
            return load_sample(source["sample"])
        files = [SourceFile(**file) for file in source["files"]]
        self._labels.update({file.path: file.label for file in files})
        is_graph = [file.format == "nquads" for file in files]
        if any(is_graph) and not all(is_graph):
            raise RequestError("data", "choose RDF streams or tables of events, not both at once")
        return read_graphs(files) if any(is_graph) else read_events(files, **source["reading"])

    def do_describe(self, source: Mapping[str, Any]) -> Any:
        return self._load(source).describe()

    def do_rows(self, source: Mapping[str, Any], stream: str, offset: int, limit: int) -> Any:
        data = self._load(source)
        names = list(data.tables if isinstance(data, EventData) else data.streams)
        if (stream or names[0]) not in names:
            raise RequestError("not_found", "these events have no such stream")
        return data.page(stream or names[0], offset, limit)

    # ---------------------------------------------------------------- text

    def do_check(self, language: str, query: str, schema: Mapping[str, Any] | None) -> Any:
        return {"diagnostics": diagnose(language, query, KnownData.of(schema))}

    def do_complete(
        self, language: str, query: str, line: int, column: int, schema: Mapping[str, Any] | None
    ) -> Any:
        return complete(language, query, line, column, KnownData.of(schema))

    # ---------------------------------------------------------------- runs

    def do_run(self, run: str, language: str, query: str, source: Mapping[str, Any]) -> Any:
        made = make_run(language, query, self._load(source), self.limits.memory_bytes // 2)
        self._runs[run] = made
        return {"run": run, **made.summarize()}

    def _run(self, run: str) -> HeldRun:
        if run not in self._runs:
            raise RequestError("not_found", "there is no such run")
        return self._runs[run]

    def do_drop(self, run: str) -> Any:
        self._runs.pop(run, None)
        return {}

    def do_timeline(
        self, run: str, start: float | None, stop: float | None, width: int, lanes: LanesBy
    ) -> Any:
        return self._run(run).timeline(start, stop, width, lanes)

    def do_automaton(self, run: str) -> Any:
        return self._run(run).draw_automaton(counted=True)

    def do_step(self, run: str, row: int) -> Any:
        return self._run(run).step(row)

    def do_why(self, run: str, rows: list[int]) -> Any:
        return self._run(run).explain_rows(rows)

    def do_funnel(self, run: str, key: list[str], end: int | None) -> Any:
        return count_funnel(self._run(run), tuple(key) or None, end)

    def do_draw(self, run: str, labels: str, by: By | None, n: int, seed: int) -> Any:
        return draw_matches(self._run(run), labels, by, n, seed)

    def do_measure(self, run: str, labels: str, by: By | None, width: float) -> Any:
        return measure_labels(self._run(run), labels, by, width)

    def do_matches(self, run: str, offset: int, limit: int) -> Any:
        return self._run(run).page(offset, limit)

    def do_sample(self, run: str, n: int, seed: int | None) -> Any:
        return self._run(run).sample(n, seed)

    def do_events(self, run: str, rows: list[int]) -> Any:
        return self._run(run).list_events(rows)

    def do_find(
        self, run: str, offset: int, limit: int, key: str, value: str, number: int | None
    ) -> Any:
        return self._run(run).find_events(offset, limit, key, value, number)

    def do_download(self, run: str, path: str, form: str, most: int, size: int) -> Any:
        return self._run(run).download(Path(path), form, most, size)


def make_run(language: str, text: str, data: Source, memory: int) -> HeldRun:
    """Run a query over some data; `memory` is what a database may use."""
    match data:
        case EventData() if language == "sql":
            from cernis.serve.row_run import HeldRowRun

            return HeldRowRun(text, data, memory)
        case GraphData() if language == "spaseq":
            return HeldLinkedRun(text, data)
        case EventData() if language in ("ceql", "cq"):
            return HeldEventRun(language, text, data)
    wanted = "SPAseQ" if isinstance(data, GraphData) else "CEQL, a conjunctive query or SQL"
    raise QueryError([Diagnostic(f"these events are for {wanted}: choose the language")], text)


def answer_frame(room: Workroom, frame: bytes) -> bytes:
    """Return the frame that answers a request; no traceback goes into it."""
    try:
        return b"+" + write_json(room.answer(json.loads(frame)))
    except RequestError as refusal:
        told = refusal.to_json()["error"]
    except QueryError as error:
        text = json.loads(frame).get("query", "")
        mistakes = [write_diagnostic(one, text, "error", []) for one in error.diagnostics]
        told = {"code": "query", "message": str(error), "diagnostics": mistakes}
    except BudgetError as error:
        told = {"code": "budget", "message": str(error), "hint": _NARROWER, "kind": error.code}
    except CernisError as error:
        told = {"code": "data", "message": str(error), "kind": error.code}
    except MemoryError:
        told = {"code": "memory", "message": room.limits.explain_memory()}
    except Exception:
        traceback.print_exc()
        told = {"code": "internal", "message": "an error inside Cernis; the server's log has more"}
    told["message"] = room.hide_paths(told["message"])
    return b"-" + write_json(told)


def limit_process(memory: int) -> None:
    """Let allocations fail far beyond the limit, where the server's glance comes too late.

    The server goes first where processors are few, and no file grows without end.
    """
    with suppress(ImportError, OSError, ValueError, AttributeError):
        import resource

        os.nice(5)
        resource.setrlimit(resource.RLIMIT_DATA, (memory + _SPARE_MEMORY,) * 2)
        resource.setrlimit(resource.RLIMIT_FSIZE, (_LARGEST_FILE,) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Answer requests until the server goes."""
    limits = Limits(memory_bytes=int(sys.argv[1]))
    limit_process(limits.memory_bytes)
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # what a library prints must not get among the frames
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    room = Workroom(limits)
    answers.write(write_frame(b"+"))  # ready
    answers.flush()
    while (frame := read_frame(requests)) is not None:
        answers.write(write_frame(answer_frame(room, frame)))
        answers.flush()


if __name__ == "__main__":
    main()
