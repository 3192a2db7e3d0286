"""Everyday streams for pages and examples: a cluster, taxis, houses, roads, orders, cards, parking.

Small, seeded, in order of `ts`, and with the thing that its page looks for. No two events of a
stream have the same time, so that an independent computation need not break ties.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

_FIRST_DAY = 1_709_251_200  # 2024-03-01
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400

Columns = Mapping[str, Sequence[Any]]


def _order(seconds: Sequence[float], columns: Columns) -> pa.Table:
    """Return events in order of time; equal times are moved apart by milliseconds."""
    ticks = (np.asarray(seconds, np.float64) * 1000).astype(np.int64)
    order = np.argsort(ticks, kind="stable")
    ticks = ticks[order]
    for i in range(1, len(ticks)):
        ticks[i] = max(ticks[i], ticks[i - 1] + 1)
    times = pa.array(ticks + _FIRST_DAY * 1000).cast(pa.timestamp("ms"))
    made = {name: pa.array(np.asarray(values)[order].tolist()) for name, values in columns.items()}
    return pa.table({**made, "ts": times})


def cluster_tasks(tasks: int = 150, seed: int = 0) -> pa.Table:
    """Make the life of tasks on a cluster: SUBMIT, EVICT, FAIL and FINISH, each with a machine.

    >>> cluster_tasks(2).schema.names
    ['type', 'task', 'machine', 'ts']
    """
    rng = np.random.default_rng(seed)
    at: list[float] = []
    rows: list[tuple[str, int, int]] = []
    for task in range(tasks):
        now = float(rng.uniform(0, _DAY))
        kinds = ["SUBMIT", *["EVICT"] * int(rng.integers(0, 7))]
        kinds.append("FAIL" if rng.random() < 0.4 else "FINISH")
        for kind in kinds:
            at.append(now)
            rows.append((kind, task, int(rng.integers(0, 20))))
            now += float(rng.exponential(12 * _MINUTE))
    kinds_, tasks_, machines = zip(*rows, strict=True)
    return _order(at, {"type": kinds_, "task": tasks_, "machine": machines})


def taxi_stops(taxis: int = 30, seed: int = 0) -> pa.Table:
    """Make the pickups and drop-offs of taxis in a day, with the zone where they stop.

    >>> taxi_stops(2).schema.names
    ['type', 'taxi', 'zone', 'fare', 'ts']
    """
    rng = np.random.default_rng(seed)
    at: list[float] = []
    rows: list[tuple[str, int, str, float | None]] = []
    for taxi in range(taxis):
        now = float(rng.uniform(5 * _HOUR, 8 * _HOUR))
        while now < 22 * _HOUR:
            for kind in ("PICKUP", "DROPOFF"):
                at.append(now)
                fare = round(float(rng.uniform(6, 40)), 2) if kind == "DROPOFF" else 0.0
                rows.append((kind, taxi, f"zone {rng.integers(1, 9)}", fare))
                now += float(rng.uniform(5, 35)) * _MINUTE
            if rng.random() < 0.15:
                now += float(rng.uniform(20, 120)) * _MINUTE
    kinds, taxis_, zones, fares = zip(*rows, strict=True)
    return _order(at, {"type": kinds, "taxi": taxis_, "zone": zones, "fare": fares})


def power_readings(houses: int = 12, seed: int = 0) -> pa.Table:
    """Make the power of houses, read every five minutes for a day.

    >>> power_readings(2).schema.names
    ['type', 'house', 'watts', 'ts']
    """
    rng = np.random.default_rng(seed)
    steps = _DAY // (5 * _MINUTE)
    at, names, watts = [], [], []
    for house in range(houses):
        is_on = np.cumsum(rng.random(steps) < 0.08) % 3 == 1
        power = rng.uniform(150, 900, steps) + is_on * rng.uniform(1400, 2600, steps)
        at += list(np.arange(steps) * 5.0 * _MINUTE + house)
        names += [f"house {house}"] * steps
        watts += [int(one) for one in power]
    return _order(at, {"type": ["POWER"] * len(at), "house": names, "watts": watts})


def road_speeds(roads: int = 8, seed: int = 0) -> pa.Table:
    """Make the average speed on roads, measured every minute for six hours.

    >>> road_speeds(2).schema.names
    ['type', 'road', 'speed', 'ts']
    """
    rng = np.random.default_rng(seed)
    steps = 6 * 60
    at, names, speeds = [], [], []
    for road in range(roads):
        is_slow = np.cumsum(rng.random(steps) < 0.06) % 2 == 1
        speed = np.where(is_slow, rng.uniform(8, 34, steps), rng.uniform(45, 95, steps))
        at += list(np.arange(steps) * 60.0 + road)
        names += [f"road {road}"] * steps
        speeds += [round(float(one), 1) for one in speed]
    return _order(at, {"type": ["SPEED"] * len(at), "road": names, "speed": speeds})


def shop_orders(orders: int = 200, seed: int = 0) -> pa.Table:
    """Make orders and the payments that most of them get, sooner or later.

    >>> shop_orders(2).schema.names
    ['type', 'order', 'euros', 'ts']
    """
    rng = np.random.default_rng(seed)
    at: list[float] = []
    rows: list[tuple[str, int, float]] = []
    for order in range(orders):
        now, euros = float(rng.uniform(0, _DAY)), round(float(rng.uniform(5, 200)), 2)
        at.append(now)
        rows.append(("ORDER", order, euros))
        if rng.random() < 0.9:
            at.append(now + float(rng.exponential(25 * _MINUTE)))
            rows.append(("PAYMENT", order, euros))
    kinds, numbers, sums = zip(*rows, strict=True)
    return _order(at, {"type": kinds, "order": numbers, "euros": sums})


def shop_visits(people: int = 150, seed: int = 0) -> pa.Table:
    """Make what people do in a shop in a week: they view, some fill a cart, some of these buy.

    >>> shop_visits(2).schema.names
    ['type', 'user', 'ts']
    """
    rng = np.random.default_rng(seed)
    at: list[float] = []
    rows: list[tuple[str, str]] = []
    for person in range(people):
        for _ in range(int(rng.integers(1, 6))):
            now = float(rng.uniform(0, 7 * _DAY))
            for kind, share in (("VIEW", 1.0), ("VIEW", 0.5), ("CART", 0.4), ("BUY", 0.6)):
                if rng.random() < share:
                    at.append(now)
                    rows.append((kind, f"user{person:03}"))
                elif kind != "VIEW":
                    break
                now += float(rng.exponential(8 * _HOUR))
    kinds, users = zip(*rows, strict=True)
    return _order(at, {"type": kinds, "user": users})


def card_payments(cards: int = 200, seed: int = 0) -> pa.Table:
    """Make the payments of cards in three days; a thief tries a small sum before a large one.

    >>> card_payments(2).schema.names
    ['type', 'card', 'euros', 'country', 'ts']
    """
    rng = np.random.default_rng(seed)
    countries = ("AT", "DE", "ES", "FR", "IT")
    at: list[float] = []
    rows: list[tuple[str, int, float, str]] = []
    for card in range(cards):
        home = countries[int(rng.integers(0, len(countries)))]
        for _ in range(int(rng.integers(5, 40))):
            at.append(float(rng.uniform(0, 3 * _DAY)))
            rows.append(("PAYMENT", card, round(float(rng.lognormal(3, 1.2)), 2), home))
        if rng.random() < 0.1:
            stolen, abroad = float(rng.uniform(0, 3 * _DAY)), countries[int(rng.integers(0, 5))]
            for wait, euros in ((0, rng.uniform(0.5, 1.5)), (12, rng.uniform(600, 2000))):
                at.append(stolen + float(rng.uniform(0.5, 1) * wait) * _MINUTE)
                rows.append(("PAYMENT", card, round(float(euros), 2), abroad))
    kinds, numbers, sums, locations = zip(*rows, strict=True)
    return _order(at, {"type": kinds, "card": numbers, "euros": sums, "country": locations})


def parking_and_traffic(events: int = 300, seed: int = 0) -> dict[str, pa.Table]:
    """Make two streams of one city: garages that are full, and roads with a jam.

    >>> {name: table.schema.names for name, table in parking_and_traffic(5).items()}
    {'parking': ['type', 'garage', 'district', 'ts'], 'traffic': ['type', 'road', 'area', 'ts']}
    """
    rng = np.random.default_rng(seed)
    made = {}
    for name, kind, site, where in (
        ("parking", "FULL", "garage", "district"),
        ("traffic", "JAM", "road", "area"),
    ):
        columns = {
            "type": [kind] * events,
            site: [f"{site} {n}" for n in rng.integers(0, 40, events)],
            where: [f"district {n}" for n in rng.integers(0, 6, events)],
        }
        at = rng.uniform(0, _DAY, events) + (0.0 if name == "parking" else 0.5)
        made[name] = _order(list(at), columns)
    return made
