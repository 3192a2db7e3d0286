"""The server over real HTTP: data, runs, pages, downloads."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cernis
from cernis.workbench.label import LabelFile

CORE = {"sample": "paper-core"}
SALES = "SELECT * FROM Stocks WHERE SELL AS s ; BUY AS b"
CSV = b"type,n,ts\nA,1,1\nB,2,2\nB,3,3\n"
QUADS = b"""<http://x/a> <http://x/p> "1" <urn:e:5> .
<http://x/b> <http://x/p> "2" <urn:e:9> .
"""


def to_parquet() -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"type": ["A", "B"], "n": [1, 2]}), file)
    return file.getvalue()


def test_the_page_the_samples_and_the_limits_are_there(visitor: Any) -> None:
    assert visitor.get("/").status == 200
    samples = visitor.get("/api/samples").json
    assert {"stocks", "taxis", "homes", "cards", "cluster", "logins"} <= {s["id"] for s in samples}
    limits = visitor.get("/api/limits").json
    assert limits["upload_bytes"] == 1 << 16
    assert limits["files"] == ["served"]


def test_a_file_of_the_command_line_can_be_asked(visitor: Any) -> None:
    source = {"file": "served"}
    assert visitor.post("/api/data", source=source).json["streams"][0]["rows"] == 2
    assert visitor.run("SELECT * FROM served WHERE A ; B", source).json["count"] == "1"


@pytest.mark.parametrize(
    ("name", "content", "language", "query", "count"),
    [
        ("my events.csv", CSV, "ceql", "SELECT * FROM my_events WHERE A ; B", "2"),
        ("x.parquet", to_parquet(), "ceql", "SELECT * FROM x WHERE A ; B", "1"),
        ("x.jsonl", b'{"type": "A"}\n{"type": "B"}\n', "cq", "Q() <- A(), B()", "1"),
        (
            "x.nq",
            QUADS,
            "spaseq",
            """SELECT ?s ?t FROM STREAM U <http://u/> WHERE { SEQ (A ; B)
            DEFINE GPM A ON U { ?s <http://x/p> ?v } DEFINE GPM B ON U { ?t <http://x/p> ?w } }""",
            "1",
        ),
    ],
)
def test_an_upload_is_described_shown_and_asked(
    visitor: Any, name: str, content: bytes, language: str, query: str, count: str
) -> None:
    made = visitor.upload(name, content).json
    assert made["name"] == name
    source = {"upload": made["id"]}
    [stream] = visitor.post("/api/data", source=source).json["streams"]
    rows = visitor.get(f"/api/data/rows?source={quote(json.dumps(source))}&limit=1").json
    assert rows["total"] == stream["rows"] == made["rows"]
    assert len(rows["rows"]) == 1
    run = visitor.run(query, source, language)
    assert run.json["count"] == count, run.body
    assert visitor.send("DELETE", f"/api/uploads/{made['id']}").status == 200
    assert visitor.post("/api/data", source=source).status == 404


def test_an_upload_may_name_its_columns(visitor: Any) -> None:
    made = visitor.upload("odd.csv", b"what,when\nA,60\nB,90\nB,900\n").json
    source = {"upload": made["id"], "type": "what", "time": "when", "time_unit": "s"}
    assert visitor.post("/api/data", source=source).json["streams"][0]["time"]["column"] == "when"
    query = "SELECT * FROM odd WHERE A ; B WITHIN 1 MINUTE"
    assert visitor.run(query, source).json["count"] == "1"
    wrong = visitor.post("/api/data", source={**source, "time": "wehn"})
    assert wrong.error["message"] == "odd.csv: no column 'wehn' for the time; did you mean 'when'?"
    visitor.send("DELETE", f"/api/uploads/{made['id']}")


def test_a_run_has_its_count_plan_and_pages(visitor: Any) -> None:
    run = visitor.run(SALES, CORE).json
    assert (run["count"], run["events"], run["kind"]) == ("11", 7, "matches")
    assert run["plan"]["class"].startswith("unary")
    assert run["variables"] == ["s", "b"]
    at = f"/api/runs/{run['run']}"
    pages = [visitor.get(f"{at}/matches?offset={n}&limit=4").json["rows"] for n in (0, 4, 8)]
    rows = [row for page in pages for row in page]
    assert [row["index"] for row in rows] == [str(n) for n in range(11)]
    assert len({json.dumps(row["events"]) for row in rows}) == 11
    sample = visitor.get(f"{at}/sample?n=3&seed=1").json["rows"]
    assert all(any(one["events"] == row["events"] for row in rows) for one in sample)
    [event] = visitor.get(f"{at}/events?rows=4").json["events"]
    assert (event["type"], event["stream"], event["number"]) == ("SELL", "Stocks", 4)


def test_partial_matches_are_counted_step_by_step(visitor: Any) -> None:
    query = (
        "SELECT * FROM Stocks WHERE SELL AS s ; BUY AS b FILTER b[price > 200] PARTITION BY [name]"
    )
    run = visitor.run(query, CORE).json
    assert run["partition"] == ["name"]
    at = f"/api/runs/{run['run']}/funnel"
    found = visitor.post(at).json
    assert [step["reached"] for step in found["steps"]] == ["4", run["count"]]
    [lost] = found["steps"][1]["lost"]
    assert lost["obstacle"] == "b[price > 200]"
    assert int(lost["without"]) == int(run["count"]) + int(lost["more"])
    assert {one["obstacle"] for one in found["relaxed"]} >= {"b[price > 200]"}
    own = visitor.post(at, key=["AMZN"]).json
    assert own["about"] == "key 'AMZN'"
    assert visitor.post(at, key="AMZN").status == 400
    assert visitor.post(at, end=10**400).error["message"].startswith("no event of this run is row")


def test_matches_are_drawn_and_labels_measured(visitor: Any, tmp_path: Path) -> None:
    run = visitor.run(SALES, CORE).json
    at = f"/api/runs/{run['run']}"
    first = visitor.post(f"{at}/draw", n=6, seed=1).json
    lines = [json.dumps(first["head"])]
    lines += [
        json.dumps({**one["line"], "label": "ynuyyy"[i]}) for i, one in enumerate(first["drawn"])
    ]
    text = "\n".join(lines).replace('"u"', '"unsure"')
    rest = visitor.post(f"{at}/draw", n=20, seed=2, labels=text).json["drawn"]
    ids = [one["line"]["id"] for one in (*first["drawn"], *rest)]
    assert len({*ids}) == len(ids) == 11
    assert set(first["drawn"][0]["row"]["events"]) == {"s", "b"}
    measured = visitor.post(f"{at}/measure", labels=text, width=0.5).json
    assert (measured["value"], measured["labelled"]) == (0.8, 5)
    assert measured["low"] < 0.8 < measured["high"]
    assert "1 label unsure, left out" in measured["text"]
    wrong = visitor.post(f"{at}/measure", labels=text.replace('"y"', '"yes"', 1))
    assert wrong.error["message"].startswith("labels.jsonl, line 2: a label has")
    other = visitor.run("SELECT * FROM Stocks WHERE SELL AS x", CORE).json
    refused = visitor.post(f"/api/runs/{other['run']}/draw", labels=text, n=1)
    assert "line 1: these are labels of another query" in refused.error["message"]
    kept = tmp_path / "labels.jsonl"
    kept.write_text(text)
    matches = cernis.query(SALES).run(
        [{"type": "SELL"}]
    )  # the command line reads what the page wrote
    assert len(LabelFile.open(kept, matches).labels) == 6


def test_a_timeline_has_exact_numbers(visitor: Any) -> None:
    run = visitor.run(SALES, CORE).json
    at = f"/api/runs/{run['run']}/timeline"
    whole = visitor.get(f"{at}?width=10").json
    assert sum(map(int, whole["ends"]["bins"])) == 11
    assert {lane["name"]: lane["total"] for lane in whole["lanes"]} == {"SELL": 4, "BUY": 3}
    part = visitor.get(f"{at}?from={run['time']['from']}&to={run['time']['from'] + 600_000}").json
    assert sum(lane["total"] for lane in part["lanes"]) == 3
    assert visitor.get(f"{at}?from=x").error["code"] == "bad_request"


def test_a_run_can_be_followed_event_by_event(visitor: Any) -> None:
    run = visitor.run(SALES, CORE).json
    at = f"/api/runs/{run['run']}"
    states = {state["id"]: state["name"] for state in run["automaton"]["states"]}
    step = visitor.get(f"{at}/step?row=3").json
    assert step["event"]["type"] == "BUY"
    assert step["completed"] == "3"
    assert [(states[one["state"]], one["partial"]) for one in step["states"]][-1][1] == "3"
    assert {edge["to"] for edge in step["taken"]} <= set(states)
    counted = visitor.get(f"{at}/automaton").json
    assert max(edge["count"] or 0 for edge in counted["edges"]) == 4
    assert counted["counted"] == 7
    assert visitor.get(f"{at}/step?row=7").status == 404


def test_events_that_are_no_match_say_where_they_stop(visitor: Any) -> None:
    query = "SELECT * FROM Stocks WHERE SELL AS s ; BUY AS b FILTER b[price > 1000]"
    run = visitor.run(query, CORE).json["run"]
    why = visitor.post(f"/api/runs/{run}/why", rows=[0, 3]).json
    assert (why["matches"], why["stopped_at"]) == (False, 3)
    assert [step["ok"] for step in why["steps"]] == [True, False]
    assert "price > 1000" in why["steps"][1]["condition"]
    assert visitor.post(f"/api/runs/{run}/why", rows=[0, 6]).json["matches"] is True


def test_rows_of_a_run_are_places_in_the_order_of_time(visitor: Any) -> None:
    source = {"upload": visitor.upload("late.csv", b"type,ts\nB,9\nA,1\nC,5\n").json["id"]}
    run = visitor.run("SELECT a, b FROM late WHERE A AS a ; B AS b", source).json["run"]
    at = f"/api/runs/{run}"
    [row] = visitor.get(f"{at}/matches").json["rows"]
    assert row["events"] == {"a": [0], "b": [2]}
    events = visitor.get(f"{at}/events?rows=0,1,2").json["events"]
    assert [(one["type"], one["number"], one["ts"]) for one in events] == [
        ("A", 1, 1),
        ("C", 2, 5),
        ("B", 0, 9),
    ]
    step = visitor.get(f"{at}/step?row=1").json
    assert step["event"]["type"] == "C"
    assert [one["since"] for one in step["states"]] == [1]
    assert step["waiting"][0]["events"] == [0]
    marks = visitor.get(f"{at}/timeline").json["matches"][0]["marks"]
    assert [mark["row"] for mark in marks] == [0, 2]
    assert visitor.post(f"{at}/why", rows=[0, 1]).json["stopped_at"] == 1
    visitor.send("DELETE", f"/api/uploads/{source['upload']}")


def test_an_event_is_named_as_the_command_line_and_python_number_it(visitor: Any) -> None:
    """The rows of the input count from 0; the order of time is another one."""
    rows = b"type,ts\nB,9\nA,1\nC,5\n"
    query = "SELECT a, b FROM late WHERE A AS a ; B AS b"
    table = pa.table({"type": ["B", "A", "C"], "ts": [9, 1, 5]})
    [match] = cernis.query(query).run(table, time="ts")
    source = {"upload": visitor.upload("late.csv", rows).json["id"]}
    run = visitor.run(query, source).json["run"]
    at = f"/api/runs/{run}"
    [row] = visitor.get(f"{at}/matches").json["rows"]
    assert (row["start_number"], row["end_number"]) == (match.start, match.end) == (1, 0)
    events = visitor.get(f"{at}/events?rows=0,1,2").json["events"]
    assert [one["name"] for one in events] == ["row 1", "row 2", "row 0"]
    step = visitor.get(f"{at}/step?row=1").json
    assert (step["event"]["name"], step["waiting"][0]["text"]) == ("row 2", "a: row 1")
    marks = visitor.get(f"{at}/timeline").json["matches"][0]["marks"]
    assert [mark["name"] for mark in marks] == ["row 1", "row 0"]
    why = visitor.post(f"{at}/why", rows=[0, 1]).json
    assert [one["name"] for one in why["steps"]] == ["row 1", "row 2"]
    assert "row 2 is C" in why["steps"][1]["reason"]
    found = visitor.get(f"{at}/find?number=2&limit=1").json
    assert ([one["name"] for one in found["events"]], found["offset"]) == (["row 2"], 1)
    visitor.send("DELETE", f"/api/uploads/{source['upload']}")


def test_graphs_are_named_by_their_streams(visitor: Any) -> None:
    query = """PREFIX pred: <http://example/>
    SELECT ?card FROM STREAM S1 <urn:s> WHERE { SEQ (A) DEFINE GPM A ON S1 { ?card pred:id ?i } }"""
    run = visitor.run(query, {"sample": "cards"}, "spaseq").json
    assert run["keys"] == ["triples", "stream"]
    found = visitor.get(f"/api/runs/{run['run']}/find?limit=2&key=triples&value=/card/132%3E").json
    assert found["events"][0]["name"] == "S1 3"
    assert 1 < found["total"] < run["events"]
    every = visitor.get(f"/api/runs/{run['run']}/find?limit=2&key=stream&value=S1").json
    assert every["total"] == run["events"]


def test_events_are_found_by_the_value_of_a_key(visitor: Any) -> None:
    run = visitor.run(f"{SALES} PARTITION BY [name]", CORE).json
    assert run["keys"][0] == "name"
    assert {"price", "type"} <= set(run["keys"])
    at = f"/api/runs/{run['run']}/find"
    amazon = visitor.get(f"{at}?key=name&value=AMZN").json
    column = amazon["columns"].index("name")
    assert {one["values"][column] for one in amazon["events"]} == {"AMZN"}
    assert amazon["total"] == len(amazon["events"]) == 2
    second = visitor.get(f"{at}?key=name&value=AMZN&offset=1&limit=1").json
    assert second["events"] == amazon["events"][1:2]
    number = amazon["events"][1]["row"]
    assert visitor.get(f"{at}?key=name&value=AMZN&number={number}").json["offset"] == 1
    assert visitor.get(f"{at}?key=price&value=1900").json["total"] == 1
    assert visitor.get(f"{at}?key=price&value=cheap").json["total"] == 0
    assert visitor.get(f"{at}?key=name&value=nobody").json["events"] == []
    assert visitor.get(f"{at}?number=999999&limit=5").json["events"][-1]["row"] == 6
    assert visitor.get(f"{at}?key=nothing&value=1").status == 404


@pytest.mark.parametrize(
    ("select", "events"),
    [
        ("s[price] AS price", {"s": [2], "": [3]}),
        ("1 AS one", {"": [2, 3]}),
        ("s, b[price] AS price", {"s": [2], "b": [3]}),
    ],
)
def test_a_match_of_values_has_its_events(visitor: Any, select: str, events: Any) -> None:
    run = visitor.run(f"SELECT {select} FROM Stocks WHERE SELL AS s ; BUY AS b", CORE).json["run"]
    assert visitor.get(f"/api/runs/{run}/matches?limit=1").json["rows"][0]["events"] == events
    drawn = visitor.get(f"/api/runs/{run}/sample?n=3&seed=1").json["rows"]
    assert [sorted(row["events"]) for row in drawn] == [sorted(events)] * 3
    counted = visitor.run("SELECT COUNT(*) FROM Stocks WHERE SELL ; BUY", CORE).json["run"]
    assert visitor.get(f"/api/runs/{counted}/matches").json["rows"][0]["events"] == {}


def test_two_streams_have_rows_of_their_own(visitor: Any) -> None:
    run = visitor.run(
        "SELECT f, j FROM parking, traffic WHERE FULL AS f ; JAM AS j WITHIN 1 MINUTE",
        {"sample": "city"},
    ).json["run"]
    row = visitor.get(f"/api/runs/{run}/matches?limit=1").json["rows"][0]
    [full], [jam] = row["events"]["f"], row["events"]["j"]
    events = visitor.get(f"/api/runs/{run}/events?rows={full},{jam}").json["events"]
    assert [one["stream"] for one in events] == ["parking", "traffic"]
    source = quote(json.dumps({"sample": "city"}))
    for event in events:
        asked = f"source={source}&stream={event['stream']}&offset={event['number']}&limit=1"
        [[*values]] = visitor.get(f"/api/data/rows?{asked}").json["rows"]
        assert set(values) <= set(event["values"])


def test_what_cannot_be_followed_says_so(visitor: Any) -> None:
    run = visitor.run("Q(y) <- S(a: x, b: y), T(a: x)", {"sample": "paper-pcea"}, "cq").json["run"]
    answer = visitor.get(f"/api/runs/{run}/step?row=0")
    assert answer.error["message"].startswith("steps are shown for matches")
    assert visitor.get(f"/api/runs/{run}/timeline").json["lanes"][0]["total"] == 2


def test_a_query_with_a_mistake_comes_back_with_its_place(visitor: Any) -> None:
    checked = visitor.post(
        "/api/check", language="ceql", query="SELECT * FROM Stocks WHERE SELL AS s )", source=CORE
    )
    assert checked.json["diagnostics"][0]["column"] == 38
    run = visitor.run("SELECT * FROM Stocks WHERE SELL AS s FILTER s[prise > 1]", CORE)
    assert run.status == 400
    assert run.error["code"] == "query"
    assert run.error["diagnostics"][0]["help"] == "did you mean 'price'?"


def test_the_code_of_a_mistake_has_a_page(visitor: Any) -> None:
    checked = visitor.post("/api/check", language="ceql", query="SELCT", source=None).json
    assert checked["diagnostics"][0]["code"] == "syntax"
    page = visitor.get("/codes/syntax")
    assert page.status == 200
    assert b"<h1><code>syntax</code></h1><p>The text is not a query" in page.body
    assert b"<code>NOT B</code> is one event" in visitor.get("/codes/not-between").body
    assert visitor.get("/codes/%3Cb%3E").error["message"] == "there is no such code"


def test_words_are_completed_from_the_data(visitor: Any) -> None:
    asked = {"query": "SELECT * FROM Stocks WHERE SELL AS s FILTER s[pr", "source": CORE}
    found = visitor.post("/api/complete", language="ceql", line=1, column=49, **asked).json
    assert found["options"][0] == {"label": "price", "kind": "attribute", "detail": "int"}


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_download_is_cut_at_the_limit_and_says_so(visitor: Any, form: str) -> None:
    source = {
        "upload": visitor.upload("many.csv", b"type\n" + b"A\n" * 20 + b"B\n" * 20).json["id"]
    }
    run = visitor.run("SELECT * FROM many WHERE A AS a ; B AS b", source).json["run"]
    got = visitor.get(f"/api/runs/{run}/download?format={form}")
    assert got.headers["x-cernis-matches"] == "50/400"
    assert f"matches-first-50.{form}" in got.headers["content-disposition"]
    if form == "parquet":
        assert pq.read_table(io.BytesIO(got.body)).num_rows == 50
    elif form == "csv":
        lines = got.body.decode().splitlines()
        assert lines[0] == '"start","end","start_ts","end_ts","a","b"'
        assert len(lines) == 51
    else:
        assert len(got.body.splitlines()) == 50
    visitor.send("DELETE", f"/api/uploads/{source['upload']}")


def test_the_oldest_run_goes_with_a_clear_message(visitor: Any) -> None:
    runs = [visitor.run(SALES, CORE).json for _ in range(3)]
    assert runs[2]["dropped"] == runs[0]["run"]
    gone = visitor.get(f"/api/runs/{runs[0]['run']}/matches")
    assert gone.status == 410
    assert gone.error["message"] == (
        "this run was dropped: a visitor keeps 2 runs; run the query again"
    )
    assert visitor.get(f"/api/runs/{runs[1]['run']}/matches").status == 200
    assert visitor.send("DELETE", f"/api/runs/{runs[1]['run']}").status == 200
    assert visitor.get("/api/runs/0000000000000000/matches").status == 404


def test_requests_that_make_no_sense_have_an_answer(visitor: Any) -> None:
    assert visitor.send("POST", "/api/runs", b"{").error["message"] == "this is no JSON"
    assert visitor.send("POST", "/api/runs", b"[" * 200_000).status == 400
    assert visitor.run(SALES, CORE, "cobol").error["code"] == "bad_request"
    assert visitor.run(SALES, {"sample": "nothing"}).error["code"] == "not_found"
    assert visitor.run(SALES, {"sample": "cards"}).error["code"] == "query"
    assert visitor.get("/api/nothing").error["code"] == "not_found"
    assert visitor.get("/assets/../../secret").status == 404
    assert visitor.send("PUT", "/api/runs").status == 405
