"""Runs of a join key that wait in the order of a number: search trees.

With `?p2 < ?p1` and no later use of `?p1`, a row takes all runs above its price. Under `:` they
stay, and so they do for further rounds of `B+` (`dag.rounds`).
Group by group, that is a vertex for each pair that fits. Here the runs lie in a persistent search
tree (`dag.ordered`), and a row makes one vertex that names a range of it.

SPARQL has no total order of all numbers: it compares a `float` with a `decimal` as `float`, with a
`double` as `double`. So there is a tree for each *sort* of numbers, in which the order is total:
integers and decimals (whole part and fraction, exactly), floats, doubles. Rounding is monotone, so
the runs that fit any other number are a prefix or a suffix of the tree, and `seek` finds where it
ends, comparing as SPARQL does. Other values (texts, dates, fractions of more than 15 digits) wait
as groups, one for each value.

Cost contract: O(log runs) to file a run, and for a row that names a range. Rows of one event that a
match cannot tell apart must not take the same run twice: they take values one by one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cernis.compiled import inner
from cernis.engine.dag import ordered as by_order
from cernis.engine.dag import records as r
from cernis.engine.graphs.expressions import DECIMAL, DOUBLE, FLOAT, INTEGER, MOST_DIGITS, TEN_TO

PLAIN, EXACTS, FLOATS, DOUBLES = -1, 0, 1, 2
SORTS = 3
"""Sorts of numbers; PLAIN: a value that is in none."""
NO_ANSWER, WORDS, NUMBERS, ROUNDED = range(4)
"""How a tree is asked: not at all, by two words, by a float64, or by a float32."""
_LONGEST = np.int64(2**53)
_MAGNITUDE = np.int64(0x7FFFFFFFFFFFFFFF)


class Question(NamedTuple):
    """A number that the numbers of a tree are compared with."""

    way: int
    high: np.int64
    low: np.int64
    number: float


@inner
def sort_of(fact):
    """Return the sort of a value."""
    kind = fact["kind"]
    if kind in (INTEGER, DECIMAL):
        exact, scale = fact["exact"], fact["scale"]
        short = -_LONGEST < exact < _LONGEST
        whole = scale == 0 and -r.LARGEST_NUMBER <= exact <= r.LARGEST_NUMBER
        return EXACTS if whole or (scale > 0 and short) else PLAIN
    if kind == FLOAT and fact["number"] == fact["number"]:
        return FLOATS
    if kind == DOUBLE and fact["number"] == fact["number"]:
        return DOUBLES
    return PLAIN


@inner
def words_of(sort, fact, word):
    """Return the two words of a value in the trees of its sort; `word` is scratch."""
    if sort == EXACTS:
        return _split_exact(fact)
    return _order_bits(fact["number"], word), np.int64(0)


@inner
def _split_exact(fact):
    """Return the whole part of an exact number and 18 digits of its fraction."""
    exact, scale = fact["exact"], np.int64(fact["scale"])
    whole = exact // TEN_TO[scale]
    return whole, (exact - whole * TEN_TO[scale]) * TEN_TO[MOST_DIGITS - scale]


@inner
def _order_bits(number, word):
    """Return a float as an integer in the same order."""
    word[0] = number
    bits = word.view(np.int64)[0]
    return bits if bits >= 0 else -(bits & _MAGNITUDE)


@inner
def _join_exact(high, low):
    """Return the float64 next to a whole part and a fraction."""
    if low == 0:
        return np.float64(high)
    digits = np.int64(MOST_DIGITS)
    while low % 10 == 0:
        low //= 10
        digits -= 1
    return (high * TEN_TO[digits] + low) / TEN_TO[digits]


@inner
def ask_tree(sort, fact, word):
    """Return the question that a value puts to the trees of a sort."""
    kind, number = fact["kind"], fact["number"]
    nothing = np.int64(0)
    if not INTEGER <= kind <= DOUBLE or (kind >= FLOAT and number != number):
        return Question(NO_ANSWER, nothing, nothing, 0.0)
    if sort == EXACTS:
        if kind <= DECIMAL and fact["scale"] >= 0:
            high, low = _split_exact(fact)
            return Question(WORDS, high, low, 0.0)
        return Question(ROUNDED if kind == FLOAT else NUMBERS, nothing, nothing, number)
    if sort == FLOATS and kind != DOUBLE:
        number = np.float64(np.float32(number))
    return Question(WORDS, _order_bits(number, word), nothing, 0.0)


@inner
def _compare(branch, question):
    """Return -1, 0 or 1: how the value of a branch is to the question."""
    high, low = branch["high"], branch["low"]
    if question.way == WORDS:
        if high != question.high:
            return -1 if high < question.high else 1
        return 0 if low == question.low else -1 if low < question.low else 1
    one, other = _join_exact(high, low), question.number
    if question.way == ROUNDED:
        one, other = np.float64(np.float32(one)), np.float64(np.float32(other))
    return 0 if one == other else -1 if one < other else 1


@inner
def fits(branch, operator, question):
    """Whether the value of a branch is in this relation to the question."""
    order = _compare(branch, question)
    if order == 0:
        return operator in (r.LESS_EQUAL, r.GREATER_EQUAL)
    return (order < 0) == (operator in (r.LESS, r.LESS_EQUAL))


@inner
def seek(branches, root, operator, question):
    """Return the last branch that fits, 0 if none does, and the latest start of all that fit."""
    below = operator in (r.LESS, r.LESS_EQUAL)
    latest, last = r.NOTHING, 0
    if question.way == NO_ANSWER:
        return last, latest
    at = root
    while at != 0:
        inside = fits(branches[at], operator, question)
        if inside:
            last = at
            latest = max(latest, branches[at]["start"])
            side = branches[at]["left"] if below else branches[at]["right"]
            if side != 0:
                latest = max(latest, branches[side]["best"])
        at = branches[at]["right"] if inside == below else branches[at]["left"]
    return last, latest


@inner
def next_value(branches, root, operator, high, low):
    """Return a branch with the next value from the range's end inwards, 0: there is none.

    Ranges by LESS begin at the largest value, others at the smallest.
    """
    below = operator in (r.LESS, r.LESS_EQUAL)
    inwards = r.LESS if below else r.GREATER
    found, at = 0, root
    while at != 0:
        inside = by_order.is_in_range(branches[at], inwards, high, low)
        if inside:
            found = at
        at = branches[at]["right"] if inside == below else branches[at]["left"]
    return found
