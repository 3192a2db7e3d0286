"""The corpus on the embedded engine: the answers worked out by hand."""

from __future__ import annotations

import pytest

import cernis
from cernis.pattern.query import Unit
from cernis.results.groups import MatchGroup
from cernis.results.match import Match
from tools.cases.corpus import CorpusCase, CorpusGroup, read_cases
from tools.cases.tables import STREAM, make_table

CASES = [pytest.param(case, id=f"{case.topic}: {case.name}") for case in read_cases()]


def corpus_group(group: MatchGroup) -> CorpusGroup:
    when = [at for name, at in group.time.items() if name != "end_ts"]
    return CorpusGroup.of(when, group.partition, group.values)


def run(case: CorpusCase) -> tuple[cernis.Matches | cernis.Groups, list[int]]:
    """The matches, and the row of the case that each row of the run is."""
    query = cernis.query(case.pattern())
    within = query.pattern.within
    timed = any("ts" in event for event in case.events)
    timed = timed or (within is not None and within.unit is Unit.TIME)
    tables = {name: list(rows) for name, rows in case.tables.items()}
    return query.run(make_table(case.events, timed=timed), tables=tables), list(
        range(len(case.events))
    )


def run_streams(case: CorpusCase) -> tuple[list[Match], list[int]]:
    """Several streams: the events one by one, since tables would lose who came first."""
    tables = {name: list(rows) for name, rows in case.tables.items()}
    session = cernis.query(case.pattern()).session(tables=tables)
    streams = session.plan.pattern.streams or sorted({e[STREAM] for e in case.events})
    read = [row for row, event in enumerate(case.events) if event[STREAM] in streams]
    rows = sorted(read, key=lambda row: case.events[row].get("ts", row))
    found: list[Match] = []
    for row in rows:
        event = case.events[row]
        tables = {
            name: make_table([event] if name == event[STREAM] else [], timed="ts" in event)
            for name in streams
        }
        found += session.push(tables)
    return found, rows


@pytest.mark.parametrize("case", CASES)
def test_the_engine_gives_the_answer_worked_out_by_hand(case: CorpusCase) -> None:
    if any(STREAM in event for event in case.events):
        matches, rows = run_streams(case)
    else:
        found, rows = run(case)
        if isinstance(found, cernis.Groups):
            case.check_groups(map(corpus_group, found))
            return
        if case.counts is not None:
            counted = found.counts().to_pydict()
            assert tuple(zip(counted["end"], counted["count"], strict=True)) == case.counts
        if case.matches is None:
            return
        matches = list(found)
        if case.per_end is None:
            assert found.count() == len(case.matches)
    case.check(
        (rows[m.start], rows[m.end], {x: [rows[r] for r in at] for x, at in m.vars.items()})
        for m in matches
    )
    if case.values is not None:
        case.check_values((m, tuple(m.values.values())) for m in matches)
    if case.suppressed is not None:
        case.check_suppressed((m, m.suppressed) for m in matches)


@pytest.mark.parametrize("case", [case for case in CASES if case.values[0].answers is not None])
def test_a_head_that_drops_variables_has_the_answers_worked_out_by_hand(case: CorpusCase) -> None:
    timed = any("ts" in event for event in case.events)
    found = cernis.query(case.query, lang="cq").run(make_table(case.events, timed=timed))
    assert tuple((answer.end, answer.values) for answer in found) == case.answers
