"""`cernis run`, `check` and `explain` for rule sets: a folder, a file or a text of rules."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import typer

from cernis.cli.arguments import Delivery, RunArguments
from cernis.cli.terminal import make_table, output_console, print_message, print_notes, value_text
from cernis.errors import CernisError, neutralize
from cernis.output import open_output
from cernis.results.jsonlines import text_of
from cernis.run.rules import RuleSet


def run(source: str | Path, arguments: RunArguments, delivery: Delivery) -> None:
    """Find the matches of all rules in files, in one pass, and deliver them."""
    rules = RuleSet.of(source)
    output = delivery.output if delivery.form != "table" else None
    if delivery.form not in ("table", "jsonl") or delivery.events:
        where = output or "--events-in-output"
        raise CernisError(f"{where}: the matches of a rule set are written as .jsonl so far")
    options = {**arguments.reading, "on_error": arguments.on_error, **arguments.limits}
    session = rules.session(**options, tables=arguments.tables, strict=arguments.strict)
    found = session.collect(arguments.files)
    if delivery.count:
        for name, matches in found.items():
            typer.echo(f"{neutralize(name)}\t{matches.count()}")
    elif output is not None:
        with open_output(output) as file:
            number = 0
            for name, matches in found.items():
                for lines in _list_lines(name, matches, delivery.limit):
                    file.write(text_of(lines))
                    number += len(lines)
        if output != "-":
            print_message(f"{number:,} matches of {len(rules)} rules written to {output}")
    else:
        rows = [[value_text(name), value_text(len(matches))] for name, matches in found.items()]
        output_console().print(make_table(["rule", "matches"], rows))
    print_notes(dict.fromkeys(note for matches in found.values() for note in matches.notes))


def check(source: str | Path) -> int:
    """Check all rules, and return how many there are; raise all their mistakes together."""
    return len(RuleSet.of(source))


def explain(source: str | Path) -> str:
    """Explain what the rules share, and which of them cost most."""
    return RuleSet.of(source).explain()


def _list_lines(name: str, matches: Any, limit: int | None) -> Iterator[pa.StringArray]:
    """Yield the lines of a rule's matches, each with the name of the rule."""
    begin = '{"rule":' + json.dumps(name, ensure_ascii=False) + ","
    left = limit
    for batch in matches.lines():
        lines = batch.column("line").slice(0, left)
        left = None if left is None else left - len(lines)
        named = pc.binary_replace_slice(lines.cast(pa.binary()), 0, 1, begin.encode())
        yield pc.binary_join_element_wise(named, b"\n", b"").cast(pa.string())
        if left == 0:
            return
