"""The side output: a folder of events that are not read: late, too far ahead, or bad.

Each becomes a line of JSON: the reason, the stream, and the event as it came. Each bucket writes
one file for a micro-batch, which appears whole. The bucket of an event does not depend on how
Spark cuts its input, so a micro-batch that runs again replaces these files, and each event is
there once.

Cost: where there is a side output, every event travels with its whole text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from cernis.errors import CernisError
from cernis.spark.worker import STREAM

REASON, EVENT = "@aside", "@whole"
"""Why an event is not read, NULL if it is; the event as it came, as JSON."""

LATE, AHEAD, UNTIMED, UNDECODABLE = "late", "ahead", "no time", "undecodable"


def write_side_output(folder: str, bucket: int, rows: pa.Table, streams: Sequence[str]) -> None:
    """Write the events of one bucket in one micro-batch; a column has the reasons."""
    lines = "".join(_lines(rows, streams).to_pylist())
    write_file(folder, f"{find_batch():012}-{bucket}.jsonl", lines.encode())


def write_file(folder: str, name: str, content: bytes) -> None:
    """Write a file that appears whole."""
    system, path = open_folder(folder)
    system.create_dir(path, recursive=True)
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


def find_batch() -> int:
    """Return the number of the micro-batch that runs."""
    from pyspark import TaskContext

    context = TaskContext.get()
    number = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
    return int(number or 0)
