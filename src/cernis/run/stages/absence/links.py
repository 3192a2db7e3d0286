"""What links a guard to a match: equal values (`LinkCodes`), and other conditions (`PairCheck`).

Cost contract: per event, a look into a hash table for each side of the equalities. Values that
neither a recent event nor anything that waits has are dropped once they are the majority. Residual
conditions cost one check of Python for each pair of a match and an occurrence; the budget bounds
their number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cernis.encoding.compare import Equality
from cernis.events.batch import EventBatch
from cernis.plan.absence import GuardLinks
from cernis.results.sets.matchset import MatchBlock
from cernis.run.check.checked_events import CheckedEvents
from cernis.run.check.conditions import MarkedEvents, satisfies
from cernis.run.check.verify import list_condition_atoms
from cernis.run.stages.absence.event_log import EventLog
from cernis.run.stages.stage import Numbers, Run
from cernis.state import Tree, frozen_record, part, read, write

_SPARE = 1 << 16
"""So many dead values are kept in any case."""


@frozen_record
class FrozenAbsenceLinks:
    """The codes of the compared values, and those of recent events."""

    equality: Tree = part()
    log: Tree = part()


class LinkCodes:
    """Two events have equal codes if the compared values, and the partitions, are equal."""

    def __init__(self, links: GuardLinks, *, partitioned: bool) -> None:
        inside = tuple(pair.inside.attribute.name for pair in links.equal)
        outside = tuple(pair.outside.attribute.name for pair in links.equal)
        self.inside, self.outside = links.equal[0].events
        columns = [*dict.fromkeys([inside, outside])]
        self._rows = columns.index(inside), columns.index(outside)
        self._equality = Equality([columns], partitioned)
        self._log = EventLog(len(columns))

    def note(self, batch: EventBatch, keys: Numbers | None) -> None:
        """Read the codes of a batch."""
        self._log.append(batch.base, self._equality.encode(batch, keys))

    def read_inside(self, positions: Numbers) -> Numbers:
        """Return the codes of events of the guard."""
        return self._log.read(self._rows[0], positions)

    def read_outside(self, positions: Numbers) -> Numbers:
        """Return the codes of events of a match."""
        return self._log.read(self._rows[1], positions)

    def forget_before(self, position: int) -> None:
        self._log.forget_before(position)

    def forget_values(self, live: Numbers) -> Numbers | None:
        """Drop the values that neither these codes nor recent events have, once they are many.

        Return the codes kept, ascending: the first becomes 0, and so on. None: nothing changes.
        """
        if self.size <= 2 * len(live) + _SPARE:
            return None
        is_kept = np.zeros(self.size + 1, np.bool_)
        is_kept[live] = True
        for row in range(self._log.rows):
            self._log.mark(row, is_kept)
        is_kept[-1] = False  # where values are missing
        kept = np.flatnonzero(is_kept)
        self._equality.keep_only(0, kept)
        for row in range(self._log.rows):
            self._log.renumber(row, kept)
        return kept

    @property
    def size(self) -> int:
        """How many values have a code."""
        return self._equality.sizes()[0]

    def find_partitions(self, codes: Numbers) -> Numbers:
        """Return the partitions of values; -1 where a value is missing, or its partition gone."""
        known = np.append(self._equality.list_partitions(0), -1)
        return known[codes]

    def keep_keys(self, keys: Numbers) -> None:
        self._equality.keep_partitions(keys)

    def freeze(self) -> Tree:
        return write(FrozenAbsenceLinks(self._equality.freeze(), self._log.freeze()))

    def thaw(self, tree: Tree, position: int) -> None:
        frozen = read(FrozenAbsenceLinks, tree)
        self._equality.thaw(frozen.equality)
        codes = dict.fromkeys(range(self._log.rows), self.size)
        self._log.thaw(frozen.log, position, codes)


class ListedOne(NamedTuple):
    """One match of a block."""

    block: MatchBlock
    variables: tuple[str, ...]
    at: int

    def find(self, variable: str) -> list[int]:
        """Return the positions of a variable."""
        v = self.variables.index(variable)
        first, last = self.block.offsets[v][self.at : self.at + 2].tolist()
        return [int(position) for position in self.block.positions[v][first:last]]


class PairCheck:
    """Checks the residual conditions of one guard."""

    def __init__(self, links: GuardLinks, run: Run) -> None:
        self.links = links
        self.budget = run.budget
        atoms = [atom for one in links.residual for atom in list_condition_atoms(one)]
        self.events = CheckedEvents([*dict.fromkeys(atoms)], run.store, run.encode)

    def holds(self, match: ListedOne, occurrence: ListedOne) -> bool:
        """Whether the conditions hold of the events of both together."""
        self.budget.spend(1)

        def find(variable: str) -> list[int]:
            side = occurrence if variable in self.links.names else match
            return side.find(variable)

        found = MarkedEvents(find, list)
        view = self.events.view
        return all(satisfies(condition, found, view) for condition in self.links.residual)
