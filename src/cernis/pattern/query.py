"""`Pattern`: a formula with its clauses. CEQL, conjunctive queries and the builder lower to it.

`str` of a pattern or of a clause is CEQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from math import ceil

from cernis.errors import Span
from cernis.pattern.formula import (
    All,
    Contiguous,
    Event,
    Formula,
    Iterate,
    Sequence,
    list_units,
    walk,
)
from cernis.pattern.formula import Unit as Unit
from cernis.pattern.formula import Window as Window
from cernis.pattern.predicate import Aggregate, Condition, MatchTerm, Value, span_field
from cernis.pattern.write import (
    write_condition,
    write_dotted,
    write_duration,
    write_formula,
    write_name,
    write_operand,
    write_schema,
    write_term,
    write_window,
)
from cernis.schema import Schema

ABSENCE_AFTER = "WITHOUT … FOR"


class Strategy(Enum):
    """Which of the valuations that end at one position (LONGEST: of all) are matches."""

    ALL = "ALL"
    STRICT = "STRICT"
    NEXT = "NEXT"
    LAST = "LAST"
    MAX = "MAX"
    ANY = "ANY"
    LONGEST = "LONGEST"


class Consume(Enum):
    """The events that a match uses up."""

    NONE = "NONE"
    ANY = "ANY"
    PARTITION = "PARTITION"


@dataclass(frozen=True, slots=True)
class Variable:
    """A selected variable, with the attributes to keep (none named: all)."""

    name: str
    attributes: tuple[str, ...] = ()
    span: Span | None = span_field()

    def __str__(self) -> str:
        name = write_name(self.name)
        if not self.attributes:
            return name
        return f"{name}[{', '.join(map(write_dotted, self.attributes))}]"


@dataclass(frozen=True, slots=True)
class SelectedTerm:
    """`term AS name`: a column with one value for each match."""

    term: MatchTerm
    alias: str | None = None
    span: Span | None = span_field()

    @property
    def name(self) -> str:
        """The name of the column: the alias, or the term as it is written.

        >>> from cernis.pattern.predicate import Aggregate
        >>> SelectedTerm(Aggregate("COUNT")).name
        'COUNT(*)'
        """
        return self.alias if self.alias is not None else write_term(self.term)

    def __str__(self) -> str:
        alias = "" if self.alias is None else f" AS {write_name(self.alias)}"
        return f"{write_term(self.term)}{alias}"


@dataclass(frozen=True, slots=True)
class Select:
    """`*` (everything), `NONE` (everything False, no items), or a list of items."""

    everything: bool = True
    items: tuple[Variable | SelectedTerm, ...] = ()
    span: Span | None = span_field()

    def __str__(self) -> str:
        return "*" if self.everything else ", ".join(map(str, self.items)) or "NONE"


@dataclass(frozen=True, slots=True)
class Grouping:
    """`GROUP BY`: aggregates go over all matches of a group.

    A group has one value in each of the `components` of the partition, and one interval `every`
    (nanoseconds) of the time of the end, with `of_start` of the start, or one end position (`end`).
    """

    components: tuple[str, ...] = ()
    every: Fraction | None = None
    end: bool = False
    having: Condition | None = None
    of_start: bool = False
    span: Span | None = span_field()

    @property
    def start_interval(self) -> int | None:
        """The nanoseconds of `EVERY … OF START`; None: groups do not look at starts."""
        return int(self.every) if self.of_start and self.every is not None else None

    def __str__(self) -> str:
        keys = [f"[{', '.join(map(write_dotted, name.split('|')))}]" for name in self.components]
        if self.every is not None:
            of = " OF START" if self.of_start else ""
            keys.append(f"EVERY {write_duration(self.every)}{of}")
        if self.end:
            keys.append("END")
        having = "" if self.having is None else f" HAVING {write_condition(self.having)}"
        return f"GROUP BY {', '.join(keys)}{having}"


@dataclass(frozen=True, slots=True)
class Absence:
    """`WITHOUT ψ FOR d`: no ψ follows within d; with `before`, none precedes (`BEFORE d`)."""

    formula: Formula
    within: Window
    """A duration or a number of events."""
    before: bool = False
    span: Span | None = span_field()

    def __str__(self) -> str:
        word = "BEFORE" if self.before else "FOR"
        return f"WITHOUT {write_operand(self.formula)} {word} {write_window(self.within)}"


class Overall(Enum):
    """The matches of a finite input that LIMIT counts together: all, or those of a partition."""

    INPUT = "OVERALL"
    PARTITION = "OVERALL PER PARTITION"


@dataclass(frozen=True, slots=True)
class OrderBy:
    """`ORDER BY term`: the matches of one end by the value of a term, the least first.

    With `descending` the greatest comes first. LIMIT keeps the first ones of each end; with `every`
    (nanoseconds) those of each interval of time and partition, with `overall` those of the input.
    """

    term: MatchTerm
    descending: bool = False
    every: Fraction | None = None
    overall: Overall | None = None
    span: Span | None = span_field()

    def __str__(self) -> str:
        return f"ORDER BY {write_term(self.term)}{' DESC' if self.descending else ''}"


@dataclass(frozen=True, slots=True)
class Suppression:
    """`SUPPRESS BY [a, …] FOR d`: a match silences those that follow it within d.

    `names` are components of the partition and columns of SELECT; matches with equal values
    silence each other. `length` counts nanoseconds.
    """

    names: tuple[str, ...]
    length: Fraction
    span: Span | None = span_field()

    def __str__(self) -> str:
        groups = [name.split("|") for name in self.names]
        if all(len(group) == 1 for group in groups):
            groups = [[*self.names]]
        by = ", ".join(f"[{', '.join(map(write_dotted, group))}]" for group in groups)
        return f"SUPPRESS BY {by} FOR {write_duration(self.length)}"


@dataclass(frozen=True, slots=True)
class TableJoin:
    """`JOIN t ON a = t.b`: each event of a stream gets the row of a table with equal keys.

    `keys` are pairs of an attribute and a column, both dotted where they are nested. Events
    without such a row are not in the stream, unless `outer` (`LEFT JOIN`) keeps them.
    """

    stream: str
    table: str
    keys: tuple[tuple[str, str], ...]
    outer: bool = False
    span: Span | None = span_field()

    def __str__(self) -> str:
        table = write_name(self.table)
        equals = (f"{write_dotted(a)} = {table}.{write_dotted(b)}" for a, b in self.keys)
        return f"{'LEFT ' if self.outer else ''}JOIN {table} ON {' AND '.join(equals)}"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A whole query. `str(pattern)` is CEQL, and parsing that gives the same pattern.

    >>> from cernis.pattern.formula import Sequence
    >>> print(Pattern(Sequence((Event("A"), Event("B"))), streams=("S",), limit=3))
    SELECT * FROM S WHERE A ; B LIMIT 3
    """

    formula: Formula
    select: Select = Select()
    strategy: Strategy = Strategy.ALL
    streams: tuple[str, ...] = ()
    partition: tuple[tuple[str, ...], ...] = ()
    within: Window | None = None
    grouping: Grouping | None = None
    consume: Consume = Consume.NONE
    order: OrderBy | None = None
    limit: int | None = None
    forget: Fraction | None = None
    """`FORGET AFTER`: the nanoseconds after which a partition without events is forgotten."""
    suppress: Suppression | None = None
    joins: tuple[TableJoin, ...] = ()
    """The tables that are joined to streams, in the order of the text."""
    without: tuple[Absence, ...] = ()
    """`WITHOUT … FOR` and `WITHOUT … BEFORE`, each at most once."""
    into: str | None = None
    """`INSERT INTO`: the stream of which each match is an event."""
    declared: Schema | None = None
    source: str = field(default="", compare=False, repr=False, kw_only=True)
    spans: Mapping[str, tuple[Span, ...]] = field(
        default_factory=dict, compare=False, repr=False, kw_only=True
    )
    """Where the plain names of `streams` and `partition` (flattened) and some clauses stand."""
    qualified: tuple[Event, ...] = field(default=(), compare=False, repr=False, kw_only=True)
    """Each variable of FILTER and SELECT that is written with its stream: `S>E[…]`."""
    calculated: Mapping[str, Value] = field(
        default_factory=dict, compare=False, repr=False, kw_only=True
    )
    """The values that PARTITION BY and ON name, by their names."""

    @property
    def components(self) -> list[str]:
        """The names of the partition's components: `a`, or `a|b` for alternatives."""
        return ["|".join(group) for group in self.partition]

    @property
    def absent_after(self) -> Absence | None:
        """`WITHOUT … FOR`: the formula that must not follow a match."""
        return next((one for one in self.without if not one.before), None)

    @property
    def absent_before(self) -> Absence | None:
        """`WITHOUT … BEFORE`: the formula that must not precede a match."""
        return next((one for one in self.without if one.before), None)

    @property
    def group_wait(self) -> int | None:
        """How many nanoseconds after its end an interval of GROUP BY may have matches.

        None: it may have some until the input ends, as no window in time bounds a match.
        """
        if self.grouping is None or not self.grouping.of_start:
            return 0
        is_timed = self.within is not None and self.within.unit is Unit.TIME
        return ceil(self.within.size) if self.within is not None and is_timed else None

    @property
    def suppresses_whole_keys(self) -> bool:
        """Whether SUPPRESS BY names every component: partitions do not silence each other."""
        named = () if self.suppress is None else self.suppress.names
        return {*self.components} <= {*named}

    @property
    def suppresses_by_key(self) -> bool:
        """Whether SUPPRESS BY names components of the partition alone."""
        return self.suppress is not None and {*self.suppress.names} <= {*self.components}

    @property
    def spreading_groups(self) -> tuple[tuple[str, ...], ...]:
        """The groups of PARTITION BY whose values may be told apart: SUPPRESS BY names them."""
        if self.suppress is None:
            return self.partition
        return tuple(group for group in self.partition if "|".join(group) in self.suppress.names)

    @property
    def ranks_intervals(self) -> bool:
        """Whether ORDER BY takes the best matches of an interval of time, not those of an end."""
        return self.order is not None and self.order.every is not None

    @property
    def waiting_clauses(self) -> tuple[str, ...]:
        """The clauses that hold back results until time has passed."""
        stands = {
            ABSENCE_AFTER: self.absent_after is not None,
            "LONGEST": self.strategy is Strategy.LONGEST,
            "LIMIT … EVERY": self.ranks_intervals,
            "GROUP BY EVERY": self.grouping is not None and self.grouping.every is not None,
        }
        return tuple(clause for clause, is_there in stands.items() if is_there)

    @property
    def ranks_overall(self) -> bool:
        """Whether ORDER BY takes the best matches of a finite input."""
        return self.order is not None and self.order.overall is not None

    @property
    def merges_best(self) -> bool:
        """Whether the best matches are among the best of any parts of the matches."""
        return self.order is not None and self.order.overall is Overall.INPUT

    @property
    def orders_by_deadline(self) -> bool:
        """Whether matches of different partitions reach their deadlines in another order than ends.

        So it is if deadlines count events; in time, each lies as long after its end.
        """
        after = self.absent_after
        return after is not None and after.within.unit is Unit.EVENTS and bool(self.partition)

    @property
    def is_free(self) -> bool:
        """Whether a match is one whatever other matches end before it or after it."""
        return (
            self.consume is Consume.NONE
            and self.strategy is not Strategy.LONGEST
            and self.suppress is None
            and not self.ranks_intervals
            and (self.merges_best or not self.ranks_overall)
        )

    @property
    def nodes(self) -> Iterator[Formula]:
        """The nodes of the formula, and of the formulas that must be absent."""
        formulas = (self.formula, *(one.formula for one in self.without))
        return (node for each in formulas for node in walk(each))

    @property
    def inner_units(self) -> frozenset[Unit]:
        """The units of the gaps, and of the WITHINs, inside the formulas."""
        return frozenset(unit for node in self.nodes for unit in list_units(node))

    @property
    def contiguous(self) -> bool:
        """Whether somewhere in a match no event may be skipped."""
        return self.strategy is Strategy.STRICT or any(
            isinstance(node, Contiguous) or (isinstance(node, Iterate) and node.contiguous)
            for node in walk(self.formula)
        )

    @property
    def skips(self) -> bool:
        """Whether a partial match may wait for its next event, whatever events come."""
        return any(map(_skips, walk(self.formula)))

    @property
    def waits_unbounded(self) -> bool:
        """Whether nothing bounds how long a match of LONGEST waits."""
        bounded = self.within is not None or self.forget is not None or not self.skips
        return self.strategy is Strategy.LONGEST and not bounded

    @property
    def keeps_idle(self) -> bool:
        """Whether a partition keeps its partial matches however long it has no event."""
        within = self.within
        timed = within is not None and (within.unit is Unit.TIME or within.plain)
        return bool(self.partition) and not timed and self.forget is None

    def __str__(self) -> str:
        strategy = "" if self.strategy is Strategy.ALL else f"{self.strategy.value} "
        clauses = [] if self.into is None else [f"INSERT INTO {write_name(self.into)}"]
        clauses.append(f"SELECT {strategy}{self.select}")
        if self.streams:
            clauses.append(f"FROM {', '.join(map(self._write_stream, self.streams))}")
        clauses.append(f"WHERE {write_formula(self.formula)}")
        clauses += map(str, self.without)
        if self.partition:
            groups = (f"[{', '.join(map(write_dotted, group))}]" for group in self.partition)
            clauses.append(f"PARTITION BY {', '.join(groups)}")
        if self.within is not None:
            clauses.append(f"WITHIN {write_window(self.within)}")
        if self.grouping is not None:
            clauses.append(str(self.grouping))
        if self.consume is not Consume.NONE:
            clauses.append(f"CONSUME BY {self.consume.value}")
        if self.order is not None:
            clauses.append(str(self.order))
        if self.limit is not None:
            clauses.append(f"LIMIT {self.limit}")
        if self.order is not None and self.order.every is not None:
            clauses.append(f"EVERY {write_duration(self.order.every)}")
        if self.order is not None and self.order.overall is not None:
            clauses.append(self.order.overall.value)
        if self.forget is not None:
            clauses.append(f"FORGET AFTER {write_duration(self.forget)}")
        if self.suppress is not None:
            clauses.append(str(self.suppress))
        query = " ".join(clauses)
        return query if self.declared is None else f"{write_schema(self.declared)}\n{query}"

    def _write_stream(self, name: str) -> str:
        joins = (str(join) for join in self.joins if join.stream == name)
        return " ".join([write_name(name), *joins])


def _skips(node: Formula) -> bool:
    """Whether nothing bounds what stands between two parts, or two rounds."""
    match node:
        case All():
            return True
        case Sequence(parts=parts):
            return any(node.separator_before(i).gap is None for i in range(1, len(parts)))
        case Iterate(contiguous=False, high=high, separator=separator):
            return high != 1 and separator.gap is None
        case _:
            return False


def counts_only(pattern: Pattern) -> bool:
    """Whether the query is a lone `SELECT COUNT(*)`."""
    return pattern.grouping is None and pattern.select.items == (SelectedTerm(Aggregate("COUNT")),)
