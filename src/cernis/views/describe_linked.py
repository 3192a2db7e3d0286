"""Describe automata of links for their views: the steps of a SPAseQ sequence in words."""

from __future__ import annotations

from dataclasses import dataclass

from cernis.automata.linked.automaton import LinkedAutomaton
from cernis.languages.spaseq.graphs.write import write_expression
from cernis.views.automaton import AutomatonView, DrawnEdge, DrawnState, lay_out

_LINKS = {",": "next", ";": "the first", ":": "any later"}


@dataclass(frozen=True, slots=True)
class DrawnLinked:
    """The view of an automaton of links: its states have their own numbers; the start follows."""

    view: AutomatonView
    edge_of: tuple[int, ...]
    """The edge of each transition; several may share one."""
    guard_of: tuple[int, ...]
    """The edge of each guard."""


def describe_linked(linked: LinkedAutomaton) -> DrawnLinked:
    """Return the view of an automaton of links."""
    finals = {t.target for t in linked.transitions if t.final}
    names = [name_step(linked, state.step) for state in linked.states]
    states = [DrawnState(f"after {name}", final=i in finals) for i, name in enumerate(names)]
    start = len(states)
    states.append(DrawnState("start", initial=True))
    edges: dict[DrawnEdge, int] = {}
    edge_of = []
    for transition in linked.transitions:
        source, words = start, ""
        if transition.store is not None:
            store = linked.stores[transition.store]
            source, words = store.state, f"{_LINKS[store.link]} "
        words += _say_reading(linked, transition.reading, transition.joins)
        edge = DrawnEdge(source, transition.target, words)
        edge_of.append(edges.setdefault(edge, len(edges)))
    guard_of = []
    for guard in linked.guards:
        store = linked.stores[guard.store]
        words = f"before {name_step(linked, store.step)}: "
        words += _say_reading(linked, guard.reading, guard.joins)
        edge = DrawnEdge(store.state, len(states), words, kind="guard")
        guard_of.append(edges.setdefault(edge, len(edges)))
        states.append(DrawnState("excluded", "guard"))
    return DrawnLinked(lay_out(states, [*edges]), tuple(edge_of), tuple(guard_of))


def name_step(linked: LinkedAutomaton, step: int) -> str:
    """Return the graph patterns of a step as people write them."""
    return " | ".join(" & ".join(one.gpms) for one in linked.alternatives if one.step == step)


def _say_reading(linked: LinkedAutomaton, reading: int, joins: tuple[str, ...]) -> str:
    """Return which graphs take an edge."""
    one = linked.alternatives[linked.readings[reading].alternative]
    said = " & ".join(one.gpms)
    conditions = [f"the same ?{name}" for name in joins]
    conditions += [write_expression(condition) for condition in linked.conditions(reading)]
    return f"{said} with {' and '.join(conditions)}" if conditions else said
