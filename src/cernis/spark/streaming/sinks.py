"""Sinks: write a stream's matches to folders, topics and standard output, until the run ends.

A folder gets each match exactly once: Spark's file sink notes which files belong to which
micro-batch, and readers that know these notes (Spark itself) see whole micro-batches only.
Topics and standard output get each match at least once, as the same line each time.

A run ends by itself, by a signal, or with an error that fills hundreds of lines in Spark;
`await_end` says it in one or two.

Cost: a folder gets a file for each task of a micro-batch that has matches, and one if none has.
This process writes standard output, a micro-batch at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from cernis.errors import CernisError
from cernis.results.formats.jsonlines import answer_lines, row_lines, text_of
from cernis.results.terms.deadline import DEADLINE
from cernis.work.endpoints import Folder, Sink, StandardOutput

LINE = "line"

_LOG = "_spark_metadata"
_PAUSE = 0.02
_DEEPEST = 20
_PLAIN_LINES = {
    "extension": "jsonl",
    "sep": "\1",
    "quote": "",
    "escape": "",
    "comment": "\2",
    "escapeQuotes": "false",
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
    "emptyValue": "",
    "lineSep": "\n",
}
"""Settings with which CSV of one column is its text: JSON has no control characters."""
_LATE = "Python worker failed to connect back"


def delivery_guarantee(sink: Sink) -> str:
    """Return how often a match arrives, in words."""
    return "exactly once" if isinstance(sink, Folder) else "at least once"


def check_sink(sink: Folder, checkpoint: Folder) -> None:
    """Raise an error for a folder with the matches of another checkpoint.

    Spark numbers the micro-batches of a checkpoint, and takes a number that the folder has
    already for a repetition: it would drop the matches silently.
    """
    written = _last(sink.path / _LOG)
    if written > _last(checkpoint.path / "offsets"):
        raise CernisError(
            f"--sink {sink}: has the matches of another run, not those of --checkpoint "
            f"{checkpoint}; go on with the checkpoint of that run, or name a new folder"
        )


def _last(log: Path) -> int:
    """Return the largest number of a file in one of Spark's logs; -1 if there is none."""
    if not log.is_dir():
        return -1
    names = (path.name.removesuffix(".compact") for path in log.iterdir())
    return max((int(name) for name in names if name.isdecimal()), default=-1)


# ------------------------------------------------------------------ writing


def format_rows(found: Any) -> Any:
    """Return the rows of a statement as lines of JSON."""

    def written(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_arrays([row_lines(batch, "")], [LINE])

    return found.mapInArrow(written, f"{LINE} string")


def format_lines(found: Any, names: list[str] | None) -> Any:
    """Return a DataFrame of lines; `names` are those of a query's answers, None for matches."""
    if names is None:
        first = [DEADLINE] if DEADLINE in found.columns else []
        return found.select(*first, "end_ts", "end", "place", LINE)

    def written(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            *values, ends, times = batch.columns
            lines = answer_lines(names, values, ends, times, "")
            yield pa.RecordBatch.from_arrays([lines], [LINE])

    return found.mapInArrow(written, f"{LINE} string")


def start(
    found: Any,
    sink: Sink,
    checkpoint: Folder,
    *,
    form: str,
    trigger: dict[str, Any],
    out: Callable[[memoryview], None],
) -> Any:
    """Start the query; `out` writes to standard output."""
    if isinstance(sink, Folder):
        if form == "parquet":
            writer = found.writeStream.format("parquet")
        elif form == "jsonl" and _allows_suffix(found.sparkSession):
            writer = found.select(LINE).writeStream.format("csv").options(**_PLAIN_LINES)
        else:
            writer = found.select(LINE).writeStream.format("text")
        writer = writer.option("path", f"file://{sink.path}")
    elif isinstance(sink, StandardOutput):
        writer = found.writeStream.foreachBatch(lambda batch, _: _print(batch, out))
    else:
        from cernis.spark.streaming.kafka import write_kafka

        writer = write_kafka(
            found.select(LINE),
            sink.servers,
            sink.topic,
            str(checkpoint.path),
            options={f"kafka.{name}": value for name, value in sink.properties.items()},
        )
    if trigger:
        writer = writer.trigger(**trigger)
    return writer.option("checkpointLocation", f"file://{checkpoint.path}").start()


def _allows_suffix(spark: Any) -> bool:
    """Return whether Spark writes files with the suffix of JSON lines.

    Its files of text end in .txt. Those of CSV end as an option says, which is documented for
    three letters, and takes more in the versions so far.
    """
    from pyspark.errors import PySparkException

    settings = "map('extension', 'jsonl')"
    try:
        spark.sql(f"SELECT to_csv(named_struct('{LINE}', ''), {settings})").collect()
    except PySparkException:
        return False
    return True


def _print(batch: Any, out: Callable[[memoryview], None]) -> None:
    """Print the lines of a micro-batch, in order of their ends, or of deadlines and ends."""
    table = batch.toArrow()
    order = [name for name in table.column_names if name != LINE]
    if order:
        table = table.sort_by([(name, "ascending") for name in order])
    for lines in pc.binary_join_element_wise(table.column(LINE), "\n", "").chunks:
        out(text_of(lines))


# ------------------------------------------------------------------- ending


class SparkGone(CernisError):
    """Spark's Java process has ended while a query ran."""


class WorkerLate(CernisError):
    """A Python process did not answer Spark in time, before a query read anything."""


def await_end(running: Any, seconds: float) -> bool:
    """Wait for a query to end; return whether it did, and raise an error if it failed."""
    from pyspark.errors import StreamingQueryException

    try:
        with _detect_end():
            return bool(running.awaitTermination(seconds))
    except StreamingQueryException as error:
        causes = _causes(error)
        if _LATE in "\n".join((str(error), *causes)):
            raise WorkerLate(
                "Spark waits ten seconds for a Python process, and this machine was too busy to "
                "start one"
            ) from error
        failure = describe_failure(str(error), causes)
        if failure is None:
            raise
        raise CernisError(failure) from error


def stop(running: Any, at_once: Callable[[], bool]) -> None:
    """Stop a query after the micro-batch that runs, or `at_once`."""
    with _detect_end():
        before = _batch(running)
        while not at_once() and running.isActive and running.status["isTriggerActive"]:
            if _batch(running) != before:
                break  # the next one has only begun
            sleep(_PAUSE)
        running.stop()


@contextmanager
def _detect_end() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError":
            raise SparkGone("Spark's Java process has ended") from error
        raise


def _batch(running: Any) -> int | None:
    progress = running.lastProgress
    return None if progress is None else int(progress["batchId"])


# ------------------------------------------------------------------- causes

_OURS = re.compile(
    r"^(?:Caused by: )?cernis\.\w+Error: (.*?)"
    r"(?=\n\s*\n|\n\s+at |\n\s*SQLSTATE: |\n=== |\Z)",
    re.DOTALL | re.MULTILINE,
)
_HEADER = re.compile(
    r"CSV header does not conform to the schema\.\s+Header: (?P<found>[^\n]*)\n"
    r"\s*Schema: (?P<own>[^\n]*)\n.*?CSV file: (?P<file>\S+)",
    re.DOTALL,
)
_LENGTH = re.compile(
    r"Number of column in CSV header is not equal to number of fields in the schema:\s+"
    r"Header length: (?P<found>\d+), schema size: (?P<own>\d+)\s+CSV file: (?P<file>\S+)"
)
_COLUMN = re.compile(
    r"Data type mismatches when reading Parquet column <?(?P<column>\[?[^>]*?\]?)>?\. "
    r"Expected Spark type (?P<own>[^,\n]*), actual Parquet type (?P<found>\w+)"
)
_FILE = re.compile(r"Encountered error while reading file (?P<file>\S+?)\.?\s")
_CAUSED = re.compile(r"^Caused by: (.*)$", re.MULTILINE)
_PROXY = "An exception was raised by the Python Proxy"
_AROUND = re.compile(
    r"\[[A-Z_0-9.]+\] |Query \[id = [^\]]*\] terminated with exception: "
    r"|Job aborted due to stage failure: |Task \d+ in stage [\d.]+ failed \d+ times, "
    r"most recent failure: |Lost task [\d.]+ in stage [\d.]+ \(TID \d+\) \([^)]*\): "
    r"|(?:[a-z]\w*\.)+[\w$]+(?:Exception|Error): "
)


def describe_failure(text: str, causes: Sequence[str] = ()) -> str | None:
    """Return why a query failed, in few lines, from the text of Spark's exception.

    None if it is not a mistake of the user's. `causes` are the messages of its causes.
    """
    everything = "\n\n".join([text, *causes])
    if ours := _OURS.findall(everything):
        return str(ours[-1]).rstrip()
    if found := _HEADER.search(everything):
        return (
            f"{_path(found['file'])}: has the columns {found['found'].strip()}, and the stream has "
            f"{found['own'].strip()}; text is read by place, so they must be the same"
        )
    if found := _LENGTH.search(everything):
        return (
            f"{_path(found['file'])}: has {found['found']} columns, and the stream has "
            f"{found['own']}; text is read by place, so they must be the same"
        )
    if "OutOfMemoryError" in everything or "from the Python worker" in everything:
        return None
    column = _COLUMN.search(everything)
    if column and (found := _FILE.search(everything)):
        return (
            f"{_path(found['file'])}: the column {column['column'].strip('[]')} is stored as "
            f"{column['found']}, and the stream has {column['own']}"
        )
    deepest = [*_CAUSED.findall(text), *causes][-1:] or [text]
    if deepest[0].startswith(_PROXY):  # Python called Java, which called Python, …
        deepest = _CAUSED.findall(everything)[-1:] or deepest
    why = _AROUND.sub("", deepest[0].strip().partition("\n")[0]).partition(" SQLSTATE:")[0].strip()
    if found := _FILE.search(everything):
        return f"{_path(found['file'])}: Spark cannot read the file: {why}"
    return f"Spark: {why}"


def _path(uri: str) -> str:
    return unquote(re.sub(r"^file:/+", "/", uri))


def _causes(error: Any) -> list[str]:
    """Return the messages of the Java exceptions that caused one, the first last."""
    causes: list[str] = []
    below = getattr(error, "_origin", None)
    while below is not None and len(causes) < _DEEPEST:
        below = below.getCause()
        if below is not None:
            causes.append(str(below.getMessage()))
    return causes
