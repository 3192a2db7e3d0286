"""A bucket of rules finds what a rule session finds that reads the same events: whatever the
micro-batches, the workers, attempts that fail and restarts, while rules are added, replaced and
removed. Without Spark: the state store is a dictionary."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cernis
from cernis.errors import StateError
from cernis.events.order import Scale
from cernis.pattern.query import Consume, Strategy
from cernis.run.rules.shared import shared_rules
from cernis.run.rules.shared.shared_rules import SMALLEST
from cernis.run.session import RunOptions
from cernis.spark.keys import KeyedRules, key_rules
from cernis.spark.streaming.versions import find_last_batch, record_rules
from cernis.work import checkpoint, log
from cernis.work.bucket import Bucket, BucketWork, restore_bucket
from cernis.work.carriers import write_blob
from cernis.work.columns import ROW
from cernis.work.query import line_schema
from cernis.work.reading import RowWork, StreamColumns
from cernis.work.rule_record import BucketGroup, RuleKey, RuleRecord, RuleText, RuleVersion
from cernis.work.rules import RuleWork
from tools.cases.state_store import MemoryStore
from tools.cases.strategies import cases, streams, suppressed_cases
from tools.cases.tables import make_table

few = settings(
    max_examples=max(25, settings.default.max_examples // 4),
    suppress_health_check=list(HealthCheck),
)
DERIVING = {
    "makes D": "INSERT INTO D SELECT a[x] AS x FROM S WHERE A AS a",
    "reads D": "SELECT * FROM S, D WHERE D AS d ; S>B AS b",
}
LONGEST = "INSERT INTO D SELECT LONGEST COUNT(*) AS x FROM S WHERE (A:+) WITHIN 4 MILLISECONDS"
HOLDING = {"makes D": LONGEST, "reads D": DERIVING["reads D"]}
BEST = (
    "INSERT INTO D SELECT a[x] AS x FROM S WHERE A AS a ORDER BY a[x] LIMIT 1 EVERY 3 MILLISECONDS"
)
RANKING = {"makes D": BEST, "reads D": DERIVING["reads D"]}
FAMILY = {
    f"f{i}": "SELECT * FROM S WHERE (A AS a ; B AS b) "
    f"FILTER a[host = 'h{i}'] AND b[host = 'h{i}'] WITHIN 5 MILLISECONDS"
    for i in range(SMALLEST + 1)
}
BUNDLE = {
    f"b{i}": f"SELECT * FROM S WHERE (A AS a ; {'AB'[i % 2]}{'+' * (i % 3)} AS b) "
    f"FILTER a[host = 'h{i % 2}'] AND b[host = 'h{i % 2}'] AND a[x >= {i // 6}] "
    f"PARTITION BY [host] WITHIN {i % 3 + 3} ms SUPPRESS BY [host] FOR {i + 1} ms"
    for i in range(shared_rules.SMALLEST + 1)
}


def work_on(events: pa.Table) -> RuleWork:
    columns = {name: name for name in events.column_names if name != ROW}
    reading = RowWork(
        streams=(StreamColumns(name="S", columns=columns),),
        reading=RunOptions(time="ts"),
        scale=Scale(10**6, 10**6),
    )
    schema = line_schema(reading, events.schema)
    return RuleWork(**{**reading.__dict__, "rows": events.schema, "schema": schema})


@dataclass
class Run:
    """Rules on micro-batches, by several workers."""

    work: RuleWork
    versions: tuple[RuleVersion, ...] = ()
    store: MemoryStore = field(default_factory=MemoryStore)
    workers: list[dict[int, Bucket]] = field(default_factory=lambda: [{}, {}])
    number: int = 0

    def change(self, texts: Sequence[tuple[str, str]]) -> None:
        """Go on with other rules from the next micro-batch on."""
        known = self.versions[-1].rules[0] if self.versions else ()
        before = {rule[:2]: rule for rule in known}
        rules = tuple(before.get(text, RuleText(*text, self.number)) for text in texts)
        self.versions = (*self.versions, RuleVersion(self.number, (rules,)))

    def batch(
        self,
        events: pa.Table | None,
        watermark: int | None,
        worker: int = 0,
        *,
        fails: bool = False,
    ) -> list[dict[str, Any]]:
        record = RuleRecord((BucketGroup(RuleKey(), (0,)),), self.versions[-2:])
        stream = BucketWork(work=self.work, query="q", buckets=(0,), numbered=True, record=record)
        store = self.store.copy() if fails else self.store
        live = self.workers[worker]
        bucket = restore_bucket(stream, 0, store, live.pop(0, None))
        bucket.revise(store, self.number)
        blobs = [] if events is None else [write_blob(events)]
        found = [
            json.loads(line)
            for batch in bucket.take(store, blobs, watermark, lambda _, __: None)
            for line in batch.column("line").to_pylist()
        ]
        live[0] = bucket
        self.number += not fails
        return found


@pytest.fixture(autouse=True)
def _small_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "SMALLEST_SNAPSHOT", 1 << 11)


@st.composite
def rule_texts(draw: st.DrawFn) -> dict[str, str]:
    """Draw rules that can be read by name, some of them silencing, some on streams of matches."""
    plain = cases(
        strategies=(Strategy.ALL, Strategy.NEXT, Strategy.LAST),
        consume=tuple(Consume),
        partition=True,
        binary=True,
        untimed=False,
        size=4,
    )
    drawn = draw(st.lists(plain, min_size=1, max_size=3))
    drawn += draw(st.lists(suppressed_cases(untimed=False, size=4), max_size=1))
    texts = {f"r{i}": str(pattern) for i, (pattern, _) in enumerate(drawn)}
    texts |= draw(st.sampled_from(({}, DERIVING, HOLDING, RANKING)))
    return texts | draw(st.sampled_from(({}, FAMILY, BUNDLE, FAMILY | BUNDLE)))


def comparable(line: dict[str, Any]) -> str:
    return json.dumps(line, sort_keys=True)


@few
@given(st.data())
def test_rules_that_come_and_go_survive_restarts(data: st.DataObject) -> None:
    known = data.draw(rule_texts())
    events = data.draw(streams(None, untimed=False, events=10, disorder=False))
    if not events:
        return
    whole = make_table([{"ts": i, "x": 0, **event} for i, event in enumerate(events)], timed=True)
    whole = whole.append_column("host", pa.array([f"h{i % 2}" for i in range(whole.num_rows)]))
    whole = whole.sort_by("ts")
    whole = whole.append_column(ROW, pa.array(range(whole.num_rows), pa.int64()))
    run = Run(work_on(whole))
    times = whole.column("ts").to_pylist()
    session = cernis.rules(dict(list(known.items())[:1])).session()
    first = read = 0
    seen: int | None = None
    while first < len(times) or seen is not None:
        last = first >= len(times)
        names = data.draw(st.sets(st.sampled_from([*known]), min_size=1))
        if "reads D" in names:
            names |= {"makes D"}
        for several in (FAMILY, BUNDLE):
            if not names.isdisjoint(several):
                names |= {*several} - {data.draw(st.sampled_from([*several]))}
        texts = {name: known[name] for name in known if name in names}
        run.change(tuple((name, str(cernis.query(text))) for name, text in texts.items()))
        session.update(cernis.rules(texts))
        size = data.draw(st.integers(1, 4))
        part = whole.slice(first, size) if not last else None
        watermark = 2**40 if last else seen
        if data.draw(st.booleans()):
            run.batch(part, watermark, data.draw(st.integers(0, 1)), fails=True)
        if data.draw(st.booleans()):
            run.workers = [{}, {}]
        found = run.batch(part, watermark, data.draw(st.integers(0, 1)))
        limit = 0 if watermark is None else sum(time < watermark for time in times[: first + size])
        released, read = whole.slice(read, limit - read), limit
        wanted = [*session.push(released.drop_columns([ROW])).items()]
        if watermark is not None:
            wanted += session.pass_time(watermark * 10**6, run.work.scale)
        lines = [
            {"rule": name, **json.loads(line)}
            for name, matches in wanted
            for batch in matches.lines()
            for line in batch.column("line").to_pylist()
        ]
        assert sorted(map(comparable, found)) == sorted(map(comparable, lines))
        first += size
        seen = None if last else times[min(first, len(times)) - 1]


def rows(*events: tuple[str, int], first: int = 0) -> pa.Table:
    kinds, times = [kind for kind, _ in events], [time for _, time in events]
    numbers = pa.array(range(first, first + len(events)), pa.int64())
    columns = [pa.array(kinds, pa.string()), pa.array(times, pa.int64()), numbers]
    return pa.table(columns, names=["type", "ts", ROW])


def test_a_rule_that_comes_back_begins_anew_also_where_a_worker_remembers_it() -> None:
    run = Run(work_on(rows()))
    pairs, other = ("pairs", "SELECT * FROM S WHERE A ; B"), ("other", "SELECT * FROM S WHERE C")
    run.change((pairs, other))
    run.batch(rows(("A", 1)), None, worker=0)
    run.batch(None, 10, worker=0)
    for texts in ((other,), (pairs, other)):
        run.change(texts)
        run.batch(None, 10, worker=1)
    found = run.batch(rows(("B", 20), ("A", 21), ("B", 22), first=1), 10, worker=0)
    found += run.batch(None, 100, worker=0)
    assert [(line["rule"], line["start"], line["end"]) for line in found] == [("pairs", 2, 3)]


def test_a_rule_that_comes_back_begins_anew_in_a_bucket_that_slept_meanwhile() -> None:
    run = Run(work_on(rows()))
    pairs, other = ("pairs", "SELECT * FROM S WHERE A ; B"), ("other", "SELECT * FROM S WHERE C")
    run.change((pairs, other))
    run.batch(rows(("A", 1)), None)
    run.batch(None, 10)
    run.change((other,))
    run.number += 1  # no event comes to the bucket
    run.change((pairs, other))
    found = run.batch(rows(("B", 20), ("A", 21), ("B", 22), first=1), 10)
    run.workers = [{}, {}]
    found += run.batch(None, 100)
    assert [(line["start"], line["end"]) for line in found] == [(2, 3)]


def test_the_watermark_makes_the_matches_of_rules_certain() -> None:
    run = Run(work_on(rows()))
    alone = "SELECT * FROM S WHERE A WITHOUT B FOR 10 MILLISECONDS"
    counted = "SELECT COUNT(*) AS n FROM S WHERE A GROUP BY EVERY 100 MILLISECONDS"
    run.change((("alone", alone), ("counted", counted), ("at once", "SELECT * FROM S WHERE A")))
    found = [
        [(line["rule"], line.get("end")) for line in run.batch(events, watermark, worker)]
        for events, watermark, worker in (
            (rows(("A", 1), ("A", 50)), None, 0),
            (None, 2, 1),
            (None, 12, 0),
            (None, 101, 1),
        )
    ]
    assert found == [
        [],
        [("at once", 0)],
        [("alone", 0)],
        [("at once", 1), ("alone", 1), ("counted", None)],
    ]


def test_the_state_of_another_key_is_refused() -> None:
    run = Run(work_on(rows()))
    run.change((("a", "SELECT * FROM S WHERE A"),))
    run.batch(rows(("A", 1)), None)
    record = RuleRecord((BucketGroup(RuleKey((("type",),)), (0,)),), run.versions)
    stream = BucketWork(work=run.work, query="q", buckets=(0,), numbered=True, record=record)
    with pytest.raises(StateError, match="bucket 0: the checkpoint belongs to another query"):
        restore_bucket(stream, 0, run.store, None)


# ---------------------------------------------------------------- upgrades

RELEASED = Path(__file__).parent / "checkpoints"
KEPT = {
    **DERIVING,
    **FAMILY,
    "alone": "SELECT * FROM S WHERE A WITHOUT B FOR 2 MILLISECONDS",
    "counted": "SELECT COUNT(*) AS n FROM S WHERE A GROUP BY EVERY 100 MILLISECONDS",
    "all": "SELECT * FROM S WHERE A ; B WITHIN 9 EVENTS",
}


def kept_rows(first: int, number: int) -> pa.Table:
    """The same for ever: the checkpoints that are kept have read them."""
    table = rows(
        *(("ABC"[at * at % 3], 3 * at) for at in range(first, first + number)), first=first
    )
    numbers = range(first, first + number)
    table = table.append_column("x", pa.array(numbers, pa.int64()))
    return table.append_column("host", pa.array([f"h{at // 4 % 4}" for at in numbers]))


def run_kept(store: MemoryStore | None = None, number: int = 0) -> Run:
    """Run the kept rules, over a checkpoint that no worker has in memory."""
    run = Run(work_on(kept_rows(0, 0)), store=store or MemoryStore())
    run.change([(name, str(cernis.query(text))) for name, text in KEPT.items()])
    run.number = number
    return run


def write_kept(run: Run) -> None:
    """Feed the events that the kept checkpoints have read, and some that still wait."""
    for first in range(0, 60, 20):
        run.batch(kept_rows(first, 20), 3 * first or None)
    run.batch(None, 150)


@pytest.mark.parametrize("name", ["rule-chunks", "rule-snapshot"])
def test_a_checkpoint_of_this_version_goes_on(name: str) -> None:
    kept = run_kept(MemoryStore.load(RELEASED / name / f"version-{log.VERSION}"), 4)
    whole = run_kept()
    write_kept(whole)
    found = [
        sorted(map(comparable, [*run.batch(kept_rows(60, 20), 180), *run.batch(None, 2**40)]))
        for run in (kept, whole)
    ]
    assert found[0] == found[1] != []
    assert {json.loads(line)["rule"] for line in found[0]} >= {"reads D", "alone", "counted", "f1"}


NOTED = {
    "by user": "SELECT * FROM S WHERE A PARTITION BY [user]",
    "alone": "SELECT * FROM S WHERE B",
}


@pytest.mark.parametrize("version", range(1, checkpoint.VERSION + 1))
def test_the_note_of_a_rule_set_of_every_version_is_read(version: int, tmp_path: Path) -> None:
    shutil.copy(RELEASED / "rules-note" / f"version-{version}.json", tmp_path / checkpoint.NOTE)
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "7").touch()
    record = record_rules(str(tmp_path), {"columns": "k"}, keyed(**NOTED), (5, 9))
    assert [len(group.buckets) for group in record.groups] == [2, 1]
    assert [rule.since for texts in record.versions[-1].rules for rule in texts] == [0, 0]


def write_missing_checkpoints() -> None:
    note = RELEASED / "rules-note" / f"version-{checkpoint.VERSION}.json"
    if not note.exists():
        note.parent.mkdir(parents=True, exist_ok=True)
        record_rules(str(note.parent), {"columns": "k"}, keyed(**NOTED), (2, 4))
        (note.parent / checkpoint.NOTE).rename(note)
    for name, smallest in (("rule-chunks", 1 << 30), ("rule-snapshot", 1)):
        folder = RELEASED / name / f"version-{log.VERSION}"
        if not folder.exists():
            log.SMALLEST_SNAPSHOT = smallest
            run = run_kept()
            write_kept(run)
            run.store.save(folder)


# ---------------------------------------------------------------- versions


def keyed(**texts: str) -> tuple[KeyedRules, ...]:
    rules = cernis.rules(texts)
    return key_rules(rules, [rule.query.plan for rule in rules])


def test_the_checkpoint_says_from_which_micro_batch_on_rules_hold(tmp_path: Path) -> None:
    folder, note = str(tmp_path), {"columns": {"S": {"k": "int64"}}}
    by_user = "SELECT * FROM S WHERE A PARTITION BY [user]"
    one = keyed(a=by_user)
    first = record_rules(folder, note, one, (2, 4))
    assert first == record_rules(folder, note, one, (3, 5))
    assert [version.since for version in first.versions] == [0]
    (tmp_path / "offsets").mkdir()
    for batch in range(8):
        (tmp_path / "offsets" / str(batch)).touch()
        (tmp_path / "offsets" / f".{batch}.crc").touch()
    assert find_last_batch(folder) == 7
    two = keyed(a=by_user, b="SELECT * FROM S WHERE B", c="SELECT * FROM S WHERE C")
    second = record_rules(folder, note, two, (3, 5))
    assert [version.since for version in second.versions] == [0, 8]
    assert second.groups[0] == first.groups[0]
    assert [len(group.buckets) for group in second.groups] == [2, 1]
    assert len({*second.buckets}) == 3
    assert second.find_version(7).rules == ((("a", by_user, 0),), ())
    assert [rule.since for texts in second.versions[-1].rules for rule in texts] == [0, 8, 8]
    three = keyed(b="SELECT * FROM S WHERE B")
    replaced = record_rules(folder, note, three, (3, 5))  # the version before was never run
    assert [version.since for version in replaced.versions] == [0, 8]
    (tmp_path / "offsets" / "8").touch()
    later = record_rules(folder, note, two, (3, 5))
    assert [version.since for version in later.versions] == [8, 9]
    assert [rule.since for texts in later.versions[-1].rules for rule in texts] == [9, 8, 9]


def test_a_rule_that_gets_another_key_is_another_rule(tmp_path: Path) -> None:
    makes = LOW.format("LAST(a[k]) AS k")
    reads = "SELECT * FROM Low WHERE Low"
    (tmp_path / "offsets").mkdir()
    since, told = [], []
    for batch, more in enumerate(
        ({}, {"reads": f"{reads} PARTITION BY [k]"}, {"reads": reads}, {})
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            record = record_rules(str(tmp_path), {}, keyed(makes=makes, **more), (1, 1))
        told.append([str(warning.message) for warning in caught])
        since.append([rule.since for texts in record.versions[-1].rules for rule in texts])
        (tmp_path / "offsets" / str(batch)).touch()
    assert since == [[0], [0, 1], [2, 2], [3]]
    lost = "rule makes: its state is lost, and it begins anew: its events"
    assert told == [
        [],
        [],
        [f"{lost} travelled by [k] and have no key now"],
        [f"{lost} had no key and travel by [k] now"],
    ]


def test_a_checkpoint_with_other_columns_or_of_a_query_is_refused(tmp_path: Path) -> None:
    rules = keyed(a="SELECT * FROM S WHERE A")
    record_rules(str(tmp_path), {"columns": "k"}, rules, (1, 1))
    with pytest.raises(StateError, match="columns was k"):
        record_rules(str(tmp_path), {"columns": "l"}, rules, (1, 1))
    (tmp_path / "cernis.json").write_text('{"version": 1, "query": "SELECT * WHERE A"}')
    with pytest.raises(StateError, match=r"query was SELECT \* WHERE A\n +is a rule set"):
        record_rules(str(tmp_path), {}, rules, (1, 1))
    note = {"version": 1, "query": "a rule set", "groups": [{}], "versions": []}
    (tmp_path / "cernis.json").write_text(json.dumps(note))
    with pytest.raises(StateError, match="the note of the checkpoint is damaged"):
        record_rules(str(tmp_path), {}, rules, (1, 1))


# -------------------------------------------------------------------- keys

LOW = "INSERT INTO Low SELECT {} FROM S WHERE A+ AS a PARTITION BY [k]"


@pytest.mark.parametrize(
    ("texts", "keys"),
    [
        ([LOW.format("LAST(a[k]) AS k"), "SELECT * FROM Low WHERE Low PARTITION BY [k]"], ["k"]),
        ([LOW.format("LAST(a[j]) AS k"), "SELECT * FROM Low WHERE Low PARTITION BY [k]"], [""]),
        ([LOW.format("COUNT(a) AS n"), "SELECT * FROM Low WHERE Low"], [""]),
        ([LOW.format("COUNT(a) AS n")], [""]),
        (
            [
                LOW.format("MIN(a[k]) AS k, COUNT(a) AS n"),
                "INSERT INTO High SELECT l[k] AS k FROM Low WHERE Low AS l PARTITION BY [k]",
                "SELECT * FROM S, High WHERE S>A ; High PARTITION BY [k] WITHIN 1 HOUR",
                "SELECT * FROM S WHERE A PARTITION BY [j]",
                "SELECT * FROM S WHERE A",
            ],
            ["k", "j", ""],
        ),
    ],
)
def test_rules_on_streams_of_matches_keep_a_key_that_all_of_them_have(
    texts: Sequence[str], keys: list[str]
) -> None:
    found = keyed(**{f"r{i}": text for i, text in enumerate(texts)})
    assert ["".join(sum(each.key.partition, ())) for each in found] == keys


if __name__ == "__main__":
    write_missing_checkpoints()
