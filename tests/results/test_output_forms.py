"""The forms of results beside JSON lines and Parquet: CSV, Arrow, pandas, what a notebook shows."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

import cernis

START = datetime(2024, 1, 2, 10, 0, 0)
EVENTS = [
    {"type": "FAST", "ts": START, "speed": 80.5, "driver": "a"},
    {"type": "SLOW", "ts": START + timedelta(seconds=30), "speed": 20.0, "driver": "b"},
    {"type": "SLOW", "ts": START + timedelta(minutes=1), "speed": None, "driver": 'q"<b>'},
    {"type": "FAST", "ts": START + timedelta(minutes=2), "speed": 90.0, "driver": "a"},
]
VALLEY = "FROM S WHERE FAST AS f : SLOW:+ AS s : FAST AS g"


def run(select: str, **options: Any) -> Any:
    return cernis.query(f"SELECT {select} {VALLEY}").run(EVENTS, **options)


def test_csv_has_values_rows_and_lists_of_values(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    assert run("END - START AS length, s[speed], f").write_csv(path) == 1
    assert path.read_text() == (
        '"start","end","start_ts","end_ts","length","s[speed]","f"\n'
        '0,3,2024-01-02 10:00:00.000000,2024-01-02 10:02:00.000000,"PT120S","[20,null]","[0]"\n'
    )
    assert pacsv.read_csv(path).num_rows == 1


def test_csv_may_have_the_events(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    run("s[speed, driver]").write_csv(path, events=True)
    assert pd.read_csv(path)["s"][0] == (
        '[{"speed":20,"driver":"b"},{"speed":null,"driver":"q\\"<b>"}]'
    )


@pytest.mark.parametrize("select", ["*", "COUNT(*)", "s[speed]", "NONE"])
def test_csv_without_matches_has_the_line_of_names(select: str, tmp_path: Path) -> None:
    query = cernis.query(f"SELECT {select} {VALLEY}")
    some, none = (tmp_path / name for name in ("some.csv", "none.csv"))
    query.run(EVENTS).write_csv(some)
    assert query.run(EVENTS[:2]).write_csv(none) == 0
    assert none.read_text().splitlines() == some.read_text().splitlines()[:1]


def test_csv_of_groups_and_answers(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    groups = cernis.query("SELECT COUNT(*) AS n FROM S WHERE SLOW GROUP BY EVERY 1 MINUTE")
    groups.run(EVENTS).write_csv(path)
    assert path.read_text().splitlines()[0] == '"from_ts","to_ts","n"'
    answers = cernis.query("Q(d) <- FAST(driver: d), SLOW(speed: s)", lang="cq")
    answers.run(EVENTS).write_csv(path)
    assert path.read_text().splitlines()[0] == '"d","end","end_ts"'


def test_an_arrow_file_has_the_columns_of_to_arrow(tmp_path: Path) -> None:
    path, found = tmp_path / "out.arrow", run("*")
    assert found.write_arrow(path) == 1
    assert pa.ipc.open_file(path).read_all() == found.to_arrow()


def test_the_output_is_none_of_the_inputs(tmp_path: Path) -> None:
    path = tmp_path / "S.csv"
    pacsv.write_csv(pa.Table.from_pylist(EVENTS), path)
    found = cernis.query(f"SELECT * {VALLEY}").run(path)
    with pytest.raises(cernis.DataError, match="it is the input"):
        found.write_csv(path)


def test_lines_have_the_attributes_that_select_names(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    run("f, s[speed, ts]").write_jsonl(path)
    assert '"vars":{"f":[0],"s":[1,2]},"events":{"s":[{"speed":20,"ts":' in path.read_text()
    run("f").write_jsonl(path)
    assert "events" not in path.read_text()
    run("f").write_jsonl(path, events=True)
    assert '"events":{"f":[{"type":"FAST","ts":"2024-01-02T10:00:00.000000",' in path.read_text()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_times_inside_of_events_are_timestamps_in_pandas(unit: str, zone: str | None) -> None:
    table = pa.Table.from_pylist(EVENTS)
    table = table.set_column(1, "ts", table["ts"].cast(pa.timestamp(unit, zone)))
    frame = cernis.query(f"SELECT s, f[speed] {VALLEY}").run(table).to_pandas()
    first, second = frame["s"][0]
    assert first["ts"] == pd.Timestamp("2024-01-02 10:00:30", tz=zone)
    assert isinstance(second["ts"], pd.Timestamp)
    assert second["driver"] == 'q"<b>'
    assert frame["f[speed]"][0] == 80.5


def test_matches_with_equally_many_events_become_a_frame() -> None:
    events = [{"type": "A", "ts": START}, {"type": "A", "ts": START + timedelta(seconds=1)}]
    frame = cernis.query("SELECT a FROM S WHERE A AS a").run(events).to_pandas()
    assert [len(held) for held in frame["a"]] == [1, 1]


def test_the_notebook_shows_values_to_the_pointer_and_events_to_unfold() -> None:
    page = run("*")._repr_html_()
    assert "f: type=FAST, ts=2024-01-02 10:00:00, speed=80.5, driver=a" in page
    assert "<details><summary>events</summary><table>" in page
    assert "2024-01-02 10:00:30" in page
    assert "q&quot;&lt;b&gt;" in page
    assert "<b>'" not in page


def test_a_match_has_a_view_of_its_own() -> None:
    (match,) = run("END - START AS length, s")
    page = match._repr_html_()
    assert "<th>length</th>" in page
    assert page.count("<circle") == 2
    assert "<td>20.0</td>" in page
    (counted,) = run("COUNT(*)")
    assert "<td>1</td>" in counted._repr_html_()
