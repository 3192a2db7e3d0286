"""The times of events: in triples and in names of graphs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cernis.errors import DataError
from cernis.rdf.reading.times import (
    DATETIME_IN_NAME,
    DIGITS_IN_NAME,
    TimeRule,
    format_time,
    read_name_times,
    read_times,
)

XSD = "http://www.w3.org/2001/XMLSchema#"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_time(lexical: str, type: str = "dateTime", unit: str = "ms") -> int | None:
    times, good = read_times(pa.array([f'"{lexical}"^^<{XSD}{type}>']), unit)
    return int(times[0]) if good[0] else None


def read_name_time(name: str, pattern: str, unit: str = "ms") -> int | None:
    times, good = read_name_times(pa.array([name]), pattern, unit)
    return int(times[0]) if good[0] else None


def at(text: str) -> int:
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(microseconds=1) * 1000


moments = st.datetimes(
    datetime(1700, 1, 1),
    datetime(2250, 1, 1),
    timezones=st.none()
    | st.integers(-14 * 60, 14 * 60).map(lambda m: timezone(timedelta(minutes=m))),
)


@given(st.lists(moments, min_size=1, max_size=20))
def test_a_date_time_is_its_nanoseconds_since_1970(given_moments: list[datetime]) -> None:
    texts = [f'"{m.isoformat()}"^^<{XSD}dateTime>' for m in given_moments]
    times, good = read_times(pa.array(texts), "ms")
    assert good.all()
    utc = [m if m.tzinfo else m.replace(tzinfo=UTC) for m in given_moments]
    assert times.tolist() == [(m - EPOCH) // timedelta(microseconds=1) * 1000 for m in utc]


@pytest.mark.parametrize(
    ("lexical", "expected"),
    [
        ("2024-02-29T12:00:00Z", at("2024-02-29T12:00:00Z")),
        ("2024-01-01T24:00:00Z", at("2024-01-02T00:00:00Z")),
        ("2024-01-01T00:00:00.5+05:30", at("2023-12-31T18:30:00.5Z")),
        ("1970-01-01T00:00:00.123456789", 123_456_789),
        ("1970-01-01T00:00:00.1234567899", 123_456_789),
        ("2023-02-29T12:00:00Z", None),
        ("2024-13-01T12:00:00Z", None),
        ("2024-01-00T12:00:00Z", None),
        ("2024-01-01T25:00:00Z", None),
        ("2024-01-01T24:00:01Z", None),
        ("2024-01-01T12:60:00Z", None),
        ("2024-01-01T12:00:00+15:00", None),
        ("2024-01-01T12:00:00.Z", None),
        ("2024-01-01 12:00:00", None),
        ("2024-01-01T12:00", None),
        ("2024-01-01", None),
        ("12024-01-01T00:00:00Z", None),
        ("1600-01-01T00:00:00Z", None),
        ("", None),
        ("5", None),
    ],
)
def test_date_times_at_the_edge(lexical: str, expected: int | None) -> None:
    assert read_time(lexical) == expected
    assert read_time(lexical, "dateTimeStamp") == expected


def test_a_date_is_its_midnight() -> None:
    assert read_time("2024-03-01", "date") == at("2024-03-01T00:00:00Z")
    assert read_time("2024-03-01+01:00", "date") == at("2024-02-29T23:00:00Z")
    assert read_time("2024-03-01T00:00:00", "date") is None


@given(st.decimals(-(10**9), 10**9, places=3), st.sampled_from(["s", "ms", "us", "ns"]))
def test_a_number_counts_units(number: object, unit: str) -> None:
    thousandths = round(float(str(number)) * 1000)
    nanoseconds = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[unit]
    assert read_time(str(number), "decimal", unit) == thousandths * nanoseconds // 1000


@pytest.mark.parametrize(
    ("lexical", "type", "expected"),
    [
        ("5", "integer", 5_000_000),
        ("+5", "int", 5_000_000),
        ("-5", "long", -5_000_000),
        ("007", "unsignedByte", 7_000_000),
        ("1.5E3", "double", 1_500_000_000),
        ("9223372036854", "integer", 9_223_372_036_854_000_000),
        ("9223372036855", "integer", None),
        ("9" * 40, "integer", None),
        ("1e999", "double", None),
        ("1e3", "decimal", None),
        ("NaN", "double", None),
        ("", "integer", None),
        ("-", "integer", None),
        (".", "decimal", None),
        ("true", "boolean", None),
    ],
)
def test_numbers_at_the_edge(lexical: str, type: str, expected: int | None) -> None:
    assert read_time(lexical, type) == expected


def test_what_is_no_literal_is_no_time() -> None:
    terms = [
        "<http://x/2024-01-01T00:00:00Z>",
        "_:b5",
        '"5"',
        '"5"@en',
        '"',
        '"\\""',
        "",
        '"x"^^<y>',
    ]
    _, good = read_times(pa.array(terms), "ms")
    assert not good.any()


def test_a_string_that_reads_like_a_date_time_counts_as_one() -> None:
    broken = f'"2024-01-01T00:00:00Z^^{XSD}dateTime"'
    times, good = read_times(
        pa.array(['"2024-01-01T00:00:00Z"', broken, '"2024-01-01T00:00"']), "ms"
    )
    assert good.tolist() == [True, True, False]
    assert times[:2].tolist() == [at("2024-01-01T00:00:00Z")] * 2


def test_no_terms_have_no_times() -> None:
    assert len(read_times(pa.array([], pa.string()), "ms")[0]) == 0


def test_a_part_of_an_array_is_read_as_such() -> None:
    terms = pa.array([f'"{i}"^^<{XSD}integer>' for i in range(10)])
    assert read_times(terms.slice(7, 2), "ns")[0].tolist() == [7, 8]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("<http://x/e/17>", 17),
        ("<http://x/e17>", 17),
        ("<http://x/e?at=17>", 17),
        ("<urn:e:17>", 17),
        ("<http://x/1/1>", 1),
        ("<urn:a:1:2>", 2),
        ("<http://x/e/-3>", -3),
        ("<http://x/e-3>", 3),
        ("<http://x/e/_5>", 5),
        ("<http://x/17/e>", None),
        ("<http://x/Instant_2004_8_9>", None),
        ("<http://x/e/1.5>", None),
        ("_:f0.b17", None),
    ],
)
def test_the_digits_at_the_end_of_a_name(name: str, expected: int | None) -> None:
    assert read_name_time(name, DIGITS_IN_NAME, "ns") == expected


def test_the_date_time_at_the_end_of_a_name() -> None:
    moment = at("2024-01-01T10:00:00Z")
    assert read_name_time("<http://x/9/2024-01-01T10:00:00Z>", DATETIME_IN_NAME) == moment
    assert read_name_time("<http://x/e2024-01-01T11%3A00%3A00+01%3A00>", DATETIME_IN_NAME) == moment
    assert read_name_time("<http://x/2024-01-01T10:00:00Z/a>", DATETIME_IN_NAME) is None


def test_a_pattern_takes_its_group_from_wherever_it_is() -> None:
    assert read_name_time("<http://x/at/17/of/30>", r"/at/(\d+)/", "ns") == 17
    assert read_name_time("<http://x/at/17/at/30/>", r"/at/(\d+)/", "ns") == 17
    assert read_name_time("<http://x/at/17>", r"^http://x/at/(\d+)$", "ns") == 17
    assert read_name_time("<http://x/at/what>", r"/at/(\w+)", "ns") is None
    assert read_name_time("<http://x/at/17>", r"/at/(?<time>\pN+)", "ns") == 17


def test_a_rule_says_what_is_wrong_with_it() -> None:
    with pytest.raises(DataError, match=r"must have one group, the time; it has 2"):
        TimeRule(pattern="(a)(b)")
    with pytest.raises(DataError, match="is no regular expression for times"):
        TimeRule(pattern="(")
    with pytest.raises(DataError, match="is no regular expression for times"):
        TimeRule(pattern=r"(?<=x)(\d+)")
    with pytest.raises(DataError, match="give one of the two"):
        TimeRule(property="http://x/at", pattern="(a)")
    with pytest.raises(DataError, match="unknown time unit 'h'"):
        TimeRule(unit="h")


def test_times_are_shown_as_dates_or_numbers() -> None:
    assert format_time(at("2024-01-01T10:00:00Z"), None) == "2024-01-01T10:00:00Z"
    assert format_time(at("2024-01-01T10:00:00Z") + 1, None) == "2024-01-01T10:00:00.000000001Z"
    assert format_time(-3, "ns") == "-3"
    assert format_time(10**12, "ms") == "1000000"
    assert format_time(2**62 + 1, "s") == "4611686018.427387905"
