"""`cernis test`: run files of expectations, show what differs, write what was found if asked."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import typer
from rich.text import Text

from cernis.cli.arguments import Delivery, RunArguments, choose_runner
from cernis.cli.failure import describe_spark_failure
from cernis.cli.terminal import table_console
from cernis.errors import CernisError, neutralize
from cernis.integers import count_noun
from cernis.run.session import RunOptions
from cernis.workbench.check_case import (
    CaseOutcome,
    Executor,
    FoundMatches,
    RunnableCase,
    check_case,
    flatten,
    has_no_events,
    run_stream,
    write_events,
)
from cernis.workbench.expectations import ExpectationFile, find_files, read_file
from cernis.workbench.update_expectations import write_found

_POLL = 0.3


class FileOutcome(NamedTuple):
    """How the cases of a file came out, and how many seconds each took; or the file's mistake."""

    path: Path
    file: ExpectationFile | None
    cases: Sequence[tuple[CaseOutcome, float]]
    mistake: str = ""

    @property
    def failed(self) -> int:
        return sum(not outcome.ok for outcome, _ in self.cases) + bool(self.mistake)


def run_tests(
    paths: Sequence[Path],
    *,
    engine: str,
    junit: Path | None,
    update: bool,
    yes: bool,
    watch: bool,
    match: str | None,
) -> int:
    """Run all cases, and return the exit code: 0 if all of them hold."""
    executor = _EXECUTORS[engine]
    files = find_files(paths)
    while True:
        begun = time.time()
        outcomes = [_run_file(path, executor, match) for path in files]
        for outcome in outcomes:
            _show(outcome)
        if update:
            outcomes = [_update(each, yes=yes) for each in outcomes]
        if junit is not None:
            write_junit(outcomes, junit)
        failed = sum(each.failed for each in outcomes)
        held = sum(len(each.cases) + bool(each.mistake) for each in outcomes) - failed
        if match is not None and not held + failed:
            typer.echo(f"no case has {match!r} in its name", err=True)
        table_console().print(f"{held} passed, {failed} failed", highlight=False)
        if not watch:
            return 0 if held and not failed else 1
        files = _wait_for_change(paths, outcomes, begun)


def _run_file(path: Path, executor: Executor | None, match: str | None) -> FileOutcome:
    try:
        file = read_file(path)
    except CernisError as error:
        return FileOutcome(path, None, (), str(error))
    cases = []
    for case in file.cases:
        if match is None or match.lower() in case.name.lower():
            begin = time.perf_counter()
            cases.append((check_case(file, case, executor), time.perf_counter() - begin))
    return FileOutcome(path, file, cases)


def _show(outcome: FileOutcome) -> None:
    console = table_console()

    def show(text: str, style: str = "") -> None:
        console.print(Text(neutralize(text), style), soft_wrap=True)

    show(str(outcome.path))
    if outcome.mistake:
        show(f"  ✗ {outcome.mistake}", "red")
    for case, _ in outcome.cases:
        show(f"  {'✓' if case.ok else '✗'} {case.case.name}", "green" if case.ok else "red")
        for line in case.lines:
            for part in line.splitlines():
                show(f"      {part}", {"+": "green", "-": "red"}.get(line[:1], ""))


def _update(outcome: FileOutcome, *, yes: bool) -> FileOutcome:
    """Write what was found for the cases that differ, each after a look."""
    differing = [case for case, _ in outcome.cases if not case.ok and case.found]
    if outcome.file is None or not differing:
        return outcome
    accepted = [
        case for case in differing if yes or typer.confirm(f"expect this in {case.case.name!r}?")
    ]
    if not accepted:
        return outcome
    outcome.path.write_text(write_found(outcome.file, accepted), encoding="utf-8")
    typer.echo(f"{outcome.path}: {count_noun(len(accepted), 'case')} written")
    fresh = [
        (CaseOutcome(case.case, (), case.found) if case in accepted else case, seconds)
        for case, seconds in outcome.cases
    ]
    return outcome._replace(cases=fresh)


def _wait_for_change(
    paths: Sequence[Path], outcomes: Sequence[FileOutcome], begun: float
) -> list[Path]:
    """Return the files of expectations when one of them, or a file that one names, changes.

    Files that changed while the cases ran have changed, too. An editor may replace a file, so that
    none is there for a moment.
    """
    typer.echo("waiting for changes; Ctrl-C ends")

    def look() -> tuple[list[Path], dict[Path, float]]:
        try:
            files = find_files(paths)
        except CernisError:
            files = []
        used = {path for each in outcomes if each.file is not None for path in each.file.used}
        used |= {each.path for each in outcomes} | {*files}
        return files, {path: path.stat().st_mtime for path in used if path.exists()}

    files, known = look()
    if any(begun <= changed <= time.time() for changed in known.values()):
        return files
    while True:
        time.sleep(_POLL)
        files, times = look()
        if files and times != known:
            return files


def write_junit(outcomes: Sequence[FileOutcome], path: Path) -> None:
    """Write the outcomes as JUnit XML, which CI systems read."""
    suites = ET.Element("testsuites")
    for outcome in outcomes:
        number = len(outcome.cases) + bool(outcome.mistake)
        suite = ET.SubElement(
            suites,
            "testsuite",
            name=str(outcome.path),
            tests=str(number),
            failures=str(outcome.failed),
            errors="0",
            time=f"{sum(seconds for _, seconds in outcome.cases):.3f}",
        )
        if outcome.mistake:
            _add_case(suite, outcome.path.name, 0.0, (outcome.mistake,))
        for case, seconds in outcome.cases:
            _add_case(suite, case.case.name, seconds, case.lines)
    tree = ET.ElementTree(suites)
    ET.indent(tree)
    tree.write(path, encoding="utf-8", xml_declaration=True)


def _add_case(suite: ET.Element, name: str, seconds: float, lines: Sequence[str]) -> None:
    case = ET.SubElement(
        suite, "testcase", name=neutralize(name), classname=suite.get("name", ""),
        time=f"{seconds:.3f}",
    )  # fmt: skip
    if lines:
        failure = ET.SubElement(case, "failure", message=neutralize(lines[0]))
        failure.text = neutralize("\n".join(lines))


def run_on_spark(case: RunnableCase) -> Mapping[str, FoundMatches]:
    """Run a case on Spark, from files to lines as `cernis run --engine spark` does.

    A failure inside of Spark is one of the case: others may hold.
    """
    if has_no_events(case):
        return _sort_by_rule((), case)  # Spark reads no file without columns
    try:
        return _run_files_on_spark(case)
    except CernisError:
        raise
    except Exception as error:
        said = describe_spark_failure(error)
        if said is None:
            raise
        raise CernisError(said.removeprefix("error: ")) from None


def _run_files_on_spark(case: RunnableCase) -> Mapping[str, FoundMatches]:
    with TemporaryDirectory() as folder:
        root = Path(folder)
        text, language, rules = "", "ceql", None
        options = dict(case.options)
        if case.is_graphs:
            text, language = str(case.query), "spaseq"
        elif case.rules is not None:
            rules = "\n".join(f"RULE `{rule.name}` AS {rule.query};" for rule in case.rules)
        else:
            text = str(case.query)
            is_conjunctive = getattr(case.query, "conjunctive", None) is not None
            language = "cq" if is_conjunctive else "ceql"
        written = write_events(case.events, root / "events")
        background = options.pop("background", ())
        named = options.pop("tables", {}).items()
        tables = {name: write_events(rows, root / "tables" / name) for name, rows in named}
        arguments = RunArguments(
            text=text,
            language=language,
            files=written if isinstance(written, dict) else [written],
            rules=rules,
            background=_name_background(background),
            options=RunOptions(**options, tables=tables),
        )
        output = root / "found.jsonl"
        delivery = Delivery.of(str(output), None, count=False, limit=None, events=False)
        with redirect_stderr(StringIO()):
            choose_runner(on_spark=True).run(arguments, delivery)
        with output.open(encoding="utf-8") as lines:
            return _sort_by_rule(lines, case)


def _name_background(background: Any) -> list[str]:
    """Return files of background knowledge as the command line names them."""
    if isinstance(background, Mapping):
        return [f"{name}={path}" for name, path in background.items()]
    return [str(background)] if background else []


def _sort_by_rule(lines: Iterable[str], case: RunnableCase) -> Mapping[str, FoundMatches]:
    """Return the matches that are written in lines of JSON, by the names of the rules."""
    names = [""] if case.rules is None else [rule.name for rule in case.rules]
    found: dict[str, list[Mapping[str, object]]] = {name: [] for name in names}
    for line in lines:
        own = json.loads(line)
        found[own.pop("rule", "")].append(flatten(own))
    return {name: FoundMatches(len(own), own) for name, own in found.items()}


_EXECUTORS: Mapping[str, Callable[[RunnableCase], Mapping[str, FoundMatches]] | None] = {
    "local": None,
    "spark": run_on_spark,
    "stream": run_stream,
}
