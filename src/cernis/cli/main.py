"""The commands. Each module they need is imported when they run: `--help` is instant."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cernis import __version__
from cernis.cli.arguments import check_output, named_files, read_query
from cernis.cli.failure import reported
from cernis.errors import CernisError

if TYPE_CHECKING:
    from cernis.run.query import Query

_SHOWN = 10

app = typer.Typer(
    name="cernis",
    help="Complex event recognition: find every match of a pattern in a stream of events.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Language(StrEnum):
    ceql = "ceql"
    cq = "cq"
    spaseq = "spaseq"


class Format(StrEnum):
    csv = "csv"
    tsv = "tsv"
    jsonl = "jsonl"
    parquet = "parquet"
    arrow = "arrow"
    nquads = "nquads"
    trig = "trig"


class Engine(StrEnum):
    local = "local"
    spark = "spark"


class StreamFormat(StrEnum):
    csv = "csv"
    tsv = "tsv"
    jsonl = "jsonl"
    parquet = "parquet"
    json = "json"
    protobuf = "protobuf"


class OutputFormat(StrEnum):
    parquet = "parquet"
    jsonl = "jsonl"


class BadEvents(StrEnum):
    fail = "fail"
    skip = "skip"


class TimeUnit(StrEnum):
    s = "s"
    ms = "ms"
    us = "us"
    ns = "ns"


QueryArgument = Annotated[
    str, typer.Argument(metavar="QUERY", help="A file (.ceql, .cq, .spaseq), or the query itself.")
]
Lang = Annotated[Language, typer.Option(help="The language of a query given as text.")]
TimeColumn = Annotated[
    str | None,
    typer.Option(
        "--time",
        help="The column of timestamps (ts if there is one); for RDF, the property that has them, "
        "or graph:REGEX for the names of graphs.",
    ),
]
TypeColumn = Annotated[str, typer.Option("--type", help="The column of event types.")]
Unit = Annotated[TimeUnit, typer.Option("--time-unit", help="What integer timestamps count.")]
Events = Annotated[
    list[str] | None,
    typer.Option(
        "--events", "-e", metavar="FILE", help="A file of events, or NAME=FILE; may be repeated."
    ),
]
MoreEvents = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILE", help="More files of events.", show_default=False),
]
EngineOption = Annotated[Engine, typer.Option("--engine", help="What runs the query.")]
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
OnError = Annotated[
    str,
    typer.Option(
        "--on-error",
        metavar="fail|skip|FILE",
        help="Rows that cannot be read: stop, leave them out, or set them aside in FILE.",
    ),
]


@app.command()
def run(
    query: QueryArgument,
    more: MoreEvents = None,
    events: Events = None,
    format: InputFormat = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help=".jsonl or .parquet; - for standard output."
        ),
    ] = None,
    engine: EngineOption = Engine.local,
    time: TimeColumn = None,
    type: TypeColumn = "type",
    time_unit: Unit = TimeUnit.ms,
    count: Annotated[bool, typer.Option("--count", help="Only the number of matches.")] = False,
    limit: Annotated[
        int | None,
        typer.Option(min=0, help="At most so many matches."),
    ] = None,
    on_error: OnError = "fail",
    budget: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="At most so many candidates are checked one by one; otherwise a million.",
        ),
    ] = None,
    partial: Annotated[
        bool,
        typer.Option("--partial", help="When the budget is spent: keep the matches found so far."),
    ] = False,
    background: Background = None,
    lang: Lang = Language.ceql,
) -> None:
    """Find the matches of QUERY in files of events."""
    with reported():
        text, language = read_query(query, lang.value)
        files = named_files([*(events or ()), *(more or ())])
        if not files:
            raise typer.BadParameter("name a file of events", param_hint="--events")
        if language == "spaseq":
            from cernis.cli import spaseq as graphs

            graphs.run(
                text,
                files,
                graphs.Asked(
                    background=background or [],
                    time=time,
                    time_unit=time_unit.value,
                    format=None if format is None else format.value,
                    on_error=on_error,
                ),
                output=output,
                count=count,
                limit=limit,
                shown=_SHOWN,
                engine=engine.value,
            )
            return
        _without(background, "--background", "RDF queries (.spaseq)")
        check_output(output)
        form = _reading(time, type, time_unit, format)
        if engine is Engine.spark:
            from cernis.cli import on_spark

            on_spark.run(
                _query(text, language, files, form, on_spark.readable),
                files,
                form,
                output=output,
                count=count,
                limit=limit,
                shown=_SHOWN,
                on_error=on_error,
                allowance=_allowance(budget, partial),
            )
            return

        from cernis.cli import deliver, show

        recognizer = _query(text, language, files, form)
        reading = {**form, "on_error": on_error, **_allowance(budget, partial)}
        session = recognizer.session(**reading)
        runs = deliver.watched(session, files, output)
        noun = deliver.MATCH if recognizer.plan.head is None else deliver.ANSWER
        if count:
            deliver.write_count(runs, limit, output)
        elif output is None:
            deliver.show(runs, _SHOWN if limit is None else limit, show.output(), noun)
        elif output.endswith(".parquet"):
            deliver.write_parquet(
                runs, limit, output, lambda: recognizer.run(files, **reading).schema, noun
            )
        else:
            deliver.write_lines(runs, limit, output, noun)
        for note in session.notes:
            show.errors().print(f"note: {note}", soft_wrap=True)


def _without(given: object, option: str, what: str) -> None:
    if given:
        raise typer.BadParameter(f"is for {what}", param_hint=option)


def _query(
    text: str,
    language: str,
    files: Any,
    reading: dict[str, Any],
    readable: Callable[[Any], Any] = lambda files: files,
) -> Query:
    """The query; one with arguments by position may learn their names from the events."""
    import cernis

    try:
        return cernis.query(text, lang=language)
    except cernis.QueryError:
        if language != "cq" or not files:
            raise
    known = cernis.schema_of(readable(files), **reading)
    return cernis.query(text, lang=language, schema=known)


def _allowance(budget: int | None, partial: bool) -> dict[str, Any]:
    """How many candidates may be checked, and what happens beyond."""
    given = {} if budget is None else {"budget": budget}
    return {**given, "on_budget": "partial" if partial else "fail"}


def _reading(
    time: str | None, type: str, time_unit: TimeUnit, format: Format | StreamFormat | None
) -> dict[str, Any]:
    form = None if format is None else format.value
    return {"time": time, "type": type, "time_unit": time_unit.value, "format": form}


@app.command()
def stream(
    query: QueryArgument,
    source: Annotated[
        list[str],
        typer.Option(
            "--source",
            "-s",
            metavar="URI",
            help="A folder of files, or kafka://host:port/topic; NAME=URI; may be repeated.",
        ),
    ],
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Where the run is kept, to go on from after a stop."),
    ] = None,
    sink: Annotated[
        str | None,
        typer.Option(
            metavar="URI", help="A folder, kafka://host:port/topic, or - for standard output."
        ),
    ] = None,
    lateness: Annotated[
        str, typer.Option(metavar="TIME", help="How much later than others events may come.")
    ] = "0s",
    late_output: Annotated[
        str | None,
        typer.Option(
            "--late-output", metavar="DIR", help="Where events go that are not read, and why."
        ),
    ] = None,
    ahead: Annotated[
        str,
        typer.Option(metavar="TIME", help="How far ahead of the clock events may be; or none."),
    ] = "1h",
    format: Annotated[
        StreamFormat | None,
        typer.Option("--format", help="The form of the events; told by the suffix otherwise."),
    ] = None,
    schema: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DDL",
            help="The columns, 'type string, ts timestamp', or a file; NAME=DDL for a stream.",
        ),
    ] = None,
    output_format: Annotated[
        OutputFormat | None,
        typer.Option("--output-format", help="The form of the matches in a folder; parquet."),
    ] = None,
    time: TimeColumn = None,
    type: TypeColumn = "type",
    time_unit: Unit = TimeUnit.ms,
    row: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="A column of row numbers.")
    ] = None,
    on_error: Annotated[
        BadEvents,
        typer.Option("--on-error", help="Events that cannot be read: stop, or count them."),
    ] = BadEvents.fail,
    buckets: Annotated[
        int | None,
        typer.Option(min=1, help="How many buckets keys are spread over; as many as cores."),
    ] = None,
    trigger: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="How often to look for events; otherwise at once."),
    ] = None,
    max_files: Annotated[
        int | None,
        typer.Option("--max-files", min=1, help="At most so many files in a micro-batch."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Read what is there, then stop.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say what would be done, and do nothing.")
    ] = False,
    cores: Annotated[
        int | None, typer.Option(min=1, help="How many cores of this machine; all of them.")
    ] = None,
    lang: Lang = Language.ceql,
) -> None:
    """Find the matches of QUERY in events that go on coming, on Spark."""
    with reported():
        text, language = read_query(query, lang.value)
        for option, given in (("--checkpoint", checkpoint), ("--sink", sink)):
            if given is None and not explain:
                raise typer.BadParameter("is needed to run a stream", param_hint=option)
        if once and trigger is not None:
            raise typer.BadParameter("does not go with --once", param_hint="--trigger")
        if language == "spaseq":
            raise CernisError("cernis stream takes CEQL and .cq; run SPAseQ with cernis run")

        from cernis.cli import stream as streaming
        from cernis.spark.streaming.sources import Reading

        reading = Reading(**_reading(time, type, time_unit, format), on_error=on_error.value)
        streaming.stream(
            text,
            language,
            streaming.Asked(
                source=source,
                sink=sink,
                checkpoint=checkpoint,
                schema=schema or [],
                reading=reading,
                row=row,
                lateness=lateness,
                ahead=ahead,
                late_output=late_output,
                output_format=None if output_format is None else output_format.value,
                buckets=buckets,
                trigger=trigger,
                max_files=max_files,
                once=once,
                explain=explain,
                cores=cores,
            ),
        )


@app.command()
def explain(
    query: QueryArgument,
    events: Events = None,
    format: InputFormat = None,
    engine: EngineOption = Engine.local,
    time: TimeColumn = None,
    type: TypeColumn = "type",
    time_unit: Unit = TimeUnit.ms,
    mermaid: Annotated[
        bool, typer.Option("--mermaid", help="The automaton as a Mermaid diagram.")
    ] = False,
    lang: Lang = Language.ceql,
) -> None:
    """Show how QUERY is run, and what that costs."""
    with reported():
        text, language = read_query(query, lang.value)
        files = named_files(events or ())
        if language == "spaseq":
            from cernis.cli import spaseq as graphs

            asked = graphs.Asked(
                background=[],
                time=time,
                time_unit=time_unit.value,
                format=None if format is None else format.value,
                on_error="fail",
            )
            explained = graphs.explain(text, files, asked, mermaid=mermaid, engine=engine.value)
            typer.echo(explained)
            return

        reading = _reading(time, type, time_unit, format)
        if engine is Engine.spark and not mermaid:
            from cernis.cli import on_spark

            if not files:
                raise typer.BadParameter("name a file of events", param_hint="--events")
            known = _query(text, language, files, reading, on_spark.readable)
            typer.echo(on_spark.explain(known, files, reading))
            return
        explanation = _query(text, language, files, reading).explain(files or None, **reading)
        typer.echo(explanation.mermaid() if mermaid else str(explanation))


@app.command()
def check(query: QueryArgument, lang: Lang = Language.ceql) -> None:
    """Parse and type-check QUERY; say every mistake in it."""
    with reported():
        text, language = read_query(query, lang.value)
        if language == "spaseq":
            from cernis.languages.spaseq import parse

            parse(text)
        else:
            _query(text, language, None, {})
        typer.echo("OK")


@app.command()
def demo(
    events: Annotated[
        int, typer.Option("--events", min=1000, help="The length of the generated stream.")
    ] = 1_000_000,
) -> None:
    """A tour on a generated stock market stream."""
    with reported():
        from cernis.cli.tour import tour

        tour(events)


@app.command()
def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Which benchmarks; all if none is named."),
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write the numbers there as well."),
    ] = None,
) -> None:
    """Measure fixed workloads: events per second, ratios and plots."""
    with reported():
        from rich.console import Console

        from cernis.bench import run_benchmarks

        code = run_benchmarks(names or [], json, Console())
    raise typer.Exit(code)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cernis {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


def main(arguments: list[str] | None = None) -> int:
    """Run a command; gives its exit code."""
    try:
        app(arguments, prog_name="cernis")
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 1
    return 0
