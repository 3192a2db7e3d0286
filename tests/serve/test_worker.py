"""A worker's answers to odd files: every one is JSON, and no error is the worker's own."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("starlette")

from cernis.serve.limits import Limits
from cernis.serve.worker import Workroom, answer_frame


def to_parquet(**columns: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


FILES = {
    "empty.csv": b"",
    "header.csv": b"type,ts\n",
    "no_type.csv": b"a,b\n1,2\n3,4\n",
    "no_times.csv": b"type,ts\nA,foo\nB,bar\n",
    "truths.csv": b"type,ts\nA,true\nB,false\n",
    "nulls.csv": b"type,ts\nA,\n,4\nB,5\n",
    "floats.csv": b"type,ts,x\nA,1.5,nan\nB,2.5,inf\n",
    "large.csv": b"type,n\nA,99999999999999999999\nB,-9223372036854775808\n",
    "days.csv": b"event,time\nA,2024-01-01\nB,2024-01-02\n",
    "twice.csv": b"type,type\nA,B\n",
    "numbers.csv": b"type,x\n1,2\n2,3\n",
    "nested.jsonl": b'{"type":"A","u":{"id":1,"t":[1,2]}}\n{"type":"B","u":{"id":2}}\n',
    "mixed.jsonl": b'{"type":"A","x":1}\n{"type":"B","x":"s"}\n{"type":1}\n',
    "list.jsonl": b"[1,2]\n",
    "kinds.parquet": to_parquet(
        type=pa.array(["A", "B"]).dictionary_encode(),
        ts=pa.array([1, 2], pa.timestamp("ns", "Europe/Rome")),
        lasts=pa.array([1, 2], pa.duration("ns")),
        raw=[b"\xff", None],
        exact=[Decimal("1.5"), None],
        several=[[1], []],
    ),
    "nothing.parquet": to_parquet(type=pa.array([], pa.string()), ts=pa.array([], pa.int64())),
}
QUERIES = (
    ("ceql", "SELECT * FROM S WHERE A AS a ; B AS b"),
    ("ceql", "SELECT COUNT(*) FROM S WHERE *"),
    ("ceql", "SELECT LONGEST a FROM S WHERE A:+ AS a WITHIN 5 SECONDS"),
    ("ceql", "SELECT COUNT(*) AS n FROM S WHERE A ; B GROUP BY END"),
    ("ceql", "SELECT * FROM S JOIN t ON a = t.b WHERE A"),
    ("ceql", "INSERT INTO D SELECT a[x] AS x FROM S WHERE A AS a"),
    ("sql", "SELECT * FROM S MATCH_RECOGNIZE (ORDER BY ts PATTERN (a b?) DEFINE a AS type <> 'B')"),
    ("sql", "SELECT count(*) AS n FROM S MATCH_RECOGNIZE (PARTITION BY type PATTERN (a*))"),
    ("sql", "SELECT * FROM S"),
)
FOLLOWED: tuple[dict[str, Any], ...] = (
    {"do": "matches", "offset": 0, "limit": 5},
    {"do": "matches", "offset": 10**30, "limit": 5},
    {"do": "sample", "n": 3, "seed": 1},
    {"do": "events", "rows": [0, 10**12]},
    {"do": "timeline", "start": None, "stop": None, "width": 7, "lanes": "variable"},
    {"do": "timeline", "start": 1e300, "stop": -1e300, "width": 7, "lanes": "type"},
    {"do": "step", "row": 1},
    {"do": "automaton"},
    {"do": "why", "rows": [0, 1]},
    {"do": "funnel", "key": [], "end": None},
    {"do": "funnel", "key": ["A"], "end": 10**12},
    {"do": "draw", "labels": "", "by": None, "n": 3, "seed": 1},
    {"do": "draw", "labels": "", "by": "day", "n": 3, "seed": 1},
    {"do": "measure", "labels": "[]", "by": None, "width": 0.1},
    {"do": "find", "offset": 0, "limit": 5, "key": "type", "value": "A", "number": None},
    {"do": "find", "offset": 9, "limit": 5, "key": "ts", "value": "A", "number": 10**12},
)


def ask(room: Workroom, **request: Any) -> dict[str, Any] | None:
    """Return the answer of a worker; None where it refuses."""
    frame = answer_frame(room, json.dumps(request).encode())
    told = json.loads(frame[1:], parse_constant=pytest.fail)
    if frame[:1] == b"+":
        return dict(told) if isinstance(told, dict) else {}
    assert told["code"] in ("data", "query", "bad_request", "not_found"), (request, told)
    return None


@pytest.mark.parametrize("name", FILES)
def test_an_odd_file_has_answers_and_messages_alone(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(FILES[name])
    room, form = Workroom(), name.rpartition(".")[2]
    file = {"path": str(path), "stream": "S", "label": name, "format": form}
    source = {"files": [file], "reading": {}}
    described = ask(room, do="describe", source=source)
    if described is None:
        return
    for offset in (0, 10**30):
        ask(room, do="rows", source=source, stream="", offset=offset, limit=5)
    for language, query in QUERIES:
        asked = {"language": language, "query": query}
        ask(room, do="check", **asked, schema=described["schema"])
        if ask(room, do="run", run="r", **asked, source=source) is not None:
            for request in FOLLOWED:
                ask(room, run="r", **request)
            for form in ("csv", "jsonl", "parquet"):
                out = str(tmp_path / f"out.{form}")
                ask(room, do="download", run="r", path=out, form=form, most=3, size=1 << 20)


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_download_is_bounded_in_bytes_too(form: str, tmp_path: Path) -> None:
    room = Workroom()
    query = "SELECT * FROM Stocks WHERE (SELL OR BUY) AS a ; (SELL OR BUY) AS b"
    asked = {"language": "ceql", "query": query, "source": {"sample": "paper-core"}}
    ask(room, do="run", run="r", **asked)
    path = tmp_path / f"out.{form}"
    bounds = {"path": str(path), "form": form, "most": 1000}
    whole = ask(room, do="download", run="r", **bounds, size=1 << 30)
    assert whole == {"written": 21, "total": "21"}
    size = path.stat().st_size
    cut = ask(room, do="download", run="r", **bounds, size=size // 2)
    assert cut is not None
    if form == "jsonl":
        lines = path.read_text().splitlines()
        assert 0 < len(lines) == cut["written"] < 21
        assert path.stat().st_size <= size // 2
        assert all(json.loads(line) for line in lines)
    elif form == "csv":  # a batch is written whole
        assert len(path.read_text().splitlines()) == cut["written"] + 1
    else:
        assert pq.read_table(path).num_rows == cut["written"]


VEE = """SELECT * FROM Stocks MATCH_RECOGNIZE (
  ORDER BY ts MEASURES FIRST(price) AS first, LAST(price) AS last
  PATTERN (a up+) DEFINE up AS price > PREV(price))"""


def test_sql_has_rows_a_timeline_and_why_not() -> None:
    room = Workroom()
    asked = {"language": "sql", "query": VEE, "source": {"sample": "paper-core"}}
    run = ask(room, do="run", run="r", **asked)
    assert run is not None
    assert (run["kind"], run["count"], run["variables"]) == ("rows", "3", ["A", "UP"])
    assert [state["name"] for state in run["automaton"]["states"]] == [
        "start",
        "after A",
        "after UP",
    ]
    page = ask(room, do="matches", run="r", offset=0, limit=5)
    assert page is not None
    assert [row["events"] for row in page["rows"]] == [
        {"A": [at], "UP": [at + 1]} for at in (0, 3, 5)
    ]
    view = ask(room, do="timeline", run="r", start=None, stop=None, width=4, lanes="variable")
    assert view is not None
    assert [lane["name"] for lane in view["lanes"]] == ["A", "UP"]
    assert [match["index"] for match in view["matches"]] == ["0", "1", "2"]
    why = ask(room, do="why", run="r", rows=[2, 3])
    assert why is not None
    assert not why["matches"]
    assert (
        "UP AS price > PREV(price): row 3 does not fit: price = 80, PREV(price) = 80" in why["text"]
    )


def test_a_statement_has_a_part_of_the_memory() -> None:
    room = Workroom(Limits(memory_bytes=128 << 20))
    query = "SELECT list(a.price), b.range FROM Stocks a, range(10000000) b GROUP BY b.range"
    asked = {"do": "run", "run": "r", "language": "sql", "query": query}
    frame = answer_frame(room, json.dumps({**asked, "source": {"sample": "paper-core"}}).encode())
    assert json.loads(frame[1:])["code"] == "memory"
