"""`diff`: lost, gained and kept are those of the oracle's two answers."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cernis
from cernis.cli.main import main
from cernis.errors import CernisError
from cernis.pattern import formula as cel
from cernis.pattern.query import Pattern, Select, Strategy, Unit, Window
from cernis.testing.oracle import evaluate
from cernis.workbench.diff import make_shared
from tools.cases.differential import ComparableMatch, comparable_match
from tools.cases.grammar import RandomCase
from tools.cases.strategies import VERSIONS, bounded_patterns, patterns, streams

CASES = min(int(os.environ.get("CERNIS_FUZZ_N", "12")), 5000)


def oracle_set(pattern: Pattern, events: Any) -> set[ComparableMatch]:
    return {comparable_match((m.start, m.end, m.vars)) for m in evaluate(pattern, events)}


@st.composite
def versions(draw: st.DrawFn) -> tuple[Pattern, RandomCase]:
    """Draw a query, a stream, and a changed version of the query."""
    pattern = draw(patterns(**VERSIONS))
    strategy = draw(st.sampled_from([Strategy.ALL, pattern.strategy]))
    pattern = replace(pattern, select=Select(), strategy=strategy)
    changed = pattern
    match draw(st.integers(0, 5)):
        case 0:
            size = draw(st.integers(1, 4))
            changed = replace(pattern, within=Window(Unit.EVENTS, size))
        case 1:
            changed = replace(pattern, formula=_drop_filter(pattern.formula))
        case 2:
            formula = draw(patterns(**VERSIONS)).formula
            changed = replace(pattern, formula=cel.Choice((pattern.formula, formula)))
        case 3:
            changed = replace(
                pattern, strategy=draw(st.sampled_from([Strategy.ALL, Strategy.NEXT]))
            )
        case 4:
            changed = draw(bounded_patterns(pattern))
        case 5:
            pattern, changed = draw(bounded_patterns(pattern)), draw(bounded_patterns(pattern))
    return changed, (pattern, draw(streams(**VERSIONS)))


def _drop_filter(formula: cel.Formula) -> cel.Formula:
    return formula.body if isinstance(formula, cel.Filter) else formula


@settings(max_examples=CASES)
@given(versions())
def test_a_diff_is_that_of_the_oracle(drawn: tuple[Pattern, RandomCase]) -> None:
    changed, (pattern, events) = drawn
    try:
        found = cernis.diff(cernis.query(pattern), cernis.query(changed), events, sample=2, seed=1)
    except CernisError:
        return  # the versions do not parse, or do not fit the events
    before, after = oracle_set(pattern, events), oracle_set(changed, events)
    if found.counted == "ends":
        before, after = ({m.end for m in each} for each in (before, after))  # type: ignore[assignment]
    numbers = (found.lost.total, found.gained.total, found.kept.total)
    assert numbers == (len(before - after), len(after - before), len(before & after))
    if found.counted != "ends":
        for side, alone in (("lost", before - after), ("gained", after - before)):
            drawn_ = {comparable_match(match) for match in found.samples[side]}
            assert len(drawn_) == min(2, len(alone))
            assert drawn_ <= alone


OLD = "SELECT * FROM S WHERE (A+ AS a ; B AS b) FILTER a[x > 1] PARTITION BY [k] WITHIN 60 EVENTS"
NEW = OLD.replace("a[x > 1]", "a[x > 1] AND b[x > 2]")


def make_events(n: int) -> list[dict[str, Any]]:
    return [{"type": "AAB"[i % 3], "x": i % 5, "k": i % 2, "ts": i} for i in range(n)]


def test_numbers_beyond_any_list_are_exact() -> None:
    events = make_events(300)
    found = cernis.diff(OLD, NEW, events)
    assert found.counted == "matches"
    assert found.gained.total == 0
    assert found.lost.total + found.kept.total == cernis.query(OLD).run(events).count()
    assert found.kept.total == cernis.query(NEW).run(events).count() > 10**8
    assert sum(found.lost.keys.values()) == found.lost.total


def test_other_windows_are_subtracted_too() -> None:
    events = make_events(30)
    wider = OLD.replace("60 EVENTS", "6 EVENTS")
    found = cernis.diff(wider.replace("6 EV", "4 EV"), wider, events)
    assert (found.counted, found.lost.total) == ("matches", 0)
    counts = [cernis.query(wider.replace("6 EV", f"{n} EV")).run(events).count() for n in (4, 6)]
    assert (found.kept.total, found.gained.total) == (counts[0], counts[1] - counts[0])


@pytest.mark.parametrize(
    ("condition", "other", "stricter"),
    [
        ("a[x > 1]", "a[x >= 2] AND b[x < 4]", None),
        ("a[x > 1] AND b[x < 4]", "a[1 < x]", None),
        ("a[x > 1]", "a[x >= 1]", "old"),
        ("a[x > 1]", "a[x > 1 AND x < 3]", "new"),
        ("a[x < 3] AND b[x < 3]", "a[x < 3] AND b[x < 2.5]", "new"),
    ],
)
def test_a_version_that_is_stricter_is_what_both_share(
    condition: str, other: str, stricter: str | None
) -> None:
    old, new = (
        cernis.query(OLD.replace("a[x > 1]", each).replace("60 EVENTS", "5 EVENTS"))
        for each in (condition, other)
    )
    shared = make_shared(old, new)
    assert shared is not None
    assert not shared.is_union
    assert shared.query is {"old": old, "new": new}.get(stricter or "", shared.query)
    events = make_events(40)
    found = cernis.diff(old, new, events, sample=0)
    before, after = (oracle_set(each.pattern, events) for each in (old, new))
    assert found.kept.total == len(before & after)
    assert (found.lost.total, found.gained.total) == (len(before - after), len(after - before))


def test_a_stricter_version_may_gain_where_the_next_event_matches() -> None:
    events = [{"type": t, "x": i, "ts": i} for i, t in enumerate("ABB")]
    old = "SELECT * FROM S WHERE (A AS a -> B AS b) FILTER a[x < 9]"
    found = cernis.diff(old, old.replace("9]", "9] AND b[x > 1]"), events)
    assert found.counted == "matches"
    assert (found.lost.total, found.gained.total, found.kept.total) == (1, 1, 0)


def test_where_ends_are_compared_the_reason_is_said_and_matches_are_shown() -> None:
    events = make_events(9)
    old = "SELECT * FROM S WHERE A AS a ; B AS b"
    found = cernis.diff(
        old, "SELECT * FROM S WHERE A AS a ; B AS c FILTER c[x > 2]", events, seed=1
    )
    assert "the variables differ (a, b; a, c): ends with a match are compared" in str(found)
    ends = [match.end for match in found.samples["lost"]]
    assert (found.counted, found.lost.total, ends) == ("ends", 2, [2, 5][: len(ends)])
    counted = cernis.diff(
        "SELECT COUNT(*) FROM S WHERE A", "SELECT COUNT(*) FROM S WHERE B", events
    )
    assert counted.reason == "SELECT COUNT(*) keeps no matches"
    assert (counted.lost.total, counted.gained.total) == (6, 3)
    assert counted.to_dict()["reason"] == counted.reason


def test_rule_sets_are_compared_rule_by_rule() -> None:
    old = cernis.rules({"a": OLD, "gone": "SELECT * FROM S WHERE B"})
    new = cernis.rules({"a": NEW, "new": "SELECT * FROM S WHERE A"})
    found = cernis.diff(old, new, make_events(9))
    assert (found.removed["gone"].lost.total, found.added["new"].gained.total) == (3, 6)
    assert len(found.removed["gone"].samples["lost"]) == 3
    assert "rule new: added, gained 6" in str(found).splitlines()
    assert found.rules["a"].gained.total == 0
    with pytest.raises(CernisError, match="not one of each"):
        cernis.diff(old, OLD, [])


def test_the_command_fails_where_a_match_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [f"{e['type']},{e['x']},{e['k']},{e['ts']}" for e in make_events(9)]
    Path("S.csv").write_text("\n".join(["type,x,k,ts", *lines]) + "\n")
    assert main(["diff", OLD, NEW, "-e", "S.csv", "--seed", "1", "--require", "no-lost"]) == 1
    out, err = capfd.readouterr()
    assert out.startswith("lost ")
    assert "lost: rows " in out
    assert err == "error: --require no-lost does not hold\n"
    assert main(["diff", OLD, NEW, "-e", "S.csv", "--require", "no-gained"]) == 0
    capfd.readouterr()
    assert main(["diff", OLD, f"RULE a AS {NEW}", "-e", "S.csv"]) == 1
    assert capfd.readouterr().err.startswith(
        "error: diff compares two queries or two rule sets, not one of each: RULE a AS SELECT"
    )


def test_a_sample_is_uniform_where_ends_have_many_matches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events = [{"type": "A", "x": i % 3} for i in range(8)]
    old = cernis.query("SELECT * FROM S WHERE A+ AS a WITHIN 6 EVENTS")
    new = cernis.query("SELECT * FROM S WHERE A+ AS a FILTER a[x < 2] WITHIN 6 EVENTS")

    def draw_all() -> set[tuple[int, ...]]:
        found = cernis.diff(old, new, events, sample=500, seed=1)
        return {tuple(match.vars["a"]) for match in found.samples["lost"]}

    listed = draw_all()
    monkeypatch.setattr("cernis.workbench.diff._FEW", 0)
    assert draw_all() == listed == {rows for rows in listed if any(r % 3 == 2 for r in rows)}
    counted = Counter(
        tuple(match.vars["a"])
        for seed in range(30)
        for match in cernis.diff(old, new, events, sample=3, seed=seed).samples["lost"]
    )
    assert sum(counted.values()) == 90
    assert set(counted) <= listed
    assert max(counted.values()) < 15


def test_samples_come_from_ends_with_more_matches_than_can_be_listed() -> None:
    events = [{"type": "A", "x": i % 7} for i in range(60)]
    old = cernis.query("SELECT * FROM S WHERE A+ AS a")
    new = cernis.query("SELECT * FROM S WHERE A+ AS a FILTER a[x < 6]")
    found = cernis.diff(old, new, events, sample=3, seed=1)
    assert found.lost.total + found.kept.total == 2**60 - 1
    assert len(found.samples["lost"]) == 3
    for match in found.samples["lost"]:
        assert match.end > 30
        assert any(row % 7 == 6 for row in match.vars["a"])
