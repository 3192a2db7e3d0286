"""`StreamInput`: a stream from a folder or a topic, with its form and its columns.

The user gives the columns; otherwise they are those of the first file, as the embedded engine
reads it, with the types that the query declares; without any file, those that the query
declares. This is decided before Spark starts, so mistakes are found within milliseconds.

No text is lost silently: a row that does not fit the columns has its text in `UNDECODED`, and
a CSV file with other columns, or in another order, is an error. Turned down: Spark's own
inference of columns. It reads all files, infers other types than the embedded engine, and
finds other columns at every restart.

Cost: the names in each folder, and the first block of one file in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from cernis.errors import CernisError, DataError
from cernis.events.column_types import is_text, value_type
from cernis.events.reading.csv_form import GUESSED, CsvForm, columns_of, make_form
from cernis.events.reading.csv_text import CsvReader
from cernis.events.reading.files import FORMATS, Opening, format_of, open_file
from cernis.events.reading.mistakes import Mistakes, did_you_mean
from cernis.events.reading.reader import TableReader
from cernis.events.source import (
    DEFAULT_TIME,
    DEFAULT_TYPE,
    Source,
    check_streams,
    choose_inputs,
    column_for,
    open_events,
    schema_of,
    stream_of,
)
from cernis.pattern.check import resolve
from cernis.pattern.query import Pattern
from cernis.run.session import RunOptions
from cernis.schema import Kind, Schema, Stream
from cernis.work import endpoints
from cernis.work.ddl import check_named
from cernis.work.endpoints import Folder, Topic

NamedSources = Sequence[tuple[str | None, endpoints.Source]]

UNDECODED = "@undecoded"
"""The column with the text of a row that could not be decoded; NULL in other rows."""

ARRIVED = "kafka_timestamp"
"""The column with the time at which Kafka received a record."""

OF_FOLDERS = ("csv", "tsv", "jsonl", "parquet")
OF_TOPICS = ("json", "csv", "protobuf")
_SAME = {"json": "jsonl"}
_PLAIN = re.compile("[A-Za-z_][A-Za-z_0-9]*")
_COMPRESSED = ("", ".gz", ".bz2")
_KINDS = {
    Kind.INT: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.BOOL: pa.bool_(),
    Kind.TIMESTAMP: pa.timestamp("us", "UTC"),
}


@dataclass(frozen=True, kw_only=True)
class StreamInput:
    """One stream, before it is read."""

    stream: str
    source: endpoints.Source
    format: str
    columns: str | None
    """As Spark's DDL; None where the records have them (Protocol Buffers)."""
    known: pa.Schema | None = None
    """The columns, if they are known before Spark starts."""
    found_in: Path | None = None
    """The file that gave the columns."""
    files: str | None = None
    """A pattern for the names of the files to read; None: all."""
    form: CsvForm = GUESSED
    """How CSV is written."""


# ---------------------------------------------------------------- deciding


def parse_sources(arguments: Sequence[str]) -> NamedSources:
    """Parse sources, each with the name of its stream; None if a single one has no name."""
    parsed = [endpoints.parse_source(argument) for argument in arguments]
    if len(parsed) < 2:
        return parsed
    return [*endpoints.name_sources(parsed).items()]


def decide_inputs(
    sources: NamedSources,
    names: Sequence[str],
    declared: Schema | None,
    columns: dict[str | None, str],
    reading: RunOptions,
) -> list[StreamInput]:
    """Decide how the streams of a query are read (no names: all of them)."""
    wanted: list[tuple[str, endpoints.Source]] = choose_inputs([*sources], names)
    have = [name for name, _ in wanted]
    check_named(columns, have)
    given = {"time": reading.time, "type": reading.type, "columns": reading.columns}
    for option, by_stream in given.items():
        check_streams(option, by_stream, have)
    return [
        _decide_input(stream, source, declared, columns.get(stream, columns.get(None)), reading)
        for stream, source in wanted
    ]


def check_query(inputs: Sequence[StreamInput], pattern: Pattern, reading: RunOptions) -> None:
    """Check a query against its streams, as far as their columns are known."""
    known = [_as_source(input_, reading) for input_ in inputs if input_.known is not None]
    if pattern.declared is None and len(known) == len(inputs):
        resolve(pattern, schema_of(known))


def known_schema(inputs: Sequence[StreamInput], reading: RunOptions) -> Schema:
    """Return the attributes of the streams, in their order, without type and time columns."""
    streams = []
    for input_ in inputs:
        time, type_ = _own_columns(input_.stream, reading)
        aside = {type_, time or DEFAULT_TIME}
        if input_.known is not None:
            stream = stream_of(input_.stream, input_.known)
            kept = {name: kind for name, kind in stream.attributes.items() if name not in aside}
            streams.append(replace(stream, attributes=kept))
    return Schema(tuple(streams))


def _own_columns(stream: str, reading: RunOptions) -> tuple[str | None, str | None]:
    """Return the columns of times and of types that are given for a stream."""
    time = column_for(reading.time, stream, None)
    return time, column_for(reading.type, stream, DEFAULT_TYPE)


def _decide_input(
    stream: str,
    source: endpoints.Source,
    declared: Schema | None,
    columns: str | None,
    reading: RunOptions,
) -> StreamInput:
    declaration = None if declared is None else declared.stream(stream)
    if isinstance(source, Topic):
        return _decide_topic(stream, source, declaration, columns, reading)
    check_folder(source)
    format_, files = _choose_form(source, reading.format)
    form = make_form(columns_of(reading.columns, stream), reading.delimiter, reading.quote)
    if form.is_given and format_ not in ("csv", "tsv"):
        raise CernisError(f"{source}: columns, delimiter and quote are for CSV, not {format_}")
    input_ = StreamInput(
        stream=stream, source=source, format=format_, columns=columns, files=files, form=form
    )
    first = _first_file(source, format_, files)
    if columns is not None:
        return input_ if first is None else _take_form_of_file(input_, first)
    if first is not None:
        return _take_columns_of_file(input_, first, declared, reading)
    if format_ in ("csv", "tsv"):  # the order of the columns matters
        raise DataError(
            f"{source}: the folder has no {format_} files yet that would tell the columns; "
            "give them with --schema"
        )
    return _take_declared_columns(input_, declaration, reading)


def _decide_topic(
    stream: str,
    topic: Topic,
    declaration: Stream | None,
    columns: str | None,
    reading: RunOptions,
) -> StreamInput:
    if make_form(columns_of(reading.columns, stream), reading.delimiter, reading.quote).is_given:
        raise CernisError(f"{topic}: columns, delimiter and quote are for files, not for topics")
    asked = reading.format or "json"
    format_ = "json" if asked == "jsonl" else asked
    if format_ not in OF_TOPICS:
        raise CernisError(
            f"{topic}: the records of a topic are {', '.join(OF_TOPICS)}, not {format_}"
        )
    input_ = StreamInput(stream=stream, source=topic, format=format_, columns=columns)
    if format_ == "protobuf":
        _check_messages(topic, columns)
        return input_
    if "descriptor" in topic.options or "message" in topic.options:
        raise CernisError(f"{topic}: descriptor and message are for --format protobuf")
    return input_ if columns is not None else _take_declared_columns(input_, declaration, reading)


def _check_messages(topic: Topic, columns: str | None) -> None:
    """Check that a descriptor has the columns of Protocol Buffers."""
    options = topic.options
    if columns is not None:
        raise CernisError(
            f"{topic}: the descriptor of Protocol Buffers has the columns, not --schema"
        )
    if not options.get("descriptor") or not options.get("message"):
        raise CernisError(
            f"{topic}: Protocol Buffers need a descriptor file and a message: "
            f"{topic}?descriptor=FILE&message=NAME"
        )
    if not os.path.isfile(options["descriptor"]):
        raise CernisError(f"{options['descriptor']}: no such file")


# ----------------------------------------------------------------- folders


def check_folder(folder: Folder) -> None:
    """Raise an error for a source that is no folder."""
    if not folder.path.exists():
        beside = [*list_names(folder.path.parent)] if folder.path.parent.is_dir() else []
        raise DataError(f"{folder}: no such folder{did_you_mean(folder.path.name, beside)}")
    if not folder.path.is_dir():
        raise DataError(
            f"{folder}: is a file; a stream is a folder that files are put into, and cernis run "
            "reads a file"
        )


def list_names(folder: Path) -> Iterator[str]:
    """Return the names in a folder that Spark reads."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise DataError(f"{folder}: {error.strerror}") from None
    return (name for name in names if not name.startswith((".", "_")))


def _choose_form(folder: Folder, asked: str | None) -> tuple[str, str | None]:
    """Return the form of the files in a folder, and a pattern for their names."""
    if asked is not None:
        format_ = _SAME.get(asked, asked)
        if format_ not in OF_FOLDERS:
            raise CernisError(
                f"{folder}: the files of a folder are {', '.join(OF_FOLDERS)}, not {asked}"
            )
        return format_, None
    forms = sorted(
        {form for name in list_names(folder.path) if (form := _form_of_file(name)) is not None}
    )
    if not forms:
        raise DataError(
            f"{folder}: no file in it tells their form by its suffix; name one with --format "
            f"({', '.join(OF_FOLDERS)})"
        )
    if forms[1:]:
        raise DataError(
            f"{folder}: has files of {' and '.join(forms)}; keep them in folders of their own"
        )
    return forms[0], f"*{{{','.join(_ends(forms[0]))}}}"


def _form_of_file(name: str) -> str | None:
    try:
        form = format_of(Path(name))
    except DataError:
        return None
    return form if form in OF_FOLDERS and name.endswith(_ends(form)) else None


def _ends(form: str) -> tuple[str, ...]:
    """Return the suffixes of files of a form."""
    suffixes = [suffix for suffix, of in FORMATS.items() if of == form]
    return tuple(f"{suffix}{packed}" for suffix in suffixes for packed in _COMPRESSED)


def _first_file(source: Folder, form: str, files: str | None) -> Path | None:
    """Return the first file, by name, that is not empty."""
    folder = Path(source.text) if os.path.isdir(source.text) else source.path
    paths = (folder / name for name in list_names(source.path))
    named = (path for path in paths if files is None or path.name.endswith(_ends(form)))
    return next((p for p in named if p.is_file() and p.stat().st_size), None)


# ----------------------------------------------------------------- columns


def _take_form_of_file(input_: StreamInput, file: Path) -> StreamInput:
    """Return a stream of CSV with the delimiter and the quote of a file."""
    if input_.format not in ("csv", "tsv"):
        return input_
    opening = Opening(input_.format, Mistakes("skip"), {}, None, input_.form)
    reader = open_file(file, opening)
    return replace(input_, form=reader.form) if isinstance(reader, CsvReader) else input_


def _take_columns_of_file(
    input_: StreamInput, file: Path, declared: Schema | None, reading: RunOptions
) -> StreamInput:
    time, type_ = _own_columns(input_.stream, reading)
    [source] = open_events(
        {input_.stream: file},
        names=(input_.stream,),
        time=time,
        type=type_,
        time_unit=reading.time_unit,
        format=input_.format,
        columns=input_.form.columns,
        delimiter=input_.form.delimiter,
        quote=input_.form.quote,
        on_error="fail" if reading.on_error == "fail" else "skip",
        declared=declared,
    )
    if isinstance(source.reader, CsvReader):
        input_ = replace(input_, form=source.reader.form)
    known, time = source.columns, source.timed_by
    if time is not None and is_text(value_type(known.field(time).type)):
        if input_.format == "parquet":
            raise DataError(
                f"{file}: the time column {time!r} holds text, which Spark does not take for times"
            )
        at = known.get_field_index(time)  # Spark parses the text as times
        known = known.set(at, pa.field(time, pa.timestamp("us", "UTC")))
    return _set_columns(input_, known, file)


def _take_declared_columns(
    input_: StreamInput, declaration: Stream | None, reading: RunOptions
) -> StreamInput:
    kinds: dict[str, Kind] = {} if declaration is None else dict(declaration.attributes)
    for attributes in () if declaration is None else declaration.events.values():
        kinds |= attributes
    if not kinds or any("." in name or kind not in _KINDS for name, kind in kinds.items()):
        why = "nothing tells the columns yet" if not kinds else "the query declares not all"
        raise DataError(f"{input_.source}: {why}; give them with --schema")
    _, type_ = _own_columns(input_.stream, reading)
    fields = {} if type_ is None else {type_: pa.string()}
    fields |= {name: _KINDS[kind] for name, kind in kinds.items()}
    return _set_columns(input_, pa.schema(fields), None)


def _set_columns(input_: StreamInput, known: pa.Schema, file: Path | None) -> StreamInput:
    where = input_.source if file is None else file
    types = [_ddl_of_field(where, field, text=input_.format != "parquet") for field in known]
    pairs = zip(known.names, types, strict=True)
    ddl = ", ".join(f"{quote_ddl_name(name)} {type_}" for name, type_ in pairs)
    return replace(input_, columns=ddl, known=known, found_in=file)


def _ddl_of_field(where: object, field: pa.Field, *, text: bool) -> str:
    type_ = value_type(field.type)
    if text and pa.types.is_timestamp(type_):
        type_ = pa.timestamp("us", type_.tz)
    ddl = ddl_type(type_)
    if ddl is None and text:  # a column of NULLs, or of times of day
        return "string"
    if ddl is None:
        raise DataError(
            f"{where}: the column {field.name!r} holds {field.type}, which Spark cannot read from "
            "Parquet; give the columns that it can with --schema"
        )
    return ddl


def _as_source(input_: StreamInput, reading: RunOptions) -> Source:
    """Return the stream as the embedded engine sees it, without rows."""
    assert input_.known is not None
    known = input_.known
    time, type_ = _own_columns(input_.stream, reading)
    if isinstance(input_.source, Topic) and time == ARRIVED:
        known = known.append(pa.field(ARRIVED, _KINDS[Kind.TIMESTAMP]))
    label = str(input_.source if input_.found_in is None else input_.found_in)
    source = Source(
        input_.stream,
        TableReader(label, known.empty_table()),
        time=time,
        type=type_,
        time_unit=reading.time_unit,
        default_type=input_.stream if type_ == DEFAULT_TYPE else None,
    )
    if source.time_column is None:
        raise DataError(
            f"{label}: a stream is read in order of time, and has no column "
            f"{DEFAULT_TIME!r}; name the one with the times with --time"
        )
    return source


_SCALARS = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.uint8(): "smallint",
    pa.uint16(): "int",
    pa.uint32(): "bigint",
    pa.uint64(): "decimal(20,0)",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
}


def ddl_type(type_: pa.DataType) -> str | None:
    """Return an Arrow type in Spark's DDL; None if Spark has no such type.

    >>> ddl_type(pa.list_(pa.struct({"at": pa.timestamp("ms"), "n": pa.uint8()})))
    'array<struct<at: timestamp_ntz, n: smallint>>'
    """
    type_ = value_type(type_)
    t = pa.types
    if type_ in _SCALARS:
        return _SCALARS[type_]
    if t.is_timestamp(type_) and type_.unit != "ns":
        return "timestamp_ntz" if type_.tz is None else "timestamp"
    if t.is_decimal128(type_) and 0 <= type_.scale <= type_.precision:
        return f"decimal({type_.precision},{type_.scale})"
    if t.is_struct(type_) and type_.num_fields:
        inside = [(field.name, ddl_type(field.type)) for field in type_.fields]
        fields = ", ".join(f"{quote_ddl_name(name)}: {ddl}" for name, ddl in inside)
        return None if any(ddl is None for _, ddl in inside) else f"struct<{fields}>"
    if t.is_list(type_) or t.is_large_list(type_):
        value = ddl_type(type_.value_type)
        return None if value is None else f"array<{value}>"
    if t.is_map(type_):
        key, item = ddl_type(type_.key_type), ddl_type(type_.item_type)
        return None if key is None or item is None else f"map<{key}, {item}>"
    return None


def quote_ddl_name(name: str) -> str:
    """Quote a name for Spark's DDL, if it needs that.

    >>> quote_ddl_name("price"), quote_ddl_name("unit price")
    ('price', '`unit price`')
    """
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"


# ------------------------------------------------------------------ reading


def read_inputs(
    spark: Any, inputs: Sequence[StreamInput], reading: RunOptions, max_files: int | None = None
) -> dict[str, Any]:
    """Read each stream as a streaming DataFrame, with `UNDECODED` as its last column."""
    return {
        input_.stream: _read_topic(spark, input_, input_.source, reading)
        if isinstance(input_.source, Topic)
        else _read_folder(spark, input_, input_.source, max_files)
        for input_ in inputs
    }


def _read_folder(spark: Any, input_: StreamInput, folder: Folder, max_files: int | None) -> Any:
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    columns = _struct(input_)
    reader = spark.readStream
    if max_files is not None:
        reader = reader.option("maxFilesPerTrigger", max_files)
    if input_.files is not None:
        reader = reader.option("pathGlobFilter", input_.files)
    url = f"file://{folder.path}"
    if input_.format == "parquet":
        nothing = F.lit(None).cast("string").alias(UNDECODED)
        return reader.schema(columns).parquet(url).select("*", nothing)
    reader = reader.schema(columns.add(UNDECODED, T.StringType())).options(
        mode="PERMISSIVE", columnNameOfCorruptRecord=UNDECODED
    )
    if input_.format == "jsonl":
        return reader.json(url)
    form = input_.form
    quote = '"' if form.quote is None else form.quote
    return reader.options(
        header=form.columns is None,
        enforceSchema=False,
        columnPruning=False,  # otherwise Spark checks only the columns that the query needs
        quote=quote,
        escape=quote or "\0",
        sep=form.delimiter or ("\t" if input_.format == "tsv" else ","),
    ).csv(url)


def _struct(input_: StreamInput) -> Any:
    from pyspark.errors import PySparkException
    from pyspark.sql import types as T

    assert input_.columns is not None
    try:
        return T.StructType.fromDDL(input_.columns)
    except PySparkException as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        said = lines[0].partition("] ")[2].partition(" SQLSTATE")[0] or lines[0]
        raise CernisError(f"--schema {input_.columns}: {said}") from error


def choose_starting(topic: Topic) -> tuple[str, dict[str, str]]:
    """Return where a topic is read from, and the options of Spark's source beside that."""
    properties = {f"kafka.{name}": value for name, value in topic.properties.items()}
    if isinstance(topic.starting, str):
        return topic.starting, properties
    return "earliest", {"startingTimestamp": str(topic.starting), **properties}


def _read_topic(spark: Any, input_: StreamInput, topic: Topic, reading: RunOptions) -> Any:
    from cernis.spark.streaming.kafka import UNDECODABLE, read_kafka

    options: dict[str, Any] = dict(topic.options)
    if "per_trigger" in options:
        options["per_trigger"] = int(options["per_trigger"])
    options["starting"], options["options"] = choose_starting(topic)
    form: Any = input_.format
    read = read_kafka(
        spark, topic.servers, topic.topic, format=form, schema=input_.columns, **options
    )
    if _own_columns(input_.stream, reading)[0] != ARRIVED:
        read = read.drop(ARRIVED)
    others = [f"`{name.replace('`', '``')}`" for name in read.columns if name != UNDECODABLE]
    return read.select(*others, read[UNDECODABLE].alias(UNDECODED))
