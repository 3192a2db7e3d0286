"""WITHOUT … FOR and WITHOUT … BEFORE against the oracle, in batches, frozen, and at deadlines."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cernis
from cernis.pattern.query import Consume
from cernis.pattern.selection import counts_only
from cernis.testing.differential import assert_agrees, assert_counts_agree
from cernis.testing.grammar import split_batches as split
from cernis.testing.strategies import cases, cuts
from cernis.testing.tables import make_table

few = max(25, settings.default.max_examples // 4)
many = settings(max_examples=few, suppress_health_check=list(HealthCheck))
FREE = {"after": ("free",), "consume": (Consume.NONE,)}


def compare(pattern: Any, events: Any, parts: list[Any], **options: Any) -> None:
    if counts_only(pattern):
        counted = [row for part in parts for row in part.counts().to_pylist()]
        found = [(row["end"], row["count"]) for row in counted]
        assert_counts_agree(pattern, events, found, **options)
    else:
        assert_agrees(pattern, events, [match for part in parts for match in part], **options)


def is_timed(events: Any) -> bool:
    return not events or any("ts" in event for event in events)


def check_run(case: Any) -> None:
    pattern, events = case
    table = make_table(events, timed=is_timed(events))
    query = cernis.query(pattern)
    compare(pattern, events, [query.run(table)])
    compare(pattern, events, [query.run(table, complete=True)], complete=True)


@many
@given(case=cases(**FREE))
def test_what_must_not_follow_agrees_with_the_oracle(case: Any) -> None:
    check_run(case)


@many
@given(case=cases(**FREE, binary=True, previous=True, partition_by_inside=True, size=7, events=7))
def test_it_agrees_where_events_are_compared(case: Any) -> None:
    check_run(case)


def check_batches(case: Any, at: list[int], freezes: bool) -> None:
    """Push in batches; the order and the matches are those of one event at a time."""
    pattern, events = case
    events = sorted(events, key=lambda event: event.get("ts", 0))
    whole = make_table(events, timed=is_timed(events))
    query = cernis.query(pattern)
    session, parts = query.session(complete=True), []
    for piece in split(range(len(events)), at):
        parts.append(session.push(whole.slice(piece[0] if piece else 0, len(piece))))
        session.forget()
        if freezes:
            session = query.thaw(session.freeze(), complete=True)
    compare(pattern, events, parts)
    parts.append(session.finish())
    compare(pattern, events, parts, complete=True)
    singly = query.session(complete=True)
    ones = [singly.push(whole.slice(i, 1)) for i in range(len(events))] + [singly.finish()]
    if not counts_only(pattern) and pattern.limit is None:
        assert [m.end for part in parts for m in part] == [m.end for one in ones for m in one]


with_cuts = cases(**FREE, disorder=False, binary=True, previous=True).flatmap(
    lambda case: st.tuples(st.just(case), cuts(len(case[1])))
)


@pytest.mark.parametrize("freezes", [False, True])
@many
@given(drawn=with_cuts)
def test_batches_and_freezing_change_nothing(freezes: bool, drawn: Any) -> None:
    check_batches(*drawn, freezes)


forgetting = cases(**FREE, disorder=False, forget=True).flatmap(
    lambda case: st.tuples(st.just(case), cuts(len(case[1])))
)


@pytest.mark.parametrize("drawn", [with_cuts, forgetting], ids=["keys", "lives"])
@many
@given(data=st.data())
def test_renumbering_keys_after_each_batch_changes_nothing(drawn: Any, data: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cernis.run.pipeline._FORGET_KEYS", -100)
        check_batches(*data.draw(drawn), freezes=True)
