"""`cernis run` and `cernis explain` of a query or a rule set, in this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

import cernis
from cernis.cli.arguments import (
    OUTPUT_SUFFIXES,
    Delivery,
    Files,
    RunArguments,
    all_files,
    check_output,
    has_pipe,
)
from cernis.cli.deliver import (
    GRAPH_MATCHES,
    CountedRule,
    Found,
    FoundByRules,
    FoundRuns,
    Shares,
    complete_notes,
    deliver,
    kind_of,
    list_batches,
    list_notes,
    stream_files,
)
from cernis.cli.terminal import print_note
from cernis.compiled.tiers import announce_compiling
from cernis.engine.unary.aggregate import is_compiled
from cernis.errors import BudgetError, CernisError
from cernis.events.reading.pipe import announce_waiting
from cernis.pattern.query import Unit
from cernis.results.matches import Matches
from cernis.results.of_rules import fill_table, unite_columns
from cernis.run.feed import Measures
from cernis.run.session import Session

if TYPE_CHECKING:
    from cernis.rdf.query import GraphQuery

_FEW_EVENTS = 32
_WAITS = (
    "the rows of a pipe are sorted by time, so matches come when it ends; if they are in order, "
    "--in-order writes matches as they are found"
)
_WALKED_BYTES = 1 << 32
"""Events of so many bytes, times the window, are counted while the aggregator is compiled."""


def run(arguments: RunArguments, delivery: Delivery) -> None:
    """Find the matches of a query, or of all rules, in files, and deliver them."""
    deliver(_find(arguments, delivery), delivery)


def _find(arguments: RunArguments, delivery: Delivery) -> Found:
    if arguments.rules is not None:
        return _FoundHere(arguments)
    if arguments.language == "spaseq":
        graphs = parse_graph_query(arguments, delivery)
        reading = graphs.session(**arguments.reading_graphs, strict=arguments.options.strict)
        runs = stream_files(reading, graphs.name_streams(arguments.files), delivery.output)
        nothing = partial(reading.matches, [])
        return FoundRuns(runs, GRAPH_MATCHES, nothing, partial(complete_notes, reading))
    if arguments.language == "sql":
        from cernis.cli.run_statement import find_rows

        return find_rows(arguments)
    query = parse_query(arguments)
    announce_waiting(lambda: print_note(_WAITS))
    counts = delivery.count and not _has_narrow_window(query, arguments.files)
    measures: Measures | None = {} if counts else None
    session: Session[Any] = Session(query.plan, arguments.options, measures=measures)
    runs = stream_files(session, arguments.files, delivery.output)
    return FoundRuns(runs, kind_of(query), session.finish, partial(complete_notes, session))


def _has_narrow_window(query: cernis.Query[Any], files: Files) -> bool:
    """Return whether matches span so few events that counting them takes no aggregator.

    The aggregator takes ten times as long to compile as the kernels that every other query uses.
    So without code of it the window may be wider, as far as the files are small.
    """
    within = query.pattern.within
    if within is None or within.unit is not Unit.EVENTS:
        return False
    if within.size <= _FEW_EVENTS or is_compiled() or has_pipe(files):
        return within.size <= _FEW_EVENTS
    size = sum(file.stat().st_size for file in all_files(files) if file.is_file())
    return within.size * size <= _WALKED_BYTES


def explain(arguments: RunArguments) -> Any:
    """Explain what a query does and costs, or what rules share and which find nothing."""
    files, tables = arguments.files or None, arguments.options.tables
    if arguments.rules is not None:
        from cernis.run.rules.rule_set import RuleSet

        return RuleSet.of(arguments.rules, arguments.on_bad_rule).explain(
            files, **arguments.reading, tables=tables, missing=arguments.options.missing
        )
    if arguments.language == "spaseq":
        return cernis.query(arguments.text, lang="spaseq").explain()
    if arguments.language == "sql":
        from cernis.cli.run_statement import read_statement

        return read_statement(arguments).explain()
    return parse_query(arguments).explain(
        files, rate=arguments.rate, **arguments.reading, tables=tables
    )


def parse_query(arguments: RunArguments) -> cernis.Query[Any]:
    """Parse a query; arguments by position may take their names from the files."""
    try:
        query = cernis.query(arguments.text, lang=arguments.language)
        if arguments.options.strict and query.warnings:
            raise cernis.StrictError(query.warnings)
        return query
    except cernis.QueryError:
        if arguments.language != "cq" or not arguments.files or has_pipe(arguments.files):
            raise
    known = cernis.schema_of(arguments.files, **arguments.reading)
    return cernis.query(arguments.text, lang=arguments.language, schema=known)


def parse_graph_query(arguments: RunArguments, delivery: Delivery) -> GraphQuery:
    """Parse a query, and check that its matches can be written to the output."""
    query = cernis.query(arguments.text, lang="spaseq")
    constructs = query.query.construct is not None
    if delivery.is_named and delivery.form == "nq" and not constructs:
        raise CernisError("--output-format nq: only CONSTRUCT makes graphs; this query SELECTs")
    suffixes = (*OUTPUT_SUFFIXES, ".nq") if constructs else OUTPUT_SUFFIXES
    check_output(delivery.output, suffixes, form=delivery.form if delivery.is_named else None)
    return query


Piece = TypeVar("Piece")


class _FoundHere(FoundByRules):
    """What the rules of a set have found in one pass over the events."""

    def __init__(self, arguments: RunArguments) -> None:
        # most runs are of one query, and do without these modules
        from cernis.run.rules.rule_set import RuleSet
        from cernis.run.rules.session import RuleSession

        rules = RuleSet.of(arguments.rules, arguments.on_bad_rule)
        announce_compiling(print_note)
        self._session = RuleSession(rules, arguments.options)
        self._found = self._session.collect(arguments.files)
        self.names = [*self._found]
        self._spent: list[str] = []
        """What is told of rules whose budget is spent while their matches are listed."""

    def count_rules(self) -> Sequence[CountedRule]:
        numbers = self._session.metrics()
        pairs = self._found.items()
        counted = ((name, self._stop_spent(_count(own))) for name, own in pairs)
        return [CountedRule(name, number, numbers[name]) for name, own in counted for number in own]

    def list_lines(self, delivery: Delivery) -> Shares:
        for name, matches in self._found.items():
            listed = _list_lines(matches, delivery.limit, events=delivery.events)
            yield from ((name, lines) for lines in self._stop_spent(listed))

    def list_tables(self, delivery: Delivery) -> tuple[pa.Schema, Shares]:
        limit = delivery.limit
        pairs = self._found.items()
        runs = {name: self._stop_spent(list_batches(own, delivery, limit)) for name, own in pairs}
        begun = ((name, next(run, None)) for name, run in runs.items())
        firsts = {name: first for name, first in begun if first is not None}
        united = unite_columns([first.schema for first in firsts.values()])
        whole = ((name, chain([first], runs[name])) for name, first in firsts.items())
        batches = ((name, batch) for name, run in whole for batch in run)
        tables = ((name, pa.Table.from_batches([batch])) for name, batch in batches)
        return united, ((name, fill_table(table, united)) for name, table in tables)

    def notes(self) -> Iterable[str]:
        from cernis.run.rules.reading.prepare import note_stopped

        pairs = ((rule, self._found[rule.name].notes) for rule in self._session.rules)
        listed = list_notes(pairs, common=self._session.notes)
        return [*listed, *note_stopped(self._session.stopped), *self._spent]

    def _stop_spent(self, results: Iterator[Piece]) -> Iterator[Piece]:
        """Yield what a rule has found, up to where its budget is spent if others go on then."""
        try:
            yield from results
        except BudgetError as error:
            if not self._session.rules.skips:
                raise
            self._spent.append(f"{error}; its other matches are missing")


def _count(matches: Any) -> Iterator[int]:
    yield matches.count()


def _list_lines(
    matches: Any, limit: int | None, *, events: bool = False
) -> Iterator[pa.StringArray]:
    """Yield the lines of a rule's first matches, with the events of all variables if asked to."""
    left = limit
    shown = isinstance(matches, Matches) and events
    for batch in matches.lines("whole") if shown else matches.lines():
        lines = batch.column("line").slice(0, left)
        left = None if left is None else left - len(lines)
        yield pc.binary_join_element_wise(lines, "", "\n")
        if left == 0:
            return
