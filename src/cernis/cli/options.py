"""The options that commands share: their names, values and help."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

LanguageName = StrEnum("LanguageName", ["ceql", "cq", "spaseq", "sql"])
DialectName = StrEnum(
    "DialectName",
    ["duckdb", "spark", "databricks", "trino", "snowflake", "oracle", "flink", "risingwave"],
)
EngineName = StrEnum("EngineName", ["local", "spark"])
TestEngine = StrEnum("TestEngine", ["local", "spark", "stream"])
Format = StrEnum(
    "Format", ["csv", "tsv", "jsonl", "parquet", "arrow", "nquads", "nq", "trig", "jsonld"]
)
StreamFormat = StrEnum(
    "StreamFormat",
    ["csv", "tsv", "jsonl", "parquet", "json", "protobuf", "nquads", "nq", "trig", "jsonld"],
)
OutputFormat = StrEnum("OutputFormat", ["parquet", "jsonl", "nq"])
OutputForm = StrEnum("OutputForm", ["table", "jsonl", "csv", "arrow", "parquet", "nq"])
LogForm = StrEnum("LogForm", ["text", "json"])
BadEvents = StrEnum("BadEvents", ["fail", "skip"])
TimeUnit = StrEnum("TimeUnit", ["s", "ms", "us", "ns"])

QueryOrRules = Annotated[
    str,
    typer.Argument(
        metavar="QUERY",
        help="A file (.ceql, .cq, .spaseq, .sql), the query itself, or a folder or file of rules.",
    ),
]
Lang = Annotated[LanguageName, typer.Option(help="The language of a query given as text.")]
Dialect = Annotated[
    DialectName | None,
    typer.Option(help="The SQL that a statement is written in; otherwise that of its engine."),
]
TimeColumn = Annotated[
    list[str] | None,
    typer.Option(
        "--time",
        metavar="COLUMN",
        help="The column of timestamps (ts if there is one), or NAME=COLUMN for a stream; for RDF, "
        "the property that has them, or graph:REGEX for the names of graphs.",
    ),
]
StreamTime = Annotated[
    list[str] | None,
    typer.Option(
        "--time",
        metavar="COLUMN",
        help="The column of timestamps (ts if there is one), or NAME=COLUMN for a stream; for RDF, "
        "the property that has them, graph:REGEX for the names of graphs, or kafka_timestamp.",
    ),
]
TypeColumn = Annotated[
    str, typer.Option("--type", metavar="COLUMN", help="The column of event types.")
]
NoType = Annotated[
    bool,
    typer.Option("--no-type", help="No column has types: a stream's name is that of its events."),
]
ColumnNames = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="A,B,C",
        help="The columns of CSV without a header, or NAME=A,B,C for a stream.",
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(metavar="SIGN", help="What stands between values of CSV; guessed otherwise."),
]
Quote = Annotated[
    str | None,
    typer.Option(
        metavar="SIGN", help="What stands around values of CSV, or none; guessed otherwise."
    ),
]
Unit = Annotated[TimeUnit, typer.Option("--time-unit", help="What integer timestamps count.")]
StreamUnit = Annotated[
    TimeUnit | None,
    typer.Option("--time-unit", help="What integer timestamps count; otherwise ms."),
]
_EVENTS = "A file, a folder, a 'glob*' or - of events, or NAME=FILE; may be repeated."
Events = Annotated[
    list[str] | None,
    typer.Option(
        "--events",
        "-e",
        metavar="FILE",
        help=f"{_EVENTS} Required, unless files follow QUERY.",
    ),
]
ExplainedEvents = Annotated[
    list[str] | None,
    typer.Option("--events", "-e", metavar="FILE", help=f"{_EVENTS} Required with --engine spark."),
]
ServedEvents = Annotated[
    list[str] | None,
    typer.Option(
        "--events",
        "-e",
        metavar="FILE",
        help="A file of events that every visitor may ask, or NAME=FILE; may be repeated.",
    ),
]
MoreEvents = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILE", help="Files of events, like --events.", show_default=False),
]
EngineOption = Annotated[EngineName, typer.Option("--engine", help="What runs the query.")]
InputFormat = Annotated[
    Format | None,
    typer.Option("--format", help="The form of the events; told by the suffix otherwise."),
]
Background = Annotated[
    list[str] | None,
    typer.Option(
        "--background",
        "-b",
        metavar="FILE",
        help="Background knowledge for GRAPH, or IRI=FILE; may be repeated.",
    ),
]
TableFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--table", metavar="NAME=FILE", help="A table that the query joins; may be repeated."
    ),
]
Parameters = Annotated[
    list[str] | None,
    typer.Option(
        "--param", metavar="NAME=VALUE", help="The value of $NAME in the query; may be repeated."
    ),
]
BadRules = StrEnum("BadRules", ["fail", "skip"])
MissingColumns = StrEnum("MissingColumns", ["fail", "null"])
OnBadRule = Annotated[
    BadRules,
    typer.Option("--on-bad-rule", help="Rules that are wrong: an error, or left out with a note."),
]
Missing = Annotated[
    MissingColumns,
    typer.Option(help="Columns that a rule names and the events lack: an error, or NULL."),
]
Strict = Annotated[bool, typer.Option("--strict", help="Warnings are errors.")]
OnError = Annotated[
    str,
    typer.Option(
        "--on-error",
        metavar="fail|skip|FILE",
        help="Rows that cannot be read: stop, leave them out, or set them aside in FILE.",
    ),
]
