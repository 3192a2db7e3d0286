"""polars as a contestant: joins on inequalities and by the next time, windows, on all cores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
import pyarrow as pa

from benchmarks.peers.answering import Finder, Found, add_up, answer_questions, read_steps
from benchmarks.peers.questions import SESSION
from benchmarks.peers.write import PeerSteps


def open_events(events: pa.Table) -> Finder:
    """Return the function that runs expressions over a frame."""
    given = pl.from_arrow(events)
    assert isinstance(given, pl.DataFrame)

    def find(request: Mapping[str, Any]) -> Found:
        frame = given.sort("ts") if request["lateness"] else given
        if request["frames"] == "sessions":
            return _find_sessions(frame)
        if request["frames"] == "V shapes":
            return _find_v_shapes(frame)
        return add_up(_find(frame, read_steps(each)) for each in request["frames"])

    return find


def _find(frame: pl.DataFrame, steps: PeerSteps) -> Found:
    first, *others = [_choose(frame, steps, step) for step in range(len(steps.types))]
    if steps.mode == "absent":
        found = first.sort("ts0").join_asof(
            others[0],
            left_on="ts0",
            right_on="ts1",
            by_left="key0",
            by_right="key1",
            strategy="forward",
        )
        last = frame["ts"].max()
        is_late = pl.col("ts1").is_null() | (pl.col("ts1") > pl.col("ts0") + steps.window)
        found = found.filter(is_late & (pl.col("ts0") + steps.window < last))
        return _sum_up(found, "row0", "row0")
    for step, other in enumerate(others, 1):
        if steps.mode == "next":
            keys: dict[str, Any] = (
                {"by_left": "key0", "by_right": f"key{step}"} if steps.is_keyed else {}
            )
            first = first.sort(f"ts{step - 1}").join_asof(
                other, left_on=f"ts{step - 1}", right_on=f"ts{step}", strategy="forward", **keys
            )
            first = first.filter(pl.col(f"ts{step}") <= pl.col("ts0") + steps.window)
        else:
            first = first.join_where(other, *_list_conditions(steps, step))
    return _sum_up(first, "row0", f"row{len(others)}")


def _choose(frame: pl.DataFrame, steps: PeerSteps, step: int) -> pl.DataFrame:
    chosen = frame.filter(pl.col("type") == steps.types[step]).drop("type")
    floor = steps.floor(step)
    if floor is not None:
        chosen = chosen.filter(pl.col("price") > floor)
    return chosen.rename({name: f"{name}{step}" for name in chosen.columns})


def _list_conditions(steps: PeerSteps, step: int) -> list[pl.Expr]:
    conditions = [
        pl.col(f"ts{step}") > pl.col(f"ts{step - 1}"),
        pl.col(f"ts{step}") <= pl.col("ts0") + steps.window,
    ]
    for each in steps.conditions:
        if each.later == step:
            before = pl.col(f"{each.attribute}{each.earlier}") + each.plus
            now = pl.col(f"{each.attribute}{step}")
            conditions.append(now > before if each.operator == "<" else now == before)
    return conditions


def _find_sessions(frame: pl.DataFrame) -> Found:
    gap = pl.col("ts").diff().over("key")
    numbered = frame.with_columns(session=(gap.fill_null(0) > SESSION).cum_sum().over("key"))
    found = numbered.group_by("key", "session").agg(
        first=pl.col("row").min(), last=pl.col("row").max()
    )
    return _sum_up(found, "first", "last")


def _find_v_shapes(frame: pl.DataFrame) -> Found:
    moved = frame.with_columns(move=pl.col("price").diff().sign().over("key"))
    tops = moved.with_columns(
        before=pl.col("move").shift().over("key"),
        top=pl.when(pl.col("move").fill_null(0) != -1)
        .then("row")
        .forward_fill()
        .shift()
        .over("key"),
    )
    return _sum_up(tops.filter((pl.col("move") == 1) & (pl.col("before") == -1)), "top", "row")


def _sum_up(found: pl.DataFrame, first: str, last: str) -> Found:
    return len(found), int(found[first].sum()), int(found[last].sum())


if __name__ == "__main__":
    answer_questions(open_events)
