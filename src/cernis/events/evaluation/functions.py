"""The functions of `cernis.pattern.functions` on whole columns, with Arrow and NumPy.

`apply_function` takes the operands of a call: columns, constants, and None for NULL on every row. A
column of another class than the function takes is NULL. Where `COLUMNS` has no form for a call (an
argument is a column that Arrow wants as a constant, or the type is rare), each different row of the
arguments is computed once, by the form for single values.

Cost contract: a few passes in Arrow or NumPy for each call; text beyond ASCII costs LOWER and UPPER
one call in Python for each different value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cernis.events import column_types, times
from cernis.events.batch import Bools
from cernis.pattern import functions as scalar
from cernis.pattern.functions import Function
from cernis.pattern.predicate import Scalar

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that is the same on every row; a float is computed, never written."""

    value: Scalar


Operand: TypeAlias = Constant | pa.Array | None  # None: NULL on every row


def class_of(operand: Operand) -> str:
    """Return the class of an operand's values, as the table of functions names it."""
    if operand is None:
        return "null"
    if isinstance(operand, Constant):
        match operand.value:
            case bool():
                return "boolean"
            case str():
                return "string"
            case _:
                return "number"
    type_ = operand.type
    if column_types.is_number(type_):
        return "number"
    if column_types.is_text(type_):
        return "string"
    if pa.types.is_boolean(type_):
        return "boolean"
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        return "timestamp"
    return "list" if pa.types.is_list(type_) or pa.types.is_large_list(type_) else "other"


def apply_function(function: Function, operands: Sequence[Operand], length: int) -> Operand:
    """Return the value of a function on every row; some operand is a column."""
    arguments = [_take(one, function.taken(index)) for index, one in enumerate(operands)]
    if not function.takes_null and any(one is None for one in arguments):
        return None
    if function.columns is not None:
        return function.columns([_spread(one, length) for one in arguments], length)
    vectorized = COLUMNS.get(function.name)
    found = NotImplemented if vectorized is None else vectorized(arguments, length)
    return _compute_rows(function, arguments, length) if found is NotImplemented else found


_LINEAR = frozenset({"REGEXP_EXTRACT", "SQL_LIKE", "SQL_ILIKE"})
"""Functions of patterns: Python's own regular expressions may take exponential time."""


def compute_one(function: Function, arguments: Sequence[Any]) -> Any:
    """Return the value of a function for single arguments, in time linear in a text."""
    is_plain = function.name not in _LINEAR or not isinstance(arguments[0], str)
    if is_plain or not all(isinstance(one, str | int | Decimal) for one in arguments[1:]):
        return function(*arguments)
    operands = [pa.array([arguments[0]], pa.string()), *map(Constant, arguments[1:])]
    return COLUMNS[function.name](operands, 1)[0].as_py()


def _spread(operand: Operand, length: int) -> pa.Array:
    """Return an operand as a column."""
    if not isinstance(operand, Constant):
        return operand
    value = operand.value
    return pa.repeat(float(value) if isinstance(value, Decimal) else value, length)


def _take(operand: Operand, wanted: str) -> Operand:
    """Return an operand that is of the class; any other is NULL."""
    own = class_of(operand)
    if wanted == "timestamp" and own == "string":
        return operand
    return operand if wanted == "any" or own == wanted else None


def to_constant(value: Any) -> Constant | None:
    """Return a computed value as a constant; a time is its text."""
    if isinstance(value, datetime | date):
        value = value.isoformat()
    return None if value is None else Constant(value)


_TYPES = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "number": pa.float64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "INT": pa.int64(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "DATE": pa.date32(),
}
"""The types of columns, by the class that a function gives, or by the type that CAST names."""


def _find_type(function: Function, arguments: Sequence[Operand]) -> pa.DataType:
    """Return the type of a function's values; it does not depend on them."""
    if function.name == "CAST" and isinstance(arguments[1], Constant):
        return _TYPES.get(str(arguments[1].value), pa.null())
    if function.is_whole:
        return pa.int64()
    if function.gives != "same":
        return _TYPES.get(function.gives, pa.null())
    columns = [one for one in arguments if isinstance(one, pa.Array)]
    return columns[0].type if len({one.type for one in columns}) == 1 else _TYPES["timestamp"]


def _compute_rows(function: Function, arguments: Sequence[Operand], length: int) -> pa.Array:
    columns = [
        [None if one is None else one.value] * length
        if one is None or isinstance(one, Constant)
        else one.to_pylist()
        for one in arguments
    ]
    known: dict[Any, Any] = {}
    values = []
    for row in zip(*columns, strict=True):
        key = repr(row)  # 1, 1.0 and True are different, and lists have no hash
        if key not in known:
            known[key] = function(*row)
        values.append(known[key])
    return pa.array(values, _find_type(function, arguments))


# ---------------------------------------------------------------- numbers


def read_numbers(operand: Operand, length: int) -> tuple[npt.NDArray[Any], Bools]:
    """Return numbers as int64 or float64, and marks where there are any."""
    if isinstance(operand, Constant):
        value: Any = operand.value
        if isinstance(value, Decimal) or not -(2**63) <= value < 2**63:
            value = float(value)
        return np.full(length, value), np.ones(length, np.bool_)
    assert operand is not None
    column = operand
    if pa.types.is_uint64(column.type):
        high = pa.scalar(2**63 - 1, pa.uint64())
        column = pc.if_else(pc.less_equal(column, high), column, None)
    column = (
        column.cast(pa.int64()) if pa.types.is_integer(column.type) else times.as_floats(column)
    )
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    return column.fill_null(0).to_numpy(zero_copy_only=False), valid


def _read_floats(operand: Operand, length: int) -> tuple[Floats, Bools]:
    values, valid = read_numbers(operand, length)
    return values.astype(np.float64), valid


def _make(values: npt.NDArray[Any], valid: Bools) -> pa.Array:
    return pa.array(values, mask=None if valid.all() else ~valid)


def _abs(arguments: Sequence[Operand], length: int) -> pa.Array:
    values, valid = read_numbers(arguments[0], length)
    if values.dtype == np.int64:
        valid = valid & (values != scalar.LOW)
    return _make(np.abs(values), valid)


def _sign(arguments: Sequence[Operand], length: int) -> pa.Array:
    values, valid = _read_floats(arguments[0], length)
    return _make(np.where(values == 0, values, np.sign(values)), valid)


def _round(arguments: Sequence[Operand], length: int) -> pa.Array:
    """Round as `round_half_up`: a quotient is the float nearest to the decimal it stands for.

    So a float is a half exactly if it prints as one. It holds for up to 15 digits; others are
    rounded one by one.
    """
    places = arguments[1] if len(arguments) > 1 else Constant(0)
    if not isinstance(places, Constant):
        return NotImplemented
    digits = int(places.value)
    values, valid = read_numbers(arguments[0], length)
    if values.dtype == np.int64:
        if digits >= 0:
            return _make(values, valid)
        each = [scalar.round_half_up(value, digits) for value in values.tolist()]
        return pc.if_else(pa.array(valid), pa.array(each, pa.int64()), None)
    unit, size = 10.0 ** min(abs(digits), 22), np.abs(values)
    with np.errstate(all="ignore"):
        scaled = size * unit if digits >= 0 else size / unit
        is_easy = (scaled < 2.0**49) & (abs(digits) <= 22) | (size == 0)
        whole = np.where(is_easy, np.floor(scaled), 0.0)

        def write(units: Floats) -> Floats:
            return units / unit if digits >= 0 else units * unit

        whole = np.where(write(whole) > size, whole - 1, whole)
        whole = np.where(write(whole + 1) <= size, whole + 1, whole)
        rounded = write(np.where(size >= write(whole + 0.5), whole + 1, whole))
    result = np.copysign(rounded, values)
    for i in np.flatnonzero(~is_easy):
        result[i] = scalar.round_half_up(float(values[i]), digits)
    return _make(result, valid)


def _to_whole(rounding: Callable[[Floats], Floats]) -> Callable[..., pa.Array]:
    def compute(arguments: Sequence[Operand], length: int) -> pa.Array:
        values, valid = read_numbers(arguments[0], length)
        if values.dtype == np.int64:
            return _make(values, valid)
        fits = (values >= -(2.0**63)) & (values < 2.0**63)
        return _make(rounding(np.where(fits, values, 0.0)).astype(np.int64), valid & fits)

    return compute


def _floating(
    compute: Callable[..., tuple[Floats, Bools | bool]],
) -> Callable[[Sequence[Operand], int], pa.Array]:
    """Return the form of a function of float64s, which says where it has a value."""

    def apply(arguments: Sequence[Operand], length: int) -> pa.Array:
        read = [_read_floats(one, length) for one in arguments]
        with np.errstate(all="ignore"):
            values, known = compute(*(one for one, _ in read))
        return _make(values, np.logical_and.reduce([valid for _, valid in read]) & known)

    return apply


def _power(base: Floats, exponent: Floats) -> tuple[Floats, bool]:
    odd = np.isnan(exponent) | ((np.abs(base) == 1) & np.isinf(exponent))
    return np.where(odd, np.nan, np.power(base, exponent)), True


def _haversine(lat1: Floats, lon1: Floats, lat2: Floats, lon2: Floats) -> tuple[Floats, bool]:
    one, other = np.radians(lat1), np.radians(lat2)
    half = np.sin((other - one) / 2) ** 2
    half += np.cos(one) * np.cos(other) * np.sin(np.radians(lon2 - lon1) / 2) ** 2
    return 2 * scalar.EARTH * np.arcsin(np.minimum(1.0, np.sqrt(half))), True


def _choose(is_greatest: bool) -> Callable[[Sequence[Operand], int], Operand]:
    def compute(arguments: Sequence[Operand], length: int) -> Operand:
        known = [one for one in arguments if one is not None]
        classes = {class_of(one) for one in known}
        if len(classes) != 1:
            return None
        if classes == {"number"}:
            read = [read_numbers(one, length) for one in known]
            is_real = any(values.dtype != np.int64 for values, _ in read)
            columns = [_make(v.astype(np.float64) if is_real else v, valid) for v, valid in read]
            choose = pc.max_element_wise if is_greatest else pc.min_element_wise
            found = choose(*columns)
            if is_real and is_greatest:
                for column in columns:
                    found = pc.if_else(pc.is_nan(column).fill_null(False), np.nan, found)
            return found
        if classes == {"string"}:
            return _choose_text(known, is_greatest)
        return NotImplemented

    return compute


def _choose_text(known: Sequence[Operand], is_greatest: bool) -> pa.Array:
    parts = [one.value if isinstance(one, Constant) else one.cast(pa.string()) for one in known]  # type: ignore[union-attr]
    return (pc.max_element_wise if is_greatest else pc.min_element_wise)(*parts)


# ------------------------------------------------------------------- text


def _text(operand: Operand) -> Any:
    """Return a text for Arrow: a column, or the value of a constant."""
    return operand.value if isinstance(operand, Constant) else operand


def _constants(arguments: Sequence[Operand]) -> list[Any] | None:
    """Return the values of constants; None if some is a column."""
    values = [one.value for one in arguments if isinstance(one, Constant)]
    return values if len(values) == len(arguments) else None


def change_case(column: pa.Array, is_lower: bool) -> pa.Array:
    """Return text in small letters or capitals, by the full mappings of Unicode."""
    simple = (pc.ascii_lower if is_lower else pc.ascii_upper)(column)
    plain = pc.string_is_ascii(column)
    if pc.all(plain).as_py() is not False:
        return simple
    rare = column.filter(pc.invert(plain)).dictionary_encode()
    change = str.lower if is_lower else str.upper
    changed = pa.array([change(text) for text in rare.dictionary.to_pylist()], column.type)
    mask = pc.fill_null(pc.invert(plain), False)
    return pc.replace_with_mask(simple, mask, changed.take(rare.indices))


def _substring(arguments: Sequence[Operand], length: int) -> Any:
    numbers = _constants(arguments[1:])
    if numbers is None or not isinstance(arguments[0], pa.Array):
        return NotImplemented
    first, size = int(numbers[0]), int(numbers[1]) if len(numbers) > 1 else 2**31
    start = first - 1 if first > 0 else first
    stop = start + size
    column = arguments[0]
    if size <= 0:
        return pc.if_else(column.is_valid(), pa.scalar("", column.type), None)
    # below 0 both count from the end, and one that reaches it has no end
    end = None if start < 0 <= stop or stop > 2**31 - 1 else stop
    return pc.utf8_slice_codeunits(column, max(start, -(2**31)), end)


def _split_part(arguments: Sequence[Operand], length: int) -> Any:
    constants = _constants(arguments[1:])
    if constants is None or not constants[0]:
        return NotImplemented
    separator, number = constants[0], int(constants[1])
    column = arguments[0]
    if number == 0:
        return None
    parts = pc.split_pattern(column, separator)
    offsets = np.asarray(parts.offsets)
    begin, end = offsets[:-1], offsets[1:]
    index = begin + number - 1 if number > 0 else end + number
    inside = (index >= begin) & (index < end)
    found = parts.values.take(pa.array(np.where(inside, index, 0), mask=~inside))
    return pc.if_else(column.is_valid(), found.fill_null(""), None)  # type: ignore[union-attr]


def _replace(arguments: Sequence[Operand], length: int) -> Any:
    constants = _constants(arguments[1:])
    if constants is None:
        return NotImplemented
    old, new = constants
    return pc.replace_substring(arguments[0], old, new) if old else arguments[0]


def _regexp_extract(arguments: Sequence[Operand], length: int) -> Any:
    constants = _constants(arguments[1:])
    if constants is None or not isinstance(arguments[0], pa.Array):
        return NotImplemented
    group = int(constants[1]) if len(constants) > 1 else 1
    whole = rf"\A(?s:.*?)({constants[0]})(?s:.*)\z"
    column = arguments[0]
    found = pc.replace_substring_regex(column, whole, rf"\{group + 1}", max_replacements=1)
    return pc.if_else(pc.match_substring_regex(column, constants[0]), found, "")


def _find_text(find: Callable[..., pa.Array]) -> Callable[[Sequence[Operand], int], Any]:
    """Return the form of a test of text with a constant."""

    def compute(arguments: Sequence[Operand], length: int) -> Any:
        constants = _constants(arguments[1:])
        if constants is None or not isinstance(arguments[0], pa.Array):
            return NotImplemented
        return find(arguments[0], constants[0])

    return compute


def _concat(arguments: Sequence[Operand], length: int) -> pa.Array:
    parts = [
        pa.scalar(one.value) if isinstance(one, Constant) else one.cast(pa.string())  # type: ignore[union-attr]
        for one in arguments
    ]
    return pc.binary_join_element_wise(*parts, pa.scalar(""))


# ------------------------------------------------------------------- time


def _read_times(operand: Operand, length: int, zone: str) -> pa.Array:
    """Return times in a zone."""
    column = pa.repeat(operand.value, length) if isinstance(operand, Constant) else operand
    assert column is not None
    if column_types.is_text(column.type):
        column = times.parse_timestamps(column, "us")
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("s"))
    unit = column.type.unit
    return column.cast(pa.timestamp(unit, "UTC")).cast(pa.timestamp(unit, zone))


def _zone(arguments: Sequence[Operand]) -> str | None:
    """Return the zone that is the last argument; None if it is none that is known."""
    zone = arguments[-1].value if isinstance(arguments[-1], Constant) else ""
    return zone if isinstance(zone, str) and scalar.is_zone(zone) else None


def _part(read: Callable[[pa.Array], pa.Array]) -> Callable[[Sequence[Operand], int], Any]:
    def compute(arguments: Sequence[Operand], length: int) -> Any:
        zone = "UTC" if len(arguments) < 2 else _zone(arguments)
        if zone is None:
            return NotImplemented
        return read(_read_times(arguments[0], length, zone)).cast(pa.int64())

    return compute


def _date(arguments: Sequence[Operand], length: int) -> Any:
    zone = "UTC" if len(arguments) < 2 else _zone(arguments)
    if zone is None:
        return NotImplemented
    return pc.local_timestamp(_read_times(arguments[0], length, zone)).cast(pa.date32(), safe=False)


def _date_trunc(arguments: Sequence[Operand], length: int) -> Any:
    zone = "UTC" if len(arguments) < 3 else _zone(arguments)
    unit = arguments[0]
    if zone is None or not isinstance(unit, Constant) or not isinstance(unit.value, str):
        return NotImplemented
    if unit.value.upper() not in scalar.UNITS:
        return None
    column = _read_times(arguments[1], length, zone)
    local, instant = pc.local_timestamp(column), pa.timestamp(column.type.unit, "UTC")
    start = pc.floor_temporal(local, unit=unit.value.lower())
    if unit.value.upper() in ("HOUR", "MINUTE", "SECOND"):  # one that the clock repeats is its own
        return pc.subtract(column.cast(instant), pc.subtract(local, start))
    found = pc.assume_timezone(start, zone, ambiguous="earliest", nonexistent="earliest")
    return found.cast(instant)


# --------------------------------------------------------------- networks

_OCTET = "25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9]"
_ADDRESS = r"\.".join(f"(?P<{name}>{_OCTET})" for name in "abcd")


def _cidr_match(arguments: Sequence[Operand], length: int) -> Any:
    constants = _constants(arguments[1:])
    column = arguments[0]
    if constants is None or not isinstance(column, pa.Array):
        return NotImplemented
    networks = [scalar.read_network(text) for text in constants]
    if (
        any(one is None or one.version != 4 for one in networks)
        or pc.any(pc.match_substring(column, ":")).as_py()
    ):
        return NotImplemented
    octets = pc.extract_regex(column, rf"\A(?:{_ADDRESS})\z")
    valid = octets.is_valid()
    number = np.zeros(length, np.int64)
    for field in octets.flatten():
        number = number * 256 + pc.fill_null(field, "0").cast(pa.int64()).to_numpy()
    found = np.zeros(length, np.bool_)
    for one in networks:
        assert one is not None
        found |= (number & int(one.netmask)) == int(one.network_address)
    return pc.if_else(valid, pa.array(found), None)


# ------------------------------------------------------------------- CAST


def _cast(arguments: Sequence[Operand], length: int) -> Any:
    column, type_ = arguments[0], arguments[1].value  # type: ignore[union-attr]
    if not isinstance(column, pa.Array):
        return NotImplemented
    match class_of(column), type_:
        case ("number", "DOUBLE"):
            return times.as_floats(column)
        case ("number", "INT" | "BIGINT"):
            return _to_whole(np.trunc)([column], length)
        case ("string", "STRING") | ("boolean", "BOOLEAN"):
            return column
        case ("number", "STRING") if pa.types.is_integer(column.type):
            return column.cast(pa.string())
        case ("boolean", "INT" | "BIGINT"):
            return column.cast(pa.int64())
        case ("string", "INT" | "BIGINT"):
            bare = pc.utf8_trim_whitespace(column)
            is_short = pc.match_substring_regex(bare, r"\A[+-]?[0-9]{1,18}\z")
            if pc.all(pc.or_kleene(is_short, bare.is_null())).as_py():
                return pc.utf8_ltrim(bare, "+").cast(pa.int64())
        case ("timestamp" | "string", "TIMESTAMP"):
            return _read_times(column, length, "UTC")
        case ("timestamp" | "string", "DATE"):
            return _date([column, *arguments[2:]], length)
    return NotImplemented


COLUMNS: Mapping[str, Callable[[Sequence[Operand], int], Any]] = {
    "ABS": _abs,
    "SIGN": _sign,
    "ROUND": _round,
    "FLOOR": _to_whole(np.floor),
    "CEIL": _to_whole(np.ceil),
    "SQRT": _floating(lambda x: (np.where(x < 0, np.nan, np.sqrt(x)), True)),
    "EXP": _floating(lambda x: (np.exp(x), True)),
    "LN": _floating(lambda x: (np.log(x), ~(x <= 0))),
    "POWER": _floating(_power),
    "LEAST": _choose(False),
    "GREATEST": _choose(True),
    "LOWER": lambda arguments, length: change_case(arguments[0], True),
    "UPPER": lambda arguments, length: change_case(arguments[0], False),
    "TRIM": lambda arguments, length: pc.utf8_trim(arguments[0], " "),
    "LENGTH": lambda arguments, length: pc.utf8_length(arguments[0]).cast(pa.int64()),
    "SUBSTRING": _substring,
    "CONCAT": _concat,
    "REPLACE": _replace,
    "STARTS_WITH": _find_text(pc.starts_with),
    "ENDS_WITH": _find_text(pc.ends_with),
    "SQL_LIKE": _find_text(pc.match_like),
    "SQL_ILIKE": _find_text(
        lambda column, pattern: pc.match_like(change_case(column, True), pattern.lower())
    ),
    "REGEXP_EXTRACT": _regexp_extract,
    "SPLIT_PART": _split_part,
    "YEAR": _part(pc.year),
    "MONTH": _part(pc.month),
    "DAY": _part(pc.day),
    "HOUR": _part(pc.hour),
    "MINUTE": _part(pc.minute),
    "SECOND": _part(pc.second),
    "DAY_OF_WEEK": _part(lambda t: pc.day_of_week(t, count_from_zero=False, week_start=7)),
    "DATE": _date,
    "DATE_TRUNC": _date_trunc,
    "CIDR_MATCH": _cidr_match,
    "HAVERSINE": _floating(_haversine),
    "SIZE": lambda arguments, length: pc.list_value_length(arguments[0]).cast(pa.int64()),
    "CAST": _cast,
}
"""The forms for columns, by the function's name; NotImplemented: value by value."""
