"""Automata as text (one transition a line, `>` start, `^` end) and as Mermaid diagrams.

> 0  A / A → 1          reads an A, the event joins variable A
  1  * / - → 1          any event may pass, unmarked
     ε → 2              moves on without reading
     all of 3…4, 5…6 → 7
  4  within scope 0

A PCEA is written by where its transitions lead:

  0 x  A / A,x          an A begins a run
^ 1 y  after 0 where a = b: B / B,y
       after 0 and 2: …  gathers a run from either
"""

from __future__ import annotations

from cernis.automata.correlated.pcea import ANY_LINK, PCEA, Source, Transition
from cernis.automata.unary.cea import ANYTHING, CEA, Both, Either, Is, Isnt, Test
from cernis.pattern.atom import TypeIs
from cernis.pattern.write import write_predicate


def test_text(test: Test) -> str:
    """A test as a reader would write it.

    >>> test_text(Isnt(Is(TypeIs("A"))))
    'not A'
    """
    match test:
        case Is(atom=atom):
            if isinstance(atom, TypeIs):
                return f"{atom.stream}>{atom.type}" if atom.stream else atom.type
            return f"[{write_predicate(atom)}]"
        case Isnt(body=body):
            text = test_text(body)
            return f"not {text}" if isinstance(body, Is) else f"not ({text})"
        case Both(parts=parts):
            if test == ANYTHING:
                return "*"
            return " ".join(
                f"({test_text(p)})" if isinstance(p, Either) else test_text(p) for p in parts
            )
        case Either(parts=parts):
            return " or ".join(test_text(p) for p in parts)


def as_text(cea: CEA) -> str:
    """One line per transition; see the module's head for how to read it."""
    lines: list[str] = []
    ends = {scope.exit for scope in cea.scopes}
    for state in range(cea.size):
        mark = ">" if state == cea.initial else "^" if state == cea.final else " "
        head = f"{mark} {state}"
        facts = [
            f"{test_text(read.test)} / {','.join(sorted(read.labels)) or '-'} → {read.target}"
            for read in cea.reads[state]
        ]
        facts += [f"ε → {move}" for move in cea.silent[state]]
        if state in cea.joins:
            join = cea.joins[state]
            parts = ", ".join(f"{a}…{b}" for a, b in join.parts)
            facts.append(f"all of {parts} → {join.target}")
        if cea.scopes_of[state]:
            facts.append("within scope " + ", ".join(map(str, cea.scopes_of[state])))
        if state in ends:
            facts.append("(end of a guard)")
        lines.append(f"{head}  {facts[0]}" if facts else head)
        lines += [f"{' ' * len(head)}  {fact}" for fact in facts[1:]]
    lines += [
        f"scope {i}: unless {scope.entry} … {scope.exit}" for i, scope in enumerate(cea.scopes)
    ]
    return "\n".join(lines)


def as_mermaid(cea: CEA) -> str:
    """The automaton as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", "  direction LR", f"  [*] --> s{cea.initial}"]
    for state in range(cea.size):
        for read in cea.reads[state]:
            label = f"{test_text(read.test)} / {','.join(sorted(read.labels)) or '-'}"
            lines.append(f"  s{state} --> s{read.target} : {_escape(label)}")
        lines += [f"  s{state} --> s{move} : ε" for move in cea.silent[state]]
        if state in cea.joins:
            join = cea.joins[state]
            for entry, exit_ in join.parts:
                lines.append(f"  s{state} --> s{entry} : all")
                lines.append(f"  s{exit_} --> s{join.target} : all done")
    for i, scope in enumerate(cea.scopes):
        inside = [s for s in range(cea.size) if i in cea.scopes_of[s]]
        if inside:
            lines.append(f"  note right of s{inside[0]} : unless s{scope.entry} … s{scope.exit}")
    lines.append(f"  s{cea.final} --> [*]")
    return "\n".join(lines)


def parallel_as_text(pcea: PCEA) -> str:
    """A PCEA by states, one transition a line; `after` names the runs that it gathers."""
    lines: list[str] = []
    for state, name in enumerate(pcea.names):
        head = f"{'^' if state in pcea.finals else ' '} {state} {name}"
        facts = [_transition_text(t) for t in pcea.transitions if t.target == state] or ["never"]
        lines.append(f"{head}  {facts[0]}")
        lines += [f"{' ' * len(head)}  {fact}" for fact in facts[1:]]
    return "\n".join(lines)


def _transition_text(transition: Transition) -> str:
    reads = f"{test_text(transition.test)} / {','.join(sorted(transition.labels)) or '-'}"
    if not transition.sources:
        return reads
    return f"after {' and '.join(map(_source_text, transition.sources))}: {reads}"


def _source_text(source: Source) -> str:
    return f"{source.state}" if source.link == ANY_LINK else f"{source.state} where {source.link}"


def parallel_as_mermaid(pcea: PCEA) -> str:
    """A PCEA as a Mermaid state diagram; a transition of several sources is a join."""
    lines = ["stateDiagram-v2", "  direction LR"]
    lines += [f"  s{state} : {_escape(name)}" for state, name in enumerate(pcea.names)]
    for i, transition in enumerate(pcea.transitions):
        reads = f"{test_text(transition.test)} / {','.join(sorted(transition.labels)) or '-'}"
        if not transition.sources:
            lines.append(f"  [*] --> s{transition.target} : {_escape(reads)}")
        elif len(transition.sources) == 1:
            (source,) = transition.sources
            label = reads if source.link == ANY_LINK else f"{reads} where {source.link}"
            lines.append(f"  s{source.state} --> s{transition.target} : {_escape(label)}")
        else:
            lines.append(f"  state j{i} <<join>>")
            for source in transition.sources:
                label = "" if source.link == ANY_LINK else f" : {_escape(str(source.link))}"
                lines.append(f"  s{source.state} --> j{i}{label}")
            lines.append(f"  j{i} --> s{transition.target} : {_escape(reads)}")
    lines += [f"  s{state} --> [*]" for state in sorted(pcea.finals)]
    return "\n".join(lines)


def _escape(text: str) -> str:
    return text.replace(":", "#58;").replace(";", "#59;").replace("\n", " ")
