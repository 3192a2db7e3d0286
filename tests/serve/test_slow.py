"""Slow visitors: whoever sends a request in drops, or does not read an answer, is let go."""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from cernis.serve.limits import Limits

_LONGEST = 300
"""How long a busy machine may take, in seconds."""
HEAD = b"Host: 127.0.0.1\r\nX-Cernis: 1\r\n"


@pytest.fixture(scope="module")
def hasty(start_server: Any) -> Iterator[Callable[[], Any]]:
    """A server that waits half a second for what comes next."""
    limits = Limits(seconds=_LONGEST, request_seconds=0.5, body_rate=1 << 20, upload_bytes=1 << 16)
    with start_server(limits) as newcomer:
        yield newcomer


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=_LONGEST)


def read_all(connection: socket.socket) -> bytes:
    """Return what the server sends until it closes the connection."""
    got = b""
    with suppress(ConnectionResetError):
        while piece := connection.recv(1 << 16):
            got += piece
    return got


def send_in_drops(connection: socket.socket, drops: bytes) -> bytes:
    """Send a byte now and then, for as long as the server listens; return what it says."""
    end = time.monotonic() + _LONGEST
    with suppress(ConnectionError):
        for drop in drops:
            connection.send(bytes([drop]))
            if select.select([connection], [], [], 0.05)[0]:
                break
            assert time.monotonic() < end
    return read_all(connection)


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\n" + HEAD])
def test_headers_that_do_not_come_end_the_connection(hasty: Any, begun: bytes) -> None:
    with connect(hasty().port) as connection:
        connection.sendall(begun)
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 408 ") if begun else answer == b""


def test_headers_in_drops_end_the_connection(hasty: Any) -> None:
    with connect(hasty().port) as connection:
        answer = send_in_drops(connection, b"GET / HTTP/1.1\r\n" + b"X-Slow: yes\r\n" * 10_000)
    assert answer.startswith(b"HTTP/1.1 408 ")


def test_a_second_request_in_drops_ends_the_connection(hasty: Any) -> None:
    with connect(hasty().port) as connection:
        connection.sendall(b"GET /api/samples HTTP/1.1\r\n" + HEAD + b"\r\n")
        assert connection.recv(12) == b"HTTP/1.1 200"
        connection.recv(1 << 20)
        answer = send_in_drops(connection, b"GET / HTTP/1.1\r\n" + b"X-Slow: yes\r\n" * 10_000)
    assert b"HTTP/1.1 408 " in answer


@pytest.mark.parametrize("path", [b"/api/data", b"/api/uploads?name=slow.csv"])
@pytest.mark.parametrize("length", [b"Content-Length: 60000", b"Transfer-Encoding: chunked"])
def test_a_body_in_drops_is_refused(hasty: Any, path: bytes, length: bytes) -> None:
    drops = b"type,n\n" * 5000
    if b"chunked" in length:
        drops = b"EA60\r\n" + drops
    with connect(hasty().port) as connection:
        connection.sendall(b"POST " + path + b" HTTP/1.1\r\n" + HEAD + length + b"\r\n\r\n")
        answer = send_in_drops(connection, drops)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert json.loads(body)["error"] == {
        "code": "slow",
        "message": "the request came too slowly: it has 0.5 seconds, and one more for each 1 MiB",
    }


def test_a_body_that_nobody_awaits_ends_the_connection_too(hasty: Any) -> None:
    with connect(hasty().port) as connection:
        connection.sendall(
            b"GET /api/samples HTTP/1.1\r\n" + HEAD + b"Content-Length: 60000\r\n\r\n"
        )
        assert send_in_drops(connection, b"x" * 59_999).startswith(b"HTTP/1.1 200 ")


def test_an_answer_that_nobody_reads_ends_the_connection(hasty: Any) -> None:
    ask = b"GET /assets/app.js HTTP/1.1\r\n" + HEAD + b"\r\n"
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(_LONGEST)
        connection.connect(("127.0.0.1", hasty().port))
        client = connection.getsockname()
        wait_until(lambda: client in list_clients())
        connection.sendall(ask * 100)
        wait_until(lambda: client not in list_clients())


def list_clients() -> set[Any]:
    """Return the other ends of the connections of this process."""
    return {tuple(one.raddr) for one in psutil.Process().net_connections() if one.raddr}


def test_a_large_body_has_more_time(start_server: Any) -> None:
    limits = Limits(seconds=_LONGEST, request_seconds=0.5, body_rate=100, upload_bytes=1 << 16)
    rows = b"type\n" + b"A\n" * 30_000
    with start_server(limits) as newcomer, connect(newcomer().port) as connection:
        head = b"POST /api/uploads?name=large.csv HTTP/1.1\r\nConnection: close\r\n" + HEAD
        connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(rows) + rows[:60_000])
        time.sleep(
            1
        )  # after the half second of any request, and inside the ten minutes of this one
        connection.sendall(rows[60_000:])
        assert read_all(connection).startswith(b"HTTP/1.1 200 ")


# ------------------------------------------------------------------- uploads under way


def begin_upload(visitor: Any, length: bytes = b"Transfer-Encoding: chunked") -> socket.socket:
    """Begin an upload that does not end."""
    connection = connect(visitor.port)
    head = b"POST /api/uploads?name=begun.csv HTTP/1.1\r\nConnection: close\r\n" + HEAD
    connection.sendall(head + f"Cookie: {visitor.cookie}\r\n".encode() + length + b"\r\n\r\n")
    return connection


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + _LONGEST
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the uploads of a server that starts now."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_uploads_under_way_count_against_the_quota_of_a_visitor(
    start_server: Any, folder: Path
) -> None:
    with start_server(Limits(seconds=_LONGEST, uploads=2)) as newcomer:
        visitor = newcomer()
        assert visitor.upload("one.csv", b"type\nA\n").status == 200
        with begin_upload(visitor):
            wait_until(lambda: len(list(folder.glob("*/*/*.csv"))) == 2)
            refused = visitor.upload("two.csv", b"type\nA\n")
            assert refused.error["message"] == "a visitor may have 2 uploads; remove one first"
            # what is not whole can neither be asked nor removed, which would make room for more
            assert [one["name"] for one in visitor.get("/api/uploads").json] == ["one.csv"]
        wait_until(lambda: len(list(folder.glob("*/*/*.csv"))) == 1)
        assert visitor.upload("two.csv", b"type\nA\n").status == 200


@pytest.mark.skipif(sys.platform == "win32", reason="files that are open are not listed there")
def test_uploads_under_way_count_against_the_room_of_the_server(
    start_server: Any, folder: Path
) -> None:
    """The room is for two uploads of the largest size."""
    with start_server(Limits(seconds=_LONGEST, uploads=2, visitors=1)) as newcomer:
        first, second, third = newcomer(), newcomer(), newcomer()
        for one in (first, second, third):
            one.get("/api/uploads")
        with begin_upload(first), begin_upload(second, b"Content-Length: 1000"):
            wait_until(lambda: len(list(folder.glob("*/*/*.csv"))) == 2)
            assert third.upload("small.csv", b"type\nA\n").status == 200
            with begin_upload(third) as refused:
                assert b"room for uploads is full" in read_all(refused)
        wait_until(lambda: len(list(folder.glob("*/*/*.csv"))) == 1)
