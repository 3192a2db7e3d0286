"""The stages of a plan, in the order in which matches pass through them.

A match is found (or opened after WITHOUT), compared with longer ones, ordered, silenced, kept for
`pull`, and added to a group or projected to an answer. SUPPRESS BY comes after ORDER BY: of one end
the best match is the one that is reported.
"""

from __future__ import annotations

from cernis.pattern.query import Strategy
from cernis.run.stages.absence.decide import Absences
from cernis.run.stages.best import BestFirst
from cernis.run.stages.counted_runs import CountedRuns
from cernis.run.stages.groups import Grouper
from cernis.run.stages.history import MatchHistory
from cernis.run.stages.longest import LongestMatches
from cernis.run.stages.projection import Projector
from cernis.run.stages.sieve import Sieve
from cernis.run.stages.stage import ClosingStage, CompactSets, OpeningStage, Run, Stage, Stages
from cernis.run.stages.suppress import Suppressor


def make_stages(run: Run) -> Stages:
    """Return the stages of the plan of a run."""
    plan, pattern = run.plan, run.plan.pattern
    opening: OpeningStage
    if pattern.without:
        opening = Absences(run)
    elif plan.runs is not None:
        opening = CountedRuns(run, plan.runs)
    else:
        opening = Sieve(run) if plan.listed else CompactSets(run)
    choosing: list[Stage] = []
    if pattern.strategy is Strategy.LONGEST:
        choosing.append(LongestMatches(run))
    if pattern.order is not None:
        choosing.append(BestFirst(run, pattern.order))
    if pattern.suppress is not None:
        choosing.append(Suppressor(run, pattern.suppress))
    if run.purpose.keep and pattern.grouping is None:
        choosing.append(MatchHistory(run))
    closing: ClosingStage | None = None
    if pattern.grouping is not None:
        closing = Grouper(run, pattern.grouping)
    elif plan.head is not None:
        closing = Projector(run, plan.head)
    return Stages(opening, choosing, closing)
