"""Where events go that are not read: late ones, those of a clock far ahead, bad ones.

Each becomes a line of JSON: the reason, the stream, and the event as it came. The files of a
micro-batch have names that say which task wrote them, and are put in place whole: a batch
that is run again writes them again, so that each event is there once.

Cost: nothing for events that are read but for the column that holds them as they came, and
that only travels where they are to be written.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from cernis.errors import CernisError
from cernis.spark.worker import STREAM

ASIDE, WHOLE = "@aside", "@whole"
"""Why an event is not read, NULL if it is; the event as it came, as text in JSON."""

LATE, AHEAD, UNTIMED, UNDECODABLE = "late", "ahead", "no time", "undecodable"


@dataclass(frozen=True)
class Aside:
    """A folder for what is left out."""

    folder: str


def write_aside(aside: Aside, task: str, rows: pa.Table, streams: Sequence[str]) -> None:
    """Writes the events of one task in one micro-batch; the reasons are in a column of theirs."""
    system, folder = opened(aside.folder)
    system.create_dir(folder, recursive=True)
    path = f"{folder}/{_batch():012}-{task}.jsonl"
    with system.open_output_stream(f"{path}.writing") as file:
        for batch in _lines(rows, streams).chunks:
            file.write("".join(batch.to_pylist()).encode())
    system.move(f"{path}.writing", path)


def opened(folder: str) -> tuple[fs.FileSystem, str]:
    """The file system of a folder, and the folder's path in it."""
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
    reasons = pc.binary_join_element_wise('{"reason": "', rows.column(ASIDE), '", "stream": ', "")
    stream = names.take(pa.array(numbers))
    event = pc.coalesce(rows.column(WHOLE), pa.scalar("null"))
    return pc.binary_join_element_wise(reasons, stream, ', "event": ', event, "}\n", "")


def _batch() -> int:
    """The number of the micro-batch that runs."""
    from pyspark import TaskContext

    context = TaskContext.get()
    told = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
    return int(told or 0)
