"""One query in several threads: every session finds what it finds alone."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from time import sleep
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

import cernis
from cernis.automata.unary.determinize import Deterministic
from cernis.engine.correlated import tables as correlated_tables
from cernis.rdf.reading import merge
from cernis.run.rules.shared.shared_rules import SMALLEST

THREADS, ROUNDS = 4, 3
UNARY = "SELECT * WHERE ((A OR B) ; (C OR D)+ ; (A OR E) ; F?) AS x ; G WITHIN 9 EVENTS"
QUERIES = {
    "unary": UNARY,
    "unary, by key": UNARY.replace("WITHIN", "PARTITION BY [k] WITHIN"),
    "unary, resolved": UNARY.replace("SELECT", "SELECT NEXT"),
    "unary, with guards": "SELECT * WHERE (A ; B ; C UNLESS D) ; (E ALL F) WITHIN 9 EVENTS",
    "counts": UNARY.replace("SELECT *", "SELECT COUNT(*)"),
    "correlated": """SELECT * WHERE (A AS a ; B AS b ; (C OR D OR E) AS c)
        FILTER a[k] = b[k] AND b[n] < c[n] AND a[n < 8] AND b[n > 1] WITHIN 15 EVENTS""",
    "listed": """SELECT LAST * WHERE (A AS a ; (B OR C) AS b ; D AS d) FILTER a[k] = d[k]
        WITHIN 9 EVENTS""",
    "arrow": "SELECT * WHERE (A AS a -> (B OR C) AS b) FILTER a[k] = b[k] WITHIN 15 EVENTS",
    "gaps": """SELECT * WHERE (A AS a ;[4 EVENTS] (B OR C)+ AS b ; D) FILTER a[n < 8]
        WITHIN 9 EVENTS""",
    "longest": "SELECT LONGEST * WHERE (A ; (B OR C)+ AS c) PARTITION BY [k] WITHIN 9 EVENTS",
    "absence": """SELECT * WHERE (A ; (B OR E)) WITHOUT (C ; D) FOR 4 EVENTS
        WITHOUT F BEFORE 3 EVENTS PARTITION BY [k] WITHIN 9 EVENTS""",
    "compared absence": "SELECT * WHERE A AS a WITHOUT (B AS b FILTER b[k] = a[k]) FOR 4 EVENTS",
    "groups": """SELECT [k], COUNT(*) AS m, SUM(b[n]) AS s WHERE (A AS a ; (B OR C)+ AS b)
        PARTITION BY [k] WITHIN 9 EVENTS GROUP BY [k]""",
    "conjunctive": "Q(x, y) <- A(k: x, n: y), B(k: x), C(k: x) WITHIN 15 EVENTS",
    "answers": "Q(x) <- A(k: x, n: y)@t, B(k: x, n: z)@u, t < u, y < z WITHIN 15 EVENTS",
}


def make(kind: str) -> Any:
    """Return a query that has not run yet."""
    return cernis.query(QUERIES[kind], lang="cq" if "<-" in QUERIES[kind] else "ceql")


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Switch between threads as often as possible, above all while an automaton grows."""
    for owner, name in ((Deterministic, "_follow"), (correlated_tables, "_ints")):
        monkeypatch.setattr(owner, name, let_others_go_first(getattr(owner, name)))
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def let_others_go_first(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        sleep(1e-5)
        return function(*arguments)

    return call


def batches(seed: int) -> list[pa.Table]:
    """Return a stream in small pieces, whose types turn up one after the other."""
    draw = random.Random(seed)
    types = draw.sample("ABCDEFGH", 8)
    found = []
    for size in range(1, 14):
        chosen = [draw.choice(types[: 2 + size]) for _ in range(size)]
        numbers = [draw.randrange(10) for _ in range(2 * size)]
        keys = [number % 3 for number in numbers[:size]]
        found.append(pa.table({"type": chosen, "k": keys, "n": numbers[size:]}))
    return found


def answer(query: Any, seed: int) -> list[Any]:
    """Return the answers to every piece of a stream."""
    session = query.session()
    found = [session.push(batch) for batch in batches(seed)]
    return [rows for each in (*found, session.finish()) for rows in list_rows(each)]


def list_rows(found: Any) -> list[Any]:
    """Return rows of matches, of those of each rule for a rule set."""
    several = found.values() if isinstance(found, Mapping) else [found]
    return [each.to_arrow().to_pylist() for each in several]


def run_together(work: Callable[[int], Any]) -> list[Any]:
    """Return what each thread finds; they begin at the same time."""
    begin = Barrier(THREADS)

    def run(number: int) -> Any:
        begin.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(run, range(THREADS)))


@pytest.mark.parametrize("kind", QUERIES)
def test_a_query_may_be_shared_between_threads(kind: str, hasty: None) -> None:
    alone = [answer(make(kind), seed) for seed in range(ROUNDS + THREADS)]
    assert any(any(found) for found in alone)
    for round_ in range(ROUNDS):
        query = make(kind)
        found = run_together(lambda number: answer(query, round_ + number))  # noqa: B023
        assert found == alone[round_ : round_ + THREADS]


def test_a_rule_set_may_be_shared_between_threads(hasty: None) -> None:
    texts = {name: text for name, text in QUERIES.items() if "<-" not in text}
    texts = {name: text.replace("WHERE", "FROM S WHERE", 1) for name, text in texts.items()}
    for number in range(SMALLEST + 1):
        texts[f"family {number}"] = (
            f"SELECT * FROM S WHERE (A AS a ; (B OR C) AS b) FILTER a[n = {number}] WITHIN 9 EVENTS"
        )
    texts["makes"] = "INSERT INTO D SELECT a[n] AS n FROM S WHERE A AS a"
    texts["reads"] = "SELECT * FROM S, D WHERE D AS d ; S>B AS b WITHIN 9 EVENTS"
    alone = [answer(cernis.rules(texts), seed) for seed in range(THREADS)]
    assert any(any(found) for found in alone)
    rules = cernis.rules(texts)
    assert run_together(lambda number: answer(rules, number)) == alone


GRAPHS = """
PREFIX : <urn:x:>
SELECT ?a ?n WITHIN 20 MILLISECONDS FROM STREAM S <urn:x:s>
WHERE {
  SEQ (A ; B+)
  DEFINE GPM A ON S { ?a :is 1 ; :has ?n }
  DEFINE GPM B ON S { ?b :is ?c ; :has ?m FILTER (?m > ?n && REGEX(STR(?b), "[02468]$")) }
}
"""


def test_a_query_over_graphs_may_be_shared_between_threads(hasty: None) -> None:
    def answer_graphs(query: Any, seed: int) -> list[Any]:
        draw, integer = random.Random(seed), "http://www.w3.org/2001/XMLSchema#integer"
        lines = [
            f'<urn:x:{i}> <urn:x:{name}> "{draw.randrange(4)}"^^<{integer}> <urn:x:g/{i}> .'
            for i in range(30)
            for name in ("is", "has")
        ]
        found = query.stream("\n".join(lines).encode())
        return [row for matches in found for row in matches.to_arrow().to_pylist()]

    with mock.patch.object(merge, "EVENTS", 4):
        alone = [
            answer_graphs(cernis.query(GRAPHS, lang="spaseq"), seed)
            for seed in range(ROUNDS + THREADS)
        ]
        assert all(alone)
        for round_ in range(ROUNDS):
            query = cernis.query(GRAPHS, lang="spaseq")
            found = run_together(lambda number: answer_graphs(query, round_ + number))  # noqa: B023
            assert found == alone[round_ : round_ + THREADS]


def test_sessions_may_be_frozen_and_thawed_in_several_threads(hasty: None) -> None:
    alone = [answer(make("unary"), seed) for seed in range(ROUNDS + THREADS)]

    def answer_with_breaks(query: Any, seed: int) -> list[Any]:
        session, found = query.session(), []
        for batch in batches(seed):
            session = query.thaw(session.freeze())
            found += list_rows(session.push(batch))
        return [*found, *list_rows(session.finish())]

    for round_ in range(ROUNDS):
        query = make("unary")
        found = run_together(lambda number: answer_with_breaks(query, round_ + number))  # noqa: B023
        assert found == alone[round_ : round_ + THREADS]


def test_queries_may_be_made_in_several_threads(hasty: None) -> None:
    found = run_together(lambda _: [str(make(kind)) for kind in QUERIES])
    assert found == [[str(make(kind)) for kind in QUERIES]] * THREADS


def test_an_automaton_that_was_interrupted_while_it_grew_is_as_good_as_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ctrl-C in one session must not leave a mark on the others of the query."""
    alone = [answer(make("unary"), seed) for seed in range(6)]
    query = make("unary")
    tables = query.plan.unary.tables
    grown = {name: getattr(type(tables), name) for name in ("_append", "_fill", "_reserve")}
    left = 0

    def interrupt(name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
            return grown[name](*arguments)

        return call

    for name in grown:
        monkeypatch.setattr(type(tables), name, interrupt(name))
    for count in range(1, 60, 2):
        left = count
        try:
            assert answer(query, count % 6) == alone[count % 6]
        except KeyboardInterrupt:
            left = 0
            assert answer(query, count % 6) == alone[count % 6]
