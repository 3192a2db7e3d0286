"""Sets of solutions as terms: what EXISTS with variables of other steps finds in an event.

A set is a literal: its text is a JSON list of rows, each a list of terms in N-Triples form, null
where a variable is unbound. So equal sets are one term, and rows of events keep it like any other.

Cost: a pass over the rows; a set that was read lately is not read again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache

from cernis.languages.spaseq.terms import write_literal

TermRow = Sequence[str | None]


def write_set(rows: Sequence[TermRow]) -> str:
    """Return rows of terms as one literal; None is unbound.

    >>> print(write_set([["<http://x/b>", None]]))
    "[[\\"<http://x/b>\\", null]]"
    """
    return write_literal(f"[{', '.join(sorted(map(json.dumps, rows)))}]")


@lru_cache(4096)
def read_set(text: str) -> list[list[str | None]]:
    """Return the rows of a set, whose text this is.

    >>> read_set('[["<http://x/b>", null]]')
    [['<http://x/b>', None]]
    """
    rows: list[list[str | None]] = json.loads(text)
    return rows
