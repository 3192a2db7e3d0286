"""`PageGuard`: which requests come from the page, and the headers that keep it to itself.

- The `Host` of a request must be this machine, an address, or a name that was allowed. A page of
  another site that has its own name point here (DNS rebinding) has that name as `Host`.
- A request that changes something must come from the page: its `Origin` is this host, and it has
  the header `X-Cernis`, which other sites cannot send without leave. `navigator.sendBeacon`
  cannot send it either, so leaving the page is excused; that changes nothing that matters.
- Responses allow the page's own files and nothing else: no inline scripts, no frames, no other
  hosts.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cernis.serve.failure import RequestError

LEAVE = "/api/leave"
_SAFE = ("GET", "HEAD")
_OWN_SITE = ("same-origin", "none", None)
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


def make_policy(nonce: str | None = None) -> str:
    """Return the content security policy; styles may carry a nonce.

    >>> make_policy().split("; ")[1]
    "script-src 'self'"
    """
    styles = "'self'" if nonce is None else f"'self' 'nonce-{nonce}'"
    return (
        f"default-src 'none'; script-src 'self'; style-src {styles}; img-src 'self' data:; "
        "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


def make_nonce() -> str:
    """Return a nonce for one response."""
    return secrets.token_urlsafe(16)


class PageGuard:
    """Pass on the requests of the page, refuse others, and add the headers."""

    def __init__(self, app: ASGIApp, names: Collection[str] = ()) -> None:
        self.app = app
        self.names = {"localhost", *(name.lower() for name in names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("Content-Security-Policy", make_policy())
                if scope["path"].startswith("/api/"):
                    headers["Cache-Control"] = "no-store"
            await send(message)

        refusal = self.check(scope["method"], scope["path"], Headers(scope=scope))
        if refusal is not None:
            answer = JSONResponse(refusal.to_json(), refusal.status)
            await answer(scope, receive, send_guarded)
            return
        await self.app(scope, receive, send_guarded)

    def check(self, method: str, path: str, headers: Headers) -> RequestError | None:
        """Return why a request is refused; None: it is not."""
        host = headers.get("host", "")
        if not self.knows(host):
            hint = "start the server with --allow-host NAME, if that is its name"
            return RequestError("host", "this server is not reached by that name", hint)
        if method in _SAFE:
            return None
        origin = headers.get("origin")
        is_foreign = origin is not None and urlsplit(origin).netloc != host
        if is_foreign or headers.get("sec-fetch-site") not in _OWN_SITE:
            return RequestError("origin", "requests that change something come from the page alone")
        if "x-cernis" not in headers and path != LEAVE:
            return RequestError("header", "requests that change something have the header X-Cernis")
        return None

    def knows(self, host: str) -> bool:
        """Return whether a `Host` is an address, or a name of this server.

        >>> guard = PageGuard(lambda *_: None, ["lab.example"])
        >>> [guard.knows(h) for h in ("localhost:80", "[::1]:8000", "lab.example", "evil.example")]
        [True, True, True, False]
        """
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in self.names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True
