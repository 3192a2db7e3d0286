"""Exhaustive agreement: every small query over every short stream, each runtime against the oracle.

    python tests/exhaustive/agreement.py --nodes 4 --events 4
    python tests/exhaustive/agreement.py --nodes 5 --part 3/100    # a hundredth of it
    python tests/exhaustive/agreement.py --lang spaseq --nodes 3

Prints the cases tried and the differences of each runtime; a difference shows its query and stream.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import pyarrow as pa

import cernis
from cernis.languages.spaseq.query import SpaseqQuery
from cernis.pattern.predicate import Aggregate
from cernis.pattern.query import Pattern, Select, SelectedTerm, Strategy
from cernis.pattern.selection import selected_variables
from cernis.plan.correlated import Correlated, plan_correlated
from cernis.plan.lower_terms import lower_terms
from cernis.plan.plan import Plan, make_correlated_plan
from cernis.rdf.matches import GraphMatch
from cernis.rdf.query import GraphQuery
from cernis.run.session import Session
from cernis.testing import oracle
from cernis.testing.spaseq.oracle import SpaseqMatch, find_matches
from tools.cases.differential import (
    ComparableMatch,
    comparable_match,
    describe_case,
    find_differences,
)
from tools.cases.exhaustive import (
    JoinedStreams,
    Stream,
    join_streams,
    list_formulas,
    list_streams,
    list_variants,
    partition_pattern,
)
from tools.cases.spaseq.corpus import comparable_match as comparable_graphs
from tools.cases.spaseq.corpus import write_stream
from tools.cases.spaseq.exhaustive import (
    STREAM,
    GraphStream,
    JoinedGraphStreams,
    join_graph_streams,
    list_graph_queries,
    list_graph_streams,
)

Answer = list[Counter[ComparableMatch]]
"""The matches in each of the streams."""
GraphAnswer = list[Counter[SpaseqMatch]]
COUNT = Select(False, (SelectedTerm(Aggregate("COUNT")),))
ALONE = 5
"""How many of the streams a query also reads alone, at most."""
PIECES = 7
"""In how many pieces a SPAseQ session that is frozen between them reads the streams."""
PRINTED = 20


# ---------------------------------------------------------------- runtimes


def run_whole(pattern: Pattern, joined: JoinedStreams) -> Answer:
    """Return the answers of the runtime that the plan chooses, in one batch."""
    return collect(cernis.query(partition_pattern(pattern)).run(make_table(joined)), joined)


def run_frozen(pattern: Pattern, joined: JoinedStreams) -> Answer:
    """Return the answers in batches of one event of each stream; frozen and thawed between."""
    query = cernis.query(partition_pattern(pattern))
    session, table, width = query.session(), make_table(joined), len(joined.streams)
    found: list[Any] = []
    for first in range(0, table.num_rows, width):
        found += session.push(table.slice(first, width))
        session = query.thaw(session.freeze())
    return collect([*found, *session.finish()], joined)


def run_correlated(pattern: Pattern, joined: JoinedStreams) -> Answer:
    """Return the answers of the runtime that compares events, also for those that need none."""
    lowered = resolved(pattern)
    found = plan_correlated(lowered, frozenset(selected_variables(lowered)))
    return run_plan(make_correlated_plan(lowered, found), joined)


def run_listed(pattern: Pattern, joined: JoinedStreams) -> Answer:
    """Return the answers of candidates that are verified one by one."""
    found = Correlated(None, exact=False, unique=False)
    return run_plan(make_correlated_plan(resolved(pattern), found), joined)


def resolved(pattern: Pattern) -> Pattern:
    return lower_terms(cernis.query(partition_pattern(pattern)).pattern)


def run_plan(plan: Plan, joined: JoinedStreams) -> Answer:
    session: Session[cernis.Matches] = Session(plan)
    return collect(session.collect(make_table(joined)), joined)


RUNTIMES: dict[str, Callable[[Pattern, JoinedStreams], Answer]] = {
    "planned": run_whole,
    "frozen": run_frozen,
    "correlated": run_correlated,
    "listed": run_listed,
}
NAMES = [*RUNTIMES, "alone", "counted"]


def make_table(joined: JoinedStreams) -> pa.Table:
    return pa.table(joined.columns)


def collect(found: Iterable[Any], joined: JoinedStreams) -> Answer:
    """Return the matches in each stream, in rows of that stream."""
    answers: Answer = [Counter() for _ in joined.streams]
    for match in found:
        stream, start = joined.locate(match.start)
        held = {x: [joined.locate(row)[1] for row in rows] for x, rows in match.vars.items()}
        triple = (start, joined.locate(match.end)[1], held)
        answers[stream][comparable_match(triple)] += 1
    return answers


# -------------------------------------------------------------- comparison


class Tally:
    """The cases tried, and the differences found."""

    def __init__(self) -> None:
        self.queries = 0
        self.cases: Counter[str] = Counter()
        self.differences: Counter[str] = Counter()
        self.shown: list[str] = []

    def note(self, runtime: str, case: str, lines: list[str]) -> None:
        self.differences[runtime] += 1
        if len(self.shown) < PRINTED:
            self.shown.append("\n".join([f"{runtime}: {case}", *lines]))

    def __str__(self) -> str:
        lines = [f"{'runtime':12}{'cases':>14}{'differences':>14}"]
        for name, cases in self.cases.items():
            lines.append(f"{name:12}{cases:>14,}{self.differences[name]:>14,}")
        total, wrong = self.cases.total(), self.differences.total()
        lines.append(f"{'all':12}{total:>14,}{wrong:>14,}")
        return "\n".join([*lines, f"{self.queries:,} queries"])


def check_query(
    pattern: Pattern, streams: list[Stream], runtimes: Collection[str], tally: Tally
) -> None:
    """Compare the answers of runtimes with the oracle's."""
    joined = join_streams(streams)
    expected = [
        Counter(map(comparable_match, oracle.evaluate(pattern, stream))) for stream in streams
    ]
    tally.queries += 1
    for name in runtimes:
        if pattern.without and name in ("correlated", "listed"):
            continue  # WITHOUT takes part in the choice of the plan
        try:
            if name == "counted":
                check_counts(pattern, joined, expected, tally)
            elif name == "alone":
                check_alone(pattern, streams, expected, tally)
            else:
                answers = RUNTIMES[name](pattern, joined)
                compare(name, pattern, zip(streams, answers, expected, strict=True), tally)
        except Exception as error:  # whatever it is, it is a difference
            case = describe_case(pattern, streams[0])
            tally.note(name, case, [f"{type(error).__name__}: {error}"])


def check_alone(pattern: Pattern, streams: list[Stream], expected: Answer, tally: Tally) -> None:
    """Compare the answers for a few streams that are read alone, without PARTITION BY."""
    query = cernis.query(pattern)
    step = -(-len(streams) // ALONE)
    for i in range(tally.queries % step, len(streams), step):
        one = join_streams([streams[i]])
        (got,) = collect(query.run(make_table(one)), one)
        compare("alone", pattern, [(streams[i], got, expected[i])], tally)


def compare(
    name: str,
    pattern: Pattern,
    answers: Iterable[tuple[Stream, Counter[ComparableMatch], Counter[ComparableMatch]]],
    tally: Tally,
) -> None:
    is_free = pattern.strategy is Strategy.ANY or pattern.limit is not None
    for stream, got, expected in answers:
        tally.cases[name] += 1
        if got == expected:
            continue
        missing = [f"missing: {each}" for each in (expected - got).elements()]
        surplus = [f"surplus: {each}" for each in (got - expected).elements()]
        if is_free:  # another choice may be as good
            found = find_differences(pattern, stream, got.elements())
            missing = [f"missing: {each}" for each in found[0]]
            surplus = [f"surplus: {each}" for each in found[1]]
        if missing or surplus:
            tally.note(name, describe_case(pattern, stream), missing + surplus)


def check_counts(pattern: Pattern, joined: JoinedStreams, expected: Answer, tally: Tally) -> None:
    """Compare the numbers of `SELECT COUNT(*)`, which are found without matches."""
    if not pattern.select.everything or pattern.strategy is Strategy.ANY:
        return
    tally.cases["counted"] += len(joined.streams)
    counted = cernis.query(partition_pattern(replace(pattern, select=COUNT)))
    table = counted.run(make_table(joined)).counts().to_pydict()
    numbers: list[dict[int, int]] = [{} for _ in joined.streams]
    for row, number in zip(table["end"], table["count"], strict=True):
        stream, end = joined.locate(row)
        numbers[stream][end] = number
    for stream, got, matches in zip(joined.streams, numbers, expected, strict=True):
        wanted = Counter(each.end for each in matches.elements())
        if got != wanted:
            lines = [f"{dict(wanted)} expected, {got} found"]
            tally.note("counted", describe_case(pattern, stream), lines)


def list_queries(nodes: int) -> Iterator[Pattern]:
    """Yield every query with up to so many nodes in its formula."""
    for formula in list_formulas(nodes):
        yield from list_variants(formula)


# ------------------------------------------------------------------ SPAseQ


def run_graphs(query: GraphQuery, joined: JoinedGraphStreams) -> GraphAnswer:
    """Return the answers in one run."""
    text = write_stream(STREAM, joined.events)
    found = query.session(time_unit="ns").collect({STREAM: text})
    answers = collect_graphs(found, joined)
    assert found.count() == sum(map(Counter.total, answers)), "the count differs from the list"
    return answers


def run_frozen_graphs(query: GraphQuery, joined: JoinedGraphStreams) -> GraphAnswer:
    """Return the answers of a session that is frozen and thawed inside of streams."""
    lines = write_stream(STREAM, joined.events).splitlines(keepends=True)
    begins = [i for i, line in enumerate(lines) if b"generatedAtTime" in line]
    cuts = [begins[len(begins) * i // PIECES] for i in range(PIECES)]
    session, found = query.session(time_unit="ns"), list[GraphMatch]()
    for first, end in zip(cuts, [*cuts[1:], len(lines)], strict=True):
        found += session.push({STREAM: b"".join(lines[first:end])})
        session = query.thaw(session.freeze())
    return collect_graphs([*found, *session.finish()], joined)


GRAPH_RUNTIMES = {"graphs": run_graphs, "frozen": run_frozen_graphs}


def collect_graphs(found: Iterable[GraphMatch], joined: JoinedGraphStreams) -> GraphAnswer:
    """Return the matches in each stream, as that stream alone has them."""
    answers: GraphAnswer = [Counter() for _ in range(len(joined.events) // joined.length)]
    for match in found:
        stream, alone = joined.locate(comparable_graphs(match))
        answers[stream][alone] += 1
    return answers


def check_graph_query(query: SpaseqQuery, streams: list[GraphStream], tally: Tally) -> None:
    """Compare the answers of each way to run with the oracle's."""
    joined = join_graph_streams(streams)
    expected = [Counter(find_matches(query, {STREAM: stream})) for stream in streams]
    tally.queries += 1
    for name, run in GRAPH_RUNTIMES.items():
        try:
            answers = run(GraphQuery(query), joined)
        except Exception as error:  # whatever it is, it is a difference
            tally.note(name, str(query), [f"{type(error).__name__}: {error}"])
            continue
        tally.cases[name] += len(streams)
        for stream, got, wanted in zip(streams, answers, expected, strict=True):
            if got != wanted:
                missing = [f"missing: {each}" for each in (wanted - got).elements()]
                surplus = [f"surplus: {each}" for each in (got - wanted).elements()]
                tally.note(name, f"{query}\n{stream}", missing + surplus)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lang", choices=("ceql", "spaseq"), default="ceql")
    parser.add_argument("--nodes", type=int, default=4, help="of the largest formula or sequence")
    parser.add_argument("--events", type=int, default=3, help="of each stream")
    parser.add_argument("--part", default="0/1", help="i/n: every n-th query, from the i-th on")
    parser.add_argument(
        "--runtime", action="append", choices=NAMES, help="of CEQL; not all of them"
    )
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long")
    options = parser.parse_args()
    first, step = map(int, options.part.split("/"))
    tally, end = Tally(), time.monotonic() + options.seconds
    queries = {"ceql": list_queries, "spaseq": list_graph_queries}[options.lang](options.nodes)
    for query in islice(queries, first, None, step):
        if time.monotonic() > end:
            print(f"the time is over after {tally.queries:,} queries; the next one is\n{query}")
            break
        if isinstance(query, SpaseqQuery):
            check_graph_query(query, list_graph_streams(options.events), tally)
        else:
            streams = list_streams(query.formula, options.events)
            check_query(query, streams, options.runtime or NAMES, tally)
    for difference in tally.shown:
        print(difference, end="\n\n")
    print(tally)
    return 1 if tally.differences else 0


if __name__ == "__main__":
    sys.exit(main())
