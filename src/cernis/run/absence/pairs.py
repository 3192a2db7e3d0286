"""`PairCheck`: residual conditions between a match and an occurrence of a guard, pair by pair.

Cost contract: one check of Python for each pair; the budget bounds their number.
"""

from __future__ import annotations

from typing import NamedTuple

from cernis.encoding.encode import Encode
from cernis.events.store import EventStore
from cernis.plan.absence import GuardLinks
from cernis.results.matchset import MatchBlock
from cernis.run.budget import Budget
from cernis.run.checked_events import CheckedEvents
from cernis.run.conditions import MarkedEvents, satisfies
from cernis.run.verify import list_condition_atoms


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

    def __init__(
        self, links: GuardLinks, store: EventStore, budget: Budget, encode: Encode
    ) -> None:
        self.links = links
        self.budget = budget
        atoms = [atom for one in links.residual for atom in list_condition_atoms(one)]
        self.events = CheckedEvents([*dict.fromkeys(atoms)], store, encode)

    def holds(self, match: ListedOne, occurrence: ListedOne) -> bool:
        """Whether the conditions hold of the events of both together."""
        self.budget.spend(1)

        def find(variable: str) -> list[int]:
            side = occurrence if variable in self.links.names else match
            return side.find(variable)

        found = MarkedEvents(find, list)
        view = self.events.view
        return all(satisfies(condition, found, view) for condition in self.links.residual)
