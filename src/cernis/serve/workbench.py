"""The workbench on the page: the funnel of `why`, and labels.

The page keeps the labels, as the text of a file that `cernis label` reads and writes; so labels
from the one can be continued in the other. Each request brings them along.

Cost contract: that of `cernis.workbench.why` and `cernis.workbench.label`.
"""

from __future__ import annotations

from typing import Any

from cernis.integers import write_integer
from cernis.results.matches import Matches
from cernis.serve.failure import RequestError
from cernis.serve.runs import HeldEventRun, HeldRun
from cernis.workbench.label import By, Labels, draw_sample, measure, write_match
from cernis.workbench.precision import count_missing
from cernis.workbench.why import Relaxation, why

FILE = "labels.jsonl"
MOST_DRAWN = 200


def count_funnel(run: HeldRun, key: tuple[str, ...] | None, end: int | None) -> dict[str, Any]:
    """Return how far partial matches get; counts are texts, since they may be of any size."""
    if not isinstance(run, HeldEventRun) or run.kind not in ("matches", "counts"):
        raise RequestError("bad_request", "partial matches are counted for queries with matches")
    found = why(run.query, run.streams, key=key, end=end, tables=run.joined, **run.data.reading)

    def write_count(count: int | None) -> str | None:
        return None if count is None else write_integer(count)

    def write_obstacle(each: Relaxation) -> dict[str, Any]:
        more = {"without": write_count(each.without), "more": write_count(each.more)}
        return {"obstacle": each.text, **more}

    return {
        "about": found.about,
        "steps": [
            {
                "step": step.text,
                "events": write_count(step.events),
                "reached": write_count(step.reached),
                "lost": [write_obstacle(each) for each in step.lost if each.more and each.more > 0],
            }
            for step in found.steps
        ],
        "matches": write_count(found.matches),
        "relaxed": [write_obstacle(each) for each in found.relaxed],
    }


def draw_matches(
    run: HeldRun, labels: str, by: By | None, number: int, seed: int
) -> dict[str, Any]:
    """Return matches without a label, each with the line that it gets and its events."""
    own, matches = _need_run(run)
    known = Labels.of(matches, labels, FILE)
    drawn = draw_sample(
        matches, min(number, MOST_DRAWN), by=by, seed=seed, known=known.labels.keys()
    )
    rows = [
        {"line": write_match(one.id, one.match, one.stratum), "row": own.write_match(one.match)}
        for one in drawn
    ]
    return {"head": known.head, "drawn": rows}


def measure_labels(run: HeldRun, labels: str, by: By | None, width: float) -> dict[str, Any]:
    """Return the precision on the labels, and how many more the width takes."""
    _, matches = _need_run(run)
    found = measure(matches, Labels.of(matches, labels, FILE), by)
    share = found.precision
    return {
        "value": share.value,
        "low": share.low,
        "high": share.high,
        "labelled": share.labelled,
        "missing": count_missing(share, width),
        "text": found.describe(width),
    }


def _need_run(run: HeldRun) -> tuple[HeldEventRun, Matches]:
    if isinstance(run, HeldEventRun) and isinstance(run.result, Matches) and run.kind == "matches":
        return run, run.result
    raise RequestError("bad_request", "labels are for the matches of a query")
