"""An endless stream: `cernis stream` reads a file at a steady rate, and needs no more and no more.

    python tests/live/endless.py --minutes 60 --rate 5000

Writes events to a file that is replaced when it is large (rotation), by keys that come and go, and
looks at the process every so often: its memory and the size of its checkpoint. Fails if either is
at the end more than a quarter above what it was at half time, or if the
process falls behind.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic, sleep
from typing import NamedTuple

QUERY = (
    "SELECT * FROM S WHERE A AS a ; B AS b ; C AS c FILTER a[v > 97] AND b[v > 97] AND c[v > 97] "
    "PARTITION BY [k] WITHIN 60 SECONDS"
)
_LARGEST = 64 << 20
_TICK = 0.05
_SPARE = 1.25


class Look(NamedTuple):
    """What the process needs at one moment, in MB, and how many events it is behind."""

    minutes: float
    memory: float
    disk: float
    behind: int


class Endless:
    """A stream that is written at a rate while a process reads it."""

    def __init__(self, folder: Path, rate: int) -> None:
        self.folder, self.rate, self.written = folder, rate, 0
        self.log = folder / "S.jsonl"
        self.log.touch()
        command = [sys.executable, "-m", "cernis", "stream", QUERY, "--source", f"S={self.log}"]
        command += ["--sink", "-", "--checkpoint", str(folder / "checkpoint"), "--trigger", "1s"]
        command += ["--metrics", str(folder / "numbers.prom"), "--ahead", "none"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def write(self, seconds: float) -> None:
        """Write what is due after so many seconds."""
        lines = []
        for n in range(self.written, int(seconds * self.rate)):
            key = n // 50_000 * 1000 + n % 1000  # a thousand keys, others every so often
            event = {"type": "ABC"[n * 7 % 3], "ts": n * 1000 // self.rate, "k": key}
            lines.append(json.dumps({**event, "v": n * 7919 % 100}) + "\n")
        if self.log.stat().st_size > _LARGEST:
            self.log.rename(self.log.with_suffix(".old"))
        with open(self.log, "a") as file:
            file.write("".join(lines))
        self.written += len(lines)

    def look(self, seconds: float) -> Look:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        files = [*(self.folder / "checkpoint").glob("*")]
        disk = sum(file.stat().st_size for file in files if file.exists())
        numbers = self.folder / "numbers.prom"
        lines = numbers.read_text().splitlines() if numbers.exists() else []
        rows = [line.split()[1] for line in lines if line.startswith("cernis_rows_total ")] or ["0"]
        memory = pages * os.sysconf("SC_PAGE_SIZE")
        return Look(seconds / 60, memory / 1e6, disk / 1e6, self.written - int(float(rows[0])))


def run(minutes: float, rate: int, looks: int = 20) -> list[Look]:
    """Return what the process needed along the run."""
    with tempfile.TemporaryDirectory() as name:
        stream, seen = Endless(Path(name), rate), list[Look]()
        began, seconds = monotonic(), 60 * minutes
        try:
            while (now := monotonic() - began) < seconds:
                stream.write(now)
                if stream.process.poll() is not None:
                    raise SystemExit(f"the process has ended with {stream.process.returncode}")
                if now > seconds * (len(seen) + 1) / looks:
                    seen.append(stream.look(now))
                    print("{:8.1f} {:8.0f} {:8.1f} {:8}".format(*seen[-1]), flush=True)
                sleep(_TICK)
        finally:
            stream.process.send_signal(signal.SIGTERM)
            stream.process.wait()
        return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--rate", type=int, default=5000)
    given = parser.parse_args()
    print(f"{'minutes':>8} {'MB':>8} {'disk, MB':>8} {'behind':>8}")
    seen = run(given.minutes, given.rate)
    first, last = seen[len(seen) // 2], seen[-1]
    grown = last.memory > _SPARE * first.memory or last.disk > _SPARE * first.disk + 1
    if grown or last.behind > 10 * given.rate:
        sys.exit("the process needs more and more, or falls behind")


if __name__ == "__main__":
    main()
