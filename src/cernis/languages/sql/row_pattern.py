"""The row patterns of SQL:2016: what stands in PATTERN of a MATCH_RECOGNIZE clause.

A pattern denotes words over its variables, in an order of preference: a greedy quantifier prefers
more repetitions, a reluctant one fewer, an alternation its first branch, PERMUTE the permutations
in the order of its arguments, and a concatenation compares from left to right. A match at a row is
the first word of that order whose rows satisfy DEFINE (`cernis.testing.row_patterns`).

Where a repetition without an upper bound matches nothing, it ends: Perl's rule, which keeps the
words finite.

Chains of one operator are one node, so that long patterns are wide and not deep.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from cernis.errors import Span


@dataclass(frozen=True, slots=True)
class RowVariable:
    """A variable: one row that satisfies its condition."""

    name: str
    span: Span | None = None

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class RowSequence:
    """Parts one after the other; without parts the empty pattern `()`."""

    parts: tuple[RowPattern, ...]

    def __str__(self) -> str:
        parts = (
            str(part) if isinstance(part, RowRepetition) else _bracketed(part)
            for part in self.parts
        )
        return " ".join(parts) or "()"


@dataclass(frozen=True, slots=True)
class RowAlternation:
    """One of several parts; earlier ones are preferred."""

    parts: tuple[RowPattern, ...]

    def __str__(self) -> str:
        return " | ".join(map(str, self.parts))


@dataclass(frozen=True, slots=True)
class RowRepetition:
    """A part several times; greedy: more repetitions are preferred."""

    part: RowPattern
    least: int
    most: int | None
    greedy: bool = True

    def __str__(self) -> str:
        bounds = (self.least, self.most)
        known = {(0, None): "*", (1, None): "+", (0, 1): "?"}
        most = "" if self.most is None else self.most
        exact = f"{{{self.least}}}" if self.least == self.most else f"{{{self.least},{most}}}"
        return f"{_bracketed(self.part)}{known.get(bounds, exact)}{'' if self.greedy else '?'}"


@dataclass(frozen=True, slots=True)
class RowPermutation:
    """The parts in any order; the order as written is preferred."""

    parts: tuple[RowPattern, ...]

    def __str__(self) -> str:
        return f"PERMUTE({', '.join(map(str, self.parts))})"


@dataclass(frozen=True, slots=True)
class RowExclusion:
    """A part whose rows ALL ROWS PER MATCH leaves out."""

    part: RowPattern

    def __str__(self) -> str:
        return f"{{- {self.part} -}}"


@dataclass(frozen=True, slots=True)
class RowAnchor:
    """The start of the partition, or its end."""

    at_end: bool

    def __str__(self) -> str:
        return "$" if self.at_end else "^"


RowPattern = (
    RowVariable
    | RowSequence
    | RowAlternation
    | RowRepetition
    | RowPermutation
    | RowExclusion
    | RowAnchor
)


def _bracketed(part: RowPattern) -> str:
    bare = isinstance(part, RowVariable | RowPermutation | RowExclusion | RowAnchor)
    return str(part) if bare or part == RowSequence(()) else f"({part})"


def walk_pattern(pattern: RowPattern) -> Iterator[RowPattern]:
    """Yield a pattern and all its parts, in the order of the text."""
    yield pattern
    match pattern:
        case RowSequence(parts) | RowAlternation(parts) | RowPermutation(parts):
            for part in parts:
                yield from walk_pattern(part)
        case RowRepetition(part) | RowExclusion(part):
            yield from walk_pattern(part)


def is_nullable(pattern: RowPattern) -> bool:
    """Return whether a pattern matches no rows, anchors aside.

    >>> is_nullable(RowRepetition(RowVariable("A"), 0, None))
    True
    """
    match pattern:
        case RowVariable():
            return False
        case RowAlternation(parts):
            return any(map(is_nullable, parts))
        case RowSequence(parts) | RowPermutation(parts):
            return all(map(is_nullable, parts))
        case RowRepetition(part, least):
            return least == 0 or is_nullable(part)
        case RowExclusion(part):
            return is_nullable(part)
    return True


def has_one_way(pattern: RowPattern) -> bool:
    """Return whether rows can be read as a pattern in one way at most.

    >>> has_one_way(RowSequence((RowVariable("A"), RowVariable("B"))))
    True
    """
    match pattern:
        case RowVariable() | RowAnchor():
            return True
        case RowSequence(parts):
            return all(map(has_one_way, parts))
        case RowExclusion(part):
            return has_one_way(part)
        case RowRepetition(part, least, most):
            return least == most and has_one_way(part)
    return False


class SkipMode(Enum):
    """Where the search goes on after a match."""

    PAST_LAST_ROW = 0
    TO_NEXT_ROW = 1
    TO_FIRST = 2
    TO_LAST = 3


class RowsPerMatch(Enum):
    """Which rows a match has in the result."""

    ONE = "ONE ROW PER MATCH"
    ALL = "ALL ROWS PER MATCH"
    ALL_OMIT_EMPTY = "ALL ROWS PER MATCH OMIT EMPTY MATCHES"
    ALL_WITH_UNMATCHED = "ALL ROWS PER MATCH WITH UNMATCHED ROWS"
