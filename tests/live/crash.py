"""Kills at random moments: `cernis stream` ends, goes on, and gives each match once.

    python tests/live/crash.py --kills 200 --seed 7

Another thread writes events to a file, or files to a folder, while the stream is killed again and
again: one time in three in the middle of a snapshot, one time in three at another moment of a
commit (`killed`), else at any moment. Twice the disk is full. The matches go to a folder and, where
there is a broker, to a topic; the broker is killed as well, and starts again. At the end, the
matches are compared with those of one run over all events.
Prints a line for each kind: ends, matches, lost, doubled, and how many ends hit which moment.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from io import BytesIO
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple

import cernis

QUERY = (
    "SELECT * FROM S WHERE A AS a ; B AS b FILTER a[v] < b[v] PARTITION BY [k] "
    "WITHIN 40 SECONDS CONSUME BY PARTITION"
)
STATEMENT = """SELECT * FROM S MATCH_RECOGNIZE (
  PARTITION BY k ORDER BY ts
  MEASURES FIRST(ts) AS start_ts, LAST(ts) AS end_ts
  PATTERN (low up+ down?) WITHIN INTERVAL '40' SECOND
  DEFINE up AS v > PREV(v), down AS type = 'A' AND v < FIRST(v))"""
KINDS = ("file", "folder", "topic", "rows")
"""A file or a folder, to a folder; a file, to a topic; a file, through a statement, to a folder."""
HARD = Path(__file__).parent / "killed.py"
MOMENTS = ("snapshot", "commit", "release", "full", "any")
_ROOM = 40_000
"""Bytes that a full disk has left."""
_PATIENCE = 60
"""Seconds until a moment is given up: a busy machine comes to it late."""
_EVENTS = 4_000
"""Events for each end, after which few come: a busy machine would have too many left to read."""


Match = tuple[int | str, int | str]
"""The times of a match's first and last event, as an output has them."""


class Scene:
    """A stream that a thread writes while the command reads it."""

    def __init__(self, kind: str, folder: Path, chance: random.Random, broker: Any) -> None:
        self.kind, self.folder, self.chance, self.broker = kind, folder, chance, broker
        self.events: list[dict[str, Any]] = []
        self.place = folder / ("S" if kind == "folder" else "S.jsonl")
        if kind == "folder":
            self.place.mkdir()
        else:
            self.place.touch()
        self.hits: Counter[str] = Counter()
        """How often the process ended at which moment."""

    def write(self, stop: threading.Event) -> None:
        """Write events until the last end: each of them hits a stream that has work."""
        chance = random.Random(self.chance.random())
        while not stop.wait(0.05 * chance.random()):
            first = len(self.events)
            most = 40 if first < _EVENTS * (1 + self.hits.total()) else 2
            self.append(
                {"type": chance.choice("AB"), "ts": 1000 * i, "v": chance.randrange(9), "k": i % 5}
                for i in range(first, first + chance.randrange(1, most))
            )
        # the watermark passes all other rows: WITHIN decides every search
        self.append([{"type": "C", "ts": 1000 * (len(self.events) + 100), "v": 0, "k": 5}])

    def append(self, events: Iterable[dict[str, Any]]) -> None:
        """Write some events, all at once."""
        first, some = len(self.events), [*events]
        self.events += some
        text = "".join(json.dumps(event) + "\n" for event in some)
        if self.kind != "folder":
            with open(self.place, "a") as file:
                file.write(text)
        else:
            hidden = self.place / f".{first:06}.jsonl"
            hidden.write_text(text)
            hidden.rename(self.place / f"{first:06}.jsonl")

    def start(self, *more: str, moment: tuple[str, int] | None = None) -> subprocess.Popen[bytes]:
        out = str(self.folder / "out")
        if self.kind == "topic":
            out = f"kafka://{self.broker.servers}/out"
        program = ["-m", "cernis"] if moment is None else [str(HARD), *map(str, moment)]
        query = [STATEMENT, "--lang", "sql"] if self.kind == "rows" else [QUERY]
        command = [
            *(sys.executable, *program, "stream", *query),
            *("--source", f"S={self.place}", "--sink", out),
            *("--checkpoint", str(self.folder / "checkpoint"), "--output-format", "jsonl"),
            *(more or ("--trigger", "20ms")),
        ]
        return subprocess.Popen(command, stderr=subprocess.PIPE)

    def end(self, number: int, ends: int) -> None:
        """Let the command run, and end it in some way."""
        match number % 3:
            case 0:
                moment = "snapshot", self.chance.randrange(1, 4)
            case 1:
                moment = self.chance.choice(["commit", "release"]), self.chance.randrange(2, 20)
            case _:
                moment = None
        is_full = number in (ends // 3, 2 * ends // 3) and ends > 2
        process = self.start(moment=("full", _ROOM) if is_full else moment)
        patience = 0.5 + 4.5 * self.chance.random()
        until = monotonic() + (_PATIENCE if is_full or moment is not None else patience)
        if self.kind == "topic" and number % 4 == 3:
            sleep(2 * self.chance.random())
            self.broker.kill()
            self.broker.launch()
            self.broker.wait()
        while monotonic() < until and process.poll() is None:
            sleep(0.01)
        if is_full and process.poll() not in (None, 1):
            _, said = process.communicate()
            raise SystemExit(f"a full disk: {process.returncode}: {said.decode()}")
        hit = process.poll() == -signal.SIGKILL  # by itself: the others end at any moment
        name = "full" if is_full else moment[0] if hit and moment is not None else "any"
        self.hits[name] += 1
        process.send_signal(signal.SIGKILL)
        process.communicate()

    def read(self) -> Counter[Match]:
        if self.kind == "topic":
            from broker import read_committed  # beside the tests of Kafka, see `start_broker`

            lines = read_committed(self.broker.servers, "out")
        else:
            lines = [
                json.loads(line)
                for path in (self.folder / "out").glob("matches-*.jsonl")
                for line in path.read_text().splitlines()
            ]
        return Counter((line["start_ts"], line["end_ts"]) for line in lines)

    def expect(self) -> Counter[Match]:
        if self.kind == "rows":
            begin = datetime(1970, 1, 1)
            rows = [
                {**event, "ts": begin + timedelta(milliseconds=event["ts"])}
                for event in self.events
            ]
            written = BytesIO()
            cernis.sql(STATEMENT, S=rows).write_jsonl(written)
            lines = map(json.loads, written.getvalue().splitlines())
            return Counter((line["start_ts"], line["end_ts"]) for line in lines)
        found = cernis.query(QUERY).run(self.events, budget=10**12)  # that of a stream is renewed
        return Counter((match.start_ts, match.end_ts) for match in found)


def start_broker(folder: Path) -> Any:
    """Return a Kafka with one topic; None if there is none here."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "kafka"))
    try:
        from broker import Broker, find_broker
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic
    except ImportError:
        return None
    jars = find_broker()
    if jars is None:
        return None
    broker = Broker(jars, folder)
    broker.launch()
    broker.wait()
    admin = AdminClient({"bootstrap.servers": broker.servers})
    admin.create_topics([NewTopic("out", 1, 1)])["out"].result(60)
    return broker


class Outcome(NamedTuple):
    """How many matches there are, were lost and doubled, and which moments were hit."""

    matches: int
    lost: int
    doubled: int
    hits: Counter[str]


def crash(kind: str, ends: int, seed: int) -> Outcome | None:
    """End and start a stream so often; None: there is no broker."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "kafka").mkdir()
        broker = start_broker(Path(name) / "kafka") if kind == "topic" else None
        stop = threading.Event()
        if kind == "topic" and broker is None:
            return None
        try:
            scene = Scene(kind, Path(name), chance, broker)
            writer = threading.Thread(target=scene.write, args=(stop,))
            writer.start()
            for number in range(ends):
                scene.end(number, ends)
            stop.set()
            writer.join()
            last = scene.start("--once")
            _, said = last.communicate()
            if last.returncode:
                raise SystemExit(f"the last run failed: {said.decode()}")
            found, expected = scene.read(), scene.expect()
        finally:
            stop.set()
            if broker is not None:
                broker.stop()
        lost, doubled = (expected - found).total(), (found - expected).total()
        return Outcome(expected.total(), lost, doubled, scene.hits)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default=",".join(KINDS))
    arguments = parser.parse_args()
    kinds = arguments.kinds.split(",")
    heads = " ".join(f"{moment:>8}" for moment in MOMENTS)
    print(f"{'input':8} {'kills':>6} {'matches':>8} {'lost':>6} {'doubled':>8} {heads}", flush=True)
    failed = False
    for kind in kinds:
        number = max(1, arguments.kills // len(kinds))
        found = crash(kind, number, arguments.seed)
        if found is None:
            print(f"{kind:8} no broker", flush=True)
            continue
        matches, lost, doubled, hits = found
        moments = " ".join(f"{hits[moment]:8}" for moment in MOMENTS)
        print(f"{kind:8} {number:6} {matches:8,} {lost:6} {doubled:8} {moments}", flush=True)
        failed |= bool(lost or doubled)
    sys.exit(failed)


if __name__ == "__main__":
    main()
