"""How many random queries that compare events far apart an index decides, and whether it is right.

`python -m tools.cases.far_census 2000` draws so many queries of each kind and says which share has
no candidates to check; `--why` counts the reasons of the others. `--check` also runs each of
them on a random stream, at once and in pieces with a restart after each, against the oracle;
`--seconds` bounds that, `--seed` begins elsewhere. `--corpus` says how many queries of the corpus
have candidates to check, and how many would have without far comparisons.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from random import Random
from time import monotonic

import cernis
from cernis.automata.correlated.between import How, Verdict
from cernis.automata.correlated.pcea import EVERY_INDEX, Unindexed
from cernis.languages.ceql import parse
from cernis.plan.plan import make_plan
from tools.cases.corpus import read_cases
from tools.cases.crossings import make_crossing_query
from tools.cases.differential import assert_agrees
from tools.cases.far import (
    make_alternative_query,
    make_any_order_query,
    make_ending_query,
    make_ends_query,
    make_far_events,
    make_far_query,
    make_nested_query,
    make_return_query,
    make_spread_query,
    make_star_query,
    make_tree_query,
)
from tools.cases.grammar import split_batches
from tools.cases.tables import make_table

KINDS: dict[str, Callable[[Random], str]] = {
    "tree": make_tree_query,
    "star": make_star_query,
    "nested": make_nested_query,
    "far": make_far_query,
    "alternatives": make_alternative_query,
    "any order": make_any_order_query,
    "first and last": make_ends_query,
    "iterated last": make_ending_query,
    "spread": make_spread_query,
    "next return": make_return_query,
    "crossing": make_crossing_query,
}


def main() -> None:
    """Draw queries, and print a line for each kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("queries", type=int)
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--why", action="store_true")
    parser.add_argument("--corpus", action="store_true")
    options = parser.parse_args()
    if options.corpus:
        now, before = (count_residual(given) for given in (EVERY_INDEX, Unindexed(far=True)))
        sys.stdout.write(f"of the corpus {now} have candidates; by neighbours alone {before}\n")
    ends = monotonic() + options.seconds
    for name in [options.kind] if options.kind else KINDS:
        drawn, indexed, why = 0, 0, Counter[str]()
        for number in range(options.seed, options.seed + options.queries):
            if monotonic() > ends:
                break
            random = Random(number)
            text = KINDS[name](random)
            residual = _find_candidates(text)
            drawn, indexed = drawn + 1, indexed + (not residual)
            if residual:
                why[f"{residual[0].why}: {text}" if options.why else ""] += 1
            if options.check:
                check_case(text, random)
        share = f"{indexed:6,} of {drawn:6,} queries are indexed ({indexed / drawn:.1%})"
        sys.stdout.write(f"{name:14} {share}\n")
        if options.why:
            for reason, count in why.most_common(40):
                sys.stdout.write(f"  {count:4} {reason}\n")


def _find_candidates(text: str) -> list[Verdict]:
    """Return the conditions that no index decides."""
    found = cernis.query(parse(text)).plan.correlated
    return [] if found is None else [each for each in found.verdicts if each.how is How.CANDIDATE]


def count_residual(unindexed: Unindexed) -> int:
    """Return how many queries of the corpus have conditions that no index decides."""
    plans = (make_plan(case.pattern(), unindexed) for case in read_cases())
    return sum(plan.undecided != "" for plan in plans)


def check_case(text: str, random: Random) -> None:
    """Compare the answers of one run, and of pieces that are frozen and thawed, with the oracle."""
    pattern, events = parse(text), make_far_events(random, text)
    query, table = cernis.query(pattern), make_table(events, timed=True)
    whole = query.run(table)
    found = [str(match) for match in whole]
    assert_agrees(pattern, events, list(whole))
    if whole.count() != len(found) or not {str(m) for m in whole.sample(2, seed=1)} <= {*found}:
        raise AssertionError(f"counts and samples differ: {text}")
    session, parts = query.session(), []
    for piece in split_batches(range(len(events)), sorted(random.sample(range(len(events)), 3))):
        parts.append(session.push(table.slice(piece[0] if piece else 0, len(piece))))
        session = query.thaw(session.freeze())
    parts.append(session.finish())
    assert_agrees(pattern, events, [match for part in parts for match in part])


if __name__ == "__main__":
    main()
