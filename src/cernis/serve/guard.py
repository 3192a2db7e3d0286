"""`PageGuard`: which requests come from the page, and the headers that keep it to itself.

- The `Host` of a request must be this machine, an address, or a name that was allowed. A page of
  another site that has its own name point here (DNS rebinding) has that name as `Host`.
- The page and the pages of codes are for everyone: a link of another site may lead to them. They
  start nothing, and set no cookie.
- Every other request must come from the page. `Sec-Fetch-Site` and `Origin` say so where a browser
  sends them. Over plain HTTP to another machine an image has neither, so a request to the
  interface also has the header `X-Cernis`, which other sites cannot send without leave.
- Two requests cannot have the header. `navigator.sendBeacon` says that the page was left, which
  changes nothing that matters. A download is a link: it needs the cookie of a visitor, which
  browsers do not send for other sites.
- There are no WebSockets.
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

API = "/api/"
CODES = "/codes/"
DOWNLOAD = "/download"
LEAVE = f"{API}leave"
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
                if scope["path"].startswith(API):
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
        if "websocket" in headers.get("upgrade", "").lower():
            return RequestError("bad_request", "this server has no WebSockets")
        is_safe = method in _SAFE
        if is_safe and (path == "/" or path.startswith(CODES)):
            return None
        origin = headers.get("origin")
        is_foreign = origin not in (None, f"http://{host}", f"https://{host}")
        if is_foreign or headers.get("sec-fetch-site") not in _OWN_SITE:
            return RequestError("origin", "only the page may ask for this, no other site")
        is_excused = path == LEAVE or (is_safe and path.endswith(DOWNLOAD))
        if path.startswith(API) and "x-cernis" not in headers and not is_excused:
            return RequestError("header", "requests to the interface have the header X-Cernis")
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
