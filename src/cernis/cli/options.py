"""The options that commands share: their names, values and help.

Options that belong together are a dataclass. A command takes it as one parameter, and `grouped`
gives Typer a parameter for each of its fields.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import StrEnum
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from cernis.cli.arguments import by_stream, named_columns, named_tables

if TYPE_CHECKING:
    from cernis.run.session import RunOptions

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
Budget = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="N",
        help="At most so many candidates are checked one by one; otherwise a million.",
    ),
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
StreamInputFormat = Annotated[
    StreamFormat | None,
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


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How events are read."""

    format: InputFormat = None
    time: TimeColumn = None
    type: TypeColumn = "type"
    no_type: NoType = False
    time_unit: Unit = TimeUnit.ms
    columns: ColumnNames = None
    delimiter: Delimiter = None
    quote: Quote = None
    table: TableFiles = None

    def to_options(self) -> dict[str, Any]:
        """Return the options of `Query.run`."""
        return {
            "time": by_stream(self.time or ()),
            "type": None if self.no_type else self.type,
            "time_unit": (self.time_unit or TimeUnit.ms).value,
            "format": None if self.format is None else self.format.value,
            "columns": named_columns(self.columns or ()),
            "delimiter": self.delimiter,
            "quote": self.quote,
            "tables": named_tables(self.table or ()),
        }

    def read(self, **others: Any) -> RunOptions:
        """Return how events are read, with other options of a run."""
        from cernis.run.session import RunOptions

        return RunOptions(**self.to_options(), **others)


@dataclass(frozen=True, kw_only=True)
class StreamReading(Reading):
    """How events that go on coming are read."""

    format: StreamInputFormat = None  # type: ignore[assignment]
    time: StreamTime = None
    time_unit: StreamUnit = None  # type: ignore[assignment]


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """Where a stream comes from and goes, and how it is run."""

    source: Annotated[
        list[str],
        typer.Option(
            "--source",
            "-s",
            metavar="URI",
            help="A folder of files, a file that grows, kafka://host:port/topic, tcp://host:port, "
            "or - for standard input; on Spark folders and topics; NAME=URI; may be repeated.",
        ),
    ]
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Where the run is kept, to go on from after a stop. Required on Spark, except "
            "for --explain.",
        ),
    ] = None
    sink: Annotated[
        str | None,
        typer.Option(
            metavar="URI",
            help="A folder, kafka://host:port/topic, - for standard output, or, not on Spark, "
            "https://host/path. Required, except for --explain.",
        ),
    ] = None
    lateness: Annotated[
        str, typer.Option(metavar="TIME", help="How much later than others events may come.")
    ] = "0s"
    late_output: Annotated[
        str | None,
        typer.Option(
            "--late-output", metavar="DIR", help="Where events go that are not read, and why."
        ),
    ] = None
    ahead: Annotated[
        str,
        typer.Option(metavar="TIME", help="How far ahead of the clock events may be; or none."),
    ] = "1h"
    idle: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="After so long a silence, time passes as on the clock. In one process only.",
        ),
    ] = None
    schema: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DDL",
            help="The columns, 'type string, ts timestamp', or a file; NAME=DDL for a stream.",
        ),
    ] = None
    output_format: Annotated[
        OutputFormat | None,
        typer.Option(
            "--output-format", help="The form of the matches in a folder; otherwise parquet."
        ),
    ] = None
    row: Annotated[str | None, typer.Option(metavar="COLUMN", help="A column of row numbers.")] = (
        None
    )
    buckets: Annotated[
        int | None,
        typer.Option(min=1, help="How many buckets keys are spread over; otherwise one per core."),
    ] = None
    trigger: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="How often to look for events; otherwise at once."),
    ] = None
    max_files: Annotated[
        int | None,
        typer.Option("--max-files", min=1, help="At most so many files in a micro-batch."),
    ] = None
    once: Annotated[
        bool, typer.Option("--once", help="Read the events that are there, then stop.")
    ] = False
    explain: Annotated[
        bool, typer.Option("--explain", help="Say what would be done, and do nothing.")
    ] = False
    cores: Annotated[
        int | None, typer.Option(min=1, help="How many cores of this machine; otherwise all.")
    ] = None
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Where /metrics, for Prometheus, and /health are served."
        ),
    ] = None
    max_memory: Annotated[
        int | None,
        typer.Option(
            "--max-memory",
            min=1,
            metavar="MIB",
            help="End after a commit when this process needs more memory; not on Spark.",
        ),
    ] = None
    kafka: Annotated[
        list[str] | None,
        typer.Option(
            "--kafka-property",
            metavar="NAME=VALUE",
            help="A property of Kafka's client, or NAME=env:VARIABLE; may be repeated.",
        ),
    ] = field(default=None, repr=False)
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="PORT|FILE",
            help="Numbers for Prometheus, on a port of this machine or in a file.",
        ),
    ] = None
    secret: Annotated[
        str | None,
        typer.Option(
            metavar="env:NAME|FILE",
            help="A secret that signs the checkpoint, in a variable of the environment or a file.",
        ),
    ] = field(default=None, repr=False)
    background: Background = None
    live: Annotated[
        bool,
        typer.Option(
            "--live-background", help="Read the files of --background again when they change."
        ),
    ] = False
    dialect: Dialect = None
    on_bad_rule: OnBadRule = BadRules.fail


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Let Typer see the fields of each parameter that is a dataclass as parameters."""
    hints = get_type_hints(command, include_extras=True)
    parameters, groups = list[inspect.Parameter](), dict[str, Any]()
    for name, parameter in inspect.signature(command).parameters.items():
        hint = hints[name]
        if not is_dataclass(hint):
            parameters.append(parameter.replace(annotation=hint, kind=parameter.KEYWORD_ONLY))
            continue
        groups[name], own = hint, get_type_hints(hint, include_extras=True)
        for each in fields(hint):
            default = parameter.empty if each.default is MISSING else each.default
            parameters.append(
                inspect.Parameter(
                    each.name, parameter.KEYWORD_ONLY, default=default, annotation=own[each.name]
                )
            )

    @wraps(command)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{each.name: given.pop(each.name) for each in fields(group)})
        command(**given)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run
