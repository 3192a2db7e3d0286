"""Rules that differ in one constant run as one query, and each finds what it finds alone."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cernis
from cernis.run.rules.rule import RuleSetError
from cernis.run.rules.rule_set import RuleSet
from cernis.run.rules.session import RuleSession
from cernis.run.rules.shared.shared_rules import SMALLEST
from cernis.run.session import RunOptions
from tools.cases.grammar import split_batches
from tools.cases.strategies import cuts

some = settings(
    max_examples=max(30, settings.default.max_examples // 3),
    suppress_health_check=list(HealthCheck),
)
SAME = "a[host = {0}] AND b[host = {0}]"
LEFT = "a[host = {0}] LIMIT 1"
TEMPLATES = (
    "SELECT * FROM S WHERE (A AS a ; B AS b) FILTER " + SAME,
    "SELECT * FROM S WHERE (A AS a ; B AS b) FILTER " + SAME + " PARTITION BY [user]",
    "SELECT NEXT b FROM S WHERE (A+ AS a ; B AS b) FILTER " + SAME + " WITHIN 4 MILLISECONDS",
    "SELECT LAST * FROM S WHERE (A+ AS a ; B AS b) FILTER " + SAME + " PARTITION BY [user]",
    "SELECT MAX a FROM S WHERE (A AS a OR B AS b)+ FILTER " + SAME + " WITHIN 5 MILLISECONDS",
    "SELECT a[user] AS u FROM S WHERE (A AS a ; B AS b) FILTER b[{0} = host] AND " + LEFT,
    "SELECT * FROM S WHERE (A AS a ; * AS b) FILTER a[host = {0}] AND b[host = {0}]",
    "SELECT MAX * FROM S WHERE A+ AS a FILTER a[host = {0}] AND COUNT(DISTINCT a[user]) >= 2",
    "SELECT b FROM S WHERE (A OR B)->+ AS b FILTER b[host = {0}] AND COUNT(b[user]) >= 2",
)
ALONE = (
    "SELECT COUNT(*) FROM S WHERE (A AS a ; B AS b) FILTER " + SAME,
    "SELECT * FROM S WHERE (A AS a ; B AS b) FILTER " + SAME + " CONSUME BY ANY",
    "SELECT * FROM S WHERE (A AS a : B AS b) FILTER " + SAME,
    "SELECT * FROM S WHERE (A AS a ; B AS b) FILTER a[host = {0}]",
    "SELECT * FROM S WHERE (A AS a ; B AS b) FILTER " + SAME + " PARTITION BY [host]",
)


def make_rules(template: str, constants: list[Any]) -> RuleSet:
    return cernis.rules({f"r{c}": template.format(repr(c)) for c in constants})


def run_alone(rules: RuleSet) -> RuleSession:
    """Return a session in which each rule runs by itself."""
    return RuleSession(rules, RunOptions(), families=False)


@st.composite
def logs(draw: st.DrawFn, constants: list[Any], kind: pa.DataType, *, timed: bool) -> pa.Table:
    """Draw events of hosts, of some that have rules, some that have none, and of no host."""
    number = draw(st.integers(0, 14))
    size = {"min_size": number, "max_size": number}
    other = 99 if isinstance(constants[0], int) else "other"
    hosts = st.sampled_from([*constants[:3], other, None])
    columns = {
        "type": draw(st.lists(st.sampled_from("ABC"), **size)),
        "host": pa.array(draw(st.lists(hosts, **size)), kind),
        "user": draw(st.lists(st.sampled_from(["x", "y", None]), **size)),
    }
    schema = {"type": pa.string(), "host": kind, "user": pa.string()}
    table = pa.table(columns, schema=pa.schema(schema))
    if timed:
        steps = draw(st.lists(st.integers(0, 2), **size))
        times = pa.array([sum(steps[: i + 1]) for i in range(number)], pa.int64())
        table = table.append_column("ts", times)
    return table


@some
@given(st.data(), st.sampled_from(TEMPLATES), st.booleans(), st.booleans())
def test_each_rule_of_a_family_finds_what_it_finds_alone(
    data: st.DataObject, template: str, numbers: bool, timed: bool
) -> None:
    constants: list[Any] = [*range(SMALLEST)] if numbers else [f"h{i}" for i in range(SMALLEST)]
    rules = make_rules(template, constants)
    assert [len(family.rules) for family in rules.families] == [SMALLEST]
    kinds = [pa.int16()] if numbers else [pa.string(), pa.dictionary(pa.int32(), pa.string())]
    timed = timed or "WITHIN" in template
    events = data.draw(logs(constants, data.draw(st.sampled_from(kinds)), timed=timed))
    found, alone = rules.run(events), run_alone(rules).collect(events)
    assert [*found] == [*alone] == [*rules.names]
    for name, matches in found.items():
        assert matches.to_arrow().equals(alone[name].to_arrow())
        assert matches.count() == alone[name].count()
        assert matches.notes == alone[name].notes


@some
@given(st.data(), st.sampled_from(TEMPLATES), st.booleans())
def test_rules_join_and_leave_a_family_that_runs(
    data: st.DataObject, template: str, numbers: bool
) -> None:
    """In pieces, with restarts, and with rules that come, go and change their constants."""
    constants: list[Any] = [*range(20)] if numbers else [f"h{i}" for i in range(20)]
    kind = pa.int32() if numbers else pa.string()
    whole = data.draw(logs(constants, kind, timed=True))
    first = make_rules(template, constants[:SMALLEST])
    session, alone = first.session(), run_alone(first)

    for piece in split_batches(range(whole.num_rows), data.draw(cuts(whole.num_rows))):
        part = whole.slice(piece[0] if piece else 0, len(piece))
        found, expected = session.push(part), alone.push(part)
        assert [*found] == [*expected]
        for name, matches in found.items():
            assert matches.to_arrow().equals(expected[name].to_arrow())

        numbers_of = {name: each.events for name, each in session.metrics().items()}
        assert numbers_of == {name: each.events for name, each in alone.metrics().items()}
        if data.draw(st.booleans()):
            session = session.rules.thaw(session.freeze())
        names = data.draw(st.lists(st.sampled_from(constants[:4]), min_size=1, unique=True))
        shifted = {c: data.draw(st.sampled_from([c, constants[4]])) for c in names}
        texts = {f"r{c}": template.format(repr(constant)) for c, constant in shifted.items()}
        texts |= {f"r{c}": template.format(repr(c)) for c in constants[5:12]}
        rules = cernis.rules(texts)
        assert session.update(rules) == alone.update(rules)


def test_a_family_that_runs_takes_more_rules_and_drops_the_state_of_those_that_leave() -> None:
    rules = make_rules(TEMPLATES[0], [f"h{i}" for i in range(SMALLEST)])
    session = rules.session()
    session.push([{"type": "A", "host": f"h{i}", "ts": i} for i in range(10)])
    session.update(make_rules(TEMPLATES[0], [f"h{i}" for i in range(1, 10)]))
    assert len(session.running) == 1
    session = session.rules.thaw(session.freeze())
    session.update(make_rules(TEMPLATES[0], [f"h{i}" for i in range(10)]))
    assert len(session.running) == 1
    found = session.push([{"type": "B", "host": f"h{i}", "ts": 10 + i} for i in range(10)])
    kept = {f"rh{i}": 1 for i in range(1, SMALLEST)}
    assert {name: each.count() for name, each in found.items() if each.count()} == kept


@pytest.mark.parametrize("template", ALONE)
def test_rules_that_choose_between_partitions_or_read_more_run_alone(template: str) -> None:
    assert not make_rules(template, [f"h{i}" for i in range(20)]).families


def test_one_rule_of_a_family_is_planned_for_all() -> None:
    text = "SELECT * FROM S WHERE (A AS a ; B AS b) FILTER a[zone = {0}] AND b[zone = {0}]"
    rules = make_rules(text, [f"z{i}" for i in range(SMALLEST)])
    rules.session().push([{"type": "A", "zone": "z1", "ts": 1}])
    assert ["plan" in vars(rule.query) for rule in rules].count(True) == 1


def test_a_constant_that_something_else_looks_at_is_part_of_the_plan() -> None:
    text = "SELECT * FROM S WHERE A AS a FILTER a[zone = 'z{0}'] AND a[zone != 'z3']"
    rules = make_rules(text, [*range(SMALLEST)])
    rules.session()
    assert all("plan" in vars(rule.query) for rule in rules)
    found = rules.run([{"type": "A", "zone": f"z{i}", "ts": i} for i in range(SMALLEST)])
    assert [matches.count() for matches in found.values()] == [1, 1, 1, 0, 1, 1, 1, 1]


def test_other_rules_and_several_families_keep_their_places() -> None:
    one, two = (TEMPLATES[i] for i in (0, 5))
    texts = {"first": "SELECT * FROM S WHERE A"}
    for i in range(SMALLEST):
        texts |= {f"one {i}": one.format(f"'h{i}'"), f"two {i}": two.format(f"'h{i}'")}
    rules = cernis.rules({**texts, "few": TEMPLATES[3].format("'h9'")})
    running = rules.session().running
    assert [each.rules[0].name for each in running] == ["first", "one 0", "two 0", "few"]
    events = [
        {"type": kind, "host": host, "user": "y", "ts": i}
        for i, (kind, host) in enumerate([("A", "h1"), ("A", "h2"), ("B", "h2"), ("B", "h1")])
    ]
    found = rules.run(events)
    assert [*found] == [*texts, "few"]
    assert {name: f.count() for name, f in found.items() if f.count()} == {
        "first": 2,
        **dict.fromkeys(("one 1", "one 2", "two 1", "two 2"), 1),
    }
    twice = cernis.rules({f"r{i}": one.format("'h'") for i in range(20)})
    assert not twice.families


def test_a_column_that_is_neither_text_nor_whole_numbers_is_compared_rule_by_rule() -> None:
    days = [f"2024-01-{i:02}" for i in range(1, SMALLEST + 1)]
    rules = make_rules(TEMPLATES[0], days)
    at = pa.array([19723, 19723, 19724], pa.date32())
    events = pa.table({"type": ["A", "B", "B"], "host": at, "ts": [1, 2, 3]})
    assert [matches.count() for matches in rules.run(events).values()] == [1] + [0] * 7


def test_the_mistakes_of_all_rules_of_a_family_are_named() -> None:
    rules = make_rules(TEMPLATES[0], [f"h{i}" for i in range(SMALLEST)])
    with pytest.raises(RuleSetError) as raised:
        rules.run([{"type": "A", "hosts": "h1"}])
    assert [text.partition(":")[0] for text in raised.value.mistakes] == [
        f"rule rh{i}" for i in range(SMALLEST)
    ]
