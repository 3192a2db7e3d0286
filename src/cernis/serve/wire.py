"""Values as JSON that a browser reads without loss, and frames between server and workers.

Whole numbers that JavaScript would round are written as text, NaN and infinities as null, times
in ISO 8601. A frame is a length of four bytes and so many bytes. The first byte of an answer is
`+`, and JSON for the browser follows, or `-`, and a `RequestError` follows.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, BinaryIO

from cernis.integers import write_integer
from cernis.results.values import iso_duration

SAFE = 2**53
"""JavaScript has every whole number below this."""
LARGEST_FRAME = 1 << 27
_LENGTH = 4


def to_plain(value: Any) -> Any:
    """Return a value that JSON has.

    >>> to_plain({"n": 2**53, "x": float("nan"), "t": timedelta(seconds=90)})
    {'n': '9007199254740992', 'x': None, 't': 'PT90S'}
    """
    match value:
        case None | bool() | str():
            return value
        case int():
            return value if -SAFE < value < SAFE else write_integer(value)
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {str(key): to_plain(one) for key, one in value.items()}
        case bytes():
            return value.hex()
        case timedelta():
            return iso_duration(value // timedelta(microseconds=1), "us")
        case Sequence():
            return [to_plain(one) for one in value]
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "item") and not isinstance(value.item(), type(value)):
        return to_plain(value.item())
    return str(value)


def write_json(value: Any) -> bytes:
    """Return a value as JSON."""
    text = json.dumps(to_plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8", "replace")


def write_frame(body: bytes) -> bytes:
    """Return a frame."""
    return len(body).to_bytes(_LENGTH, "big") + body


async def receive_frame(reader: asyncio.StreamReader) -> bytes:
    """Read a frame that a worker has written; raise `IncompleteReadError` where it has ended."""
    length = int.from_bytes(await reader.readexactly(_LENGTH), "big")
    if length > LARGEST_FRAME:
        raise asyncio.IncompleteReadError(b"", length)
    return await reader.readexactly(length)


def read_frame(file: BinaryIO) -> bytes | None:
    """Read a frame that the server has written; None where the server has gone."""
    head = file.read(_LENGTH)
    if len(head) < _LENGTH:
        return None
    length = int.from_bytes(head, "big")
    body = file.read(length)
    return body if len(body) == length else None
