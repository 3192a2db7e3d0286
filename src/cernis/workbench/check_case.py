"""Run a case of a file of expectations, and compare what is found with what is expected.

Every engine gives matches in the form of JSON lines, so one comparison serves all of them. An
expected match names some fields of a match: `start`, `end`, a variable with its rows, a value of
SELECT, a component of the partition. Expected and found matches are paired so that as many as
possible have a partner (augmenting paths), because an expectation may fit several matches.

Cost: a run of the query, and expected · found comparisons; `MOST_COMPARED` bounds the found ones.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from cernis.errors import CernisError, DataError, QueryError
from cernis.events.reading.records import make_table
from cernis.events.source import open_events
from cernis.integers import count_noun
from cernis.languages.ceql.parse import parse_constant, use_time_zone
from cernis.languages.text.parameters import refuse_unknown, use_parameters
from cernis.run.query import Query, schema_of_events
from cernis.run.rules.rule import RuleSetError
from cernis.run.rules.rule_set import RuleSet
from cernis.workbench.expectations import Expectation, ExpectationFile, ExpectedCase

MOST_COMPARED = 10_000
"""The most matches of a case that are listed; a larger number is counted alone."""
_SHOWN = 10
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
"""A literal of RDF that is a text without language or type."""
_GRAPH_SETTINGS = ("events", "background", "time", "time_unit")
_ANY = "36500d"
"""How late events may be: the file has them, so they count."""
_NUMBERS = "number in the case"
"""A column of rows that are read as a stream beside those of other streams."""
FoundMatch = Mapping[str, Any]
"""A match as a line of JSON has it, without levels: rows of variables, values, components."""


@dataclass(frozen=True)
class RunnableCase:
    """A case with its query or rules, and its events as files or rows."""

    query: Any
    """A `Query` or a `GraphQuery`; None: rules."""
    rules: RuleSet | None
    events: Any
    options: Mapping[str, Any]

    @property
    def is_graphs(self) -> bool:
        """Whether it is about RDF streams."""
        return self.rules is None and not isinstance(self.query, Query)


@dataclass(frozen=True)
class FoundMatches:
    """What an engine found: how many, and the first of them in full."""

    count: int
    matches: Sequence[FoundMatch]


Executor = Callable[[RunnableCase], Mapping[str, FoundMatches]]
"""Runs a case; gives what each rule finds, and a query as the rule ''."""


@dataclass(frozen=True)
class CaseOutcome:
    """Whether a case holds; if not, how it differs, in lines."""

    case: ExpectedCase
    lines: tuple[str, ...]
    found: Mapping[str, FoundMatches]

    @property
    def ok(self) -> bool:
        return not self.lines


def check_case(
    file: ExpectationFile, case: ExpectedCase, executor: Executor | None = None
) -> CaseOutcome:
    """Run a case, in this process unless an executor says otherwise, and compare."""
    try:
        with prepare_case(file, case) as runnable:
            found = (executor or run_here)(runnable)
    except CernisError as error:
        where = f"{file.path}, line {case.line}"
        about = ""
        if isinstance(error, QueryError) and isinstance(file.query, Path):
            about = f"{file.query}, "
        return CaseOutcome(case, (f"{where}: {about}{error}",), {})
    except OSError as error:
        said = f"{file.path}, line {case.line}: {error.filename or ''}: {error.strerror}"
        return CaseOutcome(case, (said,), {})
    lines: list[str] = []
    expected = case.expect if isinstance(case.expect, Mapping) else {"": case.expect}
    for name, expectation in expected.items():
        if name not in found:
            lines.append(f"there is no rule {name!r}; there are {', '.join(found)}")
            continue
        about = f"rule {name}: " if name else ""
        lines += [about + line for line in compare(expectation, found[name])]
    return CaseOutcome(case, tuple(lines), found)


@contextmanager
def prepare_case(file: ExpectationFile, case: ExpectedCase) -> Iterator[RunnableCase]:
    """Parse the query of a case, and make its events ready; texts of CSV are files meanwhile."""
    settings = case.settings
    names = ("time", "type", "time_unit", "complete")
    options = {name: settings[name] for name in names if name in settings}
    with TemporaryDirectory() as folder, _named_without(folder):
        root = Path(folder)
        tables = settings.get("tables", {}).items()
        options["tables"] = {
            name: _open(rows, root, f"table-{_name_file(name)}") for name, rows in tables
        }
        if file.lang == "spaseq":
            yield _prepare_graphs(file, settings, root)
            return
        if "background" in settings:
            raise CernisError("`background` is for SPAseQ")
        (root / "tables").mkdir()
        options["tables"] = _open_all(settings.get("tables", {}), root / "tables", "tables")
        events = _open_all(settings["events"], root, "events")
        params = {name: _read_param(each) for name, each in settings.get("params", {}).items()}
        with use_time_zone(settings.get("time_zone")), use_parameters(params):
            if file.rules is not None:
                rules, query = RuleSet.of(file.rules), None
            else:
                rules, query = None, _parse(file, events, options, params)
            yield RunnableCase(query, rules, events, options)


@contextmanager
def _named_without(folder: str) -> Iterator[None]:
    """Let messages name the files of a temporary folder without it: texts of CSV are there."""
    try:
        yield
    except DataError as error:
        if folder not in str(error):
            raise
        raise DataError(str(error).replace(f"{folder}{os.sep}", "")) from None


def _parse(
    file: ExpectationFile, events: Any, options: Mapping[str, Any], params: Mapping[str, Any]
) -> Any:
    text, lang = _read_query(file), file.lang
    try:
        query: Query[Any] = Query(text, lang=lang)
    except CernisError:
        if lang != "cq":
            raise
        reading = {n: v for n, v in options.items() if n in ("time", "type", "time_unit")}
        query = Query(text, lang=lang, schema=schema_of_events(events, **reading))
    refuse_unknown(params, query.parameters)
    return query


def _read_query(file: ExpectationFile) -> str:
    source = file.query
    assert source is not None
    return source if isinstance(source, str) else source.read_text(encoding="utf-8-sig")


def _prepare_graphs(file: ExpectationFile, settings: Mapping[str, Any], root: Path) -> RunnableCase:
    """Parse a query over RDF streams, whose events and background are files or texts of RDF."""
    from cernis.rdf.query import GraphQuery

    other = [name for name in settings if name not in _GRAPH_SETTINGS]
    if other:
        raise CernisError(f"`{other[0]}` is not for SPAseQ")
    options = {name: settings[name] for name in ("time", "time_unit") if name in settings}
    if "background" in settings:
        options["background"] = _open_all(settings["background"], root, "background", "ttl")
    events = _open_all(settings["events"], root, "events", "nq")
    return RunnableCase(GraphQuery(_read_query(file)), None, events, options)


def _read_param(value: Any) -> Any:
    """Return the value of a parameter; YAML has no durations, so `5 MINUTES` is a text there."""
    read = parse_constant(value) if isinstance(value, str) else value
    return read if isinstance(read, timedelta) else value


def _open_all(given: Any, folder: Path, name: str, form: str = "csv") -> Any:
    """Return events, or these by name, with texts in files of this form."""
    if not isinstance(given, Mapping):
        return _open(given, folder, name, form)
    return {own: _open(rows, folder, _name_file(own), form) for own, rows in given.items()}


def _name_file(name: str) -> str:
    """Return a file name for a stream or a graph, whose name may be a path or an IRI."""
    return quote(name, safe=" ").replace(".", "%2E")


def _open(rows: Any, folder: Path, name: str, form: str = "csv") -> Any:
    if form != "csv" and isinstance(rows, list):
        if rows:
            raise CernisError("events and background of SPAseQ are RDF: lines of it, or a file")
        rows = ""
    if not isinstance(rows, str):
        return rows
    path = folder / f"{name}.{form}"
    path.write_text(rows, encoding="utf-8")
    return path


# ------------------------------------------------------------------------ engines


def run_here(case: RunnableCase) -> Mapping[str, FoundMatches]:
    """Run a case in this process."""
    if case.rules is not None:
        found = case.rules.run(case.events, **case.options)
        return {name: _list_found(own) for name, own in found.items()}
    return {"": _list_found(case.query.run(case.events, **case.options))}


def _list_found(result: Any) -> FoundMatches:
    listed: list[FoundMatch] = []
    for batch in _lines_of(result):
        room = MOST_COMPARED - len(listed)
        listed += [flatten(json.loads(line)) for line in batch.column("line").to_pylist()[:room]]
        if len(listed) >= MOST_COMPARED:
            break
    return FoundMatches(len(result) if len(listed) >= MOST_COMPARED else len(listed), listed)


def _lines_of(result: Any) -> Iterator[pa.RecordBatch]:
    """Return the matches as JSON, in a column of batches."""
    found: Iterator[pa.RecordBatch]
    found = result.lines() if hasattr(result, "lines") else result.placed_lines()
    return found


def list_all(result: Any) -> FoundMatches:
    """Return all matches of a result, as lines have them."""
    lines = [line for batch in _lines_of(result) for line in batch.column("line").to_pylist()]
    return FoundMatches(len(lines), [flatten(json.loads(line)) for line in lines])


def run_stream(case: RunnableCase) -> Mapping[str, FoundMatches]:
    """Run a case as a stream in this process, event after event, without looking ahead."""
    from cernis.live.follow import follow

    if case.is_graphs:
        named = case.query.name_streams(case.events)
        matches = follow(case.query, named, once=True, lateness=_ANY, **case.options)
        own = [flatten(each) for each in matches]
        return {"": FoundMatches(len(own), own)}
    rules = case.rules if case.rules is not None else RuleSet.of({"": case.query})
    found: dict[str, list[FoundMatch]] = {rule.name: [] for rule in rules}
    if has_no_events(case):
        return {name: FoundMatches(0, own) for name, own in found.items()}
    named = case.events if isinstance(case.events, Mapping) else {None: case.events}
    column = _NUMBERS if len(named) > 1 else None
    sources: dict[Any, Any] = {}
    count = 0
    for name, events in named.items():
        rows, has_times = _list_rows(events, case.options)
        if isinstance(events, Path) and has_times and column is None:
            sources[name] = events
        else:
            numbered = zip(rows, range(count, count + len(rows)), strict=True)
            time = None if has_times else "ts"  # without times, rows are in their order
            sources[name] = _queue([_set(row, (column, time), n) for row, n in numbered])
        count += len(rows)
    followed = sources.get(None, sources)
    try:
        options = {"once": True, "lateness": _ANY, "row": column, **case.options}
        for match in follow(rules, followed, **options):
            line = dict(match)
            found[line.pop("rule")].append(flatten(line))
    except RuleSetError as error:
        if case.rules is not None:
            raise
        raise CernisError(error.mistakes[0].removeprefix("rule : ")) from None
    return {name: FoundMatches(len(own), own) for name, own in found.items()}


def has_no_events(case: RunnableCase) -> bool:
    """Return whether a case has no rows in any stream: there is no column to read a time from."""
    streams = case.events.values() if isinstance(case.events, Mapping) else (case.events,)
    return all(isinstance(rows, list) and not rows for rows in streams)


def _list_rows(events: Any, options: Mapping[str, Any]) -> tuple[list[Any], bool]:
    """Return rows as dicts, or as batches of a row where they have types; whether they have times.

    Inputs are read side by side, so rows of several are numbered here, as all other engines do.
    """
    if isinstance(events, list):
        return events, "time" in options or not events or any("ts" in row for row in events)
    (source, *_) = open_events(events, type=None)
    tables = [piece.table for piece in source.reader.pieces(None)]
    if "time" in options or "ts" in source.reader.schema.names:
        return [row for table in tables for row in table.to_batches(max_chunksize=1)], True
    return [row for table in tables for row in table.to_pylist()], False


def _set(row: Any, columns: Iterable[str | None], number: int) -> Any:
    """Return a row with its number in some columns."""
    for name in columns:
        if name is not None and isinstance(row, pa.RecordBatch):
            row = row.append_column(name, pa.array([number]))
        elif name is not None:
            row = {**row, name: number}
    return row


def _queue(rows: Sequence[Any]) -> Any:
    """Return a queue of rows, one after the other."""
    from cernis.live.follow import EventQueue

    queue = EventQueue(len(rows) + 1)
    for row in rows:
        queue.put(row)
    queue.close()
    return queue


def write_events(events: Any, folder: Path) -> Any:
    """Return events as files, for engines that read files."""
    if isinstance(events, Mapping):
        return {
            name: write_events(rows, folder / _name_file(name)) for name, rows in events.items()
        }
    if isinstance(events, Path):
        return events
    folder.mkdir(parents=True, exist_ok=True)
    table, failed = make_table(events, {})
    if failed:
        row, (name, reason) = next(iter(failed.items()))
        raise CernisError(f"event {row}, {name}: {reason}")
    path = folder / "events.parquet"
    pq.write_table(table, path)
    return path


def flatten(line: Mapping[str, Any]) -> FoundMatch:
    """Return the fields of a line without levels; variables before values of the same name."""
    flat = {k: v for k, v in line.items() if k not in ("vars", "values", "partition", "bindings")}
    for level in ("partition", "values", "vars"):
        flat |= line.get(level) or {}
    bound = line.get("bindings") or {}
    return flat | {name: _read_bound(value) for name, value in bound.items()}


def _read_bound(value: Any) -> Any:
    """Return what a variable of SPAseQ is bound to, as an expectation has it.

    >>> _read_bound('"2.5"^^<http://www.w3.org/2001/XMLSchema#decimal>'), _read_bound('"ann"')
    (2.5, 'ann')
    """
    if isinstance(value, list):
        return [*map(_read_bound, value)]
    if not isinstance(value, str):
        return value
    from cernis.languages.spaseq.terms import show_term

    shown = show_term(value)
    if shown != value or _TEXT.fullmatch(shown):
        with suppress(ValueError):
            return json.loads(shown)
    return shown


# --------------------------------------------------------------------- comparison


def compare(expected: Expectation, found: FoundMatches) -> Iterator[str]:
    """Yield how matches differ from what is expected; nothing: they agree."""
    wanted = expected.matches
    yield from _list_unknown((*(wanted or ()), *expected.contains), found.matches)
    if expected.count is not None and expected.count != found.count:
        yield f"expected {_write_number(expected.count)}, found {_write_number(found.count)}"
        if wanted is None:
            yield from _list_signed("+", found.matches, found.count)
    for needed in expected.contains:
        if not any(_fits(needed, one) for one in found.matches):
            yield f"no match is {write_match(needed)}"
    if wanted is None:
        return
    if found.count > len(found.matches):
        yield f"found {_write_number(found.count)}, more than are compared ({MOST_COMPARED:,})"
        return
    partners = pair_matches(wanted, found.matches)
    missing = [one for i, one in enumerate(wanted) if i not in partners]
    taken = set(partners.values())
    extra = [one for i, one in enumerate(found.matches) if i not in taken]
    if missing or extra:
        differ = "differs" if len(extra) == 1 else "differ"
        also = f" of which {len(extra)} {differ}" if len(extra) == len(missing) else ""
        number = _write_number(found.count)
        yield f"expected {_write_number(len(wanted))}, found {number}{also}"
    fields = {name for one in wanted for name in one}
    yield from _list_signed("-", missing, len(missing))
    yield from _list_signed("+", [_cut(one, fields) for one in extra], len(extra))


def _list_unknown(
    wanted: Sequence[Mapping[str, Any]], found: Sequence[FoundMatch]
) -> Iterator[str]:
    """Yield the fields that are expected, and that no match has."""
    known = dict.fromkeys(name for one in found for name in one)
    for name in dict.fromkeys(name for one in wanted for name in one):
        if known and name not in known:
            yield f"no match has {name!r}; there are {', '.join(known)}"


def _write_number(count: int) -> str:
    return "none" if not count else count_noun(count, "match")


def _cut(match: FoundMatch, fields: set[str]) -> FoundMatch:
    cut = {name: value for name, value in match.items() if name in fields}
    return cut or match


def _list_signed(sign: str, matches: Sequence[FoundMatch], count: int) -> Iterator[str]:
    for one in matches[:_SHOWN]:
        yield f"{sign} {write_match(one)}"
    if count > _SHOWN:
        yield f"{sign} and {count - min(_SHOWN, len(matches)):,} more"


def write_match(match: Mapping[str, Any]) -> str:
    """Return a match as a line of YAML.

    >>> write_match({"start": 0, "f": [0, 2], "user": "ann"})
    '{start: 0, f: [0, 2], user: ann}'
    """
    import yaml

    from cernis.workbench.plain_yaml import PlainDumper

    plain = {k: v for k, v in match.items() if not (k.endswith("_ts") and len(match) > 2)}
    text: str = yaml.dump(
        plain, Dumper=PlainDumper, default_flow_style=True, sort_keys=False, allow_unicode=True,
        width=math.inf,
    )  # fmt: skip
    return text.strip()


def pair_matches(
    wanted: Sequence[Mapping[str, Any]], found: Sequence[FoundMatch]
) -> dict[int, int]:
    """Return a largest pairing of expected and found matches that fit each other."""
    fits = [[j for j, one in enumerate(found) if _fits(each, one)] for each in wanted]
    owner: dict[int, int] = {}
    for i in range(len(wanted)):
        _augment(i, fits, owner, set())
    return {i: j for j, i in owner.items()}


def _augment(i: int, fits: Sequence[Sequence[int]], owner: dict[int, int], seen: set[int]) -> bool:
    path: list[tuple[int, Iterator[int]]] = [(i, iter(fits[i]))]
    chosen: list[int] = []
    while path:
        _, options = path[-1]
        j = next((each for each in options if each not in seen), None)
        if j is None:
            path.pop()
            if chosen:
                chosen.pop()
            continue
        seen.add(j)
        chosen.append(j)
        if j not in owner:
            for (one, _), taken in zip(path, chosen, strict=True):
                owner[taken] = one
            return True
        path.append((owner[j], iter(fits[owner[j]])))
    return False


def _fits(wanted: Mapping[str, Any], found: FoundMatch) -> bool:
    return all(name in found and _equal(value, found[name]) for name, value in wanted.items())


def _equal(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, bool) or isinstance(found, bool):
        return wanted is found
    if isinstance(wanted, int | float) and isinstance(found, int | float):
        return math.isclose(wanted, found, rel_tol=1e-9)
    if isinstance(wanted, date):
        return _equal_times(wanted, found)
    if isinstance(found, list):
        listed = wanted if isinstance(wanted, list) else [wanted]
        return len(listed) == len(found) and all(map(_equal, listed, found))
    return bool(wanted == found)


def _equal_times(wanted: date, found: Any) -> bool:
    try:
        time = datetime.fromisoformat(str(found))
    except ValueError:
        return False
    if not isinstance(wanted, datetime):
        return time.date() == wanted
    return time.replace(tzinfo=None) == wanted.replace(tzinfo=None)
