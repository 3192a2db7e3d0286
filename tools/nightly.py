"""`make nightly`: the long checks one after the other, each within its share of the time.

A table shows how they ended. Random checks take a new seed each night, which the table shows, and
`SEED=…` repeats the night. A check that runs out of its time is ended, and counts as a failure.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

PASSED, FAILED, CUT = "passed", "failed", "out of time"


class Check(NamedTuple):
    """A target of the Makefile, its variables, and its share of the time."""

    name: str
    target: Sequence[str]
    share: float


class Outcome(NamedTuple):
    """How a check ended."""

    name: str
    result: str
    minutes: float


def list_checks(hours: float, seed: int, live: float = 0.0) -> list[Check]:
    """Return the checks of a night; their shares sum to 1 unless a `live` stream has its own hours.

    >>> round(sum(check.share for check in list_checks(6.0, 1)), 6)
    1.0
    >>> list_checks(6.0, 1)[0]
    Check(name='fuzz', target=('fuzz', 'MINUTES=66', 'SEED=1'), share=0.25)
    """
    fuzz = int(0.25 * hours * 60 * 0.74)
    minutes = int(60 * live) or max(1, int(0.09 * hours * 60))
    return [
        Check("fuzz", ("fuzz", f"MINUTES={fuzz}", f"SEED={seed}"), 0.25),
        Check("soak", ("soak", "N=300"), 0.17),
        Check("Trino and Flink", ("row-peers",), 0.03),
        Check("crash", ("crash", "CRASHES=60", f"SEED={seed}"), 0.12),
        Check("endless", ("endless", "LENGTH=20000000"), 0.07),
        Check("endless, live", ("endless-live", f"MINUTES={minutes}"), 0.1 + live / hours),
        Check("endless on Spark", ("endless-spark", f"MINUTES={max(1, int(hours))}"), 0.06),
        Check("exhaustive", ("exhaustive", "NODES=3"), 0.1),
        Check("oldest versions", ("oldest",), 0.1),
    ]


def run_checks(checks: Sequence[Check], hours: float) -> Iterator[Outcome]:
    """Run the checks in order; yield how each ended. Time that a check leaves goes to the rest."""
    end = time.monotonic() + hours * 3600
    for index, check in enumerate(checks):
        left = sum(each.share for each in checks[index:])
        seconds = (end - time.monotonic()) * check.share / left
        print(f"==> {check.name}: at most {seconds / 60:.0f} minutes", flush=True)
        begun = time.monotonic()
        result = run_check(["make", "--no-print-directory", *check.target], seconds)
        yield Outcome(check.name, result, (time.monotonic() - begun) / 60)


def run_check(command: Sequence[str], seconds: float) -> str:
    """Run a command and everything that it starts, for so many seconds at most.

    >>> run_check(["true"], 60), run_check(["false"], 60), run_check(["sleep", "60"], 0.1)
    ('passed', 'failed', 'out of time')
    """
    process = subprocess.Popen(command, start_new_session=True)
    try:
        return FAILED if process.wait(seconds) else PASSED
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return CUT


def write_table(outcomes: Sequence[Outcome], seed: int) -> str:
    """Return the table of a night.

    >>> print(write_table([Outcome("fuzz", PASSED, 61.2)], 7))
    check  result  minutes
    fuzz   passed       61
    seed 7
    """
    width = max(len("check"), *(len(each.name) for each in outcomes))
    wide = max(len("result"), *(len(each.result) for each in outcomes))
    lines = [f"{'check':{width}}  {'result':{wide}}  minutes"]
    lines += [f"{e.name:{width}}  {e.result:{wide}}  {e.minutes:7.0f}" for e in outcomes]
    return "\n".join([*lines, f"seed {seed}"])


def main() -> int:
    """Run a night; return 1 if a check failed."""
    parser = argparse.ArgumentParser(prog="make nightly", description=__doc__)
    parser.add_argument("--hours", type=float, default=6.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    parser.add_argument("--live", type=float, default=0.0, help="hours of an endless stream more")
    given = parser.parse_args()
    checks = list_checks(given.hours, given.seed, given.live)
    outcomes = [*run_checks(checks, given.hours + given.live)]
    print(write_table(outcomes, given.seed))
    return int(any(each.result != PASSED for each in outcomes))


if __name__ == "__main__":
    sys.exit(main())
