"""The commands of the rule writer's workbench: sweep, diff, why, label, backtest.

They read events as `cernis run` does, so they share its options.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, wraps
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from cernis.cli import options as o
from cernis.cli.arguments import (
    Files,
    find_rules,
    give_parameters,
    named_files,
    read_query,
)
from cernis.cli.failure import reported
from cernis.errors import CernisError, QueryError, neutralize
from cernis.integers import count_noun


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(o.Reading):
    """The files of a command, and how they are read."""

    more: o.MoreEvents = None
    events: o.Events = None
    on_error: o.OnError = "fail"
    param: o.Parameters = None
    lang: o.Lang = o.LanguageName.ceql

    @cached_property
    def files(self) -> Files:
        files = named_files([*(self.events or ()), *(self.more or ())])
        if not files:
            raise typer.BadParameter("name a file of events", param_hint="--events")
        return files

    @cached_property
    def options(self) -> dict[str, Any]:
        """The options of `Query.run` that say how events are read."""
        return {**self.to_options(), "on_error": self.on_error}

    @property
    def params(self) -> Sequence[str]:
        return self.param or ()


def with_reading(command: Callable[..., int | None]) -> Callable[..., None]:
    """Report failures of a command that takes `ReadingOptions`, and end with its exit code."""

    @o.grouped
    @wraps(command)
    def run(reading: ReadingOptions, **given: Any) -> None:
        with reported():
            _ = reading.files, reading.options  # which refuse wrong ones first
            code = command(reading=reading, **given)
        if code:
            raise typer.Exit(code)

    return run


def _parse(argument: str, reading: ReadingOptions) -> Any:
    """Return the query of an argument, with the values of `--param`."""
    import cernis

    if find_rules(argument, reading.lang) is not None:
        raise CernisError(f"{argument}: has rules; this command takes one query")
    text, lang = read_query(argument, reading.lang)
    if lang not in ("ceql", "cq"):
        raise CernisError(f"this command takes a query in CEQL or a conjunctive query, not {lang}")
    give_parameters(reading.params, text)
    try:
        return cernis.query(text, lang=lang)
    except cernis.QueryError:
        if lang != "cq":
            raise
    names = ("time", "type", "time_unit", "format", "columns", "delimiter", "quote")
    known = cernis.schema_of(reading.files, **{name: reading.options[name] for name in names})
    return cernis.query(text, lang=lang, schema=known)


def _echo(text: str) -> None:
    typer.echo(neutralize(text))


Output = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write the numbers as JSON.")
]


def _write_json(path: Path | None, value: Any) -> None:
    if path is not None:
        text = json.dumps(value, default=_write_plain, ensure_ascii=False, indent=2)
        path.write_text(f"{text}\n", encoding="utf-8")


def _write_plain(value: Any) -> str:
    from cernis.workbench.sweep import write_value

    return write_value(value)


QueryArgument = Annotated[
    str, typer.Argument(metavar="QUERY", help="A file (.ceql, .cq), or the query itself.")
]


@with_reading
def sweep(
    query: QueryArgument,
    vary: Annotated[
        list[str],
        typer.Option(
            "--vary",
            metavar="'NAME = FROM..TO by STEP'",
            help="A parameter and its values, also 'NAME = a, b, c'; may be repeated.",
        ),
    ],
    reading: ReadingOptions,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE.svg", help="Write the plot as a picture.")
    ] = None,
    json: Output = None,
) -> None:
    """Count the matches of QUERY for each value of its parameters."""
    from cernis.workbench.sweep import describe_passes, parse_vary
    from cernis.workbench.sweep import sweep as run_sweep

    values: dict[str, Any] = {}
    for each in vary:
        name, several = parse_vary(each)
        if name in values:
            raise CernisError(f"--vary {each!r}: ${name} varies already")
        values[name] = several
    found = run_sweep(_parse(query, reading), reading.files, values, **reading.options)
    _echo(str(found))
    typer.echo(describe_passes(found), err=True)
    if plot is not None:
        plot.write_text(found.svg(), encoding="utf-8")
    _write_json(json, found.to_arrow().to_pylist())


Required = StrEnum("Required", ["no-lost", "no-gained", "same"])


@with_reading
def diff(
    old: Annotated[
        str, typer.Argument(metavar="OLD", help="A query, or a file or folder of rules.")
    ],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The query or rules to compare.")],
    reading: ReadingOptions,
    sample: Annotated[
        int, typer.Option(min=0, max=1000, help="So many matches of each side are shown.")
    ] = 3,
    seed: Annotated[int | None, typer.Option(help="Show the same matches each time.")] = None,
    require: Annotated[
        Required | None, typer.Option("--require", help="Exit with 1 if this does not hold.")
    ] = None,
    json: Output = None,
) -> int:
    """Count the matches that NEW gains, loses and keeps of those of OLD."""
    from cernis.cli.terminal import events_table, table_console
    from cernis.run.rules.rule_set import RuleSet
    from cernis.workbench.diff import MatchDiff, write_sample
    from cernis.workbench.diff import diff as run_diff

    sources = [find_rules(each, reading.lang) for each in (old, new)]
    if all(source is not None for source in sources):
        give_parameters(reading.params, *sources)  # type: ignore[arg-type]
        versions: list[Any] = [RuleSet.of(source) for source in sources]
    else:
        if sources != [None, None]:
            rules = old if sources[0] is not None else new
            raise CernisError(
                f"diff compares two queries or two rule sets, not one of each: {rules} has rules"
            )
        texts = [read_query(each, reading.lang)[0] for each in (old, new)]
        give_parameters(reading.params, *texts)
        versions = [_parse(each, replace(reading, param=None)) for each in (old, new)]
    one, other = versions
    found = run_diff(one, other, reading.files, sample=sample, seed=seed, **reading.options)
    parts = (
        [("\n".join(found.list_numbers()), found)]
        if isinstance(found, MatchDiff)
        else [
            ("\n  ".join([found.write_head(name), *each.list_groups()]), each)
            for name, each in found.all_rules.items()
        ]
    )
    for text, part in parts:
        _echo(text)
        for side, match in zip(*part.list_samples(), strict=True):
            _echo(write_sample(side, match))
            table_console().print(events_table(match))
    _write_json(json, found.to_dict())
    lost, gained = (
        sum(getattr(part, side).total for _, part in parts) for side in ("lost", "gained")
    )
    broken = {"no-lost": lost, "no-gained": gained, "same": lost + gained}
    if require is not None and broken[require.value]:
        typer.echo(f"error: --require {require.value} does not hold", err=True)
        return 1
    return 0


@with_reading
def why(
    query: Annotated[
        str,
        typer.Argument(
            metavar="QUERY", help="A file (.ceql, .cq, .sql) or folder, or the query itself."
        ),
    ],
    reading: ReadingOptions,
    rows: Annotated[
        str | None,
        typer.Option("--rows", metavar="3,7,9", help="Rows that should have been a match."),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="VALUE", help="Only this key; once for each component."),
    ] = None,
    end: Annotated[
        int | None,
        typer.Option("--end", metavar="ROW", help="The row at which a match should have ended."),
    ] = None,
    rule: Annotated[
        str | None, typer.Option("--rule", metavar="NAME", help="Only this rule of a set.")
    ] = None,
    json: Output = None,
    dialect: o.Dialect = None,
    budget: o.Budget = None,
) -> None:
    """Show how far partial matches of QUERY get, and what is in the way of the others."""
    from cernis.workbench.why import why as run_why

    try:
        numbers = None if rows is None else [int(part) for part in rows.split(",")]
    except ValueError:
        raise CernisError(f"--rows {rows}: expected numbers of rows, such as 3,7,9") from None
    source = find_rules(query, reading.lang)
    text, lang = ("", "ceql") if source is not None else read_query(query, reading.lang)
    if lang == "sql":
        if key or end is not None:
            raise CernisError("--key and --end are for queries in CEQL; name rows with --rows")
        from cernis.cli.run_statement import name_tables, why_statement
        from cernis.run.rows.statement import SqlQuery

        statement = SqlQuery(text, dialect=dialect or "duckdb")
        tables = name_tables(reading.files, reading.options)
        told, plain = why_statement(statement, tables, numbers)
        _echo(told)
        _write_json(json, plain)
        return
    if dialect is not None:
        raise typer.BadParameter("is for statements (.sql)", param_hint="--dialect")
    asked: dict[str, Any] = {
        "rows": numbers, "key": tuple(key) if key else None, "end": end, **reading.options
    }  # fmt: skip
    if budget is not None:
        asked["budget"] = budget
    if source is None:
        if rule is not None:
            raise CernisError(f"--rule {rule}: {query} is one query, without rules")
        found = run_why(_parse(query, reading), reading.files, **asked)
        _echo(str(found))
        _write_json(json, found.to_dict())
        return
    plain = {}
    queries = _name_rules(source, reading)
    if rule is not None and rule not in queries:
        raise CernisError(f"there is no rule {rule!r}; there are {', '.join(queries)}")
    made = {own.pattern.into for own in queries.values() if own.pattern.into is not None}
    for name, own in queries.items():
        if rule not in (None, name):
            continue
        if inserted := made.intersection(own.pattern.streams):
            names = ", ".join(sorted(inserted))
            _echo(f"rule {name}\nnot counted: it reads {names}, which rules make")
            continue
        try:
            found = run_why(own, reading.files, **asked)
        except QueryError:
            raise
        except CernisError as error:
            raise CernisError(f"rule {name}: {error}") from None
        _echo(f"rule {name}")
        _echo(str(found))
        plain[name] = found.to_dict()
    _write_json(json, plain)


def _name_rules(source: Any, reading: ReadingOptions) -> dict[str, Any]:
    """Return the queries of a rule set by their names."""
    from cernis.run.rules.rule_set import RuleSet

    give_parameters(reading.params, source)
    return {rule.name: rule.query for rule in RuleSet.of(source)}


_MOST_ROWS = 20
SampleBy = StrEnum("SampleBy", ["key", "day", "rule"])


@with_reading
def label(
    query: Annotated[
        str,
        typer.Argument(metavar="QUERY", help="A query, or a file or folder of rules."),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE.jsonl", help="The file of labels.")
    ],
    reading: ReadingOptions,
    sample: Annotated[int, typer.Option(min=0, help="How many matches to ask about.")] = 20,
    by: Annotated[
        SampleBy | None,
        typer.Option("--by", help="As many matches of each key, of each day, or of each rule."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Draw the same matches each time.")] = None,
    width: Annotated[
        float, typer.Option(min=0.001, max=1, help="The width of the interval that you want.")
    ] = 0.1,
    report: Annotated[
        bool, typer.Option("--report", help="Ask nothing: measure the query on the labels.")
    ] = False,
    incidents: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Known incidents, for the share of them that is found."),
    ] = None,
) -> None:
    """Ask which of a sample of the matches of QUERY are real, and say how precise it is."""
    from cernis.cli.terminal import events_table, table_console
    from cernis.views.text_timeline import write_timeline
    from cernis.workbench.label import By, LabelFile, draw_sample, find_recall, measure

    found = _find_matches(query, reading)
    if report and incidents is None and not out.exists():
        raise CernisError(f"{out}: no such file; --report measures the labels of one")
    labels = LabelFile.open(out, found)
    strata = cast("By | None", None if by is None else by.value)
    drawn = []
    if not report:
        drawn = list(draw_sample(found, sample, by=strata, seed=seed, known=labels.labels.keys()))
        for number, one in enumerate(drawn, 1):
            match = one.match
            where = "".join(
                f" of {name}" for name in dict.fromkeys((one.rule, one.stratum)) if name
            )
            _echo(f"\nmatch {number} of {len(drawn)}{where}: rows {match.start} to {match.end}")
            ends = str(match.start), str(match.end)
            _echo(write_timeline(match.positions, *match.interval, ends=ends))
            table_console().print(events_table(match))
            answer = typer.prompt("real? y, n, unsure, quit", value_proc=_read_answer)
            if answer == "quit":
                break
            labels.add(one.id, answer, match, one.stratum)
            _echo(measure(found, labels, strata).describe(width))
    if report or not drawn or not labels.labels:
        measured = measure(found, labels, strata)
        if not report and measured.precision.labelled and sample:
            _echo("all matches of the sample have a label")
        _echo(measured.describe(width))
        if isinstance(found, dict):
            for rule, matches in found.items():
                _echo(f"rule {rule}: {measure({rule: matches}, labels.keep_rule(rule)).precision}")
    if incidents is not None:
        recall, missed = find_recall(found, incidents, time_unit=reading.options["time_unit"])
        if recall.value is None:
            _echo(f"recall unknown: {incidents} has no incidents")
            return
        _echo(f"recall {recall}, from {count_noun(recall.labelled, 'incident')}")
        if missed:
            rows = ", ".join(map(str, missed[:_MOST_ROWS]))
            more = f" and {len(missed) - _MOST_ROWS:,} more" if len(missed) > _MOST_ROWS else ""
            noun = "row" if len(missed) == 1 else "rows"
            _echo(f"not found: {noun} {rows}{more} of {incidents}")


def _find_matches(argument: str, reading: ReadingOptions) -> Any:
    """Return the matches of a query, or of the rules of a set by their names."""
    from cernis.run.rules.rule_set import RuleSet
    from cernis.workbench.tally import need_matches

    source = find_rules(argument, reading.lang)
    if source is None:
        found = _parse(argument, reading).run(reading.files, **reading.options)
        return need_matches(found, "label")
    give_parameters(reading.params, source)
    results = RuleSet.of(source).run(reading.files, **reading.options)
    return {name: need_matches(found, f"rule {name}: label") for name, found in results.items()}


def _read_answer(text: str) -> str:
    given = text.strip().lower()
    for word, answer in (("yes", "y"), ("no", "n"), ("unsure", "unsure"), ("quit", "quit")):
        if given and word.startswith(given):
            return answer
    raise typer.BadParameter("expected y, n, unsure or quit")


@with_reading
def backtest(
    rules: Annotated[
        str, typer.Argument(metavar="RULES", help="A query, or a file or folder of rules.")
    ],
    reading: ReadingOptions,
    engine: o.EngineOption = o.EngineName.local,
    stream: Annotated[
        bool, typer.Option("--stream/--no-stream", help="Run it as a stream, too, and compare.")
    ] = True,
    suppress: Annotated[
        str,
        typer.Option(metavar="TIME", help="What SUPPRESS BY the key FOR so long would save."),
    ] = "1h",
    alerts: Annotated[
        Path | None,
        typer.Option(
            "--alerts",
            metavar="PATH",
            help="JSON lines that cernis stream has written, to compare on the time of both.",
        ),
    ] = None,
    json: Output = None,
) -> int:
    """Run RULES over a history, and then as a stream; report alerts per day, rule and key."""
    from cernis.cli.test import run_on_spark
    from cernis.run.rules.rule_set import RuleSet
    from cernis.workbench.backtest import backtest as run_backtest

    source = find_rules(rules, reading.lang)
    if source is None:
        found_rules = RuleSet.of({"query": _parse(rules, reading)})
    else:
        give_parameters(reading.params, source)
        found_rules = RuleSet.of(source)
    on_spark = run_on_spark if engine is o.EngineName.spark else None
    found = run_backtest(
        found_rules,
        reading.files,
        batch=on_spark,
        stream=stream,
        suppress=suppress,
        delivered=alerts,
        **reading.options,
    )
    _echo(str(found))
    _write_json(json, found.to_dict())
    return 0 if found.agrees else 1
