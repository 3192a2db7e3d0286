"""Groups to events: find the time of each event, check that time does not go back.

The time of an event follows a `TimeRule`. Where none is given, the first event decides for the
whole stream: a property of `KNOWN_PROPERTIES`; or the property of the only triple about the
graph's own name whose object is a time; or the name itself. The value of a property comes from
the triple about the graph's own name, in the default graph or in the graph; if there is none, from
any triple in the graph, if they all agree.

Within a stream time must not go back; equal times are fine. Events that come in any order, in
several processes (`messages`), have no first one: without a rule, each has its time by the first of
`KNOWN_PROPERTIES` that it has.

Cost: a few passes over the group in NumPy, no Python per event.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from cernis.compiled import kernel
from cernis.events.reading.mistakes import Mistakes
from cernis.rdf.reading import times as t
from cernis.rdf.reading.events import Bools, GraphEvents, Int64s
from cernis.rdf.reading.group import EventGroup, EventQuads
from cernis.rdf.reading.terms import UNBOUND, Codes, Terms


class LatestTime(NamedTuple):
    """The latest time so far, and the graph that has it; no graph: somebody said so."""

    time: int
    name: int = UNBOUND

    def recode(self, new_codes: Codes) -> LatestTime:
        """Return the same with the new code of the graph's name."""
        return self if self.name == UNBOUND else LatestTime(self.time, int(new_codes[self.name]))


class EventTimer:
    """Find the times of one stream's events."""

    def __init__(
        self,
        stream: int,
        label: str,
        terms: Terms,
        rule: t.TimeRule,
        mistakes: Mistakes,
        *,
        ordered: bool = True,
    ) -> None:
        """Unless events are `ordered`, they come in any order."""
        self.rule, self._ordered = rule, ordered
        self.numeric_times: bool | None = None
        """Whether times are numbers; None before the first that is not zero."""
        self._stream, self._label, self._terms = stream, label, terms
        self._mistakes = mistakes
        self.latest: LatestTime | None = None
        """No event before this time may come."""

    def build_events(self, group: EventGroup) -> GraphEvents:
        """Return the events of a group that have a time in order; report the others."""
        if self._ordered and not self.rule.is_decided():
            self.decide_rule(group)
        if self.rule.property is not None:
            times, bad = self._find_by_property(group, self.rule.property)
        elif self.rule.pattern is not None:
            times, bad = self._find_by_name(group, self.rule.pattern)
        elif not self._ordered:
            times, bad = self._find_by_known(group)
        else:
            tried = ", ".join(f"<{iri}>" for iri in t.KNOWN_PROPERTIES)
            times = np.zeros(len(group.names), np.int64)
            bad = _explain(
                times == 0,
                f"the event has no time: none of {tried}, no triple about the graph's "
                "own name with a time, no time in the name; say with --time (in Python time=) "
                "which property or part of the name it is",
            )
        for i in sorted(bad):
            self._report(group, i, bad[i])
        keep = np.ones(len(times), np.bool_)
        keep[list(bad)] = False
        if self._ordered:
            self._check_order(group, times, keep)
        return self._sort(group, times, keep)

    def sort_events(self, group: EventGroup) -> GraphEvents:
        """Return the events of a group at time 0: their times are elsewhere."""
        n = len(group.names)
        return self._sort(group, np.zeros(n, np.int64), np.ones(n, np.bool_))

    def codes(self) -> Iterator[Codes]:
        """Yield the code of the graph that has the latest time."""
        if self.latest is not None:
            yield np.array([self.latest.name], np.int32)

    def recode(self, new_codes: Codes) -> None:
        """Replace the codes of terms."""
        if self.latest is not None:
            self.latest = self.latest.recode(new_codes)

    # ----------------------------------------------------------------- times

    def _find_by_name(self, group: EventGroup, pattern: str) -> tuple[Int64s, dict[int, str]]:
        """Return the times in the names of graphs, and the mistakes by event."""
        names = self._terms.texts(group.names).fill_null("")
        times, good = t.read_name_times(names, pattern, self.rule.unit)
        if self.numeric_times is None and times.any():
            other, _ = t.read_name_times(names, pattern, _other_unit(self.rule.unit))
            self.numeric_times = bool((times != other).any())
        return times, _explain(~good, f"its name has no time, by {self.rule}")

    def _find_by_property(self, group: EventGroup, iri: str) -> tuple[Int64s, dict[int, str]]:
        """Return the times that a property has, and the mistakes by event."""
        n = len(group.names)
        said = group.quads.take(np.flatnonzero(group.quads.p == self._terms.find(f"<{iri}>")))
        own = said.s == group.names[said.event]
        has_own = np.zeros(n, np.bool_)
        has_own[said.event[own]] = True
        said = said.take(own | ~has_own[said.event])
        event, objects = said.event, said.o
        texts = self._terms.texts(objects)
        found, good = t.read_times(texts, self.rule.unit)
        if self.numeric_times is None and found.any():
            self.numeric_times = bool(
                (t.read_times(texts, _other_unit(self.rule.unit))[0] != found).any()
            )
        missing = np.ones(n, np.bool_)
        missing[event] = False
        bad = _explain(missing, f"the event has no time: no <{iri}> in it")
        begins = np.flatnonzero(np.diff(event, prepend=-1))
        times = np.zeros(n, np.int64)
        times[event[begins]] = found[begins]
        other = np.flatnonzero(found != times[event])
        for k in other[::-1]:
            one, two = self._format(times[event[k]]), self._format(found[k])
            bad[int(event[k])] = f"the event has two times by <{iri}>: {one} and {two}"
        for k in np.flatnonzero(~good)[::-1]:
            text = self._terms.text(objects[k])
            bad[int(event[k])] = f"{text} by <{iri}> is no time; {_suggest(text)}"
        return times, bad

    def _find_by_known(self, group: EventGroup) -> tuple[Int64s, dict[int, str]]:
        """Return the times by the first known property of each event, and the mistakes by event."""
        n, quads = len(group.names), group.quads
        times, found = np.zeros(n, np.int64), np.zeros(n, np.bool_)
        bad: dict[int, str] = {}
        for iri in t.KNOWN_PROPERTIES:
            new = np.zeros(n, np.bool_)
            new[quads.event[quads.p == self._terms.find(f"<{iri}>")]] = True
            new &= ~found
            if new.any():
                own, mistakes = self._find_by_property(group, iri)
                times[new] = own[new]
                bad |= {i: reason for i, reason in mistakes.items() if new[i]}
                found |= new
        tried = ", ".join(f"<{iri}>" for iri in t.KNOWN_PROPERTIES)
        reason = f"the event has no time: none of {tried}; say with time= (--time) where it is"
        return times, bad | _explain(~found, reason)

    def decide_rule(self, group: EventGroup) -> None:
        """Take the rule of the first event that has a time."""
        for i in range(len(group.names)):
            quads = group.quads.take(np.arange(group.first[i], group.first[i + 1]))
            rule = self._find_rule(int(group.names[i]), quads)
            if rule is not None:
                self.rule = rule
                return
            if self._mistakes.fails:
                return

    def _find_rule(self, name: int, quads: EventQuads) -> t.TimeRule | None:
        """Return the rule by which an event has a time."""
        _, s, p, o = quads
        own = s == name
        present = [i for i in t.KNOWN_PROPERTIES if (p == self._terms.find(f"<{i}>")).any()]
        for iri in present:
            has = p == self._terms.find(f"<{iri}>")
            has = has & own if (has & own).any() else has
            times, good = t.read_times(self._terms.texts(o[has]), self.rule.unit)
            if len(times) and good.all() and (times == times[0]).all():
                return self.rule.by_property(iri)
        _, good = t.read_times(self._terms.texts(o[own]), self.rule.unit)
        properties = np.unique(p[own][good])
        if len(properties) == 1:
            return self.rule.by_property(self._terms.text(int(properties[0]))[1:-1])
        text = self._terms.texts([name])
        for pattern in (t.DATETIME_IN_NAME, t.DIGITS_IN_NAME):
            _, good = t.read_name_times(text, pattern, self.rule.unit)
            if good[0]:
                return self.rule.by_name(pattern)
        # no rule fits; the message is about the first known property that the event has
        return self.rule.by_property(present[0]) if present and self._mistakes.fails else None

    def _check_order(self, group: EventGroup, times: Int64s, keep: Bools) -> None:
        """Report and unmark events that are earlier than one before them."""
        rows = np.flatnonzero(keep)
        if not len(rows):
            return
        reached = np.maximum.accumulate(times[rows])
        if self.latest is not None:
            reached = np.maximum(reached, self.latest.time)
        holder = np.where(times[rows] == reached, np.arange(len(rows)), -1)
        holder = np.maximum.accumulate(holder)
        for k in np.flatnonzero(times[rows] < reached):
            if holder[k] >= 0:
                name = int(group.names[rows[holder[k]]])
            else:
                assert self.latest is not None
                name = self.latest.name
            now, before = self._format(times[rows[k]]), self._format(reached[k])
            reason = f"time goes back: {now} comes after {before}"
            if name == UNBOUND:
                reason += ", to which the session has advanced"
            else:
                reason += f" of the graph {self._terms.text(name)}"
                reason += "; sort the events of a stream by time"
            self._report(group, int(rows[k]), reason)
            keep[rows[k]] = False
        if holder[-1] >= 0:
            self.latest = LatestTime(int(reached[-1]), int(group.names[rows[holder[-1]]]))

    def _report(self, group: EventGroup, i: int, reason: str) -> None:
        code, number = int(group.names[i]), int(group.numbers[i])
        name = self._terms.text(code) if code != UNBOUND else "without a name"
        where = f"{self._label}, graph {name} (event {number})"
        self._mistakes.bad(self._label, number, None, reason, text=name, where=where)

    def _format(self, time: np.int64) -> str:
        """Return a time as the stream has it: a number, or a date."""
        return t.format_time(int(time), self.rule.unit if self.numeric_times else None)

    # --------------------------------------------------------------- triples

    def _sort(self, group: EventGroup, times: Int64s, keep: Bools) -> GraphEvents:
        """Return the events to keep, their triples sorted and without repetition."""
        event, s, p, o = group.quads.take(keep[group.quads.event])
        sizes = np.bincount(event, minlength=len(times))[keep]
        first = np.concatenate(([0], np.cumsum(sizes)))
        end = _sort_triples(s, p, o, first)
        streams = np.full(len(sizes), self._stream, np.int32)
        numbers = group.numbers[keep]
        return GraphEvents(times[keep], streams, numbers, first, s[:end], p[:end], o[:end])


def _explain(mask: Bools, reason: str) -> dict[int, str]:
    return dict.fromkeys(np.flatnonzero(mask).tolist(), reason)


def _other_unit(unit: str) -> str:
    """Return a unit in which numbers, unlike dates, are other times."""
    return "us" if unit == "ns" else "ns"


def _suggest(text: str) -> str:
    if text.startswith('"') and text.endswith('"'):
        return f"write {text}^^xsd:dateTime, or a number, or another property"
    return "expected xsd:dateTime, xsd:date or a number"


@kernel
def _sort_triples(s: Codes, p: Codes, o: Codes, first: Int64s) -> Any:
    """Sort each event's triples by (p, s, o) and drop repetitions; `first` follows.

    Shell's sort: most events have a handful of triples, which it sorts by insertion, and it stays
    fast for an event with a hundred thousand. Return the number of triples left.
    """
    write = 0
    for event in range(len(first) - 1):
        begin, end = first[event], first[event + 1]
        gap = 1
        while 3 * gap + 1 < end - begin:
            gap = 3 * gap + 1
        while gap > 0:
            for i in range(begin + gap, end):
                si, pi, oi = s[i], p[i], o[i]
                j = i
                while j - gap >= begin:
                    k = j - gap
                    if p[k] < pi or (p[k] == pi and (s[k] < si or (s[k] == si and o[k] <= oi))):
                        break
                    s[j], p[j], o[j] = s[k], p[k], o[k]
                    j = k
                s[j], p[j], o[j] = si, pi, oi
            gap //= 3
        first[event] = write
        for i in range(begin, end):
            k = write - 1
            if k >= first[event] and p[i] == p[k] and s[i] == s[k] and o[i] == o[k]:
                continue
            s[write], p[write], o[write] = s[i], p[i], o[i]
            write += 1
    first[len(first) - 1] = write
    return write
