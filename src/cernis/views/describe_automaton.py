"""Describe automata for their views: which states and edges people see, and their words.

`DrawnCea` and `DrawnPcea` also say which edge of the view a move of the automaton is, so that a
trace can count and name edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from cernis.automata.correlated.pcea import AFTER, PCEA, Link, RunSource
from cernis.automata.unary.cea import ANYTHING, CEA, Both, Either, Is, Isnt, Read, Test, find_atoms
from cernis.pattern.atom import TypeIs
from cernis.pattern.predicate import TIME
from cernis.pattern.write import write_dotted, write_gap, write_predicate
from cernis.views.automaton import AutomatonView, DrawnEdge, DrawnState, EdgeKind, lay_out

_FLIP = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


# --------------------------------------------------------------------- words


def say_test(test: Test) -> str:
    """Return a test in words.

    >>> say_test(Both((Is(TypeIs("A")), Isnt(Is(TypeIs("B"))))))
    'A and not B'
    """
    if test == ANYTHING:
        return "any event"
    match test:
        case Is(atom=TypeIs(type=kind, stream=stream)):
            return f"{kind} of {stream}" if stream else kind
        case Is(atom=predicate):
            return write_predicate(predicate) if not isinstance(predicate, TypeIs) else ""
        case Isnt(body=body):
            text = say_test(body)
            return f"not {text}" if isinstance(body, Is) else f"not ({text})"
        case Both(parts=parts):
            first, *rest = parts
            words = [f"({say_test(p)})" if isinstance(p, Either) else say_test(p) for p in rest]
            head = f"({say_test(first)})" if isinstance(first, Either) else say_test(first)
            is_type = isinstance(first, Is) and isinstance(first.atom, TypeIs)
            plain = all(isinstance(p, Is | Either) for p in rest)
            return f"{head}{' with ' if is_type and plain else ' and '}{' and '.join(words)}"
        case Either(parts=parts):
            return " or ".join(map(say_test, parts))


def say_link(link: Link, earlier: str) -> list[str]:
    """Return what must hold between the event read and the last one of a run, in words."""
    parts = [_say_pair(a, "=", b, earlier) for a, b in link.equal]
    parts += [_say_pair(a, "!=", b, earlier) for a, b in link.different]
    parts += [f"not {_say_pair(a, '=', b, earlier)}" for a, b in link.unlike]
    for order in link.ordered:
        if order == AFTER:
            parts.append(f"later than {earlier}")
        else:
            parts.append(_say_pair(order.earlier, _FLIP[order.op], order.later, earlier))
    return parts


def say_link_position(link: Link, earlier: str) -> list[str]:
    """Return in words where the event that is read must stand."""
    positions = [f"right after {earlier}"] if link.contiguous else []
    if link.gap is not None:
        positions.append(f"within [{write_gap(link.gap)}] of {earlier}")
    if link.since is not None:
        positions.append(f"within [{write_gap(link.since)}] of the start of its part")
    if link.arrow is not None:
        positions.append(f"the first that fits after {earlier}")
    return positions


def _say_pair(a: str, op: str, b: str, earlier: str) -> str:
    return f"{_say_attribute(b)} {op} {earlier}[{_say_attribute(a)}]"


def _say_attribute(name: str) -> str:
    if name == TIME.name:
        return "ts"
    return name if name.startswith("(") else write_dotted(name)


def _say_reading(pcea: PCEA, test: Test, sources: Sequence[RunSource]) -> str:
    """Return what an event must be to join runs from these sources."""
    said = say_test(test)
    compared: list[str] = []
    positions: list[str] = []
    for source in sources:
        earlier = _last_word(pcea.names[source.state])
        compared += say_link(source.link, earlier)
        positions += say_link_position(source.link, earlier)
    if compared:
        said += f"{' and ' if ' with ' in said else ' with '}{' and '.join(compared)}"
    return ", ".join([said, *positions])


def say_labels(labels: frozenset[str], test: Test, shown: frozenset[str]) -> str:
    """Return the variables of an edge: those that people named; nothing if the test says it."""
    types = {atom.type for atom in find_atoms(test) if isinstance(atom, TypeIs)}
    named = labels & shown or labels - types
    return ", ".join(sorted(named - types if named - types else frozenset()))


# --------------------------------------------------------------------- unary


@dataclass(frozen=True, slots=True)
class DrawnCea:
    """The view of a CEA; `state_of` and `edge_of` find its states and reads in the view."""

    view: AutomatonView
    cea: CEA
    state_of: dict[int, int]
    """The state of the view for states of the automaton in which runs arrive."""
    closures: frozenset[tuple[int, frozenset[int]]]
    """States of the view, each with states that a run there stands in, in all ways."""
    edge_of: dict[tuple[int, int, Read], int]
    """The edge of the view by its state there, and by a read of a state of the automaton."""

    @property
    def start(self) -> int:
        return self.state_of[self.cea.initial]

    def find_states(self, standing: frozenset[int]) -> list[int]:
        """Return the states of the view in which a run waits that stands in these states.

        Of two that fit, one that stands in more leaves out the other.
        """
        fit = [(state, own) for state, own in self.closures if own and own <= standing]
        return sorted({state for state, own in fit if not any(own < more for _, more in fit)})

    def find_edge(self, state: int, inner: int, read: Read) -> int | None:
        """Return the edge of a state of the view that is a read of a state inside of it."""
        found = self.edge_of.get((state, inner, read))
        if found is not None or self.view.states[state].kind != "fork":
            return found
        inside = (edge for (_, s, r), edge in self.edge_of.items() if (s, r) == (inner, read))
        return next(inside, None)


def describe_cea(cea: CEA, shown: frozenset[str]) -> DrawnCea:
    """Return the view of a CEA; `shown` are the variables that people named."""
    return _CeaDrawing(cea, shown).draw()


class _CeaDrawing:
    """States in which runs arrive (*entries*), those with the same moves as one.

    An entry *waits* in states that any event keeps as they are. It takes these over: it has a
    loop, and a move of its own that they do not have must come right after.
    """

    def __init__(self, cea: CEA, shown: frozenset[str]) -> None:
        self.cea, self.shown = cea, shown
        self.closure = [self._close(state) for state in range(cea.size)]
        self.waits = {s: self._find_waits(s) for s in range(cea.size)}
        self.entries = self._find_entries()
        self.last = self._find_last_labels()
        self.classes = self._merge()

    def _close(self, state: int) -> frozenset[int]:
        seen, stack = {state}, [state]
        while stack:
            for move in self.cea.silent[stack.pop()]:
                if move not in seen:
                    seen.add(move)
                    stack.append(move)
        cea = self.cea
        return frozenset(s for s in seen if cea.reads[s] or s in cea.ends or s in cea.forks)

    def _find_waits(self, state: int) -> frozenset[int]:
        """Return the states that an entry takes over, if it can."""
        waits = {read.target for read in self._all_moves(state) if _waits(read)}
        own = frozenset(read for read in self._all_moves(state) if not _waits(read))
        for wait in waits:
            moves = list(self._all_moves(wait))
            again = {read.target for read in moves if _waits(read)}
            if again != {wait} or not own.issuperset(r for r in moves if not _waits(r)):
                return frozenset()
        return frozenset(waits)

    def _all_moves(self, state: int) -> Iterator[Read]:
        for inner in sorted(self.closure[state]):
            yield from self.cea.reads[inner]

    def _moves(self, state: int) -> Iterator[Read]:
        """Return the moves of an entry, without those to states that it takes over."""
        return (read for _, read in self._find_inner_moves(state))

    def _find_inner_moves(self, state: int) -> Iterator[tuple[int, Read]]:
        """Return these moves, each with the state that it leaves."""
        taken = self.waits[state]
        for inner in sorted(self.closure[state]):
            for read in self.cea.reads[inner]:
                if not (_waits(read) and read.target in taken):
                    yield inner, read

    def _find_entries(self) -> list[int]:
        """Return the states in which runs arrive: by reading, or where a part or guard begins."""
        cea = self.cea
        found: dict[int, None] = {cea.initial: None}
        for scope in cea.scopes:
            found[scope.entry] = None
        for state, fork in cea.forks.items():
            found[state] = found[fork.target] = None
            found.update((entry, None) for entry, _ in fork.parts)
        stack = [*found]
        while stack:
            for read in self._moves(stack.pop()):
                if read.target not in found:
                    found[read.target] = None
                    stack.append(read.target)
        return sorted(found)

    def _find_last_labels(self) -> dict[int, frozenset[str]]:
        """Return, for each entry, the labels of the last event that is marked on the way to it."""
        last = {state: frozenset[str]() for state in self.entries}
        changed = True
        while changed:
            changed = False
            for state in self.entries:
                for read in self._moves(state):
                    own = _name_labels(read, self.shown)
                    more = last[read.target] | (own or last[state])
                    changed = changed or more != last[read.target]
                    last[read.target] = more
        return last

    def _accepts(self, state: int) -> bool:
        return self.cea.final in self.closure[state]

    def _merge(self) -> dict[int, int]:
        """Return the class of each entry: entries of one class have the same moves."""
        cea = self.cea
        exits = [exit_ for fork in cea.forks.values() for _, exit_ in fork.parts]
        ends = {scope.exit for scope in cea.scopes} | set(exits)

        def fixed(state: int) -> object:
            inner = self.closure[state]
            own = state if state == cea.initial or state in cea.forks else -1
            scopes = frozenset(scope for s in inner for scope in cea.scopes_of[s])
            forks = frozenset(s for s in inner if s in cea.forks)
            return own, inner & ends, forks, scopes, self.last[state], bool(self.waits[state])

        classes = _number({state: fixed(state) for state in self.entries})
        while True:
            finer = _number(
                {
                    state: (
                        classes[state],
                        frozenset(
                            (r.test, r.labels, classes[r.target], self._accepts(r.target))
                            for r in self._moves(state)
                        ),
                    )
                    for state in self.entries
                }
            )
            if len(set(finer.values())) == len(set(classes.values())):
                return finer
            classes = finer

    def draw(self) -> DrawnCea:
        cea = self.cea
        edges: dict[DrawnEdge, int] = {}
        edge_of: dict[tuple[int, int, Read], int] = {}
        finals = {self.classes[fork.target] for fork in cea.forks.values()}
        finals = {s for s in finals if any(self._accepts(e) for e in self._members(s))}
        for state in self.entries:
            here = self.classes[state]
            later = {read for wait in self.waits[state] for read in self._all_moves(wait)}
            for inner, read in self._find_inner_moves(state):
                there = self.classes[read.target]
                if self._accepts(read.target):
                    finals.add(there)
                words, label = say_test(read.test), say_labels(read.labels, read.test, self.shown)
                if later and read not in later:
                    words = f"right after, {words}"
                loops = here == there and _waits(read)
                kind: EdgeKind = "read" if read.labels else "wait" if loops else "skip"
                drawn = DrawnEdge(here, there, words, label, kind)
                edge_of[here, inner, read] = edges.setdefault(drawn, len(edges))
            if later:
                edges.setdefault(DrawnEdge(here, here, "any event", kind="wait"), len(edges))
        if self._accepts(cea.initial):
            finals.add(self.classes[cea.initial])
        names: dict[int, DrawnState] = {}
        for state in self.entries:
            here = self.classes[state]
            names.setdefault(here, self._name(state, here in finals))
        every = [*edges, *self._list_forks(), *self._list_guards()]
        unnumbered = [names[number] for number in range(len(names))]
        states = _number_names(unnumbered, every, self.classes[cea.initial])
        view = lay_out(states, every)
        return DrawnCea(view, cea, self.classes, self._find_standing(), edge_of)

    def _members(self, number: int) -> list[int]:
        return [state for state in self.entries if self.classes[state] == number]

    def _find_standing(self) -> frozenset[tuple[int, frozenset[int]]]:
        """Return the states of the view, each with where a run stands that has waited there."""
        standing = set()
        for state in self.entries:
            waits = self.waits[state]
            own = frozenset[int]().union(*(self.closure[wait] for wait in waits))
            held = (own if waits else self.closure[state]) - {self.cea.final}
            standing.add((self.classes[state], held))
        return frozenset(standing)

    def _name(self, state: int, final: bool) -> DrawnState:
        cea = self.cea
        if state in cea.forks:
            return DrawnState("all of", "fork", initial=state == cea.initial)
        if state == cea.initial:
            return DrawnState("start", initial=True, final=final)
        if self.closure[state] & {scope.exit for scope in cea.scopes}:
            return DrawnState("excluded", "guard")
        if any(state == scope.entry for scope in cea.scopes):
            return DrawnState("unless", "guard")
        last = sorted(self.last[state])
        parts = [part for fork in cea.forks.values() for part in fork.parts]
        marked = any(r.labels and r.target == state for s in self.entries for r in self._moves(s))
        name = f"after {', '.join(last)}" if last else "all found"
        if not marked and not any(state == fork.target for fork in cea.forks.values()):
            name = "passed on"
        if any(state == entry for entry, _ in parts):
            return DrawnState("part", "part")
        ends = any(exit_ in self.closure[state] for _, exit_ in parts)
        return DrawnState(name, "part" if ends else "state", final=final)

    def _list_forks(self) -> list[DrawnEdge]:
        """Return the edges to and from the parts of an ALL, and those into an ALL."""
        edges: dict[DrawnEdge, None] = {}
        for state, fork in self.cea.forks.items():
            here = self.classes[state]
            for entry, exit_ in fork.parts:
                edges[DrawnEdge(here, self.classes[entry], "", kind="all")] = None
                for arrived in self.entries:
                    if exit_ in self.closure[arrived]:
                        there = self.classes[fork.target]
                        done = DrawnEdge(self.classes[arrived], there, "all done", kind="all")
                        edges[done] = None
            for arrived in self.entries:
                if arrived != state and state in self.closure[arrived]:
                    edges[DrawnEdge(self.classes[arrived], here, "", kind="all")] = None
        return [*edges]

    def _list_guards(self) -> list[DrawnEdge]:
        edges: dict[DrawnEdge, None] = {}
        for number, scope in enumerate(self.cea.scopes):
            for state in self.entries:
                inside = any(number in self.cea.scopes_of[s] for s in self.closure[state])
                if inside and state != self.cea.initial:
                    here, there = self.classes[state], self.classes[scope.entry]
                    edges.setdefault(DrawnEdge(here, there, "", kind="guard"))
                    break
        return [*edges]


def _number_names(
    states: list[DrawnState], edges: Iterable[DrawnEdge], start: int
) -> list[DrawnState]:
    """Return the states with a number in names that several have: the rounds of an iteration.

    They count in the order in which the start reaches them.
    """
    following: dict[int, list[int]] = {}
    for edge in edges:
        following.setdefault(edge.source, []).append(edge.target)
    order, queue = {start: None}, [start]
    for state in queue:
        more = [target for target in following.get(state, ()) if target not in order]
        order.update(dict.fromkeys(more))
        queue += dict.fromkeys(more)
    seen: dict[str, int] = {}
    numbered = list(states)
    for state in [*order, *(i for i in range(len(states)) if i not in order)]:
        name = states[state].name
        if name.startswith("after "):
            seen[name] = count = seen.get(name, 0) + 1
            if count > 1:
                numbered[state] = states[state]._replace(name=f"{name} ({count})")
    return numbered


def _name_labels(read: Read, shown: frozenset[str]) -> frozenset[str]:
    """Return what people call an event that is read: its variables, or else its type."""
    named = say_labels(read.labels, read.test, shown)
    return frozenset({named}) if named else read.labels


def _waits(read: Read) -> bool:
    """Whether any event passes, and is not marked."""
    return not read.labels and read.test == ANYTHING


def _number(keys: dict[int, object]) -> dict[int, int]:
    """Return a number for each key, in the order in which keys appear."""
    numbers: dict[object, int] = {}
    return {state: numbers.setdefault(key, len(numbers)) for state, key in keys.items()}


# ---------------------------------------------------------------- correlated


@dataclass(frozen=True, slots=True)
class DrawnPcea:
    """The view of a PCEA: its states have their own numbers; the start comes after them."""

    view: AutomatonView
    pcea: PCEA
    edges_of: tuple[tuple[int, ...], ...]
    """For each transition, the edges that it is."""


def describe_pcea(pcea: PCEA, shown: frozenset[str]) -> DrawnPcea:
    """Return the view of a PCEA; `shown` are the variables that people named."""
    start = len(pcea.names)
    states = [
        DrawnState(_name_state(pcea, i), final=i in pcea.finals) for i in range(len(pcea.names))
    ]
    states.append(DrawnState("start", initial=True))
    edges: list[DrawnEdge] = []
    edges_of: list[tuple[int, ...]] = []
    for transition in pcea.transitions:
        own, sources = [], transition.sources
        label = say_labels(transition.labels, transition.test, shown)
        here = sources[0].state if sources else start
        if len(sources) > 1:
            here = len(states)
            states.append(DrawnState("", "join"))
            for source in sources:
                own.append(len(edges))
                edges.append(DrawnEdge(source.state, here, "", kind="all"))
        own.append(len(edges))
        words = _say_reading(pcea, transition.test, sources)
        edges.append(DrawnEdge(here, transition.target, words, label))
        edges_of.append(tuple(own))
    return DrawnPcea(lay_out(states, edges), pcea, tuple(edges_of))


def _name_state(pcea: PCEA, state: int) -> str:
    """Return what a state is called: what it has read, or that it joins runs."""
    name = pcea.names[state]
    labels = {label for t in pcea.transitions if t.target == state for label in t.labels}
    ends = [source.state for _, source in pcea.guards]
    if state in ends or any(taker == state for taker, _ in pcea.removals):
        return f"unless {_last_word(name)}"
    if any(part in labels for part in name.split()):
        return f"after {_last_word(name)}"
    return "match" if state in pcea.finals else f"joined on {name}"


def _last_word(name: str) -> str:
    """Return the variable of a name that is a type and a variable."""
    return name.split()[-1] if name.split() else name
