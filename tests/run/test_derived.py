"""INSERT INTO: matches as events of a stream that other rules read, in the same pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cernis
import cernis.pattern as p
from cernis.pattern.query import Consume, Pattern, Select, SelectedTerm, Strategy
from cernis.run.rules.rule import RuleSetError
from cernis.testing.rules import evaluate_rules
from tools.cases.differential import comparable_match, describe_case
from tools.cases.grammar import split_batches
from tools.cases.strategies import cases, cuts
from tools.cases.tables import make_table
from tools.cases.terms import make_term

Events = Sequence[dict[str, Any]]
Rules = dict[str, Pattern]

some = settings(
    max_examples=max(40, settings.default.max_examples // 2),
    suppress_health_check=list(HealthCheck),
)
READERS = (
    "SELECT * FROM D WHERE D AS p FILTER p[v > 0]",
    "SELECT * FROM D WHERE D AS p ; D AS q",
    "SELECT * FROM S, D WHERE S>A AS a ; D AS p",
    "SELECT * FROM S, D WHERE S>B AS b : D AS p",
    "SELECT * FROM D, S WHERE D AS p : S>A AS a WITHIN 5 EVENTS",
    "INSERT INTO E SELECT p[v] AS v, COUNT(*) AS n FROM D WHERE D AS p FILTER p[v < 3]",
)
LATE = (
    "INSERT INTO D SELECT COUNT(*) AS v FROM S WHERE A AS a WITHOUT B FOR 2 MILLISECONDS",
    "INSERT INTO D SELECT COUNT(*) AS v FROM S WHERE A+ AS a WITHOUT (B ; A) FOR 1 MILLISECOND",
    "INSERT INTO D SELECT COUNT(*) AS v FROM S WHERE A ; B GROUP BY EVERY 3 MILLISECONDS",
)
LONGEST, COUNT = "INSERT INTO D SELECT LONGEST COUNT(*) AS v", "INSERT INTO D SELECT COUNT(*) AS v"
HELD = (
    f"{LONGEST} FROM S WHERE A+ AS a WITHIN 3 MILLISECONDS",
    f"{LONGEST} FROM S WHERE A : (A OR B)+ WITHIN 4 EVENTS",
    f"{LONGEST} FROM S WHERE A+ WITHOUT B FOR 2 MILLISECONDS WITHIN 4 EVENTS",
    f"{LONGEST} FROM S WHERE A+ WITHOUT B FOR 1 EVENTS WITHIN 4 EVENTS",
    f"{LONGEST} FROM S WHERE A+ WITHIN 3 MILLISECONDS GROUP BY EVERY 2 MILLISECONDS",
    f"{COUNT} FROM S WHERE A WITHOUT B FOR 2 EVENTS",
    f"{COUNT} FROM S WHERE A WITHOUT B FOR 1 EVENTS PARTITION BY [k]",
    f"{COUNT} FROM S WHERE A WITHOUT B FOR 3 MILLISECONDS GROUP BY EVERY 2 MILLISECONDS",
    f"{COUNT} FROM S WHERE A ; B ORDER BY COUNT(*) LIMIT 2 EVERY 3 MILLISECONDS",
)
DEEP = "INSERT INTO E SELECT MAX(p[v]) AS v, COUNT(*) AS n"
DEEPER = (
    f"{DEEP} FROM D WHERE D AS p WITHOUT D FOR 2 MILLISECONDS",
    f"{DEEP} FROM D WHERE D AS p WITHOUT D FOR 1 EVENTS",
    f"{DEEP} FROM D WHERE D AS p GROUP BY EVERY 2 MILLISECONDS",
    f"{DEEP.replace('MAX', 'LONGEST MAX')} FROM S, D WHERE (D AS p OR A):+ WITHIN 4 MILLISECONDS",
)
LAST = ("SELECT * FROM E WHERE E AS e", "SELECT * FROM S, E, D WHERE S>A ; E AS e ; D AS p")


@st.composite
def levels(draw: st.DrawFn) -> tuple[Rules, Events]:
    """Draw rules that insert into D, rules that read it, and a stream."""
    makers: Rules = {}
    events: Events = []
    for i in range(draw(st.integers(1, 2))):
        pattern, events = draw(
            cases(
                untimed=False,
                disorder=False,
                limit=False,
                size=4,
                events=7,
                selects=("*",),
                strategies=(Strategy.ALL, Strategy.NEXT, Strategy.LAST),
                consume=tuple(Consume),
            )
        )
        term = make_term(lambda below: draw(st.integers(0, below - 1)), pattern.formula, 1)
        select = Select(False, (SelectedTerm(term, "v"),))
        makers[f"m{i}"] = replace(pattern, select=select, into="D", streams=("S",))
    for i, text in enumerate(draw(st.lists(st.sampled_from(LATE), max_size=2, unique=True))):
        makers[f"late{i}"] = cernis.query(text).pattern
    for i, text in enumerate(draw(st.lists(st.sampled_from(HELD), max_size=2, unique=True))):
        makers[f"held{i}"] = cernis.query(text).pattern
    some_of = st.sampled_from((*READERS, *DEEPER))
    texts = draw(st.lists(some_of, min_size=1, max_size=3, unique=True))
    if any("INTO E" in text for text in texts):
        texts.append(draw(st.sampled_from(LAST)))
    readers = {f"r{i}": cernis.query(text).pattern for i, text in enumerate(texts)}
    rules = {**readers, **makers} if draw(st.booleans()) else {**makers, **readers}
    return rules, sorted(events, key=lambda event: event["ts"])


def compare(
    rules: Rules, events: Events, parts: Sequence[dict[str, Any]], *, complete: bool = False
) -> None:
    expected = evaluate_rules(rules, events, complete=complete)
    for name, pattern in rules.items():
        if pattern.grouping is not None:
            continue
        got = Counter(comparable_match(match) for part in parts for match in part[name])
        wanted = Counter(map(comparable_match, expected[name]))
        assert got == wanted, (
            name,
            [str(r) for r in rules.values()],
            describe_case(pattern, events),
        )


def run(
    rules: Rules, events: Events, at: list[int] | None, **options: Any
) -> list[dict[str, Any]] | None:
    table = make_table(events, timed=True)
    try:
        if at is None:
            return [cernis.rules(rules).run(table, **options)]
        session, parts = cernis.rules(rules).session(**options), []
        for piece in split_batches(range(len(events)), at):
            parts.append(session.push(table.slice(piece[0] if piece else 0, len(piece))))
            session = session.rules.thaw(session.freeze(), **options)
        return [*parts, session.finish()]
    except RuleSetError as error:
        if "type clash" in str(error):  # a text that a rule compares with a number
            return None
        raise


@some
@given(levels())
def test_rules_on_rules_agree_with_the_oracle(case: tuple[Rules, Events]) -> None:
    rules, events = case
    parts = run(rules, events, None)
    if parts is not None:
        compare(rules, events, parts)


@some
@given(st.data())
def test_batches_change_nothing(data: st.DataObject) -> None:
    rules, events = data.draw(levels())
    complete = data.draw(st.booleans())
    parts = run(rules, events, data.draw(cuts(len(events))), complete=complete)
    if parts is not None:
        compare(rules, events, parts, complete=complete)


TWO_LEVELS = """
    RULE failed AS
      INSERT INTO Guessing SELECT LAST(f[user]) AS user, COUNT(f) AS tries
      FROM logins WHERE FAIL{3} AS f PARTITION BY [user] WITHIN 1 MINUTE LIMIT 1;
    RULE campaign AS
      SELECT COUNT(DISTINCT g[user]) AS users FROM Guessing WHERE Guessing{2} AS g
      FILTER COUNT(DISTINCT g[user]) > 1 WITHIN 5 MINUTES
"""


def fails(*users: str) -> list[dict[str, Any]]:
    return [{"type": "FAIL", "user": user, "ts": 1000 * i} for i, user in enumerate(users)]


def test_an_alert_on_alerts() -> None:
    found = cernis.rules(TWO_LEVELS).run(fails("a", "b", "a", "b", "a", "b"))
    assert [match.values for match in found["failed"]] == [
        {"user": "a", "tries": 3},
        {"user": "b", "tries": 3},
    ]
    assert [(m.start, m.end, m.values) for m in found["campaign"]] == [(4, 5, {"users": 2})]


def test_matches_of_one_push_keep_events_that_its_session_forgets() -> None:
    count = 3 * (1 << 20)
    kinds = np.full(count, "B")
    kinds[[10, 11, count - 2, count - 1]] = "A"
    events = pa.table({"type": kinds, "k": np.arange(count)})
    query = "SELECT x[k] AS k, y[k] AS l FROM S WHERE A AS x : A AS y WITHIN 10 EVENTS"
    rules = cernis.rules(
        [f"RULE pair AS INSERT INTO D {query}", "RULE seen AS SELECT * FROM D WHERE D"]
    )
    found = rules.session().push(events)
    assert found["pair"].to_arrow().equals(cernis.query(query).run(events).to_arrow())
    assert found["seen"].count() == 2


def pair_up(rule: str) -> list[tuple[int, int]]:
    """Return the matches of a derived event and the next event after it."""
    text = f"RULE d AS INSERT INTO D {rule} RULE pair AS SELECT * FROM S, D WHERE D AS d : S>B AS b"
    events = [{"type": t, "ts": i, "k": 0} for i, t in enumerate("AABAB")]
    session, found = cernis.rules(text).session(), []
    for event in events:
        found += session.push([event])["pair"]
        session = session.rules.thaw(session.freeze())
    return [(match.start, match.end) for match in [*found, *session.finish()["pair"]]]


def test_readers_wait_for_matches_that_stand_before_events() -> None:
    longest = "SELECT LONGEST COUNT(a) AS n FROM S WHERE (A:+) AS a"
    assert pair_up(longest) == [(1, 2), (3, 4)]
    # the deadline of A at 0 is the A at 1, of A at 1 the B at 2: it stands after that
    assert pair_up("SELECT a[k] AS n FROM S WHERE A AS a WITHOUT C FOR 1 EVENTS") == [(0, 2)]
    best = "FROM S WHERE A AS a ORDER BY START DESC LIMIT 1 EVERY 3 MILLISECONDS"
    assert pair_up(f"SELECT a[k] AS n {best}") == [(1, 2), (3, 4)]


def test_matches_that_wait_keep_their_deadlines() -> None:
    text = "INSERT INTO D SELECT A[ts] AS t FROM S WHERE A WITHOUT B FOR 1 EVENTS"
    rules = cernis.rules({"d": text, "seen": "SELECT d[t] AS t FROM D WHERE D AS d"})
    events = [{"type": t, "ts": 10 * i} for i, t in enumerate("AAC")]
    found = rules.run(events)
    assert [(m.end_ts, m.deadline_ts) for m in found["d"]] == [(0, 10)]
    assert [(m.end_ts, m.values["t"]) for m in found["seen"]] == [(10, 0)]
    found = rules.run(events[:2], complete=True)
    assert [(m.end_ts, m.deadline_ts) for m in found["d"]] == [(0, 10), (10, None)]
    assert [(m.end_ts, m.values["t"]) for m in found["seen"]] == [(10, 0), (10, 10)]


def test_a_table_is_joined_before_matches_become_events() -> None:
    rules = cernis.rules(
        """
        RULE a AS INSERT INTO D SELECT x[co.w] AS w FROM S JOIN co ON k = co.id WHERE A AS x
        RULE b AS SELECT d[w] AS w FROM D WHERE D AS d
        """
    )
    events = [{"type": "A", "k": k, "ts": k} for k in (1, 2, 3)]
    found = rules.run(events, tables={"co": [{"id": 3, "w": 30}, {"id": 1, "w": 10}]})
    assert [(match.end, match.values["w"]) for match in found["b"]] == [(0, 10), (2, 30)]


def test_two_rules_insert_into_one_stream() -> None:
    rules = cernis.rules(
        """
        RULE b AS INSERT INTO D SELECT x[k] AS k, 2 AS from_b FROM S WHERE B AS x
        RULE a AS INSERT INTO D SELECT x[k] AS k FROM S WHERE A AS x
        RULE c AS SELECT d[k] AS k, d[from_b] AS b FROM D WHERE D AS d
        """
    )
    found = rules.run([{"type": t, "k": k, "ts": k} for k, t in enumerate("ABA")])
    assert [match.values for match in found["c"]] == [
        {"k": 0, "b": None},
        {"k": 1, "b": 2},
        {"k": 2, "b": None},
    ]


def test_the_builder_inserts() -> None:
    query = p.select(p.var("a")["x"].as_("x")).from_("S").where(p.event("A").as_("a"))
    text = "INSERT INTO D SELECT a[x] AS x FROM S WHERE A AS a"
    assert str(query.insert_into("D").build()) == text
    assert str(cernis.query(text)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "INSERT INTO D SELECT a FROM S WHERE A AS a",
            """\
line 1, column 22: an event of 'D' has values with names
  INSERT INTO D SELECT a FROM S WHERE A AS a
                       ^
  expected: term AS name""",
        ),
        (
            "INSERT INTO D SELECT a[x] AS ts FROM S WHERE A AS a",
            """\
line 1, column 22: an event of 'D' has an attribute 'ts' already
  INSERT INTO D SELECT a[x] AS ts FROM S WHERE A AS a
                       ^^^^^^^^^^""",
        ),
        (
            "INSERT INTO D SELECT COUNT(a) AS n FROM S WHERE A AS a GROUP BY END",
            """\
line 1, column 1: INSERT INTO does not go with GROUP BY without EVERY
  INSERT INTO D SELECT COUNT(a) AS n FROM S WHERE A AS a GROUP BY END
  ^^^^^^^^^^^^^
  help: an event of the new stream has a time: that of a match, or the end of an interval of \
EVERY""",
        ),
    ],
)
def test_the_message(text: str, message: str) -> None:
    with pytest.raises(cernis.QueryError) as raised:
        cernis.query(text)
    assert str(raised.value) == message


def test_it_belongs_in_a_rule_set() -> None:
    query = cernis.query("INSERT INTO D SELECT a[x] AS x FROM S WHERE A AS a")
    with pytest.raises(cernis.QueryError) as raised:
        query.run([{"type": "A", "x": 1}])
    assert (
        str(raised.value)
        == """\
line 1, column 1: INSERT INTO D makes a stream for other rules
  INSERT INTO D SELECT a[x] AS x FROM S WHERE A AS a
  ^^^^^^^^^^^^^
  help: run it in a rule set: RULE name AS INSERT INTO …"""
    )


def test_a_circle_is_shown() -> None:
    with pytest.raises(RuleSetError) as raised:
        cernis.rules(
            "RULE a AS INSERT INTO X SELECT Y[k] AS k FROM Y WHERE Y "
            "RULE b AS INSERT INTO Y SELECT X[k] AS k FROM X WHERE X"
        )
    assert str(raised.value) == "rules insert into streams in a circle: X → Y → X"
    with pytest.raises(RuleSetError, match="in a circle: X → X") as raised:
        cernis.rules("RULE a AS INSERT INTO X SELECT X[k] AS k FROM S, X WHERE X; RULE b AS SELECT")
    assert [text.splitlines()[0] for text in raised.value.mistakes] == [
        "rule b: line 1, column 77: the query ends too early",
        "rules insert into streams in a circle: X → X",
    ]


def test_a_derived_stream_may_not_be_given() -> None:
    rules = cernis.rules("RULE a AS INSERT INTO D SELECT A[x] AS x FROM S WHERE A")
    rows = [{"type": "A", "x": 1, "ts": 1}]
    assert rules.run({"S": rows})["a"].count() == 1
    both = cernis.rules("RULE a AS INSERT INTO D SELECT A[x] AS x WHERE A")
    with pytest.raises(cernis.DataError, match="rules insert into the stream 'D', which is given"):
        both.run({"S": rows, "D": rows})


def test_an_unknown_attribute_of_a_derived_stream_is_a_mistake() -> None:
    rules = cernis.rules(
        """
        RULE a AS INSERT INTO D SELECT A[x] AS x FROM S WHERE A
        RULE b AS SELECT * FROM D WHERE D AS d FILTER d[y = 1]
        """
    )
    with pytest.raises(RuleSetError, match="rule b: line 3, column 57: unknown attribute 'y'"):
        rules.run([{"type": "A", "x": 1, "ts": 1}])


def test_the_longest_matches_come_by_their_ends_whether_they_become_events_or_not() -> None:
    text = "SELECT LONGEST COUNT(*) AS n FROM S WHERE A:+ PARTITION BY [k] WITHIN 9 MILLISECONDS"
    events = [("A", "x", 0), ("A", "y", 1), ("B", "y", 2)]  # that of x waits for the end
    rows = [{"type": kind, "k": k, "ts": ts} for kind, k, ts in events]
    ends = [
        [match.end for match in cernis.rules({"r": into + text}).run(rows)["r"]]
        for into in ("", "INSERT INTO D ")
    ]
    assert ends == [[0, 1], [0, 1]]


def find_derived(rules: cernis.Rules, events: list[dict[str, Any]], cut: int) -> list[Any]:
    """Return the matches of all rules; between pieces of `cut` events the session is frozen."""
    session, found = rules.session(), list[Any]()
    for start in range(0, len(events), cut):
        pieces = session.push(events[start : start + cut])
        found += [(name, match) for name, matches in pieces.items() for match in matches]
        session = rules.thaw(session.freeze())
    found += [(name, match) for name, matches in session.finish().items() for match in matches]
    return sorted((n, m.start, m.end, str(m.values), str(m.deadline_ts)) for n, m in found)


@pytest.mark.parametrize(
    "rule",
    [
        "SELECT LONGEST COUNT(*) AS n FROM S WHERE A+ WITHOUT B FOR 1 EVENTS WITHIN 4 EVENTS",
        "SELECT LONGEST COUNT(*) AS n FROM S WHERE A:+ WITHOUT B FOR 2 EVENTS",
        "SELECT LONGEST COUNT(*) AS n FROM S WHERE A:+ WITHOUT B FOR 2 MILLISECONDS",
        (
            "SELECT COUNT(*) AS n FROM S WHERE A:+ AS a WITHOUT B FOR 2 EVENTS "
            "ORDER BY COUNT(a) LIMIT 1 EVERY 3 MILLISECONDS"
        ),
    ],
)
def test_matches_that_wait_twice_keep_their_places(rule: str) -> None:
    reader = "SELECT * FROM S, D WHERE D AS d : S>A AS a"
    rules = cernis.rules({"waits": f"INSERT INTO D {rule}", "seen": reader})
    times = [0, 1, 1, 2, 4, 8, 8, 10, 10, 11, 15]
    kinds = ["AAAAABAAAAB", "AAAABAABAAA", "BAABBAAAAAB"]
    for types in kinds:
        events = [{"type": t, "ts": ts} for t, ts in zip(types, times, strict=True)]
        whole = find_derived(rules, events, len(events))
        assert whole
        for cut in (1, 2, 3):
            assert find_derived(rules, events, cut) == whole
