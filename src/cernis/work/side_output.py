"""The side output: a folder of events that are not read: late, too far ahead, or bad.

Each becomes a line of JSON: the reason, the stream, and the event as it came. Each bucket writes
one file for a micro-batch, which appears whole. Its name has the run (the id of Spark's query,
which lives as long as its checkpoint), the micro-batch, the bucket, and a digest of its lines. The
bucket of an event does not depend on how Spark cuts its input. So a micro-batch that runs again
finds its files, and each event is there once. Another run, or a checkpoint that was restored from a
copy, never replaces a file that has other lines.

Cost: where there is a side output, every event travels with its whole text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from cernis.errors import CernisError
from cernis.work.columns import EVENT, REASON, STREAM
from cernis.work.report import BucketCall


def write_side_output(
    folder: str, call: BucketCall, rows: pa.Table, streams: Sequence[str]
) -> None:
    """Write the events of one call of a bucket; a column has the reasons."""
    lines = _lines(rows, streams).to_pylist()
    digest = hashlib.blake2b("".join(sorted(lines)).encode(), digest_size=8).hexdigest()
    name = f"{call.run}-{call.batch:012}-{call.number}-{digest}.jsonl"
    write_file(folder, name, "".join(lines).encode(), replace=False)


def select_aside(table: pa.Table, *more: str) -> pa.Table:
    """Return the columns that the side output needs, and some more."""
    return table.select([n for n in (*more, REASON, STREAM, EVENT) if n in table.column_names])


def write_file(folder: str, name: str, content: bytes, *, replace: bool = True) -> None:
    """Write a file that appears whole; an existing one stays as it is, unless it is replaced."""
    system, path = open_folder(folder)
    system.create_dir(path, recursive=True)
    if not replace and system.get_file_info(f"{path}/{name}").type is not fs.FileType.NotFound:
        return
    with system.open_output_stream(f"{path}/{name}.writing") as file:
        file.write(content)
    system.move(f"{path}/{name}.writing", f"{path}/{name}")


def open_folder(folder: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a folder, and the folder's path in it."""
    try:
        if "://" in folder:
            found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(folder)
            return found
        return fs.LocalFileSystem(), folder
    except (OSError, pa.ArrowException) as error:
        raise CernisError(f"{folder}: no place to write to: {error}") from error


def _lines(rows: pa.Table, streams: Sequence[str]) -> pa.ChunkedArray:
    names = pa.array([json.dumps(name) for name in streams])
    numbers = (
        np.asarray(rows.column(STREAM))
        if STREAM in rows.column_names
        else np.zeros(rows.num_rows, np.int64)
    )
    reasons = pc.binary_join_element_wise('{"reason": "', rows.column(REASON), '", "stream": ', "")
    stream = names.take(pa.array(numbers))
    event = pc.coalesce(rows.column(EVENT), pa.scalar("null"))
    return pc.binary_join_element_wise(reasons, stream, ', "event": ', event, "}\n", "")
