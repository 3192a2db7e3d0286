"""Conjunctive queries, in the notation of Datalog rules.

>>> from cernis.languages.conjunctive import lower, parse
>>> query = parse("Q(x, y) <- T(a: x), S(a: x, b: y) WITHIN 10 EVENTS")
>>> query.full
True
>>> str(lower(query))
'SELECT `0`, `1` WHERE (T AS `0` ALL S AS `1`) FILTER `0`[a] = `1`[a] WITHIN 10 EVENTS'
"""

from __future__ import annotations

from cernis.languages.conjunctive.lower import lower
from cernis.languages.conjunctive.parse import parse

__all__ = ["lower", "parse"]
