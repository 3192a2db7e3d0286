"""A SPAseQ query: graph patterns on named RDF streams, and the sequence that joins them.

The paper's (V, ω, SeqExp). A sequence is flat: steps one after the other, each with the
separator that stands before it, because each separator counts where it stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from cernis.errors import Span
from cernis.languages.spaseq.graphs.graph import (
    CallExpression,
    Expression,
    GraphPattern,
    TripleTemplate,
    find_mentions,
    list_children,
)
from cernis.languages.spaseq.graphs.write import (
    INDENT,
    write_expression,
    write_pattern_lines,
    write_template,
)
from cernis.pattern.write import write_duration

Separator = str
"""`,` the next timestamp of the streamset; `;` the first that fits; `:` any later one."""


@dataclass(frozen=True, slots=True)
class GpmName:
    """A graph pattern by its name."""

    gpm: str
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return self.gpm


@dataclass(frozen=True, slots=True)
class GpmConjunction:
    """`A & B`: at the same timestamp, compatible."""

    parts: tuple[Element, ...]

    def __str__(self) -> str:
        return " & ".join(
            f"({part})" if isinstance(part, GpmDisjunction) else str(part) for part in self.parts
        )


@dataclass(frozen=True, slots=True)
class GpmDisjunction:
    """`A | B`

    >>> a, b, c = map(GpmName, "ABC")
    >>> str(GpmConjunction((a, GpmDisjunction((b, c)))))
    'A & (B | C)'
    """

    parts: tuple[Element, ...]

    def __str__(self) -> str:
        return " | ".join(map(str, self.parts))


Element = GpmName | GpmConjunction | GpmDisjunction


@dataclass(frozen=True, slots=True)
class SequenceStep:
    """One step of a sequence."""

    element: Element
    link: Separator | None
    """The separator before it; None for the first step."""
    rounds: Separator | None = None
    """`B+`: the separator between its rounds; None: one round."""
    optional: bool = False
    negated: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)

    def write(self, usual: Separator) -> str:
        """Write the step without the separator before it; `usual` between rounds goes unsaid."""
        if self.rounds is None and not self.optional and not self.negated:
            return str(self.element)
        name = isinstance(self.element, GpmName)
        element = str(self.element) if name else f"({self.element})"
        if self.rounds is not None:
            return f"{element}+" if self.rounds == usual else f"{element}+{self.rounds}"
        return f"{element}{'?' if self.optional else '!'}"


@dataclass(frozen=True, slots=True)
class Gpm:
    """`DEFINE GPM name ON streams { pattern }`"""

    name: str
    streams: tuple[str, ...]
    pattern: GraphPattern
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        lines = (INDENT + line for line in write_pattern_lines(self.pattern, self.name))
        head = f"DEFINE GPM {self.name} ON {', '.join(self.streams)} {{"
        return "\n".join([head, *lines, "}"])


@dataclass(frozen=True, slots=True)
class SelectedVariable:
    """`?v`, or `LIST(?v)`: a value for each round; `name` is its name in the answer."""

    variable: str
    name: str
    listed: bool = False

    def __str__(self) -> str:
        value = f"LIST(?{self.variable})" if self.listed else f"?{self.variable}"
        return value if self.name == self.variable else f"({value} AS ?{self.name})"

    @property
    def last_values(self) -> set[str]:
        """The variables whose last value tells matches apart."""
        return set() if self.listed else {self.variable}

    @property
    def all_values(self) -> set[str]:
        """The variables of which all values do."""
        return {self.variable} if self.listed else set()


_OF_ALL_VALUES = ("COUNT", "SUM", "AVG", "MIN", "MAX")
AGGREGATES = (*_OF_ALL_VALUES, *(f"{name} DISTINCT" for name in _OF_ALL_VALUES))
"""The names of aggregates; `COUNT DISTINCT` is that of `COUNT(DISTINCT ?x)`."""


def find_aggregates(expression: Expression) -> Iterator[CallExpression]:
    """Yield the aggregates of an expression of SELECT."""
    if isinstance(expression, CallExpression) and expression.name in AGGREGATES:
        yield expression
        return
    for child in list_children(expression):
        assert isinstance(child, Expression)
        yield from find_aggregates(child)


@dataclass(frozen=True, slots=True)
class SelectedExpression:
    """`(expression AS ?name)`: aggregates in it go over all values of a variable.

    Its variables are selected, though not shown: they tell matches apart.
    """

    expression: Expression
    name: str

    def __str__(self) -> str:
        return f"({write_expression(self.expression)} AS ?{self.name})"

    @property
    def last_values(self) -> set[str]:
        """The variables whose last value tells matches apart."""
        return _find_last_values(self.expression)

    @property
    def all_values(self) -> set[str]:
        """The variables of which all values do."""
        calls = find_aggregates(self.expression)
        return {variable.name for call in calls for variable in find_mentions(call)}


def _find_last_values(expression: Expression) -> set[str]:
    """Return the variables that an expression mentions outside of aggregates."""
    if isinstance(expression, CallExpression) and expression.name in AGGREGATES:
        return set()
    children = [child for child in list_children(expression) if isinstance(child, Expression)]
    if children:
        return set().union(*map(_find_last_values, children))
    return {variable.name for variable in find_mentions(expression)}


@dataclass(frozen=True, slots=True)
class SpaseqQuery:
    """A query with its names resolved and checked.

    `str(query)` is SPAseQ, and parsing that gives the same query.
    """

    select: tuple[SelectedVariable | SelectedExpression, ...] | None
    """None: `*`, every variable of a step that is not negated, blank nodes left out."""
    streams: tuple[tuple[str, str], ...]
    """Name and IRI (without brackets), in the order of FROM STREAM."""
    gpms: tuple[Gpm, ...]
    steps: tuple[SequenceStep, ...]
    within: int | None = None
    """Nanoseconds; last time − first time is at most this."""
    tumbling_from: int | str | None = None
    """Half-open windows of that length from here on: ticks as a number, or a dateTime as text."""
    partition: tuple[str, ...] = ()
    construct: tuple[TripleTemplate, ...] | None = None
    distinct: bool = False
    """Whether matches that end at one time and show the same values are one answer."""
    source: str = field(default="", compare=False, repr=False)

    def gpm(self, name: str) -> Gpm:
        return next(gpm for gpm in self.gpms if gpm.name == name)

    def __str__(self) -> str:
        lines = [self._write_form()]
        if self.within is not None:
            window = write_duration(Fraction(self.within))
            lines.append(f"WITHIN {window}{self._write_tumbling()}")
        lines += (f"FROM STREAM {name} <{iri}>" for name, iri in self.streams)
        if self.partition:
            lines.append(f"PARTITION BY ({' '.join(f'?{name}' for name in self.partition)})")
        members = [f"SEQ ({self._write_steps()})", *map(str, self.gpms)]
        inside = (INDENT + line for member in members for line in member.split("\n"))
        return "\n".join([*lines, "WHERE {", *inside, "}"])

    def _write_form(self) -> str:
        if self.construct is not None:
            triples = (INDENT + write_template(triple) for triple in self.construct)
            return "\n".join(["CONSTRUCT {", *triples, "}"])
        form = "SELECT DISTINCT" if self.distinct else "SELECT"
        return f"{form} {'*' if self.select is None else ' '.join(map(str, self.select))}"

    def _write_tumbling(self) -> str:
        start = self.tumbling_from
        if start is None:
            return ""
        return f" TUMBLING FROM {start}" if isinstance(start, int) else f' TUMBLING FROM "{start}"'

    def _write_steps(self) -> str:
        usual = ";" if len(self.steps) == 1 else ","
        return "".join(
            f"{'' if step.link is None else f' {step.link} '}{step.write(usual)}"
            for step in self.steps
        )


def find_gpm_names(element: Element) -> Iterator[GpmName]:
    """Return the names in an element, left to right.

    >>> both = GpmConjunction((GpmName("B"), GpmName("C")))
    >>> [leaf.gpm for leaf in find_gpm_names(GpmDisjunction((GpmName("A"), both)))]
    ['A', 'B', 'C']
    """
    if isinstance(element, GpmName):
        yield element
        return
    for part in element.parts:
        yield from find_gpm_names(part)
