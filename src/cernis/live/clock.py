"""`EventClock`: the watermark of live inputs, and which of their events are late.

An input has come as far as its latest event. Events may come up to `lateness` behind it, so the
watermark of an input is that time less the lateness, and the watermark of all is the least of them.
An event is late if it lies before the watermark *when it comes*: whether it is late does not depend
on how the events were cut into pieces.

Silence: with `idle`, an input from which nothing came for so long no longer holds the others back.
If all are silent, time passes in the events as it does on the clock: the latest event's time moves
on with the clock from when it came. Answers that wait for time alone (`WITHOUT … FOR`)
are then given without a further event, and an event that comes after such a silence with an earlier
time is late.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cernis.events.batch import Bools, Int64s

_NS = 1_000_000_000
_NEVER = -(2**62)
"""Before all times of events."""


@dataclass
class EventClock:
    """How far the inputs have come; times are in ticks of the events, clocks in seconds.

    >>> clock = EventClock(inputs=1, lateness=2, tick=_NS)
    >>> clock.take(0, np.array([10, 7, 8, 11]), now=0.0).tolist(), clock.watermark
    ([False, True, False, False], 9)
    """

    inputs: int
    lateness: int = 0
    tick: int = 1
    """Nanoseconds in a tick."""
    idle: float | None = None
    """Seconds after which an input is silent; None: never."""
    latest: dict[int, int] = field(default_factory=dict)
    """The latest event of each input."""
    watermark: int | None = None
    ended: set[int] = field(default_factory=set)
    _heard: dict[int, float] = field(default_factory=dict)

    def take(self, input_: int, ticks: Int64s, now: float) -> Bools:
        """Take the times of events in the order of their arrival; return which are late."""
        own = self.latest.get(input_, _NEVER)
        known = _NEVER if self.watermark is None else self.watermark
        if ticks[0] >= max(own, known) and bool((ticks[1:] >= ticks[:-1]).all()):
            late, latest = np.zeros(len(ticks), np.bool_), ticks[-1]  # as most inputs come
        else:
            reached = np.maximum.accumulate(np.concatenate([[own], ticks[:-1]]))
            others = [self.latest.get(n, _NEVER) for n in self._list_speaking(now) if n != input_]
            marks = np.minimum(reached, min(others)) if others else reached
            late = ticks < np.maximum(marks - self.lateness, known)
            latest = max(reached[-1], ticks[-1])
        self.latest[input_] = int(latest)
        self._heard[input_] = now
        self._advance(now)
        return late

    def end(self, input_: int, now: float) -> None:
        """An input that has ended holds nothing back."""
        self.ended.add(input_)
        self._advance(now)

    def pass_time(self, now: float) -> None:
        """Let the clock pass, where inputs are silent."""
        for number in range(self.inputs):
            self._heard.setdefault(number, now)
        if self.idle is not None:
            self._advance(now)

    def _list_speaking(self, now: float) -> list[int]:
        """Return the inputs that have not ended and are not silent."""
        return [
            number
            for number in range(self.inputs)
            if number not in self.ended
            and (self.idle is None or now - self._heard.get(number, now) < self.idle)
        ]

    def _advance(self, now: float) -> None:
        if speaking := self._list_speaking(now):
            reached = min(self.latest.get(number, _NEVER) for number in speaking)
        else:  # all are silent, or have ended
            times = (time + self._silence(n, now) for n, time in self.latest.items())
            reached = max(times, default=_NEVER)
        if reached != _NEVER:
            mark = reached - self.lateness
            self.watermark = mark if self.watermark is None else max(self.watermark, mark)

    def _silence(self, input_: int, now: float) -> int:
        """Return for how many ticks an input has been silent; one that has ended is not."""
        silent = 0.0 if input_ in self.ended else now - self._heard.get(input_, now)
        return int(silent * _NS) // self.tick
