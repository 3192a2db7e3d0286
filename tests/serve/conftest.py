"""A server on a free port, and visitors who speak HTTP to it."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from cernis.serve.limits import Limits
from cernis.serve.server import ServeOptions, build_app, make_server, open_socket

LIMITS = Limits(
    upload_bytes=1 << 16,
    uploads=2,
    seconds=300,  # a busy machine may take long
    matches=50,
    runs=2,
    visitors=2,
    memory_bytes=1 << 30,
)


@dataclass(frozen=True)
class Answered:
    """What the server answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        return dict(self.json["error"])


@dataclass
class Browser:
    """One visitor: keeps a cookie, and sends what the page sends."""

    port: int
    cookie: str = ""
    headers: dict[str, str] = field(default_factory=lambda: {"X-Cernis": "1"})

    def send(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answered:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        sent = {**self.headers, **{name.replace("_", "-"): text for name, text in headers.items()}}
        if self.cookie:
            sent["Cookie"] = self.cookie
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            got = {name.lower(): value for name, value in answer.getheaders()}
            if "set-cookie" in got:
                self.cookie = got["set-cookie"].split(";")[0]
            return Answered(answer.status, got, answer.read())
        finally:
            connection.close()

    def get(self, path: str) -> Answered:
        return self.send("GET", path)

    def post(self, path: str, **body: Any) -> Answered:
        return self.send("POST", path, json.dumps(body).encode())

    def upload(self, name: str, content: bytes) -> Answered:
        return self.send("POST", f"/api/uploads?name={quote(name, safe='')}", content)

    def run(self, query: str, source: Mapping[str, Any], language: str = "ceql") -> Answered:
        return self.post("/api/runs", language=language, query=query, source=source)


@contextmanager
def running(options: ServeOptions) -> Iterator[int]:
    """Run a server in a thread; gives its port."""
    listener = open_socket(options)
    server = make_server(build_app(options), options.limits)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()


@pytest.fixture(scope="session")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """One server for all tests: starting processes is what costs."""
    path = tmp_path_factory.mktemp("served") / "served.csv"
    path.write_text("type,n\nA,1\nB,2\n")
    with running(ServeOptions(port=0, files={"served": path}, limits=LIMITS)) as bound:
        yield bound


@pytest.fixture(scope="session")
def start_server() -> Callable[[Limits], AbstractContextManager[Callable[[], Browser]]]:
    """Start a server with other limits; gives a function that makes visitors."""

    @contextmanager
    def start(limits: Limits) -> Iterator[Callable[[], Browser]]:
        with running(ServeOptions(port=0, limits=limits)) as bound:
            yield lambda: Browser(bound)

    return start


@pytest.fixture
def newcomer(port: int) -> Callable[[], Browser]:
    """Make a visitor without a cookie."""
    return lambda: Browser(port)


@pytest.fixture(scope="module")
def visitor(port: int) -> Browser:
    """A visitor who stays for all tests of a file."""
    return Browser(port)
