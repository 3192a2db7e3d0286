"""The most candidates that a push checks, and what happens beyond.

Some conditions can only be decided on candidates, and most candidates may fail. A budget
bounds what they cost: one each, and more where a candidate has many events or is compared with
all others. Beyond it the session raises an error, or, where the user chose so, returns the matches
found so far, flagged as partial.

A session renews its budget with each push: it bounds how long the user waits for an answer, and
a stream may go on for ever. A run over all events at once is one push.
"""

from __future__ import annotations

from typing import Literal

from cernis.errors import BudgetError, CernisError
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.write import write_term

CANDIDATE_BUDGET = 1_000_000

_COMPARES = "the query compares events with each other"

OnBudget = Literal["fail", "partial"]


def describe_candidates(formula: cel.Formula, undecided: str = "") -> str:
    """Say why a query has candidates, for the error that they are too many.

    `undecided` is a condition that no index decides, and why.

    >>> from cernis.languages.ceql import parse
    >>> describe_candidates(parse("SELECT * WHERE A{9} AS x FILTER SUM(x[v]) > 5").formula)
    'the query has a condition on whole matches, SUM(x[v]) > 5,'
    """
    for leaf in cel.list_leaves(cel.walk(formula)):
        if isinstance(leaf, pred.CompareTerms):
            sides = (leaf.left, leaf.right)
            if any(isinstance(p, pred.Aggregate) for side in sides for p in pred.walk_term(side)):
                one, other = map(write_term, sides)
                return f"the query has a condition on whole matches, {one} {leaf.op} {other},"
    return f"the query decides {undecided} on candidates" if undecided else _COMPARES


class Budget:
    """The candidates checked since the budget was renewed, and the most that may be.

    >>> budget = Budget(10, "partial")
    >>> budget.spend(11)
    >>> budget.spent, budget.left
    (True, 0)
    """

    def __init__(self, most: int = CANDIDATE_BUDGET, on_budget: OnBudget = "fail") -> None:
        if most < 0:
            raise CernisError("budget must be at least 0")
        self.most = most
        self.on_budget = on_budget
        self.rule = ""
        """The name of the rule that spends it, in a session of rules."""
        self.used = 0
        self.was_spent = False
        """Whether it was ever spent, however often it was renewed since."""

    @property
    def left(self) -> int:
        """How many more may be checked; a number of 64 bits, for the kernels."""
        return min(max(0, self.most - self.used), 2**63 - 1)

    @property
    def spent(self) -> bool:
        return self.used > self.most

    def spend(self, candidates: int, why: str = _COMPARES) -> None:
        """Count checked candidates; raise BudgetError where they are too many."""
        self.used += candidates
        self.was_spent |= self.spent
        if self.spent and self.on_budget == "fail":
            where = f"rule {self.rule}: " if self.rule else ""
            raise BudgetError(
                f"{where}{why} and has more candidates to check "
                f"than its budget of {self.most:,}; narrow the window or the pattern, allow a "
                "larger budget, or ask for a partial answer"
            )

    @property
    def note(self) -> str:
        """What to tell of a partial answer."""
        return f"partial: the budget of {self.most:,} candidates is spent; matches are missing"
