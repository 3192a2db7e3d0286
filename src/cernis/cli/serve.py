"""`cernis serve`: the playground, a page in the browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from cernis.cli.arguments import named_files
from cernis.errors import CernisError
from cernis.extras import import_extra


def serve(
    events: Sequence[str],
    *,
    host: str,
    port: int,
    names: Sequence[str],
    reading: Mapping[str, Any],
    limits: Mapping[str, Any],
) -> None:
    """Show the page until the user ends it."""
    for module in ("starlette", "uvicorn"):
        import_extra(module, "cernis serve")
    from cernis.serve.limits import Limits
    from cernis.serve.server import (
        ServeOptions,
        build_app,
        is_loopback,
        make_server,
        open_socket,
    )

    options = ServeOptions(
        host=host,
        port=port,
        files=_name_files(events),
        reading={name: value for name, value in reading.items() if value is not None},
        names=[*names, *([host] if host else [])],
        limits=Limits(**limits),
    )
    listener = open_socket(options)
    bound = listener.getsockname()[1]
    app = build_app(ServeOptions(**{**vars(options), "port": bound}))
    shown = f"[{host}]" if ":" in host else host
    typer.echo(f"Cernis is at http://{shown}:{bound}/ (Ctrl-C ends it)")
    if not is_loopback(host):
        typer.echo(
            "note: other machines can reach it, and may run queries within the limits",
            err=True,
        )
    with suppress(KeyboardInterrupt):  # that is how it ends
        make_server(app, options.limits).run(sockets=[listener])


def _name_files(events: Sequence[str]) -> dict[str, Path]:
    """Return one file for each stream."""
    from cernis.events.reading.files import stem_of

    files = named_files(events)
    pairs = files.items() if isinstance(files, dict) else [(stem_of(p), p) for p in files]
    named: dict[str, Path] = {}
    for name, path in pairs:
        if isinstance(path, list) or name in named:
            raise CernisError(f"two files for the stream {name!r}; name them apart with NAME=FILE")
        named[name] = path
    return named
