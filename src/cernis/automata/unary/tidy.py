"""Clean-up passes over a CEA: each a function CEA → CEA, applied in the order of `PASSES`.

Cost contract: every pass is linear in the automaton and never makes it larger.
Full removal of ε-moves was rejected: it is quadratic, and the determinizer follows
them once per state anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from cernis.automata.unary.cea import CEA, Fork, Scope


def tidy(cea: CEA) -> CEA:
    """Return the automaton after all passes."""
    for one_pass in PASSES:
        cea = one_pass(cea)
    return cea


def follow_single_moves(cea: CEA) -> CEA:
    """Replace a state that only passes on to one other state (in the same scopes) by that state."""
    alias = list(range(cea.size))
    for state in range(cea.size):
        moves = cea.silent[state]
        if (
            not cea.reads[state]
            and len(moves) == 1
            and moves[0] != state
            and state not in cea.forks
            and cea.scopes_of[state] == cea.scopes_of[moves[0]]
        ):
            alias[state] = moves[0]
    for state in range(cea.size):
        seen = {state}
        target = state
        while alias[target] != target and alias[target] not in seen:
            target = alias[target]
            seen.add(target)
        for passed in seen:
            alias[passed] = target
    return _redirect(cea, alias)


def absorb_only_children(cea: CEA) -> CEA:
    """Merge a state that is entered by one ε-move only into the state before it."""
    entered = [0] * cea.size
    for state in range(cea.size):
        for move in cea.silent[state]:
            entered[move] += 1
        for read in cea.reads[state]:
            entered[read.target] += 2
    for state in _find_referenced(cea):
        entered[state] += 2
    reads = [list(r) for r in cea.reads]
    silent = [list(s) for s in cea.silent]
    for state in range(cea.size):
        pending = list(silent[state])
        kept: list[int] = []
        while pending:
            move = pending.pop(0)
            mergeable = (
                entered[move] == 1
                and move != state
                and move not in cea.forks
                and cea.scopes_of[move] == cea.scopes_of[state]
                and state not in cea.forks
            )
            if mergeable:
                reads[state].extend(reads[move])
                pending.extend(silent[move])
                reads[move], silent[move] = [], []
                entered[move] = 0
            else:
                kept.append(move)
        silent[state] = list(dict.fromkeys(kept))
    return replace(
        cea,
        reads=tuple(tuple(dict.fromkeys(r)) for r in reads),
        silent=tuple(tuple(s) for s in silent),
    )


def drop_useless_states(cea: CEA) -> CEA:
    """Keep the states that the start reaches and that reach the end."""
    forward = [list(cea.silent[s]) + [r.target for r in cea.reads[s]] for s in range(cea.size)]
    for state, fork in cea.forks.items():
        forward[state] += [entry for entry, _ in fork.parts]
        for _, exit_ in fork.parts:
            forward[exit_].append(fork.target)
    guards_of = [[cea.scopes[s].entry for s in cea.scopes_of[state]] for state in range(cea.size)]
    reached = find_reachable([cea.initial], lambda state: forward[state] + guards_of[state])
    backward: list[list[int]] = [[] for _ in range(cea.size)]
    for state, targets in enumerate(forward):
        for target in targets:
            backward[target].append(state)
    ends = [cea.final, *(scope.exit for scope in cea.scopes)]
    useful = reached & find_reachable(ends, backward.__getitem__)
    useful |= {cea.initial, cea.final, *_find_referenced(cea)}
    return _keep_states(cea, useful)


def renumber(cea: CEA) -> CEA:
    """Number the states as a reader meets them: breadth first, final last."""
    order: dict[int, None] = {cea.initial: None}
    queue = [cea.initial]
    while queue:
        state = queue.pop(0)
        following = [r.target for r in cea.reads[state]] + list(cea.silent[state])
        if state in cea.forks:
            following += [s for part in cea.forks[state].parts for s in part]
            following.append(cea.forks[state].target)
        following += [cea.scopes[scope].entry for scope in cea.scopes_of[state]]
        for target in following:
            if target not in order:
                order[target] = None
                queue.append(target)
    for state in range(cea.size):
        order.setdefault(state, None)
    order.pop(cea.final)
    order[cea.final] = None
    return _permute(cea, list(order))


PASSES: tuple[Callable[[CEA], CEA], ...] = (
    follow_single_moves,
    absorb_only_children,
    drop_useless_states,
    renumber,
)


# ---------------------------------------------------------------- surgery


def _find_referenced(cea: CEA) -> set[int]:
    """Return the states that something other than a transition refers to."""
    named = {cea.initial, cea.final}
    for scope in cea.scopes:
        named |= {scope.entry, scope.exit}
    for fork in cea.forks.values():
        named |= {state for part in fork.parts for state in part} | {fork.target}
    return named


def find_reachable(start: Iterable[int], following: Callable[[int], Iterable[int]]) -> set[int]:
    """Return the states of a graph that can be reached, those of the start among them."""
    seen = set(start)
    stack = list(seen)
    while stack:
        for target in following(stack.pop()):
            if target not in seen:
                seen.add(target)
                stack.append(target)
    return seen


def _redirect(cea: CEA, alias: list[int]) -> CEA:
    """Point at the alias of each state in place of the state; ends stay ends."""
    ends = cea.ends
    alias = [state if state in ends else target for state, target in enumerate(alias)]
    return replace(
        cea,
        initial=alias[cea.initial],
        reads=tuple(
            tuple(replace(read, target=alias[read.target]) for read in reads) for reads in cea.reads
        ),
        silent=tuple(tuple(dict.fromkeys(alias[move] for move in moves)) for moves in cea.silent),
        scopes=tuple(Scope(alias[s.entry], s.exit) for s in cea.scopes),
        forks={
            state: Fork(tuple((alias[a], b) for a, b in fork.parts), alias[fork.target])
            for state, fork in cea.forks.items()
        },
    )


def _keep_states(cea: CEA, useful: set[int]) -> CEA:
    kept = sorted(useful)
    reads = tuple(
        tuple(r for r in reads if r.target in useful) if state in useful else ()
        for state, reads in enumerate(cea.reads)
    )
    silent = tuple(
        tuple(m for m in moves if m in useful) if state in useful else ()
        for state, moves in enumerate(cea.silent)
    )
    forks = {state: fork for state, fork in cea.forks.items() if state in useful}
    return _permute(replace(cea, reads=reads, silent=silent, forks=forks), kept)


def _permute(cea: CEA, order: list[int]) -> CEA:
    """Return the automaton with only these states, numbered in this order."""
    number = {state: i for i, state in enumerate(order)}
    return CEA(
        initial=number[cea.initial],
        final=number[cea.final],
        reads=tuple(
            tuple(replace(r, target=number[r.target]) for r in cea.reads[s]) for s in order
        ),
        silent=tuple(tuple(number[m] for m in cea.silent[s]) for s in order),
        scopes_of=tuple(cea.scopes_of[s] for s in order),
        scopes=tuple(Scope(number[s.entry], number[s.exit]) for s in cea.scopes),
        forks={
            number[s]: Fork(tuple((number[a], number[b]) for a, b in j.parts), number[j.target])
            for s, j in cea.forks.items()
        },
    )
