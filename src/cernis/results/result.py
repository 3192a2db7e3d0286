"""`Result`: the base of `Matches`, `Answers` and `GraphMatches`.

A result holds a set of matches or answers, its *items*, and makes them when they are asked for. A
subclass says how its items are counted, drawn, and turned into Arrow, text and Python objects.
Everything else is here, so that all results have the same members with the same behaviour.

Cost contract: `head`, `batches`, `to_…` and `write_…` are linear in their output, and hold one
batch at a time where they write. Iteration makes a Python object for each item. `count`, `counts`,
`sample` and `page` cost what the subclass says.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Generic, TypeVar

import pyarrow as pa

from cernis.errors import DataError
from cernis.extras import import_extra
from cernis.integers import describe_integer
from cernis.output import UsedFile, open_output, refuse_overwriting
from cernis.results.formats.flat import flatten
from cernis.results.formats.frames import to_frame
from cernis.results.formats.jsonlines import text_of
from cernis.results.notebook import html_table

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

Item = TypeVar("Item", covariant=True)
Notes = Sequence[str] | Callable[[], Sequence[str]]
"""Remarks on a run, or a function that makes them when they are read."""

_SHOWN = 10


class Result(ABC, Generic[Item]):
    """The matches or answers of a run, lazily."""

    noun: ClassVar[tuple[str, str]] = ("match", "matches")
    """The singular and the plural of what it holds."""

    def __init__(
        self, notes: Notes = (), partial: bool = False, used: Sequence[UsedFile] = ()
    ) -> None:
        self._notes = notes if callable(notes) else tuple(notes)
        self.partial = partial
        """Whether a budget ended the search early: every item is real, some may be missing."""
        self._used = tuple(used)
        """The files of the run; no result is written over them."""

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the run, such as that events had to be sorted."""
        return tuple(self._notes() if callable(self._notes) else self._notes)

    # ------------------------------------------- what each kind of result defines

    @property
    def counting(self) -> bool:
        """Whether the rows are counts, not matches: `SELECT COUNT(*)` alone, `matches="count"`."""
        return False

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns of `to_arrow`."""

    @abstractmethod
    def count(self) -> int:
        """Return the number of items, exactly."""

    @abstractmethod
    def counts(self) -> pa.Table:
        """Return the number of items at each end that has any."""

    @abstractmethod
    def _items(self, limit: int | None) -> Iterator[Item]:
        """Make the items, or the first `limit`, as Python objects."""

    @abstractmethod
    def _draw(self, k: int, seed: int | None) -> Iterable[Item]:
        """Draw k distinct items, each set of k equally likely; all when there are fewer."""

    @abstractmethod
    def _page(self, offset: int, n: int) -> Iterable[Item]:
        """Make the items from number `offset` on, at most n."""

    @abstractmethod
    def _batches(self, limit: int | None) -> Iterator[pa.RecordBatch]:
        """Make the items, or the first `limit`, as record batches of `schema`."""

    @abstractmethod
    def _lines(self, limit: int | None, *, whole: bool = False) -> Iterator[pa.StringArray]:
        """Make the items, or the first `limit`, as lines of JSON; `whole`: with all events."""

    def flat_batches(
        self, limit: int | None = None, *, events: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Return the items as batches that a CSV file can hold; the first one is empty."""
        yield flatten(pa.RecordBatch.from_pylist([], self.schema))
        yield from map(flatten, self._batches(limit))

    @abstractmethod
    def _table_of(self, items: Sequence[Item]) -> tuple[list[str], list[list[object]]]:
        """Return column names and rows of cells, as a notebook shows them."""

    # ------------------------------------------------------------ objects

    def __len__(self) -> int:
        """Return how many items iteration gives; Python raises OverflowError from 2^63 on."""
        return self.count()

    def __bool__(self) -> bool:
        return self.count() > 0

    def __iter__(self) -> Iterator[Item]:
        return self._items(None)

    def head(self, n: int = 10) -> list[Item]:
        """Return the first n items."""
        n = self._checked(n)
        return list(islice(self._items(n), n))

    def sample(self, k: int = 10, seed: int | None = None) -> list[Item]:
        """Return k distinct items, each set of k equally likely; all when there are fewer."""
        return list(self._draw(self._checked(k), seed))

    def page(self, offset: int, n: int = 10) -> list[Item]:
        """Return n items from number `offset` on, without making those before.

        All pages together have each item once. Pages follow the order of iteration, except within
        an end that has more than 16,384 matches.
        """
        if offset < 0:
            raise ValueError(f"a page cannot begin at {offset}")
        return list(self._page(offset, self._checked(n)))

    # -------------------------------------------------------------- Arrow

    def batches(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """Return the items, or the first `limit`, as Arrow record batches."""
        return self._batches(self._checked_limit(limit))

    def to_arrow(self, limit: int | None = None) -> pa.Table:
        """Return the items, or the first `limit`, as an Arrow table."""
        return pa.Table.from_batches(self.batches(limit), self.schema)

    def to_pandas(self, limit: int | None = None) -> pd.DataFrame:
        """Return the items, or the first `limit`, as a pandas frame (pandas must be installed).

        The times of events in lists are timestamps, too.
        """
        return to_frame(self.to_arrow(limit))

    def to_polars(self, limit: int | None = None) -> pl.DataFrame:
        """Return the items, or the first `limit`, as a polars frame (polars must be installed)."""
        polars = import_extra("polars", "to_polars")
        frame: pl.DataFrame = polars.DataFrame(self.to_arrow(limit))
        return frame

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Hand the items over as an Arrow stream: DuckDB, polars and others read it as a table."""
        reader = pa.RecordBatchReader.from_batches(self.schema, self.batches())
        return reader.__arrow_c_stream__(requested_schema)

    # -------------------------------------------------------------- files

    def write_jsonl(
        self, path: str | Path | BinaryIO, *, limit: int | None = None, events: bool = False
    ) -> int:
        """Write one item a line and return their number; with `events`, a match has its events.

        `path` is a file's path, `-` for standard output, or an open binary file. A file appears
        when it is complete, and must be none that the run has read.
        """
        return self._write_texts(path, self._lines(self._checked_limit(limit), whole=events))

    def write_csv(self, path: str | Path, *, limit: int | None = None, events: bool = False) -> int:
        """Write a CSV file with a line of names, and return the number of rows.

        A variable is a list of row numbers in JSON, with `events` of events; an attribute that
        SELECT names of it, a list of values. `-` is standard output.
        """
        import pyarrow.csv as pacsv

        flat = self.flat_batches(self._checked_limit(limit), events=events)
        return self._write_batches(path, flat, pacsv.CSVWriter)

    def write_arrow(self, path: str | Path, *, limit: int | None = None) -> int:
        """Write the columns of `to_arrow` to an Arrow file (Feather); return the number of rows.

        `-` is standard output, which gets an Arrow stream.
        """
        make = pa.ipc.new_stream if str(path) == "-" else pa.ipc.new_file
        return self._write_batches(path, self._all_batches(limit), make)

    def _all_batches(self, limit: int | None) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([], self.schema)
        yield from self.batches(limit)

    def _write_batches(
        self, path: str | Path, batches: Iterator[pa.RecordBatch], make: Callable[..., Any]
    ) -> int:
        """Write batches with what `make` makes of a file and a schema; return how many rows."""
        refuse_overwriting(path, f"the {self.noun[1]}", self._used)
        first, written = next(batches), 0
        with open_output(path) as file, make(file, first.schema) as writer:
            for batch in batches:
                if batch.num_rows:  # pyarrow before 21 would repeat in a CSV what came before
                    writer.write_batch(batch)
                written += batch.num_rows
        return written

    def write_parquet(self, path: str | Path, *, limit: int | None = None) -> int:
        """Write the columns of `to_arrow` to a Parquet file, batch by batch; return the number of
        rows. The file appears when it is complete, and must be none that the run has read."""
        import pyarrow.parquet as pq

        written = 0
        batches = self.batches(limit)
        refuse_overwriting(path, f"the {self.noun[1]}", self._used)
        try:
            with open_output(path) as file, pq.ParquetWriter(file, self.schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
                    written += batch.num_rows
        except pa.ArrowNotImplementedError as error:
            raise DataError(f"{path}: Parquet cannot hold these columns: {error}") from error
        return written

    def _write_texts(self, path: str | Path | BinaryIO, columns: Iterable[pa.StringArray]) -> int:
        """Write the texts of some columns one after the other; return how many there were."""
        if isinstance(path, str | Path):
            refuse_overwriting(path, f"the {self.noun[1]}", self._used)
            with open_output(path) as file:
                return self._write_texts(file, columns)
        written = 0
        for texts in columns:
            path.write(text_of(texts))
            written += len(texts)
        return written

    # ------------------------------------------------------------ showing

    def _title(self) -> str:
        count = self.count()
        return f"{describe_integer(count)} {self.noun[count != 1]}"

    def __repr__(self) -> str:
        return f"<{self._title()}>"

    def _repr_html_(self) -> str:
        first = self.head(_SHOWN + 1)
        names, rows = self._table_of(first[:_SHOWN])
        more, picture = len(first) > _SHOWN, self._picture()
        return html_table(self._title(), names, rows, more=more, picture=picture)

    def _picture(self) -> str:
        """Return a picture of the result for a notebook; empty: there is none."""
        return ""

    # ------------------------------------------------------------- limits

    def _checked(self, n: int) -> int:
        if n < 0:
            raise ValueError(f"a number of {self.noun[1]} cannot be negative: {n}")
        return min(n, sys.maxsize)

    def _checked_limit(self, limit: int | None) -> int | None:
        return None if limit is None else self._checked(limit)


if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    Found = TypeVarWithDefault("Found", bound=Result[Any], covariant=True, default=Result[Any])
else:
    Found = TypeVar("Found")
"""The result of a query: `Matches`, or a `Result` where the query alone does not tell."""
