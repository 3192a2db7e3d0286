"""`cernis run`, `explain` and `why` of SQL statements: files become tables by their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from cernis.cli.arguments import Files, RunArguments, files_of
from cernis.cli.deliver import Found, FoundRuns, ResultKind
from cernis.cli.terminal import make_table, spinner, value_text
from cernis.errors import CernisError
from cernis.events.reading.files import stem_of
from cernis.output import input_files
from cernis.results.budget import CANDIDATE_BUDGET
from cernis.run.rows.feed import DEFAULT_BUDGET
from cernis.run.rows.host import HostLimits, write_parquet
from cernis.run.rows.statement import SqlQuery, SqlRows

if TYPE_CHECKING:
    from rich.table import Table


def _rows_table(rows: Sequence[dict[str, Any]]) -> Table:
    return make_table(list(rows[0]), [map(value_text, row.values()) for row in rows])


STATEMENT_ROWS = ResultKind(SqlRows.noun, _rows_table)


def _give_rows(rows: SqlRows) -> Found:
    return FoundRuns((each for each in (rows,)), STATEMENT_ROWS, lambda: rows, lambda: rows.notes)


def name_tables(files: Files, options: Mapping[str, Any]) -> dict[str, Path]:
    """Return the files of a statement by the names of their tables; refuse what SQL has itself."""
    for option in ("time", "columns", "delimiter", "quote", "format"):
        if options[option] is not None:
            told = "is for queries over events; a statement names its columns"
            raise CernisError(f"--{option} {told}")
    named: dict[str, Path] = {}
    names = list(files) if isinstance(files, dict) else [None] * len(files)
    for name, path in zip(names, files_of(files), strict=True):
        if not isinstance(path, Path):
            raise CernisError(f"the table {name!r} has several files; name each by itself")
        told = stem_of(path) if name is None else name
        if told in named:
            raise CernisError(f"two files for the table {told!r}: {named[told]} and {path}")
        named[told] = path
    return {**named, **{name: Path(path) for name, path in options["tables"].items()}}


def _name_tables(arguments: RunArguments) -> dict[str, Path]:
    tables = {"tables": arguments.options.tables}
    return name_tables(arguments.files, {**arguments.reading, **tables})


def read_statement(arguments: RunArguments, host: str = "duckdb") -> SqlQuery:
    """Parse a statement, in the dialect that was named or in the host's."""
    return SqlQuery(arguments.text, dialect=arguments.dialect or host)


def find_rows(arguments: RunArguments) -> Found:
    """Run a statement on DuckDB, in this process."""
    query, tables = read_statement(arguments), _name_tables(arguments)
    used = list(input_files(list(tables.values())))
    limits = HostLimits(arguments.max_memory and arguments.max_memory << 20)
    found = query.run(tables, budget=choose_budget(arguments), used=used, limits=limits)
    return _give_rows(found)


def find_rows_on_spark(arguments: RunArguments) -> Found:
    """Run a statement on Spark; its rows come to this process.

    Files that are not Parquet are read here first: Spark would find other types in a text.
    """
    query, files = read_statement(arguments, "spark"), _name_tables(arguments)
    with TemporaryDirectory(prefix="cernis-sql-") as folder:
        parquet = {
            name: _find_parquet(path, Path(folder, f"{index}.parquet"))
            for index, (name, path) in enumerate(files.items())
        }
        with spinner("starting Spark"):
            from cernis.spark import session
            from cernis.spark.statement import run_query

            spark = session()
        tables = {name: spark.read.parquet(str(path)) for name, path in parquet.items()}
        with spinner("running on Spark"):
            rows = run_query(spark, query, tables, choose_budget(arguments)).toArrow()
    return _give_rows(SqlRows(rows, used=list(input_files(list(files.values())))))


def _find_parquet(path: Path, copy: Path) -> Path:
    """Return a file as Parquet: the file itself, or a copy."""
    if path.suffix.lower() == ".parquet" and path.exists():
        return path.absolute()
    write_parquet(path, copy)
    return copy


def why_statement(
    query: SqlQuery, tables: Mapping[str, Path], rows: Sequence[int] | None
) -> tuple[str, dict[str, Any]]:
    """Return what is known of the last clause of a statement, or of some of its rows."""
    trace = query.trace(tables)
    if rows is not None:
        finding = trace.why(rows)
        return str(finding), finding.to_dict()
    told = {"rows": trace.rows.num_rows, "matches": len(trace.matches)}
    return trace.describe(), {**told, "fitting": trace.count_fitting()}


def choose_budget(arguments: RunArguments) -> int:
    """Return the budget of a search: --budget, or the one of statements."""
    given = arguments.options.budget
    return DEFAULT_BUDGET if given == CANDIDATE_BUDGET else given
