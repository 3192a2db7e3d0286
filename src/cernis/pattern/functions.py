"""The functions that a query may call: one table, from which everything else is made.

The checker, the messages, the reference, the completion of the playground and the tests read
`FUNCTIONS`. A row holds the types, the form that computes one value (the oracle, candidates and
constants use it), the name of Spark's function, a sentence and an example. The form for columns
has the same name in `cernis.events.evaluation.functions`, since nothing below the events knows
Arrow; a function without one there is computed value by value.

A value is that of Spark SQL in ANSI mode. Where Spark raises an error for a single value
(an overflow, a text that is no number) the value is NULL. Decimals count as the nearest float64,
as in arithmetic. Spark computes a function itself only where it gives the same bits: `spark` is
empty for those that use the mathematical library of the machine, or regular expressions.

Rejected: a class for each function. A function is data, and every reader needs other parts of it.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache
from typing import Any
from typing import Literal as OneOf
from zoneinfo import ZoneInfo

from cernis.pattern.predicate import is_number, to_machine
from cernis.pattern.suggest import did_you_mean

Class = OneOf["number", "string", "boolean", "timestamp", "list", "any", "same"]
"""The class of values that a function takes or gives; *same*: as its first argument."""

LOW, HIGH = -(2**63), 2**63 - 1
"""The integers of 64 bits."""

EARTH = 6_371_008.8
"""The mean radius of the earth in metres."""


@dataclass(frozen=True)
class Function:
    """A row of the table."""

    name: str
    takes: tuple[Class, ...]
    gives: Class
    compute: Callable[..., Any]
    """Gives one value of others, None for NULL."""
    summary: str
    example: str
    spark: str = ""
    """The function of Spark SQL that gives the same bits; empty if there is none."""
    least: int | None = None
    """How many arguments must be given; None: all."""
    repeats: bool = False
    """Whether the last argument may be repeated."""
    takes_null: bool = False
    """Whether NULL is an argument like any other; otherwise one makes the value NULL."""
    constants: tuple[int, ...] = ()
    """The arguments that must be constants."""
    is_whole: bool = False
    """Whether the number that it gives is a whole one."""
    version: str = ""
    """Of a user's function: the version that checkpoints note."""
    accepts_versions: tuple[str, ...] = ()
    """Of a user's function: the versions whose checkpoints it goes on from."""
    columns: Callable[..., Any] | None = None
    """Of a user's function: its form for columns."""
    group: str = "Yours"

    @property
    def signature(self) -> str:
        """The types in and out, as the reference writes them.

        >>> FUNCTIONS["ROUND"].signature
        'ROUND(number[, number]) → same'
        """
        least = len(self.takes) if self.least is None else self.least
        text = ", ".join(self.takes[:least])
        for one in self.takes[least:]:
            text += f"[, {one}]"
        return f"{self.name}({text}{', …' if self.repeats else ''}) → {self.gives}"

    def accepts(self, count: int) -> bool:
        """Whether it may be called with so many arguments."""
        least = len(self.takes) if self.least is None else self.least
        return least <= count and (self.repeats or count <= len(self.takes))

    def taken(self, index: int) -> Class:
        """Return the class of an argument."""
        return self.takes[min(index, len(self.takes) - 1)]

    def __call__(self, *arguments: Any) -> Any:
        """Return the value for some arguments; None for NULL."""
        if not self.takes_null and any(one is None for one in arguments):
            return None
        for index, one in enumerate(arguments):
            if one is not None and not _is_of(one, self.taken(index)):
                return None
        return self.compute(*arguments)


def _is_of(value: Any, wanted: Class) -> bool:
    match wanted:
        case "number":
            return is_number(value)
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "list":
            return isinstance(value, list | tuple) and not hasattr(value, "nanoseconds")
        case _:
            return True


def _fit(number: int) -> int | None:
    return number if LOW <= number <= HIGH else None


def _whole(value: Any) -> int | None:
    """Return a number as an integer of 64 bits, without its fraction."""
    return _fit(int(value)) if math.isfinite(value) else None


# ---------------------------------------------------------------- numbers


def _abs(value: Any) -> Any:
    value = to_machine(value)
    return _fit(abs(value)) if isinstance(value, int) else abs(value)


def _sign(value: Any) -> float:
    value = float(value)
    return value if value == 0 or value != value else math.copysign(1.0, value)


_WIDE = Context(prec=700)


def round_half_up(value: Any, digits: int = 0) -> Any:
    """Return a number rounded to so many digits after the point, halves away from zero.

    A float counts as the digits that it prints: 2.675 to two digits is 2.68.

    >>> round_half_up(2.675, 2), round_half_up(-2.5), round_half_up(125, -1)
    (2.68, -3.0, 130)
    """
    value, digits = to_machine(value), int(digits)
    if isinstance(value, int):
        if digits >= 0:
            return value
        unit = 10**-digits
        rest = (abs(value) + unit // 2) // unit * unit
        return _fit(-rest if value < 0 else rest)
    if not math.isfinite(value) or digits > 330:
        return value
    exact = Decimal(repr(value)).quantize(Decimal((0, (1,), -digits)), ROUND_HALF_UP, _WIDE)
    return math.copysign(float(exact), value)


def _floor(value: Any) -> int | None:
    value = to_machine(value)
    return math.floor(value) if math.isfinite(value) and LOW <= value < 2.0**63 else None


def _ceil(value: Any) -> int | None:
    value = to_machine(value)
    return math.ceil(value) if math.isfinite(value) and LOW <= value < 2.0**63 else None


def _sqrt(value: Any) -> float:
    value = float(value)
    return math.sqrt(value) if value >= 0 else math.nan


def _exp(value: Any) -> float:
    try:
        return math.exp(float(value))
    except OverflowError:
        return math.inf


def _ln(value: Any) -> float | None:
    value = float(value)
    return None if value <= 0 else math.log(value)


def _power(base: Any, exponent: Any) -> float:
    """Return a power as Java has it: where the exponent is NaN, or |base| = 1 is raised to ∞, NaN.

    >>> _power(2, 0.5) == math.sqrt(2), _power(1, math.inf)
    (True, nan)
    """
    base, exponent = float(base), float(exponent)
    if exponent != exponent or (abs(base) == 1 and math.isinf(exponent)):
        return math.nan
    try:
        return math.pow(base, exponent)
    except OverflowError:
        is_odd = exponent == math.floor(exponent) and exponent % 2 == 1
        return -math.inf if base < 0 and is_odd else math.inf
    except ValueError:
        if base != 0:
            return math.nan
        is_odd = exponent == math.floor(exponent) and exponent % 2 == 1
        return math.copysign(math.inf, base) if is_odd else math.inf


def _mod(value: Any, divisor: Any) -> Any:
    value, divisor = to_machine(value), to_machine(divisor)
    if divisor == 0:
        return None
    if isinstance(value, int) and isinstance(divisor, int):
        rest = abs(value) % abs(divisor)
        return -rest if value < 0 else rest
    return math.nan if math.isinf(value) else math.fmod(value, divisor)


def _rank(value: Any) -> tuple[bool, Any]:
    """Return what a value is compared by: NaN is the greatest number."""
    return value != value, 0 if value != value else value


def _unite(values: Sequence[Any]) -> list[Any]:
    """Return the values that are not NULL, as floats if one is; none if they cannot be compared."""
    known = [value for value in values if value is not None]
    if all(map(is_number, known)) and not all(isinstance(value, int) for value in known):
        return [float(value) for value in known]
    return known if len({type(value) for value in known}) < 2 else []


def _least(*values: Any) -> Any:
    return min(_unite(values), key=_rank, default=None)


def _greatest(*values: Any) -> Any:
    return max(_unite(values), key=_rank, default=None)


# ------------------------------------------------------------------- text


def substring(text: str, first: Any, length: Any = HIGH) -> str:
    """Return a part of a text; counted from 1, or from the end below 0.

    >>> substring("Spark", 2, 3), substring("Spark", -3), substring("Spark", -7, 4)
    ('par', 'ark', 'Sp')
    """
    first, length = int(first), int(length)
    start = first - 1 if first > 0 else len(text) + first if first < 0 else 0
    return text[max(start, 0) : max(start + length, 0)]


def _split_part(text: str, separator: str, number: Any) -> str | None:
    parts = text.split(separator) if separator else [text]
    number = int(number)
    if number == 0:
        return None
    index = number - 1 if number > 0 else len(parts) + number
    return parts[index] if 0 <= index < len(parts) else ""


def _regexp_extract(text: str, pattern: str, group: Any = 1) -> str:
    found = re.search(pattern, text, re.ASCII)
    return (found[int(group)] or "") if found else ""


def count_groups(pattern: str) -> int:
    """Return the number of groups that REGEXP_EXTRACT can give of a regular expression, at most 8.

    >>> count_groups("id=([0-9]+)"), count_groups("(?:a)")
    (1, 0)
    """
    try:
        return min(re.compile(pattern).groups, 8)
    except (re.error, RecursionError, OverflowError):
        return 8


def read_group(arguments: Sequence[Any]) -> int:
    """Return the group that a call of REGEXP_EXTRACT asks for."""
    group = arguments[2] if len(arguments) > 2 else 1
    return int(group) if is_number(group) else 1


@lru_cache(maxsize=256)
def _read_wildcards(pattern: str) -> re.Pattern[str]:
    """Return the regular expression of SQL's wildcards: % any text, _ any character, \\ escapes."""
    parts, characters = [], iter(pattern)
    for one in characters:
        if one == "\\":
            parts.append(re.escape(next(characters, "\\")))
        else:
            parts.append({"%": ".*", "_": "."}.get(one) or re.escape(one))
    return re.compile("".join(parts), re.DOTALL)


def _sql_like(text: str, pattern: str) -> bool:
    return _read_wildcards(pattern).fullmatch(text) is not None


def _contains(where: Any, what: Any) -> bool | None:
    if isinstance(where, str):
        return what in where if isinstance(what, str) else None
    if not isinstance(where, list | tuple):
        return None
    if any(one is not None and type(one) is type(what) and one == what for one in where):
        return True
    if is_number(what) and any(is_number(one) and one == what for one in where):
        return True
    return None if None in where else False


# ------------------------------------------------------------------- time


def to_datetime(value: Any, zone: str = "UTC") -> datetime | None:
    """Return a time in a zone; one without a zone counts as UTC, a text is read as ISO 8601."""
    try:
        match value:
            case datetime():
                found = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
            case date():
                found = datetime(value.year, value.month, value.day, tzinfo=UTC)
            case str():
                return to_datetime(datetime.fromisoformat(value), zone)
            case _ if hasattr(value, "nanoseconds"):
                whole = timedelta(microseconds=int(value.nanoseconds) // 1000)
                found = datetime(1970, 1, 1, tzinfo=UTC) + whole
            case _:
                return None
        return found.astimezone(ZoneInfo(zone))
    except (ValueError, OverflowError, KeyError):
        return None


def is_zone(name: str) -> bool:
    """Whether a time zone of this name is known."""
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        return False
    return True


def _read_part(part: Callable[[datetime], int]) -> Callable[..., int | None]:
    def read(value: Any, zone: str = "UTC") -> int | None:
        found = to_datetime(value, zone)
        return None if found is None else part(found)

    return read


def _date(value: Any, zone: str = "UTC") -> date | None:
    found = to_datetime(value, zone)
    return None if found is None else found.date()


UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
"""The units of DATE_TRUNC; a week begins on Monday."""


def _date_trunc(unit: str, value: Any, zone: str = "UTC") -> datetime | None:
    found = to_datetime(value, zone)
    if found is None or unit.upper() not in UNITS:
        return None
    rank, start = UNITS.index(unit.upper()), found.replace(microsecond=0)
    if rank <= 6:
        start = start.replace(second=0)
    if rank <= 5:
        start = start.replace(minute=0)
    if rank <= 4:
        start = start.replace(hour=0)
    match unit.upper():
        case "YEAR":
            start = start.replace(month=1, day=1)
        case "QUARTER":
            start = start.replace(month=(start.month - 1) // 3 * 3 + 1, day=1)
        case "MONTH":
            start = start.replace(day=1)
        case "WEEK":
            start -= timedelta(days=start.weekday())
    return start.astimezone(UTC)


# ------------------------------------------------------- networks, places


@lru_cache(maxsize=256)
def read_network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Return a network such as 10.0.0.0/8; None if the text is none."""
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def _cidr_match(address: str, *networks: str) -> bool | None:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return None
    known = [read_network(one) for one in networks]
    if any(one is not None and found in one for one in known):
        return True
    return None if None in known else False


def _haversine(lat1: Any, lon1: Any, lat2: Any, lon2: Any) -> float:
    one, other = math.radians(float(lat1)), math.radians(float(lat2))
    if not all(math.isfinite(float(each)) for each in (lat1, lon1, lat2, lon2)):
        return math.nan
    across = math.radians(float(lon2) - float(lon1))
    half = math.sin((other - one) / 2) ** 2
    half += math.cos(one) * math.cos(other) * math.sin(across / 2) ** 2
    return 2 * EARTH * math.asin(min(1.0, math.sqrt(half)))


# ------------------------------------------------------------------- CAST

CAST_TYPES: Mapping[str, Class] = {
    "INT": "number",
    "BIGINT": "number",
    "DOUBLE": "number",
    "STRING": "string",
    "BOOLEAN": "boolean",
    "TIMESTAMP": "timestamp",
    "DATE": "timestamp",
}
"""The types that CAST gives; INT has 64 bits, as all whole numbers of a query."""

_INTEGER = re.compile(r"\s*[+-]?[0-9]+\s*", re.ASCII)
_FLOAT = re.compile(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*", re.ASCII)
_SPECIAL = {"nan": math.nan, "inf": math.inf, "infinity": math.inf}
TRUE_TEXTS, FALSE_TEXTS = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")


def write_double(value: float) -> str:
    """Write a float as Java does.

    >>> [write_double(one) for one in (1.0, 1e7, 0.00015, -0.0)]
    ['1.0', '1.0E7', '1.5E-4', '-0.0']
    """
    if value != value or math.isinf(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = f"{Decimal(repr(value)):f}"
        return text if "." in text else f"{text}.0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    power = int(exponent) + len(digits) - 1
    rest = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{rest}E{power}"


def _write_time(value: Any, zone: str = "UTC") -> str | None:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    found = to_datetime(value, zone)
    if found is None:
        return None
    text = found.strftime("%H:%M:%S") + (f".{found.microsecond:06d}" if found.microsecond else "")
    return f"{found.date().isoformat()} {text.rstrip('0') if '.' in text else text}"


def cast(value: Any, type_: str, zone: str = "UTC") -> Any:
    """Return a value in another type; None where it has none there.

    >>> cast(" 12 ", "INT"), cast("1.5", "INT"), cast(1.5, "INT"), cast(True, "STRING")
    (12, None, 1, 'true')
    """
    match type_, value:
        case _, None:
            return None
        case "INT" | "BIGINT", bool():
            return int(value)
        case "INT" | "BIGINT", str():
            return _fit(int(value)) if _INTEGER.fullmatch(value) else None
        case "INT" | "BIGINT", int() | float() | Decimal():
            return _whole(to_machine(value))
        case "DOUBLE", bool() | int() | float() | Decimal():
            return float(value)
        case "DOUBLE", str():
            if _FLOAT.fullmatch(value):
                return float(value)
            bare = value.strip().lower()
            special = _SPECIAL.get(bare.lstrip("+-") if len(bare) > 3 else bare)
            return -special if special is not None and bare.startswith("-") else special
        case "STRING", str():
            return value
        case "STRING", bool():
            return "true" if value else "false"
        case "STRING", int():
            return str(value)
        case "STRING", float() | Decimal():
            return write_double(float(value))
        case "STRING", _:
            return _write_time(value, zone)
        case "BOOLEAN", bool():
            return value
        case "BOOLEAN", str():
            bare = value.strip().lower()
            return True if bare in TRUE_TEXTS else False if bare in FALSE_TEXTS else None
        case "BOOLEAN", int() | float() | Decimal():
            return to_machine(value) != 0
        case "DATE", _:
            return _date(value, zone)
        case "TIMESTAMP", _:
            return to_datetime(value)
    return None


# -------------------------------------------------------------- the table

_N, _S, _T, _B = "number", "string", "timestamp", "boolean"


def _row(
    group: str,
    name: str,
    takes: tuple[Any, ...],
    gives: Any,
    compute: Callable[..., Any],
    summary: str,
    example: str,
    **more: Any,
) -> Function:
    return Function(name, takes, gives, compute, summary, example, group=group, **more)


_TIME: dict[str, Any] = {"least": 1, "constants": (1,), "is_whole": True}

FUNCTIONS: dict[str, Function] = {
    row.name: row
    for row in (
        _row("Numbers", "ABS", (_N,), "same", _abs, "The number without its sign.",
             "ABS(-2) → 2", spark="abs"),
        _row("Numbers", "SIGN", (_N,), _N, _sign, "-1.0, 0.0 or 1.0.", "SIGN(-7) → -1.0",
             spark="sign"),
        _row("Numbers", "ROUND", (_N, _N), "same", round_half_up,
             "The number with so many digits after the point (0), halves away from zero.",
             "ROUND(2.675, 2) → 2.68", least=1, constants=(1,)),
        _row("Numbers", "FLOOR", (_N,), _N, _floor,
             "The greatest whole number that is not above it; NULL beyond 64 bits.",
             "FLOOR(-0.5) → -1", is_whole=True),
        _row("Numbers", "CEIL", (_N,), _N, _ceil,
             "The least whole number that is not below it; NULL beyond 64 bits.",
             "CEIL(0.5) → 1", is_whole=True),
        _row("Numbers", "SQRT", (_N,), _N, _sqrt, "The square root; NaN below 0.",
             "SQRT(2.25) → 1.5", spark="sqrt"),
        _row("Numbers", "POWER", (_N, _N), _N, _power, "The first to the power of the second.",
             "POWER(2, 10) → 1024.0"),
        _row("Numbers", "EXP", (_N,), _N, _exp, "e to the power of the number.", "EXP(0) → 1.0"),
        _row("Numbers", "LN", (_N,), _N, _ln, "The natural logarithm; NULL for 0 and below.",
             "LN(1) → 0.0"),
        _row("Numbers", "MOD", (_N, _N), "same", _mod,
             "The rest of a division, with the sign of the first; NULL for a divisor of 0.",
             "MOD(-7, 3) → -1"),
        _row("Numbers", "LEAST", ("any", "any"), "same", _least,
             "The least value; NULLs are left out, NaN is the greatest number.",
             "LEAST(3, 1, 2) → 1", repeats=True, takes_null=True),
        _row("Numbers", "GREATEST", ("any", "any"), "same", _greatest,
             "The greatest value; NULLs are left out, NaN is the greatest number.",
             "GREATEST(3, 1, 2) → 3", repeats=True, takes_null=True),
        _row("Text", "LOWER", (_S,), _S, str.lower, "The text in small letters.",
             "LOWER('ÄB') → 'äb'", spark="lower"),
        _row("Text", "UPPER", (_S,), _S, str.upper, "The text in capitals.",
             "UPPER('straße') → 'STRASSE'", spark="upper"),
        _row("Text", "TRIM", (_S,), _S, lambda text: text.strip(" "),
             "The text without spaces around it.", "TRIM(' a ') → 'a'", spark="trim"),
        _row("Text", "LENGTH", (_S,), _N, len, "The number of characters.",
             "LENGTH('naïve') → 5", spark="length", is_whole=True),
        _row("Text", "SUBSTRING", (_S, _N, _N), _S, substring,
             "The part from a character on, counted from 1, or from the end below 0; of a length.",
             "SUBSTRING('Spark', 2, 3) → 'par'", least=2, spark="substring", constants=(1, 2)),
        _row("Text", "CONCAT", (_S,), _S, lambda *texts: "".join(texts),
             "The texts one after the other.", "CONCAT('a', 'b') → 'ab'", repeats=True,
             spark="concat"),
        _row("Text", "REPLACE", (_S, _S, _S), _S,
             lambda text, old, new: text.replace(old, new) if old else text,
             "The text with each occurrence of the second replaced by the third.",
             "REPLACE('a-b', '-', '+') → 'a+b'", spark="replace", constants=(1, 2)),
        _row("Text", "STARTS_WITH", (_S, _S), _B, str.startswith,
             "Whether the text begins with the second.", "STARTS_WITH('abc', 'ab') → TRUE",
             spark="startswith"),
        _row("Text", "ENDS_WITH", (_S, _S), _B, str.endswith,
             "Whether the text ends with the second.", "ENDS_WITH('abc', 'bc') → TRUE",
             spark="endswith"),
        _row("Text", "CONTAINS", ("any", "any"), _B, _contains,
             "Whether a text has the second in it, or a list has it as an element.",
             "CONTAINS('abc', 'b') → TRUE", spark="contains"),
        _row("Text", "SQL_LIKE", (_S, _S), _B, _sql_like,
             "SQL's LIKE: % is any text, _ any character, and a backslash escapes them.",
             "SQL_LIKE('MSFT', 'MS%') → TRUE", constants=(1,)),
        _row("Text", "SQL_ILIKE", (_S, _S), _B,
             lambda text, pattern: _sql_like(text.lower(), pattern.lower()),
             "SQL_LIKE without regard to capitals.", "SQL_ILIKE('msft', 'MS%') → TRUE",
             constants=(1,)),
        _row("Text", "REGEXP_EXTRACT", (_S, _S, _N), _S, _regexp_extract,
             "The group (1; 0 is all) of the first match of a regular expression; '' without one.",
             "REGEXP_EXTRACT('id=42', 'id=([0-9]+)') → '42'", least=2, constants=(1, 2)),
        _row("Text", "SPLIT_PART", (_S, _S, _N), _S, _split_part,
             "The part of this number, from 1, or from the end below 0; '' beyond the last.",
             "SPLIT_PART('a,b,c', ',', 2) → 'b'", constants=(1, 2)),
        _row("Choice", "COALESCE", ("any",), "same",
             lambda *values: next((one for one in values if one is not None), None),
             "The first value that is not NULL.", "COALESCE(NULLIF(1, 1), 2) → 2", repeats=True,
             takes_null=True),
        _row("Choice", "NULLIF", ("any", "any"), "same",
             lambda one, other: None if _is_equal(one, other) else one,
             "The first value; NULL if the second is equal to it.",
             "NULLIF('', '') → NULL", takes_null=True),
        _row("Time", "YEAR", (_T, _S), _N, _read_part(lambda t: t.year), "The year.",
             "YEAR('2024-05-31T12:30:00') → 2024", spark="year", **_TIME),
        _row("Time", "MONTH", (_T, _S), _N, _read_part(lambda t: t.month), "The month, from 1.",
             "MONTH('2024-05-31T12:30:00') → 5", spark="month", **_TIME),
        _row("Time", "DAY", (_T, _S), _N, _read_part(lambda t: t.day), "The day of the month.",
             "DAY('2024-05-31T12:30:00') → 31", spark="day", **_TIME),
        _row("Time", "HOUR", (_T, _S), _N, _read_part(lambda t: t.hour),
             "The hour, 0 to 23, in UTC or in a time zone.",
             "HOUR('2024-05-31T12:30:00', 'Europe/Berlin') → 14", spark="hour", **_TIME),
        _row("Time", "MINUTE", (_T, _S), _N, _read_part(lambda t: t.minute), "The minute.",
             "MINUTE('2024-05-31T12:30:00') → 30", spark="minute", **_TIME),
        _row("Time", "SECOND", (_T, _S), _N, _read_part(lambda t: t.second),
             "The whole second.", "SECOND('2024-05-31T12:30:01.5') → 1", spark="second", **_TIME),
        _row("Time", "DAY_OF_WEEK", (_T, _S), _N,
             _read_part(lambda t: t.isoweekday() % 7 + 1), "1 for Sunday to 7 for Saturday.",
             "DAY_OF_WEEK('2024-05-31T12:30:00') → 6", spark="dayofweek", **_TIME),
        _row("Time", "DATE", (_T, _S), _T, _date, "The day, without the time.",
             "DATE('2024-05-31T12:30:00') → '2024-05-31'", least=1, constants=(1,)),
        _row("Time", "DATE_TRUNC", (_S, _T, _S), _T, _date_trunc,
             "The start of the YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE or SECOND.",
             "DATE_TRUNC('HOUR', '2024-05-31T12:30:00') → '2024-05-31T12:00:00'", least=2,
             constants=(0, 2)),
        _row("Networks", "CIDR_MATCH", (_S, _S), _B, _cidr_match,
             "Whether an address is in one of the networks.",
             "CIDR_MATCH('10.1.2.3', '10.0.0.0/8') → TRUE", repeats=True, constants=(1,)),
        _row("Place", "HAVERSINE", (_N, _N, _N, _N), _N, _haversine,
             "The metres between two points: latitude and longitude in degrees, of both.",
             "ROUND(HAVERSINE(52.5, 13.4, 48.1, 11.6)) → 505644.0"),
        _row("Choice", "CAST", ("any", _S, _S), "any", cast,
             "The value in another type: INT, DOUBLE, STRING, BOOLEAN, TIMESTAMP or DATE; a time "
             "is written in a time zone.",
             "CAST('12' AS INT) → 12", least=2, constants=(1, 2)),
        _row("Lists", "SIZE", ("list",), _N, len, "The number of elements of a list.",
             "SIZE(arguments)", is_whole=True),
    )
}  # fmt: skip
"""The functions by name, in capitals: those of the package, and those that users register."""

BUILTIN = frozenset(FUNCTIONS)
"""The names of the functions of the package."""


def _is_equal(one: Any, other: Any) -> bool:
    if is_number(one) and is_number(other):
        return bool(to_machine(one) == to_machine(other))
    return one is not None and type(one) is type(other) and bool(one == other)


def find_function(name: str) -> Function | None:
    """Return a function by its name, in any case."""
    return FUNCTIONS.get(name.upper())


def suggest_function(name: str) -> str | None:
    """Return the functions that a name may be meant for.

    >>> suggest_function("LOWR")
    "did you mean 'LOWER'?"
    """
    return did_you_mean(name.upper(), [*FUNCTIONS, "IF"], cutoff=0.7)


_CALL = re.compile(r"([A-Z_][A-Z0-9_]*)\(", re.ASCII)


def find_user_functions(query: str) -> dict[str, Function]:
    """Return the functions of users that the text of a query calls."""
    names = dict.fromkeys(_CALL.findall(query))
    return {name: FUNCTIONS[name] for name in names if name in FUNCTIONS and name not in BUILTIN}
