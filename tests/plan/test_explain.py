"""What EXPLAIN says of one query of each class, word for word, and the key a query implies."""

from __future__ import annotations

from textwrap import dedent

import pytest

import cernis

CONSTANT = "per event: O(automaton) amortized, whatever the window and the partial matches"
LINEAR = "between two matches: linear in the match"
UNCOUNTED = "counting and sampling: without enumerating"
RESIDUAL = [
    "residual: some conditions can only be checked on candidates",
    "per event: the cost of the conditions that are indexed",
    "between two matches: no bound; a budget guards the number of candidates",
    "counting and sampling: by listing",
]
CHAIN = ["chain: neighbours in a match are compared by = and !=", CONSTANT, LINEAR, UNCOUNTED]
HIERARCHICAL = [
    "hierarchical: events in any order, joined by equal values that nest",
    CONSTANT,
    LINEAR,
    UNCOUNTED,
]
SLICED = ["sliced: overlapping slices of positions, each match where it ends"]

PAIR = "SELECT * FROM S WHERE A AS x ; B AS y FILTER"


def entries(text: str, lang: str = "ceql") -> dict[str, list[str]]:
    """The report, entry by entry."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in str(cernis.query(text, lang=lang).explain()).splitlines():
        name = line[:12].strip() or name
        found.setdefault(name, []).append(line[13:])
    return found


def test_a_whole_report() -> None:
    report = """\
        query        SELECT * FROM S WHERE (A AS x ; B AS y) FILTER x[k] = y[k] WITHIN 10 EVENTS
        class        chain: neighbours in a match are compared by = and !=
                     per event: O(automaton) amortized, whatever the window and the partial matches
                     between two matches: linear in the match
                     counting and sampling: without enumerating
        conditions   x[k] = y[k]: by an index on equal values (each event agrees with the next)
        indexes      after x: a set for each k
        window       10 events: a match spans at most 11
        strategy     ALL: every match
        events       one that no transition can see costs a look-up
        distributed  keyed: by A.k, B.k, which all events of a match share
        automaton    2 states, 2 transitions, 2 predicates
                       0 x  A / A,x
                     ^ 1 y  after 0 where k = k: B / B,y"""
    query = cernis.query(f"{PAIR} x[k] = y[k] WITHIN 10 EVENTS")
    assert str(query.explain()) == dedent(report)


def test_a_query_that_compares_nothing_is_unary() -> None:
    said = entries(f"{PAIR} x[v > 1] WITHIN 10 EVENTS")
    assert said["class"] == [
        "unary: every condition looks at one event at a time",
        "per event: O(automaton), whatever the window and the partial matches",
        LINEAR,
        UNCOUNTED,
    ]
    assert said.keys().isdisjoint({"conditions", "indexes", "q-tree", "note"})
    assert said["distributed"] == SLICED


def test_neighbours_that_differ_are_a_chain_with_back_pointers() -> None:
    said = entries(f"{PAIR} x[k] != y[k] AND x[l] != y[l] WITHIN 10 EVENTS")
    assert said["class"] == [
        *CHAIN[:3],
        UNCOUNTED + ", in the number of neighbours that can be compared",
    ]
    assert said["conditions"] == [
        "x[k] != y[k]: by an index on different values (all its pairs are neighbours)",
        "x[l] != y[l]: by an index on different values (all its pairs are neighbours)",
    ]
    assert said["indexes"] == ["after x: one list with back pointers over k, l"]
    assert said["distributed"] == SLICED


def test_a_partition_inside_the_formula_is_a_chain() -> None:
    said = entries(
        "SELECT * FROM S WHERE ((A AS x ; B AS y) PARTITION BY [x[k], y[l]]) ; C WITHIN 10 EVENTS"
    )
    assert said["class"] == CHAIN
    assert said["conditions"] == [
        "PARTITION BY [x[k], y[l]]: by an index on equal values (each event agrees with the next)"
    ]
    assert said["indexes"] == ["after x: a set for each k", "after y: one set"]


def test_a_conjunctive_query_is_hierarchical_and_its_q_tree_is_drawn() -> None:
    said = entries("Q(x, y) <- T(a: x), S(a: x, b: y), R(a: x, b: y) WITHIN 10 EVENTS", "cq")
    assert said["query"] == ["Q(x, y) <- T(a: x), S(a: x, b: y), R(a: x, b: y) WITHIN 10 EVENTS"]
    assert said["class"] == HIERARCHICAL
    assert said["conditions"] == [
        f"{condition}: by an index on equal values (joins events of a hierarchical query)"
        for condition in ("`0`[a] = `1`[a]", "`1`[a] = `2`[a]", "`1`[b] = `2`[b]")
    ]
    assert said["q-tree"] == ["x", "├─ T(x)", "└─ y", "   ├─ S(x, y)", "   └─ R(x, y)"]
    assert said["indexes"] == [
        "after 2 R: a set for each a and b",
        "after 1 S: a set for each a and b",
        "after a, b: a set for each a",
        "after 0 T: a set for each a",
    ]
    assert said["distributed"] == ["keyed: by R.a, S.a, T.a, which all events of a match share"]


def test_events_joined_by_all_are_hierarchical_too() -> None:
    said = entries(
        "SELECT * FROM S WHERE (A AS x ALL B AS y ALL C AS z) "
        "FILTER x[k] = y[k] AND y[k] = z[k] AND y[l] = z[l]"
    )
    assert said["class"] == HIERARCHICAL
    assert said["q-tree"] == ["k", "├─ A AS x", "└─ l", "   ├─ B AS y", "   └─ C AS z"]
    assert said["distributed"] == ["keyed: by A.k, B.k, C.k, which all events of a match share"]


def test_neighbours_in_order_cost_a_logarithm() -> None:
    said = entries(f"{PAIR} x[v] < y[v] WITHIN 10 EVENTS")
    assert said["class"] == [
        "ordered: neighbours in a match are compared by < <= > >=",
        "per event: O(automaton · log(partial matches with the same key))",
        "between two matches: linear in the match, times that logarithm",
        UNCOUNTED + ", in the number of neighbours that can be compared",
    ]
    assert said["conditions"] == ["x[v] < y[v]: by an ordered index (all its pairs are neighbours)"]
    assert said["indexes"] == ["after x: one search tree over v"]


def test_the_order_of_a_run_with_prev_is_that_of_neighbours() -> None:
    said = entries("SELECT * FROM S WHERE A+ AS x FILTER PREV(x)[v] < x[v] WITHIN 10 EVENTS")
    assert said["class"][0] == "ordered: neighbours in a match are compared by < <= > >="
    assert said["conditions"] == [
        "PREV(x)[v] < x[v]: by an ordered index (all its pairs are neighbours)"
    ]


def test_timestamps_in_one_order_need_no_search_tree() -> None:
    said = entries("Q(x, y, t, u, v) <- T(a: x)@t, S(a: x, b: y)@u, R(b: y)@v, t < u < v", "cq")
    assert said["class"] == CHAIN
    assert said["conditions"][2:] == [
        "`0`[`@time`] < `1`[`@time`]: by the order of time (all its pairs are neighbours)",
        "`1`[`@time`] < `2`[`@time`]: by the order of time (all its pairs are neighbours)",
    ]
    assert said["indexes"] == [
        "after 0: a set for each a, with an earlier timestamp",
        "after 1: a set for each b, with an earlier timestamp",
    ]


def test_events_that_are_not_neighbours_are_compared_while_listing() -> None:
    said = entries(
        "SELECT * FROM S WHERE A AS x ; B AS y ; C AS z FILTER x[k] < z[k] AND y[k] < z[k] "
        "WITHIN 10 EVENTS"
    )
    assert said["class"] == RESIDUAL
    assert said["conditions"] == [
        (
            "x[k] < z[k]: while listing, once both events are chosen "
            "(y can stand between the events it compares; y[k] < z[k] compares z as well)"
        ),
        "y[k] < z[k]: by an ordered index (all its pairs are neighbours)",
    ]
    assert said["indexes"] == ["after x: one set", "after y: one search tree over k"]


def test_events_are_compared_across_others() -> None:
    said = entries(
        "SELECT * FROM S WHERE A AS x ; B+ AS y ; C AS z FILTER x[k] < z[k] AND x[n] = z[n] "
        "WITHIN 10 EVENTS"
    )
    assert said["class"] == [
        "ordered: events are compared across others, as if they were neighbours",
        "per event: O(automaton · log(partial matches with the same key))",
        "between two matches: linear in the match, times that logarithm",
        "counting and sampling: by listing",
    ]
    assert said["conditions"] == [
        "x[k] < z[k]: by an ordered index (across y)",
        "x[n] = z[n]: by an index on equal values (across y)",
    ]
    assert said["indexes"] == [
        "after x: a search tree over k for each n, once y is there",
        "after x: one search tree in the order of positions, where runs wait for y",
        "after y: one set",
    ]


def test_later_events_are_compared_with_one_earlier_event() -> None:
    said = entries(
        "SELECT * FROM S WHERE A AS w ; B AS x ; D ; C AS y ; A AS z "
        "FILTER x[k] < w[k] AND y[k] >= 0.9 * w[k] AND y[k] < 1.1 * w[k] AND z[n] = w[n]"
    )
    assert said["class"][0] == (
        "ordered: events are compared across others, as if they were neighbours"
    )
    assert said["conditions"] == [
        "x[k] < w[k]: by an ordered index (all its pairs are neighbours)",
        "y[k] >= w[0.9 * k]: by an ordered index (across x, D)",
        "y[k] < w[1.1 * k]: by an ordered index (across x, D)",
        "z[n] = w[n]: by an index on equal values (across x, D, y)",
    ]
    assert said["indexes"] == [
        "after w: a set for each n, once x, D, y are there",
        "after w: one search tree over k, where runs wait for one that fits of x",
        "after w: one search tree in the order of positions, where runs wait for D",
        (
            "after w: one search tree over (0.9 * k) to (1.1 * k), "
            "where runs wait for one that fits of y"
        ),
        "after x: one search tree over k, once D is there, asked for what fits the event before",
        "after x: one search tree in the order of positions, where runs wait for D",
        "after D: one set",
        "after y: one search tree over k, asked for what fits the event before",
    ]


@pytest.mark.parametrize(
    "conditions",
    [
        "y[k] < x[k] AND z[k] > y[k] AND z[k] < x[k]",
        "y[k] != x[k] AND z[n] > x[n]",
        "z[k] >= x[k] AND z[k] <= 10 - x[k]",
    ],
)
def test_a_star_with_a_cycle_or_without_an_order_is_checked(conditions: str) -> None:
    said = entries(f"SELECT * FROM S WHERE A AS x ; B AS y ; C AS z FILTER {conditions}")
    assert said["class"] == RESIDUAL


@pytest.mark.parametrize(
    ("between", "passed"), [("D AS w ; C AS y", "v, after w, y"), ("C AS y", "v, after y")]
)
def test_a_ray_may_be_a_centre_itself(between: str, passed: str) -> None:
    said = entries(
        f"SELECT * FROM S WHERE (A AS x ; B AS v ; {between} ; C AS z) "
        "FILTER v[p] < x[p] AND y[q] > v[q] AND z[p] > x[p]"
    )
    assert said["class"][0].startswith("ordered: events are compared across others")
    assert (
        f"after x: one search tree over p, where runs wait for one that fits of {passed}"
        in (said["indexes"])
    )


@pytest.mark.parametrize("near", [":", ";[5 EVENTS]"])
def test_one_event_between_may_have_to_be_near_the_later_one(near: str) -> None:
    said = entries(f"SELECT * FROM S WHERE (A AS x ; B AS y {near} C AS z) FILTER x[p] < z[p]")
    assert said["class"][0].startswith("ordered: events are compared across others")
    several = entries(f"SELECT * FROM S WHERE (A AS x ; B+ AS y {near} C AS z) FILTER x[p] < z[p]")
    assert several["class"] == RESIDUAL


def test_a_value_that_one_ray_alone_shares_is_found_in_a_tree() -> None:
    said = entries(
        "SELECT * FROM S WHERE (A AS x ; B AS y ; C AS z) FILTER y[k] = x[k] AND z[n] > x[n]"
    )
    assert said["class"][0].startswith("ordered: events are compared across others")
    assert (
        "after x: one search tree over k, where runs wait for one that fits of y"
        in (said["indexes"])
    )


def test_a_key_that_all_events_share_keeps_the_indexes_apart() -> None:
    said = entries(
        "SELECT * FROM S WHERE (A AS x ; B AS y ; D AS w ; C AS z) "
        "FILTER x[k] = y[k] AND y[k] = z[k] AND y[p] < x[p] AND x[p] < z[p]"
    )
    assert said["conditions"] == [
        "x[k] = y[k]: by an index on equal values (each event agrees with the next)",
        "y[k] = z[k]: by an index on equal values (all events of the star have it)",
        "y[p] < x[p]: by an ordered index (all its pairs are neighbours)",
        "x[p] < z[p]: by an ordered index (across y, w)",
    ]
    assert said["indexes"] == [
        "after x: a search tree over p for each k, once y, w are there",
        "after x: a search tree over p for each k, where runs wait for one that fits of y",
        "after x: one search tree in the order of positions, where runs wait for w",
        (
            "after y: a search tree over p for each k, once w is there, asked for what fits "
            "the event before"
        ),
        "after y: one search tree in the order of positions, where runs wait for w",
        "after w: one set",
    ]


@pytest.mark.parametrize(
    ("formula", "index"),
    [
        (
            "A AS x ; B AS y FILTER y[p] >= 0.9 * x[p] AND y[p] < 1.1 * x[p]",
            "after x: one search tree over (0.9 * p) to (1.1 * p)",
        ),
        (
            "T+ AS x FILTER LAST(x[p]) >= 1.5 * FIRST(x[p])",
            "after x: one search tree over (1.5 * p), once x is there",
        ),
        (
            "(A OR B) AS x ; B ; (C OR D) AS y FILTER x[p] < y[p]",
            "after x: one search tree over p, once B is there",
        ),
        (
            "A AS x ; B AS y ; C AS z FILTER y[p] < x[p] AND ABS(z[p] - x[p]) < 0.01 * x[p]",
            (
                "after x: one search tree over (above p - 0.01 * p) to (below p + 0.01 * p), "
                "once y is there"
            ),
        ),
        (
            "((A AS x ; B AS y ; C AS z) FILTER x[p] < z[p])+",
            "after x: one search tree over p, once y is there",
        ),
        (
            "A AS x ; B+ AS y ; C AS z FILTER y[p] < x[p] AND z[p] > x[p]",
            "after y: one search tree over p, asked for what fits the event before",
        ),
        (
            "A AS x -> (B OR D) AS y ; C AS z FILTER x[k] = z[k]",
            "after x: a set for each k, once y is there",
        ),
        (
            "A AS x -> B AS y -> C AS z FILTER y[p] < x[p] AND z[p] > x[p]",
            (
                "after y: one search tree in the order of positions, asked for what took the "
                "event before"
            ),
        ),
        (
            "A AS x ; B AS y ; C AS z FILTER ABS(x[p] - y[p]) <= 5 AND x[q] < z[q]",
            (
                "after y: one search tree over (from p - 5) to (up to p + 5), asked for what "
                "fits the event before"
            ),
        ),
        (
            "A AS x ; B AS y FILTER x[p] <= 1.01 * y[p] AND x[p] >= 0.99 * y[p]",
            "after x: one search tree over p",
        ),
        (
            "A AS x ; B AS y ; C AS z FILTER y[p] < x[p] AND ABS(z[p] - x[p]) <= 0.01 * x[p]",
            (
                "after x: one search tree over (from p - 0.01 * p) to (up to p + 0.01 * p), once "
                "y is there"
            ),
        ),
    ],
)
def test_ranges_ends_and_alternatives_have_an_index(formula: str, index: str) -> None:
    said = entries(f"SELECT * FROM S WHERE {formula} WITHIN 10 EVENTS")
    assert said["class"] != RESIDUAL
    assert index in said["indexes"]


@pytest.mark.parametrize(
    ("conditions", "why"),
    [
        (
            "x[p] < y[p] AND y[p] < z[q] AND z[p] < x[q]",
            "it closes a cycle with x[p] < y[p] and y[p] < z[q])",
        ),
        ("x[p] < z[p] AND y[p] < w[p]", "it crosses x[p] < z[p])"),
        ("x[p] != y[p] AND x[p] < w[p]", "; x[p] != y[p] is no order)"),
        (
            "x[p] < y[p] AND y[p] != z[p] AND x[p] < w[p]",
            "; x[p] < y[p] and y[p] != z[p] make y a centre inside of a star)",
        ),
    ],
)
def test_what_is_in_the_way_of_a_condition_is_named(conditions: str, why: str) -> None:
    said = entries(f"SELECT * FROM S WHERE (A AS x ; B AS y ; C AS z ; D AS w) FILTER {conditions}")
    assert said["conditions"][-1].endswith(why)


@pytest.mark.parametrize(
    ("formula", "why"),
    [
        ("A+ AS x ; B AS y FILTER x[p] < y[p]", "; x iterates)"),
        ("A AS x ; B AS y ; C :+ AS z FILTER x[p] < z[p]", "; z iterates)"),
        ("A? AS x ; B AS y ; C AS z FILTER x[p] < z[p]", "; x may be left out)"),
        (
            "A AS x ; B? AS y ; C AS z FILTER x[p] < y[p] AND x[p] < z[p]",
            "; y may be left out)",
        ),
        (
            "A AS x ; B AS y ; C AS z FILTER x[k] = y[k] AND x[p] < y[p] AND x[q] < z[q]",
            "; x[k] = y[k] and x[p] < y[p] are no range)",
        ),
        (
            "A AS x ; B AS y -> C AS z ; D AS w FILTER x[p] < z[p] AND x[p] < w[p]",
            "; '->' stands between, too)",
        ),
    ],
)
def test_iterated_and_optional_events_in_the_way_are_named(formula: str, why: str) -> None:
    assert entries(f"SELECT * FROM S WHERE {formula}")["conditions"][-1].endswith(why)


@pytest.mark.parametrize(
    ("separator", "why"), [(":", "':' stands between"), (";[5 EVENTS]", "a gap stands between")]
)
def test_what_stands_between_the_events_of_a_star_is_named(separator: str, why: str) -> None:
    said = entries(
        f"SELECT * FROM S WHERE (A AS x ; B AS y {separator} C AS z) "
        "FILTER x[p] < y[p] AND x[p] < z[p]"
    )
    assert said["conditions"][-1].endswith(f"{why}, too)")


@pytest.mark.parametrize(
    ("formula", "conditions"),
    [
        ("A AS a ALL B AS b ALL C AS c", "a[k] = b[k] AND b[k] = c[k] AND a[p] < c[p]"),
        ("A AS a ALL B AS b ALL C AS c", "a[k] = b[k] AND b[n] = c[n]"),
        ("A AS a ALL B AS b ALL C AS c", "ABS(a[p] - b[p]) < 5 AND b[p] < c[p]"),
        ("A AS a ALL B AS b ALL C AS c ALL D AS d", "b[p] > a[p] AND b[p] < c[p] AND b[k] = d[k]"),
        ("A AS a ALL B AS b", "b[p] >= 0.99 * a[p] AND b[p] <= 1.01 * a[p]"),
        (
            "A AS a ALL B AS b ALL C AS c",
            "b[p] <= 2.5 * a[p] AND b[p] >= 0.5 * a[p] AND a[k] = c[k]",
        ),
    ],
)
def test_events_in_any_order_that_one_is_compared_with_have_no_candidates(
    formula: str, conditions: str
) -> None:
    assert cernis.query(f"SELECT * WHERE ({formula}) FILTER {conditions}").plan.undecided == ""


@pytest.mark.parametrize(
    ("formula", "conditions", "why"),
    [
        (
            "A AS a ALL B AS b ALL C AS c",
            "a[p] < b[p] AND b[p] < c[p] AND a[p] < c[p]",
            "it closes a cycle with a[p] < b[p] and b[p] < c[p])",
        ),
        (
            "A AS a ALL B AS b ALL C AS c ALL D AS d",
            "a[p] < b[p] AND c[p] < d[p] AND b[p] < c[p]",
            "; no event is compared with all others)",
        ),
        (
            "A AS a ALL B AS b ALL C AS c",
            "a[p] < b[p] AND b[p] != c[p]",
            "; values that differ are no range)",
        ),
        (
            "A AS a ALL A AS b ALL C AS c",
            "a[p] < b[p] AND b[p] < c[p]",
            "; one event may be two of them)",
        ),
    ],
)
def test_what_keeps_events_in_any_order_from_an_index_is_named(
    formula: str, conditions: str, why: str
) -> None:
    said = entries(f"SELECT * FROM S WHERE ({formula}) FILTER {conditions}")
    assert said["conditions"][-1].endswith(why)


def test_three_events_in_any_order_are_compared_by_order() -> None:
    said = entries(
        "SELECT * FROM S WHERE A AS x ALL B AS y ALL C AS z FILTER x[k] < y[k] AND y[k] <= z[n]"
    )
    assert said["conditions"] == [
        "x[k] < y[k]: by an ordered index (in any order)",
        "y[k] <= z[n]: by an ordered index (in any order)",
    ]
    assert len(said["indexes"]) == 7
    assert (
        entries(
            "SELECT * FROM S WHERE A AS x ALL A AS y ALL C AS z FILTER x[k] < y[k] AND y[k] <= z[n]"
        )["class"]
        == RESIDUAL
    )


def test_a_condition_on_a_part_of_the_match_is_checked_on_each_candidate() -> None:
    said = entries(
        "SELECT * FROM S WHERE (A AS x ; B AS y ; C :+ AS z FILTER x[k] < z[k]) ; D WITHIN 9 EVENTS"
    )
    assert said["class"] == RESIDUAL
    assert said["conditions"] == [
        "x[k] < z[k]: on each candidate (y can stand between the events it compares; z iterates)"
    ]


def test_equal_values_are_compared_across_an_event() -> None:
    said = entries("SELECT * FROM S WHERE (A AS x ; B AS y -> C AS z) FILTER x[k] = z[k]")
    assert said["class"][0] == (
        "ordered: equal values are compared across an event, which a search tree keeps"
    )
    assert said["conditions"] == [
        (
            "-> C AS z: by taking runs out of the index "
            "(by equal values, an order, or the event alone)"
        ),
        "x[k] = z[k]: by an index on equal values (gathered across y)",
    ]
    assert said["indexes"] == [
        "after x: a set for each k",
        "after y: one search tree in the order of positions",
        "after x and y: a set for each k, runs leave it with the next that fits",
    ]


@pytest.mark.parametrize(
    "formula",
    [
        "(A AS x ; B AS y -> A AS z) FILTER x[k] = z[k]",
        "(A AS x ; B AS y ; C AS z) FILTER x[k] = z[k] OR x[p] = z[p]",
    ],
)
def test_an_event_between_that_is_compared_leaves_candidates(formula: str) -> None:
    assert entries(f"SELECT * FROM S WHERE {formula}")["class"] == RESIDUAL


def test_a_conjunctive_query_that_is_not_hierarchical_says_which_two_variables_cross() -> None:
    said = entries("Q(x, y) <- T(a: x), S(a: x, b: y), R(b: y) WITHIN 10 EVENTS", "cq")
    crossing = (
        "not hierarchical: 'x' and 'y' meet in S(x, y), but T(x) has only 'x' and R(y) only 'y'"
    )
    assert said["class"] == [RESIDUAL[0], crossing, *RESIDUAL[1:]]
    assert said["note"] == [f"{crossing}; candidates are checked one by one"]
    assert said["conditions"] == [
        "`0`[a] = `1`[a]: by an index on equal values (each event agrees with the next)",
        (
            "`1`[b] = `2`[b]: while listing, once both events are chosen "
            "(0 can stand between the events it compares)"
        ),
    ]


ABSENT = "by the latest start of what must be absent (a match begins no earlier)"


def test_unless_around_a_formula_goes_by_the_latest_start_of_its_guard() -> None:
    said = entries(
        "SELECT * FROM S WHERE (A AS x ; B AS y FILTER x[k] = y[k]) UNLESS C WITHIN 10 EVENTS"
    )
    assert said["class"][0].startswith("chain")
    assert said["conditions"] == [
        "x[k] = y[k]: by an index on equal values (each event agrees with the next)",
        f"UNLESS C: {ABSENT}",
    ]
    assert said["indexes"] == ["after x: a set for each k", "after C: one latest start"]
    assert said["distributed"] == SLICED
    guarded = "SELECT * FROM S WHERE (A AS x ; B AS y) UNLESS (C AS c FILTER {}) WITHIN 1 SECOND"
    for condition, index in (
        ("c[k] = y[k]", "the latest start for each k"),
        ("c[p] > y[p]", "one search tree over p"),
        ("c[p] != y[p]", "one list with back pointers over p"),
        ("c[k] = y[k] AND c[p] > y[p]", "a search tree over p for each k"),
    ):
        said = entries(guarded.format(condition))
        assert said["conditions"] == [f"UNLESS C AS c FILTER {condition}: {ABSENT}"]
        assert said["indexes"] == ["after x: one set", f"after c: {index}"]


@pytest.mark.parametrize(
    ("formula", "why"),
    [
        (
            "(A AS x ; B ; B AS y) UNLESS (C AS c FILTER c[k] = x[k])",
            "c[k] = x[k]: a partial match does not have this value in its last event",
        ),
        (
            "(A AS x ; B AS y) UNLESS (C AS c FILTER c[k] > x[k])",
            "c[k] > x[k]: partial matches leave by equal values alone",
        ),
        (
            "(A AS x ; B AS y) UNLESS (C AS c ; D FILTER c[k] = x[k])",
            "c[k] = x[k]: it looks at events before the last one",
        ),
        (
            "(A AS x ; B AS y UNLESS (C AS c ; D FILTER c[k] = x[k])) ; D",
            "the guard has several events",
        ),
        (
            "(A AS x ; B AS m ; B AS y FILTER x[k] = m[k]) UNLESS (B AS c FILTER c[k] = x[k])",
            "an event of the match may be one of the guard",
        ),
        (
            "(A AS x ;[5 EVENTS] B AS y) UNLESS (C AS c FILTER c[k] = x[k])",
            "the next event asks for more than equal values",
        ),
        (
            "(A AS x ; B AS y FILTER x[l] = y[l]) UNLESS (C AS c FILTER c[k] = x[k])",
            "it does not have the values that the next event asks for",
        ),
        (
            "(A AS x ; B AS y) UNLESS (C AS c ; D AS d FILTER c[k] < d[k] AND d[k] = y[k])",
            "its own events are compared by more than equal values",
        ),
    ],
)
def test_other_guards_are_checked_on_candidates_and_explain_says_why(
    formula: str, why: str
) -> None:
    said = entries(f"SELECT * FROM S WHERE {formula} WITHIN 10 EVENTS")["conditions"]
    assert f": on each candidate ({why})" in "".join(line for line in said if "UNLESS" in line)


@pytest.mark.parametrize(
    ("formula", "index"),
    [
        (
            "(A AS x ; B AS y) UNLESS (C AS c FILTER c[k] = x[k])",
            "one search tree over k, runs leave it with what must be absent",
        ),
        (
            "(A AS x -> B AS y) UNLESS (C AS c FILTER c[k] = x[k])",
            "one search tree over k, runs leave it with the next that fits",
        ),
        (
            "((A AS x ; B AS y FILTER x[k] = y[k]) UNLESS (C AS c FILTER c[k] = x[k])) ; D",
            "a set for each k, runs leave it with what must be absent",
        ),
        (
            "((A AS x ; B AS y FILTER x[k] = y[k]) UNLESS C) ; D",
            "a search tree for each k, runs leave it with what must be absent",
        ),
    ],
)
def test_a_guard_takes_partial_matches_out_and_explain_says_so(formula: str, index: str) -> None:
    said = entries(f"SELECT * FROM S WHERE {formula} WITHIN 10 EVENTS")
    assert any(
        "by taking the partial matches that it forbids out of the index" in line
        for line in said["conditions"]
    )
    assert any(line.startswith(f"after x: {index}") for line in said["indexes"])


def test_a_part_within_a_time_goes_by_an_index() -> None:
    gap = "by an index in the order of time (between neighbours)"
    said = entries("SELECT * WHERE ((A AS x ; B) AS y WITHIN 5 SECONDS) ; C")
    assert said["class"][0].startswith("ordered: neighbours in a match lie within a gap")
    assert said["conditions"] == [f"[5 SECONDS] before B: {gap}"]
    said = entries("SELECT * WHERE (A ; B ; D WITHIN 5 SECONDS) ; C")
    assert said["conditions"] == [
        f"[5 SECONDS] before B: {gap}",
        f"[5 SECONDS] before D: {gap}",
        "WITHIN 5 SECONDS: by an index in the order of time (from the start of its part)",
    ]
    assert said["class"][0].startswith("ordered")
    assert said["class"][-1] == "counting and sampling: by listing"


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("A ; (A ; B ; C WITHIN 5 [n])", "no index has the order of its attribute"),
        ("A ; (A ; B ; C WITHIN 5 SECONDS) WITHIN 9 EVENTS", "in the order of positions"),
        ("(A OR B) ; (A ; B ; C WITHIN 5 SECONDS) WITHIN 9 SECONDS", "the start of the match does"),
        ("A : (A ; B ; C WITHIN 5 SECONDS) WITHIN 9 SECONDS", "the start of the match does not"),
        ("((A ; B ; C WITHIN 5 SECONDS) ; D WITHIN 9 SECONDS)", "another WITHIN stands inside"),
        ("(A ; B ; C WITHIN 5 SECONDS) ALL D", "it looks at a part of the match"),
    ],
)
def test_explain_says_why_a_part_within_a_time_is_checked_on_candidates(
    query: str, why: str
) -> None:
    last = [line for line in entries(f"SELECT * WHERE {query}")["conditions"] if "WITHIN" in line]
    assert last[-1].startswith("WITHIN ")
    assert ": on each candidate (" in last[-1]
    assert why in last[-1]


def test_a_partitioned_query_is_distributed_by_its_partition() -> None:
    said = entries(f"{PAIR} x[v] = y[v] PARTITION BY [k] WITHIN 10 EVENTS")
    assert said["class"] == CHAIN
    stay = "by k; idle keys stay: the window counts events inside the key"
    assert said["partition"] == [f"{stay} (add FORGET AFTER a time)"]
    assert said["distributed"] == ["keyed: by k"]


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ("PARTITION BY [k] WITHIN 5 SECONDS", "by k; idle keys leave with the window"),
        (
            "PARTITION BY [k] WITHIN 5 [n]",
            "by k; idle keys stay: the window counts n inside the key (add FORGET AFTER a time)",
        ),
        (
            "PARTITION BY [k]",
            (
                "by k; idle keys stay: without a window, nothing ends "
                "(add WITHIN a time, or FORGET AFTER a time)"
            ),
        ),
        (
            "PARTITION BY [k] WITHIN 5 EVENTS FORGET AFTER 90 SECONDS",
            "by k; idle keys are forgotten after 1 minute 30 seconds",
        ),
        ("FORGET AFTER 1 HOUR", "none; an idle stream is forgotten after 1 hour"),
    ],
)
def test_explain_says_which_keys_leave(clauses: str, expected: str) -> None:
    assert entries(f"SELECT * WHERE A ; B {clauses}")["partition"] == [expected]


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("A ;[5 SECONDS] B", "idle keys leave with the gap"),
        ("A", "idle keys leave at once: a match is a single event"),
        (
            "A WITHOUT B FOR 5 SECONDS",
            "idle keys leave when WITHOUT needs them no more: a match is a single event",
        ),
        (
            "A WITHOUT B FOR 5 EVENTS",
            (
                "idle keys stay: WITHOUT … EVENTS counts events inside the key "
                "(add FORGET AFTER a time)"
            ),
        ),
    ],
)
def test_explain_says_which_keys_leave_without_a_window(formula: str, expected: str) -> None:
    said = entries(f"SELECT * WHERE {formula} PARTITION BY [k]")["partition"]
    assert said == [f"by k; {expected}"]


@pytest.mark.parametrize("strategy", ["NEXT", "LAST", "ANY", "STRICT"])
def test_a_strategy_lists_what_compares_events(strategy: str) -> None:
    said = entries(f"{PAIR} x[k] = y[k] WITHIN 10 EVENTS".replace("*", f"{strategy} *", 1))
    assert said["class"] == [
        *CHAIN[:3],
        f"listed: {strategy} is decided match by match",
        "counting and sampling: by listing",
    ]
    assert said["strategy"] == [f"{strategy}: decided match by match"]


def test_consumption_lists_what_compares_events_and_stays_in_one_place() -> None:
    said = entries(f"{PAIR} x[k] = y[k] WITHIN 10 EVENTS CONSUME BY ANY")
    assert said["class"][3] == "listed: CONSUME BY ANY is decided match by match"
    assert said["distributed"] == ["single: CONSUME BY looks at all matches before"]


def test_a_projection_that_makes_matches_alike_is_listed() -> None:
    said = entries("SELECT y FROM S WHERE A AS x ; B AS y FILTER x[k] = y[k] WITHIN 10 EVENTS")
    assert (
        said["class"][3] == "listed: the same match may be found in several ways, and is kept once"
    )


def test_a_formula_that_can_be_read_in_two_ways_is_determinized() -> None:
    said = entries(
        "SELECT * FROM S WHERE (A ; B FILTER A[k] = B[k]) OR (A ; B FILTER A[l] = B[l])"
        " WITHIN 10 EVENTS"
    )
    assert said["class"][0] == CHAIN[0]
    assert "counting and sampling: without enumerating" in said["class"][-1]
    assert said["note"] == ["determinized: two ways to read the formula wrote the same match"]


def test_a_window_counts_the_unit_of_the_time_column_where_none_is_named() -> None:
    said = entries("Q(x, t, u) <- T(a: x)@t, S(a: x)@u, t < u, u - t < 5", "cq")
    assert said["window"] == ["less than 5 in the unit of the time column"]


def test_without_a_window_nothing_is_forgotten() -> None:
    said = entries(f"{PAIR} x[k] != y[k]")
    assert said["window"] == ["none: partial matches are kept for ever (WITHIN bounds memory)"]
    assert said["distributed"] == ["single: add PARTITION BY or WITHIN to make it parallel"]


# ------------------------------------------------------------------- the key

KEYS = {
    "(A AS x ; B AS y) FILTER x[k] = y[k]": {"A": "k", "B": "k"},
    "(A AS x ; B AS y) FILTER x[k] = y[l]": {"A": "k", "B": "l"},
    "(A AS x ; B AS y ; C AS z) FILTER x[k] = y[l] AND y[l] = z[m]": {
        "A": "k",
        "B": "l",
        "C": "m",
    },
    "((A ; B+ ; C) PARTITION BY [k]) AS m": {"A": "k", "B": "k", "C": "k"},
    "(A AS x ALL B AS y) FILTER x[k] = y[k]": {"A": "k", "B": "k"},
    # two links that share nothing
    "(A AS x ; B AS y ; C AS z) FILTER x[k] = y[k] AND y[l] = z[l]": None,
    # one type under two attributes
    "(A AS x ; A AS y) FILTER x[k] = y[l]": None,
    # one event is not compared
    "((A ; B) PARTITION BY [k]) ; C": None,
    "(A AS x ; B AS y) FILTER x[k] != y[k]": None,
    "(A AS x ; B AS y) FILTER x[k] < y[k]": None,
    # contiguity counts the events of other keys
    "(A AS x : B AS y) FILTER x[k] = y[k]": None,
}


@pytest.mark.parametrize("formula", KEYS)
def test_the_key_of_a_query_is_what_all_its_events_share(formula: str) -> None:
    assert cernis.query(f"SELECT * FROM S WHERE {formula}").plan.key == KEYS[formula]


def test_what_follows_an_all_gathers_its_parts_where_that_decides_more() -> None:
    query = cernis.query(
        "SELECT * WHERE ((T AS t ALL S AS s) ; R AS r) "
        "FILTER t[a] = r[a] AND s[a] = r[a] AND s[b] = r[b]"
    )
    assert str(query.explain()).splitlines()[1].startswith("class        hierarchical: ")
    assert query.plan.tables is not None
    assert str(query.plan.tables.pcea) == (
        "  0 t  T / T,t\n"
        "  1 s  S / S,s\n"
        "^ 2 r  after 0 where a = a and 1 where a = a and b = b: R / R,r"
    )
