"""The pages of codes: one for each kind of error and each warning, and their contents.

An error has its meaning from `cernis.error_codes` and an example from `error_cases`. A warning has
a query that has it here, and what to write instead. All messages come from running the examples.
The codes of warnings come from the source: every `code=` of a `Diagnostic` needs a case here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import cernis
from cernis.error_codes import KINDS, WARNINGS, ErrorKind
from cernis.errors import WarningNote, list_warnings
from tools.manual.error_cases import EXAMPLES, run_example, write_session

_MADE = "<!-- written by make pages -->"
_CONTENTS = f"""\
# Codes of errors and warnings

{_MADE}

A code names a kind of mistake, and stays when a message is worded anew. In Python it is
`error.code`, of each mistake in a query `diagnostic.find_code()`, of a warning `note.code`.
`cernis check --json` prints the codes, and the playground links each to its meaning. Each page has
an example with its message, and what to do.

## Errors
"""
_WARNINGS = """
## Warnings

A warning is about a query that is right and probably does not say what is meant, or about events
that make an answer odd. `--strict`, in Python `strict=True`, makes warnings errors
([how](../errors.md#warnings)).
"""


@dataclass(frozen=True, slots=True)
class WarningCase:
    """A query with a warning, its events as CSV or "", and a query without the warning."""

    code: str
    query: str
    instead: str
    """The query to write, or an option to give."""
    events: str = ""
    time_unit: str = "ms"


CASES = (
    WarningCase(
        "not-between",
        "SELECT * FROM S WHERE A ; NOT B ; C",
        "SELECT * FROM S WHERE (A ; C) UNLESS B",
    ),
    WarningCase(
        "not-at-end",
        "SELECT * FROM S WHERE A ; NOT B",
        "SELECT * FROM S WHERE A WITHOUT B FOR 10 MINUTES",
    ),
    WarningCase(
        "unless-idle",
        "SELECT * FROM S WHERE ORDER UNLESS PAY",
        "SELECT * FROM S WHERE ORDER WITHOUT PAY FOR 1 HOUR",
    ),
    WarningCase(
        "never-holds",
        "SELECT * FROM S WHERE A AS a FILTER a[price > 10 AND price < 5]",
        "SELECT * FROM S WHERE A AS a FILTER a[price > 10 OR price < 5]",
    ),
    WarningCase(
        "always-holds",
        "SELECT * FROM S WHERE A AS a FILTER a[name != 'x' OR name != 'y']",
        "SELECT * FROM S WHERE A AS a FILTER a[name NOT IN {'x', 'y'}]",
    ),
    WarningCase(
        "like-percent",
        "SELECT * FROM S WHERE A AS a FILTER a[name LIKE 'MS%']",
        "SELECT * FROM S WHERE A AS a FILTER a[name LIKE 'MS.*']",
    ),
    WarningCase(
        "limit-per-end",
        "SELECT NEXT * FROM S WHERE A AS a ; B ORDER BY a[x] DESC LIMIT 5",
        "SELECT NEXT * FROM S WHERE A AS a ; B ORDER BY a[x] DESC LIMIT 5 OVERALL",
    ),
    WarningCase(
        "absent-type",
        "SELECT * FROM S WHERE SEL AS s",
        "SELECT * FROM S WHERE SELL AS s",
        "type,price,ts\nSELL,20,1000\nBUY,30,2000\n",
    ),
    WarningCase(
        "unmet-condition",
        "SELECT * FROM S WHERE SELL AS s FILTER s[price > 100]",
        "SELECT * FROM S WHERE SELL AS s FILTER s[price > 10]",
        "type,price,ts\nSELL,20,1000\nBUY,30,2000\n",
    ),
    WarningCase(
        "odd-times",
        "SELECT * FROM S WHERE SELL ; BUY WITHIN 5 MINUTES",
        '--time-unit s, in Python time_unit="s"',
        "type,price,ts\nSELL,20,1700000000\nBUY,30,1700000060\n",
    ),
    WarningCase(
        "most-skipped",
        "SELECT * FROM S WHERE SELL ; BUY",
        '--on-error fail, in Python on_error="fail"',
        "type,price,ts\nSELL,20,monday\nBUY,30,tuesday\nBUY,31,3000\n",
    ),
)


def write_codes_pages() -> dict[str, str]:
    """Return the page of each code, and their contents, by the names of their files."""
    pages = {kind.code: _write_error(kind) for kind in KINDS}
    pages |= {case.code: _write_warning(case) for case in CASES}
    return {"index.md": _write_contents(), **{f"{code}.md": pages[code] for code in pages}}


def _write_contents() -> str:
    errors = [f"- [`{kind.code}`]({kind.code}.md): {kind.meaning}" for kind in KINDS]
    warnings = [f"- [`{case.code}`]({case.code}.md): {WARNINGS[case.code]}" for case in CASES]
    return "\n".join([_CONTENTS, *errors, _WARNINGS, *warnings, ""])


def _write_error(kind: ErrorKind) -> str:
    """Return the page of a kind of error."""
    lines = EXAMPLES[kind.code]
    error = run_example(lines)
    classes = " or ".join(f"`{name}`" for name in kind.errors)
    return "\n".join(
        [
            f"# `{kind.code}`\n\n{_MADE}\n\n{kind.meaning} A {classes}.\n",
            f"```python\n{write_session(lines, error)}\n\n```\n",
            f"## What to do\n\n{kind.remedy}\n",
            f"[All messages with this code](../messages.md#{kind.code})\n",
        ]
    )


def _write_warning(case: WarningCase) -> str:
    """Return the page of a warning."""
    (note, *_) = (note for note in find_notes(case, case.query) if note.code == case.code)
    parts = [f"# `{case.code}`\n\n{_MADE}\n\n{WARNINGS[case.code]} A warning.\n"]
    parts.append(f"```ceql\n{case.query}\n```\n")
    if case.events:
        parts.append(f"On these events:\n\n```csv\n{case.events}```\n")
    parts.append(f"```text\nwarning: {note}\n```\n\n## What to do\n")
    if case.instead.startswith("SELECT"):
        parts.append(f"```ceql\n{case.instead}\n```\n")
    else:
        parts.append(f"Give `{case.instead.replace(', in Python ', '`, in Python `')}`.\n")
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
                    elif keyword.arg == "code" and isinstance(keyword.value, ast.Constant):
                        yield str(keyword.value.value)


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
