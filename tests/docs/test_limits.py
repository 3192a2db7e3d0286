"""The table of limits in docs/reference/errors.md agrees with the constants in the code."""

from __future__ import annotations

import re
from pathlib import Path

from cernis.automata.unary import alphabet, construct, runs
from cernis.cli import arguments
from cernis.engine.dag import records
from cernis.engine.linked import runtime as linked
from cernis.engine.unary import runtime as unary
from cernis.errors import LONGEST_MESSAGE
from cernis.events import order
from cernis.events.reading import json_text, pipe, text
from cernis.languages.text import read
from cernis.pattern.check import MAX_DEPTH
from cernis.rdf.reading import group
from cernis.rdf.solving import plan, solutions
from cernis.results.budget import CANDIDATE_BUDGET
from cernis.serve.limits import Limits
from cernis.work import carriers

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "errors.md"

PLAYGROUND = Limits()
LIMITS = {
    "a query's file": arguments.LARGEST_QUERY,
    "a query's text": read.MAX_TEXT,
    "words and symbols in a query": read.MAX_TOKENS,
    "nesting of a query": MAX_DEPTH,
    "states of the automaton": construct.MOST_STATES,
    "moves to work an automaton out": runs.MOST_MOVES,
    "cases of a FILTER": construct.MOST_ALTERNATIVES,
    "different questions": alphabet.MOST_ATOMS,
    "kinds of events": alphabet.MOST_SYMBOLS,
    "a line of JSON": text.LONGEST_RECORD,
    "a pipe of events": order.LOAD_BYTES,
    "bytes of a pipe": pipe.MOST_KEPT,
    "nesting of a line of JSON": json_text._DEEPEST,
    "a line of a message": LONGEST_MESSAGE,
    "candidates": CANDIDATE_BUDGET,
    "partial matches": records.MOST_RECORDS,
    "nodes of partial matches": (unary.MOST_NODES + 1) // 2,  # memory for nodes is doubled
    "partitions": unary.MOST_SLOT_BYTES,
    "matches that end": 10**carriers._LARGEST_PRECISION - 1,
    "SPAseQ: groups": linked.MOST_ENTRIES,
    "SPAseQ: solutions of a pattern over": plan.BUDGET,
    "SPAseQ: solutions of a pattern in": solutions.BATCH_BUDGET.limit,
    "SPAseQ: quads": group.REACH,
    "the playground: an upload": PLAYGROUND.upload_bytes,
    "the playground: uploads": PLAYGROUND.uploads,
    "the playground: seconds of": PLAYGROUND.seconds,
    "the playground: memory": PLAYGROUND.memory_bytes,
    "the playground: matches": PLAYGROUND.matches,
    "the playground: runs": PLAYGROUND.runs,
    "the playground: visitors": PLAYGROUND.visitors,
    "the playground: seconds for": round(PLAYGROUND.request_seconds),
}


def rows() -> list[list[str]]:
    section = PAGE.read_text().partition("## Limits")[2]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def number(limit: str) -> int:
    """
    >>> number("2^25"), number("16 MiB"), number("10^38 - 1") == 10**38 - 1
    (33554432, 16777216, True)
    """
    limit = limit.replace(",", "").replace("^", "**")
    limit = limit.replace(" MiB", " << 20").replace(" GiB", " << 30")
    assert re.fullmatch(r"[0-9 *<-]+", limit)
    return int(eval(limit))


def test_every_limit_is_the_one_of_the_code() -> None:
    table = {row[0]: number(row[1]) for row in rows()}
    assert len(table) == len(LIMITS)
    for name, limit in LIMITS.items():
        assert [value for what, value in table.items() if what.startswith(name)] == [limit], name


def test_every_message_and_setting_is_in_the_code() -> None:
    source = "".join(path.read_text() for path in sorted((ROOT / "src").rglob("*.py")))
    source = re.sub(r'"\n\s+f?"', "", source)
    for row in rows():
        for quoted in re.findall(r"`([^`]+)`", " ".join(row[2:])):
            # numbers, and what is left out, are not in the text of the code
            for part in re.split(r"[0-9][0-9,^]*|…", quoted):
                assert part.strip(" []-") in source, quoted
