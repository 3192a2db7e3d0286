"""`Answers`: distinct tuples in every form they can be had in."""

from __future__ import annotations

import io
import json
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cernis
from cernis.results.answers import Answer, Answers


def answers() -> Answers:
    return Answers(
        ("x", "t"),
        pa.table(
            [
                pa.array(["a", None, "<b>"]),
                pa.array([1, 2, 2], pa.timestamp("ms")),
                pa.array([4, 9, 9]),
                pa.array([1, 2, 2], pa.timestamp("ms")),
            ],
            list("abcd"),
        ),
        notes=["sorted"],
    )


ONE, TWO = datetime(1970, 1, 1, 0, 0, 0, 1000), datetime(1970, 1, 1, 0, 0, 0, 2000)
ALL = [
    Answer({"x": "a", "t": ONE}, 4, ONE),
    Answer({"x": None, "t": TWO}, 9, TWO),
    Answer({"x": "<b>", "t": TWO}, 9, TWO),
]


def test_answers_are_objects_in_order() -> None:
    assert list(answers()) == ALL
    assert answers().head(2) == ALL[:2]
    assert (answers().count(), len(answers()), repr(answers())) == (3, 3, "<3 answers>")


def test_a_sample_has_distinct_answers() -> None:
    assert answers().sample(10) == ALL
    drawn = answers().sample(2, seed=1)
    assert drawn == answers().sample(2, seed=1)
    assert drawn[0] != drawn[1]
    assert all(each in ALL for each in drawn)


def test_answers_are_counted_where_they_appear() -> None:
    assert answers().counts().to_pydict() == {"end": [4, 9], "end_ts": [ONE, TWO], "count": [1, 2]}


def test_answers_are_a_table() -> None:
    assert answers().to_arrow().column_names == ["x", "t", "end", "end_ts"]
    assert answers().to_arrow(limit=1).num_rows == 1
    assert answers().to_pandas()["end"].tolist() == [4, 9, 9]
    assert pa.table(answers()).num_rows == 3


def test_a_variable_may_have_the_name_of_a_column() -> None:
    found = cernis.query("Q(end) <- T(a: end, b: y)", lang="cq").run(
        [{"type": "T", "a": 7, "b": 1}]
    )
    assert isinstance(found, Answers)
    assert found.to_arrow().to_pydict() == {"end": [7], "end_": [0], "end_ts": [0]}
    assert list(found) == [Answer({"end": 7}, 0, 0)]


def test_answers_are_written_as_lines_and_as_parquet(tmp_path: Path) -> None:
    assert answers().write_jsonl(tmp_path / "a.jsonl", limit=2) == 2
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    first, second = "1970-01-01T00:00:00.001", "1970-01-01T00:00:00.002"
    assert lines == [
        {"end": 4, "end_ts": first, "values": {"x": "a", "t": first}},
        {"end": 9, "end_ts": second, "values": {"x": None, "t": second}},
    ]
    buffer = io.BytesIO()
    assert answers().write_jsonl(buffer) == 3
    assert buffer.getvalue().count(b"\n") == 3
    assert answers().write_parquet(tmp_path / "a.parquet") == 3
    assert pq.read_table(tmp_path / "a.parquet") == answers().to_arrow()


def test_lines_go_to_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    answers().write_jsonl("-", limit=1)
    assert capfd.readouterr().out.startswith('{"end":4,')


def test_a_notebook_shows_the_values() -> None:
    html = answers()._repr_html_()
    assert "<b>3 answers</b>" in html
    assert "<td>&lt;b&gt;</td>" in html


def test_a_negative_number_of_answers_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be negative: -1"):
        answers().head(-1)


def test_no_answers_have_columns_all_the_same() -> None:
    found = cernis.query("Q(x) <- T(a: x, b: y)", lang="cq").run(
        pa.table({"type": ["S"], "a": ["text"], "b": [1]})
    )
    assert isinstance(found, Answers)
    assert found.schema == pa.schema([("x", "string"), ("end", "int64"), ("end_ts", "int64")])
    assert found.head() == []
