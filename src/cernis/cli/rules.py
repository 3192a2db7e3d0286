"""`cernis run`, `check` and `explain` for rule sets: a folder, a file or a text of rules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import typer

from cernis.cli.arguments import Delivery, RunArguments
from cernis.cli.terminal import make_table, output_console, print_message, print_notes, value_text
from cernis.errors import CernisError, StrictError, WarningNote, list_warnings, neutralize
from cernis.output import open_output
from cernis.results.jsonlines import name_lines, text_of
from cernis.run.rule import Rule, name_warning
from cernis.run.rules import RuleSet


@dataclass(frozen=True)
class FoundByRule:
    """What a rule has found: its number of matches, and the lines of the first ones."""

    rule: str
    count: Callable[[], int]
    lines: Callable[[int | None], Iterator[pa.StringArray]]


def run(source: str | Path, arguments: RunArguments, delivery: Delivery) -> None:
    """Find the matches of all rules in files, in one pass, and deliver them."""
    rules = RuleSet.of(source)
    check_delivery(delivery)
    options = {**arguments.reading, "on_error": arguments.on_error, **arguments.limits}
    session = rules.session(**options, tables=arguments.tables, strict=arguments.strict)
    found = session.collect(arguments.files)
    deliver(
        [
            FoundByRule(name, matches.count, partial(_list_lines, matches))
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


def check_delivery(delivery: Delivery) -> None:
    """Raise an error for a form in which the matches of rules are not written."""
    if delivery.form not in ("table", "jsonl") or delivery.events:
        where = (delivery.output if delivery.form != "table" else None) or "--events-in-output"
        raise CernisError(f"{where}: the matches of a rule set are written as .jsonl so far")


def deliver(found: Sequence[FoundByRule], delivery: Delivery) -> None:
    """Show, count or write what rules have found, each match with the name of its rule."""
    output = delivery.output if delivery.form != "table" else None
    if delivery.count:
        for each in found:
            typer.echo(f"{neutralize(each.rule)}\t{each.count()}")
    elif output is not None:
        with open_output(output) as file:
            number = 0
            for each in found:
                for lines in each.lines(delivery.limit):
                    file.write(text_of(name_lines(each.rule, lines)))
                    number += len(lines)
        if output != "-":
            print_message(f"{number:,} matches of {len(found)} rules written to {output}")
    else:
        rows = [[value_text(each.rule), value_text(each.count())] for each in found]
        output_console().print(make_table(["rule", "matches"], rows))


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


def explain(source: str | Path) -> str:
    """Explain what the rules share, and which of them cost most."""
    return RuleSet.of(source).explain()


def _list_lines(matches: Any, limit: int | None) -> Iterator[pa.StringArray]:
    """Yield the lines of a rule's first matches."""
    left = limit
    for batch in matches.lines():
        lines = batch.column("line").slice(0, left)
        left = None if left is None else left - len(lines)
        yield pc.binary_join_element_wise(lines, "", "\n")
        if left == 0:
            return
