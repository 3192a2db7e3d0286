"""Compare an executor's answer with the oracle's, and show where they differ.

`check(pattern, events, run)` runs both and raises `AssertionError` with the query, the
events as a table, and the missing and the surplus matches. A match is anything with
`start`, `end` and `vars`, or such a triple; rows, not positions. The order of matches
and variables without events do not count; a match given twice does.

Two clauses leave the executor a choice, and any choice the definition allows is right:
`LIMIT n` may keep any n of an end's matches, and `ANY` any one valuation. What follows
from the choice under `CONSUME BY` is followed too. Cost: the oracle's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple, Protocol, runtime_checkable

from cernis.pattern.query import Consume, Pattern, Strategy
from cernis.testing import oracle
from cernis.testing.predicates import Event


@runtime_checkable
class MatchLike(Protocol):
    """The members of a match that are compared."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def vars(self) -> Mapping[str, Iterable[int]]: ...


MatchTriple = tuple[int, int, Mapping[str, Iterable[int]]]
Executor = Callable[[Pattern, Sequence[Event]], Iterable[MatchLike | MatchTriple]]


class ComparableMatch(NamedTuple):
    """A match in the form that is compared: rows ascending, no empty variables."""

    end: int
    start: int
    vars: tuple[tuple[str, tuple[int, ...]], ...]
    values: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        held = "".join(f"  {x} = {', '.join(map(str, rows))}" for x, rows in self.vars)
        values = "".join(f"  {name} = {value}" for name, value in self.values)
        return f"[{self.start}, {self.end}]{held}{values}"


def comparable_match(match: MatchLike | MatchTriple, *, values: bool = False) -> ComparableMatch:
    """Return a match in comparable form, with `values` its values rounded to nine digits.

    >>> print(comparable_match((0, 3, {"x": [3, 0], "y": []})))
    [0, 3]  x = 0, 3
    """
    if isinstance(match, MatchLike):
        start, end, held = match.start, match.end, match.vars
    else:
        start, end, held = match
    kept = {x: tuple(sorted(int(row) for row in rows)) for x, rows in held.items()}
    found = getattr(match, "values", {}) if values else {}
    return ComparableMatch(
        int(end),
        int(start),
        tuple(sorted((x, r) for x, r in kept.items() if r)),
        tuple((name, write_value(value)) for name, value in found.items()),
    )


def write_value(value: Any) -> str:
    """Write a value such that equal numbers are equal texts.

    >>> [write_value(value) for value in (1, 1.0, Fraction(1, 3), -0.0, None, "a")]
    ['1', '1', '0.333333333', '0', 'None', "'a'"]
    """
    if isinstance(value, int | float | Decimal | Fraction) and not isinstance(value, bool):
        return f"{float(value) + 0.0:.9g}"  # -0.0 equals 0.0
    return repr(value)


def check(pattern: Pattern, events: Sequence[Event], run: Executor, **options: Any) -> None:
    """Raise unless `run` and the oracle agree; options are the oracle's."""
    assert_agrees(pattern, events, run(pattern, events), **options)


def assert_agrees(
    pattern: Pattern,
    events: Sequence[Event],
    got: Iterable[MatchLike | MatchTriple],
    **options: Any,
) -> None:
    """Raise unless these matches are the oracle's, or a choice that is as good."""
    matches = list(got)
    values = all(hasattr(match, "values") for match in matches)
    answers = [comparable_match(match, values=values) for match in matches]
    missing, surplus = find_differences(pattern, events, answers, values=values, **options)
    lines = [
        line
        for title, entries in (("missing:", missing), ("surplus:", surplus))
        if entries
        for line in (title, *(f"  {entry}" for entry in entries))
    ]
    if lines:
        raise AssertionError("\n".join([describe_case(pattern, events), *lines]))


def assert_counts_agree(
    pattern: Pattern,
    events: Sequence[Event],
    got: Iterable[tuple[int, int]],
    **options: Any,
) -> None:
    """Raise unless these are the numbers of matches per end row; zeros do not count."""
    expected = dict(oracle.count_matches(pattern, events, **options))
    found = {int(end): int(number) for end, number in got if number}
    if found != expected:
        lines = [
            f"end {end}: {expected.get(end, 0)} expected, {found.get(end, 0)} found"
            for end in sorted(expected.keys() | found.keys())
            if expected.get(end) != found.get(end)
        ]
        raise AssertionError("\n".join([describe_case(pattern, events), "counts:", *lines]))


def assert_suppression_agrees(
    pattern: Pattern,
    events: Sequence[Event],
    got: Iterable[tuple[MatchLike | MatchTriple, int | None]],
    **options: Any,
) -> None:
    """Raise unless these matches are reported, each with the number silenced before it.

    Matches of one interval and of equal values may stand for each other.
    """
    given = [(comparable_match(match), number) for match, number in got]
    free = oracle.evaluate(replace(pattern, suppress=None), events, **options)
    allowed = Counter(map(comparable_match, free))
    wrong = Counter(match for match, _ in given) - allowed
    expected = Counter(
        (match.end, match.start, match.suppressed)
        for match in oracle.evaluate(pattern, events, **options)
    )
    found = Counter((match.end, match.start, number) for match, number in given)
    lines = [f"no match: {each}" for each in wrong]
    for title, more in (("missing", expected - found), ("surplus", found - expected)):
        lines += [f"{title}: [{a}, {b}] after {n} silenced" for b, a, n in sorted(more.elements())]
    if lines:
        raise AssertionError("\n".join([describe_case(pattern, events), *lines]))


class ComparableGroup(NamedTuple):
    """A group of matches in the form that is compared: all values as texts."""

    when: tuple[str, ...]
    """The bounds of EVERY, the row of END, or nothing."""
    partition: tuple[tuple[str, str], ...]
    values: tuple[str, ...]


def comparable_group(
    when: Iterable[Any], partition: Mapping[str, Any], values: Mapping[str, Any]
) -> ComparableGroup:
    """Return a group in comparable form: equal numbers are equal texts."""
    return ComparableGroup(
        tuple(map(write_value, when)),
        tuple((name, write_value(value)) for name, value in partition.items()),
        tuple(map(write_value, values.values())),
    )


def assert_groups_agree(
    pattern: Pattern, events: Sequence[Event], got: Iterable[ComparableGroup], **options: Any
) -> None:
    """Raise unless these are the oracle's groups, in any order."""
    groups = oracle.evaluate_groups(pattern, events, **options)
    expected = Counter(comparable_group(g.when, g.partition, g.values) for g in groups)
    found = Counter(got)
    lines = [f"missing: {group}" for group in (expected - found).elements()]
    lines += [f"surplus: {group}" for group in (found - expected).elements()]
    if lines:
        raise AssertionError("\n".join([describe_case(pattern, events), *lines]))


def find_differences(
    pattern: Pattern,
    events: Sequence[Event],
    got: Iterable[ComparableMatch],
    *,
    values: bool = False,
    **options: Any,
) -> tuple[list[str], list[str]]:
    """Return the missing and the surplus matches; both empty when the answer is right.

    `values` says whether the answers have their values.
    """

    def comparable(match: MatchLike) -> ComparableMatch:
        return comparable_match(match, values=values)

    found = Counter(got)
    if pattern.strategy is Strategy.ANY and pattern.limit != 0:
        twice = [f"{each}  (given {times} times)" for each, times in found.items() if times > 1]
        missing, surplus = _compare_with_any(pattern, events, set(found), comparable, options)
        return missing, surplus + twice
    return _compare_with_limit(pattern, events, found, comparable, options)


def _compare_with_limit(
    pattern: Pattern,
    events: Sequence[Event],
    found: Counter[ComparableMatch],
    comparable: Callable[[MatchLike], ComparableMatch],
    options: Mapping[str, Any],
) -> tuple[list[str], list[str]]:
    """Compare as multisets: variables that are no columns may tell matches apart."""
    matches = oracle.evaluate(replace(pattern, limit=None), events, **options)
    allowed = Counter(map(comparable, matches))
    surplus = [str(each) for each in sorted((found - allowed).elements())]
    if pattern.limit is None:
        return [str(each) for each in sorted((allowed - found).elements())], surplus
    return find_wrong_ends(allowed.elements(), found.elements(), pattern.limit), surplus


def find_wrong_ends(
    allowed: Iterable[ComparableMatch], found: Iterable[ComparableMatch], most: int
) -> list[str]:
    """Describe the ends that have not as many matches as are allowed, up to `most` each."""
    possible, given = (Counter(each.end for each in answers) for answers in (allowed, found))
    return [
        f"{min(number, most)} matches that end at {end}, of which {given[end]} are given"
        for end, number in sorted(possible.items())
        if given[end] != min(number, most)
    ]


def _compare_with_any(
    pattern: Pattern,
    events: Sequence[Event],
    found: set[ComparableMatch],
    comparable: Callable[[MatchLike], ComparableMatch],
    options: Mapping[str, Any],
) -> tuple[list[str], list[str]]:
    """Ask for one valuation per end; an end has none only if an earlier match used it up."""
    free = replace(pattern, strategy=Strategy.ALL, consume=Consume.NONE, limit=None)
    members = oracle.evaluate(free, events, **options)
    wanted = {key: value for key, value in options.items() if key in ("time", "stream")}
    rank = {row: i for i, row in enumerate(oracle.order_rows(pattern, events, **wanted))}
    missing: list[str] = []
    surplus = [str(each) for each in sorted(found - set(map(comparable, members)))]
    used: dict[tuple[Any, ...], int] = {}
    for end in sorted({m.end for m in members}, key=rank.__getitem__):
        here = [m for m in members if m.end == end]
        partition = here[0].partition if pattern.consume is Consume.PARTITION else ()
        last_used = used.get(partition, -1)
        every = set(map(comparable, here))
        usable = {comparable(m) for m in here if rank[m.start] > last_used}
        given = {each for each in found if each.end == end}
        surplus += [f"{each}  (used up)" for each in sorted(given - usable & every)]
        if len(given) > 1:
            surplus.append(f"{len(given)} matches that end at {end}, where one is asked for")
        if not given and usable == every:
            missing.append(f"a match that ends at {end}, for example {min(usable)}")
        if given and pattern.consume is not Consume.NONE:
            used[partition] = rank[end]
    return missing, surplus


# ---------------------------------------------------------------- printing


def describe_case(pattern: Pattern, events: Sequence[Event]) -> str:
    """Describe the query by its text and the events by a table."""
    return f"the answer differs from the oracle's\n{pattern}\n\n{write_table(events)}\n"


def write_table(events: Sequence[Event]) -> str:
    """Write the events, one a line, with their row numbers; a dot where a key is missing.

    >>> print(write_table([{"type": "A", "price": 3}, {"type": "B", "name": "x"}]))
    row  type  price  name
    0    'A'   3      .
    1    'B'   .      'x'
    """
    names = list(dict.fromkeys(name for event in events for name in event))
    rows = [["row", *names]]
    for row, event in enumerate(events):
        rows.append([str(row), *(repr(event[n]) if n in event else "." for n in names)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in rows
    )
