"""Complex event automata as Mermaid diagrams."""

from __future__ import annotations

from cernis.automata.unary.cea import CEA


def draw_cea(cea: CEA) -> str:
    """Return the automaton as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", "  direction LR", f"  [*] --> s{cea.initial}"]
    for state in range(cea.size):
        for read in cea.reads[state]:
            lines.append(f"  s{state} --> s{read.target} : {escape(str(read))}")
        lines += [f"  s{state} --> s{move} : ε" for move in cea.silent[state]]
        if state in cea.forks:
            fork = cea.forks[state]
            for entry, exit_ in fork.parts:
                lines.append(f"  s{state} --> s{entry} : all")
                lines.append(f"  s{exit_} --> s{fork.target} : all done")
    for i, scope in enumerate(cea.scopes):
        inside = [s for s in range(cea.size) if i in cea.scopes_of[s]]
        if inside:
            lines.append(f"  note right of s{inside[0]} : unless s{scope.entry} … s{scope.exit}")
    lines.append(f"  s{cea.final} --> [*]")
    return "\n".join(lines)


def escape(text: str) -> str:
    """Return a label that Mermaid shows as the text."""
    return text.replace(":", "#58;").replace(";", "#59;").replace("\n", " ")
