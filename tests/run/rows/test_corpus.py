"""The corpus of SQL in one process: the rows worked out by hand, whichever side sorts."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import duckdb
import pytest

import cernis
from cernis.cli.main import main
from tests.streaming.test_row_stream import list_streamed
from tools.cases.sql import SqlCase, read_cases


def name_case(case: SqlCase) -> str:
    return f"{case.topic}: {case.name}"


@pytest.mark.parametrize("case", read_cases(), ids=name_case)
def test_a_case_has_the_rows_worked_out_by_hand(case: SqlCase) -> None:
    with duckdb.connect() as connection:
        for given in (None, connection):
            if not case.error:
                found = cernis.sql(
                    case.query, dict(case.tables), dialect=case.dialect, connection=given
                )
                case.check(found)
                continue
            with pytest.raises(cernis.QueryError) as raised:
                cernis.sql(case.query, dict(case.tables), dialect=case.dialect, connection=given)
            assert case.error in str(raised.value)
            assert "^" in str(raised.value)


@pytest.mark.parametrize("case", list_streamed()[::4], ids=name_case)
def test_a_file_that_is_read_as_a_stream_gives_the_same(
    case: SqlCase, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [(name, table)] = case.tables.items()
    [plan] = cernis.SqlQuery(case.query, case.dialect).plans
    rows = table.sort_by(plan.clause.order[0].tree.this.name).to_pylist()
    source, statement = tmp_path / f"{name}.jsonl", tmp_path / "q.sql"
    source.write_text("\n".join(json.dumps(row, default=str) for row in rows) + "\n")
    statement.write_text(case.query)
    options = ["--dialect", case.dialect, "--sink", "-", "--ahead", "none", "--once"]
    assert main(["stream", str(statement), "--source", f"{name}={source}", *options]) == 0
    case.check(map(json.loads, capsys.readouterr().out.splitlines()))


def test_no_two_cases_of_a_manual_share_a_name() -> None:
    names = Counter(map(name_case, read_cases()))
    assert [name for name, times in names.items() if times > 1] == []


def test_each_case_has_rows_or_an_error() -> None:
    assert [name_case(case) for case in read_cases() if bool(case.rows) == bool(case.error)] == []
    assert len(list_streamed()) > 30


def test_a_case_notices_what_is_missing_and_what_is_surplus() -> None:
    case = SqlCase("t", "n", "q", {}, ("a", "b"), ((1, "x"), (1, "x")))
    case.check([{"A": 1, "b": "x"}] * 2)
    with pytest.raises(AssertionError, match=r"missing \(1, 'x'\)"):
        case.check([{"a": 1, "b": "x"}])
    with pytest.raises(AssertionError, match=r"surplus \(2, 'x'\)"):
        case.check([{"a": 1, "b": "x"}] * 2 + [{"a": 2, "b": "x"}])
