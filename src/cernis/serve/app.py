"""The routes: from HTTP to visitors and their workers, and back.

This process passes on the answers of workers unread. It reads little itself: JSON of at most
`_LARGEST_BODY` and numbers in addresses. Uploads go to disk piece by piece.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from cernis.serve.check import LANGUAGES
from cernis.serve.code_page import write_code_page
from cernis.serve.complete import list_keywords
from cernis.serve.failure import RequestError
from cernis.serve.guard import LEAVE, PageGuard, make_nonce, make_policy
from cernis.serve.limits import Limits
from cernis.serve.samples import SAMPLES
from cernis.serve.slow_requests import TimedBody
from cernis.serve.visitors import Visitor, Visitors, keep_tidy

_LARGEST_BODY = 2 << 20
_MOST_ROWS = 1000
_MOST_BINS = 4096
_LARGEST_ROW = 2**53
_MEDIA_TYPES = {
    "csv": "text/csv",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}
_NONCE = "{{nonce}}"
_NO_PAGE = """<!doctype html><meta charset="utf-8"><title>Cernis</title>
<h1>Cernis</h1><p>The page is not built in this installation; the interface under /api is there.</p>
"""

Answer = TypeVar("Answer")


class Playground:
    """The handlers of one server."""

    def __init__(self, visitors: Visitors, cookie: str = "cernis") -> None:
        self.visitors = visitors
        self.cookie = cookie
        self.assets = Path(str(files("cernis.serve"))) / "assets"

    @property
    def routes(self) -> list[Route]:
        return [
            Route("/", self.show_page),
            Route("/assets/{name:path}", self.send_asset),
            Route("/codes/{code}", self.show_code),
            Route("/api/limits", self.list_limits),
            Route("/api/samples", self.list_samples),
            Route("/api/uploads", self.upload, methods=["POST"]),
            Route("/api/uploads", self.list_uploads, methods=["GET"]),
            Route("/api/uploads/{id}", self.delete_upload, methods=["DELETE"]),
            Route("/api/data", self.describe, methods=["POST"]),
            Route("/api/data/rows", self.list_rows),
            Route("/api/check", self.check, methods=["POST"]),
            Route("/api/complete", self.complete, methods=["POST"]),
            Route("/api/runs", self.run, methods=["POST"]),
            Route("/api/runs/{id}", self.delete_run, methods=["DELETE"]),
            Route("/api/runs/{id}/timeline", self.show_timeline),
            Route("/api/runs/{id}/automaton", self.show_automaton),
            Route("/api/runs/{id}/step", self.show_step),
            Route("/api/runs/{id}/why", self.explain_rows, methods=["POST"]),
            Route("/api/runs/{id}/funnel", self.count_funnel, methods=["POST"]),
            Route("/api/runs/{id}/draw", self.draw_matches, methods=["POST"]),
            Route("/api/runs/{id}/measure", self.measure_labels, methods=["POST"]),
            Route("/api/runs/{id}/matches", self.list_matches),
            Route("/api/runs/{id}/sample", self.draw_sample),
            Route("/api/runs/{id}/events", self.list_events),
            Route("/api/runs/{id}/find", self.find_events),
            Route("/api/runs/{id}/download", self.download),
            Route(LEAVE, self.leave, methods=["POST"]),
        ]

    # ------------------------------------------------------------------ page

    async def show_page(self, request: Request) -> Response:
        nonce = make_nonce()
        page = self.assets / "index.html"
        text = page.read_text("utf-8") if page.is_file() else _NO_PAGE
        answer = HTMLResponse(text.replace(_NONCE, nonce))
        answer.headers["Content-Security-Policy"] = make_policy(nonce)
        answer.headers["Cache-Control"] = "no-store"
        return answer

    async def send_asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        known = {p.relative_to(self.assets).as_posix(): p for p in _list_files(self.assets)}
        if name not in known:
            raise RequestError("not_found", "there is no such file")
        return FileResponse(known[name], headers={"Cache-Control": "no-cache"})

    async def show_code(self, request: Request) -> Response:
        page = write_code_page(request.path_params["code"])
        if page is None:
            raise RequestError("not_found", "there is no such code")
        return HTMLResponse(page)

    async def list_limits(self, request: Request) -> Response:
        limits = asdict(self.visitors.limits)
        shown = ("upload_bytes", "uploads", "seconds", "memory_bytes", "matches", "runs")
        return JSONResponse(
            {
                "version": version("cernis"),
                "languages": list(LANGUAGES),
                "keywords": list_keywords(),
                "files": list(self.visitors.files),
                **{name: limits[name] for name in shown},
            }
        )

    async def list_samples(self, request: Request) -> Response:
        return JSONResponse([sample.to_json() for sample in SAMPLES])

    # ------------------------------------------------------------------ data

    async def upload(self, request: Request) -> Response:
        visitor, answer = await self._visit(request)
        name = request.query_params.get("name", "")
        length = request.headers.get("content-length")
        told = None if length is None else _read_number(length, 0)
        with self.visitors.receive_upload(visitor, name, told) as file:
            size = await _save(request, file.path, self.visitors.limits, visitor)
        try:
            described = await self._describe(visitor, {"upload": file.id})
        except BaseException:
            self.visitors.remove_upload(visitor, file.id)
            raise
        streams = described["streams"]
        rows = sum(stream["rows"] for stream in streams)
        return answer(
            {"id": file.id, "name": file.label, "rows": rows, "streams": streams, "bytes": size}
        )

    async def list_uploads(self, request: Request) -> Response:
        visitor, answer = await self._visit(request)
        return answer([{"id": one.id, "name": one.label} for one in visitor.uploads.values()])

    async def delete_upload(self, request: Request) -> Response:
        visitor, answer = await self._visit(request)
        self.visitors.remove_upload(visitor, request.path_params["id"])
        return answer({})

    async def describe(self, request: Request) -> Response:
        visitor, answer = await self._visit(request)
        body = await _read_json(request)
        described = await self._describe(visitor, body.get("source"))
        return answer({name: value for name, value in described.items() if name != "schema"})

    async def _describe(self, visitor: Visitor, source: Any) -> dict[str, Any]:
        """Return what is known of a source, which is read once."""
        resolved = self.visitors.resolve(visitor, source)
        key = json.dumps(resolved, sort_keys=True)
        if key not in visitor.descriptions:
            asked = {"do": "describe", "source": resolved}
            visitor.describe(key, json.loads(await self.visitors.ask(visitor, asked)))
        return visitor.descriptions[key]

    async def _find_schema(self, visitor: Visitor, source: Any) -> Any:
        """Return what a query is checked against; None without data."""
        if source is None:
            return None
        return (await self._describe(visitor, source)).get("schema")

    async def list_rows(self, request: Request) -> Response:
        visitor, answer = await self._visit(request)
        asked = request.query_params
        source = self.visitors.resolve(visitor, _parse(asked.get("source", "null")))
        return answer(
            await self.visitors.ask(
                visitor,
                {
                    "do": "rows",
                    "source": source,
                    "stream": asked.get("stream", ""),
                    "offset": _read_number(asked.get("offset"), 0),
                    "limit": min(_read_number(asked.get("limit"), 100), _MOST_ROWS),
                },
            )
        )

    # ------------------------------------------------------------------ text

    async def check(self, request: Request) -> Response:
        visitor, answer = await self._visit(request)
        body = await _read_json(request)
        schema = await self._find_schema(visitor, body.get("source"))
        asked = {"do": "check", **_read_query(body), "schema": schema}
        return answer(await self.visitors.ask_about_text(visitor, asked))

    async def complete(self, request: Request) -> Response:
        visitor, answer = await self._visit(request)
        body = await _read_json(request)
        schema = await self._find_schema(visitor, body.get("source"))
        cursor = {name: _read_number(body.get(name), 1) for name in ("line", "column")}
        asked = {"do": "complete", **_read_query(body), **cursor, "schema": schema}
        return answer(await self.visitors.ask_about_text(visitor, asked))

    # ------------------------------------------------------------------ runs

    async def run(self, request: Request) -> Response:
        visitor, answer = await self._visit(request)
        body = await _read_json(request)
        source = self.visitors.resolve(visitor, body.get("source"))
        asked = {**_read_query(body), "source": source}
        made, dropped = await _while_connected(request, self.visitors.run(visitor, asked))
        return answer({**made, "dropped": dropped})

    async def _ask_run(self, request: Request, do: str, **asked: Any) -> Response:
        visitor, answer = await self._visit(request)
        run = request.path_params["id"]
        work = self.visitors.ask_run(visitor, run, {"do": do, "run": run, **asked})
        return answer(await _while_connected(request, work))

    async def delete_run(self, request: Request) -> Response:
        visitor, answer = await self._visit(request)
        await self.visitors.drop_run(visitor, request.path_params["id"])
        return answer({})

    async def show_timeline(self, request: Request) -> Response:
        asked = request.query_params
        lanes = "variable" if asked.get("lanes") == "variable" else "type"
        start, stop = (_read_axis_position(asked.get(name)) for name in ("from", "to"))
        width = min(max(_read_number(asked.get("width"), 600), 1), _MOST_BINS)
        return await self._ask_run(
            request, "timeline", start=start, stop=stop, width=width, lanes=lanes
        )

    async def show_automaton(self, request: Request) -> Response:
        return await self._ask_run(request, "automaton")

    async def show_step(self, request: Request) -> Response:
        row = _read_number(request.query_params.get("row"), 0)
        return await self._ask_run(request, "step", row=row)

    async def explain_rows(self, request: Request) -> Response:
        rows = (await _read_json(request)).get("rows", [])
        if not isinstance(rows, list):
            raise RequestError("bad_request", "expected a list of rows")
        return await self._ask_run(request, "why", rows=[_read_number(row, 0) for row in rows])

    async def count_funnel(self, request: Request) -> Response:
        body = await _read_json(request)
        key, end = body.get("key") or [], body.get("end")
        if not isinstance(key, list) or not all(isinstance(one, str) for one in key):
            raise RequestError("bad_request", "expected a list of texts as the key")
        number = None if end is None else min(_read_number(end, 0), _LARGEST_ROW)
        return await self._ask_run(request, "funnel", key=key, end=number)

    async def draw_matches(self, request: Request) -> Response:
        body = await _read_json(request)
        n, seed = (_read_number(body.get(name), 0) for name in ("n", "seed"))
        return await self._ask_run(request, "draw", **_read_labels(body), n=n, seed=seed)

    async def measure_labels(self, request: Request) -> Response:
        body = await _read_json(request)
        width = body.get("width", 0.1)
        if not isinstance(width, int | float) or not 0.001 <= width <= 1:
            raise RequestError("bad_request", "expected a width from 0.001 to 1")
        return await self._ask_run(request, "measure", **_read_labels(body), width=width)

    async def list_matches(self, request: Request) -> Response:
        asked = request.query_params
        offset = _read_number(asked.get("offset"), 0)
        limit = min(_read_number(asked.get("limit"), 50), _MOST_ROWS)
        return await self._ask_run(request, "matches", offset=offset, limit=limit)

    async def draw_sample(self, request: Request) -> Response:
        asked = request.query_params
        n = min(_read_number(asked.get("n"), 20), _MOST_ROWS)
        seed = None if asked.get("seed") is None else _read_number(asked["seed"], 0)
        return await self._ask_run(request, "sample", n=n, seed=seed)

    async def list_events(self, request: Request) -> Response:
        rows = request.query_params.get("rows", "")
        numbers = [_read_number(one, 0) for one in rows.split(",")[:_MOST_ROWS] if one]
        return await self._ask_run(request, "events", rows=numbers)

    async def find_events(self, request: Request) -> Response:
        asked = request.query_params
        number = None if asked.get("number") is None else _read_number(asked["number"], 0)
        return await self._ask_run(
            request,
            "find",
            offset=_read_number(asked.get("offset"), 0),
            limit=min(_read_number(asked.get("limit"), 50), _MOST_ROWS),
            key=asked.get("key", ""),
            value=asked.get("value", ""),
            number=number,
        )

    async def download(self, request: Request) -> Response:
        form = request.query_params.get("format", "jsonl")
        if form not in _MEDIA_TYPES:
            raise RequestError("bad_request", "matches are downloaded as csv, jsonl or parquet")
        visitor = self.visitors.find(request.cookies.get(self.cookie))
        if visitor is None:  # a link of another site brings no cookie, and starts nothing
            raise RequestError("not_found", "there is no such run")
        run, limits = request.path_params["id"], self.visitors.limits
        path = self.visitors.new_download(visitor, form)
        bounds = {"most": limits.matches, "size": limits.download_bytes}
        asked = {"do": "download", "run": run, "path": str(path), "form": form, **bounds}
        try:
            work = self.visitors.ask_run(visitor, run, asked)
            told = json.loads(await _while_connected(request, work))
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        is_cut = int(told["total"]) > told["written"]
        name = f"matches-first-{told['written']}" if is_cut else "matches"
        headers = {"X-Cernis-Matches": f"{told['written']}/{told['total']}"}
        remove = BackgroundTask(path.unlink, missing_ok=True)
        return FileResponse(
            path,
            headers=headers,
            media_type=_MEDIA_TYPES[form],
            filename=f"{name}.{form}",
            background=remove,
        )

    async def leave(self, request: Request) -> Response:
        visitor = self.visitors.find(request.cookies.get(self.cookie))
        if visitor is not None:
            visitor.is_gone = True
        return Response(status_code=204)

    # -------------------------------------------------------------- visitors

    async def _find_visitor(self, request: Request, answer: Response) -> Visitor:
        """Return who asks; a new visitor gets a cookie with the answer."""
        visitor = self.visitors.find(request.cookies.get(self.cookie))
        if visitor is None:
            visitor = await self.visitors.admit()
            secure = request.url.scheme == "https"
            answer.set_cookie(
                self.cookie, visitor.token, httponly=True, samesite="strict", secure=secure
            )
        return visitor

    async def _visit(self, request: Request) -> tuple[Visitor, Callable[[Any], Response]]:
        """Return who asks, and a function that makes the answer."""
        carrier = Response()
        visitor = await self._find_visitor(request, carrier)

        def answer(body: Any) -> Response:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            made = Response(content, media_type="application/json")
            if "set-cookie" in carrier.headers:
                made.headers["set-cookie"] = carrier.headers["set-cookie"]
            return made

        return visitor, answer


def make_app(playground: Playground, names: tuple[str, ...] = ()) -> Starlette:
    """Return the application; `names` are hosts by which the server may be reached."""

    @asynccontextmanager
    async def live(app: Starlette) -> AsyncIterator[None]:
        await playground.visitors.prepare()
        tidying = asyncio.create_task(keep_tidy(playground.visitors))
        try:
            yield
        finally:
            tidying.cancel()
            await playground.visitors.close()

    return Starlette(
        routes=playground.routes,
        lifespan=live,
        middleware=[
            Middleware(PageGuard, names=names),
            Middleware(TimedBody, limits=playground.visitors.limits),
        ],
        exception_handlers={
            RequestError: _refuse,
            HTTPException: _refuse_http,
            ClientDisconnect: _refuse_gone,
            Exception: _fail,
        },
    )


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    # the rest of a slow body is not awaited
    headers = {"Connection": "close"} if error.code == "slow" else None
    return JSONResponse(error.to_json(), error.status, headers)


async def _refuse_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = "not_found" if error.status_code == 404 else "bad_request"
    return JSONResponse(RequestError(code, error.detail).to_json(), error.status_code)


async def _refuse_gone(request: Request, error: Exception) -> Response:
    return Response(status_code=400)


async def _fail(request: Request, error: Exception) -> Response:
    refusal = RequestError("internal", "an error inside Cernis; the server's log has more")
    return JSONResponse(refusal.to_json(), refusal.status)


async def _while_connected(request: Request, work: Coroutine[Any, Any, Answer]) -> Answer:
    """Await some work for as long as the client waits for it; end it when the client goes."""
    working = asyncio.create_task(work)
    waiting = asyncio.create_task(_wait_for_end(request))
    try:
        await asyncio.wait({working, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working
            raise RequestError("bad_request", "nobody waits for this answer any more")
        return working.result()
    finally:
        waiting.cancel()
        if not working.done():
            working.cancel()


async def _wait_for_end(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _save(request: Request, path: Path, limits: Limits, visitor: Visitor) -> int:
    """Write the body of a request to a file, piece by piece; return its size."""
    size = 0
    with path.open("xb") as file:
        async for piece in request.stream():
            size += len(piece)
            if size > limits.upload_bytes:
                raise RequestError("too_large", limits.explain_upload())
            file.write(piece)
            visitor.seen = monotonic()
    return size


async def _read_json(request: Request) -> dict[str, Any]:
    pieces, size = [], 0
    async for piece in request.stream():
        size += len(piece)
        if size > _LARGEST_BODY:
            raise RequestError("too_large", "a request has at most 2 MiB, except for uploads")
        pieces.append(piece)
    body = _parse(b"".join(pieces))
    if not isinstance(body, dict):
        raise RequestError("bad_request", "expected a JSON object")
    return body


def _parse(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise RequestError("bad_request", "this is no JSON") from None


def _read_labels(body: dict[str, Any]) -> dict[str, Any]:
    labels, by = body.get("labels", ""), body.get("by")
    if not isinstance(labels, str) or by not in (None, "key", "day"):
        raise RequestError("bad_request", "expected labels as text, by key, by day or at random")
    return {"labels": labels, "by": by}


def _read_query(body: dict[str, Any]) -> dict[str, str]:
    language, query = body.get("language", "ceql"), body.get("query", "")
    if language not in LANGUAGES or not isinstance(query, str):
        known = ", ".join(LANGUAGES)
        raise RequestError("bad_request", f"expected a query in one of the languages {known}")
    return {"language": language, "query": query}


def _read_number(value: Any, otherwise: int) -> int:
    """Return a number that is not negative."""
    if value is None or value == "":
        return otherwise
    text = str(value)
    if not text.isascii() or not text.isdigit() or len(text) > 1000:
        raise RequestError("bad_request", "expected a whole number that is not negative")
    return int(text)


def _read_axis_position(value: str | None) -> float | None:
    """Return a position on the axis of time."""
    if value is None or value == "":
        return None
    try:
        position = float(value)
    except ValueError:
        position = math.nan
    if not math.isfinite(position):
        raise RequestError("bad_request", "expected a number")
    return position


def _list_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
