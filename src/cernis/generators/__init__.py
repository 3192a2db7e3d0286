"""Generated streams for the pages, the tour, the benchmarks and the tests.

A name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cernis.generators.everyday import (
        card_payments,
        cluster_tasks,
        parking_and_traffic,
        power_readings,
        road_speeds,
        shop_orders,
        shop_visits,
        taxi_stops,
    )
    from cernis.generators.logins import login_stream
    from cernis.generators.stock import stock_stream

__all__ = [
    "card_payments",
    "cluster_tasks",
    "login_stream",
    "parking_and_traffic",
    "power_readings",
    "road_speeds",
    "shop_orders",
    "shop_visits",
    "stock_stream",
    "taxi_stops",
]

_MODULES = dict.fromkeys(__all__, "everyday") | {
    "login_stream": "logins",
    "stock_stream": "stock",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"cernis.generators.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
