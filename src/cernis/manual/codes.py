"""The page of warning codes: each with a query that has it, the message, and what to write instead.

The messages come from running the queries. The codes come from the source: every `code=` of a
`Diagnostic` needs a case here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import cernis
from cernis.errors import WarningNote, list_warnings

_HEAD = """\
# Warning codes

<!-- written by make pages -->

A warning is about a query that is right and probably does not say what is meant, or about events
that make an answer odd. `note.code` is its code. `--strict`, in Python `strict=True`, makes
warnings errors ([how](errors.md#warnings)). For each code: a query that has it, the message, and
what to write instead.
"""


@dataclass(frozen=True, slots=True)
class WarningCase:
    """A query with a warning, its events as CSV or "", and a query without the warning."""

    code: str
    meaning: str
    query: str
    instead: str
    """The query to write, or an option to give."""
    events: str = ""
    time_unit: str = "ms"


CASES = (
    WarningCase(
        "not-between",
        "`NOT B` is one event that is no B. Between two `;` it keeps nothing away: another\n"
        "event may be taken for it, and a B may lie beside that one. `UNLESS` forbids every B\n"
        "in between.",
        "SELECT * FROM S WHERE A ; NOT B ; C",
        "SELECT * FROM S WHERE (A ; C) UNLESS B",
    ),
    WarningCase(
        "not-at-end",
        "`A ; NOT B` ends with any later event that is no B. To say that no B follows, name the\n"
        "time for which it must stay away: `WITHOUT` waits that long.",
        "SELECT * FROM S WHERE A ; NOT B",
        "SELECT * FROM S WHERE A WITHOUT B FOR 10 MINUTES",
    ),
    WarningCase(
        "unless-idle",
        "`UNLESS` looks strictly inside of a match, between its first and its last event. In a\n"
        "single event, or two neighbours, nothing lies inside. What follows is excluded by\n"
        "`WITHOUT … FOR`.",
        "SELECT * FROM S WHERE ORDER UNLESS PAY",
        "SELECT * FROM S WHERE ORDER WITHOUT PAY FOR 1 HOUR",
    ),
    WarningCase(
        "never-holds",
        "A condition contradicts itself, so the query has no match, whatever the events.",
        "SELECT * FROM S WHERE A AS a FILTER a[price > 10 AND price < 5]",
        "SELECT * FROM S WHERE A AS a FILTER a[price > 10 OR price < 5]",
    ),
    WarningCase(
        "always-holds",
        "A condition holds for every event that has the attributes. It does nothing.",
        "SELECT * FROM S WHERE A AS a FILTER a[name != 'x' OR name != 'y']",
        "SELECT * FROM S WHERE A AS a FILTER a[name NOT IN {'x', 'y'}]",
    ),
    WarningCase(
        "like-percent",
        "`LIKE` takes a regular expression that matches the whole text. `%` is a plain\n"
        "character in it.",
        "SELECT * FROM S WHERE A AS a FILTER a[name LIKE 'MS%']",
        "SELECT * FROM S WHERE A AS a FILTER a[name LIKE 'MS.*']",
    ),
    WarningCase(
        "absent-type",
        "No event has a type that the query names. It is misspelt, or types are in another\n"
        'column (`--type`, in Python `type="kind"`).',
        "SELECT * FROM S WHERE SEL AS s",
        "SELECT * FROM S WHERE SELL AS s",
        "type,price,ts\nSELL,20,1000\nBUY,30,2000\n",
    ),
    WarningCase(
        "unmet-condition",
        "Every match needs this condition, and no event satisfies it. So there is no match, and\n"
        "the condition is to blame.",
        "SELECT * FROM S WHERE SELL AS s FILTER s[price > 100]",
        "SELECT * FROM S WHERE SELL AS s FILTER s[price > 10]",
        "type,price,ts\nSELL,20,1000\nBUY,30,2000\n",
    ),
    WarningCase(
        "odd-times",
        "Numbers in the time column lie in January 1970 or beyond 2200 in the unit that was\n"
        "given, and are plain dates in another. With the wrong unit, windows are a thousand\n"
        "times too long or too short.",
        "SELECT * FROM S WHERE SELL ; BUY WITHIN 5 MINUTES",
        '--time-unit s, in Python time_unit="s"',
        "type,price,ts\nSELL,20,1700000000\nBUY,30,1700000060\n",
    ),
    WarningCase(
        "most-skipped",
        "With `--on-error skip` bad rows are left out, and here they are most of the rows. The\n"
        "form of the file is probably not what was expected.",
        "SELECT * FROM S WHERE SELL ; BUY",
        '--on-error fail, in Python on_error="fail"',
        "type,price,ts\nSELL,20,monday\nBUY,30,tuesday\nBUY,31,3000\n",
    ),
)


def write_codes_page() -> str:
    """Return the page of all codes."""
    parts = [_HEAD]
    for case in CASES:
        (note, *_) = (note for note in find_notes(case, case.query) if note.code == case.code)
        parts.append(f"## `{case.code}`\n\n{case.meaning}\n")
        parts.append(f"```ceql\n{case.query}\n```\n")
        if case.events:
            parts.append(f"On these events:\n\n```csv\n{case.events}```\n")
        parts.append(f"```text\nwarning: {note}\n```\n")
        if case.instead.startswith("SELECT"):
            parts.append(f"Instead:\n\n```ceql\n{case.instead}\n```\n")
        else:
            parts.append(f"Instead: `{case.instead.replace(', in Python ', '`, in Python `')}`.\n")
    return "\n".join(parts)


def find_notes(case: WarningCase, text: str) -> tuple[WarningNote, ...]:
    """Return the warnings of a query, with the events of a case if it has some."""
    query = cernis.query(text)
    if not case.events:
        return query.warnings
    with TemporaryDirectory() as folder:
        path = Path(folder) / "events.csv"
        path.write_text(case.events, encoding="utf-8")
        notes = query.run(str(path), on_error="skip", time_unit=case.time_unit).notes
        return tuple(_name_file(note, f"{folder}/") for note in list_warnings(notes))


def _name_file(note: WarningNote, folder: str) -> WarningNote:
    renamed = WarningNote(note.replace(folder, ""))
    renamed.code = note.code
    return renamed


def collect_codes(source: Path) -> Iterator[str]:
    """Yield the codes of the warnings that the code of a package makes."""
    for path in sorted(source.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = dict(_read_constants(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Diagnostic":
                for keyword in node.keywords:
                    if keyword.arg == "code" and isinstance(keyword.value, ast.Name):
                        yield names[keyword.value.id]


def _read_constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the names at the top of a module that stand for texts, with these texts."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str() as text)):
                yield name, text
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                for one, value in zip(names, values, strict=True):
                    if isinstance(one, ast.Name) and isinstance(value, ast.Constant):
                        yield one.id, str(value.value)
