"""`Answers`: what a conjunctive query gives back whose head drops variables.

An answer is a tuple of values, given once: at the first match that has it. Unlike
matches, answers cannot be told apart without their values, so these are at hand, as an
Arrow table: the variables of the head, then `end` and `end_ts` of that first match.

Cost contract: what is asked of `Answers` is linear in its output; nothing is enumerated.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa

from cernis.results.columns import distinct_names
from cernis.results.jsonlines import answer_lines, text_of
from cernis.results.values import python_values

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

_PIECE = 1 << 16
_SHOWN = 10
_FIRST = ("end", "end_ts")


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: the values of the head, and where the first match with them ends.

    `end` is the 0-based row number of that match's last event, `end_ts` its timestamp.
    """

    values: dict[str, Any]
    end: int
    end_ts: Any


class Answers:
    """Distinct answers, in the order in which they were found.

    >>> table = pa.table([pa.array([3, 4]), pa.array([7, 9]), pa.array([7, 9])], list("abc"))
    >>> answers = Answers(("y",), table)
    >>> answers.head(1), answers
    ([Answer(values={'y': 3}, end=7, end_ts=7)], <2 answers>)
    """

    counting = False

    def __init__(
        self,
        names: Sequence[str],
        table: pa.Table,
        *,
        notes: Sequence[str] = (),
        partial: bool = False,
    ) -> None:
        """`table` has a column for each name, and then those of `end` and `end_ts`."""
        self.names = tuple(names)
        """The variables of the head."""
        self.notes = tuple(notes)
        """What the run has to say, such as that the events had to be sorted."""
        self.partial = partial
        """Whether a budget ended the search before all answers were found."""
        self._table = table.rename_columns(distinct_names([*self.names, *_FIRST])).combine_chunks()

    @property
    def schema(self) -> pa.Schema:
        """The columns: those of the head, `end` and `end_ts`."""
        return self._table.schema

    def count(self) -> int:
        """The number of answers."""
        return int(self._table.num_rows)

    def __len__(self) -> int:
        return self.count()

    def counts(self) -> pa.Table:
        """The number of answers that appear at each end: columns `end`, `end_ts`, `count`."""
        ends, times = self._table.columns[-2:]
        first = pa.table([ends, times], _FIRST)
        grouped = first.group_by(list(_FIRST), use_threads=False).aggregate([([], "count_all")])
        return grouped.rename_columns([*_FIRST, "count"])

    def __iter__(self) -> Iterator[Answer]:
        return chain.from_iterable(map(self._objects, self.batches()))

    def head(self, n: int = 10) -> list[Answer]:
        """The first n answers."""
        return list(chain.from_iterable(map(self._objects, self.batches(_number(n)))))

    def sample(self, k: int = 10, seed: int | None = None) -> list[Answer]:
        """k distinct answers, each set of k equally likely; all when there are fewer."""
        chosen = np.random.default_rng(seed).permutation(self.count())[: _number(k)]
        taken = self._table.take(pa.array(np.sort(chosen))).combine_chunks()
        return list(chain.from_iterable(map(self._objects, taken.to_batches())))

    def _objects(self, batch: pa.RecordBatch) -> Iterator[Answer]:
        *values, ends, times = map(python_values, batch.columns)
        for row, (end, time) in enumerate(zip(ends, times, strict=True)):
            held = {name: column[row] for name, column in zip(self.names, values, strict=True)}
            yield Answer(held, end, time)

    # -------------------------------------------------------------- Arrow

    def batches(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """The answers, or the first `limit`, as Arrow record batches."""
        yield from self.to_arrow(limit).to_batches(max_chunksize=_PIECE)

    def to_arrow(self, limit: int | None = None) -> pa.Table:
        """The answers, or the first `limit`, as an Arrow table."""
        return self._table if limit is None else self._table.slice(0, _number(limit))

    def to_pandas(self, limit: int | None = None) -> pd.DataFrame:
        """The answers, or the first `limit`, as a pandas frame (pandas must be installed)."""
        return self.to_arrow(limit).to_pandas()

    def to_polars(self, limit: int | None = None) -> pl.DataFrame:
        """The answers, or the first `limit`, as a polars frame (polars must be installed)."""
        import polars as pl

        return pl.DataFrame(self.to_arrow(limit))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The Arrow stream interface: DuckDB, polars and others read the answers as a table."""
        return self._table.__arrow_c_stream__(requested_schema)

    # -------------------------------------------------------------- files

    def write_jsonl(self, path: str | Path | BinaryIO, *, limit: int | None = None) -> int:
        """Write one answer a line; `-` is standard output. Gives the number of lines."""
        if not isinstance(path, str | Path):
            return self._write(path, limit)
        if str(path) == "-":
            number = self._write(sys.stdout.buffer, limit)
            sys.stdout.buffer.flush()
            return number
        with open(path, "wb") as file:
            return self._write(file, limit)

    def _write(self, file: BinaryIO, limit: int | None) -> int:
        written = 0
        for batch in self.batches(limit):
            *values, ends, times = batch.columns
            file.write(text_of(answer_lines(self.names, values, ends, times)))
            written += batch.num_rows
        return written

    def write_parquet(self, path: str | Path, *, limit: int | None = None) -> int:
        """Write the answers to a Parquet file."""
        import pyarrow.parquet as pq

        table = self.to_arrow(limit)
        pq.write_table(table, path)
        return int(table.num_rows)

    # ------------------------------------------------------------ showing

    def _title(self) -> str:
        count = self.count()
        return f"{count:,} {'answer' if count == 1 else 'answers'}"

    def __repr__(self) -> str:
        return f"<{self._title()}>"

    def _repr_html_(self) -> str:
        shown = self.head(_SHOWN)
        rows = [_row("td", [*a.values.values(), a.end, a.end_ts]) for a in shown]
        head = _row("th", [*self.names, *_FIRST])
        more = "<p>…</p>" if self.count() > len(shown) else ""
        return (
            f"<p><b>{escape(self._title())}</b></p><table><thead>{head}</thead>"
            f"<tbody>{''.join(rows)}</tbody></table>{more}"
        )


def _row(tag: str, values: Iterable[object]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(str(value))}</{tag}>' for value in values)}</tr>"


def _number(n: int) -> int:
    if n < 0:
        raise ValueError(f"a number of answers cannot be negative: {n}")
    return n


__all__ = ["Answer", "Answers"]
