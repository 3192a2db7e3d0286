"""The `Layout` of solutions: how those of a SPAseQ query are spread over tasks.

*keyed*: every graph pattern binds some variables for certain, and all events of a match share
them: a task has whole keys. *sliced*: no key, but a window: time is cut into cells of equal
length, which the tasks take in turn; a task also reads the window before each of its cells, and
reports the matches that end in them. *single*: neither.

The matches of one step without `+` have one timestamp: their window is 0.

A task runs one engine for all its keys, which the join keeps apart, and for all its cells: more
than a window lies between two of them.

Does not import Spark, so that the command line can explain without starting it.
"""

from __future__ import annotations

from cernis.plan.linked import LinkedPlan
from cernis.plan.plan import Distribution
from cernis.rdf.shape import shape_answers
from cernis.work.layout import Layout

APART = 4
"""A cell is at least so many windows long, so at most one event in so many is read twice."""
CELLS = 16
"""About how many cells a task has, if the window allows it."""


_PARALLEL = "a WITHIN, or a variable that every graph pattern binds (PARTITION BY, where ',' is)"


def choose_solution_layout(plan: LinkedPlan) -> Layout:
    """Choose the layout of a plan."""
    if plan.distribution is not Distribution.KEYED:
        return _lay_out(plan, plan.distribution)
    shape = shape_answers(plan.query, plan.linked)
    answer = {plan.linked.columns[column.row_column] for column in shape.columns}
    shown = tuple(name for name in plan.key if name in answer)
    if not shown and any(output.expression is not None for output in shape.outputs):
        # matches that look the same may differ, so repeats cannot be found by their looks
        single = plan.window is None
        return _lay_out(plan, Distribution.SINGLE if single else Distribution.SLICED)
    return Layout(Distribution.KEYED, key=shown or plan.key, repeats=not shown)


def choose_solution_stream_layout(plan: LinkedPlan) -> Layout:
    """Choose the layout of a plan on streams: keyed, or single.

    Slices of time end, and streams do not. Keys that the answer does not show stay together: a
    match that two of them give is reported once.
    """
    layout = choose_solution_layout(plan)
    if layout.distribution is Distribution.KEYED and not layout.repeats:
        return layout
    return _lay_out(plan, Distribution.SINGLE)


def _lay_out(plan: LinkedPlan, distribution: Distribution) -> Layout:
    ticks = plan.counts_all_timestamps
    return Layout(distribution, window=plan.window, ticks=ticks, parallel=_PARALLEL)


def cell_length(window: int, span: int, tasks: int) -> int:
    """Return the length of the cells of time, for a stream that lasts about `span`.

    >>> cell_length(10, 3200, 2), cell_length(1000, 3200, 2)
    (101, 4001)
    """
    return max(APART * window, span // (CELLS * tasks)) + 1
