"""A live run finds what a session finds, whatever its pieces, and whenever it ends and goes on."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import cernis
from cernis.errors import CernisError, StateError
from cernis.events.reading.files import Opening
from cernis.events.reading.reader import Reader, TableReader
from cernis.live.arrivals import Arrival, InputEnded
from cernis.live.inputs import LiveInput
from cernis.live.prepare import LiveOptions, prepare_query, prepare_rules
from cernis.live.run import LiveRun, Pace, resume_inputs
from cernis.live.sinks import FolderSink
from cernis.live.store import LocalStore
from cernis.pattern.query import Consume, Pattern, Unit, counts_only
from cernis.run.rules.rule_set import RuleSet
from cernis.run.session import RunOptions
from cernis.work.progress import Progress
from tools.cases.corpus import CorpusCase, CorpusGroup, read_cases
from tools.cases.differential import (
    assert_agrees,
    assert_counts_agree,
    assert_groups_agree,
    comparable_group,
)
from tools.cases.strategies import cases, grouped_cases
from tools.cases.tables import STREAM, make_table

few = settings(max_examples=max(20, settings.default.max_examples // 5))


class TableInput(LiveInput):
    """The rows of a table, in pieces that somebody else decides; its position is a row."""

    def __init__(self, label: str, table: pa.Table) -> None:
        super().__init__(label, once=True)
        self.table = table
        self.given = 0

    def resume(self, position: Any, done: set[str]) -> None:
        self.given = position

    @property
    def position(self) -> Any:
        return self.given

    def open_reader(self, opening: Opening) -> Reader:
        return TableReader(self.label, self.table)


@dataclass
class Place:
    """The folders of a run, and what it reads."""

    folder: Path
    tables: dict[str, pa.Table]
    joined: dict[str, Any] = field(default_factory=dict)

    def start(self, what: cernis.Query | RuleSet) -> LiveRun:
        store = LocalStore(self.folder / "checkpoint")
        inputs = {name: TableInput(name, table) for name, table in self.tables.items()}
        resume_inputs(inputs, store)
        options = LiveOptions(reading=RunOptions(time="ts", tables=self.joined))
        if isinstance(what, RuleSet):
            prepared = prepare_rules(what, inputs, options)
        else:
            prepared = prepare_query(what, inputs, options, "lines")
        sink = FolderSink(self.folder / "out", "jsonl")
        return LiveRun(prepared, inputs, store, [sink], Pace())

    def read(self) -> Iterator[dict[str, Any]]:
        for path in sorted((self.folder / "out").glob("matches-*")):
            yield from map(json.loads, path.read_text().splitlines())


def push(run: LiveRun, number: int, rows: int) -> None:
    """Let some more rows of an input arrive."""
    input_ = run.inputs[number]
    assert isinstance(input_, TableInput)
    source = run.prepared.sources[number]
    piece = input_.table.slice(input_.given, rows)
    if piece.num_rows:
        source.reader = TableReader(input_.label, piece)
        (chunk,) = source.chunks(tick=run.prepared.tick)
        input_.given += piece.num_rows
        assert chunk.time is not None
        run.take([Arrival(number, chunk.table, chunk.time, input_.given)])


def run_at_random(
    data: st.DataObject, place: Place, what: cernis.Query | RuleSet
) -> list[dict[str, Any]]:
    run = place.start(what)
    sizes = {name: table.num_rows for name, table in place.tables.items()}
    while any(input_.given < sizes[name] for input_, name in zip(run.inputs, sizes, strict=True)):
        for number in range(len(run.inputs)):
            push(run, number, data.draw(st.integers(1, 5)))
        match data.draw(st.sampled_from(("go on", "commit", "commit", "end", "stage and end"))):
            case "commit":
                run.commit()
            case "end":
                run.store.close()
                run = place.start(what)
            case "stage and end":  # between the file and the checkpoint
                for sink in run.sinks:
                    sink.stage(run._batch + 1)
                run.store.close()
                run = place.start(what)
    run.take([InputEnded(number) for number in range(len(run.inputs))])
    run.finish()
    run.commit()
    run.store.close()
    return list(place.read())


def agree(data: st.DataObject, folder: Path, case: tuple[Pattern, Sequence[Any]]) -> None:
    pattern, drawn = case
    assume(drawn and len(pattern.streams) < 2)
    events = sorted(
        ({**event, "ts": event.get("ts", i)} for i, event in enumerate(drawn)),
        key=lambda event: event["ts"],
    )
    name = pattern.streams[0] if pattern.streams else "S"
    place = Place(Path(tempfile.mkdtemp(dir=folder)), {name: make_table(events, timed=True)})
    found = run_at_random(data, place, cernis.query(pattern))
    if pattern.grouping is not None:
        groups = (comparable_group(_when(g), g["partition"], g["values"]) for g in found)
        assert_groups_agree(pattern, events, groups)
    elif counts_only(pattern):
        assert_counts_agree(pattern, events, [(x["end"], x["count"]) for x in found])
    else:
        assert_agrees(pattern, events, ((x["start"], x["end"], x["vars"]) for x in found))


CORPUS = [
    pytest.param(
        case,
        id=f"{case.topic}: {case.name}",
        marks=[] if number % 24 == 0 else [pytest.mark.fuzz],  # `make soak` runs all of them
    )
    for number, case in enumerate(read_cases())
    if not any(STREAM in event for event in case.events)
    and case.events
    and (case.matches is not None or case.groups is not None or case.counts is not None)
    and case.answers is None
    and "OVERALL" not in case.query  # a stream has no end
]


@pytest.mark.parametrize("case", CORPUS)
def test_the_corpus_has_its_answers_in_pieces_with_restarts(
    tmp_path: Path, case: CorpusCase
) -> None:
    chance = random.Random(case.name)
    drawn = [{**event, "ts": event.get("ts", i)} for i, event in enumerate(case.events)]
    rows = sorted(range(len(drawn)), key=lambda row: drawn[row]["ts"])
    query = cernis.query(case.pattern())
    name = query.pattern.streams[0] if query.pattern.streams else "S"
    joined = {name: list(table) for name, table in case.tables.items()}
    table = make_table([drawn[row] for row in rows], timed=True)
    place = Place(tmp_path, {name: table}, joined)
    run = place.start(query)
    given = 0
    while given < len(rows):
        size = chance.randrange(1, 6)
        push(run, 0, size)
        given += size
        if chance.random() < 0.3:
            run.commit()
            run.store.close()
            run = place.start(query)
    run.take([InputEnded(0)])
    run.finish()
    run.commit()
    run.store.close()
    found = list(place.read())
    if query.pattern.grouping is not None:
        case.check_groups(CorpusGroup.of(_when(g), g["partition"], g["values"]) for g in found)
    elif counts_only(query.pattern):
        if case.counts is not None:
            ends = [(rows[x["end"]], x["count"]) for x in found]
            assert sorted(ends) == sorted(case.counts)
    elif case.matches is not None:
        case.check(
            (
                rows[x["start"]],
                rows[x["end"]],
                {variable: [rows[row] for row in at] for variable, at in x["vars"].items()},
            )
            for x in found
        )


def _when(line: dict[str, Any]) -> list[Any]:
    return [line[name] for name in ("from_ts", "to_ts", "end") if name in line]


@few
@given(st.data(), cases(untimed=False, consume=tuple(Consume), events=14))
def test_a_run_that_ends_at_any_moment_and_goes_on_gives_each_match_once(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, case: Any
) -> None:
    agree(data, tmp_path_factory.mktemp("live"), case)


@few
@given(st.data(), grouped_cases(windows=(Unit.TIME, None)))
def test_groups_survive_ends_at_any_moment(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, case: Any
) -> None:
    agree(data, tmp_path_factory.mktemp("live"), case)


RULES = {
    "rise": "SELECT * FROM S WHERE A AS a ; B AS b FILTER a[v] < b[v] WITHIN 5 SECONDS",
    "again": "SELECT * FROM S WHERE A AS a -> A AS b PARTITION BY [k]",
    "quiet": "SELECT * FROM S WHERE B AS b WITHOUT A FOR 2 SECONDS",
}


@few
@given(st.data(), st.integers(0, 2**16))
def test_rules_find_what_each_finds_alone(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, seed: int
) -> None:
    random = np.random.default_rng(seed)
    size = int(random.integers(1, 30))
    table = pa.table(
        {
            "type": random.choice(["A", "B"], size),
            "ts": np.cumsum(random.integers(0, 3, size)) * 1000,
            "v": random.integers(0, 5, size),
            "k": random.integers(0, 3, size),
        }
    )
    place = Place(tmp_path_factory.mktemp("live"), {"S": table})
    lines = run_at_random(data, place, RuleSet.of(RULES))
    found = {name: [] for name in RULES}
    for line in lines:
        found[line["rule"]].append((line["start"], line["end"]))
    for name, text in RULES.items():
        alone = cernis.query(text).run(table, time="ts")
        assert sorted(found[name]) == sorted((m.start, m.end) for m in alone), name


BOTH = "SELECT a[n] AS x, b[n] AS y FROM S, R WHERE S>A AS a ; R>B AS b FILTER a[v] < b[v] "
TWO_STREAMS = (
    f"{BOTH} PARTITION BY [k] WITHIN 6 SECONDS",
    f"{BOTH} WITHIN 4 SECONDS CONSUME BY PARTITION",
    "SELECT a[n] AS x FROM S, R WHERE S>A AS a WITHOUT R>B FOR 2 SECONDS PARTITION BY [k]",
)


@few
@given(st.data(), st.integers(0, 2**16), st.sampled_from(TWO_STREAMS))
def test_two_inputs_are_merged_by_time_whatever_ends(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, seed: int, text: str
) -> None:
    random = np.random.default_rng(seed)
    tables = {}
    for name in ("S", "R"):
        size = int(random.integers(1, 15))
        tables[name] = pa.table(
            {
                "type": random.choice(["A", "B"], size),
                "ts": np.cumsum(random.integers(0, 3, size)) * 1000,
                "v": random.integers(0, 5, size),
                "k": random.integers(0, 2, size),
                "n": np.arange(size),
            }
        )
    # an event that ends the input lies behind all deadlines
    last = {"type": ["Z"], "ts": [90_000], "v": [0], "k": [0], "n": [-1]}
    tables = {name: pa.concat_tables([t, pa.table(last)]) for name, t in tables.items()}
    query = cernis.query(text)
    found = run_at_random(data, Place(tmp_path_factory.mktemp("live"), tables), query)
    lines = sorted((each["start_ts"], each["end_ts"], *each["values"].values()) for each in found)
    names = [item for item in ("x", "y") if f"AS {item}" in text]
    rows = query.run(tables, time="ts").to_arrow().to_pylist()
    assert lines == sorted((r["start_ts"], r["end_ts"], *(r[name] for name in names)) for r in rows)


def test_another_query_does_not_go_on_with_a_checkpoint(tmp_path: Path) -> None:
    place = Place(tmp_path, {"S": make_table([{"type": "A", "ts": 1}], timed=True)})
    run = place.start(cernis.query("SELECT * FROM S WHERE A"))
    push(run, 0, 1)
    run.commit()
    run.store.close()
    with pytest.raises(StateError, match="the checkpoint belongs to another run"):
        place.start(cernis.query("SELECT * FROM S WHERE B"))


def test_the_best_of_all_is_not_known_on_a_stream(tmp_path: Path) -> None:
    place = Place(tmp_path, {"S": make_table([{"type": "A", "ts": 1}], timed=True)})
    with pytest.raises(CernisError, match="a stream never knows the best of all"):
        place.start(cernis.query("SELECT * FROM S WHERE A AS a ORDER BY a[ts] LIMIT 2 OVERALL"))


def test_two_processes_do_not_share_a_checkpoint(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with pytest.raises(StateError, match="another process runs with this checkpoint"):
        LocalStore(tmp_path)
    store.close()
    LocalStore(tmp_path).close()


def test_a_checkpoint_that_is_no_database_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "cernis.sqlite").write_bytes(b"not a database, and longer than a header" * 100)
    with pytest.raises(StateError, match="the checkpoint is damaged"):
        LocalStore(tmp_path)


def test_numbers_are_told_of_every_commit(tmp_path: Path) -> None:
    events = [{"type": "AB"[i % 2], "ts": i} for i in range(20)]
    place = Place(tmp_path, {"S": make_table(events, timed=True)})
    run = place.start(cernis.query("SELECT * FROM S WHERE A : B"))
    told: list[Progress] = []
    run.told = told.append
    for _ in range(20):
        push(run, 0, 1)
        run.commit()
    run.run(lambda: True)
    assert sum(each.rows for each in told) == 20
    assert sum(each.matches for each in told) == 10
    run.store.close()
