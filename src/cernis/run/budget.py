"""How much may be looked at in vain, and what happens when it is spent.

Where conditions can only be decided on candidates, most of these may be looked at for
nothing. A budget ends that: with a clear error, or, where the user chose so, with what
has been found up to there, flagged as partial. It belongs to a session, not to a batch.
"""

from __future__ import annotations

from typing import Literal

from cernis.errors import BudgetError

CANDIDATE_BUDGET = 1_000_000

OnBudget = Literal["fail", "partial"]


class Budget:
    """The candidates looked at so far, and how many may be.

    >>> budget = Budget(10, "partial")
    >>> budget.spend(11)
    >>> budget.spent, budget.left
    (True, 0)
    """

    def __init__(self, most: int = CANDIDATE_BUDGET, on_budget: OnBudget = "fail") -> None:
        self.most = most
        self.on_budget = on_budget
        self.used = 0

    @property
    def left(self) -> int:
        return max(0, self.most - self.used)

    @property
    def spent(self) -> bool:
        return self.used > self.most

    def spend(self, candidates: int) -> None:
        """Note what was looked at; BudgetError where that was too much."""
        self.used += candidates
        if self.spent and self.on_budget == "fail":
            raise BudgetError(
                f"the query compares events with each other and has more candidates to check "
                f"than its budget of {self.most:,}; narrow the window or the pattern, allow a "
                "larger budget, or ask for a partial answer"
            )

    @property
    def notes(self) -> tuple[str, ...]:
        if not self.spent:
            return ()
        return (f"partial: the budget of {self.most:,} candidates is spent; matches are missing",)
