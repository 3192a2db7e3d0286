"""The commands. Each imports the modules that it needs when it runs: `--help` is instant."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Annotated

import typer

from cernis import __version__
from cernis.cli import workbench
from cernis.cli.arguments import (
    Delivery,
    RunArguments,
    check_output,
    check_outputs,
    choose_runner,
    find_rules,
    give_parameters,
    named_files,
    read_query,
)
from cernis.cli.failure import reported
from cernis.cli.log import log_as
from cernis.cli.options import (
    Background,
    BadEvents,
    BadRules,
    Budget,
    Dialect,
    EngineName,
    EngineOption,
    Events,
    ExplainedEvents,
    Lang,
    LanguageName,
    LogForm,
    Missing,
    MissingColumns,
    MoreEvents,
    OnBadRule,
    OnError,
    OutputForm,
    OutputFormat,
    Parameters,
    QueryOrRules,
    Reading,
    ServedEvents,
    StreamOptions,
    StreamReading,
    Strict,
    TestEngine,
    TimeUnit,
    Unit,
    grouped,
)
from cernis.errors import CernisError, DataError, neutralize

app = typer.Typer(
    name="cernis",
    help="Complex event recognition: find every match of a pattern in a stream of events.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
@grouped
def run(
    query: QueryOrRules,
    reading: Reading,
    more: MoreEvents = None,
    events: Events = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help=".jsonl, .csv, .parquet, .arrow, or .nq of RDF; - for standard output.",
        ),
    ] = None,
    output_format: Annotated[
        OutputForm | None,
        typer.Option(
            "--output-format", help="The form of the output; told by its suffix otherwise."
        ),
    ] = None,
    events_in_output: Annotated[
        bool,
        typer.Option("--events-in-output", help="Show or write the events of matches as well."),
    ] = False,
    engine: EngineOption = EngineName.local,
    count: Annotated[bool, typer.Option("--count", help="Only the number of matches.")] = False,
    limit: Annotated[
        int | None,
        typer.Option(min=0, help="At most so many matches."),
    ] = None,
    on_error: OnError = "fail",
    budget: Budget = None,
    partial: Annotated[
        bool,
        typer.Option("--partial", help="When the budget is spent: keep the matches found so far."),
    ] = False,
    max_keys: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="At most so many partitions have partial matches; otherwise any number.",
        ),
    ] = None,
    drop_oldest: Annotated[
        bool,
        typer.Option("--drop-oldest", help="Beyond --max-keys: drop those that are idle longest."),
    ] = False,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Read slices of the events on N threads; otherwise one a core."
        ),
    ] = None,
    complete: Annotated[
        bool,
        typer.Option(
            "--complete", help="Nothing follows the files: what waits for a deadline is certain."
        ),
    ] = False,
    in_order: Annotated[
        bool,
        typer.Option(
            "--in-order",
            help="The rows of a pipe are in order of time: write matches as they are found.",
        ),
    ] = False,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", help="Go on with what pipes and files get, and write matches at once."
        ),
    ] = False,
    strict: Strict = False,
    on_bad_rule: OnBadRule = BadRules.fail,
    missing: Missing = MissingColumns.fail,
    param: Parameters = None,
    background: Background = None,
    lang: Lang = LanguageName.ceql,
    dialect: Dialect = None,
    max_memory: Annotated[
        int | None,
        typer.Option(
            "--max-memory",
            min=1,
            metavar="MIB",
            help="What DuckDB may use for a statement; otherwise half of this machine's memory.",
        ),
    ] = None,
) -> None:
    """Find the matches of QUERY, or of a folder or file of rules, in files of events."""
    with reported():
        rules = find_rules(query, lang.value)
        text, language = ("", "ceql") if rules is not None else read_query(query, lang.value)
        give_parameters(param or (), text if rules is None else rules)
        files = named_files([*(events or ()), *(more or ())])
        if not files:
            raise typer.BadParameter("name a file of events", param_hint="--events")
        if language != "spaseq":
            if background:
                raise typer.BadParameter("is for RDF queries (.spaseq)", param_hint="--background")
            if output_format is OutputForm.nq:
                raise typer.BadParameter(_GRAPHS_ONLY, param_hint="--output-format")
            check_output(output, form=_value(output_format))
        if dialect is not None and language != "sql":
            raise typer.BadParameter("is for statements (.sql)", param_hint="--dialect")
        if max_memory is not None and (engine is EngineName.spark or language != "sql"):
            message = "is for statements (.sql) in this process"
            raise typer.BadParameter(message, param_hint="--max-memory")
        for option, value in (("--max-keys", max_keys), ("--threads", threads)):
            if value is not None and (engine is EngineName.spark or language in _NO_EVENTS):
                raise typer.BadParameter(
                    "is for queries over events in this process", param_hint=option
                )
        if in_order and (engine is EngineName.spark or language in _NO_EVENTS or rules is not None):
            raise typer.BadParameter(
                "is for one query over events in this process", param_hint="--in-order"
            )
        _refuse_missing(missing, engine, rules)
        if in_order and output is None and output_format is None and not count:
            output = "-"
        limits = {
            "budget": budget,
            "on_budget": "partial" if partial else None,
            "max_keys": max_keys,
            "threads": threads,
            "on_full": "oldest" if drop_oldest and max_keys is not None else None,
        }
        arguments = RunArguments(
            text=text,
            language=language,
            files=files,
            rules=rules,
            on_bad_rule=on_bad_rule.value,
            options=reading.read(
                on_error=on_error,
                complete=complete,
                in_order=in_order,
                strict=strict,
                missing=missing.value,
                **{name: value for name, value in limits.items() if value is not None},
            ),
            background=background or (),
            dialect=_value(dialect),
            max_memory=max_memory,
        )
        if follow:
            unfit = {
                "--output": output not in (None, "-"),
                "--output-format": output_format not in (None, OutputForm.jsonl),
                "--count": count,
                "--limit": limit is not None,
                "--engine": engine is EngineName.spark,
                "--events-in-output": events_in_output,
            }
            for option, is_given in unfit.items():
                if is_given:
                    raise typer.BadParameter("does not go with --follow", param_hint=option)
            from cernis.cli.streams.local import follow_files

            follow_files(arguments, [*(events or ()), *(more or ())])
            return
        delivery = Delivery.of(
            output, _value(output_format), count=count, limit=limit, events=events_in_output
        )
        check_outputs(query, arguments, output)
        try:
            choose_runner(on_spark=engine is EngineName.spark).run(arguments, delivery)
        except DataError as error:
            form = reading.format
            is_asked = form is not None and f".{form}" not in str(arguments.files)
            if not is_asked or output_format is not None or rules is not None:
                raise
            help_ = f"--format is the form of the events; for matches --output-format {form}"
            raise DataError(f"{error}\n  help: {help_}") from None


_NO_EVENTS = ("spaseq", "sql")
_GRAPHS_ONLY = "nq is for the graphs of CONSTRUCT (.spaseq)"
_RULES_EXPLAINED = "a rule set is explained as text; draw its rules one by one"


def _value(option: StrEnum | None) -> str | None:
    return None if option is None else option.value


def _refuse_missing(missing: MissingColumns, engine: EngineName, rules: str | Path | None) -> None:
    """Refuse to take columns for NULL but in rules in this process."""
    if missing is MissingColumns.null and (engine is EngineName.spark or rules is None):
        raise typer.BadParameter("is for rules in this process", param_hint="--missing")


@app.command()
@grouped
def stream(
    query: QueryOrRules,
    options: StreamOptions,
    reading: StreamReading,
    on_error: Annotated[
        BadEvents,
        typer.Option("--on-error", help="Events that cannot be read: stop, or count them."),
    ] = BadEvents.fail,
    log: Annotated[
        LogForm, typer.Option("--log", help="Messages on standard error: text, or JSON lines.")
    ] = LogForm.text,
    param: Parameters = None,
    engine: Annotated[
        EngineName, typer.Option("--engine", help="This process alone, or Spark.")
    ] = EngineName.local,
    strict: Strict = False,
    lang: Lang = LanguageName.ceql,
) -> None:
    """Find the matches of QUERY, or of a rule set, in events that go on coming."""
    with log_as(log.value), reported():
        rules = find_rules(query, lang.value)
        text, language = ("", "ceql") if rules is not None else read_query(query, lang.value)
        give_parameters(param or (), text if rules is None else rules)
        needed = {"--checkpoint": options.checkpoint, "--sink": options.sink}
        if engine is EngineName.local:
            del needed["--checkpoint"]
        for option, given in needed.items():
            if given is None and not options.explain:
                raise typer.BadParameter("is needed to run a stream", param_hint=option)
        if options.dialect is not None and language != "sql":
            raise typer.BadParameter("is for statements (.sql)", param_hint="--dialect")
        for option, value in (("--idle", options.idle), ("--max-memory", options.max_memory)):
            if value is not None and engine is EngineName.spark:
                raise typer.BadParameter("is for one process, not for Spark", param_hint=option)
        if options.listen is not None and options.metrics is not None:
            raise typer.BadParameter("does not go with --metrics", param_hint="--listen")
        if options.once and options.trigger is not None:
            raise typer.BadParameter("does not go with --once", param_hint="--trigger")
        if language != "spaseq" and (options.background or options.live):
            raise typer.BadParameter("is for RDF queries (.spaseq)", param_hint="--background")
        if language != "spaseq" and options.output_format is OutputFormat.nq:
            raise typer.BadParameter(_GRAPHS_ONLY, param_hint="--output-format")

        from cernis.cli.streams.plan import StreamArguments

        arguments = StreamArguments(
            text=text,
            language=language,
            rules=rules,
            reading=reading.read(on_error=on_error.value, strict=strict),
            unit=_value(reading.time_unit),
            **vars(options),
        )
        if engine is EngineName.local:
            from cernis.cli.streams.local import stream_local

            stream_local(arguments)
        else:
            from cernis.cli.streams.stream import stream as run_stream

            run_stream(arguments)


@app.command()
@grouped
def explain(
    query: QueryOrRules,
    reading: Reading,
    events: ExplainedEvents = None,
    engine: EngineOption = EngineName.local,
    mermaid: Annotated[
        bool, typer.Option("--mermaid", help="The automaton as a Mermaid diagram.")
    ] = False,
    rate: Annotated[
        float | None,
        typer.Option(metavar="N", help="What N events per second take: cores and memory."),
    ] = None,
    strict: Strict = False,
    on_bad_rule: OnBadRule = BadRules.fail,
    missing: Missing = MissingColumns.fail,
    param: Parameters = None,
    lang: Lang = LanguageName.ceql,
    dialect: Dialect = None,
) -> None:
    """Show how QUERY, or a rule set, is run, and what that costs."""
    with reported():
        rules = find_rules(query, lang.value)
        if rules is not None and mermaid:
            raise CernisError(_RULES_EXPLAINED)
        text, language = ("", "ceql") if rules is not None else read_query(query, lang.value)
        is_plain = engine is EngineName.local and language not in _NO_EVENTS and rules is None
        if rate is not None and not is_plain:
            raise typer.BadParameter("is for one query over events", param_hint="--rate")
        _refuse_missing(missing, engine, rules)
        give_parameters(param or (), text if rules is None else rules)
        arguments = RunArguments(
            text=text,
            language=language,
            files=named_files(events or ()),
            rules=rules,
            rate=rate,
            options=reading.read(strict=strict, missing=missing.value),
            dialect=_value(dialect),
            on_bad_rule=on_bad_rule.value,
        )
        runner = choose_runner(on_spark=engine is EngineName.spark and not mermaid)
        explanation = runner.explain(arguments)
        typer.echo(neutralize(explanation.mermaid() if mermaid else str(explanation)))


@app.command()
def check(
    query: QueryOrRules,
    strict: Strict = False,
    on_bad_rule: OnBadRule = BadRules.fail,
    param: Parameters = None,
    lang: Lang = LanguageName.ceql,
    dialect: Dialect = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print mistakes and warnings, with their codes, as JSON.")
    ] = False,
) -> None:
    """Parse and type-check QUERY, or a rule set; print all mistakes and warnings."""
    with reported():
        from cernis.cli import check

        if param:
            rules = find_rules(query, lang.value)
            give_parameters(param, rules or read_query(query, lang.value)[0])
        if json:
            check.check_as_json(query, lang.value, strict=strict, dialect=_value(dialect))
        else:
            skips = on_bad_rule is BadRules.skip
            told = check.check(
                query, lang.value, strict=strict, skips=skips, dialect=_value(dialect)
            )
            typer.echo(told)


@app.command("test")
def check_expectations(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH", help="Files of expectations (*.test.yaml), or folders."),
    ],
    engine: Annotated[
        TestEngine, typer.Option("--engine", help="What runs the cases.")
    ] = TestEngine.local,
    match: Annotated[
        str | None,
        typer.Option("--match", "-k", metavar="TEXT", help="Only cases whose name has this text."),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a report in JUnit's form.")
    ] = None,
    update: Annotated[
        bool, typer.Option("--update", help="Write what was found, after a look at each case.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --update: ask nothing.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Run again whenever a file changes.")
    ] = False,
) -> None:
    """Check queries and rules against the expectations in files beside them."""
    with reported():
        from cernis.cli.test import run_tests

        code = run_tests(
            paths,
            engine=engine.value,
            junit=junit,
            update=update,
            yes=yes,
            watch=watch,
            match=match,
        )
    raise typer.Exit(code)


for _command in (
    workbench.why,
    workbench.diff,
    workbench.sweep,
    workbench.label,
    workbench.backtest,
):
    app.command()(_command)


@app.command()
def demo(
    events: Annotated[
        int, typer.Option("--events", min=1000, help="The length of the generated stream.")
    ] = 1_000_000,
    plan: Annotated[bool, typer.Option("--plan", help="Show the plan of the query, too.")] = False,
    spark: Annotated[bool, typer.Option("--spark", help="Run it on Spark, too.")] = False,
) -> None:
    """A tour in three acts: a question, its answer, and what that costs elsewhere."""
    with reported():
        from cernis.cli.tour import TourOptions, tour
        from cernis.compiled.tiers import compile_from_now

        compile_from_now()
        tour(TourOptions(events=events, plan=plan, spark=spark))


@app.command()
def warm(
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", min=1, help="How many processes; by default one per processor."),
    ] = None,
) -> None:
    """Compile the engine now, so that no query waits for it: for images and clusters."""
    with reported():
        from cernis.cli.warm import warm

        for name in warm(jobs):
            typer.echo(f"compiled: {name}")


@app.command()
def serve(
    events: ServedEvents = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to listen; otherwise this machine alone.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")
    ] = 8000,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="NAME",
            help="A name by which browsers reach the server; may be repeated.",
        ),
    ] = None,
    time: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of times in these files.")
    ] = None,
    type: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of types in these files.")
    ] = None,
    time_unit: Unit = TimeUnit.ms,
    max_upload: Annotated[
        int, typer.Option("--max-upload", min=1, metavar="MIB", help="The size of an upload.")
    ] = 64,
    max_seconds: Annotated[
        float, typer.Option("--max-seconds", min=0.1, help="How long a run may take.")
    ] = 30.0,
    max_memory: Annotated[
        int, typer.Option("--max-memory", min=256, metavar="MIB", help="The memory of a visitor.")
    ] = 2048,
    max_matches: Annotated[
        int, typer.Option("--max-matches", min=1, help="How many matches a download has.")
    ] = 100_000,
    max_visitors: Annotated[
        int, typer.Option("--max-visitors", min=1, help="How many visitors have a process at once.")
    ] = 16,
) -> None:
    """Show a page in the browser, to try queries on samples, uploads and these files."""
    with reported():
        from cernis.cli.serve import serve

        serve(
            events or [],
            host=host,
            port=port,
            names=allow_host or [],
            reading={"time": time, "type": type, "time_unit": time_unit.value},
            limits={
                "upload_bytes": max_upload << 20,
                "seconds": max_seconds,
                "memory_bytes": max_memory << 20,
                "matches": max_matches,
                "visitors": max_visitors,
            },
        )


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
    """Measure fixed workloads, in a checkout of Cernis: events per second, ratios and plots."""
    with reported():
        from rich.console import Console

        from cernis.compiled.tiers import compile_from_now

        if not (Path(__file__).parents[3] / "benchmarks").is_dir():
            raise CernisError(
                "the benchmarks stand beside the sources of Cernis: "
                "run `make bench` in a checkout, or `pip install -e .` there"
            )
        from benchmarks import run_benchmarks

        compile_from_now()
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
    time_zone: Annotated[
        str | None,
        typer.Option(
            metavar="ZONE",
            help="The zone of functions of time that name none, such as Europe/Berlin (UTC).",
        ),
    ] = None,
) -> None:
    if time_zone is None and "cernis.languages.ceql.parse" not in sys.modules:
        return  # a command that parses nothing starts sooner
    from cernis.languages.ceql.parse import set_time_zone

    try:
        set_time_zone(time_zone)
    except CernisError as error:
        raise typer.BadParameter(str(error), param_hint="--time-zone") from None


def _leave_pandas_out(words: Sequence[str]) -> None:
    """Keep PyArrow from importing pandas, where it is installed: a fifth of a short command.

    PyArrow looks for it to recognize its objects, and files have none. Spark needs it.
    """
    is_spark = any("spark" in word for word in words)
    if words and words[0] in ("run", "check", "explain") and not is_spark:
        sys.meta_path.insert(0, _NoPandas())


class _NoPandas(MetaPathFinder):
    """Says that there is no pandas."""

    def find_spec(self, fullname: str, path: object, target: object = None, /) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("a command on files runs without pandas", name=fullname)


def main(arguments: list[str] | None = None) -> int:
    """Run a command; gives its exit code."""
    if arguments is None:
        _leave_pandas_out(sys.argv[1:])
    try:
        app(arguments, prog_name="cernis")
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 1
    return 0
