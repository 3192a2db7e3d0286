"""The tables and the chart of `cernis bench spaseq`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from benchmarks.record import Case, Record, divide, find, select
from benchmarks.table import Columns, Table, format_number, tabulate

NAME = "spaseq"
TITLE = "Sequences over RDF streams"
OURS = "engine, matches listed"
LIST = "list of runs"
LIST_BY_STREAM = "list of runs by stream"
STORE = "SPARQL store and list of runs, whole"
STORE_OURS = "Cernis, whole"
STAGES = ("parsing", "graph patterns", "automaton", "output")

QUESTION = """
What does an event of an RDF stream cost, and what makes it cost more?

The experiments of the SPAseQ paper (its Figures 15 to 21) on generated streams: *market* is a V in
the price of a company (Query 4), *falls* the same with `B+`, one or more prices below the first,
*cards* small sums after a big one (Query 2), *traffic* a jam and then two at one time (Query 5),
*smart grid* dear power, wind, cheap power (Query 1). In the table by window each separator of a
query, and that between the rounds of `B+`, is `,`, `;` or `:`. Windows are given in events of all
streams together. A *growth exponent* of 0 says that the cost does not depend on the window, 1 that
it is in proportion.

*automaton* reads the solutions of graph patterns and enumerates nothing; *whole* begins with
N-Quads. *groups* are waiting runs with the same values; they move as one. Streams are parsed and
solved once, and the windows take turns on the same solutions; events before the widest window is
full do not count.

The systems that the paper compares with are not measured. A *list of runs* is the paper's own
evaluation: each partial match is an object with all its bindings, and each event is offered to all
of them. It is plain Python over the same solutions and finds as many matches. Compare its growth
with the engine's, not its absolute cost.
"""


def build_tables(records: Sequence[Record]) -> list[Table]:
    """Return a table for each question, the growth first."""

    def widest_to_narrowest(case: Case) -> float | None:
        costs = [r.value for r in select(records, "automaton") if case.items() <= r.case.items()]
        return divide(costs[-1], costs[0])

    return [
        tabulate(
            records,
            "Growth with the window (Figure 15)",
            "automaton, growth",
            {
                "query": "query",
                "separator": _quote("strategy"),
                "automaton, growth exponent": "automaton, growth",
                "widest to narrowest window": widest_to_narrowest,
                "per event and match, growth exponent": "automaton per match, growth",
                "whole, growth exponent": "whole, growth",
                "counting, growth exponent": "counting, growth",
            },
            "Where prices (market with `:`, falls), amounts (cards) or fares (smart grid) lie in "
            "search trees, an event costs a logarithm. That of 10 and of 640 runs, as in windows "
            "of which one is 64 times as wide, has an exponent of 0.25. Counting costs as much as "
            "there are groups that lead to another; for prices of the market and fares of the "
            "smart grid a logarithm. For rounds that a price or an amount decides it costs as much "
            "as there are pairs of a run and a round that fits it; where these are many, a "
            "logarithm, but not where C compares the last round with `:` (falls). With `:` "
            "counts have more bits in wider windows, and cost a pass for each 26.",
        ),
        tabulate(
            records,
            "An event's cost by window (Figure 15)",
            "automaton",
            {
                "query": "query",
                "separator": _quote("strategy"),
                "window": "window",
                "matches/event": "matches",
                "groups": "groups",
                "automaton, ns/event": "automaton",
                "counting, ns/event": "counting",
                "whole, events/s": lambda case: divide(1e9, find(records, "whole", **case)),
            },
        ),
        tabulate(
            records,
            "More clauses in a sequence (Figure 16)",
            "clauses, matching",
            {"pattern": "pattern", "separator": _quote("strategy"), **_list_stages("clauses")},
            "On the market, in 40 minutes of 20 companies (800 events).",
        ),
        tabulate(
            records,
            "More background knowledge (Figure 17)",
            "background read",
            {
                "query": "query",
                "triples": "triples",
                "read once, triples/s": "background read",
                "graph patterns, ns/event": "matching with background",
                "whole, events/s": "with background",
                "to fewest triples": "to least background",
            },
        ),
        tabulate(
            records,
            "Where the time goes (Figure 18)",
            "all stages",
            {
                "query": "query",
                "matches": "matches",
                "events/s": "all stages",
                **{stage: partial(_describe_stage, records, stage) for stage in STAGES},
            },
            "The paper's queries in their own windows, from N-Quads to lines of JSON; time per "
            "event.",
        ),
        tabulate(
            records,
            "Kleene plus beside a plain sequence (Figure 19)",
            "Kleene, matching",
            {"sequence": _quote("sequence"), **_list_stages("Kleene")},
            "On the market, in 40 minutes. The rounds of `B+` are linked by `,`, those of `B+;` "
            "by `;`.",
        ),
        _tabulate_lists(records),
        tabulate(
            records,
            "Beside a SPARQL store for each event",
            STORE,
            {
                "query": "query",
                "separator": _quote("strategy"),
                "matches": "matches found",
                "store and list of runs, events/s": STORE,
                "Cernis, events/s": STORE_OURS,
                "Cernis to store": "store to engine",
            },
            "From N-Quads to all matches. The store (pyoxigraph) is loaded with one event after "
            "the other and asked a SPARQL query for each graph pattern; a list of runs in Python "
            "takes the solutions.",
        ),
        tabulate(
            records,
            "Conjunction beside a sequence (Figure 21)",
            "conjunction, matching",
            {
                "sequence": _quote("sequence"),
                "graph patterns, ns/event": "conjunction, matching",
                **_compare_with_lists(records),
            },
            "On the traffic streams. Graph patterns of `B & C` are joined before the automaton.",
        ),
    ]


def _quote(name: str) -> Callable[[Case], str]:
    """Return a column that shows a name of the case as code."""
    return lambda case: f"`{case[name]}`"


def _list_stages(question: str) -> Columns:
    """Return the columns of a question that is measured stage by stage."""
    return {
        "graph patterns, ns/event": f"{question}, matching",
        "graph patterns, to the first": f"{question}, matching, to first",
        "automaton, ns/event": f"{question}, automaton",
        "automaton, to the first": f"{question}, automaton, to first",
    }


def _describe_stage(records: Sequence[Record], stage: str, case: Case) -> str:
    cost = find(records, "stage", stage=stage, **case)
    share = find(records, "share", stage=stage, **case)
    return f"{format_number(divide(cost, 1000))} µs, {0.0 if share is None else share:.0%}"


def _tabulate_lists(records: Sequence[Record]) -> Table:
    cases = [r for r in records if r.measure != LIST or "window" in r.case]
    start: Columns = {"query": "query", "separator": _quote("strategy"), "window": "window"}
    costs = tabulate(
        cases,
        "Beside a list of runs (Figures 15 and 20)",
        LIST,
        {**start, **_compare_with_lists(records)},
        "A list for each stream is the paper's index of runs, for queries on several streams.",
    )
    exponents = tabulate(
        records,
        "",
        f"{LIST}, growth",
        {
            "query": lambda case: f"{case['query']}, growth exponent",
            "separator": _quote("strategy"),
            "window": lambda _: "",
            "matches": lambda _: "",
            **{m: f"{m}, growth" for m in ("active runs", LIST, LIST_BY_STREAM, OURS)},
            "list to engine": lambda _: "",
        },
    )
    return replace(costs, rows=costs.rows + exponents.rows)


def _compare_with_lists(records: Sequence[Record]) -> Columns:
    """Return the columns that compare lists of runs with the engine."""

    def ratio(case: Case) -> float | None:
        costs = (find(records, way, **case) for way in (LIST, LIST_BY_STREAM))
        best = min(cost for cost in costs if cost is not None)
        return divide(best, find(records, OURS, **case))

    return {
        "matches": "matches",
        "active runs": "active runs",
        f"{LIST}, ns/event": LIST,
        "by stream, ns/event": LIST_BY_STREAM,
        f"{OURS}, ns/event": OURS,
        "list to engine": ratio,
    }


def build_points(records: Sequence[Record]) -> list[Mapping[str, object]]:
    """Return the cost of an event by window, for the automaton and the list of runs."""
    series = {"automaton": "{}", LIST: "{} list of runs"}
    return [
        {
            "window": r.case["window"],
            "query": r.case["query"],
            "way": series[r.measure].format(r.case["strategy"]),
            "cost": r.value,
        }
        for r in records
        if r.measure in series and "window" in r.case
    ]
