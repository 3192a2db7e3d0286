"""Rows of the same events: which of them a match can tell apart.

A match is its events with the values that the answer tells. When an event has several solutions,
rows that differ only in values that nobody tells or compares give the same matches.
`RowLikeness.number` finds them, and the engine takes runs on once for all of them. So each match
has one run, and counting does not list, unless the data have one of these:

* *hidden* values: rows of the same events that differ in a value that a later step compares, and in
  none that the answer tells: their runs wait apart, and may end in the same match;
* *loose* values: rows of the same events with and without a value that another row may bind too;
* *shared* events: those that match two steps, where the sequence may take them for either.

Counting distinct matches is then as hard as counting the words of a nondeterministic automaton,
and matches are listed.

Cost: a sort of the rows whose events have several, in NumPy; for other rows one comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cernis.automata.linked.automaton import LinkedAutomaton
from cernis.engine.linked.tables import number_exits
from cernis.rdf.reading.terms import Codes

Numbers = NDArray[np.int64]


class RowLikeness:
    """Find rows that are alike, batch by batch, and note where runs may be one match."""

    def __init__(self, linked: LinkedAutomaton) -> None:
        self.linked = linked
        self._steps = np.array([one.step for one in linked.alternatives], np.int32)
        self._exits = number_exits(linked)
        self.width = max(self._exits.values()) + 1
        self.merges = False
        """Whether the data have had hidden values, loose values or shared events."""

    def number(self, alternative: Codes, reading: Codes, event: Codes, codes: Codes) -> Codes:
        """Return for each row and exit of its step a number that it shares with rows alike, or -1.

        Rows without a reading of the automaton are alike to none.
        """
        alike = np.full((len(reading), self.width), -1, np.int32)
        if len(reading) < 2:
            return alike
        rows, group = _find_repeated(event)
        taken = reading[rows] < len(self.linked.readings)
        rows, group = rows[taken], group[taken]
        if not len(rows):
            return alike
        steps = self._steps[alternative[rows]]
        for step in np.unique(steps).tolist():
            mine = steps == step
            self._number_step(step, rows[mine], group[mine], codes, alike)
        if self.linked.rivals and not self.merges:
            self.merges = self._have_rivals(group, steps)
        return alike

    def _number_step(
        self, step: int, rows: Numbers, group: Numbers, codes: Codes, alike: Codes
    ) -> None:
        exits = [one for one in self.linked.exits if one.step == step]
        for one in exits:
            told = self._select(codes, rows, one.told)
            hidden = self._select(codes, rows, one.hidden)
            number, first = _number_classes(group, told + hidden)
            alike[rows, self._exits[step, one.following]] = np.where(
                np.bincount(number)[number] > 1, rows[first][number], -1
            )
            if hidden and not self.merges:
                self.merges = len(first) > len(_number_classes(group, told)[1])
        loose = self._select(codes, rows, sorted(self.linked.loose[step])) if exits else []
        if loose and not self.merges:
            bound = [(column >= 0).astype(np.int32) for column in loose]
            self.merges = len(_number_classes(group, bound)[1]) > len(np.unique(group))

    def _select(self, codes: Codes, rows: Numbers, names: Sequence[str]) -> list[Codes]:
        return [codes[rows, self.linked.columns.index(name)] for name in names]

    def _have_rivals(self, group: Numbers, steps: Codes) -> bool:
        """Whether the same events match two steps that a sequence may take them for."""
        for one, two in map(sorted, self.linked.rivals):
            if np.isin(group[steps == one], group[steps == two]).any():
                return True
        return False


def _find_repeated(event: Codes) -> tuple[Numbers, Numbers]:
    """Return the rows whose events other rows have as well, ascending, and a number for these."""
    if event.shape[1] == 1:
        group = event[:, 0].astype(np.int64)
    else:
        group, _ = _number_classes(np.zeros(len(event), np.int64), list(event.T))
    rows = np.flatnonzero(np.bincount(group)[group] > 1)
    return rows, group[rows]


def _number_classes(group: Numbers, columns: Sequence[Codes]) -> tuple[Numbers, Numbers]:
    """Number the rows of each group by the values of some columns: the same number for the same.

    Return the numbers, and the first row of each.
    """
    keys: list[NDArray[Any]] = [*columns, group]
    order = np.lexsort(keys)
    new = np.zeros(len(order), np.bool_)
    new[0] = True
    for key in keys:
        new[1:] |= np.diff(key[order]) != 0
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(new) - 1
    return numbers, order[new]
