"""Visitors who mean harm, or who only make mistakes: each is answered, and disturbs nobody."""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import psutil
import pytest

from cernis.serve.limits import Limits
from cernis.serve.visitors import make_label, make_stream_name

CORE = {"sample": "paper-core"}
PAIRS = "SELECT * FROM S WHERE A AS a ; B AS b"


def list_workers() -> set[int]:
    """Return the worker processes of all servers in this process."""
    children = psutil.Process().children()
    return {one.pid for one in children if one.status() != psutil.STATUS_ZOMBIE}


# ------------------------------------------------------------------ other sites


def test_a_host_that_is_not_this_server_is_refused(visitor: Any) -> None:
    answer = visitor.send("GET", "/api/samples", Host="evil.example:80")
    assert (answer.status, answer.error["code"]) == (421, "host")
    assert visitor.send("GET", "/api/samples", Host="localhost").status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/data"),
        ("GET", "/api/uploads"),
        ("GET", f"/api/data/rows?source={quote(json.dumps(CORE))}"),
        ("GET", "/api/runs/0000000000000000/download"),
        ("HEAD", "/api/uploads"),
        ("GET", "/api/samples"),
        ("GET", "/assets/app.js"),
        ("POST", "/api/leave"),
    ],
)
def test_a_request_of_another_site_is_refused(
    visitor: Any, method: str, path: str, headers: Any
) -> None:
    body = json.dumps({"source": CORE}).encode() if method == "POST" else None
    answer = visitor.send(method, path, body, **headers)
    assert answer.status == 403
    assert method == "HEAD" or answer.error["code"] == "origin"
    assert "set-cookie" not in answer.headers


def test_another_site_may_link_to_the_page_and_starts_nothing_by_it(
    newcomer: Callable[[], Any],
) -> None:
    before = list_workers()
    for path in ("/", "/codes/syntax"):
        answer = newcomer().send("GET", path, Sec_Fetch_Site="cross-site", Origin="null")
        assert answer.status == 200
        assert "set-cookie" not in answer.headers
    assert list_workers() == before


@pytest.mark.parametrize(
    "path", ["/api/uploads", f"/api/data/rows?source={quote(json.dumps(CORE))}"]
)
def test_an_image_of_another_site_lacks_the_header(newcomer: Callable[[], Any], path: str) -> None:
    """Over plain HTTP to another machine, browsers say nothing of the site that asks."""
    plain, before = newcomer(), list_workers()
    plain.headers = {}
    answer = plain.get(path)
    assert (answer.status, answer.error["code"]) == (403, "header")
    assert plain.cookie == ""
    assert list_workers() == before


def test_a_download_is_a_link_and_belongs_to_a_visitor(
    visitor: Any, newcomer: Callable[[], Any]
) -> None:
    run = visitor.run("SELECT * FROM Stocks WHERE SELL", CORE).json["run"]
    link = f"/api/runs/{run}/download?format=jsonl"
    stranger, owner = newcomer(), newcomer()
    stranger.headers = owner.headers = {}
    owner.cookie = visitor.cookie
    assert owner.get(link).status == 200
    assert stranger.get(link).status == 404
    assert stranger.cookie == ""


def test_a_form_of_another_site_lacks_the_header(newcomer: Callable[[], Any]) -> None:
    plain = newcomer()
    plain.headers = {}
    assert plain.post("/api/data", source=CORE).error["code"] == "header"
    assert plain.post("/api/leave").status == 204


@pytest.mark.parametrize("path", ["/", "/api/samples"])
def test_a_websocket_is_refused(visitor: Any, path: str) -> None:
    headers = {"Connection": "keep-alive, Upgrade", "Upgrade": "WebSocket"}
    headers |= {"Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec_WebSocket_Version": "13"}
    answer = visitor.send("GET", path, **headers)
    assert (answer.status, answer.error["message"]) == (400, "this server has no WebSockets")
    assert visitor.send("GET", path, Connection="Upgrade", Upgrade="h2c").status == 200


def test_every_answer_keeps_the_page_to_itself(visitor: Any) -> None:
    for path in ("/", "/api/samples", "/api/nothing", "/assets/nothing.js"):
        headers = visitor.get(path).headers
        policy = headers["content-security-policy"]
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers
    nonces = {visitor.get("/").headers["content-security-policy"] for _ in range(2)}
    assert len(nonces) == 2


def test_the_cookie_is_out_of_reach_and_never_the_visitors_choice(
    newcomer: Callable[[], Any],
) -> None:
    chooser = newcomer()
    chooser.cookie = "cernis-0=chosen"
    answer = chooser.get("/api/uploads")
    assert "HttpOnly" in answer.headers["set-cookie"]
    assert "samesite=strict" in answer.headers["set-cookie"].lower()
    assert "chosen" not in chooser.cookie


# --------------------------------------------------------------- other visitors


def test_two_visitors_at_once_have_their_own_data(newcomer: Callable[[], Any]) -> None:
    answers: dict[int, Any] = {}

    def visit(number: int) -> None:
        one = newcomer()
        made = one.upload("S.csv", b"type\n" + b"A\n" * number + b"B\n").json
        run = one.run(PAIRS, {"upload": made["id"]}).json
        page = one.get(f"/api/runs/{run['run']}/matches").json
        answers[number] = (one, made["id"], run["run"], run["count"], len(page["rows"]))

    threads = [threading.Thread(target=visit, args=(number,)) for number in (2, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {n: answers[n][3:] for n in (2, 5)} == {2: ("2", 2), 5: ("5", 5)}
    (first, upload, run, *_), (second, *_) = answers[2], answers[5]
    assert second.post("/api/data", source={"upload": upload}).status == 404
    assert second.get(f"/api/runs/{run}/matches").status == 404
    assert second.send("DELETE", f"/api/uploads/{upload}").status == 404
    assert second.send("DELETE", f"/api/runs/{run}").status == 404
    assert first.get(f"/api/runs/{run}/matches").status == 200


# ------------------------------------------------------------------------ files


@pytest.mark.parametrize(
    "name",
    [
        "../../../../etc/cron.d/evil.csv",
        "..\\..\\evil.csv",
        "/etc/passwd.csv",
        "evil\x00.csv",
        "<img src=x onerror=alert(1)>.csv",
        "\u202egnp.csv",
        "a" * 5000 + ".csv",
        ".csv",
        "CON.csv",
        "-rf.csv",
        "';DROP TABLE x.csv",
    ],
)
def test_a_hostile_name_is_a_label_and_no_path(visitor: Any, name: str) -> None:
    made = visitor.upload(name, b"type\nA\nB\n")
    assert made.status == 200, made.body
    shown = made.json["name"]
    assert len(shown) <= 100
    assert not set(shown) & set("/\\\x00\u202e\n")
    [stream] = made.json["streams"]
    assert stream["name"].isidentifier()
    source = {"upload": made.json["id"]}
    assert visitor.run(f"SELECT * FROM {stream['name']} WHERE A ; B", source).json["count"] == "1"
    visitor.send("DELETE", f"/api/uploads/{made.json['id']}")


def test_a_name_without_a_known_suffix_is_explained(visitor: Any) -> None:
    answer = visitor.upload("evil.exe", b"MZ")
    assert answer.error["code"] == "data"
    assert answer.error["hint"] == "name it .csv, .tsv, .jsonl, .parquet or .nq"


def test_markup_in_values_stays_text(visitor: Any) -> None:
    evil = "<script>alert(1)</script>"
    made = visitor.upload("m.csv", f'type,note\nA,{evil}\nB,"a""b"\n'.encode()).json
    source = {"upload": made["id"]}
    asked = f"/api/data/rows?source={quote(json.dumps(source))}"
    rows = visitor.get(asked)
    assert rows.headers["content-type"] == "application/json"
    assert rows.json["rows"][0][1] == evil
    run = visitor.run("SELECT a[note] AS note FROM m WHERE A AS a ; B", source).json
    assert visitor.get(f"/api/runs/{run['run']}/matches").json["rows"][0]["values"] == [evil]
    visitor.send("DELETE", f"/api/uploads/{made['id']}")


def test_an_upload_over_the_limit_is_refused_with_or_without_its_length(visitor: Any) -> None:
    large = b"type\n" + b"A\n" * (1 << 16)
    answer = visitor.upload("large.csv", large)
    assert (answer.status, answer.error["code"]) == (413, "too_large")
    assert answer.error["message"] == "an upload may have 64 KiB"
    connection = http.client.HTTPConnection("127.0.0.1", visitor.port, timeout=300)
    headers = {"X-Cernis": "1", "Cookie": visitor.cookie}
    pieces = (large[i : i + 8192] for i in range(0, len(large), 8192))
    connection.request("POST", "/api/uploads?name=large.csv", pieces, headers, encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()
    assert visitor.get("/api/uploads").json == []


def test_uploads_are_as_many_as_allowed(visitor: Any) -> None:
    made = [visitor.upload(f"u{n}.csv", b"type\nA\n") for n in range(3)]
    assert [one.status for one in made] == [200, 200, 429]
    assert made[2].error["message"] == "a visitor may have 2 uploads; remove one first"
    for one in made[:2]:
        visitor.send("DELETE", f"/api/uploads/{one.json['id']}")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("broken.parquet", b"PAR1 this is no parquet PAR1"),
        ("broken.jsonl", b'{"type": \n' * 9),
        ("broken.nq", b"<a> <b> .\n"),
        ("empty.nq", b""),
        ("zeros.csv", b"\x00" * 100),
        ("bomb.csv.gz", b"\x1f\x8b\x08\x00 no gzip"),
    ],
)
def test_a_broken_file_is_explained_by_its_own_name(
    visitor: Any, name: str, content: bytes
) -> None:
    answer = visitor.upload(name, content)
    assert answer.status in (200, 400), answer.body
    assert b"/tmp" not in answer.body
    assert b"Traceback" not in answer.body
    if answer.status == 400:
        assert answer.error["code"] == "data"
        assert visitor.get(f"/codes/{answer.error['kind']}").status == 200
        assert visitor.get("/api/uploads").json == []
    else:
        visitor.send("DELETE", f"/api/uploads/{answer.json['id']}")


# ---------------------------------------------------------------------- queries


@pytest.mark.parametrize(
    ("language", "query"),
    [
        ("ceql", "SELECT * FROM `/etc/passwd` WHERE A"),
        ("ceql", "SELECT * FROM Stocks JOIN passwd ON name = passwd.a WHERE SELL"),
        ("ceql", "SELECT * FROM Stocks JOIN `/etc/passwd` ON name = `/etc/passwd`.a WHERE SELL"),
        ("cq", "Q(x) <- `/etc/passwd`(a: x)"),
        ("sql", "SELECT * FROM '/etc/passwd'"),
        ("sql", "SELECT * FROM read_text('/etc/passwd')"),
        ("sql", "SELECT content FROM glob('/etc/pass*')"),
    ],
)
def test_a_query_opens_no_file(visitor: Any, language: str, query: str) -> None:
    answer = visitor.run(query, CORE, language)
    assert b"root:" not in answer.body
    if answer.status == 200:
        assert answer.json["count"] == "0"


def test_an_rdf_query_opens_no_file_and_no_address(visitor: Any) -> None:
    query = """PREFIX pred: <http://example/>
    SELECT ?card FROM STREAM S1 <file:///etc/passwd>
    WHERE { SEQ (A) DEFINE GPM A ON S1 {
        ?card pred:id ?i GRAPH <file:///etc/passwd> { ?i ?p ?o } } }
    """
    answer = visitor.run(query, {"sample": "cards"}, "spaseq")
    assert answer.status == 400
    assert "comes with these streams" in answer.error["message"]


@pytest.mark.parametrize(
    "source",
    [
        {"file": "/etc/passwd"},
        {"file": "../served"},
        {"files": ["served", "/etc/passwd"]},
        {"sample": "../stocks"},
        {"upload": "../../x"},
        {"path": "/etc/passwd"},
        "/etc/passwd",
        None,
    ],
)
def test_a_source_is_one_of_those_that_are_offered(visitor: Any, source: Any) -> None:
    assert visitor.run(PAIRS, source).status == 404


def test_a_regular_expression_or_a_text_that_explodes_is_bounded(visitor: Any) -> None:
    source = {
        "upload": visitor.upload("x.csv", b"type,t\nA," + b"a" * 5000 + b"\nB,b\n").json["id"]
    }
    query = "SELECT * FROM x WHERE A AS a FILTER a[t LIKE '(a+)+$']"
    assert visitor.run(query, source).status in (200, 400)
    nested = "SELECT * FROM x WHERE " + "(" * 5000 + "A" + ")" * 5000
    assert visitor.run(nested, source).error["code"] == "query"
    visitor.send("DELETE", f"/api/uploads/{source['upload']}")


# ----------------------------------------------------------------------- limits


@pytest.fixture(scope="module")
def tight(start_server: Any) -> Iterator[Callable[[], Any]]:
    """A server that allows next to nothing: one worker, with little more memory than it has."""
    with start_server(Limits(seconds=120, visitors=1, memory_bytes=320 << 20)) as newcomer:
        yield newcomer


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_a_query_that_explodes_is_ended_and_the_visitor_goes_on(tight: Any) -> None:
    one = tight()
    small = one.run("SELECT * FROM Stocks WHERE SELL ; BUY", CORE).json
    ended = one.run("SELECT * FROM stocks WHERE SELL+ ; BUY+", {"sample": "stocks-million"})
    assert (ended.status, ended.error["code"]) == (400, "memory")
    assert ended.error["message"].startswith("the run was ended: it needed more than 320 MiB;")
    again = one.get(f"/api/runs/{small['run']}/matches?limit=2")
    assert again.status == 200, again.json
    assert again.json["total"] == small["count"]


def test_a_run_ends_when_nobody_waits_for_it_any_more(visitor: Any) -> None:
    kept = visitor.run("SELECT * FROM Stocks WHERE SELL", CORE).json["run"]
    before = list_workers()
    connection = http.client.HTTPConnection("127.0.0.1", visitor.port, timeout=300)
    query = "SELECT LONGEST u FROM s WHERE (SELL OR BUY)+ AS u FILTER u INCREASING BY price"
    body = json.dumps({"language": "ceql", "query": query, "source": {"sample": "stocks-million"}})
    connection.request("POST", "/api/runs", body, {"X-Cernis": "1", "Cookie": visitor.cookie})
    connection.close()
    end = time.monotonic() + 200
    while before <= list_workers() and time.monotonic() < end:
        time.sleep(0.05)
    assert not before <= list_workers()
    assert visitor.get(f"/api/runs/{kept}/matches").json["total"] == "4"


def test_labels_and_streams_of_names() -> None:
    assert make_label("a\nb.csv") == "a b.csv"
    assert make_stream_name("ünï çode.csv") == "ünï_çode"
