"""Rules that differ in one constant run as one query, and each finds what it finds alone."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cernis
from cernis.run.families import SMALLEST
from cernis.run.rule import RuleSetError
from cernis.run.rules import RuleSet

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
    assert len(rules.families.rules) == 1
    kinds = [pa.int16()] if numbers else [pa.string(), pa.dictionary(pa.int32(), pa.string())]
    timed = timed or "WITHIN" in template
    events = data.draw(logs(constants, data.draw(st.sampled_from(kinds)), timed=timed))
    found, alone = rules.run(events), rules.session().collect(events)
    assert [*found] == [*alone] == [*rules.names]
    for name, matches in found.items():
        assert matches.to_arrow().equals(alone[name].to_arrow())
        assert matches.count() == alone[name].count()
        assert matches.notes == alone[name].notes


@pytest.mark.parametrize("template", ALONE)
def test_rules_that_choose_between_partitions_or_read_more_run_alone(template: str) -> None:
    assert not make_rules(template, [f"h{i}" for i in range(20)]).families.families


def test_other_rules_and_several_families_keep_their_places() -> None:
    one, two = (TEMPLATES[i] for i in (0, 5))
    texts = {"first": "SELECT * FROM S WHERE A"}
    for i in range(SMALLEST):
        texts |= {f"one {i}": one.format(f"'h{i}'"), f"two {i}": two.format(f"'h{i}'")}
    rules = cernis.rules({**texts, "few": TEMPLATES[3].format("'h9'")})
    assert [rule.name for rule in rules.families.rules] == ["first", "one 0", "two 0", "few"]
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
    assert not twice.families.families


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
