"""Events that can move no match need no key, until an automaton learns a state they move."""

from __future__ import annotations

import random

import pytest

import cernis

WITHIN = "WITHIN 30 MILLISECONDS"
QUERIES = (
    f"SELECT * FROM S WHERE A AS a ; B+ AS b ; C AS c PARTITION BY [k] {WITHIN}",
    f"SELECT NEXT * FROM S WHERE A AS a ; B AS b FILTER b[x > 2] PARTITION BY [k, j] {WITHIN}",
    f"SELECT * FROM S WHERE A AS a ; B AS b PARTITION BY [k] {WITHIN} SUPPRESS BY [k] FOR 9 SECOND",
    f"SELECT [k], SUM(b[x]) AS s FROM S WHERE A ; B+ AS b PARTITION BY [k] {WITHIN} GROUP BY [k]",
)


def make_events(seed: int, number: int = 300) -> list[dict[str, object]]:
    chance = random.Random(seed)
    keys = chance.choice([[1, 2, 3, None], ["ann", "bob", "cid", None], [1.0, 2.5, None]])
    return [
        {
            "type": chance.choice("ABCNNNNNNNNN"),
            "ts": n,
            "k": chance.choice(keys),
            "j": n % 2,
            "x": n % 5,
        }
        for n in range(number)
    ]


def list_answers(result: object) -> list[str]:
    drop = ("start", "end", "vars")
    return sorted(
        repr({name: value for name, value in line.items() if name not in drop})
        for line in result.to_arrow().to_pylist()  # type: ignore[attr-defined]
    )


@pytest.mark.parametrize("text", QUERIES)
def test_events_that_move_nothing_change_no_match(text: str) -> None:
    query = cernis.query(text)
    for seed in range(12):
        events = make_events(seed)
        relevant = [event for event in events if event["type"] != "N"]
        found = query.run(events)
        expected = query.run(relevant)
        assert len(found) == len(expected)
        if "GROUP BY" in text:
            assert list_answers(found) == list_answers(expected)
            continue
        assert sorted((m.start_ts, m.end_ts) for m in found) == sorted(
            (m.start_ts, m.end_ts) for m in expected
        )
        session, chance, pushed, at = query.session(), random.Random(seed), [], 0
        while at < len(events):
            size = chance.choice([1, 7, 64])
            pushed += [*session.push(events[at : at + size])]
            at += size
        pushed += [*session.finish()]
        assert sorted((m.start_ts, m.end_ts) for m in pushed) == sorted(
            (m.start_ts, m.end_ts) for m in found
        )


def test_keys_of_events_that_move_nothing_are_not_numbered() -> None:
    query = cernis.query("SELECT * FROM S WHERE A AS a ; B AS b PARTITION BY [k] WITHIN 9 SECONDS")
    session = query.session()
    session.push([{"type": kind, "ts": n, "k": "ann"} for n, kind in enumerate("AB")])
    known = session.metrics().keys
    session.push([{"type": "N", "ts": 10 + n, "k": f"user {n}"} for n in range(1000)])
    assert session.metrics().keys == known == 1


def test_a_state_that_a_batch_leads_to_finds_the_keys_of_its_events() -> None:
    query = cernis.query(
        "SELECT * FROM S WHERE A AS a ; B AS b ; C AS c ; D AS d PARTITION BY [k] WITHIN 9 SECONDS"
    )
    noise = [{"type": "N", "ts": 0, "k": n} for n in range(100)]
    events = [{"type": kind, "ts": n, "k": 7} for n, kind in enumerate("ABCD", 1)]
    assert len(query.run([*noise, *events])) == 1
