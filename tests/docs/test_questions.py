"""The everyday questions of the how-to pages, answered a second time with pandas."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pytest

import cernis
from cernis.generators import everyday
from cernis.generators.logins import login_stream

FOLDER = Path(__file__).parents[2] / "docs" / "how-to"
QUERY = re.compile(r"<!-- file: \S+\.ceql -->\n```ceql\n(.*?)^```$", re.MULTILINE | re.DOTALL)

Rows = list[tuple[Any, ...]]


def count_before(events: pd.DataFrame, last: str, many: str, key: str, span: str) -> pd.DataFrame:
    """Return each event of type `last` with the `many` of its key in the time before it."""
    ends, others = (events[events["type"] == kind] for kind in (last, many))
    pairs = ends.merge(others, on=key, suffixes=("", "_other"))
    before = pairs["ts"] - pairs["ts_other"]
    return pairs[(before > pd.Timedelta(0)) & (before <= pd.Timedelta(span))]


def evictions(data: pa.Table) -> Rows:
    pairs = count_before(data.to_pandas(), "FAIL", "EVICT", "task", "1h")
    found = pairs.groupby(["task", "ts", "machine"]).size().reset_index(name="n")
    return [(one.task, one.n, one.machine) for one in found[found["n"] >= 3].itertuples()]


def idle(data: pa.Table) -> Rows:
    events = data.to_pandas()
    wait, end = pd.Timedelta("45min"), events["ts"].max()
    rows = []
    for taxi, own in events.groupby("taxi"):
        pickups = own.loc[own["type"] == "PICKUP", "ts"]
        for one in own[own["type"] == "DROPOFF"].itertuples():
            is_over = one.ts + wait < end
            if is_over and not ((pickups > one.ts) & (pickups <= one.ts + wait)).any():
                rows.append((taxi, one.zone, one.ts.to_pydatetime()))
    return rows


def runs(
    events: pd.DataFrame, key: str, holds: pd.Series[bool]
) -> pd.core.groupby.DataFrameGroupBy:
    """Return the runs of neighbouring rows of a key that a condition holds of, or not."""
    begins = holds.ne(holds.groupby(events[key]).shift())
    return events.assign(holds=holds, run=begins.groupby(events[key]).cumsum()).groupby(
        [key, "run"]
    )


def episodes(data: pa.Table) -> Rows:
    events = data.to_pandas()
    rows = []
    for (house, _), own in runs(events, "house", events["watts"] > 2000):
        if own["holds"].all() and len(own) >= 3:
            rows.append((house, len(own), own["watts"].max()))
    return rows


def valleys(data: pa.Table) -> Rows:
    events = data.to_pandas()
    ends = events.groupby("road")["ts"].agg(["min", "max"])
    rows = []
    for (road, _), own in runs(events, "road", events["speed"] < 30):
        inside = ends.loc[road, "min"] < own["ts"].min() and own["ts"].max() < ends.loc[road, "max"]
        if own["holds"].all() and len(own) >= 3 and inside:
            rows.append((road, own["speed"].min(), len(own)))
    return rows


def guessed(data: pa.Table) -> Rows:
    pairs = count_before(data.to_pandas(), "OK", "FAIL", "user", "10min")
    found = pairs.groupby(["user", "ts"])["address_other"].agg(["size", "nunique"]).reset_index()
    return [
        (one.user, one.size_, one.nunique)
        for one in found[found["size"] >= 5].rename(columns={"size": "size_"}).itertuples()
    ]


def unpaid(data: pa.Table) -> Rows:
    events = data.to_pandas()
    hour, end = pd.Timedelta("1h"), events["ts"].max()
    orders, payments = (events[events["type"] == kind] for kind in ("ORDER", "PAYMENT"))
    both = orders.merge(payments, on="order", how="left", suffixes=("", "_paid"))
    late = both["ts_paid"].isna() | (both["ts_paid"] - both["ts"] > hour)
    found = both[late & (both["ts"] + hour < end)]
    return [(one.order, one.euros) for one in found.itertuples()]


def sessions(data: pa.Table) -> Rows:
    rides = data.to_pandas().query("type == 'DROPOFF'")
    breaks = rides.groupby("taxi")["ts"].diff() > pd.Timedelta("1h")
    grouped = rides.groupby(["taxi", breaks.groupby(rides["taxi"]).cumsum()])["fare"]
    return [(taxi, len(own), round(own.sum(), 2)) for (taxi, _), own in grouped]


def jams(data: dict[str, pa.Table]) -> Rows:
    full, jam = data["parking"].to_pandas(), data["traffic"].to_pandas()
    pairs = full.merge(jam, left_on="district", right_on="area", suffixes=("", "_jam"))
    later = pairs["ts_jam"] - pairs["ts"]
    found = pairs[(later > pd.Timedelta(0)) & (later <= pd.Timedelta("15min"))]
    gaps = (found["ts_jam"] - found["ts"]).dt.to_pytimedelta()
    return list(zip(found["garage"], found["road"], gaps, strict=True))


def funnel(data: pa.Table) -> Rows:
    events = data.to_pandas()
    views, carts, buys = (events[events["type"] == kind] for kind in ("VIEW", "CART", "BUY"))
    window = pd.Timedelta("2D")
    filled = views.merge(carts, on="user", suffixes=("", "_cart"))
    filled = filled[
        (filled["ts_cart"] > filled["ts"]) & (filled["ts_cart"] <= filled["ts"] + window)
    ]
    bought = filled.merge(buys, on="user", suffixes=("", "_buy"))
    bought = bought[
        (bought["ts_buy"] > bought["ts_cart"]) & (bought["ts_buy"] <= bought["ts"] + window)
    ]
    people = pd.DataFrame(
        {
            name: step.groupby(step["ts"].dt.floor("D"))["user"].nunique()
            for name, step in (("viewed", views), ("filled", filled), ("bought", bought))
        }
    ).fillna(0)
    return [
        (day.to_pydatetime(), viewed, filled, bought, round(bought / viewed, 2))
        for day, viewed, filled, bought in people.itertuples()
    ]


class Question(NamedTuple):
    page: str
    data: Callable[[], Any]
    answer: Callable[[Any], Rows]
    columns: tuple[str, ...]


QUESTIONS = [
    Question(
        "evictions-then-failure",
        everyday.cluster_tasks,
        evictions,
        ("task", "evictions", "machine"),
    ),
    Question("idle-taxis", everyday.taxi_stops, idle, ("taxi", "zone", "since")),
    Question("power-episodes", everyday.power_readings, episodes, ("house", "readings", "peak")),
    Question("speed-valleys", everyday.road_speeds, valleys, ("road", "lowest", "minutes")),
    Question(
        "failed-logins",
        lambda: login_stream(20_000, seed=1, attacks=12),
        guessed,
        ("user", "failures", "addresses"),
    ),
    Question(
        "funnel",
        everyday.shop_visits,
        funnel,
        ("from_ts", "viewed", "filled", "bought", "conversion"),
    ),
    Question("unpaid-orders", everyday.shop_orders, unpaid, ("order_number", "euros")),
    Question("taxi-sessions", everyday.taxi_stops, sessions, ("taxi", "rides", "fares")),
    Question("two-streams", everyday.parking_and_traffic, jams, ("garage", "road", "later")),
]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.page)
def test_the_answer_on_the_page_is_that_of_pandas(question: Question) -> None:
    (text,) = QUERY.findall((FOLDER / f"{question.page}.md").read_text())
    data = question.data()
    found = cernis.query(text).run(data, strict=True).to_arrow()
    rows = zip(*(found[name].to_pylist() for name in question.columns), strict=True)
    got = [tuple(round(v, 2) if isinstance(v, float) else v for v in row) for row in rows]
    expected = question.answer(data)
    assert expected
    assert sorted(got) == sorted(expected)


def merge_windows(windows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge windows that overlap, which are in the order of their starts."""
    merged: list[tuple[int, int]] = []
    for start, end in windows:
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


@pytest.mark.parametrize("seed", range(4))
def test_bursts_by_rate_are_the_merged_windows_of_many_events(seed: int) -> None:
    text, *_ = QUERY.findall((FOLDER / "find-bursts.md").read_text())
    draw, most = random.Random(seed), 5
    text = text.replace("51", str(most + 1)).replace("50", str(most))
    rows, expected = [], []
    for host in "ab":
        pauses = (draw.choice([500, 1500, 2000, 2400, 9000]) for _ in range(300))
        times = list(accumulate(pauses))
        rows += [{"ts": time, "host": host} for time in times]
        windows = [(i, i + most) for i in range(300 - most) if times[i + most] - times[i] <= 10_000]
        expected += [
            (host, times[low], times[high], high - low + 1) for low, high in merge_windows(windows)
        ]
    rows.sort(key=lambda row: row["ts"])
    found = cernis.rules(text).run({"errors": rows})["burst"]
    got = [(match.partition["host"], *match.values.values()) for match in found]
    assert sorted(got) == sorted(expected)
    assert len(expected) > 5


@pytest.mark.parametrize("seed", range(6))
def test_merged_windows_are_those_of_a_sweep(seed: int) -> None:
    page = (FOLDER / "find-bursts.md").read_text()
    (text,) = re.findall(r"merged = cernis\.query\(\"\"\"\n(.*?)\.\.\. \"\"\"\)", page, re.DOTALL)
    query = cernis.query(text.replace("...", ""))
    draw = random.Random(seed)
    starts = sorted(draw.randrange(600) for _ in range(30))
    windows = [(start, start + draw.randrange(1, 50)) for start in starts]
    rows = [{"ts": start, "till": end} for start, end in windows]
    found = [tuple(match.values.values()) for match in query.run({"windows": rows})]
    assert found == merge_windows(windows)
