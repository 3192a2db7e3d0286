"""Warnings about the graphs of a run: what makes an answer empty or odd without an error.

The twin of `cernis.run.advice` for SPAseQ: predicates that a graph pattern needs and no event has,
graph patterns that every match needs and no event satisfies, times in another unit, streams of
which most was left out.

Cost: a look for each predicate and each pattern that no event has had so far, per batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from cernis.errors import Diagnostic
from cernis.events.odd_times import TimeSpan, find_odd_times
from cernis.events.times import UNITS
from cernis.languages.spaseq import query as q
from cernis.languages.spaseq.graphs import graph as g
from cernis.pattern.suggest import did_you_mean
from cernis.rdf.reading.events import GraphEvents
from cernis.rdf.reading.terms import Terms
from cernis.rdf.solving.solutions import Solutions

_SHOWN = 5


class GraphSights:
    """What the graphs of a run are like, as far as they were read."""

    def __init__(self, query: q.SpaseqQuery) -> None:
        self._query = query
        gpms = {gpm.name: gpm for gpm in query.gpms}
        used = [gpms[name] for name in dict.fromkeys(_list_names(query)) if name in gpms]
        self._unseen = {
            gpm.name: {term.text: term for term in _list_predicates(gpm.pattern)} for gpm in used
        }
        self._unsolved = {name for name in _list_needed(query) if name in gpms}
        self._others: list[str] = []
        """Predicates of the first events, for suggestions."""
        self._span: TimeSpan | None = None
        self._events = 0

    def add(self, events: GraphEvents, found: Mapping[str, Solutions], terms: Terms) -> None:
        """Look at a batch of events and the solutions in it."""
        if not events.size:
            return
        first = int(events.times[0]) if self._span is None else self._span.first
        self._span, self._events = (
            TimeSpan(first, int(events.times[-1])),
            self._events + events.size,
        )
        self._unsolved -= {name for name, rows in found.items() if len(rows.event)}
        wanted = {text for texts in self._unseen.values() for text in texts}
        if not wanted:
            return
        if not self._others:
            self._others = terms.texts(np.unique(events.p)).to_pylist()
        seen = {text for text in wanted if (events.p == terms.find(text)).any()}
        for texts in self._unseen.values():
            for text in seen.intersection(texts):
                del texts[text]

    def warn(self, skipped: Mapping[str, int], unit: str | None) -> Iterator[Diagnostic]:
        """Yield the warnings; `unit` is the unit of numeric times, None where times are dates."""
        if self._span is not None and unit is not None:
            odd = find_odd_times(self._span, UNITS[unit], "the time of an event")
            if odd is not None:
                yield odd
        number = sum(skipped.values())
        if number > self._events and number > 1:
            read = "1 event was" if self._events == 1 else f"{self._events:,} events were"
            yield Diagnostic(
                f"{number:,} lines or events were left out, and {read} read",
                suggestion='--on-error fail (on_error="fail") says what is wrong with the first',
                code="most-skipped",
            )
        if self._events:
            yield from self._find_absent()

    def _find_absent(self) -> Iterator[Diagnostic]:
        absent = {text: term for texts in self._unseen.values() for text, term in texts.items()}
        for text, term in absent.items():
            suggestion = did_you_mean(text, self._others)
            if suggestion is None and self._others:
                more = ", …" if len(self._others) > _SHOWN else ""
                known = ", ".join(sorted(self._others)[:_SHOWN])
                suggestion = f"the predicates of events are {known}{more}"
            yield Diagnostic(
                f"no event has the predicate {text}",
                term.span if self._query.source else None,
                suggestion=suggestion,
                code="absent-type",
            )
        for gpm in self._query.gpms:
            if gpm.name in self._unsolved and not self._unseen.get(gpm.name):
                yield Diagnostic(
                    f"nothing can match: no event satisfies the graph pattern {gpm.name}",
                    gpm.span if self._query.source else None,
                    code="unmet-condition",
                )


def _list_names(query: q.SpaseqQuery) -> Iterator[str]:
    """Yield the names of the graph patterns in the sequence."""
    elements: list[q.Element] = [step.element for step in query.steps if not step.negated]
    while elements:
        element = elements.pop(0)
        if isinstance(element, q.GpmName):
            yield element.gpm
        else:
            elements.extend(element.parts)


def _list_needed(query: q.SpaseqQuery) -> Iterator[str]:
    """Yield the names of the graph patterns that every match needs."""
    for step in query.steps:
        parts = [] if step.negated or step.optional else [step.element]
        while parts:
            element = parts.pop()
            if isinstance(element, q.GpmName):
                yield element.gpm
            elif isinstance(element, q.GpmConjunction):
                parts.extend(element.parts)


def _list_predicates(pattern: g.GraphPattern) -> Iterator[g.Term]:
    """Yield the predicates that an event with a solution has."""
    match pattern:
        case g.BasicPattern(triples=triples):
            for triple in triples:
                if isinstance(triple.predicate, g.Term):
                    yield triple.predicate
        case g.JoinPattern(parts=parts):
            for part in parts:
                yield from _list_predicates(part)
        case (
            g.OptionalPattern(pattern=inner)
            | g.FilterPattern(pattern=inner)
            | g.BindPattern(pattern=inner)
            | g.MinusPattern(pattern=inner)
        ):
            yield from _list_predicates(inner)
