"""Project the matches of a conjunctive query to its answers: the distinct tuples of the head.

Matches are enumerated in blocks. Each block is reduced to its distinct tuples in Arrow and
NumPy, and those are looked up among the answers given so far. An answer is given once, when
it first appears, and stays given when it leaves the window. So each answer is stored as a
digest of sixteen bytes in a set. Where the head says when a match ends, an answer can come
again only at the same time, and the set holds the answers of the last time alone.

NULL is a value here, and so is NaN: an answer has each of them once. Numbers are the same
when they are equal, whatever their type.

Cost contract: linear in the matches that are enumerated, which may be many more than the
answers, unless the plan keeps only the latest starts of atoms that the head does not need
(`plan.heads`). A budget bounds the matches that give no new answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.events.store import EventStore
from cernis.plan.heads import Head, HeadColumn
from cernis.results.sets.matchset import MatchBlock, MatchSet, join
from cernis.results.terms.distinct import number_distinct, write_value
from cernis.results.values import python_values
from cernis.run.stages.stage import ClosingStage, Run, Stages
from cernis.state import Tree, array, frozen_record, read, require, text, write

_DIGEST = 16


@frozen_record
class FrozenAnswers:
    """The form of times, and a digest of each answer that was given."""

    time: str = text()
    digests: NDArray[np.uint8] = array(np.uint8, "answers", _DIGEST)


class Projector(ClosingStage):
    """Turns matches into answers that were not given before."""

    name = "answers"

    def __init__(self, run: Run, head: Head) -> None:
        super().__init__(run)
        self.head = head
        self.names = tuple(column.name for column in head.columns)
        self.given: set[bytes] = set()
        self._columns = [run.plan.variables.index(str(column.atom)) for column in head.columns]
        self._dated = None if head.dated is None else self.names.index(head.dated)
        self._time = ""

    def report(
        self, found: MatchSet, stages: Stages | None = None, *, last: bool = False
    ) -> pa.Table:
        """Return the new answers, with the row and the time at which each appears."""
        tables, budget = [self.report_nothing()], self.run.budget
        for block in found.blocks():
            if budget.spent:
                break
            tables.append(self._find_new(block))
            new = tables[-1].num_rows
            fair = len(np.unique(block.end))  # one look at each end is not in vain
            budget.spend(max(0, len(block.start) - max(new, fair)))
        return pa.concat_tables(tables)

    def report_nothing(self) -> pa.Table:
        return self._find_new(join((), len(self.run.plan.variables)))

    def _find_new(self, block: MatchBlock) -> pa.Table:
        store = self.run.store
        columns = [
            _read_values(column, block, variable, store)
            for column, variable in zip(self.head.columns, self._columns, strict=True)
        ]
        first = _find_first(columns, len(block.end))
        columns = [column.take(pa.array(first)) for column in columns]
        kept = self._find_unknown(columns, len(first))
        ends = block.end[first][kept]
        values = [column.take(pa.array(kept)) for column in columns]
        every = [*values, pa.array(store.rows(ends), pa.int64()), store.times(ends)]
        return pa.table(every, [f"{i}" for i in range(len(every))])

    def _find_unknown(self, columns: Sequence[pa.Array], length: int) -> NDArray[np.int64]:
        """Return the indices of the distinct tuples that are new; from now on they are given."""
        if not length:
            return np.zeros(0, np.int64)
        if self._dated is None:
            return np.flatnonzero(self._keep_unknown(columns))
        times = number_distinct(columns[self._dated])
        new = np.ones(length, np.bool_)
        # what ends in between can neither be given already nor be found again
        for edge in dict.fromkeys((int(times[0]), int(times[-1]))):
            rows = np.flatnonzero(times == edge)
            taken = [column.take(pa.array(rows)) for column in columns]
            time = write_value(python_values(taken[self._dated].slice(0, 1))[0])
            if time != self._time:
                self._time = time
                self.given.clear()
            new[rows] = self._keep_unknown(taken)
        return np.flatnonzero(new)

    def _keep_unknown(self, columns: Sequence[pa.Array]) -> NDArray[np.bool_]:
        """Return which tuples are new; from now on they are given."""
        texts = [map(write_value, python_values(column)) for column in columns]
        new = []
        for held in zip(*texts, strict=True) if columns else [()]:
            text = repr(held).encode("utf-8", "surrogatepass")
            key = blake2b(text, digest_size=_DIGEST).digest()
            new.append(key not in self.given)
            self.given.add(key)
        return np.array(new, np.bool_)

    def freeze(self, stages: Stages) -> Tree:
        """Return the digests of the answers given, and the time they belong to."""
        digests = np.frombuffer(b"".join(sorted(self.given)), np.uint8)
        return write(FrozenAnswers(self._time, digests.reshape(-1, _DIGEST)))

    def thaw(self, tree: Tree) -> None:
        frozen = read(FrozenAnswers, tree)
        self._time = frozen.time
        self.given = {row.tobytes() for row in frozen.digests}


def _read_values(
    column: HeadColumn, block: MatchBlock, variable: int, store: EventStore
) -> pa.Array:
    positions = block.positions[variable]
    require(len(positions) == len(block.end), "a match does not have one event for each atom")
    if column.attribute is None:
        return store.times(positions)
    return store.column(positions, column.attribute)


def _find_first(columns: Sequence[pa.Array], length: int) -> NDArray[np.int64]:
    """Return the first index of each distinct row, ascending.

    >>> _find_first([pa.array([1, 1, None, None]), pa.array(["a", "a", "b", "c"])], 4)
    array([0, 2, 3])
    """
    codes = np.zeros(length, np.int64)
    for column in columns:
        own = number_distinct(column)
        _, codes = np.unique(codes * (int(own.max(initial=0)) + 1) + own, return_inverse=True)
    return np.sort(np.unique(codes, return_index=True)[1])
