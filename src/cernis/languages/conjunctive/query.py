"""Conjunctive queries: `Q(x, y) <- T(a: x), S(a: x, b: y), t1 < t2 WITHIN 10 EVENTS`.

A query as plain frozen trees. Arguments have the names of attributes, whichever way they
were written; `_` and arguments left out are not there. A match gives each atom one event,
such that a variable has one value wherever it occurs. `str(query)` is a text that parses
to the same query, needing no schema. Spans do not take part in equality.

The *head* lists variables. A query is *full* when it lists all of them: then its answers
are its matches; otherwise they are the distinct tuples of the head.

>>> x = ConjunctiveVariable("x")
>>> t, s = (Atom(name, ((Attribute(("a",)), x),)) for name in ("T", "S"))
>>> print(ConjunctiveQuery(("x",), (t, s)))
Q(x) <- T(a: x), S(a: x)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from cernis.errors import Span
from cernis.pattern import predicate as pred
from cernis.pattern.predicate import MIRRORED, Attribute, Literal, Operator, attributes_of
from cernis.pattern.query import Window
from cernis.pattern.write import write_duration, write_name, write_schema, write_value, write_window
from cernis.schema import Schema


@dataclass(frozen=True, slots=True)
class ConjunctiveVariable:
    name: str
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)

    def __str__(self) -> str:
        return write_name(self.name)


Argument = ConjunctiveVariable | Literal

_MOST_REPEATED = 32


@dataclass(frozen=True, slots=True)
class Difference:
    """`t2 - t1`, of two timestamps."""

    left: ConjunctiveVariable
    right: ConjunctiveVariable
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)

    def __str__(self) -> str:
        return f"{self.left} - {self.right}"


@dataclass(frozen=True, slots=True)
class Duration:
    """`5 SECONDS`."""

    nanoseconds: Fraction
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)

    def __str__(self) -> str:
        return write_duration(self.nanoseconds)


@dataclass(frozen=True, slots=True)
class Computed:
    """A function of variables, which are the attributes of its value."""

    value: pred.Value
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)

    @property
    def variables(self) -> tuple[ConjunctiveVariable, ...]:
        found = (ConjunctiveVariable(a.path[0], span=a.span) for a in attributes_of(self.value))
        return tuple(dict.fromkeys(found))

    def __str__(self) -> str:
        return write_value(self.value)


Side = ConjunctiveVariable | Literal | Difference | Duration | Computed


def _write_side(side: Side) -> str:
    return write_value(side) if isinstance(side, Literal) else str(side)


@dataclass(frozen=True, slots=True)
class ConjunctiveComparison:
    """`left op right`; a chain is several of them."""

    op: Operator
    left: Side
    right: Side
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)

    def __str__(self) -> str:
        return f"{_write_side(self.left)} {self.op} {_write_side(self.right)}"


@dataclass(frozen=True, slots=True)
class Atom:
    """`stream>relation(attribute: term, …)@time`: one event of that type."""

    relation: str
    arguments: tuple[tuple[Attribute, Argument], ...] = ()
    stream: str | None = None
    time: str | None = None
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)

    @property
    def columns(self) -> dict[str, Attribute]:
        """Each variable, with the first attribute that it stands for."""
        found: dict[str, Attribute] = {}
        for attribute, term in self.arguments:
            if isinstance(term, ConjunctiveVariable):
                found.setdefault(term.name, attribute)
        return found

    @property
    def short(self) -> str:
        """The atom without the names of its attributes, as messages show it."""
        return self._write(_write_side(term) for _, term in self.arguments)

    def __str__(self) -> str:
        return self._write(
            f"{write_value(attribute)}: {_write_side(term)}" for attribute, term in self.arguments
        )

    def _write(self, arguments: Iterable[str]) -> str:
        inside = ", ".join(arguments)
        stream = "" if self.stream is None else f"{write_name(self.stream)}>"
        time = "" if self.time is None else f"@{write_name(self.time)}"
        return f"{stream}{write_name(self.relation)}({inside}){time}"


@dataclass(frozen=True)
class ConjunctiveQuery:
    """A whole query; `source` is the text that it was read from."""

    head: tuple[str, ...]
    atoms: tuple[Atom, ...]
    comparisons: tuple[ConjunctiveComparison, ...] = ()
    within: Window | None = None
    declared: Schema | None = None
    name: str = "Q"
    source: str = field(default="", compare=False, repr=False, kw_only=True)

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """Every variable of the body, timestamps included, in order of appearance."""
        found: dict[str, None] = {}
        for atom in self.atoms:
            found.update(dict.fromkeys(atom.columns))
            if atom.time is not None:
                found[atom.time] = None
        return tuple(found)

    @cached_property
    def holders(self) -> dict[str, tuple[int, ...]]:
        """For each variable of the data, the atoms that have it."""
        found: dict[str, list[int]] = {}
        for index, columns in enumerate(self.columns):
            for name in columns:
                found.setdefault(name, []).append(index)
        return {name: tuple(indices) for name, indices in found.items()}

    @cached_property
    def columns(self) -> tuple[dict[str, Attribute], ...]:
        """For each atom, the attributes of its variables."""
        return tuple(atom.columns for atom in self.atoms)

    @cached_property
    def timestamps(self) -> dict[str, tuple[int, ...]]:
        """For each timestamp, the atoms that have it."""
        found: dict[str, list[int]] = {}
        for index, atom in enumerate(self.atoms):
            if atom.time is not None:
                found.setdefault(atom.time, []).append(index)
        return {name: tuple(indices) for name, indices in found.items()}

    @property
    def full(self) -> bool:
        """Whether the head keeps every variable, so that each match is an answer."""
        return set(self.variables) <= set(self.head)

    def __str__(self) -> str:
        head = f"{write_name(self.name)}({', '.join(map(write_name, self.head))})"
        text = f"{head} <- {', '.join(map(str, (*self.atoms, *self.comparisons)))}"
        if self.within is not None:
            text += f" WITHIN {write_window(self.within)}"
        if self.declared is not None:
            text = f"{write_schema(self.declared)}\n{text}"
        return text


# --------------------------------------------------------------- single events


def find_single_event_tests(
    query: ConjunctiveQuery,
) -> tuple[tuple[tuple[pred.Predicate, ...], ...], tuple[ConjunctiveComparison, ...]]:
    """Return the tests of each atom's event alone, and the comparisons left over.

    Tests come from constants, from variables that stand twice in one atom, from comparisons of
    two variables of one atom, and from comparisons of a variable with a constant. The last are
    asked of each atom that has the variable, so that events are dropped early.

    >>> x, a, b = ConjunctiveVariable("x"), Attribute(("a",)), Attribute(("b",))
    >>> query = ConjunctiveQuery(("x",), (Atom("T", ((a, x), (b, x))),))
    >>> tests, rest = find_single_event_tests(query)
    >>> [(test.left.name, test.op, test.right.name) for test in tests[0]], rest
    ([('a', '=', 'b')], ())
    """
    found = [_find_own_tests(atom) for atom in query.atoms]
    rest: list[ConjunctiveComparison] = []
    for node in query.comparisons:
        decided = list(_find_deciders(query, node))
        for index, test in decided:
            found[index].append(test)
        if not decided:
            rest.append(node)
    return tuple(map(tuple, found)), tuple(rest)


def _find_own_tests(atom: Atom) -> list[pred.Predicate]:
    first = atom.columns
    found: list[pred.Predicate] = []
    for attribute, term in atom.arguments:
        if isinstance(term, Literal):
            found.append(pred.Comparison("=", attribute, term, span=term.span))
        elif first[term.name] != attribute:
            found.append(pred.Comparison("=", first[term.name], attribute, span=term.span))
    return found


def _find_deciders(
    query: ConjunctiveQuery, node: ConjunctiveComparison
) -> Iterable[tuple[int, pred.Predicate]]:
    """Yield the atoms whose event alone decides a comparison, each with the test."""
    match node:
        case ConjunctiveComparison(
            op=op, left=ConjunctiveVariable(name=name), right=Literal() as constant
        ):
            pass
        case ConjunctiveComparison(
            op=op, left=Literal() as constant, right=ConjunctiveVariable(name=name)
        ):
            op = MIRRORED[op]
        case ConjunctiveComparison(
            op=op, left=ConjunctiveVariable(name=one), right=ConjunctiveVariable(name=other)
        ):
            both = set(query.holders.get(one, ())) & set(query.holders.get(other, ()))
            for index in sorted(both)[:1]:
                columns = query.columns[index]
                yield index, pred.Comparison(op, columns[one], columns[other], span=node.span)
            return
        case _:
            return
    for index in query.holders.get(name, ())[:_MOST_REPEATED]:
        column = query.columns[index][name]
        yield index, pred.Comparison(op, column, constant, span=node.span)
