"""Slow visitors: a connection that sends a request in drops, or reads no answer, is closed.

A connection that sends nothing holds one of the server's slots for as long as it likes. So each
part of an exchange has a time limit:

- The headers of a request must be there some seconds after its first byte, and the first one that
  many seconds after the connection was opened (`make_protocol`).
- A body has that time too, and more as it comes: a second for so many bytes (`TimedBody`). A large
  upload over a slow line goes through, a trickle does not.
- An answer must be read on within that time (`make_protocol`).

Cost contract: one timer for each connection, and one for each piece of a body.
"""

from __future__ import annotations

import asyncio
from time import monotonic

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from cernis.serve.failure import RequestError
from cernis.serve.limits import Limits

_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


def make_protocol(limits: Limits) -> type[H11Protocol]:
    """Return the protocol of connections that end where a part of an exchange takes too long."""

    class TimedProtocol(H11Protocol):
        """HTTP/1.1 with time limits."""

        _headers: asyncio.TimerHandle | None = None
        _reading: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._watch_headers()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch_headers()

        def connection_lost(self, exc: Exception | None) -> None:
            _cancel(self._headers, self._reading)
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._reading = self.loop.call_later(limits.request_seconds, self.transport.abort)

        def resume_writing(self) -> None:
            _cancel(self._reading)
            super().resume_writing()

        def _watch_headers(self) -> None:
            """Start the timer if a request is awaited, and stop it if one is there."""
            if self.cycle is not None and not self.cycle.response_complete:
                _cancel(self._headers)
                self._headers = None
            elif self._headers is None:
                self._headers = self.loop.call_later(limits.request_seconds, self._give_up)

        def _give_up(self) -> None:
            if self.conn.trailing_data[0]:  # a part of the headers is there
                self.transport.write(_TOO_SLOW)
            self.transport.close()

    return TimedProtocol


def _cancel(*timers: asyncio.TimerHandle | None) -> None:
    for timer in timers:
        if timer is not None:
            timer.cancel()


class TimedBody:
    """Refuse requests whose bodies come too slowly."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app, self.limits = app, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        end, is_whole = monotonic() + self.limits.request_seconds, False

        async def receive_in_time() -> Message:
            nonlocal end, is_whole
            if is_whole:
                return await receive()
            try:
                async with asyncio.timeout(end - monotonic()):
                    message = await receive()
            except TimeoutError:
                raise RequestError("slow", self.limits.explain_slow()) from None
            end += len(message.get("body", b"")) / self.limits.body_rate
            is_whole = not message.get("more_body", False)
            return message

        await self.app(scope, receive_in_time, send)
