"""Kills at random moments: `cernis stream --engine local` ends, goes on, and gives each match once.

    python tests/live/crash.py --kills 200 --seed 7

Another process writes events to a file, or files to a folder, while the stream is killed again and
again. At the end, the matches in the sink are compared with those of one run over all events.
Prints a line for each kind of input: kills, matches, lost, doubled.
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
from pathlib import Path
from time import monotonic, sleep

import cernis

QUERY = (
    "SELECT * FROM S WHERE A AS a ; B AS b FILTER a[v] < b[v] PARTITION BY [k] WITHIN 40 SECONDS"
)
KINDS = ("file", "folder")


class Scene:
    """A stream of some events, which a thread writes while the command reads them."""

    def __init__(self, kind: str, folder: Path, events: int, chance: random.Random) -> None:
        self.kind, self.folder, self.chance = kind, folder, chance
        self.events = [
            {"type": chance.choice("AB"), "ts": 1000 * i, "v": chance.randrange(9), "k": i % 5}
            for i in range(events)
        ]
        self.place = folder / ("S.jsonl" if kind == "file" else "S")
        if kind == "folder":
            self.place.mkdir()
        else:
            self.place.touch()

    def write(self, stop: threading.Event) -> None:
        first = 0
        while first < len(self.events):
            some = self.events[first : first + self.chance.randrange(1, 60)]
            text = "".join(json.dumps(event) + "\n" for event in some)
            if self.kind == "file":
                with open(self.place, "a") as file:
                    file.write(text)
            else:
                hidden = self.place / f".{first:06}.jsonl"
                hidden.write_text(text)
                hidden.rename(self.place / f"{first:06}.jsonl")
            first += len(some)
            if stop.wait(self.chance.random() * 0.02):
                return

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        command = [
            *(sys.executable, "-m", "cernis", "stream", QUERY, "--engine", "local"),
            *("--source", f"S={self.place}", "--sink", str(self.folder / "out")),
            *("--checkpoint", str(self.folder / "checkpoint"), "--output-format", "jsonl"),
            *(more or ("--trigger", "20ms")),
        ]
        return subprocess.Popen(command, stderr=subprocess.PIPE)

    def read(self) -> Counter[tuple[int, int]]:
        lines = [
            json.loads(line)
            for path in (self.folder / "out").glob("matches-*.jsonl")
            for line in path.read_text().splitlines()
        ]
        return Counter((line["start_ts"], line["end_ts"]) for line in lines)

    def expect(self) -> Counter[tuple[int, int]]:
        found = cernis.query(QUERY).run(self.events)
        return Counter((match.start_ts, match.end_ts) for match in found)


def crash(kind: str, kills: int, events: int, seed: int) -> tuple[int, int, int]:
    """Return how many matches there are, how many were lost, and how many doubled."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        scene, stop = Scene(kind, Path(name), events, chance), threading.Event()
        writer = threading.Thread(target=scene.write, args=(stop,))
        writer.start()
        for _ in range(kills):
            process = scene.start()
            until = monotonic() + 0.5 + 2.5 * chance.random()
            while monotonic() < until and process.poll() is None:
                sleep(0.01)
            process.send_signal(signal.SIGKILL)
            process.wait()
        writer.join()
        last = scene.start("--once")
        _, said = last.communicate()
        if last.returncode:
            raise SystemExit(f"the last run failed: {said.decode()}")
        found, expected = scene.read(), scene.expect()
        return expected.total(), (expected - found).total(), (found - expected).total()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--events", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print(f"{'input':8} {'kills':>6} {'matches':>8} {'lost':>6} {'doubled':>8}")
    failed = False
    for kind in KINDS:
        number = arguments.kills // len(KINDS)
        matches, lost, doubled = crash(kind, number, arguments.events, arguments.seed)
        print(f"{kind:8} {number:6} {matches:8,} {lost:6} {doubled:8}", flush=True)
        failed |= bool(lost or doubled)
    sys.exit(failed)


if __name__ == "__main__":
    main()
