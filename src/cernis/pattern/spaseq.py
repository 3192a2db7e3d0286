"""A SPAseQ query: graph patterns on named RDF streams, and the sequence that joins them.

The paper's (V, ω, SeqExp). A sequence is flat: steps one after the other, each with the
separator that stands before it, because each separator counts where it stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from cernis.errors import Span
from cernis.pattern.graph import GraphPattern, Triple

__all__ = [
    "Element",
    "Gpm",
    "GpmConjunction",
    "GpmDisjunction",
    "GpmName",
    "SelectedVariable",
    "Separator",
    "SequenceStep",
    "SpaseqQuery",
]

Separator = str
"""`,` the next timestamp of the streamset; `;` the first that fits; `:` any later one."""


@dataclass(frozen=True, slots=True)
class GpmName:
    """A graph pattern by its name."""

    gpm: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class GpmConjunction:
    """`A & B`: at the same timestamp, compatible."""

    parts: tuple[Element, ...]


@dataclass(frozen=True, slots=True)
class GpmDisjunction:
    """`A | B`"""

    parts: tuple[Element, ...]


Element = GpmName | GpmConjunction | GpmDisjunction


@dataclass(frozen=True, slots=True)
class SequenceStep:
    """One place of a sequence."""

    element: Element
    link: Separator | None
    """The separator before it; None for the first step."""
    rounds: Separator | None = None
    """`B+`: the separator between its rounds; None: one round."""
    optional: bool = False
    negated: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Gpm:
    """`DEFINE GPM name ON streams { pattern }`"""

    name: str
    streams: tuple[str, ...]
    pattern: GraphPattern
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SelectedVariable:
    """`?v`, or `LIST(?v)`: a value for each round; `name` is its name in the answer."""

    variable: str
    name: str
    listed: bool = False


@dataclass(frozen=True, slots=True)
class SpaseqQuery:
    """A query as it was written, names resolved and checked."""

    select: tuple[SelectedVariable, ...] | None
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
    construct: tuple[Triple, ...] | None = None
    source: str = field(default="", compare=False, repr=False)

    def gpm(self, name: str) -> Gpm:
        return next(gpm for gpm in self.gpms if gpm.name == name)

    def __str__(self) -> str:
        from cernis.pattern.write_spaseq import write_spaseq

        return write_spaseq(self)


def find_gpm_names(element: Element) -> Iterator[GpmName]:
    """The named patterns of an element, left to right.

    >>> both = GpmConjunction((GpmName("B"), GpmName("C")))
    >>> [leaf.gpm for leaf in find_gpm_names(GpmDisjunction((GpmName("A"), both)))]
    ['A', 'B', 'C']
    """
    if isinstance(element, GpmName):
        yield element
        return
    for part in element.parts:
        yield from find_gpm_names(part)
