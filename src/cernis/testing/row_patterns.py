"""The meaning of MATCH_RECOGNIZE as a short program: a direct backtracking evaluator.

`list_words` has one case for each operator of a row pattern and yields the words of the pattern in
the order of preference. A word grows row by row, and a row is tried only if its condition holds of
the word so far. `recognize` takes the first word at each row, and goes on where AFTER MATCH SKIP
says. Nothing is remembered, so the cost is exponential in the rows. Ten rows are plenty.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import permutations
from typing import NamedTuple

from cernis.languages.sql.row_pattern import (
    RowAlternation,
    RowAnchor,
    RowExclusion,
    RowPattern,
    RowPermutation,
    RowRepetition,
    RowSequence,
    RowVariable,
    SkipMode,
)

Word = tuple[tuple[str, bool], ...]
"""Per row of a match: its variable, and whether `{- -}` leaves it out."""

Condition = Callable[[int, tuple[str, ...], int], bool]
"""Of the first row of a match, its variables so far and its number: whether its last row fits."""


class RowMatch(NamedTuple):
    """A match: its first row and its word; None: no match begins at this row."""

    start: int
    word: Word | None


class SkipMistake(Exception):
    """AFTER MATCH SKIP goes to a row that there is not, or to the first row of the match."""


class _Rows(NamedTuple):
    start: int
    end: int
    """The rows that the match may have end before this one."""
    partition: int
    """The number of rows of the partition."""
    condition: Condition
    number: int = 1
    """The number of the match."""


def make_rows(start: int, partition: int, condition: Condition, number: int = 1) -> _Rows:
    """Return the rows of a partition of so many, for matches that begin at one of them."""
    return _Rows(start, partition, partition, condition, number)


def list_words(
    pattern: RowPattern, rows: _Rows, word: Word = (), *, excluded: bool = False
) -> Iterator[Word]:
    """Yield how a pattern continues a word, in the order of preference."""
    at = rows.start + len(word)
    match pattern:
        case RowVariable(name):
            names = (*(variable for variable, _ in word), name)
            if at < rows.end and rows.condition(rows.start, names, rows.number):
                yield (*word, (name, excluded))
        case RowAnchor(at_end):
            if at == (rows.partition if at_end else 0):
                yield word
        case RowAlternation(parts):
            for part in parts:
                yield from list_words(part, rows, word, excluded=excluded)
        case RowSequence(()):
            yield word
        case RowSequence((first, *others)):
            for longer in list_words(first, rows, word, excluded=excluded):
                yield from list_words(RowSequence(tuple(others)), rows, longer, excluded=excluded)
        case RowPermutation(parts):
            for order in permutations(parts):
                yield from list_words(RowSequence(order), rows, word, excluded=excluded)
        case RowExclusion(part):
            yield from list_words(part, rows, word, excluded=True)
        case RowRepetition(part, least, most, greedy):
            if most == 0:
                yield word
            elif least > 0:
                fewer = RowRepetition(part, least - 1, None if most is None else most - 1, greedy)
                for longer in list_words(part, rows, word, excluded=excluded):
                    yield from list_words(fewer, rows, longer, excluded=excluded)
            else:
                if not greedy:
                    yield word
                fewer = RowRepetition(part, 0, None if most is None else most - 1, greedy)
                for longer in list_words(part, rows, word, excluded=excluded):
                    if most is None and longer == word:
                        yield word
                    else:
                        yield from list_words(fewer, rows, longer, excluded=excluded)
                if greedy:
                    yield word


def recognize(
    pattern: RowPattern,
    number: int,
    condition: Condition,
    skip: SkipMode = SkipMode.PAST_LAST_ROW,
    target: Collection[str] = (),
    limits: Sequence[int] | None = None,
) -> list[RowMatch]:
    """Return the matches in a partition of so many rows, and the rows at which none begins.

    `target` are the variables of SKIP TO, `limits` the row before which a match ends that begins
    at each row (WITHIN).

    >>> always = lambda start, names, number: True
    >>> recognize(RowRepetition(RowVariable("A"), 2, 2), 5, always)[:2]  # doctest: +ELLIPSIS
    [RowMatch(start=0, word=(('A', False), ('A', False))), RowMatch(start=2, ...
    """
    found: list[RowMatch] = []
    at, matches = 0, 0
    while at < number:
        end = number if limits is None else limits[at]
        word = next(list_words(pattern, _Rows(at, end, number, condition, matches + 1)), None)
        matches += word is not None
        found.append(RowMatch(at, word))
        at = at + 1 if not word else _skip(at, word, skip, target)
    return found


def _skip(start: int, word: Word, skip: SkipMode, target: Collection[str]) -> int:
    match skip:
        case SkipMode.PAST_LAST_ROW:
            return start + len(word)
        case SkipMode.TO_NEXT_ROW:
            return start + 1
    indices = [start + i for i, (name, _) in enumerate(word) if name in target]
    if not indices:
        raise SkipMistake("no row")
    at = indices[0] if skip is SkipMode.TO_FIRST else indices[-1]
    if at == start:
        raise SkipMistake("the first row")
    return at
