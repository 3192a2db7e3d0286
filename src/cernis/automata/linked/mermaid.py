"""Automata of links as Mermaid diagrams."""

from __future__ import annotations

from cernis.automata.linked.automaton import LinkedAutomaton


def draw_linked(linked: LinkedAutomaton) -> str:
    """Return the automaton as a Mermaid state diagram."""
    lines = ["stateDiagram-v2"]
    for t in linked.transitions:
        source, link = "[*]", ""
        if t.store is not None:
            store = linked.stores[t.store]
            source, link = f"q{store.state}", f"{store.link} "
        one = linked.alternatives[linked.readings[t.reading].alternative]
        lines.append(f"    {source} --> q{t.target} : {link}{' & '.join(one.gpms)}")
        if t.final:
            lines.append(f"    q{t.target} --> [*]")
    return "\n".join(dict.fromkeys(lines))
