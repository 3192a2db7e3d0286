"""`Answers`: the result of a conjunctive query whose head drops variables.

An answer is a tuple of values, given once: at the first match that has it. Unlike matches, answers
cannot be told apart without their values. So `Answers` holds the values, as an Arrow table: the
variables of the head, then `end` and `end_ts` of that first match.

Cost contract: every member is linear in its output; nothing is enumerated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cernis.output import UsedFile
from cernis.results.formats.columns import distinct_names
from cernis.results.formats.jsonlines import answer_lines
from cernis.results.result import Notes
from cernis.results.table_result import TableResult
from cernis.results.values import python_values

_FIRST = ("end", "end_ts")


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: the values of the head, and where the first match with them ends.

    `end` is the 0-based row number of that match's last event, `end_ts` its timestamp.
    """

    values: dict[str, Any]
    end: int
    end_ts: Any


class Answers(TableResult[Answer]):
    """Distinct answers, in the order in which they were found.

    >>> table = pa.table([pa.array([3, 4]), pa.array([7, 9]), pa.array([7, 9])], list("abc"))
    >>> answers = Answers(("y",), table)
    >>> answers.head(1), answers
    ([Answer(values={'y': 3}, end=7, end_ts=7)], <2 answers>)
    """

    noun = ("answer", "answers")

    def __init__(
        self,
        names: Sequence[str],
        table: pa.Table,
        *,
        notes: Notes = (),
        partial: bool = False,
        used: Sequence[UsedFile] = (),
    ) -> None:
        """Take a table with a column for each name, then `end` and `end_ts`."""
        self.names = tuple(names)
        """The variables of the head."""
        columns = distinct_names([*self.names, *_FIRST])
        super().__init__(table.rename_columns(columns), notes, partial, used)

    def counts(self) -> pa.Table:
        """Return the number of answers that appear at each end: `end`, `end_ts`, `count`."""
        ends, times = self._table.columns[-2:]
        first = pa.table([ends, times], _FIRST)
        grouped = first.group_by(list(_FIRST), use_threads=False).aggregate([([], "count_all")])
        return grouped.rename_columns([*_FIRST, "count"])

    def _objects(self, batch: pa.RecordBatch) -> Iterator[Answer]:
        *values, ends, times = map(python_values, batch.columns)
        for row, (end, time) in enumerate(zip(ends, times, strict=True)):
            head = {name: column[row] for name, column in zip(self.names, values, strict=True)}
            yield Answer(head, end, time)

    def _lines(self, limit: int | None, *, whole: bool = False) -> Iterator[pa.StringArray]:
        for batch in self._batches(limit):
            *values, ends, times = batch.columns
            yield answer_lines(self.names, values, ends, times)

    def _table_of(self, items: Sequence[Answer]) -> tuple[list[str], list[list[object]]]:
        return [*self.names, *_FIRST], [[*a.values.values(), a.end, a.end_ts] for a in items]
