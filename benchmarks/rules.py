"""`cernis bench rules`: the cost of an event against the number of rules.

The rules are those of security teams: two to four steps on one host, a key and a window. Each host
has one rule, and about as many events as any other. There are four workloads:

* *one shape*: the rules differ in the host alone, so they share one automaton
  (`run.rules.shared.group`);
* *many shapes*: they share types and attributes, and differ in their steps, a threshold and the
  window, so they share an engine that has a copy of each event for the rule of its host
  (`run.rules.shared.group`);
* *many shapes that suppress*: the same rules with SUPPRESS BY;
* *detections*: rules as security teams publish them, with up to forty wildcards on some of hundreds
  of columns (`benchmarks.detections`).

One pass of the rule set is compared with as many runs of single queries: a few of them are
measured, and their mean stands for each. A session takes the same events in pieces; its state is
measured by its frozen bytes. All times are processor times.

The growth exponent fits the cost of an event as a power of the number of rules: 1 is "as many
separate runs". The memory of detections is the peak of a process that runs them (`rules_process`).

Sessions of detections are also measured by the size of a push: each push has a cost for each rule.
And some files of a folder of detections change while a session runs: the folder is read again, the
session updated, and a few events are pushed twice. The first of these pushes does what the change
has left to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa

import cernis
from benchmarks.benchmark import Benchmark, Step
from benchmarks.clock import Contestant, race, time_call
from benchmarks.correlation import fit_exponent
from benchmarks.detections import DETECTED_COLUMNS, host_log, write_detection
from benchmarks.process import ask_process
from benchmarks.record import EXPONENT, Case, Record
from benchmarks.scale import FULL, BenchmarkScale
from benchmarks.table import Table, tabulate
from cernis.run.rules.rule_set import RuleSet
from cernis.run.rules.session import RuleSession

NAME = "rules"
SEED = 7
KINDS = ("LOGIN", "FAIL", "SUDO", "OTHER")
_ALONE = 3
_PIECES = 10
DETECTIONS = "detections"
PUSHES = "detections, by the size of a push"
_PUSHED_RULES, _PUSHED = 1000, 20_000
"""The rules that are pushed to, and the events of small pushes."""
CHANGES = "detections that change"
_CHANGING_RULES, _CHANGED, _CHANGES = 3000, 10, 5
"""The rules of a session, how many of them change at a time, and how often."""
_FIRST, _FEW = 2500, 100
"""The events before the first change, and those of a push after each."""
QUERY = (
    "SELECT * FROM S WHERE (LOGIN AS a ; FAIL AS b ; SUDO AS c) "
    "FILTER a[host = 'h{0}'] AND b[host = 'h{0}'] AND c[host = 'h{0}'] "
    "PARTITION BY [user] WITHIN 1 MINUTE LIMIT 1"
)


def make_log(events: int, hosts: int) -> pa.Table:
    """Return a log of hosts: what happened, where, and to whom."""
    chance = np.random.default_rng(SEED)
    names = [f"h{i}" for i in range(hosts)]
    return pa.table(
        {
            "type": pa.array(KINDS).take(pa.array(chance.integers(0, len(KINDS), events))),
            "host": pa.array(names).take(pa.array(chance.integers(0, hosts, events))),
            "user": chance.integers(0, 50, events),
            "size": chance.integers(0, 1000, events),
            "ts": np.arange(events),
        }
    )


def write_mixed(number: int) -> str:
    """Return a rule on the host of this number, of two to four steps."""
    chance = Random(number)
    names = "abcd"[: chance.randint(2, 4)]
    steps = " ; ".join(f"{chance.choice(KINDS)} AS {name}" for name in names)
    tests = [f"{name}[host = 'h{number}']" for name in names]
    tests.append(f"{chance.choice(names)}[size > {chance.randrange(1000)}]")
    return (
        f"SELECT * FROM S WHERE ({steps}) FILTER {' AND '.join(tests)} "
        f"PARTITION BY [user] WITHIN {chance.randint(1, 10)} MINUTES LIMIT 1"
    )


def write_alert(number: int) -> str:
    """Return such a rule that reports a user once in ten minutes."""
    return f"{write_mixed(number)} SUPPRESS BY [user] FOR 10 MINUTES"


def run_rules(scale: BenchmarkScale, step: Step) -> list[Record]:
    """Measure all workloads."""
    events = make_log(scale.rule_events, max(scale.rules))
    log = host_log(scale.detected_events, seed=SEED)
    workloads = {
        "one shape": (QUERY.format, scale.rules, events),
        "many shapes": (write_mixed, scale.mixed_rules, events),
        "many shapes that suppress": (write_alert, scale.mixed_rules, events),
        DETECTIONS: (write_detection, scale.detections, log),
    }
    records = []
    for done, (name, (write, numbers, read)) in enumerate(workloads.items()):
        step(name, done, len(workloads))
        records += _measure(name, write, numbers, read, scale.rounds)
    for number in scale.detections:
        request = {"rules": number, "events": scale.detected_events, "seed": SEED}
        peak = ask_process("benchmarks.rules_process", request)["peak"]
        case: Case = {"workload": DETECTIONS, "rules": number}
        records.append(Record(NAME, "peak", peak, "B", case))
    number = max(each for each in scale.detections if each <= _PUSHED_RULES)
    records += _measure_pushes(number, log, scale.pushes)
    number = max(each for each in scale.detections if each <= _CHANGING_RULES)
    return records + _measure_changes(number, log)


def _measure_changes(number: int, log: pa.Table) -> list[Record]:
    """Measure what it costs that some of these detections change while a session runs."""
    spent: dict[str, list[float]] = {}

    def measure(name: str, call: Callable[[], Any]) -> Any:
        begin = process_time()
        found = call()
        spent.setdefault(name, []).append(1000 * (process_time() - begin))
        return found

    first = min(_FIRST, log.num_rows // 2)
    few = min(_FEW, (log.num_rows - first) // (2 * _CHANGES))
    chance = Random(SEED)
    with TemporaryDirectory() as folder:

        def write(i: int, seed: int) -> None:
            text = f"RULE r{i} AS {write_detection(i, seed)}\n"
            Path(folder, f"r{i}.ceql").write_text(text, encoding="utf-8")

        for i in range(number):
            write(i, 0)
        session = cernis.rules(Path(folder)).session()
        session.push(log.slice(0, first))
        changed = min(_CHANGED, number)
        for turn in range(_CHANGES):
            for i in chance.sample(range(number), changed):
                write(i, turn + 1)
            rules = measure("read again", lambda: cernis.rules(Path(folder)))
            measure("update", partial(session.update, rules))
            for after, name in enumerate(("next push", "any push"), 2 * turn):
                measure(name, partial(session.push, log.slice(first + after * few, few)))
    case: Case = {"workload": CHANGES, "rules": number, "changed": changed}
    return [Record(NAME, name, min(own), "ms", case) for name, own in spent.items()]


def _measure_pushes(number: int, log: pa.Table, sizes: Sequence[int]) -> list[Record]:
    """Measure how many detections a session reads in a second, by the size of a push."""
    rules, records = cernis.rules({f"r{i}": write_detection(i) for i in range(number)}), []
    for size in sizes:
        session, first = rules.session(), min(size, log.num_rows // 2)
        session.push(log.slice(0, first))  # the first push samples events, and compiles
        last = min(first + max(size, _PUSHED), log.num_rows)
        begin = process_time()
        for row in range(first, last, size):
            session.push(log.slice(row, min(size, last - row)))
        rate = (last - first) / (process_time() - begin)
        case: Case = {"workload": PUSHES, "rules": number, "rows": size}
        records.append(Record(NAME, "rate", rate, "events/s", case))
    return records


def _measure(
    workload: str,
    write: Callable[[int], str],
    numbers: Sequence[int],
    events: pa.Table,
    rounds: int,
) -> list[Record]:
    """Measure each number of rules, in turns, and some queries alone."""
    contestants: dict[tuple[str, int], Contestant] = {}
    started: dict[int, float] = {}
    states: dict[int, int] = {}
    for number in numbers:
        begin = process_time()
        rules = cernis.rules({f"r{i}": write(i) for i in range(number)})
        rules.session()
        started[number] = process_time() - begin
        states[number] = len(_push_all(rules, events).freeze())
        contestants["run", number] = time_call(partial(rules.run, events), process_time)
        pushed = partial(_push_all, rules, events)
        contestants["session", number] = time_call(pushed, process_time)
    best = race(contestants, rounds)
    queries = [cernis.query(write(i)) for i in range(_ALONE)]
    calls = {i: time_call(partial(q.run, events), process_time) for i, q in enumerate(queries)}
    mean = sum(race(calls, rounds).values()) / _ALONE
    records, first = [], numbers[0]
    for number in numbers:
        case: Case = {"workload": workload, "rules": number}
        seconds, session = best["run", number], best["session", number]
        cost = 1e6 / events.num_rows
        found = {
            "one pass": (cost * seconds, "µs/event"),
            "relative to one rule": (seconds / best["run", first], "×"),
            "in pieces": (cost * session, "µs/event"),
            "pieces relative to one rule": (session / best["session", first], "×"),
            "separate runs": (number * mean / seconds, "×"),
            "state": (states[number] / 2**20, "MiB"),
            "start-up": (started[number], "s"),
        }
        records += [Record(NAME, name, *value, case) for name, value in found.items()]
    for measure, contestant in (("one pass", "run"), ("in pieces", "session")):
        growth = fit_exponent({number: best[contestant, number] for number in numbers})
        case = {"workload": workload}
        records.append(Record(NAME, f"{measure}, growth", growth, EXPONENT, case))
    return records


def _push_all(rules: RuleSet, events: pa.Table) -> RuleSession:
    """Push events in pieces, and return the session."""
    session = rules.session()
    for first in range(0, events.num_rows, max(1, events.num_rows // _PIECES)):
        session.push(events.slice(first, max(1, events.num_rows // _PIECES)))
    return session


def build_tables(records: Sequence[Record]) -> list[Table]:
    """Return a table for each workload, with a row per number of rules."""
    columns = {
        "rules": "rules",
        "µs/event": "one pass",
        "to one rule": "relative to one rule",
        f"in {_PIECES} pieces, µs/event": "in pieces",
        "pieces, to one rule": "pieces relative to one rule",
        "separate runs take": "separate runs",
        "state, MiB": "state",
        "start-up, s": "start-up",
    }
    found = []
    for workload in dict.fromkeys(str(record.case["workload"]) for record in records):
        if workload == PUSHES:
            own = [record for record in records if record.case["workload"] == PUSHES]
            titles = {"rules": "rules", "rows in a push": "rows", "events/s": "rate"}
            found.append(tabulate(own, "Rate of a session by the size of a push", "rate", titles))
            continue
        if workload == CHANGES:
            own = [record for record in records if record.case["workload"] == CHANGES]
            titles = {
                "rules": "rules",
                "changed": "changed",
                "reading the folder again, ms": "read again",
                "update, ms": "update",
                "next push, ms": "next push",
                "any other push, ms": "any push",
            }
            found.append(tabulate(own, "Cost of a change while a session runs", "update", titles))
            continue
        own = [record for record in records if record.case["workload"] == workload]
        title = f"Cost of an event by the number of rules of {workload}"
        more = {"memory, MiB": "peak"} if workload == DETECTIONS else {}
        found.append(tabulate(own, title, "one pass", {**columns, **more}))
    columns = {
        "rules of": "workload",
        "in one pass": "one pass, growth",
        f"in {_PIECES} pieces": "in pieces, growth",
    }
    return [*found, tabulate(records, "Growth exponent", "one pass, growth", columns)]


def build_points(records: Sequence[Record]) -> list[Mapping[str, object]]:
    """Return the cost of an event by the number of rules."""
    return [
        {"rules": r.case["rules"], "cost": r.value, "workload": r.case["workload"]}
        for r in records
        if r.measure == "one pass"
    ]


RULES = Benchmark(
    name=NAME,
    title="Rules",
    question=f"""
How does the cost of an event grow with the number of rules, if it concerns few of them?

Rules of one host, each with a key and a window. Those of one shape differ in the host alone:

`{QUERY.format(0)}`

Those of many shapes have two to four steps in any order, a threshold and a window of their own:

`{write_mixed(0)}`

Those that suppress end with `SUPPRESS BY [user] FOR 10 MINUTES`. Detections ask 5 to 40 wildcards
and equalities of some of {DETECTED_COLUMNS} columns; a third are two steps on one host, some wait
for an event that does not come, or count.

The log has {max(FULL.rules):,} hosts, so with fewer rules most events concern none. Processor
time is measured. Start-up is parsing and planning. Separate runs are as many runs of one query.
A growth exponent of 0 says that the cost does not depend on the number of rules, 1 that it is in
proportion.
""",
    run=run_rules,
    tables=build_tables,
    points=build_points,
)
