"""`parse_graphs`: rows with the texts of graphs to rows of events, as the source `rdf` gives them.

    spark.readStream.format("kafka")…load()                      a message is one graph
    spark.readStream.format("binaryFile").schema(FILES)…load()   a file has any number of graphs

The events of a row depend on that row alone, so a micro-batch that runs again gives the same
events, with the same numbers and the same names of blank nodes. A message of Kafka has its offset
as its number (plus 2^40 for each partition before its own); a row of another source has a column
for it. The events of a file are numbered from a hash of its path on: a folder that grows has no
other order that stays.

Cost: parsing, in the tasks that read. Turned down: parsing in the buckets, which are fewer.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cernis.errors import CernisError
from cernis.events.times import UNITS
from cernis.rdf.query import parse_time_rule
from cernis.rdf.reading.messages import GraphTextReader, ReadTexts
from cernis.rdf.reading.quads import find_format, import_oxigraph
from cernis.rdf.reading.terms import Terms
from cernis.rdf.reading.times import TimeRule
from cernis.spark.rdf.source import UNDECODABLE
from cernis.work.rdf import write_triples

FILES = "path string, modificationTime timestamp, length bigint, content binary"
"""The columns of Spark's source `binaryFile`."""

_TRIPLES = "triples array<struct<s: string, p: string, o: string>>"
_TEXT, _NUMBER, _AT = "@text", "@number", "@at"
_PARTITION = 2**40
_MOST = 2**62 - 2**32
_TRIPLE = pa.struct({"s": pa.string(), "p": pa.string(), "o": pa.string()})


@dataclass(frozen=True, kw_only=True)
class _Parsing:
    """The work of a task that parses texts."""

    stream: str
    rule: TimeRule
    format: str
    documents: bool
    """A text has any number of graphs; otherwise it is one."""
    dated: bool


def parse_graphs(
    texts: DataFrame,
    stream: str,
    *,
    value: str | None = None,
    number: str | None = None,
    format: str = "nq",
    time: str | TimeRule | None = None,
    time_unit: str = "ms",
    dated: bool = True,
) -> DataFrame:
    """Return the graphs in texts as rows of events, for `recognize_graphs`.

    Rows with `content` and `path` (Spark's `binaryFile`) are files. Other rows are messages of one
    graph each, in the column `value`. `number` names a column that numbers messages; those of
    Kafka have numbers. `stream` is the name of their stream in the query; `format` is "nq", "trig",
    "jsonld", "nt" or "ttl".
    `time` is the property that has the times of events, `graph:` and a regular expression for
    the names of graphs, or a column of the rows; without it, an event has one of the properties
    that streams usually have. Numbers count `time_unit`s; `dated=False` says that times are
    numbers, and not dates. Texts that cannot be read are rows without an event, whose column
    `undecodable` says why.
    """
    import_oxigraph()
    documents = value is None and {"path", "content"} <= {*texts.columns}
    columns = [_find_text(texts, value, documents), _find_number(texts, number, documents)]
    at = isinstance(time, str) and time in texts.columns
    if at:
        columns.append(_find_time(texts, str(time), time_unit).alias(_AT))
    rule = parse_time_rule(None if at else time, time_unit)
    assert isinstance(rule, TimeRule)
    parsing = _Parsing(
        stream=stream,
        rule=rule,
        format=find_format(b"", format),
        documents=documents,
        dated=dated,
    )
    time_column = "time timestamp, " if dated else ""
    schema = (
        f"stream string, number bigint, ts bigint, {time_column}graph string, {_TRIPLES}, "
        f"{UNDECODABLE} string"
    )
    return texts.select(*columns).mapInArrow(partial(_parse_rows, parsing), schema)


def _find_text(texts: DataFrame, value: str | None, documents: bool) -> Column:
    name = value or ("content" if documents else "value")
    if name not in texts.columns:
        raise CernisError(
            f"the rows have no column {name!r} with the texts of graphs: name it with value="
        )
    return F.col(name).cast("binary").alias(_TEXT)


def _find_number(texts: DataFrame, number: str | None, documents: bool) -> Column:
    if number is not None:
        return F.col(number).cast("bigint").alias(_NUMBER)
    if documents:
        return F.pmod(F.xxhash64("path"), F.lit(_MOST)).alias(_NUMBER)
    if {"partition", "offset"} <= {*texts.columns}:
        offset = F.col("partition").cast("bigint") * F.lit(_PARTITION) + F.col("offset")
        return offset.alias(_NUMBER)
    raise CernisError(
        "the messages have no numbers: name a column that has them with number=, such as a "
        "sequence number; monotonically_increasing_id() differs when a micro-batch runs again"
    )


def _find_time(texts: DataFrame, name: str, unit: str) -> Column:
    """Return a column of times in nanoseconds."""
    if dict(texts.dtypes)[name] == "timestamp":
        return F.unix_micros(F.col(name)) * F.lit(1000)
    return F.col(name).cast("bigint") * F.lit(UNITS[unit])


# -------------------------------------------------------------------- tasks


def _parse_rows(parsing: _Parsing, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        texts = [text or b"" for text in batch.column(_TEXT).to_pylist()]
        numbers = np.asarray(batch.column(_NUMBER), np.int64)
        at = batch.column(_AT) if _AT in batch.schema.names else None
        if parsing.documents:
            for i, text in enumerate(texts):
                time = None if at is None else at[i].as_py()
                yield from _parse_document(parsing, text, int(numbers[i]), time)
        elif texts:
            yield from _parse_messages(parsing, texts, numbers, at)


def _parse_messages(
    parsing: _Parsing, texts: list[bytes], numbers: Any, at: pa.Array | None
) -> Iterator[pa.RecordBatch]:
    rejected: list[tuple[int, str]] = []

    def reject(i: int, reason: str) -> None:
        rejected.append((int(numbers[i]), f"{reason}\n{texts[i].decode(errors='replace')}"))

    terms = Terms()
    reader = GraphTextReader(terms, parsing.rule, parsing.format, timeless=at is not None)
    found = reader.read_messages(texts, [f"m{n}" for n in numbers.tolist()], reject)
    times = pa.array(found.events.times)
    if at is not None:
        times = at.take(pa.array(found.events.numbers))
    yield _write_rows(parsing, found, terms, numbers[found.events.numbers], times)
    yield from _write_rejected(parsing, rejected)


def _parse_document(
    parsing: _Parsing, text: bytes, number: int, at: int | None
) -> Iterator[pa.RecordBatch]:
    rejected: list[tuple[int, str]] = []
    terms = Terms()
    reader = GraphTextReader(terms, parsing.rule, parsing.format, timeless=at is not None)
    if text[:2] == b"\x1f\x8b":
        text = gzip.decompress(text)
    scope = f"d{number:x}"
    for found in reader.read_document(
        text, scope, lambda i, reason: rejected.append((number + i, reason))
    ):
        times = pa.array(found.events.times if at is None else [at] * found.events.size, pa.int64())
        yield _write_rows(parsing, found, terms, found.events.numbers + number, times)
    yield from _write_rejected(parsing, rejected)


def _write_rows(
    parsing: _Parsing, found: ReadTexts, terms: Terms, numbers: Any, times: pa.Array
) -> pa.RecordBatch:
    events = found.events
    columns: dict[str, Any] = {
        "stream": pa.array([parsing.stream] * events.size, pa.string()),
        "number": pa.array(numbers, pa.int64()),
        "ts": times,
    }
    if parsing.dated:
        whole = np.asarray(times.fill_null(0), np.int64) // 1000
        columns["time"] = pa.array(whole).cast(pa.timestamp("us", "UTC"))
    columns["graph"] = terms.repeated_texts(found.names)
    columns["triples"] = write_triples(events, terms, pa.list_(_TRIPLE))
    columns[UNDECODABLE] = pa.nulls(events.size, pa.string())
    return pa.RecordBatch.from_pydict(columns)


def _write_rejected(parsing: _Parsing, rejected: list[tuple[int, str]]) -> Iterator[pa.RecordBatch]:
    """Yield rows without events, for texts that cannot be read."""
    if not rejected:
        return
    n = len(rejected)
    columns: dict[str, Any] = {
        "stream": pa.array([parsing.stream] * n, pa.string()),
        "number": pa.array([number for number, _ in rejected], pa.int64()),
        "ts": pa.nulls(n, pa.int64()),
    }
    if parsing.dated:
        columns["time"] = pa.nulls(n, pa.timestamp("us", "UTC"))
    columns |= {
        "graph": pa.nulls(n, pa.string()),
        "triples": pa.nulls(n, pa.list_(_TRIPLE)),
        UNDECODABLE: pa.array([text for _, text in rejected], pa.string()),
    }
    yield pa.RecordBatch.from_pydict(columns)
