"""Which events some rule of a large set can use, as one condition of a size that Spark compiles.

A condition with a branch for each of thousands of rules outgrows a method of the JVM, and Spark
then interprets it row by row. So each rule is found by the rarest of its simple tests, by a sample
of the events (`run.rules.routing`), and the tests of all rules are joined by column: constants as
one `IN`, which is a hash set, texts as one regular expression of the tree of their beginnings, and
ranges as their union. The tasks look at the other tests.

Cost contract: per event a look-up for each column, and for a text a step for each of its letters
and each letter that a text which is looked for begins with. Making it reads some thousand events.
Turned down: `contains` for each text, whose cost is that of the texts; a regular expression with an
alternative for each text, whose cost is that as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import types as T

from cernis.events.batch import EventBatch
from cernis.pattern import predicate as pred
from cernis.pattern.simple_tests import Constant, Form, Interval, NeededTests
from cernis.run.rules.routing.constants import IndexKind
from cernis.run.rules.routing.router import RoutedRules, Router
from cernis.spark import catalyst
from cernis.spark.catalyst import Mode, Truth
from cernis.spark.frame import Frame

SAMPLED = 4096
"""So many of the first events are looked at."""
_LONGEST = 24
"""Of a text so many letters are looked for."""
_MOST_RANGES = 32
"""More ranges are joined with their neighbours."""


def find_relevant(needed: Sequence[NeededTests], frame: Frame, sample: pa.Table) -> Column | None:
    """Return a condition that holds for all events which some rule can use; None: it says nothing.

    `needed` are the tests of the rules. The condition may be NULL instead of false.
    """
    router = Router({0: RoutedRules((), dict(enumerate(needed)))}, frame.type)
    router.route(EventBatch.of(sample))
    found = catalyst.either(
        _find_any(kind, constants, frame) for kind, constants in router.constants.items()
    )
    return None if found is True else catalyst.as_column(found)


def _find_any(kind: IndexKind, constants: Sequence[Constant], frame: Frame) -> Truth:
    """Return where an attribute has some of these constants."""
    path = (frame.type,) if kind.attribute is None else tuple(kind.attribute.split("."))
    column = pred.Attribute(path)
    if kind.form is Form.PART:
        known = catalyst.attribute(frame.columns, path)
        if known is None:
            return False
        is_text = isinstance(known[1], T.StringType)
        return known[0].rlike(write_search(map(str, constants))) if is_text else True
    predicate: pred.Predicate
    if kind.form is Form.RANGE:
        ranges = join_ranges([one for one in constants if isinstance(one, Interval)])
        predicate = pred.Or(tuple(_write_range(column, one) for one in ranges))
    else:
        body = pred.Call("LOWER", (column,)) if kind.form is Form.FOLDED else column
        values = [one for one in constants if not isinstance(one, Interval)]
        predicate = pred.InSet(body, tuple(map(pred.Literal, values)))
    return catalyst.translate_bound(
        predicate, frame.columns, frame.type, frame.stream, Mode.AT_LEAST
    ).truth


def _write_range(column: pred.Attribute, one: Interval) -> pred.Predicate:
    bounds = [(">=", one.low), ("<=", one.high)]
    parts = (
        pred.Comparison(op, column, pred.Literal(bound))  # type: ignore[arg-type]
        for op, bound in bounds
        if abs(bound) != float("inf")
    )
    return pred.And(tuple(parts))


def join_ranges(ranges: Sequence[Interval], most: int = _MOST_RANGES) -> list[Interval]:
    """Return at most so many ranges that cover these; those next to each other are joined first.

    >>> join_ranges([Interval(5.0, 6.0), Interval(0.0, 1.0), Interval(1.0, 2.0)])
    [Interval(low=0.0, high=2.0), Interval(low=5.0, high=6.0)]
    >>> join_ranges([Interval(5.0, 6.0), Interval(0.0, 1.0), Interval(2.0, 3.0)], most=2)
    [Interval(low=0.0, high=3.0), Interval(low=5.0, high=6.0)]
    """
    united: list[Interval] = []
    for one in sorted(one for one in ranges if one.low <= one.high):
        if united and one.low <= united[-1].high:
            united[-1] = Interval(united[-1].low, max(united[-1].high, one.high))
        else:
            united.append(one)
    gaps = sorted((b.low - a.high for a, b in pairwise(united)), reverse=True)
    narrowest = gaps[most - 1] if len(gaps) >= most else -1.0
    joined: list[Interval] = []
    for one in united:
        if joined and one.low - joined[-1].high <= narrowest:
            joined[-1] = Interval(joined[-1].low, one.high)
        else:
            joined.append(one)
    return joined


def write_search(texts: Iterable[str]) -> str:
    r"""Return a regular expression of Java that finds each of these texts, in any capitals.

    Texts are ASCII. Other letters have several forms: what has some is found as well.

    >>> write_search(["cmd.exe", "cmp", "x", "cm"])
    '[^\\x00-\\x7F]|(?:[cC][mM]|[xX])'
    """
    tree: dict[str, Any] = {}
    for text in texts:
        node = tree
        for letter in text[:_LONGEST].lower():
            node = node.setdefault(letter, {})
        node[""] = {}
    return rf"[^\x00-\x7F]|{_write_tree(tree)}"


def _write_tree(tree: Mapping[str, Any]) -> str:
    """Return the expression of what may follow; nothing has to, where a text ends."""
    if "" in tree:
        return ""
    parts = [_write_letter(letter) + _write_tree(rest) for letter, rest in tree.items()]
    return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"


def _write_letter(letter: str) -> str:
    if letter.isalpha():
        return f"[{letter}{letter.upper()}]"
    return letter if letter.isalnum() or letter == " " else f"\\{letter}"
