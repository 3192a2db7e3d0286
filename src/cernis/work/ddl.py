"""`--schema`: the columns of streams, as text in the manner of SQL's tables.

Spark reads such text itself. One process takes the plain types from it, which fix how text is read;
times are told by their values there, as in any file. Turned down: Spark's whole type language
(arrays, structs, decimals), which no reader of text here would use.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from cernis.errors import CernisError
from cernis.events.reading.mistakes import did_you_mean
from cernis.schema import Kind, Schema, Stream
from cernis.work.endpoints import split_name

_KINDS = {
    **dict.fromkeys(("tinyint", "smallint", "int", "integer", "bigint", "long"), Kind.INT),
    **dict.fromkeys(("float", "real", "double"), Kind.FLOAT),
    "string": Kind.STRING,
    "boolean": Kind.BOOL,
    **dict.fromkeys(("timestamp", "timestamp_ntz", "date"), Kind.TIMESTAMP),
}
_COLUMN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\W\d]\w*))\s*:?\s+([A-Za-z_]+)\s*")


def parse_schemas(arguments: Sequence[str]) -> dict[str | None, str]:
    """Parse `--schema`: the columns of a named stream, or (None) of all others."""
    given: dict[str | None, str] = {}
    for argument in arguments:
        name, text = split_name(argument)
        if name in given:
            about = "" if name is None else f" for the stream {name!r}"
            raise CernisError(f"--schema{about} is given twice")
        given[name] = _read_ddl(text)
    return given


def _read_ddl(text: str) -> str:
    """Return the columns, which are text or in a file."""
    if os.path.isfile(text):
        try:
            text = Path(text).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise CernisError(f"--schema {text}: not UTF-8 text at byte {error.start}") from None
    elif not any(letter.isspace() for letter in text):
        raise CernisError(f"--schema {text}: no such file (columns as text contain spaces)")
    if not text.strip():
        raise CernisError("--schema: there are no columns in it")
    return text.strip()


def check_named(columns: dict[str | None, str], streams: Sequence[str]) -> None:
    """Raise an error for columns of a stream that does not exist."""
    for name in columns:
        if name is not None and name not in streams:
            raise CernisError(f"--schema {name}=…: no such stream{did_you_mean(name, streams)}")


def declare_columns(columns: dict[str | None, str], streams: Sequence[str]) -> Schema:
    """Return the kinds of the columns of streams, as a declaration in a query has them.

    >>> kinds = declare_columns({None: "type string, `a b` bigint"}, ["S"]).streams[0].attributes
    >>> {name: kind.value for name, kind in kinds.items()}
    {'type': 'string', 'a b': 'int'}
    """
    check_named(columns, streams)
    texts = {name: columns.get(name, columns.get(None)) for name in streams}
    return Schema(
        tuple(Stream(name, _list_kinds(text)) for name, text in texts.items() if text is not None)
    )


def _list_kinds(text: str) -> dict[str, Kind]:
    kinds: dict[str, Kind] = {}
    for part in text.rstrip(", \n").split(","):
        found = _COLUMN.fullmatch(part)
        if found is None or found[3].lower() not in _KINDS:
            odd = part.strip() if found is None else found[3]
            raise CernisError(
                f"--schema: {odd!r}: expected a column and its type, as in 'price double'; one "
                f"process knows {', '.join(sorted(_KINDS))}, and --engine spark all types of Spark"
            )
        name = found[2] or found[1].replace("``", "`")
        if name in kinds:
            raise CernisError(f"--schema: the column {name!r} comes twice")
        kinds[name] = _KINDS[found[3].lower()]
    return kinds
