"""Parallelized complex event automata as Mermaid diagrams."""

from __future__ import annotations

from cernis.automata.correlated.pcea import ANY_LINK, PCEA
from cernis.automata.unary.mermaid import escape


def draw_pcea(pcea: PCEA) -> str:
    """Return a PCEA as a Mermaid state diagram; a transition of several sources is a join."""
    lines = ["stateDiagram-v2", "  direction LR"]
    lines += [f"  s{state} : {escape(name)}" for state, name in enumerate(pcea.names)]
    for i, transition in enumerate(pcea.transitions):
        reads = transition.reads
        if not transition.sources:
            lines.append(f"  [*] --> s{transition.target} : {escape(reads)}")
        elif len(transition.sources) == 1:
            (source,) = transition.sources
            label = reads if source.link == ANY_LINK else f"{reads} where {source.link}"
            lines.append(f"  s{source.state} --> s{transition.target} : {escape(label)}")
        else:
            lines.append(f"  state j{i} <<join>>")
            for source in transition.sources:
                label = "" if source.link == ANY_LINK else f" : {escape(str(source.link))}"
                lines.append(f"  s{source.state} --> j{i}{label}")
            lines.append(f"  j{i} --> s{transition.target} : {escape(reads)}")
    for final, source in pcea.guards:
        label = "unless" if source.link == ANY_LINK else f"unless {source.link}"
        lines.append(f"  s{source.state} --> s{final} : {escape(label)}")
    for taker, source in pcea.removals:
        pairs = " and ".join(f"{a} = {b}" for a, b in source.link.equal)
        label = f"takes out where {pairs}" if pairs else "takes out"
        lines.append(f"  s{taker} --> s{source.state} : {escape(label)}")
    lines += [f"  s{state} --> [*]" for state in sorted(pcea.finals)]
    return "\n".join(lines)
