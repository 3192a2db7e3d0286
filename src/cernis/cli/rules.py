"""`cernis run`, `check` and `explain` for rule sets: a folder, a file or a text of rules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
from rich.text import Text

from cernis.cli.arguments import Delivery, RunArguments
from cernis.cli.deliver import COLUMN_FORMS, open_delivery, open_writer
from cernis.cli.terminal import make_table, output_console, print_message, print_notes, value_text
from cernis.errors import CernisError, StrictError, WarningNote, list_warnings, neutralize
from cernis.output import open_output
from cernis.results.jsonlines import name_lines, text_of
from cernis.results.matches import Matches
from cernis.run.metrics import SessionMetrics
from cernis.run.rule import Rule, name_warning
from cernis.run.rules import RuleSession, RuleSet
from cernis.run.session import RunOptions

RULE = "rule"
"""The column with the name of the rule."""


@dataclass(frozen=True)
class FoundByRule:
    """What a rule has found: its number of matches, and the first ones as lines or columns."""

    rule: str
    count: Callable[[], int]
    lines: Callable[[int | None], Iterator[pa.StringArray]]
    batches: Callable[[int | None], Iterator[pa.RecordBatch]] | None = None
    """The first one is empty."""
    numbers: SessionMetrics | None = None
    """What the rule has read and kept, of a run in this process."""


def run(source: str | Path, arguments: RunArguments, delivery: Delivery) -> None:
    """Find the matches of all rules in files, in one pass, and deliver them."""
    rules = RuleSet.of(source)
    session = RuleSession(rules, RunOptions(**_read_options(arguments), strict=arguments.strict))
    found = session.collect(arguments.files)
    numbers = session.metrics()
    deliver(
        [
            FoundByRule(
                name,
                matches.count,
                partial(_list_lines, matches, events=delivery.events),
                partial(_list_batches, matches, delivery),
                numbers[name],
            )
            for name, matches in found.items()
        ],
        delivery,
    )
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


def deliver(found: Sequence[FoundByRule], delivery: Delivery) -> None:
    """Show, count or write what rules have found, each match with the name of its rule."""
    output = delivery.output if delivery.form != "table" else None
    if delivery.count:
        with open_output(delivery.output or "-") as file:
            for each in found:
                number = each.count()
                number = number if delivery.limit is None else min(number, delivery.limit)
                file.write(f"{neutralize(each.rule)}\t{number}\n".encode())
    elif output is not None:
        with open_delivery(output) as file:
            write = _write_columns if delivery.form in COLUMN_FORMS else _write_lines
            number = write(found, delivery, file)
        if output != "-":
            print_message(f"{number:,} matches of {len(found)} rules written to {output}")
    else:
        output_console().print(make_table(*_tabulate(found)))


def _tabulate(found: Sequence[FoundByRule]) -> tuple[list[str], list[list[Text]]]:
    """Return the columns and the rows of a table of rules."""
    rows = [[value_text(each.rule), value_text(each.count())] for each in found]
    names = ["rule", "matches"]
    numbers = [each.numbers for each in found if each.numbers is not None]
    if not numbers:
        return names, rows
    names += ["suppressed", "events", "records", "seconds"]
    for row, own in zip(rows, numbers, strict=True):
        row += [value_text(own.suppressed), value_text(own.events), value_text(own.records)]
        row.append(value_text(f"{sum(own.seconds.values()):.3f}"))
    return names, rows


def _write_lines(found: Sequence[FoundByRule], delivery: Delivery, file: BinaryIO) -> int:
    number = 0
    for each in found:
        for lines in each.lines(delivery.limit):
            file.write(text_of(name_lines(each.rule, lines)))
            number += len(lines)
    return number


def _write_columns(found: Sequence[FoundByRule], delivery: Delivery, file: BinaryIO) -> int:
    """Write the matches of all rules with the columns of all; those of others are NULL."""
    output = delivery.output or "-"
    runs = {each.rule: each.batches(delivery.limit) for each in found if each.batches is not None}
    own = [next(run).schema for run in runs.values()]
    try:
        united = pa.unify_schemas(own, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise CernisError(
            f"{output}: rules have columns of one name and different types; write .jsonl ({error})"
        ) from error
    schema = pa.schema([pa.field(RULE, pa.string()), *united])
    number = 0
    with open_writer(delivery.form, file, schema, output) as writer:
        for rule, run in runs.items():
            for batch in run:
                table = pa.Table.from_batches([batch])
                names = pa.array([rule] * len(batch), pa.string())
                table = table.add_column(0, RULE, names)
                filled = pa.concat_tables(
                    [schema.empty_table(), table], promote_options="permissive"
                )
                writer.write_table(filled.select(schema.names).cast(schema))
                number += len(batch)
    return number


def check(source: str | Path, *, strict: bool = False) -> int:
    """Check all rules, print their warnings, and return how many there are.

    The mistakes of all rules are raised together; with `strict`, so are the warnings.
    """
    rules = RuleSet.of(source)
    found = list_warnings(list_notes(((rule, rule.query.warnings) for rule in rules), common=()))
    if strict and found:
        raise StrictError(found)
    print_notes(found)
    return len(rules)


def explain(source: str | Path, arguments: RunArguments) -> str:
    """Explain what the rules share, which cost most, and with files which find nothing in them."""
    return RuleSet.of(source).explain(arguments.files or None, **_read_options(arguments))


def _list_batches(matches: Any, delivery: Delivery, limit: int | None) -> Iterator[pa.RecordBatch]:
    """Yield a rule's first matches as columns, after a batch without any."""
    if delivery.form == "csv":
        yield from matches.flat_batches(limit, events=delivery.events)
    else:
        yield pa.RecordBatch.from_pylist([], matches.schema)
        yield from matches.batches(limit)


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
