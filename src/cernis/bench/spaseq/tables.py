"""The tables and the chart of `cernis bench spaseq`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cernis.bench.record import Record, Table, divide, find, format_fixed, format_number, select

NAME = "spaseq"
TITLE = "Sequences over RDF streams"
OURS = "engine, matches listed"
LIST = "list of runs"
LIST_BY_STREAM = "list of runs by stream"
Case = Mapping[str, int | str]
STAGES = ("parsing", "graph patterns", "automaton", "output")

QUESTION = """
What does an event of an RDF stream cost, and what makes it cost more?

The experiments of the SPAseQ paper (its Figures 15 to 21) on generated streams: *market* is a V in
the price of a company (Query 4), *cards* small sums after a big one (Query 2), *traffic* a jam and
then two at one time (Query 5), *smart grid* dear power, wind, cheap power (Query 1). In the table
by window each separator of a query, and that between the rounds of `B+`, is `,`, `;` or `:`.
Windows are given in events of all streams together. A *growth exponent* of 0 says that the cost
does not depend on the window, 1 that it is in proportion.

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
    return [
        _tabulate_growth(records),
        _tabulate_windows(records),
        _tabulate_apart(
            records,
            "clauses",
            ("pattern", "strategy"),
            "More clauses in a sequence (Figure 16)",
            "On the market, in 40 minutes of 20 companies (800 events).",
        ),
        _tabulate_background(records),
        _tabulate_stages(records),
        _tabulate_apart(
            records,
            "Kleene",
            ("sequence",),
            "Kleene plus beside a plain sequence (Figure 19)",
            "On the market, in 40 minutes. The rounds of `B+` are linked by `,`, those of `B+;` "
            "by `;`.",
        ),
        _tabulate_lists(records),
        _tabulate_conjunction(records),
    ]


def _tabulate_growth(records: Sequence[Record]) -> Table:
    rows = []
    for one in select(records, "automaton, growth"):
        costs = [
            r.value
            for r in select(records, "automaton")
            if r.case["query"] == one.case["query"] and r.case["strategy"] == one.case["strategy"]
        ]
        rows.append(
            (
                str(one.case["query"]),
                f"`{one.case['strategy']}`",
                format_fixed(one.value),
                format_fixed(divide(costs[-1], costs[0])),
                format_fixed(find(records, "whole, growth", **one.case)),
                format_fixed(find(records, "counting, growth", **one.case)),
            )
        )
    columns = (
        "query",
        "separator",
        "automaton, growth exponent",
        "widest to narrowest window",
        "whole, growth exponent",
        "counting, growth exponent",
    )
    note = (
        "An event costs more in a wider window where it goes on from more groups of runs: each "
        "price (market) or fare (smart grid) that later conditions ask for is a group of its own. "
        "A count looks at all runs in the window of each end."
    )
    return Table("Growth with the window (Figure 15)", columns, tuple(rows), note)


def _tabulate_windows(records: Sequence[Record]) -> Table:
    rows = tuple(
        (
            str(one.case["query"]),
            f"`{one.case['strategy']}`",
            f"{one.case['window']:,}",
            format_number(find(records, "matches", **one.case)),
            format_number(find(records, "groups", **one.case)),
            format_number(one.value),
            format_number(find(records, "counting", **one.case)),
            format_number(divide(1e9, find(records, "whole", **one.case))),
        )
        for one in select(records, "automaton")
    )
    columns = (
        "query",
        "separator",
        "window",
        "matches/event",
        "groups",
        "automaton, ns/event",
        "counting, ns/event",
        "whole, events/s",
    )
    return Table("An event's cost by window (Figure 15)", columns, rows)


def _tabulate_apart(
    records: Sequence[Record], question: str, by: tuple[str, ...], title: str, note: str
) -> Table:
    rows = []
    for one in select(records, f"{question}, matching"):
        cells = [str(one.case[name]) if name == "pattern" else f"`{one.case[name]}`" for name in by]
        for stage in ("matching", "automaton"):
            cells.append(format_number(find(records, f"{question}, {stage}", **one.case)))
            cells.append(format_fixed(find(records, f"{question}, {stage}, to first", **one.case)))
        rows.append(tuple(cells))
    columns = (
        *("separator" if name == "strategy" else name for name in by),
        "graph patterns, ns/event",
        "to the first",
        "automaton, ns/event",
        "to the first",
    )
    return Table(title, columns, tuple(rows), note)


def _tabulate_background(records: Sequence[Record]) -> Table:
    rows = tuple(
        (
            str(one.case["query"]),
            f"{one.case['triples']:,}",
            format_number(one.value),
            format_number(find(records, "matching with background", **one.case)),
            format_number(find(records, "with background", **one.case)),
            format_fixed(find(records, "to least background", **one.case)),
        )
        for one in select(records, "background read")
    )
    columns = (
        "query",
        "triples",
        "read once, triples/s",
        "graph patterns, ns/event",
        "whole, events/s",
        "to fewest triples",
    )
    return Table("More background knowledge (Figure 17)", columns, rows)


def _tabulate_stages(records: Sequence[Record]) -> Table:
    rows = []
    for one in select(records, "all stages"):
        cells = [
            str(one.case["query"]),
            format_number(find(records, "matches", **one.case)),
            format_number(one.value),
        ]
        for stage in STAGES:
            cost = find(records, "stage", stage=stage, **one.case)
            share = find(records, "share", stage=stage, **one.case)
            cells.append(
                f"{format_number(divide(cost, 1000))} µs, {0.0 if share is None else share:.0%}"
            )
        rows.append(tuple(cells))
    note = (
        "The paper's queries in their own windows, from N-Quads to lines of JSON; time per event."
    )
    columns = ("query", "matches", "events/s", *STAGES)
    return Table("Where the time goes (Figure 18)", columns, tuple(rows), note)


def _tabulate_lists(records: Sequence[Record]) -> Table:
    rows: list[tuple[str, ...]] = []
    for one in select(records, LIST):
        if "window" in one.case:
            query, separator = str(one.case["query"]), f"`{one.case['strategy']}`"
            beside = _compare_cells(records, one.case)
            rows.append((query, separator, f"{one.case['window']:,}", *beside))
    for one in select(records, f"{LIST}, growth"):
        growth = [
            format_fixed(find(records, f"{way}, growth", **one.case))
            for way in (LIST, LIST_BY_STREAM, OURS)
        ]
        query = f"{one.case['query']}, growth exponent"
        runs = format_fixed(find(records, "active runs, growth", **one.case))
        rows.append((query, f"`{one.case['strategy']}`", "", "", runs, *growth, ""))
    columns = ("query", "separator", "window", *_BESIDE)
    note = "A list for each stream is the paper's index of runs, for queries on several streams."
    return Table("Beside a list of runs (Figures 15 and 20)", columns, tuple(rows), note)


_BESIDE = (
    "matches",
    "active runs",
    f"{LIST}, ns/event",
    "by stream, ns/event",
    f"{OURS}, ns/event",
    "list to engine",
)


def _compare_cells(records: Sequence[Record], case: Case) -> tuple[str, ...]:
    """Return the cells that compare a list of runs with the engine."""
    costs = [find(records, way, **case) for way in (LIST, LIST_BY_STREAM, OURS)]
    best = min(cost for cost in costs[:2] if cost is not None)
    return (
        format_number(find(records, "matches", **case)),
        format_number(find(records, "active runs", **case)),
        *map(format_number, costs),
        format_number(divide(best, costs[2])),
    )


def _tabulate_conjunction(records: Sequence[Record]) -> Table:
    rows = tuple(
        (
            f"`{one.case['sequence']}`",
            format_number(one.value),
            *_compare_cells(records, one.case),
        )
        for one in select(records, "conjunction, matching")
    )
    columns = ("sequence", "graph patterns, ns/event", *_BESIDE)
    note = "On the traffic streams. The graph patterns of `B & C` are joined before the automaton."
    return Table("Conjunction beside a sequence (Figure 21)", columns, rows, note)


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
