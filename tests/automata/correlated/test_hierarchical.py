from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given

from cernis.automata.correlated.hierarchical import MOST_TRANSITIONS, JoinAtom, construct_join
from cernis.automata.correlated.pcea import PCEA, Link, RunSource, Transition
from cernis.automata.correlated.qtree import find_conflict
from cernis.automata.unary.cea import Is, Test, conjoin
from cernis.errors import BudgetError
from cernis.languages.conjunctive import lower, parse
from cernis.languages.conjunctive.query import (
    ConjunctiveComparison,
    ConjunctiveQuery,
    find_single_event_tests,
)
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.atom import TypeIs
from cernis.testing import oracle
from cernis.testing.oracle import Valuation
from tools.cases.naive import NaiveRuns
from tools.cases.strategies import joins

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AtomJoin:
    """A conjunctive query as joined atoms, and the comparisons that these leave out.

    The planner finds the join in the pattern that a query lowers to; this reads it off the query.
    """

    atoms: tuple[JoinAtom, ...]
    residual: tuple[ConjunctiveComparison, ...] = ()

    @property
    def variables(self) -> tuple[tuple[str, ...], ...]:
        """The variables of each atom, as `cernis.automata.correlated.qtree` asks for them."""
        return tuple(tuple(atom.columns) for atom in self.atoms)


def make_join(query: ConjunctiveQuery) -> AtomJoin:
    """Return the join of a conjunctive query; each atom's label is its index.

    A timestamp that several atoms have is a variable like any other, of attribute @time.
    """
    tests, residual = find_single_event_tests(query)
    atoms = []
    for index, (atom, columns, own) in enumerate(
        zip(query.atoms, query.columns, tests, strict=True)
    ):
        test: Test = Is(TypeIs(atom.relation, atom.stream))
        for more in own:
            test = conjoin(test, Is(more))
        named = {name: attribute.name for name, attribute in columns.items()}
        if atom.time is not None and len(query.timestamps[atom.time]) > 1:
            named[atom.time] = pred.TIME.name
        sort = frozenset({(atom.stream, atom.relation)})
        atoms.append(JoinAtom(test, frozenset({str(index)}), sort, named))
    return AtomJoin(tuple(atoms), residual)


def tuples(text: str) -> list[Event]:
    """`S(2, 11) T(2)` as events with attributes a, b, …"""
    found = []
    for word in text.replace(", ", ",").split():
        kind, _, values = word.rstrip(")").partition("(")
        found.append({"type": kind, **dict(zip("abc", map(int, values.split(",")), strict=False))})
    return found


S0 = tuples("S(2, 11) T(2) R(1, 10) S(2, 11) T(1) R(2, 11) S(4, 13) T(1)")

T: Test = Is(TypeIs("T"))
S: Test = Is(TypeIs("S"))
R: Test = Is(TypeIs("R"))
MARK = frozenset({"•"})
FIRST = Link(equal=(("a", "a"),))
BOTH = Link(equal=(("a", "a"), ("b", "b")))


def atom(index: int, kind: str, columns: dict[str, str], *tests: Test) -> JoinAtom:
    test: Test = Is(TypeIs(kind))
    for more in tests:
        test = conjoin(test, more)
    return JoinAtom(test, frozenset({str(index)}), frozenset({(None, kind)}), columns)


Q0 = [
    atom(0, "T", {"x": "a"}),
    atom(1, "S", {"x": "a", "y": "b"}),
    atom(2, "R", {"x": "a", "y": "b"}),
]


def test_the_chain_automaton_of_the_paper() -> None:
    c0 = PCEA(
        ("q0", "q1", "q2"),
        (
            Transition((), T, MARK, 0),
            Transition((RunSource(0, FIRST),), S, MARK, 1),
            Transition((RunSource(1, BOTH),), R, MARK, 2),
        ),
        frozenset({2}),
    )
    assert c0.is_chain
    assert NaiveRuns(c0).run(S0) == [(1, 5, {"•": (1, 3, 5)})]


def test_the_parallelized_automaton_of_the_paper() -> None:
    p0 = PCEA(
        ("q0", "q1", "q2"),
        (
            Transition((), T, MARK, 0),
            Transition((), S, MARK, 1),
            Transition((RunSource(0, FIRST), RunSource(1, BOTH)), R, MARK, 2),
        ),
        frozenset({2}),
    )
    assert not p0.is_chain
    found = NaiveRuns(p0).run(S0)
    assert sorted(found, key=str) == [(0, 5, {"•": (0, 1, 5)}), (1, 5, {"•": (1, 3, 5)})]


def test_the_hierarchical_query_of_the_paper_has_its_two_answers() -> None:
    found = NaiveRuns(construct_join(Q0)).run(S0[:6])
    assert sorted(str(m.labels) for m in found) == [
        "{'0': (1,), '1': (0,), '2': (5,)}",
        "{'0': (1,), '1': (3,), '2': (5,)}",
    ]


def test_the_automaton_of_the_hierarchical_query_of_the_paper() -> None:
    made = construct_join(Q0)
    shown = [
        (
            sorted((made.names[s.state], str(s.link)) for s in t.sources),
            "".join(t.labels),
            made.names[t.target],
        )
        for t in made.transitions
    ]
    assert sorted(shown) == [
        ([], "0", "0"),
        ([], "1", "1"),
        ([], "2", "2"),
        ([("0", "a = a"), ("1", "a = a and b = b")], "2", "x"),
        ([("0", "a = a"), ("2", "a = a and b = b")], "1", "x"),
        ([("1", "a = a and b = b")], "2", "x, y"),
        ([("2", "a = a and b = b")], "1", "x, y"),
        ([("x, y", "a = a")], "0", "x"),
    ]
    assert [made.names[state] for state in made.finals] == ["x"]


def test_without_self_joins_the_automaton_is_quadratic() -> None:
    sizes = []
    for n in (4, 8, 16):
        names = [f"x{i}" for i in range(n)]
        chain = [atom(i, f"T{i}", {x: x for x in names[: i + 1]}) for i in range(n)]
        made = construct_join(chain)
        sizes.append(len(made.transitions))
    # an atom for each node above it, and one for itself
    assert sizes == [n + (n - 1) * n // 2 + n - 1 for n in (4, 8, 16)]


def test_a_node_whose_atoms_name_a_variable_differently_has_a_state_for_each_name() -> None:
    atoms = [
        atom(0, "T", {"x": "k"}),
        atom(1, "S", {"x": "a", "y": "b"}),
        atom(2, "R", {"x": "c", "y": "b"}),
    ]
    made = construct_join(atoms)
    assert "x, y by c" in made.names
    events = [
        {"type": "R", "c": 1, "b": 2},
        {"type": "S", "a": 1, "b": 2},
        {"type": "T", "k": 1},
        {"type": "R", "c": 1, "b": 2},
    ]
    assert len(NaiveRuns(made).run(events)) == 2


def test_one_atom_is_one_transition() -> None:
    made = construct_join([atom(0, "T", {"x": "a"})])
    assert [m.labels for m in NaiveRuns(made).run(S0[:3])] == [{"0": (1,)}]


def test_a_self_join_may_use_an_event_twice_or_two_events() -> None:
    made = construct_join([atom(0, "T", {"x": "a"}), atom(1, "T", {"x": "a"})])
    found = [m.labels for m in NaiveRuns(made).run(tuples("T(1) T(1)"))]
    assert sorted(map(str, found)) == [
        "{'0': (0,), '1': (0,)}",
        "{'0': (0,), '1': (1,)}",
        "{'0': (1,), '1': (0,)}",
        "{'0': (1,), '1': (1,)}",
    ]


def test_atoms_of_different_streams_never_share_an_event() -> None:
    sorts = [("S", "T"), ("U", "T"), (None, "T"), (None, "R")]
    atoms = [JoinAtom(T, frozenset(), frozenset({sort}), {}) for sort in sorts]
    assert not atoms[0].may_share(atoms[1])
    assert atoms[0].may_share(atoms[2])
    assert atoms[2].may_share(atoms[1])
    assert not atoms[2].may_share(atoms[3])


def test_a_join_with_too_many_self_joins_is_refused() -> None:
    atoms = [atom(i, "T", {"x": "a"}) for i in range(30)]
    with pytest.raises(BudgetError) as refused:
        construct_join(atoms)
    assert str(refused.value) == (
        "the join needs more than 2,000 transitions: too many of its atoms may share an event"
    )


def test_a_long_self_join_is_refused_and_not_a_crash() -> None:
    with pytest.raises(BudgetError):
        construct_join([atom(i, "T", {"x": "a"}) for i in range(3 * MOST_TRANSITIONS)])


def test_a_window_forgets_runs() -> None:
    runs = NaiveRuns(construct_join(Q0), 4)
    assert [m.start for m in runs.run(S0[:6])] == [1]
    for _ in range(5):
        runs.push({"type": "other"})
    assert runs.size == 0


# ------------------------------------------------------------------- random


def random_atoms(rng: random.Random) -> list[JoinAtom]:
    """Hierarchical atoms: paths in a random tree of variables."""
    parents: dict[str, str | None] = {}
    for name in "xyzuv"[: rng.randrange(1, 6)]:
        parents[name] = rng.choice([None, *parents])
    atoms = []
    for index in range(rng.randrange(1, 5)):
        last = rng.choice([None, *parents, *parents])
        path: list[str] = []
        while last is not None:
            path.append(last)
            last = parents[last]
        kind = rng.choice("TSR" if rng.random() < 0.6 else "T")
        free = ["a", "b", "c", "d", "e"]
        if rng.random() < 0.3:
            rng.shuffle(free)
        tests: list[Test] = []
        columns = dict(zip(reversed(path), free, strict=False))
        rest = free[len(path) :]
        if rest and rng.random() < 0.2:
            equals = pred.Comparison("=", pred.Attribute((rest[0],)), pred.Literal(1))
            tests.append(Is(equals))
        if rest and path and rng.random() < 0.2:
            again = pred.Attribute((columns[path[0]],))
            tests.append(Is(pred.Comparison("=", again, pred.Attribute((rest[0],)))))
        atoms.append(atom(index, kind, columns, *tests))
    return atoms


def as_formula(atoms: Sequence[JoinAtom]) -> cel.Formula:
    parts: list[cel.Formula] = []
    conditions: list[pred.Condition] = []
    seen: dict[str, list[pred.Reference]] = {}
    for index, each in enumerate(atoms):
        ((_, kind),) = each.types
        parts.append(cel.As(cel.Event(kind), str(index)))
        for name, column in each.columns.items():
            here = pred.Reference(str(index), pred.Attribute((column,)))
            conditions += [pred.Compare("=", other, here) for other in seen.get(name, ())]
            seen.setdefault(name, []).append(here)
        for part in getattr(each.test, "parts", ()):
            if not isinstance(part.atom, TypeIs):
                conditions.append(pred.Holds(str(index), part.atom))
    body = parts[0] if len(parts) == 1 else cel.All(tuple(parts))
    return cel.Filter(body, pred.AllOf(tuple(conditions)))


def expected(atoms: Sequence[JoinAtom], events: Sequence[Event]) -> list[tuple[Any, ...]]:
    def plain(v: Valuation) -> tuple[Any, ...]:
        kept = sorted((x, p) for x, p in v.labels if x.isdigit())
        return v.start, v.end, tuple(kept)

    return sorted({plain(v) for v in oracle.find_valuations(as_formula(atoms), events)})


@pytest.mark.parametrize("seed", range(200))
def test_random_hierarchical_joins_have_one_run_for_each_match(seed: int) -> None:
    rng = random.Random(seed)
    atoms = random_atoms(rng)
    values = [0, 1, 1, 1, 1.0, None, float("nan"), "x"]
    events: list[Event] = [
        {
            "type": rng.choice("TTSR"),
            **{name: rng.choice(values[: rng.choice((2, 2, 3, 8))]) for name in "abcde"},
        }
        for _ in range(rng.randrange(7))
    ]
    found = [
        (m.start, m.end, tuple(sorted((x, p) for x, at in m.labels.items() for p in at)))
        for m in NaiveRuns(construct_join(atoms)).run(events)
    ]
    assert sorted(found) == expected(atoms, events)


# ------------------------------------------------------- conjunctive queries


def by_automaton(query: ConjunctiveQuery, events: Sequence[Event]) -> list[tuple[Any, ...]]:
    window = None if query.within is None else int(query.within.size)
    runs = NaiveRuns(construct_join(make_join(query).atoms), window)
    return sorted((m.start, m.end, tuple(sorted(m.labels.items()))) for m in runs.run(events))


@given(joins(hierarchical=True, timestamps=False, between=False))
def test_a_random_hierarchical_query_and_its_automaton_agree(
    case: tuple[str, list[Event]],
) -> None:
    text, events = case
    query = parse(text)
    assert find_conflict(make_join(query).variables) is None
    assert make_join(query).residual == ()
    matches = oracle.evaluate(lower(query), events)
    found = sorted((m.start, m.end, tuple(sorted(m.vars.items()))) for m in matches)
    assert by_automaton(query, events) == found


def test_what_the_automaton_of_a_query_leaves_out() -> None:
    query = parse("Q(x, y, t) <- T(a: x)@t, S(b: y)@t, R(a: x)@u, x < y, x < 3, t - u < 5")
    join = make_join(query)
    assert [str(node) for node in join.residual] == ["x < y", "t - u < 5"]
    assert [dict(atom.columns) for atom in join.atoms] == [
        {"x": "a", "t": "@time"},
        {"y": "b", "t": "@time"},
        {"x": "a"},
    ]


def test_a_query_that_is_not_hierarchical_says_which_variables_are_in_the_way() -> None:
    query = parse("Q1(x, y) <- T(a: x), R(a: x, b: y), S(a: 2, b: y), T(a: x)")
    found = find_conflict(make_join(query).variables)
    assert found is not None
    assert found.explain([atom.short for atom in query.atoms]) == (
        "'x' and 'y' meet in R(x, y), but T(x) has only 'x' and S(2, y) only 'y'"
    )
    with pytest.raises(ValueError, match="not hierarchical"):
        construct_join(make_join(query).atoms)


def test_an_event_has_one_time_and_is_not_asked_for_it() -> None:
    made = construct_join(make_join(parse("Q(t) <- R()@t, R()@t")).atoms)
    assert made.tests() == (R,)
    events = [{"type": "R", "@time": 1}, {"type": "R", "@time": 1}, {"type": "R", "@time": 2}]
    assert [(m.start, m.end) for m in NaiveRuns(made).run(events)].count((0, 1)) == 2
