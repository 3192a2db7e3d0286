"""Rule sets on streaming DataFrames: what a rule session finds in the same events, while rules are
added, replaced and removed, and a micro-batch that runs again has the rules that it had.

A micro-batch costs Spark about a second, so there are few of them.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections.abc import Callable
from itertools import product
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cernis
from cernis.cli.main import main
from cernis.errors import CernisError, StateError
from cernis.run.rules.rule import RuleSetError
from cernis.spark import progress_of, recognize_rules

pytestmark = pytest.mark.usefixtures("few_partitions")

SCHEMA = pa.schema({"type": pa.string(), "user": pa.string(), "host": pa.int64(), "ts": pa.int64()})
DDL = "type string, user string, host bigint, ts bigint, n bigint"
KNOWN = {
    "guessing": "SELECT * FROM S WHERE FAIL ; OK PARTITION BY [user] WITHIN 50 MILLISECONDS",
    "hosts": "SELECT * FROM S WHERE FAIL : FAIL PARTITION BY [host]",
    "loud": "SELECT * FROM S WHERE FAIL PARTITION BY [user] SUPPRESS BY [user] FOR 40 MILLISECONDS",
    "root": "SELECT * FROM S WHERE OK AS o FILTER o[user = 'a']",
    "same": "SELECT * FROM S WHERE (FAIL AS f ; OK AS o) FILTER f[host] = o[host]",
    "low": "INSERT INTO Low SELECT f[user] AS user, f[host] AS at FROM S WHERE FAIL AS f ; OK "
    "PARTITION BY [user] LIMIT 1",
    "high": "SELECT l FROM Low WHERE Low AS l ; Low AS m PARTITION BY [user]",
}
OTHER = {
    "guessing": "SELECT * FROM S WHERE FAIL ; FAIL ; OK PARTITION BY [user]",
    "hosts": "SELECT * FROM S WHERE OK ; FAIL PARTITION BY [user]",
    "same": "SELECT * FROM S WHERE OK : OK",
}
BUNDLE = {
    f"{first} then {then}": f"SELECT * FROM S WHERE ({first} AS a ; {then} AS b) "
    "FILTER a[host = 1] AND b[host = 1] PARTITION BY [user] SUPPRESS BY [user] FOR 15 ms"
    for first, then in product(("FAIL", "OK", "OTHER"), repeat=2)
}
CHANGES = (
    {**KNOWN, **BUNDLE},
    {**KNOWN, **OTHER, **dict([*BUNDLE.items()][1:])},
    {name: KNOWN[name] for name in ("low", "high", "loud", "hosts")} | BUNDLE,
)


def make_events(number: int, seed: int) -> pa.Table:
    chance = random.Random(seed)
    rows = [
        {
            "type": chance.choice(["FAIL", "OK", "OTHER"]),
            "user": chance.choice(["a", "b", "c", None]),
            "host": chance.randint(1, 3),
            "ts": 3 * i,
        }
        for i in range(number)
    ]
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    return table.append_column("n", pa.array(range(number), pa.int64()))


class Stream:
    """A stream that is stopped and started, with other rules each time."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        (folder / "in").mkdir(parents=True)
        self.found: dict[int, list[str]] = {}
        self.progress: list[Any] = []

    def run(self, rules: dict[str, str], **options: Any) -> list[str]:
        """Read what is there; return the lines, and keep them by micro-batch."""
        df = self.spark.readStream.schema(DDL).parquet(str(self.folder / "in"))
        checkpoint = str(self.folder / "cp")
        found = recognize_rules(
            df, rules, row="n", tasks=2, checkpoint=checkpoint, ahead=None, **options
        )
        told: list[str] = []

        def take(batch: Any, number: int) -> None:
            self.found[number] = sorted(batch.toArrow().column("line").to_pylist())
            told.extend(self.found[number])

        started = found.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint)
        running = started.trigger(availableNow=True).start()
        running.awaitTermination()
        self.progress += map(progress_of, running.recentProgress)
        return sorted(told)

    def put(self, events: pa.Table, number: int) -> None:
        pq.write_table(events, self.folder / "in" / f"{number}.parquet")


@pytest.mark.filterwarnings("ignore:rule")
def test_rules_change_and_the_others_keep_their_state(spark: Any, tmp_path: Path) -> None:
    stream, events = Stream(spark, tmp_path), make_events(120, seed=5)
    session, read = cernis.rules(KNOWN).session(), 0
    for number, rules in enumerate(CHANGES):
        stream.put(events.slice(40 * number, 40), number)
        found = stream.run(rules)
        session.update(cernis.rules(rules))
        until = 40 * number + 39  # the watermark is the time of the last event
        released, read = events.slice(read, until - read), until
        wanted = session.push(released.drop_columns(["n"]))
        lines = [
            json.dumps({"rule": name, **json.loads(line)}, separators=(",", ":"))
            for name, matches in wanted.items()
            for batch in matches.lines()
            for line in batch.column("line").to_pylist()
        ]
        assert found == sorted(lines)
        told = {json.loads(line)["rule"] for line in found}
        assert told - {*BUNDLE} == {*rules} - {*BUNDLE}
        assert len(told & {*BUNDLE}) > 2
    assert sum(progress.rows for progress in stream.progress) == 120
    assert sum(progress.late for progress in stream.progress) == 0
    counted = [own for progress in stream.progress for own in progress.rules_per_bucket.values()]
    assert sum(own["loud"].suppressed for own in counted if "loud" in own) > 0
    assert sum(each.matches for own in counted for each in own.values()) == sum(
        map(len, stream.found.values())
    )
    # a micro-batch that was planned and has not ended has the rules that it had
    last = max(stream.found)
    before = stream.found.pop(last)
    for name in (str(last), f".{last}.crc"):
        (tmp_path / "cp" / "commits" / name).unlink(missing_ok=True)
    assert stream.run({"root": KNOWN["root"]}) == before == stream.found[last] != []
    note = json.loads((tmp_path / "cp" / "cernis.json").read_text())
    assert [version["since"] for version in note["versions"]][-1] == last + 1


def test_rules_that_cannot_be_streamed_are_named(spark: Any, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path)
    wrong = {
        "groups": "SELECT COUNT(*) AS n FROM S WHERE OK PARTITION BY [user] GROUP BY [user]",
        "fits": KNOWN["root"],
    }
    with pytest.raises(RuleSetError, match=r"rule groups: .*GROUP BY on a stream needs EVERY"):
        stream.run(wrong)
    with pytest.raises(RuleSetError, match=r"rule odd: .*unknown attribute 'usr'"):
        stream.run({**KNOWN, "odd": "SELECT * FROM S WHERE OK AS o FILTER o[usr = 'a']"})
    with pytest.raises(CernisError, match="rules have answers of different columns"):
        stream.run({"root": KNOWN["root"]}, matches="events")
    assert not (tmp_path / "cp").exists()
    (tmp_path / "cp").mkdir()
    (tmp_path / "cp" / "cernis.json").write_text('{"version": 1, "query": "SELECT * WHERE A"}')
    with pytest.raises(StateError, match="the checkpoint belongs to another run"):
        stream.run({"root": KNOWN["root"]})


def when(condition: Callable[[], bool], act: Callable[[], None]) -> None:
    until = monotonic() + 300
    while not condition() and monotonic() < until:
        sleep(0.05)
    act()


@pytest.mark.usefixtures("spark")
def test_a_folder_of_rules_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    rules, source = tmp_path / "rules", tmp_path / "in"
    rules.mkdir()
    source.mkdir()
    (rules / "pairs.ceql").write_text("RULE pairs AS SELECT * FROM S WHERE FAIL ; OK WITHIN 1 HOUR")
    (rules / "gone.ceql").write_text("RULE gone AS SELECT * FROM S WHERE OK AS o")

    def put(number: int, *events: tuple[str, int]) -> None:
        text = "".join(f'{{"type": "{kind}", "ts": {ts}}}\n' for kind, ts in events)
        (source / f".{number}").write_text(text)
        os.utime(source / f".{number}", (10**9 + number, 10**9 + number))
        (source / f".{number}").rename(source / f"{number}.jsonl")

    def found() -> list[tuple[str, int]]:
        lines = [line for file in Path("out").glob("*.jsonl") for line in file.open()]
        return sorted((told["rule"], told["end_ts"]) for told in map(json.loads, lines))

    def change() -> None:
        (rules / "gone.ceql").unlink()
        (rules / "pairs.ceql").write_text("RULE pairs AS SELECT * FROM S WHRE FAIL ; OK")
        (rules / "new.ceql").write_text(
            "RULE twice AS SELECT * FROM S WHERE OK ; OK WITHIN 1 HOUR;\n"
            "RULE odd AS SELECT * FROM S WHERE OK AS o FILTER o[user = 'a']"
        )

    def steps() -> None:
        when(lambda: ("gone", 2) in found(), change)
        wait = lambda: '"twice"' in Path("cp", "cernis.json").read_text()  # noqa: E731
        when(wait, lambda: put(1, ("OK", 4), ("OK", 5), ("OTHER", 99)))
        when(lambda: ("twice", 5) in found(), lambda: os.kill(os.getpid(), signal.SIGTERM))

    put(0, ("FAIL", 1), ("OK", 2), ("OTHER", 3))
    changing = threading.Thread(target=steps)
    changing.start()
    command = [
        "stream",
        "rules",
        "--engine",
        "spark",
        "--source",
        "S=in",
        "--checkpoint",
        "cp",
        "--sink",
        "out",
    ]
    options = ["--output-format", "jsonl", "--trigger", "200ms", "--metrics", "numbers.prom"]
    assert main([*command, *options]) == 0
    changing.join()
    assert found() == [("gone", 2), ("pairs", 2), ("pairs", 4), ("pairs", 5), ("twice", 5)]
    err = capfd.readouterr().err
    assert "rules: refused, and what was there stays: rules/pairs.ceql: rule pairs: line 1" in err
    assert "unexpected 'WHRE'\n  RULE pairs AS SELECT * FROM S WHRE FAIL ; OK\n" in err
    assert "rules/new.ceql: rule odd: line 2, column 52: unknown attribute 'user'" in err
    assert "rules: added twice; removed gone; kept pairs\n" in err
    numbers = dict(line.rsplit(" ", 1) for line in Path("numbers.prom").read_text().splitlines())
    assert numbers["cernis_rules"] == "2"
    assert numbers['cernis_rule_changes_total{change="refused"}'] == "2"
    assert numbers['cernis_rule_matches_total{rule="pairs"}'] == "3"
    assert numbers['cernis_rule_events_total{rule="twice"}'] == "2"
