"""SPARQL's functions of one term and constants, as Python functions from parts to text.

Each takes the parts of its arguments (kind, lexical form, datatype or language) and returns the
value as a term in N-Triples form, or None for an error. `cernis.rdf.solving.terms.values` calls
them once per distinct term and caches the result, so they need not be fast. The functions that
often run over millions of terms (STR, LANG, DATATYPE, the tests of kinds, REGEX) have a version for
whole columns there.

A cast returns a literal of the datatype even where the text does not fit; the value is then
ill-typed, and `values` turns that into an error.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import ROUND_DOWN, Decimal, localcontext
from typing import NamedTuple
from urllib.parse import quote

import numpy as np

from cernis.engine.graphs import expressions as e
from cernis.languages.spaseq.terms import XSD, TermError, make_iri, write_literal


class TermParts(NamedTuple):
    """The parts of a term."""

    kind: int
    text: str
    tag: str = ""
    """The datatype's IRI, or the language."""


@dataclass(frozen=True, slots=True)
class TermFunction:
    """A function of one term: None is the term, a text is a constant in N-Triples form."""

    name: str
    arguments: tuple[TermFunction | str | None, ...]

    @property
    def is_constant(self) -> bool:
        return all(
            part.is_constant if isinstance(part, TermFunction) else part is not None
            for part in self.arguments
        )


# ------------------------------------------------------------------- writing


def write_boolean(answer: bool) -> str:
    return write_literal("true" if answer else "false", datatype=XSD + "boolean")


def _write_integer(value: int) -> str:
    return write_literal(str(value), datatype=XSD + "integer")


def _write_like(model: TermParts, text: str) -> str:
    """Return a string with the language of another, if that has one."""
    return write_literal(text) + (f"@{model.tag}" if model.kind == e.TAGGED else "")


def write_term(part: TermParts, tag: int) -> str:
    """Return a term in N-Triples form; the number of its tag is 0 where it has none."""
    match part.kind:
        case e.IRI:
            return f"<{part.text}>"
        case e.BLANK:
            return f"_:{part.text}"
        case e.TAGGED:
            return write_literal(part.text, language=part.tag)
    return write_literal(part.text, datatype=part.tag) if tag else part.text


_COMPUTED = {e.INTEGER: "integer", e.DECIMAL: "decimal", e.FLOAT: "float", e.DOUBLE: "double"}


def write_computed(cell: np.void) -> str | None:
    """Return a value that was computed as a literal in its canonical form."""
    kind = int(cell["kind"])
    exact = Decimal(int(cell["exact"])).scaleb(-max(int(cell["scale"]), 0))
    match kind:
        case e.BOOLEAN:
            return write_boolean(exact != 0)
        case e.FLOAT:
            text = _write_float(float(str(np.float32(cell["number"]))))
        case e.DOUBLE:
            text = _write_float(float(cell["number"]))
        case e.INTEGER | e.DECIMAL:
            known = exact if cell["scale"] >= 0 else Decimal(repr(float(cell["number"])))
            text = _write_decimal(known)
        case e.INSTANT | e.LOCAL_INSTANT:
            return _write_instant(exact, "Z" if kind == e.INSTANT else "")
        case e.DURATION:
            return _write_duration(exact)
        case _:
            return None
    return write_literal(text, datatype=XSD + _COMPUTED[kind])


def write_exact(kind: int, number: Decimal | float) -> str:
    """Return a number of a kind as a literal in its canonical form; quotients have 18 digits."""
    if isinstance(number, Decimal):
        if kind == e.INTEGER:
            return _write_integer(int(number))
        if kind == e.DECIMAL:
            with localcontext() as context:
                context.prec = 60
                cut = number.quantize(Decimal(1).scaleb(-e.MOST_DIGITS), ROUND_DOWN)
            return write_literal(_write_decimal(cut), datatype=XSD + "decimal")
    return write_literal(_write_float(float(number)), datatype=XSD + _COMPUTED[kind])


def _write_instant(seconds: Decimal, zone: str) -> str | None:
    whole = int(seconds // 1)
    days, rest = divmod(whole, 86_400)
    if not 0 < days + _EPOCH <= date.max.toordinal():
        return None
    fraction = _write_decimal(seconds - whole)[1:]
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}{fraction}"
    day = date.fromordinal(days + _EPOCH).isoformat()
    return write_literal(f"{day}T{clock}{zone}", datatype=XSD + "dateTime")


def _write_duration(seconds: Decimal) -> str:
    sign, seconds = "-" if seconds < 0 else "", abs(seconds)
    whole = int(seconds)
    days, rest = divmod(whole, 86_400)
    last = _write_decimal(rest % 60 + seconds - whole)
    parts = [(days, "D"), (rest // 3600, "H"), (rest // 60 % 60, "M")]
    day, *clock = (f"{number}{unit}" if number else "" for number, unit in parts)
    clock.append(f"{last}S" if last != "0" else "")
    time = "T" + "".join(clock) if any(clock) else ""
    text = f"{sign}P{day}{time}" if day or time else "PT0S"
    return write_literal(text, datatype=XSD + "dayTimeDuration")


_EPOCH = date(1970, 1, 1).toordinal()


def _is_string(piece: TermParts) -> bool:
    return piece.kind in (e.STRING, e.TAGGED)


def _are_compatible(one: TermParts, other: TermParts) -> bool:
    if not (_is_string(one) and _is_string(other)):
        return False
    return other.kind == e.STRING or (one.kind, one.tag) == (other.kind, other.tag)


# ------------------------------------------------------------------- strings


def _change_case(change: Callable[[str], str]) -> Callable[[TermParts], str | None]:
    return lambda x: _write_like(x, change(x.text)) if _is_string(x) else None


def _encode_for_uri(x: TermParts) -> str | None:
    return write_literal(quote(x.text, safe="-_.~")) if _is_string(x) else None


def _substring(x: TermParts, start: TermParts, length: TermParts | None = None) -> str | None:
    whole = start.kind == e.INTEGER and (length is None or length.kind == e.INTEGER)
    if not (_is_string(x) and whole):
        return None
    first = int(start.text) - 1
    last = len(x.text) if length is None else first + int(length.text)
    return _write_like(x, x.text[max(first, 0) : max(last, 0)])


def _before(x: TermParts, part: TermParts) -> str | None:
    if not _are_compatible(x, part):
        return None
    found = x.text.find(part.text)
    return _write_like(x, x.text[:found]) if found >= 0 else write_literal("")


def _after(x: TermParts, part: TermParts) -> str | None:
    if not _are_compatible(x, part):
        return None
    found = x.text.find(part.text)
    return _write_like(x, x.text[found + len(part.text) :]) if found >= 0 else write_literal("")


def _concatenate(*parts: TermParts) -> str | None:
    if not all(map(_is_string, parts)):
        return None
    text = "".join(part.text for part in parts)
    alike = len({(part.kind, part.tag) for part in parts}) == 1
    return _write_like(parts[0], text) if alike else write_literal(text)


def _language_matches(language: TermParts, wanted: TermParts) -> str | None:
    if language.kind != e.STRING or wanted.kind != e.STRING:
        return None
    have, want = language.text.lower(), wanted.text.lower()
    if want == "*":
        return write_boolean(have != "")
    return write_boolean(have == want or have.startswith(want + "-"))


def _digest(name: str) -> Callable[[TermParts], str | None]:
    def digest(x: TermParts) -> str | None:
        found = hashlib.new(name, x.text.encode()).hexdigest()
        return write_literal(found) if x.kind == e.STRING else None

    return digest


def _with_datatype(x: TermParts, datatype: TermParts) -> str | None:
    fits = (x.kind, datatype.kind) == (e.STRING, e.IRI)
    return write_literal(x.text, datatype=datatype.text) if fits else None


def _with_language(x: TermParts, language: TermParts) -> str | None:
    simple = x.kind == language.kind == e.STRING
    if not (simple and re.fullmatch("[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*", language.text)):
        return None
    return write_literal(x.text, language=language.text)


def _iri(x: TermParts, base: TermParts | None = None) -> str | None:
    if x.kind == e.IRI:
        return f"<{x.text}>"
    if x.kind != e.STRING:
        return None
    try:
        return f"<{make_iri(x.text, None if base is None else base.text)}>"
    except TermError:
        return None


# -------------------------------------------------------------- triple terms

_TRIPLE_PART = re.compile(r'"(?:[^"\\]|\\.)*"[^ ]*|[^ ]+')


def _split_triple(x: TermParts) -> list[str] | None:
    """Return the three terms of a triple term."""
    if x.kind != e.OTHER or x.tag or not x.text.startswith("<<( "):
        return None
    parts: list[str] = []
    depth = 0
    for piece in _TRIPLE_PART.findall(x.text[4:-4]):
        if depth:
            parts[-1] += f" {piece}"
        else:
            parts.append(piece)
        depth += (piece == "<<(") - (piece == ")>>")
    return parts if len(parts) == 3 else None


def _triple_part(index: int) -> Callable[[TermParts], str | None]:
    def part(x: TermParts) -> str | None:
        parts = _split_triple(x)
        return None if parts is None else parts[index]

    return part


def _make_triple(subject: TermParts, predicate: TermParts, object_: TermParts) -> str | None:
    if subject.kind not in (e.IRI, e.BLANK) or predicate.kind != e.IRI:
        return None
    terms = (write_term(part, len(part.tag)) for part in (subject, predicate, object_))
    return f"<<( {' '.join(terms)} )>>"


# --------------------------------------------------------------------- times

_TIMESTAMP = re.compile(
    r"(-?\d+)-(\d\d)-(\d\d)(?:T(\d\d):(\d\d):(\d\d(?:\.\d+)?))?(Z|[+-]\d\d:\d\d)?", re.ASCII
)


class _Timestamp(NamedTuple):
    year: int
    month: int
    day: int
    hours: int | None
    minutes: int | None
    seconds: Decimal | None
    zone: str


def _read_timestamp(x: TermParts) -> _Timestamp | None:
    found = _TIMESTAMP.fullmatch(x.text)
    if not e.INSTANT <= x.kind <= e.LOCAL_DATE or found is None:
        return None
    year, month, day, hours, minutes, seconds, zone = found.groups()
    timestamp = _Timestamp(
        int(year),
        int(month),
        int(day),
        int(hours) if hours else None,
        int(minutes) if minutes else None,
        Decimal(seconds) if seconds else None,
        zone or "",
    )
    if timestamp.hours == 24 and 1 <= timestamp.year <= 9998:
        following = date(*timestamp[:3]) + timedelta(days=1)
        timestamp = _Timestamp(following.year, following.month, following.day, 0, *timestamp[4:])
    return timestamp


def _part(name: str) -> Callable[[TermParts], str | None]:
    def part(x: TermParts) -> str | None:
        value = getattr(_read_timestamp(x), name, None)
        return None if value is None else _write_integer(value)

    return part


def _seconds(x: TermParts) -> str | None:
    timestamp = _read_timestamp(x)
    if not timestamp or timestamp.seconds is None:
        return None
    return write_literal(_write_decimal(timestamp.seconds), datatype=XSD + "decimal")


def _zone(x: TermParts) -> str | None:
    timestamp = _read_timestamp(x)
    return write_literal(timestamp.zone) if timestamp else None


def _timezone(x: TermParts) -> str | None:
    timestamp = _read_timestamp(x)
    if not timestamp or not timestamp.zone:
        return None
    hours, minutes = (0, 0) if timestamp.zone == "Z" else map(int, timestamp.zone[1:].split(":"))
    parts = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "")
    sign = "-" if timestamp.zone[0] == "-" and parts else ""
    return write_literal(f"{sign}PT{parts or '0S'}", datatype=XSD + "dayTimeDuration")


# --------------------------------------------------------------------- casts


def _write_decimal(value: Decimal) -> str:
    """Return a decimal without exponent and trailing zeros."""
    text = f"{value:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def _read_number(x: TermParts) -> Decimal | float:
    """Return the value of a boolean or number; a float that is not finite stays a float."""
    if x.kind == e.BOOLEAN:
        return Decimal(x.text in ("true", "1"))
    if x.kind in (e.INTEGER, e.DECIMAL):
        return Decimal(x.text)
    number = _read_float(x)
    return Decimal(number) if math.isfinite(number) else number


def _read_float(x: TermParts) -> float:
    number = float(x.text)
    return float(np.float32(number)) if x.kind == e.FLOAT else number


def _to_integer(x: TermParts) -> str | None:
    value = _read_number(x)
    return None if isinstance(value, float) else _write_integer(int(value))


def _to_decimal(x: TermParts) -> str | None:
    value = _read_number(x)
    if isinstance(value, float):
        return None
    if x.kind in (e.FLOAT, e.DOUBLE):
        with localcontext() as context:
            context.prec = 400
            value = value.quantize(Decimal(1).scaleb(-e.MOST_DIGITS))
    return write_literal(_write_decimal(value), datatype=XSD + "decimal")


def _to_float(name: str) -> Callable[[TermParts], str | None]:
    def cast(x: TermParts) -> str | None:
        if x.kind == e.BOOLEAN:
            return write_literal(str(_read_number(x)), datatype=XSD + name)
        exact = x.kind == e.FLOAT and math.isfinite(float(x.text))
        return write_literal(repr(_read_float(x)) if exact else x.text, datatype=XSD + name)

    return cast


def _to_boolean(x: TermParts) -> str | None:
    value = _read_number(x)
    return write_boolean(value != 0 and value == value)


def _to_string(x: TermParts) -> str | None:
    if x.kind == e.BOOLEAN:
        return write_literal("true" if x.text in ("true", "1") else "false")
    if x.kind in (e.INTEGER, e.DECIMAL):
        return write_literal(_write_decimal(Decimal(x.text)))
    if x.kind in (e.FLOAT, e.DOUBLE):
        return write_literal(_write_float(_read_float(x)))
    return write_literal(x.text)


def _write_float(number: float) -> str:
    """Return a float as XPath writes it: very large or small ones with an exponent."""
    if math.isnan(number) or math.isinf(number):
        return "NaN" if math.isnan(number) else "INF" if number > 0 else "-INF"
    if number == 0:
        return "-0" if math.copysign(1, number) < 0 else "0"
    value = Decimal(repr(number))
    if 1e-6 <= abs(number) < 1e6:
        return _write_decimal(value)
    exponent = value.adjusted()
    mantissa = _write_decimal(value.scaleb(-exponent))
    return f"{mantissa}{'' if '.' in mantissa else '.0'}E{exponent}"


def _to_instant(x: TermParts) -> str | None:
    if x.kind in (e.DATE, e.LOCAL_DATE):
        found = _TIMESTAMP.fullmatch(x.text)
        zone = (found[7] if found else "") or ""
        return write_literal(
            f"{x.text[: len(x.text) - len(zone)]}T00:00:00{zone}", datatype=XSD + "dateTime"
        )
    return write_literal(x.text, datatype=XSD + "dateTime")


def _to_date(x: TermParts) -> str | None:
    timestamp = _read_timestamp(x)
    if timestamp is None:
        return None
    sign = "-" if timestamp.year < 0 else ""
    day = f"{sign}{abs(timestamp.year):04}-{timestamp.month:02}-{timestamp.day:02}{timestamp.zone}"
    return write_literal(day, datatype=XSD + "date")


_NUMBERS = (e.BOOLEAN, e.INTEGER, e.DECIMAL, e.FLOAT, e.DOUBLE)
_TIMES = (e.INSTANT, e.LOCAL_INSTANT, e.DATE, e.LOCAL_DATE)
_CASTS: dict[str, tuple[tuple[int, ...], Callable[[TermParts], str | None]]] = {
    "integer": (_NUMBERS, _to_integer),
    "decimal": (_NUMBERS, _to_decimal),
    "float": (_NUMBERS, _to_float("float")),
    "double": (_NUMBERS, _to_float("double")),
    "boolean": (_NUMBERS, _to_boolean),
    "dateTime": (_TIMES, _to_instant),
    "date": (_TIMES, _to_date),
    "dayTimeDuration": (
        (e.DURATION,),
        lambda x: write_literal(x.text, datatype=XSD + "dayTimeDuration"),
    ),
}


def find_cast(name: str) -> str | None:
    """Return the local name of the datatype that a function casts to, None if it is no cast.

    >>> find_cast("<http://www.w3.org/2001/XMLSchema#integer>"), find_cast("STR")
    ('integer', None)
    """
    local = name.removeprefix(f"<{XSD}").removesuffix(">")
    return local if local != name and (local in _CASTS or local == "string") else None


def _cast(local: str) -> Callable[[TermParts], str | None]:
    kinds, convert = _CASTS[local]

    def cast(x: TermParts) -> str | None:
        if x.kind == e.STRING:
            return write_literal(x.text, datatype=XSD + local)
        return convert(x) if x.kind in kinds else None

    return cast


def _cast_to_string(x: TermParts) -> str | None:
    return None if x.kind == e.BLANK else _to_string(x)


# --------------------------------------------------------------------- table

FUNCTIONS: dict[str, Callable[..., str | None]] = {
    "UCASE": _change_case(str.upper),
    "LCASE": _change_case(str.lower),
    "ENCODE_FOR_URI": _encode_for_uri,
    "SUBSTR": _substring,
    "STRBEFORE": _before,
    "STRAFTER": _after,
    "CONCAT": _concatenate,
    "LANGMATCHES": _language_matches,
    "STRDT": _with_datatype,
    "STRLANG": _with_language,
    "IRI": _iri,
    "URI": _iri,
    "ISTRIPLE": lambda x: write_boolean(_split_triple(x) is not None),
    "SUBJECT": _triple_part(0),
    "PREDICATE": _triple_part(1),
    "OBJECT": _triple_part(2),
    "TRIPLE": _make_triple,
    "YEAR": _part("year"),
    "MONTH": _part("month"),
    "DAY": _part("day"),
    "HOURS": _part("hours"),
    "MINUTES": _part("minutes"),
    "SECONDS": _seconds,
    "TZ": _zone,
    "TIMEZONE": _timezone,
    **{name: _digest(name.lower()) for name in ("MD5", "SHA1", "SHA256", "SHA384", "SHA512")},
    **{f"<{XSD}{local}>": _cast(local) for local in _CASTS},
    f"<{XSD}string>": _cast_to_string,
}

ARGUMENTS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(FUNCTIONS, (1, 1)),
    **dict.fromkeys(("STRBEFORE", "STRAFTER", "LANGMATCHES", "STRDT", "STRLANG"), (2, 2)),
    "SUBSTR": (2, 3),
    "TRIPLE": (3, 3),
    **dict.fromkeys(("IRI", "URI"), (1, 2)),
    "CONCAT": (1, 255),
    **dict.fromkeys(("STR", "LANG", "DATATYPE", "STRLEN"), (1, 1)),
    **dict.fromkeys(("ISIRI", "ISURI", "ISBLANK", "ISLITERAL", "ISNUMERIC"), (1, 1)),
    "REGEX": (2, 3),
    "REPLACE": (3, 4),
}
"""Every function of a term, with the least and the most arguments it takes."""
