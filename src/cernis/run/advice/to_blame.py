"""A clause or a condition without which something would match, where nothing does.

`unmet_conditions` finds conditions that no single event satisfies. Here the first events are read
again without the window, without the key, without a guard, without one condition at a time: if that
alone gives matches, it is to blame. Conditions on single events are among them.

Cost contract: at most `MOST_TRIALS` plans over the first `MOST_EVENTS` events, once the notes of a
run are read that has found nothing in `FEWEST_EVENTS` or more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice

from cernis.events.batch import EventBatch
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.query import Pattern
from cernis.pattern.write import write_condition, write_dotted, write_formula, write_window

FEWEST_EVENTS = 32
"""People see for themselves why fewer events do not match."""
MOST_EVENTS = 2_000
MOST_TRIALS = 8
NOTHING_MATCHED = "nothing matched; "
"""How the notes begin."""


class FirstEvents:
    """The first events of a run, kept until something matches."""

    def __init__(self) -> None:
        self.batches: list[EventBatch] = []
        self.read = 0
        """How many events the run has read."""

    @property
    def size(self) -> int:
        return sum(map(len, self.batches))

    def add(self, batch: EventBatch) -> None:
        """Keep the first events of a batch, while there is room."""
        self.read += len(batch)
        left = MOST_EVENTS - self.size
        if left > 0 and len(batch):
            self.batches.append(_take_first(batch, left))


def _take_first(batch: EventBatch, most: int) -> EventBatch:
    """Return the first events of a batch; they share memory with it."""
    if len(batch) <= most:
        return batch
    rows, time, which = batch.rows[:most], batch.time, batch.which
    index, parts = batch.index, batch.parts
    if index is None and which is None:
        parts = tuple((name, table.slice(0, most)) for name, table in parts)
    return replace(
        batch,
        rows=rows,
        time=None if time is None else time[:most],
        parts=parts,
        which=None if which is None else which[:most],
        index=None if index is None else index[:most],
    )


def note_blame(
    pattern: Pattern, first: FirstEvents, has_matches: Callable[[Pattern], bool]
) -> Iterator[str]:
    """Yield a note that names each part of the query that alone keeps every match away."""
    if first.read < FEWEST_EVENTS:
        return
    blamed = [
        text for text, trial in islice(list_trials(pattern), MOST_TRIALS) if has_matches(trial)
    ]
    if not blamed:
        return
    where = "" if first.read <= first.size else f" in the first {first.size:,} events"
    if len(blamed) == 1:
        yield f"{NOTHING_MATCHED}without {blamed[0]} something would{where}"
    else:
        yield (
            f"{NOTHING_MATCHED}without any one of these something would{where}: {'; '.join(blamed)}"
        )


def list_trials(pattern: Pattern) -> Iterator[tuple[str, Pattern]]:
    """Yield what is left out, and the pattern without it."""
    if pattern.within is not None:
        yield f"WITHIN {write_window(pattern.within)}", replace(pattern, within=None)
    free = pattern.suppress is None and pattern.grouping is None and pattern.forget is None
    if pattern.partition and free:
        names = ", ".join(f"[{', '.join(map(write_dotted, group))}]" for group in pattern.partition)
        yield f"PARTITION BY {names}", replace(pattern, partition=())
    for absence in pattern.without:
        others = tuple(one for one in pattern.without if one is not absence)
        clause = "BEFORE" if absence.before else "FOR"
        text = f"WITHOUT {write_formula(absence.formula)} {clause} {write_window(absence.within)}"
        yield text, replace(pattern, without=others)
    for text, formula in _list_formulas(pattern.formula):
        yield text, replace(pattern, formula=formula)


def _list_formulas(node: cel.Formula) -> Iterator[tuple[str, cel.Formula]]:
    """Yield what is left out of a formula, and what is left; comparisons of events first."""
    match node:
        case cel.Filter(body=body, condition=condition):
            parts = list(pred.conjuncts(condition))
            for part in sorted(parts, key=lambda part: isinstance(part, pred.Holds)):
                kept = [one for one in parts if one is not part]
                yield write_condition(part), cel.put_filter(body, kept)
        case cel.PartitionBy() | cel.Within() | cel.Unless():
            yield write_layer(node), node.body
    match node:
        case cel.Sequence(parts=many) | cel.Contiguous(parts=many) | cel.All(parts=many):
            for i, one in enumerate(many):
                for text, less in _list_formulas(one):
                    yield text, replace(node, parts=(*many[:i], less, *many[i + 1 :]))
        case cel.Event() | cel.Not() | cel.Choice():
            return
        case _:
            for text, less in _list_formulas(node.body):
                yield text, replace(node, body=less)


def write_layer(layer: cel.PartitionBy | cel.Within | cel.Unless) -> str:
    """Return the clause that stands around a formula, without the formula."""
    match layer:
        case cel.PartitionBy(keys=keys):
            return f"PARTITION BY [{', '.join(write_dotted(k.attribute.name) for k in keys)}]"
        case cel.Within(window=window):
            return f"WITHIN {write_window(window)}"
    return f"UNLESS {write_formula(layer.guard)}"
