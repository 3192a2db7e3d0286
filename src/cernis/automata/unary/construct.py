"""Construct the CEA of a formula, one method per operator; its size is linear in the formula.

Cost contract: O(size of the formula with `{m,n}` unrolled); a pattern that would need
more than `MOST_STATES` states is refused while it is built.

This is Thompson's construction, with two differences. A range of states never accepts the
empty word: whether the formula may be left out is a flag (`nullable`), because `A : B? ; C`
must not keep the gap of the missing B. And `;` puts a *gap* between its sides, a state that any
event may pass unmarked. The gap of `->` is a *wait*: an event passes it unless it can be read by
one of the transitions that begin the part after the arrow, with all their conditions.

Conditions between events (`x[a] op y[b]`, PARTITION BY and WITHIN inside a formula, gaps)
cannot be asked of one event. They are left out here: the automaton then accepts a superset of
the formula, and `run.check.verify` filters its matches. A guard that contains such a
condition is left out entirely, since weakening it would lose matches. A wait whose events such
a condition compares is *open*: any event passes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from cernis.automata.unary import cea
from cernis.automata.unary.cea import ANYTHING, Is, Read, Test, conjoin, conjoin_tests
from cernis.automata.unary.tidy import find_reachable, tidy
from cernis.errors import BudgetError, Diagnostic, QueryError
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.atom import TypeIs
from cernis.pattern.guard import split_guard
from cernis.pattern.waits import find_undecided, is_nullable

MOST_STATES = 50_000
MOST_ALTERNATIVES = 1_000

UNMARKED: frozenset[str] = frozenset()
CLOCKS = frozenset({pred.TIME.name, pred.TIME_NS.name})


@dataclass(frozen=True, slots=True)
class StateRange:
    """States first … last-1; runs go from entry to exit; nullable: may be left out."""

    entry: int
    exit: int
    nullable: bool
    first: int
    last: int


@dataclass(slots=True)
class WaitState:
    """The gap of one `->`: the transitions that an event passing it must not be able to take."""

    node: tuple[int, ...]
    part: int
    reads: list[tuple[int, int]] = field(default_factory=list)
    """By state and number."""
    open: bool = False
    """Any event may pass: candidates are checked."""


class Construction:
    """The automaton while it grows."""

    def __init__(self, name_atoms: bool = False) -> None:
        self.reads: list[list[Read]] = []
        self.silent: list[list[int]] = []
        self.scopes_of: list[tuple[int, ...]] = []
        self.guard_depth: list[int] = []
        self.scopes: list[cea.Scope] = []
        self.forks: dict[int, cea.Fork] = {}
        self.waits: dict[int, WaitState] = {}
        self.name_atoms = name_atoms
        self.inside: tuple[int, ...] = ()
        self.depth = 0

    def add_state(self) -> int:
        if len(self.reads) >= MOST_STATES:
            raise BudgetError(
                f"this pattern needs more than {MOST_STATES:,} automaton states; "
                "use fewer alternatives or smaller bounds in {m,n}"
            )
        self.reads.append([])
        self.silent.append([])
        self.scopes_of.append(self.inside)
        self.guard_depth.append(self.depth)
        return len(self.reads) - 1

    def add_silent(self, source: int, target: int) -> None:
        self.silent[source].append(target)

    def add_read(self, source: int, test: Test, labels: Iterable[str], target: int) -> None:
        self.reads[source].append(Read(test, frozenset(labels), target))

    def add_gap(self) -> int:
        """Add a state that any event may pass, unmarked; return its number."""
        state = self.add_state()
        self.add_read(state, ANYTHING, UNMARKED, state)
        return state

    def marked_reads(self, fragment: StateRange) -> Iterator[tuple[int, int, Read]]:
        """Yield the reads of the range's own valuations, without those of its guards."""
        for state in range(fragment.first, fragment.last):
            if self.guard_depth[state] == self.depth:
                for index, read in enumerate(self.reads[state]):
                    if read.labels:
                        yield state, index, read

    # ------------------------------------------------------------- waits

    def add_wait(self, right: StateRange, node: tuple[int, ...], part: int) -> int:
        """Add the gap before a part that begins with the first event that fits."""
        state = self.add_gap()
        wait = self.waits[state] = WaitState(node, part)
        for entry in find_reachable([right.entry], self.silent.__getitem__):
            wait.reads += [(entry, i) for i, read in enumerate(self.reads[entry]) if read.labels]
        return state

    def waits_in(self, fragment: StateRange) -> list[WaitState]:
        """Return the waits of the range's own valuations, in the order in which they were made."""
        return [
            self.waits[state]
            for state in range(fragment.first, fragment.last)
            if state in self.waits and self.guard_depth[state] == self.depth
        ]

    def open_waits(self, fragment: StateRange, names: frozenset[str] | None) -> None:
        """Open the waits for events of these variables (None: of any)."""
        for wait in self.waits_in(fragment):
            labels = [self.reads[state][i].labels for state, i in wait.reads]
            wait.open |= names is None or any(names & its for its in labels)

    def close_waits(self) -> None:
        """Let only the events pass that fit none of the transitions a wait is for."""
        for state, wait in self.waits.items():
            if not wait.open:
                tests = dict.fromkeys(self.reads[at][i].test for at, i in wait.reads)
                fits = next(iter(tests)) if len(tests) == 1 else cea.Either(tuple(tests))
                self.reads[state][0] = replace(self.reads[state][0], test=cea.Isnt(fits))

    # --------------------------------------------------- one per operator

    def build(self, node: cel.Formula, path: tuple[int, ...]) -> StateRange:
        match node:
            case cel.Event(type=name):
                labels = {name, name_atom(path)} if self.name_atoms else {name}
                return self.build_read(build_type_test(node), labels)
            case cel.Not(body=body):
                return self.build_read(cea.Isnt(build_event_test(body)), UNMARKED)
            case cel.As():
                return self.build_as(node, path)
            case cel.Sequence() | cel.Contiguous():
                return self.build_sequence(node, path)
            case cel.Choice(parts=parts):
                first = len(self.reads)
                built = [self.build(part, (*path, i)) for i, part in enumerate(parts)]
                return self.join_alternatives(built, first)
            case cel.All():
                return self.build_all(node, path)
            case cel.Iterate():
                return self.build_iteration(node, path)
            case cel.Optional(body=body):
                return replace(self.build(body, (*path, 0)), nullable=True)
            case cel.Filter():
                return self.build_filter(node, path)
            case cel.PartitionBy():
                return self.build_partition(node, path)
            case cel.Within(body=body):
                return self.build(body, (*path, 0))
            case cel.Unless():
                return self.build_unless(node, path)

    def build_read(self, test: Test, labels: Iterable[str]) -> StateRange:
        first, last = self.add_state(), self.add_state()
        self.add_read(first, test, labels, last)
        return StateRange(first, last, False, first, last + 1)

    def build_as(self, node: cel.As, path: tuple[int, ...]) -> StateRange:
        inner = self.build(node.body, (*path, 0))
        for state, index, read in list(self.marked_reads(inner)):
            self.reads[state][index] = replace(read, labels=read.labels | {node.variable})
        return inner

    def build_sequence(
        self, node: cel.Sequence | cel.Contiguous, path: tuple[int, ...]
    ) -> StateRange:
        built = self.build(node.parts[0], (*path, 0))
        for i, part in enumerate(node.parts[1:], start=1):
            right = self.build(part, (*path, i))
            gap = self.add_link_state(node, right, path, i)
            built = self.concatenate(built, right, gap)
        return built

    def add_link_state(
        self,
        node: cel.Sequence | cel.Contiguous | cel.Iterate,
        right: StateRange,
        path: tuple[int, ...],
        part: int,
    ) -> int | None:
        """Add the state between two parts, or rounds; None where they are contiguous."""
        match node:
            case cel.Contiguous() | cel.Iterate(contiguous=True):
                return None
            case cel.Sequence():
                separator = node.separator_before(part)
            case cel.Iterate(separator=separator):
                pass
        return self.add_wait(right, path, part) if separator.next else self.add_gap()

    def concatenate(self, left: StateRange, right: StateRange, gap: int | None) -> StateRange:
        first = min(left.first, right.first)
        self.link(left.exit, right.entry, gap)
        entry, exit_ = left.entry, right.exit
        if left.nullable:
            entry = self.add_state()
            self.add_silent(entry, left.entry)
            self.add_silent(entry, right.entry)
        if right.nullable:
            exit_ = self.add_state()
            self.add_silent(left.exit, exit_)
            self.add_silent(right.exit, exit_)
        return StateRange(entry, exit_, left.nullable and right.nullable, first, len(self.reads))

    def join_alternatives(self, built: list[StateRange], first: int) -> StateRange:
        if len(built) == 1:
            return built[0]
        entry, exit_ = self.add_state(), self.add_state()
        for fragment in built:
            self.add_silent(entry, fragment.entry)
            self.add_silent(fragment.exit, exit_)
        nullable = any(fragment.nullable for fragment in built)
        return StateRange(entry, exit_, nullable, first, len(self.reads))

    def build_iteration(self, node: cel.Iterate, path: tuple[int, ...]) -> StateRange:
        low, high = node.low, node.high
        copies = high if high is not None else max(low, 1)
        if copies > MOST_STATES:
            bounds = f"{low}" if low == high else f"{low},{'' if high is None else high}"
            raise BudgetError(
                f"{{{bounds}}} unrolls to {copies:,} copies; "
                f"at most {MOST_STATES:,} automaton states are allowed",
                node.span,
            )
        first = len(self.reads)
        entry, exit_ = self.add_state(), self.add_state()
        previous: StateRange | None = None
        nullable = low == 0
        for copy in range(1, copies + 1):
            body = self.build(node.body, (*path, 0))
            if body.nullable:
                nullable = True
                # a nullable body may be left out any number of times
                low = 0
            if previous is None:
                self.add_silent(entry, body.entry)
            else:
                gap = self.add_link_state(node, body, path, 0)
                self.link(previous.exit, body.entry, gap)
            if copy >= low or body.nullable:
                self.add_silent(body.exit, exit_)
            previous = body
        if high is None and previous is not None:
            gap = self.add_link_state(node, previous, path, 0)
            self.link(previous.exit, previous.entry, gap)
        return StateRange(entry, exit_, nullable, first, len(self.reads))

    def link(self, source: int, target: int, gap: int | None) -> None:
        """Link the end of one part to the beginning of the next, through the gap between them."""
        if gap is None:
            self.add_silent(source, target)
        else:
            self.add_silent(source, gap)
            self.add_silent(gap, target)

    def build_all(self, node: cel.All, path: tuple[int, ...]) -> StateRange:
        """Build ALL: one case for every choice of parts to leave out (ε), each with its own copies.

        A part that runs on its own goes on to the exit; inside a fork it must stop at its
        end, so the cases cannot share.
        """
        first = len(self.reads)
        entry, exit_ = self.add_state(), self.add_state()
        optional = [i for i, part in enumerate(node.parts) if is_nullable(part)]
        if 2 ** len(optional) > MOST_ALTERNATIVES:
            raise BudgetError(
                f"ALL with {len(optional)} optional parts has too many cases", node.span
            )
        for subset in range(2 ** len(optional)):
            left_out = {part for bit, part in enumerate(optional) if subset >> bit & 1}
            built = [
                self.build(part, (*path, i))
                for i, part in enumerate(node.parts)
                if i not in left_out
            ]
            if len(built) == 1:
                self.add_silent(entry, built[0].entry)
                self.add_silent(built[0].exit, exit_)
            elif built:
                joint = self.add_state()
                self.add_silent(entry, joint)
                self.forks[joint] = cea.Fork(tuple((f.entry, f.exit) for f in built), exit_)
        everything = len(optional) == len(node.parts)
        return StateRange(entry, exit_, everything, first, len(self.reads))

    def build_filter(self, node: cel.Filter, path: tuple[int, ...]) -> StateRange:
        """Build FILTER: x[P] strengthens every read that marks x; OR makes copies."""
        cases = list(list_disjuncts(node.condition))
        if len(cases) > MOST_ALTERNATIVES:
            raise BudgetError(f"this FILTER has more than {MOST_ALTERNATIVES:,} cases", node.span)
        first = len(self.reads)
        undecided = find_undecided(node, path)
        compared = frozenset(
            name
            for leaf in pred.leaves(node.condition)
            if not isinstance(leaf, pred.Holds)
            for name in pred.leaf_variables(leaf)
        )
        built = []
        for case in cases:
            fragment = self.build(node.body, (*path, 0))
            self.open_waits(fragment, compared)
            for state, index, read in list(self.marked_reads(fragment)):
                asked = (build_test(h.predicate) for h in case if h.variable in read.labels)
                self.reads[state][index] = replace(read, test=conjoin_tests((read.test, *asked)))
            built.append(fragment)
        for copies in zip(*map(self.waits_in, built), strict=True):
            reads = [read for wait in copies for read in wait.reads]
            for wait in copies:  # an event fits if it does so in any case
                wait.reads = reads
                wait.open |= (wait.node, wait.part) in undecided
        return self.join_alternatives(built, first)

    def build_partition(self, node: cel.PartitionBy, path: tuple[int, ...]) -> StateRange:
        body = self.build(node.body, (*path, 0))
        names = [key.variable for key in node.keys if key.variable is not None]
        self.open_waits(body, frozenset(names) if len(names) == len(node.keys) else None)
        return body

    def build_unless(self, node: cel.Unless, path: tuple[int, ...]) -> StateRange:
        if is_correlated(node.guard) or split_guard(node.guard).conditions:
            return self.build(node.body, (*path, 0))
        first = len(self.reads)
        entry, exit_ = self.add_state(), self.add_state()
        scope = len(self.scopes)
        self.scopes.append(cea.Scope(0, 0))
        outside = self.inside
        self.inside, self.depth = (), self.depth + 1
        guard = self.build(node.guard, (*path, 1))
        self.scopes[scope] = cea.Scope(guard.entry, guard.exit)
        self.inside, self.depth = (*outside, scope), self.depth - 1
        body = self.build(node.body, (*path, 0))
        self.inside = outside
        self.add_silent(entry, body.entry)
        self.add_silent(body.exit, exit_)
        return StateRange(entry, exit_, body.nullable, first, len(self.reads))


def construct(formula: cel.Formula, *, name_atoms: bool = False) -> cea.CEA:
    """Return the CEA of a formula; with `name_atoms` every atom writes its own label as well.

    >>> print(construct(cel.Sequence((cel.Event("A"), cel.Event("B")))))
    > 0  A / A → 1
      1  * / - → 1
         B / B → 2
    ^ 2
    """
    building = Construction(name_atoms)
    whole = building.build(formula, ())
    # end exactly where the last event was read: the final state has no way on
    final = building.add_state()
    building.add_silent(whole.exit, final)
    building.close_waits()
    return tidy(
        cea.CEA(
            initial=whole.entry,
            final=final,
            reads=tuple(tuple(dict.fromkeys(reads)) for reads in building.reads),
            silent=tuple(tuple(dict.fromkeys(moves)) for moves in building.silent),
            scopes_of=tuple(building.scopes_of),
            scopes=tuple(building.scopes),
            forks=building.forks,
        )
    )


def name_atom(path: tuple[int, ...]) -> str:
    """Return the label of one occurrence of an atom in the formula."""
    return "#" + ".".join(map(str, path))


# ------------------------------------------------------------ conditions


def list_disjuncts(condition: pred.Condition) -> Iterator[tuple[pred.Holds, ...]]:
    """Yield the condition as an OR of ANDs of `x[P]`, without comparisons between events."""
    match condition:
        case pred.Holds():
            yield (condition,)
        case pred.Compare() | pred.CompareNeighbours() | pred.CompareTerms() | pred.Monotone():
            yield ()
        case pred.Denied():
            yield ()
        case pred.AnyOf(parts=parts):
            for part in parts:
                yield from list_disjuncts(part)
        case pred.AllOf(parts=parts):
            combined: list[tuple[pred.Holds, ...]] = [()]
            for part in parts:
                combined = [a + b for a in combined for b in list_disjuncts(part)]
                if len(combined) > MOST_ALTERNATIVES:
                    raise BudgetError(f"this FILTER has more than {MOST_ALTERNATIVES:,} cases")
            yield from combined


def build_type_test(event: cel.Event) -> Test:
    """Return the test of an event's type; `*` is any event."""
    return ANYTHING if event.type == cel.ANY_TYPE else Is(TypeIs(event.type, event.stream))


def build_test(predicate: pred.Predicate) -> Test:
    """Return the test of a predicate; AND and OR become tests, so that an atom reads one column."""
    match predicate:
        case pred.And(parts=parts):
            return conjoin_tests(build_test(part) for part in parts)
        case pred.Or(parts=parts):
            return cea.Either(tuple(build_test(part) for part in parts))
        case pred.Negation(body=pred.IsNull() as body):  # never unknown
            return cea.Isnt(build_test(body))
        case _:
            return Is(predicate)


def build_event_test(node: cel.Formula) -> Test:
    """Return the test of a formula that matches one event (the body of NOT)."""
    tests = [test for test, _ in _alternatives(node)]
    return tests[0] if len(tests) == 1 else cea.Either(tuple(tests))


def _alternatives(node: cel.Formula) -> list[tuple[Test, frozenset[str]]]:
    match node:
        case cel.Event():
            return [(build_type_test(node), frozenset({node.type}))]
        case cel.As(body=body, variable=variable):
            return [(test, labels | {variable}) for test, labels in _alternatives(body)]
        case cel.Choice(parts=parts):
            return [found for part in parts for found in _alternatives(part)]
        case cel.Filter(body=body, condition=condition):
            return [
                (conjoin(test, build_condition_test(condition, labels)), labels)
                for test, labels in _alternatives(body)
            ]
        case _:
            raise QueryError(
                [Diagnostic("NOT takes a formula that matches a single event", node.span)]
            )


def build_condition_test(condition: pred.Condition, labels: frozenset[str]) -> Test:
    """Return the test of a condition on one event with these labels."""
    match condition:
        case pred.Holds(variable=variable, predicate=predicate):
            return build_test(predicate) if variable in labels else ANYTHING
        case pred.Compare(left=left, right=right, adjacent=adjacent):
            if adjacent or not {left.variable, right.variable} <= labels:
                return ANYTHING  # one event has no neighbours
            return compare_with_itself(condition)
        case pred.Monotone() | pred.CompareNeighbours():
            return ANYTHING
        case pred.CompareTerms() | pred.Denied():
            raise QueryError([Diagnostic("NOT looks at one event alone", condition.span)])
        case pred.AllOf(parts=parts):
            return conjoin_tests(build_condition_test(part, labels) for part in parts)
        case pred.AnyOf(parts=parts):
            tests = dict.fromkeys(build_condition_test(part, labels) for part in parts)
            return ANYTHING if ANYTHING in tests else cea.Either(tuple(tests))


def compare_with_itself(leaf: pred.Compare) -> Test:
    """Return the comparison of an event with itself."""
    left, right = leaf.left.attribute, leaf.right.attribute
    if left == right and left.name in CLOCKS and not leaf.shift:
        return ANYTHING if leaf.op in ("=", "<=", ">=") else cea.NO_EVENT
    if isinstance(leaf.origin, pred.CompareTerms):
        sides = pred.to_value(leaf.origin.left), pred.to_value(leaf.origin.right)
        if sides[0] is not None and sides[1] is not None:
            return Is(pred.Comparison(leaf.origin.op, sides[0], sides[1]))
    match right.term:
        case pred.Calculation("+", pred.Reference(attribute=own), pred.ConstantDuration() as far):
            size = far.nanoseconds
            fits = {"<": size > 0, "<=": size >= 0, ">": size < 0, ">=": size <= 0}
            if own == left and leaf.op in fits:
                is_there = ANYTHING if own.name in CLOCKS else Is(pred.Comparison("=", own, own))
                return is_there if fits[leaf.op] else cea.NO_EVENT
    one, other = left.own_value, right.own_value
    if leaf.shift is not None:
        other = pred.Arithmetic("+", other, pred.Literal(leaf.shift))
    return Is(pred.Comparison(leaf.op, one, other))


def is_correlated(node: cel.Formula) -> bool:
    """Whether a formula compares events with each other, or measures how far apart they are.

    NOT looks at one event only.
    """
    stack = [node]
    while stack:
        top = stack.pop()
        match top:
            case cel.Not():
                continue
            case cel.PartitionBy() | cel.Within():
                return True
            case cel.Filter(condition=condition):
                if compares_events(condition) or find_undecided(top):
                    return True
            case cel.Unless(guard=guard) if split_guard(guard).conditions:
                return True
        if any(cel.list_gaps(top)):
            return True
        stack.extend(cel.children(top))
    return False


def compares_events(condition: pred.Condition) -> bool:
    """Whether a condition looks at several events."""
    return not all(isinstance(leaf, pred.Holds) for leaf in pred.leaves(condition))
