"""Frozen sessions: bytes of every released format keep thawing; others are refused."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cernis
from cernis.engine.dag.records import NODE
from cernis.engine.unary.arena import NODE as ARENA_NODE
from cernis.engine.unary.stacks import ROW
from cernis.pattern.query import counts_only
from cernis.run.rules.shared.shared_rules import SMALLEST
from cernis.state import VERSION
from cernis.state import pack as pack_tree
from cernis.state import unpack as unpack_tree
from cernis.testing import oracle
from cernis.testing.conjunctive import oracle as conjunctive_oracle
from tools.cases.differential import comparable_match
from tools.cases.frozen import pack_parts as pack
from tools.cases.frozen import unpack_parts as unpack

RELEASED = Path(__file__).parent / "frozen"


class Case(NamedTuple):
    """A query, with the events before its session is frozen and those after it is thawed."""

    query: Any
    before: Any
    after: Any

    def frozen(self) -> bytes:
        session = self.query.session()
        session.push(self.before)
        return session.freeze()

    def expected(self) -> list[Any]:
        """What the oracle has for the events after."""
        events = [*self.before, *self.after]
        pattern = self.query.pattern
        if pattern.grouping is not None:
            groups = oracle.evaluate_groups(pattern, events)
            return sorted([*group.partition.values(), *group.values.values()] for group in groups)
        if counts_only(pattern):
            counts = oracle.count_matches(pattern, events)
            return [count for count in counts if count[0] >= len(self.before)]
        if self.query.conjunctive is None:
            found = oracle.evaluate(self.query.pattern, events)
            return sorted(
                comparable_match(match) for match in found if match.end >= len(self.before)
            )
        answers = conjunctive_oracle.find_answers(self.query.conjunctive, events)
        return sorted((end, key) for key, end in answers.items() if end >= len(self.before))

    def found(self, session: cernis.Session) -> list[Any]:
        """What a thawed session has for them."""
        pattern = self.query.pattern
        if pattern.grouping is not None:
            session.push(self.after)
            return sorted(list(row.values()) for row in session.finish().to_arrow().to_pylist())
        if counts_only(pattern):
            counts = session.push(self.after).counts().to_pydict()
            return list(zip(counts["end"], counts["count"], strict=True))
        if self.query.conjunctive is None:
            return sorted(map(comparable_match, session.push(self.after)))
        return sorted((each.end, tuple(each.values.values())) for each in session.push(self.after))


class Unbroken(Case):
    """A query or a rule set whose state has more than partial matches, or that is of RDF graphs.

    It must go on as a session does that was never frozen.
    """

    def expected(self) -> list[Any]:
        session = self.query.session()
        session.push(self.before)
        return self.found(session)

    def found(self, session: Any) -> list[Any]:
        return [*list_lines(session.push(self.after)), "finish", *list_lines(session.finish())]


def list_lines(found: Any) -> list[str]:
    """Return what was found as lines, of a rule set with the rule before each."""
    if isinstance(found, Mapping):
        return [f"{rule}: {line}" for rule in found for line in list_lines(found[rule])]
    return sorted(map(str, found.to_arrow().to_pylist()))


def events(number: int) -> list[dict[str, Any]]:
    """The same for ever, whatever Python's random does: the bytes that are kept hold them."""
    drawn, state = [], 1
    for time in range(number):
        state = (1103515245 * state + 12345) % 2**31
        kind, key, other = state >> 16, state >> 20, state >> 24
        drawn.append({"type": "ABC"[kind % 3], "ts": time, "id": key % 3, "u": other % 4})
    return drawn


def ceql(text: str, select: str = "*") -> Case:
    drawn = events(40)
    return Case(cernis.query(f"SELECT {select} FROM S WHERE {text}"), drawn[:25], drawn[25:])


def unbroken(text: str, select: str = "*") -> Unbroken:
    return Unbroken(*ceql(text, select))


def write_graphs(first: int, number: int) -> bytes:
    """Return readings of three sensors in N-Quads, one a second."""
    integer = "<http://www.w3.org/2001/XMLSchema#integer>"
    return "".join(
        f"<urn:x:s{at % 3}> <urn:x:in> <urn:x:room{at % 2}> <urn:x:e/at/{at}> .\n"
        f'<urn:x:s{at % 3}> <urn:x:value> "{7 * at % 11}"^^{integer} <urn:x:e/at/{at}> .\n'
        for at in range(first, first + number)
    ).encode()


def graphs(sequence: str, clauses: str = "") -> Unbroken:
    query = cernis.query(
        f"PREFIX : <urn:x:> SELECT ?room ?v ?w {clauses} WITHIN 9 SECONDS FROM STREAM S <urn:x:s> "
        f"WHERE {{ SEQ ({sequence}) DEFINE GPM A ON S {{ ?s :in ?room . ?s :value ?v }} "
        "DEFINE GPM B ON S { ?t :in ?room . ?t :value ?w FILTER (?w > ?v) } }",
        lang="spaseq",
    )
    return Unbroken(query, write_graphs(0, 12), write_graphs(12, 12))


def rules(texts: Mapping[str, str]) -> Unbroken:
    drawn = events(40)
    return Unbroken(cernis.rules(texts), drawn[:25], drawn[25:])


def conjunctive(text: str) -> Case:
    drawn = events(40)
    return Case(cernis.query(text, lang="cq"), drawn[:25], drawn[25:])


def long_numbers() -> Case:
    """Sums beyond 64 bits."""
    drawn = [{**event, "w": (event["u"] - 1) * 2**60 - event["ts"]} for event in events(40)]
    pattern = "(A AS x ; B AS y) PARTITION BY [id] WITHIN 12 EVENTS GROUP BY [id]"
    query = cernis.query(f"SELECT [id], COUNT(*) AS n, SUM(x[w]) AS total FROM S WHERE {pattern}")
    return Case(query, drawn[:25], drawn[25:])


UNARY = Case(
    cernis.query(
        "SELECT * FROM S WHERE (A AS a ; B+ AS b) FILTER a[x > 1] PARTITION BY [k] WITHIN 20 EVENTS"
    ),
    [
        {"type": "A", "x": 2, "k": "u"},
        {"type": "A", "x": 1, "k": "u"},
        {"type": "A", "x": 3, "k": "v"},
        {"type": "B", "x": 0, "k": "u"},
    ],
    [{"type": "B", "x": 0, "k": "v"}, {"type": "B", "x": 0, "k": "u"}],
)

CORRELATED = {
    "equal": "(A AS x ; B AS y ; C AS z) FILTER x[id] = y[id] AND y[id] = z[id]",
    "unlike": "(A AS x ; B AS y) FILTER x[id] = y[id] AND x[u] != y[u]",
    "ordered": "(A AS x ; B AS y) FILTER x[id] = y[id] AND x[u] < y[u]",
    "joined": "(A AS x ALL B AS y ALL C AS z) FILTER x[id] = y[id] AND y[id] = z[id]",
    "residual": "(A AS x ; B AS y ; C AS z) FILTER x[id] = z[id]",
}

CASES = {
    "unary": UNARY,
    "clock": ceql("(A AS x ; B AS y) FILTER x[u > 0] WITHIN 15 [ts]"),
    **{name: ceql(f"{formula} WITHIN 12 EVENTS") for name, formula in CORRELATED.items()},
    "chosen": ceql(
        "(A AS x ; B AS y ; C AS z) FILTER x[id] = z[id] PARTITION BY [u] CONSUME BY PARTITION"
    ),
    "strategy": ceql("(A+ AS x ; B AS y) PARTITION BY [id] WITHIN 12 EVENTS", "MAX *"),
    "next": ceql("(A AS x ; B+ AS y) PARTITION BY [id] WITHIN 12 EVENTS", "NEXT *"),
    "consumed": ceql("(A AS x ; B AS y) PARTITION BY [id] CONSUME BY PARTITION"),
    "forgotten": ceql("(A AS x ; B AS y) PARTITION BY [id] FORGET AFTER 4 MILLISECONDS"),
    "counted": ceql("(A AS x ; B+ AS y) PARTITION BY [id] WITHIN 12 EVENTS", "COUNT(*)"),
    "grouped": ceql(
        "(A AS x ; B AS y) PARTITION BY [id] WITHIN 12 EVENTS GROUP BY [id]",
        "[id], COUNT(*) AS n, SUM(x[u]) AS total",
    ),
    "long": long_numbers(),
    "answers": conjunctive("Q(x, y) <- A(id: x, u: y), B(id: x, u: z) WITHIN 12 EVENTS"),
    "collapsed": conjunctive(
        "Q(y, t3) <- A(id: x)@t1, B(id: x, u: y)@t2, C(u: y)@t3, t1 < t2 < t3, t3 - t1 < 12"
    ),
}
CASES |= {
    "absent": unbroken(
        "A AS a WITHOUT (B AS b FILTER b[u] = a[u]) FOR 6 MILLISECONDS PARTITION BY [id]"
    ),
    "absent-events": unbroken("A ; B WITHOUT C ; A FOR 5 EVENTS PARTITION BY [id]"),
    "absent-before": unbroken("B AS b WITHOUT (A AS a FILTER a[u] = b[u]) BEFORE 6 MILLISECONDS"),
    "longest": unbroken("(A AS a ; B+ AS b) PARTITION BY [id] WITHIN 12 EVENTS", "LONGEST *"),
    "silenced": unbroken(
        "(A AS a ; B AS b) PARTITION BY [id] WITHIN 9 EVENTS SUPPRESS BY [id] FOR 9 MILLISECONDS"
    ),
    "best": unbroken(
        "(A AS a ; B+ AS b) WITHIN 9 EVENTS ORDER BY SUM(b[u]) DESC LIMIT 2 EVERY 9 MILLISECONDS"
    ),
    "overall": unbroken(
        "(A AS a ; B AS b) WITHIN 9 EVENTS ORDER BY b[u] - a[u] DESC LIMIT 4 OVERALL"
    ),
    "arrow": unbroken("(A AS x -> B+ AS y) FILTER x[id] = y[id] WITHIN 12 EVENTS"),
    "gaps": unbroken("(A AS x ;[2 TO 9 MILLISECONDS] B AS y ;[9 EVENTS] C) FILTER x[u] = y[u]"),
    "every": unbroken(
        "(A AS x ; B AS y) PARTITION BY [id] WITHIN 12 EVENTS GROUP BY [id], EVERY 10 MILLISECONDS",
        "[id], COUNT(*) AS n, MAX(y[u]) AS most",
    ),
    "starts": unbroken(
        "(A AS x ; B AS y) PARTITION BY [id] WITHIN 12 EVENTS "
        "GROUP BY [id], EVERY 10 MILLISECONDS OF START",
        "[id], COUNT(*) AS n, MAX(y[u]) AS most",
    ),
    "distinct": unbroken(
        "(A AS x ; B AS y) WITHIN 12 EVENTS GROUP BY EVERY 10 MILLISECONDS",
        "COUNT(DISTINCT x[id]) AS n",
    ),
    "graphs": graphs("A : B"),
    "graph-iterations": graphs("A ; B+", "PARTITION BY (?room)"),
    "rules": rules(
        {
            "pairs": "SELECT * FROM S WHERE (A AS a ; B AS b) WITHIN 9 EVENTS",
            "alone": "SELECT * FROM S WHERE A WITHOUT B FOR 6 MILLISECONDS",
            "makes": "INSERT INTO D SELECT a[u] AS u FROM S WHERE A AS a",
            "reads": "SELECT * FROM S, D WHERE D AS d ; S>B AS b WITHIN 9 EVENTS",
        }
    ),
    "family": rules(
        {
            f"pairs {i}": "SELECT * FROM S WHERE (A AS a ; B AS b) "
            f"FILTER a[u = {i}] AND b[u = {i}] WITHIN 9 EVENTS"
            for i in range(SMALLEST + 1)
        }
    ),
}
FIXTURES = sorted(RELEASED.glob("*/*.bin"))


def test_the_answers_after_a_thaw_are_worked_out_by_hand() -> None:
    matches = UNARY.query.thaw(UNARY.frozen()).push(UNARY.after)
    assert sorted((m.end, m.vars["a"], m.vars["b"], m.partition["k"]) for m in matches) == [
        (4, [2], [4], "v"),
        (5, [0], [3, 5], "u"),
        (5, [0], [5], "u"),
    ]


@pytest.mark.parametrize("name", CASES)
def test_a_thawed_session_goes_on_where_it_was_frozen(name: str) -> None:
    case = CASES[name]
    expected = case.expected()
    assert case.found(case.query.thaw(case.frozen())) == expected != []
    if hasattr(expected[0], "start"):  # some began before
        assert any(match.start < len(case.before) for match in expected)


@pytest.mark.parametrize("file", FIXTURES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_bytes_of_every_released_format_still_thaw(file: Path) -> None:
    case = CASES[file.parent.name]
    assert case.found(case.query.thaw(file.read_bytes())) == case.expected()


@pytest.mark.parametrize("name", CASES)
def test_the_format_of_this_version_has_its_bytes_kept(name: str) -> None:
    """Run this file as a script to write them, when the format has a new version."""
    assert (RELEASED / name / f"version-{VERSION}.bin").exists()


def frozen() -> bytes:
    return UNARY.frozen()


def test_another_query_is_refused() -> None:
    with pytest.raises(cernis.StateError, match="frozen by another query"):
        cernis.query("SELECT * FROM S WHERE A").thaw(frozen())


def test_other_bytes_are_refused() -> None:
    with pytest.raises(cernis.StateError, match="not a frozen Cernis state"):
        UNARY.query.thaw(b"PK\x03\x04 something else")


def test_another_version_is_refused() -> None:
    state = bytearray(frozen())
    struct.pack_into("<H", state, 8, VERSION + 1)
    with pytest.raises(cernis.StateError) as raised:
        UNARY.query.thaw(bytes(state))
    assert str(raised.value) == (
        f"the state was frozen in version {VERSION + 1} of the format, and this Cernis reads "
        f"version {VERSION}; thaw it with the Cernis that froze it, or run the query on the stream "
        "from its beginning"
    )


def test_damaged_bytes_are_refused() -> None:
    state = bytearray(frozen())
    state[-1] ^= 1
    with pytest.raises(cernis.StateError, match="damaged"):
        UNARY.query.thaw(bytes(state))


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("slots", "'slots' is out of range"),
        ("row_of_key", "'row_of_key' is out of range"),
        ("free_rows", "'free_rows' is out of range"),
    ],
)
def test_numbers_that_lead_nowhere_are_refused(part: str, message: str) -> None:
    meta, arrays = unpack(frozen())
    arrays[f"engine/{part}"] = np.full_like(arrays[f"engine/{part}"], 1_000_000)
    with pytest.raises(cernis.StateError, match=message):
        UNARY.query.thaw(pack(meta, arrays))


def test_links_that_lead_nowhere_are_refused() -> None:
    meta, arrays = unpack(frozen())
    arrays["engine/arena"].view(ARENA_NODE)["left"] = 1_000_000
    with pytest.raises(cernis.StateError, match="'left of arena' is out of range"):
        UNARY.query.thaw(pack(meta, arrays))


def arrays_of(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return unpack(CASES[name].frozen())


@pytest.mark.parametrize("name", CASES)
def test_every_array_is_missed_and_must_have_its_shape(name: str) -> None:
    _, arrays = arrays_of(name)
    for part in arrays:
        meta, changed = arrays_of(name)
        found = changed.pop(part)
        states = [pack(meta, changed), pack(meta, {**changed, part: found[None]})]
        for state in states[part.endswith(".numbers") :]:  # else as if there were no such keys
            with pytest.raises(cernis.StateError, match="damaged"):
                CASES[name].query.thaw(state)


def test_a_state_of_rows_that_are_free_twice_is_refused() -> None:
    meta, arrays = unpack(frozen())
    arrays["engine/free_rows"][0] = arrays["engine/free_rows"][1]
    with pytest.raises(cernis.StateError, match="rows and partitions do not belong"):
        UNARY.query.thaw(pack(meta, arrays))


def test_an_unknown_label_is_refused_and_leaves_the_query_as_it_was() -> None:
    query = cernis.query(str(UNARY.query.pattern))
    meta, arrays = unpack(frozen())
    meta["engine"]["labels"][1] = ["of another query"]
    before = list(query.plan.unary.tables.labels), len(query.plan.unary.automaton.states)
    with pytest.raises(cernis.StateError, match="the query has no such labels"):
        query.thaw(pack(meta, arrays))
    meta, arrays = unpack(frozen())
    meta["engine"]["states"][0] = [[[99, [], []]], [], []]
    with pytest.raises(cernis.StateError, match="the query has no such states"):
        query.thaw(pack(meta, arrays))
    assert before == (list(query.plan.unary.tables.labels), len(query.plan.unary.automaton.states))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM S WHERE A AS a ; B AS b ORDER BY b[x] - a[x] DESC LIMIT 2 EVERY 9 [ts]",
        "SELECT a[x] AS x, b[x] AS y FROM S WHERE A AS a ; B AS b",
        "SELECT b[x] - a[x] AS rise FROM S WHERE A AS a ; B AS b",
    ],
)
def test_labels_of_other_variables_are_refused_where_their_events_are_missed(text: str) -> None:
    query = cernis.query(text.replace("9 [ts]", "9 MILLISECONDS"))
    session = query.session()
    session.push([{"type": "A", "ts": 1, "x": 1}])
    meta, arrays = unpack(session.freeze())
    assert meta["engine"]["labels"] == [[], ["a"]]
    meta["engine"]["labels"][1] = ["b"]
    thawed = query.thaw(pack(meta, arrays))
    with pytest.raises(cernis.StateError, match=r"damaged: '[ab]' does not hold one event"):
        thawed.push([{"type": "B", "ts": 2, "x": 2}, {"type": "C", "ts": 20, "x": 2}]).to_arrow()


SECRET, OTHER = "0123456789abcdef", b"fedcba9876543210"


@pytest.mark.parametrize("kind", ["query", "rules", "graphs"])
def test_signed_bytes_thaw_with_their_secret_only(kind: str) -> None:
    text = "SELECT * FROM S WHERE A ; B"
    graphs = "WHERE { SEQ (A ; A) DEFINE GPM A ON S { ?a ?b ?c } }"
    asked: Any = {
        "query": lambda: cernis.query(text),
        "rules": lambda: cernis.rules({"pair": text}),
        "graphs": lambda: cernis.query(
            f"SELECT ?a WITHIN 9 SECONDS FROM STREAM S <urn:s> {graphs}", lang="spaseq"
        ),
    }[kind]()
    session = asked.session()
    quad = b"<urn:a> <urn:b> <urn:c> <urn:e/1> .\n"
    session.push(quad if kind == "graphs" else [{"type": "A"}])
    plain, signed = session.freeze(), session.freeze(secret=SECRET)
    again = asked.thaw(signed, secret=SECRET.encode()).freeze(secret=SECRET)
    asked.thaw(again, secret=SECRET)
    for frozen_bytes, secret, message in (
        (signed, None, "the frozen state is signed: give the secret that it was signed with"),
        (signed, OTHER, "was signed with another secret, or was changed since"),
        (signed[:-1] + bytes([signed[-1] ^ 1]), SECRET, "or was changed since"),
        (plain, SECRET, "the frozen state is not signed, and a secret was given"),
        (signed[:20], SECRET, "or was changed since"),
    ):
        with pytest.raises(cernis.StateError, match=message):
            asked.thaw(frozen_bytes, secret=secret)
    with pytest.raises(cernis.CernisError, match="a secret has at least 16 bytes, and this one"):
        session.freeze(secret="short")
    with pytest.raises(cernis.CernisError, match="a secret is text or bytes, not int"):
        session.freeze(secret=5)


def test_states_of_a_thawed_session_stay_its_own() -> None:
    query = cernis.query(str(UNARY.query.pattern))
    thawed = query.thaw(frozen())
    assert not query.plan.unary.automaton.states
    assert thawed.push(UNARY.after).count() == 3
    assert not query.plan.unary.automaton.states


def test_a_vertex_that_gathers_itself_is_refused() -> None:
    meta, arrays = arrays_of("equal")
    nodes = arrays["engine/runs/nodes"].view(NODE)
    nodes["later"][1:] = np.arange(1, len(nodes))
    nodes["since"][1:] = 1
    with pytest.raises(cernis.StateError, match=r"'nodes' (are no heaps|lead in a circle)"):
        CASES["equal"].query.thaw(pack(meta, arrays))


def test_too_many_buckets_are_refused_before_room_is_made_for_them() -> None:
    meta, arrays = arrays_of("equal")
    meta["engine"]["runs"]["capacity"] = [2**29 for _ in meta["engine"]["runs"]["capacity"]]
    with pytest.raises(cernis.StateError, match="its buckets do not fit its keys"):
        CASES["equal"].query.thaw(pack(meta, arrays))


COUNTED = "SELECT COUNT(*) FROM S WHERE (A AS a ; B+ AS b) PARTITION BY [id] WITHIN 12 EVENTS"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("front", 1_000_000, "a vector lies outside"),
        ("size", 1_000_000, "'size of rows' is out of range"),
        ("begun", 1_000_000, "the events of its partitions are mixed up"),
        ("last", 0, "the events of its partitions are mixed up"),
        ("key", 1, "rows and partitions do not belong to each other"),
    ],
)
def test_aggregates_that_lead_outside_are_refused(field: str, value: int, message: str) -> None:
    query = cernis.query(COUNTED)
    session = query.session()
    session.push(events(60))
    meta, arrays = unpack(session.freeze())
    rows = arrays["engine/rows"].view(ROW)
    rows[field] = value
    if field == "front":
        rows["fronts"] = 1
    with pytest.raises(cernis.StateError, match=message):
        query.thaw(pack(meta, arrays))


def test_a_header_that_nests_too_deeply_is_refused() -> None:
    header = b'{"meta":' + b"[" * 200_000 + b"]" * 200_000 + b',"arrays":[]}'
    head = struct.pack("<8sHIQ", b"CERNIS\n\x00", VERSION, zlib.crc32(header), len(header))
    with pytest.raises(cernis.StateError, match="its header cannot be read"):
        UNARY.query.thaw(head + header)


# ------------------------------------------------------------- damaged states


@cache
def freeze_case(name: str) -> bytes:
    return CASES[name].frozen()


def damage(draw: random.Random, tree: Any) -> None:
    """Change a number, a name or an array of a state, wherever it stands."""
    part, name = tree, draw.choice(list(tree))
    while isinstance(part[name], dict | list) and part[name] and draw.random() < 0.95:
        part = part[name]
        name = draw.choice(list(part) if isinstance(part, dict) else range(len(part)))
    value = part[name]
    if isinstance(value, np.ndarray) and value.size:
        shape = draw.random()
        if shape < 0.1:
            part[name] = draw.choice((value[None], value[:-1], value.astype(np.float64)))
            return
        width = draw.choice((1, 4, 8))
        flat = value.reshape(-1).view(np.uint8)
        flat = flat[: len(flat) // width * width].view(f"<i{width}" if width > 1 else np.uint8)
        if len(flat):
            number = np.int64(draw.choice((0, 1, 2, 3, 7, 127, -1, 2**30, 2**62)))
            flat[draw.randrange(len(flat))] = number.astype(flat.dtype)
        return
    number = value if isinstance(value, int) else 0
    part[name] = draw.choice((None, -1, number + 1, number - 1, 2**62, 2**64, "x", [], {}, True))


@settings(max_examples=max(300, settings.default.max_examples), deadline=None)
@given(st.sampled_from(sorted(CASES)), st.randoms(use_true_random=False))
def test_a_damaged_state_is_refused_or_does_no_harm(name: str, draw: random.Random) -> None:
    tree = unpack_tree(freeze_case(name))
    damage(draw, tree)
    try:
        CASES[name].found(CASES[name].query.thaw(pack_tree(tree)))
    except cernis.CernisError:
        return


# ------------------------------------------------------------- correlation


@pytest.mark.parametrize("formula", CORRELATED.values(), ids=CORRELATED)
def test_a_damaged_state_of_correlation_is_refused_or_does_no_harm(formula: str) -> None:
    query = cernis.query(f"SELECT * FROM S WHERE {formula} WITHIN 30 EVENTS")
    session = query.session()
    session.push(events(80))
    frozen = session.freeze()
    draw = random.Random(formula)
    refused = 0
    for _ in range(60):
        meta, arrays = unpack(frozen)
        name = draw.choice([n for n, a in arrays.items() if a.size and not n.startswith("table")])
        flat = arrays[name].view(np.uint8).reshape(-1)
        flat[draw.randrange(flat.size)] = draw.choice([0, 1, 2, 3, 7, 255])
        try:
            matches = query.thaw(pack(meta, arrays)).push(events(30))
            assert matches.count() >= len(list(matches.head(5)))
        except cernis.CernisError:
            refused += 1
    assert refused


def test_what_is_not_in_the_bytes_is_said_when_thawing() -> None:
    formula = "(A AS x ; B AS y ; C AS z) FILTER x[id] > z[id] AND y[id] < z[id] + 9"
    query = cernis.query(f"SELECT * FROM S WHERE {formula}")
    session = query.session(time="id", budget=2, on_budget="partial")
    session.push([{"type": "A", "id": 1}])
    thawed = query.thaw(session.freeze(), budget=1, on_budget="partial")
    assert thawed.options.time == "id"
    later = [{"type": t, "id": 2} for t in "BBBC"]
    assert thawed.push([*later, {"type": "C", "id": 3}]).partial


def write_missing_fixtures() -> None:
    for name, case in CASES.items():
        file = RELEASED / name / f"version-{VERSION}.bin"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(case.frozen())


if __name__ == "__main__":
    write_missing_fixtures()
