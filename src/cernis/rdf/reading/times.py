"""The times of RDF events: the rule that says where they are, and the parser.

Times are int64 nanoseconds. `xsd:dateTime` and `xsd:dateTimeStamp` count from 1970, without a
zone as UTC; `xsd:date` is its midnight; numbers count units from zero. Fractions of a nanosecond
are cut off. A plain string in the form of a dateTime counts as one: much data is of that kind, and
some has the type inside the quotes.

Cost: nearly all times of a stream are distinct, so a kernel parses the usual forms from the bytes
of an Arrow array, some 30 ns each; Python parses the others one by one. The rejected design is
Arrow's own cast: it takes forms that are no `xsd:dateTime`, and fails as a whole where one value is
wrong.
"""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cernis.compiled import kernel
from cernis.encoding.regex import count_groups, regex_mistake
from cernis.errors import DataError
from cernis.events.times import UNITS, check_unit

XSD: Final = "http://www.w3.org/2001/XMLSchema#"

KNOWN_PROPERTIES: Final = (
    "http://www.w3.org/ns/prov#generatedAtTime",
    "http://www.w3.org/2006/time#inXSDDateTimeStamp",
    "http://www.w3.org/2006/time#inXSDDateTime",
    "http://www.w3.org/ns/sosa/resultTime",
    "http://purl.oclc.org/NET/ssnx/ssn#observationResultTime",
)
"""The properties in which a stream's times are looked for, in this order, without a rule."""

DATETIME_IN_NAME: Final = (
    r"(?:^|[^0-9])([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}(?::|%3A)[0-9]{2}(?::|%3A)[0-9]{2}"
    r"(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}(?::|%3A)[0-9]{2})?)$"
)
DIGITS_IN_NAME: Final = r"(?:^|[A-Za-z])[^A-Za-z0-9]*([0-9]+)$"
"""Not the `5` of `…/2004_8_5`, which is part of something else."""


@dataclass(frozen=True, slots=True)
class TimeRule:
    """Where an event has its time: in the object of a property, or in the graph's name.

    `property` is an IRI; `pattern` a regular expression (in the syntax of RE2) whose only group
    is the time in the name. Without both, the first event of the stream decides. `unit` is the
    unit of numbers: s, ms, us or ns.

    >>> print(TimeRule(property="http://x/at"))
    the property <http://x/at>
    """

    property: str | None = None
    pattern: str | None = None
    unit: str = "ms"

    def __post_init__(self) -> None:
        check_unit(self.unit)
        if self.property is not None and self.pattern is not None:
            raise DataError(
                "the time of an event is either the value of a property or a part of the "
                "graph's name; give one of the two"
            )
        if self.property is not None:
            object.__setattr__(self, "property", self.property.strip("<> "))
        if self.pattern is not None:
            _check_pattern(self.pattern)

    def __str__(self) -> str:
        if self.property is not None:
            return f"the property <{self.property}>"
        if self.pattern is not None:
            return f"the name of the graph, by {self.pattern!r}"
        return "whatever the first event has"

    def is_decided(self) -> bool:
        """Whether the rule names a property or a pattern."""
        return self.property is not None or self.pattern is not None

    def by_property(self, iri: str) -> TimeRule:
        return replace(self, property=iri)

    def by_name(self, pattern: str) -> TimeRule:
        return replace(self, pattern=pattern)


def _check_pattern(pattern: str) -> None:
    wrong = regex_mistake(pattern)
    if wrong is not None:
        raise DataError(f"{pattern!r} is no regular expression for times: {wrong}")
    groups = count_groups(pattern)
    if groups != 1:
        raise DataError(
            f"the regular expression {pattern!r} for times must have one group, the time; "
            f"it has {groups} (write (?:…) for those that only group)"
        )


# -------------------------------------------------------------------- terms

GOOD, NO_TIME, ODD = 0, 1, 2

_DATETIME, _DATE, _NUMBER, _PLAIN = 1, 2, 3, 4
_TYPES: Final = {
    "dateTime": _DATETIME,
    "dateTimeStamp": _DATETIME,
    "date": _DATE,
    "integer": _NUMBER,
    "decimal": _NUMBER,
    "long": _NUMBER,
    "int": _NUMBER,
    "short": _NUMBER,
    "byte": _NUMBER,
    "nonNegativeInteger": _NUMBER,
    "positiveInteger": _NUMBER,
    "nonPositiveInteger": _NUMBER,
    "negativeInteger": _NUMBER,
    "unsignedLong": _NUMBER,
    "unsignedInt": _NUMBER,
    "unsignedShort": _NUMBER,
    "unsignedByte": _NUMBER,
    "double": _NUMBER,
    "float": _NUMBER,
}
_TAIL: Final = np.frombuffer(f'"^^<{XSD}'.encode(), np.uint8)
_LOCAL: Final = np.frombuffer("".join(_TYPES).encode(), np.uint8)
_LOCAL_AT: Final = np.cumsum([0, *map(len, _TYPES)])
_KINDS: Final = np.array(list(_TYPES.values()), np.int8)

_LITERAL = re.compile(rf'"([^"\\]*)"\^\^<{re.escape(XSD)}(\w+)>')
_UNTYPED = re.compile(rf'"([^"\\^]*)(?:\^\^{re.escape(XSD)}dateTime)?"')
_DATETIMES = re.compile(
    r"(-?(?:[1-9]\d{3,}|0\d{3}))-(\d\d)-(\d\d)"
    r"(?:T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?)?(Z|[+-]\d\d:\d\d)?"
)
_NUMBERS = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?")

_LENGTHS: Final = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_SECOND: Final = 1_000_000_000
_LARGEST: Final = 2**63 - 1


def read_times(texts: pa.StringArray, unit: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the times of some terms, and which of them are times.

    >>> five, day = f'"5"^^<{XSD}integer>', f'"1970-01-02"^^<{XSD}date>'
    >>> times, good = read_times(pa.array([five, day, '"5"']), "ms")
    >>> times.tolist(), good.tolist()
    ([5000000, 86400000000000, 0], [True, True, False])
    """
    return _read_column(texts, unit, typed=True)


def read_name_times(
    names: pa.StringArray, pattern: str, unit: str
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the times in the names of graphs, and which have one; blank nodes have none.

    >>> names = pa.array(["<urn:e:7>", "<urn:e>", "_:b7"])
    >>> times, good = read_name_times(names, DIGITS_IN_NAME, "ns")
    >>> times.tolist(), good.tolist()
    ([7, 0, 0], [True, False, False])
    """
    iris = pc.utf8_slice_codeunits(names, 1, -1)
    fits = pc.and_(pc.starts_with(names, "<"), pc.match_substring_regex(iris, pattern))
    found = pc.replace_substring_regex(iris, f"(?s)^.*?(?:{pattern}).*$", r"\1")
    found = pc.replace_substring(pc.if_else(fits, found, ""), "%3A", ":")
    times, good = _read_column(found, unit, typed=False)
    good &= np.asarray(fits)
    return np.where(good, times, 0), good


def format_time(time: int) -> str:
    """Return a time for messages: a date after 1980, else a number of nanoseconds.

    >>> format_time(1_704_186_000_250_000_000), format_time(15)
    ('2024-01-02T09:00:00.25Z', '15 ns')
    """
    if time < 10 * 365 * 86_400 * _SECOND:
        return f"{time} ns"
    seconds, rest = divmod(time, _SECOND)
    moment = np.datetime_as_string(np.datetime64(seconds, "s"))
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{moment}{fraction}Z"


def _read_column(
    texts: pa.StringArray, unit: str, typed: bool
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    times = np.zeros(len(texts), np.int64)
    status = np.zeros(len(texts), np.int8)
    if not len(texts):
        return times, status == GOOD
    _, offsets, data = texts.buffers()
    at = np.frombuffer(offsets, np.int32)[texts.offset :]
    text = np.frombuffer(data, np.uint8) if data is not None and data.size else _TAIL[:0]
    _parse_times(text, at, typed, UNITS[unit], times, status)
    for i in np.flatnonzero(status == ODD):
        found = _parse_odd(texts[int(i)].as_py(), unit, typed)
        if found is not None:
            times[i], status[i] = found, GOOD
    return times, status == GOOD


def _parse_odd(text: str, unit: str, typed: bool) -> int | None:
    """Parse a term that the kernel does not: a rare form of time, or no time at all."""
    kind: int | None
    if typed and (bare := _UNTYPED.fullmatch(text)):
        kind, lexical = _DATETIME, bare[1]
    elif typed:
        literal = _LITERAL.fullmatch(text)
        kind = _TYPES.get(literal[2]) if literal else None
        if literal is None or kind is None:
            return None
        lexical = literal[1].strip(" ")
        if "e" in lexical.lower() and literal[2] not in ("double", "float"):
            return None
    else:
        kind, lexical = _PLAIN, text
    time = None
    if kind in (_NUMBER, _PLAIN) and _NUMBERS.fullmatch(lexical):
        time = floor(Fraction(lexical) * UNITS[unit])
    elif kind != _NUMBER and (parts := _DATETIMES.fullmatch(lexical)):
        has_time = parts[4] is not None
        if kind == _PLAIN or has_time == (kind == _DATETIME):
            time = _convert_moment(parts)
    return time if time is not None and abs(time) <= _LARGEST else None


def _convert_moment(parts: re.Match[str]) -> int | None:
    year, month, day = int(parts[1]), int(parts[2]), int(parts[3])
    hour, minute, second = int(parts[4] or 0), int(parts[5] or 0), int(parts[6] or 0)
    if not (1 <= month <= 12 and 1677 <= year <= 2262 and 1 <= day <= monthrange(year, month)[1]):
        return None
    midnight = hour == 24 and minute == second == 0 and not (parts[7] or "").strip("0")
    if not (midnight or hour < 24) or minute > 59 or second > 59:
        return None
    seconds = _count_days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second
    if parts[8] and parts[8] != "Z":
        away = int(parts[8][1:3]) * 60 + int(parts[8][4:6])
        if away > 14 * 60 or int(parts[8][4:6]) > 59:
            return None
        seconds -= away * 60 if parts[8][0] == "+" else -away * 60
    return int(seconds) * _SECOND + int((parts[7] or "0")[:9].ljust(9, "0"))


# ------------------------------------------------------------------ kernels


@kernel
def _count_days(year: Any, month: Any, day: Any) -> Any:
    """Count the days since 1970-01-01 of the Gregorian calendar; years are positive."""
    if month <= 2:
        year -= 1
        month += 12
    leaps = year // 4 - year // 100 + year // 400
    return 365 * year + leaps + (153 * month - 457) // 5 + day - 719469


@kernel
def _parse_digits(text: NDArray[np.uint8], begin: Any, end: Any) -> Any:
    """Return the number that digits write; -1 without digits or with anything else."""
    if begin >= end:
        return -1
    value: Any = 0
    for i in range(begin, end):
        digit = np.int64(text[i]) - 48
        if digit < 0 or digit > 9:
            return -1
        value = 10 * value + digit
    return value


@kernel
def _find_kind(text: NDArray[np.uint8], quote: Any, end: Any) -> Any:
    """Return the kind of time of a literal's type, from the closing quote on; 0: none."""
    begin = quote + len(_TAIL)
    if end - begin < 2 or text[end - 1] != 62:  # >
        return 0
    for i in range(len(_TAIL)):
        if text[quote + i] != _TAIL[i]:
            return 0
    for k in range(len(_KINDS)):
        length = _LOCAL_AT[k + 1] - _LOCAL_AT[k]
        if length != end - 1 - begin:
            continue
        same = True
        for i in range(length):
            if text[begin + i] != _LOCAL[_LOCAL_AT[k] + i]:
                same = False
                break
        if same:
            return _KINDS[k]
    return 0


@kernel
def _parse_number(text: NDArray[np.uint8], begin: Any, end: Any, unit: Any) -> tuple[Any, Any]:
    """Return the status and time of `-?digits(.digits)?`."""
    negative = begin < end and text[begin] == 45
    if negative:
        begin += 1
    dot = begin
    while dot < end and text[dot] != 46:
        dot += 1
    if dot - begin > 18 or end - dot > 10:
        return ODD, 0
    whole = _parse_digits(text, begin, dot)
    if whole < 0 or whole > _LARGEST // unit - 1:
        return ODD, 0
    time = whole * unit
    if dot < end:
        part = _parse_digits(text, dot + 1, end)
        if part < 0 or negative:
            return ODD, 0
        scale = 1
        for _ in range(end - dot - 1):
            scale *= 10
        time += part * unit // scale
    return GOOD, -time if negative else time


@kernel
def _parse_moment(text: NDArray[np.uint8], begin: Any, end: Any, day_only: bool) -> tuple[Any, Any]:
    """Return the status and time of `YYYY-MM-DD`, `Thh:mm:ss(.digits)?` unless `day_only`, zone."""
    if end - begin < 10 or text[begin + 4] != 45 or text[begin + 7] != 45:
        return ODD, 0
    year = _parse_digits(text, begin, begin + 4)
    month = _parse_digits(text, begin + 5, begin + 7)
    day = _parse_digits(text, begin + 8, begin + 10)
    if year < 1678 or year > 2261 or month < 1 or month > 12 or day < 1:
        return ODD, 0
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if day > _LENGTHS[month] + (1 if leap and month == 2 else 0):
        return ODD, 0
    seconds = _count_days(year, month, day) * 86_400
    part = 0
    i = begin + 10
    if not day_only:
        if end - i < 9 or text[i] != 84 or text[i + 3] != 58 or text[i + 6] != 58:
            return ODD, 0
        hour = _parse_digits(text, i + 1, i + 3)
        minute = _parse_digits(text, i + 4, i + 6)
        second = _parse_digits(text, i + 7, i + 9)
        if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
            return ODD, 0
        seconds += hour * 3600 + minute * 60 + second
        i += 9
        if i < end and text[i] == 46:
            first = i + 1
            i = first
            while i < end and text[i] >= 48 and text[i] <= 57:
                i += 1
            part = _parse_digits(text, first, i)
            if part < 0 or i - first > 9:
                return ODD, 0
            for _ in range(9 - (i - first)):
                part *= 10
    if i == end or (i + 1 == end and text[i] == 90):
        return GOOD, seconds * _SECOND + part
    if end - i != 6 or text[i + 3] != 58 or (text[i] != 43 and text[i] != 45):
        return ODD, 0
    hours = _parse_digits(text, i + 1, i + 3)
    minutes = _parse_digits(text, i + 4, i + 6)
    if hours < 0 or minutes < 0 or minutes > 59 or hours * 60 + minutes > 14 * 60:
        return ODD, 0
    away = hours * 3600 + minutes * 60
    seconds = seconds - away if text[i] == 43 else seconds + away
    return GOOD, seconds * _SECOND + part


@kernel
def _parse_times(
    text: NDArray[np.uint8],
    at: NDArray[np.int32],
    typed: bool,
    unit: Any,
    times: NDArray[np.int64],
    status: NDArray[np.int8],
) -> None:
    for row in range(len(times)):
        begin, end = np.int64(at[row]), np.int64(at[row + 1])
        kind = _PLAIN
        if typed:
            if end - begin < 2 or text[begin] != 34:
                status[row] = NO_TIME
                continue
            begin += 1
            quote = begin
            while quote < end and text[quote] != 34:
                quote += 1
            kind = _find_kind(text, quote, end)
            if kind == 0:
                dated = end - begin > 19 and text[begin + 4] == 45 and text[begin + 10] == 84
                status[row] = ODD if dated else NO_TIME
                continue
            end = quote
        elif end - begin > 10 and text[begin + 4] == 45:
            kind = _DATETIME
        if kind in (_NUMBER, _PLAIN):
            status[row], times[row] = _parse_number(text, begin, end, unit)
        else:
            status[row], times[row] = _parse_moment(text, begin, end, kind == _DATE)
