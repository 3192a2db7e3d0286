"""What a rate of events takes: cores and memory, for `explain --rate`.

The rates of a class are those of the benchmarks, on one core of a cloud server. They stand in
`docs/how-to/size-a-deployment.md`, too, with the commands that measure them again. Beyond what was
measured, the numbers are in proportion: nothing in a class grows with the stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, floor

from cernis.pattern.query import Unit
from cernis.plan.plan import Distribution, Guarantee, Plan

_MILLION = 1_000_000
RATES = {
    Guarantee.UNARY: (2 * _MILLION, 30 * _MILLION),
    Guarantee.CHAIN: (_MILLION, 4 * _MILLION),
    Guarantee.HIERARCHICAL: (_MILLION, 4 * _MILLION),
    Guarantee.ORDERED: (_MILLION, 4 * _MILLION),
    Guarantee.RESIDUAL: (_MILLION, 4 * _MILLION),
}
"""Events per second of one core, in one process, from Arrow in memory."""
_ABSENCE = (_MILLION, 2 * _MILLION)
STREAM_RATES = (78_000, 124_000)
"""Rows per second of one core, on a stream of Spark."""
_STORED = 13
"""Bytes of an event of two numbers in the state of a stream."""


def find_rates(plan: Plan) -> tuple[int, int]:
    """Return the lowest and the highest rate of a plan's class on one core."""
    return _ABSENCE if plan.pattern.without else RATES[plan.guarantee]


def describe_load(plan: Plan, rate: float) -> Iterator[str]:
    """Yield what so many events per second take."""
    low, high = find_rates(plan)
    yield f"at {rate:,.0f} events per second"
    share = f"{_write_share(rate / high)} to {_write_share(rate / low)} of one core"
    yield f"in one process: {share}, and what reading takes"
    if plan.guarantee is Guarantee.RESIDUAL:
        yield "candidates come on top: how many there are depends on the events (explain --events)"
    yield _describe_stream(plan, rate)
    yield from _describe_events(plan, rate)


def _describe_stream(plan: Plan, rate: float) -> str:
    if plan.distribution is not Distribution.KEYED:
        return "on a stream of Spark: in one task, for there is no key to spread it by"
    few, many = (ceil(rate / each) for each in reversed(STREAM_RATES))
    cores = f"{few:,}" if few == many else f"{few:,} to {many:,}"
    return f"on a stream of Spark: {cores} {'core' if many == 1 else 'cores'}"


def _describe_events(plan: Plan, rate: float) -> Iterator[str]:
    within = plan.pattern.within
    if within is None or within.unit not in (Unit.EVENTS, Unit.TIME):
        yield "memory: no window in time or events bounds it"
        return
    if within.unit is Unit.EVENTS and plan.pattern.partition:
        yield f"memory: {floor(within.size):,} events for each key"
        return
    events = floor(within.size) if within.unit is Unit.EVENTS else ceil(rate * within.size / 10**9)
    size = events * _STORED / 2**20
    about = "less than 1" if size < 1 else f"about {size:,.0f}"
    yield f"memory: {events:,} events in the window; {about} MiB on Spark, if each has two numbers"


def _write_share(share: float) -> str:
    """Return a share in percent, or as a number of cores.

    >>> [_write_share(share) for share in (0.00004, 0.0123, 2.5)]
    ['less than 0.1%', '1.2%', '250%']
    """
    return (
        "less than 0.1%"
        if share < 0.001
        else f"{100 * share:.2g}%"
        if share < 1
        else f"{share:.0%}"
    )
