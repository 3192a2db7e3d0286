"""Start the server: the files of the command line, the address, uvicorn."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette

from cernis.errors import CernisError
from cernis.events.reading.files import check_path, stem_of
from cernis.serve.app import Playground, make_app
from cernis.serve.failure import RequestError
from cernis.serve.limits import Limits
from cernis.serve.slow_requests import make_protocol
from cernis.serve.visitors import GivenFile, Visitors, find_format, make_stream_name

_MOST_CONNECTIONS = 512


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """Where the server listens, what it shows, and what a visitor may use."""

    host: str = "127.0.0.1"
    port: int = 8000
    files: Mapping[str, Path] = field(default_factory=dict)
    """Files of events by the names of their streams."""
    reading: Mapping[str, Any] = field(default_factory=dict)
    names: Sequence[str] = ()
    """Names by which the server may be reached, beside addresses and localhost."""
    limits: Limits = field(default_factory=Limits)


def build_app(options: ServeOptions) -> Starlette:
    """Return the application; the folder of uploads is made at once."""
    files = [_give_file(name, path) for name, path in options.files.items()]
    if len({file.id for file in files}) < len(files):
        raise CernisError("two files have the same name; name them apart with NAME=FILE")
    visitors = Visitors(options.limits, files, options.reading)
    # cookies do not tell ports apart: two servers on one machine need two names
    playground = Playground(visitors, cookie=f"cernis-{options.port}")
    return make_app(playground, tuple(options.names))


def _give_file(name: str, path: Path) -> GivenFile:
    check_path(path)
    try:
        format_, _ = find_format(path.name)
    except RequestError as refusal:
        raise CernisError(f"{refusal.message}; {refusal.hint}") from None
    stream = make_stream_name(name or stem_of(path))
    return GivenFile(stream, path.resolve(), stream, path.name, format_, path.stat().st_size)


def open_socket(options: ServeOptions) -> socket.socket:
    """Return a socket that listens; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((options.host, options.port))
        listener.listen(_MOST_CONNECTIONS)  # who comes before the server is ready waits
    except OSError as error:
        listener.close()
        raise CernisError(
            f"cannot listen on {options.host}, port {options.port}: {error.strerror or error}; "
            "--port 0 takes a free one"
        ) from None
    return listener


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def make_server(app: Starlette, limits: Limits) -> uvicorn.Server:
    """Return a server of uvicorn that logs nothing but errors."""
    config = uvicorn.Config(
        app,
        http=make_protocol(limits),
        ws="none",
        log_level="error",
        access_log=False,
        server_header=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=2,
        lifespan="on",
    )
    return uvicorn.Server(config)
