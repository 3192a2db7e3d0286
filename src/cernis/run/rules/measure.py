"""Measure rules: the numbers of each, where several share a session.

Cost contract: some microseconds for each rule; no event is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace

import numpy as np

from cernis.run.metrics import RuleMetrics, SessionMetrics
from cernis.run.rules.bundle_session import BundleSession
from cernis.run.rules.running_rule import RunningRule

_NUMBERS = tuple(each.name for each in fields(SessionMetrics))


def measure_rules(
    running: Iterable[RunningRule], matches: Mapping[str, int]
) -> dict[str, RuleMetrics]:
    """Return the numbers of all rules; `matches` are those that each has reported."""
    return {
        name: RuleMetrics(
            **{part: getattr(own, part) for part in _NUMBERS}, matches=matches.get(name, 0)
        )
        for each in running
        for name, own in _measure_rule(each)
    }


def _measure_rule(running: RunningRule) -> Iterator[tuple[str, SessionMetrics]]:
    """Yield the numbers of each rule of a session.

    The rules of a family or a bundle keep events and spend time together: each has a share by the
    number of its events.
    """
    whole = running.session.metrics()
    if running.family is None:
        yield running.rules[0].name, whole
        return
    silenced = np.zeros(len(running.rules), np.int64)
    if isinstance(running.session, BundleSession):
        silenced = running.session.pipeline.count_silenced()
    for (name, events), suppressed in zip(running.count_events(), silenced.tolist(), strict=True):
        part = events / max(whole.events, 1)
        yield (
            name,
            replace(
                whole,
                events=events,
                suppressed=suppressed,
                relevant=round(whole.relevant * part),
                stored=round(whole.stored * part),
                stored_bytes=round(whole.stored_bytes * part),
                keys=round(whole.keys * part),
                records=round(whole.records * part),
                seconds={stage: part * spent for stage, spent in whole.seconds.items()},
            ),
        )
