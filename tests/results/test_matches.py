"""The lazy set of matches: objects, Arrow, pandas, polars, files."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cernis.errors import DataError
from cernis.pattern.predicate import Aggregate, Attribute, Reference
from cernis.pattern.query import Select, SelectedTerm, Variable
from cernis.results.matches import Matches
from cernis.results.sets.matchset import MatchBlock

Make = Callable[..., Matches]

ONE = [(3, 9, {"b": [3], "s": [5, 9]})]
THREE = [
    (0, 1, {"b": [0], "s": [1]}),
    (0, 7, {"b": [0], "s": [1, 7]}),
    (4, 7, {"b": [4], "s": [7]}),
]
COUNTING = Select(False, (SelectedTerm(Aggregate("COUNT")),))


def lines(matches: Matches, **options: Any) -> list[dict[str, Any]]:
    out = io.BytesIO()
    matches.write_jsonl(out, **options)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def of(function: str, variable: str, attribute: str) -> SelectedTerm:
    return SelectedTerm(Aggregate(function, Reference(variable, Attribute((attribute,)))))


# ------------------------------------------------------------------ objects


def test_a_match_tells_its_interval_times_and_rows(make: Make) -> None:
    (match,) = make(ONE)
    assert (match.start, match.end) == (3, 9)
    assert (match.start_ts, match.end_ts) == (
        datetime(1970, 1, 1, 0, 0, 3),
        datetime(1970, 1, 1, 0, 0, 9),
    )
    assert match.vars == {"b": [3], "s": [5, 9]}
    assert match.partition == {}
    assert match.values == {}


def test_a_match_gives_the_events_of_a_variable(make: Make) -> None:
    (match,) = make(ONE)
    assert [event["volume"] for event in match.events("s")] == [105, 109]
    assert match.events("s")[0]["price"] is None
    with pytest.raises(KeyError, match="no variable 'z' in this match; it has b, s"):
        match.events("z")


def test_a_selected_attribute_list_restricts_the_events(make: Make) -> None:
    select = Select(False, (Variable("b", ("price", "name")), Variable("s")))
    (match,) = make(ONE, select=select)
    assert match.events("b") == [{"price": 13.0, "name": 'A"B'}]
    assert len(match.events("s")[0]) == 6


def test_reported_rows_are_sorted_where_the_input_was_not(make: Make) -> None:
    order = [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]
    matches = make(
        [(0, 9, {"b": [0], "s": [1, 9]}), (2, 9, {"b": [2], "s": [5, 6, 9]})], order=order
    )
    assert [match.vars["s"] for match in matches] == [[0, 3, 4], [0, 8]]
    assert [line["vars"]["s"] for line in lines(matches)] == [[0, 3, 4], [0, 8]]
    assert [match.start for match in matches] == [7, 9]
    assert [e["volume"] for e in next(iter(matches)).events("s")] == [104, 103, 100]


def test_without_a_time_column_rows_are_the_time(make: Make) -> None:
    (match,) = make(ONE, time=None)
    assert (match.start_ts, match.end_ts) == (3, 9)


def test_nanoseconds_are_kept_exactly(make: Make) -> None:
    table = pa.table({"ts": pa.array([1, 2], pa.timestamp("ns"))})
    (match,) = make([(0, 1, {"b": [0]})], variables=("b",), table=table)
    assert match.end_ts == np.datetime64(2, "ns")
    assert match.events("b") == [{"ts": np.datetime64(1, "ns")}]


def test_head_gives_the_first_matches_only(make: Make) -> None:
    assert [match.start for match in make(THREE).head(2)] == [0, 4]
    assert make(THREE).head(0) == []
    assert len(make(THREE).head(10)) == 3
    with pytest.raises(ValueError, match="cannot be negative: -1"):
        make(THREE).head(-1)


def test_a_sample_is_made_of_matches(make: Make) -> None:
    matches = make(THREE)
    every = set(matches)
    assert len(every) == 3
    assert set(matches.sample(2, seed=1)) < every
    assert matches.sample(2, seed=1) == matches.sample(2, seed=1)
    assert set(matches.sample(5)) == every


class Uncountable:
    """A compact set of 2^200 matches at one position, which must not be enumerated."""

    variables = ("b",)

    def count(self) -> int:
        return 2**200 + 1

    def counts(self) -> tuple[np.ndarray, list[int]]:
        return np.array([4, 7]), [2**200, 1]

    def blocks(self, limit: int | None = None) -> Iterator[MatchBlock]:
        for start in range(3, -1, -1):
            yield MatchBlock(
                np.array([start]), np.array([4]), (np.array([0, 1]),), (np.array([start]),)
            )
        raise AssertionError("enumerated further than was asked for")

    def sample(self, k: int, seed: int | None) -> MatchBlock:
        return next(self.blocks())


def test_counting_never_enumerates(make: Make) -> None:
    matches = make(found=Uncountable())
    assert matches.count() == 2**200 + 1
    assert matches.counts()["count"].to_pylist() == [2**200, 1]
    assert len(matches.sample(1)) == 1
    assert repr(matches) == "<about 10^60 matches>"


def test_iteration_and_head_stop_where_they_are_stopped(make: Make) -> None:
    matches = make(found=Uncountable())
    assert [match.start for match in matches.head(3)] == [3, 2, 1]
    assert next(iter(matches)).start == 3
    assert matches.to_arrow(limit=2)["start"].to_pylist() == [3, 2]
    assert [line["start"] for line in lines(matches, limit=2)] == [3, 2]


# -------------------------------------------------------------------- Arrow


def test_the_arrow_table_carries_the_events(make: Make) -> None:
    table = make(THREE).to_arrow()
    assert table.schema.names == ["start", "end", "start_ts", "end_ts", "b", "s"]
    assert table.schema.field("start").type == pa.int64()
    assert table.schema.field("start_ts").type == pa.timestamp("ms")
    assert table["start"].to_pylist() == [0, 4, 0]
    assert [[e["volume"] for e in events] for events in table["s"].to_pylist()] == [
        [101],
        [107],
        [101, 107],
    ]


def test_no_matches_are_a_table_with_the_same_columns(make: Make) -> None:
    empty = make([], select=Select(True, (of("SUM", "s", "volume"),))).to_arrow()
    full = make(ONE, select=Select(True, (of("SUM", "s", "volume"),))).to_arrow()
    assert len(empty) == 0
    assert empty.schema == full.schema


def test_a_partition_has_columns_read_off_the_last_event(make: Make) -> None:
    matches = make([(0, 5, {}), (2, 2, {}), (0, 3, {})], partition=(("name",), ("venue", "type")))
    table = matches.to_arrow()
    assert table.schema.names[4:6] == ["name", "venue|type"]
    assert table["name"].to_pylist() == [None, 'A"B', "MSFT"]
    assert table["venue|type"].to_pylist() == ["X", "SELL", "SELL"]
    assert [match.partition for match in matches][2] == {"name": "MSFT", "venue|type": "SELL"}


def test_alternative_keys_of_two_types_share_one(make: Make) -> None:
    table = pa.table({"a": pa.array([1, None], pa.int32()), "b": ["x", "y"], "c": [None, 2.5]})
    numbers = make([(0, 0, {}), (0, 1, {})], table=table, time=None, partition=(("a", "c"),))
    assert numbers.to_arrow()["a|c"].to_pylist() == [1.0, 2.5]
    mixed = make([(0, 0, {}), (0, 1, {})], table=table, time=None, partition=(("a", "b"),))
    assert mixed.to_arrow()["a|b"].to_pylist() == ["1", "y"]


def test_dictionary_encoded_keys_come_out_plain(make: Make) -> None:
    table = pa.table({"name": pa.array(["x", "y"]).dictionary_encode()})
    matches = make([(0, 1, {})], table=table, time=None, partition=(("name",),))
    assert matches.to_arrow()["name"].to_pylist() == ["y"]
    assert lines(matches)[0]["partition"] == {"name": "y"}


def test_a_column_name_that_is_taken_gets_an_underscore(make: Make) -> None:
    table = make([(0, 1, {"start": [0]})], variables=("start",)).to_arrow()
    assert table.schema.names == ["start", "end", "start_ts", "end_ts", "start_"]


def test_pandas_and_polars_get_the_same_table(make: Make) -> None:
    matches = make(THREE)
    assert isinstance(matches.to_pandas(), pd.DataFrame)
    assert matches.to_pandas()["end"].tolist() == [1, 7, 7]
    assert isinstance(matches.to_polars(), pl.DataFrame)
    assert matches.to_polars()["end"].to_list() == [1, 7, 7]
    assert matches.to_polars(limit=1)["s"][0][0]["volume"] == 101


def test_the_arrow_stream_interface_hands_the_table_over(make: Make) -> None:
    matches = make(THREE)
    assert pa.table(matches).equals(matches.to_arrow())
    assert pl.DataFrame(matches)["start"].to_list() == [0, 4, 0]


def test_batches_with_many_events_are_cut(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cernis.results.matches._PIECE", 4)
    matches = make(THREE)
    assert [batch.num_rows for batch in matches.batches()] == [1, 1, 1]
    assert matches.to_arrow()["start"].to_pylist() == [0, 4, 0]
    assert len(lines(matches)) == 3


# --------------------------------------------------------------- aggregates

AGGREGATES = Select(
    False,
    (
        Variable("b"),
        SelectedTerm(Aggregate("COUNT")),
        SelectedTerm(Aggregate("COUNT", "s")),
        of("COUNT", "s", "price"),
        of("SUM", "s", "volume"),
        of("AVG", "s", "price"),
        of("MIN", "s", "name"),
        of("MAX", "s", "ts"),
        of("FIRST", "s", "price"),
        of("LAST", "s", "volume"),
    ),
)


def test_aggregates_are_computed_over_the_events_of_a_match(make: Make) -> None:
    rows = [
        (1, 7, {"b": [1], "s": [1, 5, 7]}),
        (2, 8, {"b": [2], "s": []}),
        (5, 9, {"b": [6], "s": [5]}),
    ]
    matches = make(rows, select=AGGREGATES)
    first, second, third = [match.values for match in matches]
    assert first == {
        "COUNT(*)": 3,
        "COUNT(s)": 3,
        "COUNT(s[price])": 2,
        "SUM(s[volume])": 101 + 105 + 107,
        "AVG(s[price])": 14.0,
        "MIN(s[name])": "INTL",
        "MAX(s[ts])": datetime(1970, 1, 1, 0, 0, 7),
        "FIRST(s[price])": 11.0,
        "LAST(s[volume])": 107,
    }
    assert list(second.values()) == [1, 0, 0, None, None, None, None, None, None]
    assert third["COUNT(*)"] == 2
    assert third["AVG(s[price])"] is None
    assert third["FIRST(s[price])"] is None
    assert third["LAST(s[volume])"] == 105
    assert matches.to_arrow()["SUM(s[volume])"].to_pylist() == [313, None, 105]
    assert lines(matches)[0]["values"] == {**first, "MAX(s[ts])": "1970-01-01T00:00:07.000"}


def test_an_aggregate_over_an_attribute_that_no_event_has_is_null(make: Make) -> None:
    wanted = tuple(of(f, "s", "nothing") for f in ("SUM", "AVG", "MIN", "FIRST", "LAST", "COUNT"))
    (match,) = make(ONE, select=Select(False, wanted))
    assert list(match.values.values()) == [None, None, None, None, None, 0]


def test_a_sum_of_integers_is_exact_or_refused(make: Make) -> None:
    table = pa.table({"v": pa.array([2**62, 2**62 - 1, -(2**62), 1], pa.int64())})
    select = Select(False, (of("SUM", "s", "v"),))
    options = {"table": table, "time": None, "variables": ("s",), "select": select}
    (match,) = make([(0, 2, {"s": [0, 1, 2]})], **options)
    assert match.values == {"SUM(s[v])": 2**62 - 1}
    (match,) = make([(0, 2, {"s": [0, 1]})], **options)
    assert match.values == {"SUM(s[v])": 2**63 - 1}
    with pytest.raises(DataError, match=r"SUM\(s\[v\]\): a sum does not fit into 64 bits"):
        make([(0, 3, {"s": [0, 1, 3]})], **options).to_arrow()


@pytest.mark.parametrize(
    ("type_", "digits"), [(pa.decimal128(38, 18), 38), (pa.decimal256(76, 18), 76)]
)
def test_a_sum_of_decimals_is_exact_or_refused(make: Make, type_: pa.DataType, digits: int) -> None:
    most = Decimal("9" * (digits - 18) + "." + "9" * 18)
    least = Decimal("0.000000000000000001")
    table = pa.table({"v": pa.array([most, least, most.copy_negate(), most], type_)})
    select = Select(False, (of("SUM", "s", "v"),))
    options = {"table": table, "time": None, "variables": ("s",), "select": select}
    (match,) = make([(0, 2, {"s": [0, 1, 2]})], **options)
    assert match.values == {"SUM(s[v])": least}
    (match,) = make([(0, 2, {"s": [0]})], **options)
    assert match.values == {"SUM(s[v])": most}
    refused = rf"SUM\(s\[v\]\): a sum has more than {digits} digits"
    for rows in ([0, 1], [0, 3]):
        with pytest.raises(DataError, match=refused):
            make([(0, 3, {"s": rows})], **options).to_arrow()


def test_an_average_of_integers_that_no_double_holds_is_that_of_their_sum(make: Make) -> None:
    table = pa.table({"v": pa.array([2**60 + 1, -(2**60) - 3, 2**63 - 1, None], pa.int64())})
    select = Select(False, (of("AVG", "s", "v"),))
    found = make(
        [(0, 1, {"s": [0, 1]}), (2, 2, {"s": [2, 2]}), (3, 3, {"s": [3]})],
        table=table,
        time=None,
        variables=("s",),
        select=select,
    )
    assert [match.values["AVG(s[v])"] for match in found] == [-1.0, 2.0**63, None]


def test_words_have_no_sum(make: Make) -> None:
    (match,) = make(ONE, select=Select(False, (of("SUM", "s", "name"), of("AVG", "s", "name"))))
    assert list(match.values.values()) == [None, None]


# ----------------------------------------------------------------- counting


def test_counting_alone_gives_a_row_for_each_end(make: Make) -> None:
    matches = make(THREE, select=COUNTING, partition=(("name",),))
    table = matches.to_arrow()
    assert table.schema.names == ["end", "end_ts", "name", "count"]
    assert table["end"].to_pylist() == [1, 7]
    assert table["count"].to_pylist() == [1, 2]
    assert lines(matches)[1] == {
        "end": 7,
        "end_ts": "1970-01-01T00:00:07.000",
        "partition": {"name": "MSFT"},
        "count": 2,
    }
    assert [(row.end, row.values) for row in matches] == [
        (1, {"COUNT(*)": 1}),
        (7, {"COUNT(*)": 2}),
    ]
    assert matches.count() == 3
    assert len(matches.head(1)) == 1
    assert len(lines(matches, limit=1)) == 1


def test_counts_beyond_64_bits_stay_exact(make: Make, tmp_path: Path) -> None:
    matches = make(found=Uncountable(), select=COUNTING)
    assert matches.to_arrow()["count"].type == pa.decimal256(76, 0)
    assert lines(matches)[0]["count"] == 2**200
    matches.write_parquet(tmp_path / "counts.parquet")
    assert pq.read_table(tmp_path / "counts.parquet")["count"].to_pylist() == [2**200, 1]


# -------------------------------------------------------------------- files


def test_json_lines_have_the_agreed_form(make: Make) -> None:
    out = io.BytesIO()
    assert make(ONE, partition=(("name",),)).write_jsonl(out) == 1
    assert out.getvalue() == (
        b'{"start":3,"end":9,"start_ts":"1970-01-01T00:00:03.000",'
        b'"end_ts":"1970-01-01T00:00:09.000","vars":{"b":[3],"s":[5,9]},'
        b'"partition":{"name":"MSFT"}}\n'
    )


def test_json_lines_without_time_partition_or_variables(make: Make) -> None:
    out = io.BytesIO()
    make([(3, 9, {})], time=None, variables=(), select=Select(False)).write_jsonl(out)
    assert (
        out.getvalue() == b'{"start":3,"end":9,"start_ts":3,"end_ts":9,"vars":{},"partition":{}}\n'
    )


def test_json_lines_escape_what_needs_it(make: Make) -> None:
    matches = make([(3, 3, {'é"': [3]}), (4, 4, {})], variables=('é"',), partition=(("name",),))
    assert [line["partition"]["name"] for line in lines(matches)] == ['A"B', "é<"]
    assert lines(matches)[0]["vars"] == {'é"': [3]}


def test_timestamps_with_a_zone_are_written_in_utc(make: Make) -> None:
    table = pa.table({"ts": pa.array([0], pa.timestamp("s", "Europe/Rome"))})
    (line,) = lines(make([(0, 0, {})], table=table, variables=()))
    assert line["start_ts"] == "1970-01-01T00:00:00Z"


def test_a_number_that_json_lacks_is_null(make: Make) -> None:
    table = pa.table({"v": [float("nan"), float("inf"), 1.5]})
    options = {"table": table, "time": None, "variables": ("s",)}
    select = Select(False, (of("LAST", "s", "v"),))
    matches = make([(i, i, {"s": [i]}) for i in range(3)], select=select, **options)
    assert [line["values"]["LAST(s[v])"] for line in lines(matches)] == [None, None, 1.5]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([True]),
        pa.array([2.5]),
        pa.array([b"\x01"]),
        pa.array([[1, 2]]),
        pa.array([{"a": 1}]),
        pa.array([1], pa.date32()),
        pa.array([None]),
    ],
    ids=lambda column: str(column.type),
)
def test_every_type_has_a_form_in_json(make: Make, column: pa.Array) -> None:
    matches = make([(0, 0, {})], table=pa.table({"k": column}), time=None, partition=(("k",),))
    expected = {"binary": "01", "date32[day]": "1970-01-02"}
    found = lines(matches)[0]["partition"]["k"]
    assert found == expected.get(str(column.type), column.to_pylist()[0])


def test_no_matches_make_an_empty_file(make: Make, tmp_path: Path) -> None:
    assert make([]).write_jsonl(tmp_path / "none.jsonl") == 0
    assert (tmp_path / "none.jsonl").read_bytes() == b""
    assert make([], select=COUNTING).write_jsonl(tmp_path / "none.jsonl") == 0
    assert make([]).write_parquet(tmp_path / "none.parquet") == 0
    assert pq.read_table(tmp_path / "none.parquet").num_rows == 0


def test_a_dash_writes_to_standard_output(make: Make, capfdbinary: Any) -> None:
    make(ONE).write_jsonl("-")
    assert json.loads(capfdbinary.readouterr().out)["end"] == 9


def test_parquet_holds_the_same_table(make: Make, tmp_path: Path) -> None:
    matches = make(THREE)
    assert matches.write_parquet(tmp_path / "m.parquet") == 3
    assert pq.read_table(tmp_path / "m.parquet").equals(matches.to_arrow())


# ------------------------------------------------------------------ showing


def test_the_short_form_is_the_count(make: Make) -> None:
    assert repr(make(ONE)) == "<1 match>"
    assert repr(make(THREE)) == "<3 matches>"


def test_the_notebook_shows_a_timeline_and_escapes_everything(make: Make) -> None:
    evil = "<script>alert(1)</script>"
    table = pa.table({"name": [evil, evil]})
    matches = make(
        [(0, 1, {evil: [0, 1]})], variables=(evil,), table=table, time=None, partition=(("name",),)
    )
    page = matches._repr_html_()
    assert "<script" not in page
    assert page.count("<circle") == 2 + 2
    assert "1 match" in page


def test_the_notebook_shows_a_few_of_many(make: Make) -> None:
    page = make([(i, 9, {"b": [i]}) for i in range(10)] + [(0, 8, {"b": [0]})])._repr_html_()
    assert re.sub("<details>.*?</details>", "", page).count("<tr>") == 11
    assert "…" in page
    assert "0 matches" in make([])._repr_html_()


def test_notes_are_kept(make: Make) -> None:
    assert make(ONE, notes=["events were sorted"]).notes == ("events were sorted",)
