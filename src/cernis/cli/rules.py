"""`cernis run`, `check` and `explain` for rule sets: a folder, a file or a text of rules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
from rich.text import Text

from cernis.cli.arguments import Delivery, RunArguments
from cernis.cli.deliver import COLUMN_FORMS, open_delivery, open_writer, write_rows
from cernis.cli.terminal import (
    make_table,
    output_console,
    print_message,
    print_note,
    print_notes,
    value_text,
)
from cernis.compiled.tiers import announce_compiling
from cernis.errors import (
    CernisError,
    DataError,
    StrictError,
    WarningNote,
    list_warnings,
    neutralize,
)
from cernis.integers import count_noun
from cernis.output import open_output
from cernis.results.jsonlines import name_lines, text_of
from cernis.results.matches import Matches
from cernis.results.of_rules import fill_table, name_rules, name_table, unite_columns
from cernis.run.metrics import SessionMetrics
from cernis.run.rules.rule import Rule, name_warning, plan_rules
from cernis.run.rules.rule_set import RuleSet
from cernis.run.rules.session import RuleSession
from cernis.run.session import RunOptions

Shares = Iterator[tuple[str, Any]]
"""Pieces of an output with the names of their rules: lines, or tables."""


@dataclass(frozen=True)
class CountedRule:
    """How many matches a rule has, and what it has read and kept."""

    rule: str
    matches: int
    numbers: SessionMetrics | None = None


class FoundByRules(ABC):
    """What the rules of a set have found, rule after rule."""

    names: Sequence[str]

    @abstractmethod
    def count(self) -> Sequence[CountedRule]:
        """Return the numbers of each rule; no match is listed."""

    @abstractmethod
    def list_lines(self, delivery: Delivery) -> Shares:
        """Yield the lines of the first matches of each rule."""

    @abstractmethod
    def list_tables(self, delivery: Delivery) -> tuple[pa.Schema, Shares]:
        """Return the columns of all rules, and tables of the first matches of each that have them.

        A `DataError` says that rules have columns of one name and different types.
        """


class FoundHere(FoundByRules):
    """What the rules have found in this process."""

    def __init__(self, found: Mapping[str, Any], numbers: Mapping[str, SessionMetrics]) -> None:
        self.names = [*found]
        self._found, self._numbers = found, numbers

    def count(self) -> Sequence[CountedRule]:
        pairs = self._found.items()
        return [CountedRule(name, own.count(), self._numbers[name]) for name, own in pairs]

    def list_lines(self, delivery: Delivery) -> Shares:
        for name, matches in self._found.items():
            for lines in _list_lines(matches, delivery.limit, events=delivery.events):
                yield name, lines

    def list_tables(self, delivery: Delivery) -> tuple[pa.Schema, Shares]:
        runs = {name: _list_batches(own, delivery) for name, own in self._found.items()}
        united = unite_columns([next(run).schema for run in runs.values()])
        batches = ((name, batch) for name, run in runs.items() for batch in run)
        tables = ((name, pa.Table.from_batches([batch])) for name, batch in batches)
        return united, ((name, fill_table(table, united)) for name, table in tables)


def run(source: str | Path, arguments: RunArguments, delivery: Delivery) -> None:
    """Find the matches of all rules in files, in one pass, and deliver them."""
    rules = RuleSet.of(source)
    announce_compiling(print_note)
    session = RuleSession(rules, RunOptions(**_read_options(arguments), strict=arguments.strict))
    found = session.collect(arguments.files)
    deliver(FoundHere(found, session.metrics()), delivery)
    pairs = ((rule, found[rule.name].notes) for rule in rules)
    print_notes(list_notes(pairs, common=session.notes))


def list_notes(pairs: Iterable[tuple[Rule, Iterable[str]]], common: Collection[str]) -> list[str]:
    """Return the notes of all rules, each once; a warning names its rule unless it is `common`."""
    notes: dict[str, None] = {}
    for rule, several in pairs:
        for note in several:
            if isinstance(note, WarningNote) and note not in common:
                note = name_warning(rule, note)
            notes[note] = None
    return [*notes]


def _read_options(arguments: RunArguments) -> dict[str, Any]:
    """Return how a rule set reads events."""
    reading = {**arguments.reading, "on_error": arguments.on_error, **arguments.limits}
    return {**reading, "tables": arguments.tables}


def deliver(found: FoundByRules, delivery: Delivery) -> None:
    """Show, count or write what rules have found, each match with the name of its rule."""
    output = delivery.output if delivery.form != "table" else None
    if delivery.count:
        with open_output(delivery.output or "-") as file:
            for each in found.count():
                number = each.matches
                number = number if delivery.limit is None else min(number, delivery.limit)
                file.write(f"{neutralize(each.rule)}\t{number}\n".encode())
    elif output is not None:
        with open_delivery(output) as file:
            write = _write_columns if delivery.form in COLUMN_FORMS else _write_lines
            number = write(found, delivery, file)
        if output != "-":
            matches, rules = count_noun(number, "match"), count_noun(len(found.names), "rule")
            print_message(f"{matches} of {rules} written to {output}")
    else:
        output_console().print(make_table(*_tabulate(found.count())))


def _tabulate(found: Sequence[CountedRule]) -> tuple[list[str], list[list[Text]]]:
    """Return the columns and the rows of a table of rules."""
    rows = [[value_text(each.rule), value_text(each.matches)] for each in found]
    names = ["rule", "matches"]
    numbers = [each.numbers for each in found if each.numbers is not None]
    if not numbers:
        return names, rows
    names += ["suppressed", "events", "records", "seconds"]
    for row, own in zip(rows, numbers, strict=True):
        row += [value_text(own.suppressed), value_text(own.events), value_text(own.records)]
        row.append(value_text(f"{sum(own.seconds.values()):.3f}"))
    return names, rows


def _write_lines(found: FoundByRules, delivery: Delivery, file: BinaryIO) -> int:
    number = 0
    for rule, lines in found.list_lines(delivery):
        file.write(text_of(name_lines(rule, lines)))
        number += len(lines)
    return number


def _write_columns(found: FoundByRules, delivery: Delivery, file: BinaryIO) -> int:
    """Write the matches of all rules with the columns of all; those of others are NULL."""
    output, number = delivery.output or "-", 0
    try:
        united, tables = found.list_tables(delivery)
    except DataError as error:
        raise CernisError(f"{output}: {error}; write .jsonl") from error
    schema = name_rules(united)
    with open_writer(delivery.form, file, schema, output) as writer:
        for rule, table in tables:
            write_rows(writer, name_table(rule, table, schema))
            number += len(table)
    return number


def check(source: str | Path, *, strict: bool = False) -> int:
    """Check all rules, print their warnings, and return how many there are.

    The mistakes of all rules are raised together; with `strict`, so are the warnings.
    """
    rules = RuleSet.of(source)
    plan_rules(rules)
    found = list_warnings(list_notes(((rule, rule.query.warnings) for rule in rules), common=()))
    if strict and found:
        raise StrictError(found)
    print_notes(found)
    return len(rules)


def explain(source: str | Path, arguments: RunArguments) -> str:
    """Explain what the rules share, which cost most, and with files which find nothing in them."""
    return RuleSet.of(source).explain(arguments.files or None, **_read_options(arguments))


def _list_batches(matches: Any, delivery: Delivery) -> Iterator[pa.RecordBatch]:
    """Yield a rule's first matches as columns, after a batch without any."""
    if delivery.form == "csv":
        yield from matches.flat_batches(delivery.limit, events=delivery.events)
    else:
        yield pa.RecordBatch.from_pylist([], matches.schema)
        yield from matches.batches(delivery.limit)


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
