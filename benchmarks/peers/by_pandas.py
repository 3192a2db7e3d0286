"""pandas as a contestant: ranges of times by searchsorted, merge_asof, and groups, on one core.

pandas has no join on inequalities. What users write is the pairs of rows whose times are near
enough, which `numpy.repeat` makes of two searches, and a filter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from benchmarks.peers.answering import Finder, Found, add_up, answer_questions, read_steps
from benchmarks.peers.questions import SESSION
from benchmarks.peers.write import PeerSteps


def open_events(events: pa.Table) -> Finder:
    """Return the function that works on a frame."""
    given = events.to_pandas()

    def find(request: Mapping[str, Any]) -> Found:
        frame = given.sort_values("ts") if request["lateness"] else given
        if request["frames"] == "sessions":
            return _find_sessions(frame)
        if request["frames"] == "V shapes":
            return _find_v_shapes(frame)
        return add_up(_find(frame, read_steps(each)) for each in request["frames"])

    return find


def _find(frame: pd.DataFrame, steps: PeerSteps) -> Found:
    first, *others = [_choose(frame, steps, step) for step in range(len(steps.types))]
    if steps.mode == "absent":
        found = _merge_next(first, others[0], 1, is_keyed=True)
        is_late = ~(found["ts1"] <= found["ts0"] + steps.window)
        found = found[is_late & (found["ts0"] + steps.window < frame["ts"].max())]
        return _sum_up(found, "row0", "row0")
    for step, other in enumerate(others, 1):
        if steps.mode == "next":
            first = _merge_next(first, other, step, is_keyed=steps.is_keyed)
            first = first[first[f"ts{step}"] <= first["ts0"] + steps.window]
        else:
            first = _merge_within(first, other, steps, step)
    return _sum_up(first, "row0", f"row{len(others)}")


def _choose(frame: pd.DataFrame, steps: PeerSteps, step: int) -> pd.DataFrame:
    chosen = frame[frame["type"] == steps.types[step]]
    floor = steps.floor(step)
    if floor is not None:
        chosen = chosen[chosen["price"] > floor]
    return chosen.drop(columns="type").add_suffix(str(step))


def _merge_next(
    first: pd.DataFrame, other: pd.DataFrame, step: int, *, is_keyed: bool
) -> pd.DataFrame:
    keys: dict[str, Any] = {"left_by": "key0", "right_by": f"key{step}"} if is_keyed else {}
    before = f"ts{step - 1}"
    first = first.sort_values(before).astype({before: np.int64})
    return pd.merge_asof(
        first, other, left_on=before, right_on=f"ts{step}", direction="forward", **keys
    )


def _merge_within(
    first: pd.DataFrame, other: pd.DataFrame, steps: PeerSteps, step: int
) -> pd.DataFrame:
    conditions = [each for each in steps.conditions if each.later == step]
    equal = [each for each in conditions if each.operator == "="]
    if equal:
        pairs = first.merge(
            other,
            left_on=[f"{each.attribute}{each.earlier}" for each in equal],
            right_on=[f"{each.attribute}{step}" for each in equal],
        )
        ts = pairs[f"ts{step}"]
        pairs = pairs[(ts > pairs[f"ts{step - 1}"]) & (ts <= pairs["ts0"] + steps.window)]
    else:
        ts = other[f"ts{step}"].to_numpy()
        begin = np.searchsorted(ts, first[f"ts{step - 1}"], "right")
        end = np.searchsorted(ts, first["ts0"] + steps.window, "right")
        counts = np.maximum(end - begin, 0)
        left = np.repeat(np.arange(len(first)), counts)
        right = np.arange(len(left)) - np.repeat(np.cumsum(counts) - counts - begin, counts)
        pairs = pd.concat(
            [
                frame.iloc[rows].reset_index(drop=True)
                for frame, rows in ((first, left), (other, right))
            ],
            axis=1,
        )
    for each in conditions:
        if each.operator == "<":
            before = pairs[f"{each.attribute}{each.earlier}"] + each.plus
            pairs = pairs[pairs[f"{each.attribute}{step}"] > before]
    return pairs


def _find_sessions(frame: pd.DataFrame) -> Found:
    new = frame.groupby("key")["ts"].diff() > SESSION
    sessions = new.groupby(frame["key"]).cumsum()
    found = frame.groupby([frame["key"], sessions])["row"].agg(["min", "max"])
    return _sum_up(found, "min", "max")


def _find_v_shapes(frame: pd.DataFrame) -> Found:
    move = np.sign(frame.groupby("key")["price"].diff())
    moves = frame.assign(move=move, top=frame["row"].where(move.fillna(0) != -1))
    by_key = moves.groupby("key")
    moves["before"] = by_key["move"].shift()
    moves["top"] = by_key["top"].ffill().groupby(moves["key"]).shift()
    return _sum_up(moves[(moves["move"] == 1) & (moves["before"] == -1)], "top", "row")


def _sum_up(found: pd.DataFrame, first: str, last: str) -> Found:
    return len(found), int(found[first].sum()), int(found[last].sum())


if __name__ == "__main__":
    answer_questions(open_events)
