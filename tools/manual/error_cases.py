"""An example for each code of an error: a few lines of Python, which are run to get the message.

Every kind in `cernis.error_codes` needs one, and its error must have that code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import chdir
from tempfile import TemporaryDirectory

from cernis.errors import CernisError

_IMPORT = "import cernis"
_SALES = 'sales = [{"type": "SELL", "x": 2, "ts": 1}, {"type": "BUY", "x": 1, "ts": 2}]'
_PAIRS = 'query = cernis.query("SELECT * FROM S WHERE SELL AS s ; BUY AS b")'
_GRAPHS = '''query = cernis.query("""
    SELECT ?a FROM STREAM S <urn:s>
    WHERE { SEQ (A) DEFINE GPM A ON S { ?a <urn:p> ?b GRAPH <urn:kb> { ?b <urn:q> ?c } } }
""", lang="spaseq")'''
_WITHOUT_ALTAIR = """with patch.dict("sys.modules", {"altair": None}):  # as if it were not there
    query.run(sales).plot()"""


def _check(text: str, language: str = "") -> tuple[str, ...]:
    given = f", lang={language!r}".replace("'", '"') if language else ""
    return _IMPORT, f'cernis.query("{text}"{given})'


def _run(text: str, events: str, options: str = "") -> tuple[str, ...]:
    return _IMPORT, _SALES, f'query = cernis.query("{text}")', f"query.run({events}{options})"


EXAMPLES: dict[str, tuple[str, ...]] = {
    "query-too-large": (
        _IMPORT,
        'cernis.query("SELECT * FROM S WHERE " + "(" * 101 + "A" + ")" * 101)',
    ),
    "bad-regex": _check("SELECT * FROM S WHERE A AS a FILTER a[name LIKE 'MS(']"),
    "type-clash": _check(
        "CREATE STREAM S { EVENT A { name:string } } SELECT * FROM S WHERE A FILTER A[name < 3]"
    ),
    "named-twice": _check("SELECT a[x] AS v, a[y] AS v FROM S WHERE A AS a"),
    "parameter": _run("SELECT * FROM S WHERE BUY AS b FILTER b[x > $least]", "sales"),
    "unbound-variable": _check("Q(x, z) <- A(k: x), B(k: x)", "cq"),
    "unknown-name": _check("SELECT * FROM S WHERE SELL AS sale FILTER sail[price > 3]"),
    "no-single-value": _check("SELECT b[price] AS p FROM S WHERE BUY+ AS b"),
    "uncovered-key": _check("SELECT * FROM S WHERE ((A AS a ; B AS b) PARTITION BY [a[user]])"),
    "number-out-of-range": _check("SELECT * FROM S WHERE A{3,2}"),
    "clauses-clash": _check("SELECT * FROM S WHERE A WITHOUT B FOR 1 MINUTE CONSUME BY ANY"),
    "syntax": _check("SELCT * FROM S WHERE A"),
    "misplaced": _check("SELECT * FROM S WHERE NOT (A ; B)"),
    "no-such-row": (_IMPORT, _SALES, _PAIRS, "query.trace(query.run(sales)).why([0, 9])"),
    "output": (_IMPORT, _SALES, _PAIRS, 'query.run(sales).write_jsonl("no-folder/matches.jsonl")'),
    "out-of-order": _run("SELECT * FROM S WHERE SELL ; BUY WITHIN 5 [x]", "sales"),
    "bad-row": (
        _IMPORT,
        "from pathlib import Path",
        '_ = Path("sales.csv").write_text("type,ts\\nSELL,1\\nBUY,\\n")',
        _PAIRS,
        'query.run("sales.csv")',
    ),
    "tables": _run("SELECT * FROM S JOIN t ON x = t.x WHERE SELL", "sales"),
    "background": (_IMPORT, _GRAPHS, 'query.run({"S": b""})'),
    "time-column": _run(
        "SELECT * FROM S WHERE A ; B WITHIN 5 SECONDS", '[{"type": "A"}, {"type": "B"}]'
    ),
    "unfit-values": _run(
        "SELECT * FROM S WHERE A ; A WITHIN 5 [x]", '[{"type": "A", "x": [1, 2]}]'
    ),
    "columns": _run("SELECT * FROM S WHERE SELL", "sales", ', type="kind"'),
    "no-such-file": _run("SELECT * FROM S WHERE SELL", '"sales.csv"'),
    "file-format": (
        _IMPORT,
        "from pathlib import Path",
        '_ = Path("sales.log").write_text("SELL 1")',
        _PAIRS,
        'query.run("sales.log")',
    ),
    "streams": _run("SELECT * FROM S, T WHERE SELL", '{"S": sales, "U": sales}'),
    "unreadable-input": (
        _IMPORT,
        "from pathlib import Path",
        '_ = Path("sales.parquet").write_text("type,ts")',
        _PAIRS,
        'query.run("sales.parquet")',
    ),
    "too-many-candidates": _run(
        "SELECT * FROM S WHERE SELL AS s ; BUY AS b FILTER s[x] + b[x] > 1", "sales", ", budget=0"
    ),
    "pattern-too-large": (_IMPORT, 'cernis.query("SELECT * FROM S WHERE A{90000}").explain()'),
    "state-too-large": _run(
        "SELECT * FROM S WHERE (SELL OR BUY) AS a ; SELL PARTITION BY [x]", "sales", ", max_keys=1"
    ),
    "foreign-state": (
        _IMPORT,
        _PAIRS,
        "frozen = query.session().freeze()",
        'cernis.query("SELECT * FROM S WHERE BUY ; SELL").thaw(frozen)',
    ),
    "damaged-state": (_IMPORT, _PAIRS, 'query.thaw(b"nothing")'),
    "session": (_IMPORT, _PAIRS, "query.session().pull()"),
    "unavailable": (
        _IMPORT,
        "from unittest.mock import patch",
        _SALES,
        _PAIRS,
        _WITHOUT_ALTAIR,
    ),
    "bad-option": _run("SELECT * FROM S WHERE SELL", "sales", ", budget=-1"),
}


def run_example(lines: tuple[str, ...]) -> CernisError:
    """Return the error that the last of some lines raises, run in an empty folder."""
    names: dict[str, object] = {}
    with TemporaryDirectory() as folder, chdir(folder):
        try:
            for line in lines:
                exec(line, names)
        except CernisError as error:
            return error
    raise AssertionError(f"no error: {lines[-1]}")


def write_session(lines: tuple[str, ...], error: CernisError) -> str:
    """Return lines and the error of the last one as a doctest."""
    return "\n".join([*_prompt(lines), "Traceback (most recent call last):", _write_error(error)])


def _prompt(lines: tuple[str, ...]) -> Iterator[str]:
    for line in lines:
        first, *more = line.split("\n")
        yield f">>> {first}"
        yield from (f"... {rest}" for rest in more)


def _write_error(error: CernisError) -> str:
    return f"{type(error).__module__}.{type(error).__name__}: {error}"
