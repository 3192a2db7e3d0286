"""From the text of a term to its facts: kind, value, lexical form.

One kernel over the UTF-8 bytes of many terms in N-Triples form. It cuts off brackets and quotes,
undoes escapes, looks the datatype or language up among the *tags* seen so far (one it has not
seen stops it; Python adds it, and it goes on), and reads numbers, booleans, dateTimes, dates and
dayTimeDurations by the grammars of XML Schema, without surrounding blanks. Numbers that
would not be rounded right by one multiplication are left to Python (`hard`).

Cost: 0.05 to 0.25 µs per term. The regular expressions of Arrow and of Python, which only take
the text apart, were both 2 µs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing, inner, kernel
from cernis.engine.graphs import expressions as e

NO_TAG, STRING_TAG = 0, 1
"""Tags of terms that are no literals, and of plain strings."""

_WHOLE_FLOAT = np.int64(2**53)
_FLOAT_TEN_TO = np.array([10.0**k for k in range(23)])
_MONTHS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.int64)


class TagTable(NamedTuple):
    """The tags as the kernel sees them: hashed by what stands after the closing quote."""

    slots: NDArray[np.int32]
    """Open addressing: indices in the other arrays, -1 where free."""
    begin: NDArray[np.int64]
    length: NDArray[np.int32]
    text: NDArray[np.uint8]
    tag: NDArray[np.uint16]
    kind: NDArray[np.int8]
    least: NDArray[np.int64]
    most: NDArray[np.int64]


@inner
def _hash(text, begin, length):
    """Of the length and the last bytes, in which datatypes differ."""
    found = np.uint64(length)
    for k in range(max(begin, begin + length - 12), begin + length):
        found = (found ^ np.uint64(text[k])) * np.uint64(1099511628211)
    return found ^ (found >> np.uint64(29))


@borrowing
def fill_slots(
    slots: NDArray[np.int32],
    begin: NDArray[np.int64],
    length: NDArray[np.int32],
    text: NDArray[np.uint8],
) -> None:
    """Files the suffixes of tags by their hash."""
    mask = np.uint64(len(slots) - 1)
    for k in range(len(begin)):
        slot = _hash(text, begin[k], length[k]) & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = k


@inner
def _find_tag(tags, raw, begin, length):
    """Return the index of a suffix among the tags, or -1."""
    mask = np.uint64(len(tags.slots) - 1)
    slot = _hash(raw, begin, length) & mask
    while True:
        k = tags.slots[slot]
        if k < 0:
            return -1
        if tags.length[k] == length:
            one, other, i = np.uint64(tags.begin[k]), np.uint64(begin), np.uint64(0)
            while i < np.uint64(length) and tags.text[one + i] == raw[other + i]:
                i += np.uint64(1)
            if i == np.uint64(length):
                return k
        slot = (slot + np.uint64(1)) & mask


# -------------------------------------------------------------------- values


@inner
def _is_digit(byte):
    return 48 <= byte <= 57


@inner
def _digits_end(text, at, end):
    while at < end and _is_digit(text[np.uint64(at)]):
        at += 1
    return at


@inner
def _whole(text, at, end, value):
    """`value` with more digits behind it, or -1 if that does not fit."""
    for k in range(at, end):
        digit = np.int64(text[np.uint64(k)]) - 48
        if value > (e.LARGEST - digit) // 10:
            return np.int64(-1)
        value = value * 10 + digit
    return value


@inner
def _signed(text, at, end):
    """Where a number goes on behind its sign, and the sign."""
    if at < end and (text[at] == 43 or text[at] == 45):
        return at + 1, -1 if text[at] == 45 else 1
    return at, 1


@inner
def _spells(text, at, end, one, two, three):
    return end - at == 3 and text[at] == one and text[at + 1] == two and text[at + 2] == three


@inner
def _read_integer(fact, text, at, end, least, most):
    at, sign = _signed(text, at, end)
    if at == end or _digits_end(text, at, end) != end:
        return e.ILL_TYPED
    value = _whole(text, at, end, np.int64(0))
    if value < 0:
        return e.OTHER
    value *= sign
    if value < least or value > most:
        return e.ILL_TYPED
    fact["exact"] = value
    fact["number"] = value
    fact["scale"] = 0
    return e.INTEGER


@inner
def _read_number(fact, text, at, end, kind):
    """A decimal, float or double; the answer is its kind, or minus that if it is hard."""
    start = at
    at, sign = _signed(text, at, end)
    if kind != e.DECIMAL:
        if _spells(text, at, end, 73, 78, 70):  # INF
            fact["number"] = sign * np.inf
            return kind
        if at == start and _spells(text, at, end, 78, 97, 78):  # NaN
            fact["number"] = np.nan
            return kind
    point = _digits_end(text, at, end)
    last, stop = point, point
    if point < end and text[point] == 46:
        stop = _digits_end(text, point + 1, end)
        last = stop
        while last > point + 1 and text[last - 1] == 48:
            last -= 1
        if stop - at == 1:
            return e.ILL_TYPED
    elif point == at:
        return e.ILL_TYPED
    exponent = 0
    if stop < end:
        if kind == e.DECIMAL or (text[stop] != 69 and text[stop] != 101):
            return e.ILL_TYPED
        power, power_sign = _signed(text, stop + 1, end)
        if power == end or _digits_end(text, power, end) != end:
            return e.ILL_TYPED
        exponent = _whole(text, power, min(end, power + 9), np.int64(0)) * power_sign
    value = _whole(text, at, point, np.int64(0))
    scale = max(last - point - 1, 0)
    if value >= 0 and scale > 0:
        value = _whole(text, point + 1, last, value)
    hard = value < 0 or value > _WHOLE_FLOAT
    if kind == e.DECIMAL:
        if value >= 0 and scale <= e.MOST_DIGITS:
            fact["exact"] = sign * value
            fact["scale"] = scale
            if not hard:
                fact["number"] = sign * value / _FLOAT_TEN_TO[scale]
        return -kind if hard or scale > e.MOST_DIGITS else kind
    exponent -= scale
    if hard or abs(exponent) > 22:
        return -kind
    number = np.float64(value)
    number = (
        number * _FLOAT_TEN_TO[exponent] if exponent >= 0 else number / _FLOAT_TEN_TO[-exponent]
    )
    if kind == e.FLOAT:
        number = np.float64(np.float32(number))
    fact["number"] = sign * number
    return kind


@inner
def _read_boolean(fact, text, at, end):
    length = end - at
    if length == 1 and (text[at] == 48 or text[at] == 49):
        fact["exact"] = text[at] - 48
    elif length == 4 and text[at] == 116 and _spells(text, at + 1, end, 114, 117, 101):
        fact["exact"] = 1
    elif (
        length == 5
        and text[at] == 102
        and text[at + 1] == 97
        and _spells(text, at + 2, end, 108, 115, 101)
    ):
        fact["exact"] = 0
    else:
        return e.ILL_TYPED
    fact["scale"] = 0
    return e.BOOLEAN


@inner
def _two(text, at, end):
    """A number of two digits, or -1."""
    if at + 2 > end or not _is_digit(text[at]) or not _is_digit(text[at + 1]):
        return -1
    return (np.int64(text[at]) - 48) * 10 + np.int64(text[at + 1]) - 48


@inner
def _days(year, month, day):
    """Days since 1970-01-01 in the proleptic Gregorian calendar (Hinnant's days_from_civil)."""
    year -= 1 if month <= 2 else 0
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


@inner
def _days_in(year, month):
    if month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0):
        return 29
    return _MONTHS[month - 1]


@inner
def _set_seconds(fact, seconds, text, at, end):
    """Whole seconds and the digits of a fraction, cut where they no longer fit."""
    while end > at and text[end - 1] == 48:
        end -= 1
    scale = 0
    while at < end and scale < e.MOST_DIGITS:
        if abs(seconds) > e.LARGEST // 10 - 10:
            break
        seconds = seconds * 10 + np.int64(text[at]) - 48
        scale += 1
        at += 1
    fact["exact"] = seconds
    fact["scale"] = scale
    fact["number"] = seconds / e.TEN_TO[scale]


@inner
def _read_instant(fact, text, at, end, kind):
    """A dateTime or a date, as seconds since 1970; OTHER if it is none."""
    negative = at < end and text[at] == 45
    at += 1 if negative else 0
    stop = _digits_end(text, at, end)
    if stop - at < 4 or stop - at > 9 or (stop - at > 4 and text[at] == 48):
        return e.OTHER
    year = _whole(text, at, stop, np.int64(0))
    year = -year if negative else year
    month, day = _two(text, stop + 1, end), _two(text, stop + 4, end)
    if day < 1 or month < 1 or month > 12 or text[stop] != 45 or text[stop + 3] != 45:
        return e.OTHER
    if day > _days_in(year, month):
        return e.OTHER
    seconds = _days(year, month, day) * 86400
    at = stop + 6
    first, last = at, at
    if kind == e.INSTANT:
        if at + 9 > end or text[at] != 84 or text[at + 3] != 58 or text[at + 6] != 58:
            return e.OTHER
        hour, minute, second = (
            _two(text, at + 1, end),
            _two(text, at + 4, end),
            _two(text, at + 7, end),
        )
        if min(hour, minute, second) < 0 or hour > 24 or minute > 59 or second > 59:
            return e.OTHER
        seconds += hour * 3600 + minute * 60 + second
        at += 9
        first, last = at, at
        if at < end and text[at] == 46:
            first, last = at + 1, _digits_end(text, at + 1, end)
            if first == last:
                return e.OTHER
            at = last
        if hour == 24:
            nothing = minute == 0 and second == 0
            for k in range(first, last):
                nothing = nothing and text[k] == 48
            if not nothing:
                return e.OTHER
    if at < end:
        if text[at] == 90:
            at += 1
        else:
            ahead, beyond = _two(text, at + 1, end), _two(text, at + 4, end)
            if at + 6 > end or text[at] not in (43, 45) or text[at + 3] != 58:
                return e.OTHER
            if min(ahead, beyond) < 0 or beyond > 59 or ahead * 60 + beyond > 14 * 60:
                return e.OTHER
            shift = ahead * 3600 + beyond * 60
            seconds += shift if text[at] == 45 else -shift
            at += 6
        if at != end:
            return e.OTHER
    else:
        kind += 1
    _set_seconds(fact, seconds, text, first, last)
    return kind


@inner
def _read_duration(fact, text, at, end):
    """`-P1DT2H3M4.5S` as seconds; OTHER if it is none or too long."""
    negative = at < end and text[at] == 45
    at += 1 if negative else 0
    if at >= end or text[at] != 80:
        return e.OTHER
    at += 1
    seconds, first, last = np.int64(0), at, at
    clock, stage, parts = False, 0, 0
    while at < end:
        if text[at] == 84 and not clock:
            clock, stage, parts = True, 1, 0
            at += 1
            continue
        stop = _digits_end(text, at, end)
        if stop in (at, end) or stop - at > 12:
            return e.OTHER
        value, unit = _whole(text, at, stop, np.int64(0)), text[stop]
        if unit == 46 and clock:
            first, last = stop + 1, _digits_end(text, stop + 1, end)
            if first == last or last == end or text[last] != 83:
                return e.OTHER
            stop, unit = last, text[last]
        if unit == 68 and not clock and stage < 1:
            value, stage = value * 86400, 1
        elif unit == 72 and clock and stage < 2:
            value, stage = value * 3600, 2
        elif unit == 77 and clock and stage < 3:
            value, stage = value * 60, 3
        elif unit == 83 and clock and stage < 4:
            stage = 4
        else:
            return e.OTHER
        seconds += value
        parts += 1
        at = stop + 1
    if parts == 0:
        return e.OTHER
    _set_seconds(fact, seconds, text, first, last)
    if negative:
        fact["exact"] = -fact["exact"]
        fact["number"] = -fact["number"]
    return e.DURATION


# --------------------------------------------------------------------- terms


@inner
def _hex(byte):
    if byte <= 57:
        return np.int64(byte) - 48
    return (np.int64(byte) | 32) - 87


@inner
def _write_point(text, at, point):
    """A code point as UTF-8; where it ends."""
    if point < 0x80:
        text[at] = point
        return at + 1
    if point < 0x800:
        text[at] = 0xC0 | point >> 6
        text[at + 1] = 0x80 | point & 0x3F
        return at + 2
    if point < 0x10000:
        text[at] = 0xE0 | point >> 12
        text[at + 1] = 0x80 | point >> 6 & 0x3F
        text[at + 2] = 0x80 | point & 0x3F
        return at + 3
    text[at] = 0xF0 | point >> 18
    text[at + 1] = 0x80 | point >> 12 & 0x3F
    text[at + 2] = 0x80 | point >> 6 & 0x3F
    text[at + 3] = 0x80 | point & 0x3F
    return at + 4


@inner
def _write_plain(raw, begin, end, text, at):
    """Copies a lexical form without its escapes; where it ends."""
    k = begin
    while k < end:
        byte = raw[np.uint64(k)]
        k += 1
        if byte != 92 or k == end:
            text[np.uint64(at)] = byte
            at += 1
            continue
        byte = raw[k]
        k += 1
        if byte == 117 or byte == 85:  # u, U
            point = np.int64(0)
            stop = min(k + (4 if byte == 117 else 8), end)
            while k < stop:
                point = point * 16 + _hex(raw[k])
                k += 1
            at = _write_point(text, at, point)
            continue
        if byte == 110:
            byte = np.uint8(10)
        elif byte == 114:
            byte = np.uint8(13)
        elif byte == 116:
            byte = np.uint8(9)
        elif byte == 98:
            byte = np.uint8(8)
        elif byte == 102:
            byte = np.uint8(12)
        text[at] = byte
        at += 1
    return at


@inner
def _read_value(fact, text, at, end, tags, index):
    kind = tags.kind[index]
    if kind == e.INTEGER:
        return _read_integer(fact, text, at, end, tags.least[index], tags.most[index])
    if e.DECIMAL <= kind <= e.DOUBLE:
        return _read_number(fact, text, at, end, kind)
    if kind == e.BOOLEAN:
        return _read_boolean(fact, text, at, end)
    if kind == e.INSTANT or kind == e.DATE:
        return _read_instant(fact, text, at, end, kind)
    if kind == e.DURATION:
        return _read_duration(fact, text, at, end)
    return kind


@borrowing
def read_terms(
    raw: NDArray[np.uint8],
    offsets: NDArray[np.int32],
    codes: NDArray[np.int32],
    facts: NDArray[np.void],
    text: NDArray[np.uint8],
    used: NDArray[np.int64],
    tags: TagTable,
    hard: NDArray[np.int32],
) -> int:
    """Reads terms into facts; how many were read: fewer than all where a tag is unknown.

    `used`: where the text goes on, how many terms are hard, how many are read already;
    `text` has room for all of `raw`.
    """
    for k in range(used[2], len(codes)):
        begin, end = offsets[k], offsets[k + 1]
        at = used[0]
        tag, kind = np.int64(NO_TAG), np.int64(e.OTHER)
        stop = end
        index = -1
        if end - begin >= 2 and raw[begin] == 34:
            last = end - 1
            while last > begin + 1 and raw[last] != 34:
                last -= 1
            index = _find_tag(tags, raw, last + 1, end - last - 1)
            if index < 0:
                return k
            tag = np.int64(tags.tag[index])
            begin, stop = begin + 1, last
        elif end - begin >= 2 and raw[begin] == 60 and raw[begin + 1] != 60:
            kind = np.int64(e.IRI)
            begin, stop = begin + 1, end - 1
        elif end - begin >= 2 and raw[begin] == 95:
            kind = np.int64(e.BLANK)
            begin += 2
        if index < 0 and kind == e.OTHER:  # a triple term keeps the escapes of its literals
            for i in range(begin, stop):
                text[at + i - begin] = raw[i]
            stop = at + stop - begin
        else:
            stop = _write_plain(raw, begin, stop, text, at)
        fact = facts[codes[k]]
        fact["begin"] = at
        fact["length"] = stop - at
        fact["tag"] = tag
        fact["exact"] = 0
        fact["number"] = 0
        fact["scale"] = e.INEXACT
        if index >= 0:
            kind = np.int64(_read_value(fact, text, at, stop, tags, index))
        if kind < 0:
            kind = -kind
            hard[used[1]] = codes[k]
            used[1] += 1
        fact["kind"] = kind
        used[0] = stop
        used[2] = k + 1
    return len(codes)


@kernel
def slices(
    text: NDArray[np.uint8], facts: NDArray[np.void], codes: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """The lexical forms of some codes: offsets and bytes, as Arrow has large strings."""
    offsets = np.zeros(len(codes) + 1, np.int64)
    for k in range(len(codes)):
        offsets[k + 1] = offsets[k] + max(facts[codes[k]]["length"], 0)
    found = np.empty(offsets[-1], np.uint8)
    for k in range(len(codes)):
        begin = facts[codes[k]]["begin"]
        for i in range(offsets[k + 1] - offsets[k]):
            found[offsets[k] + i] = text[begin + i]
    return offsets, found
