"""`RequestError`: why a request is not answered: a code for the page, a sentence for people.

The same object goes through a worker's frames and into the server's responses. It never holds a
traceback or a path of the server.
"""

from __future__ import annotations

from typing import Any

STATUS = {
    "bad_request": 400,
    "query": 400,
    "data": 400,
    "budget": 400,
    "time": 400,
    "memory": 400,
    "host": 421,
    "origin": 403,
    "header": 403,
    "not_found": 404,
    "slow": 408,
    "run_dropped": 410,
    "too_large": 413,
    "quota": 429,
    "busy": 503,
    "internal": 500,
}
"""The HTTP status of each code."""


class RequestError(Exception):
    """A request that cannot be answered: why, and what would help."""

    def __init__(self, code: str, message: str, hint: str | None = None, **more: Any) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.more = code, message, hint, more

    @property
    def status(self) -> int:
        """The HTTP status."""
        return STATUS.get(self.code, 500)

    def to_json(self) -> dict[str, Any]:
        """Return the body of the response."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.hint is not None:
            error["hint"] = self.hint
        return {"error": error | self.more}
