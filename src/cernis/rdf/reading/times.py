"""The times of RDF events: the rule that says where they are, and the parser.

Times are int64 nanoseconds. `xsd:dateTime` and `xsd:dateTimeStamp` count from 1970, without a
zone as UTC; `xsd:date` is its midnight; numbers count units from zero. Fractions of a nanosecond
are cut off. A plain string in the form of a dateTime counts as one: much data is of that kind, and
some has the type inside the quotes.

Cost: nearly all times of a stream are distinct, so the kernel of all literals
(`cernis.engine.graphs.lexical`) reads the usual forms, 0.2 µs each; Python reads the others one by
one. Rejected designs: Arrow's own cast, which takes forms that are no `xsd:dateTime` and fails as a
whole where one value is wrong; a kernel for times alone, which saves 0.1 µs of the 6 µs and more
that an event takes to read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from math import floor
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cernis.engine.graphs import expressions as e
from cernis.errors import DataError
from cernis.events.evaluation.regex import count_groups, regex_mistake
from cernis.events.times import UNITS, check_unit
from cernis.languages.spaseq.terms import XSD
from cernis.rdf.reading.events import Bools, Int64s
from cernis.rdf.reading.tags import INTEGERS, Tags

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
DIGITS_IN_NAME: Final = r"(?:[/:#?=&][^A-Za-z0-9/:#?=&-]*|[A-Za-z][^A-Za-z0-9/:#?=&]*)(-?[0-9]+)$"
"""The last part of a name, `-3` in `…/1/-3`, or the number after its letters, `3` in `…/event-3`.
Not the `5` of `…/2004_8_5`, which is part of something else."""


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
            if (wrong := regex_mistake(self.pattern)) is not None:
                raise DataError(f"{self.pattern!r} is no regular expression for times: {wrong}")
            if (groups := count_groups(self.pattern)) != 1:
                raise DataError(
                    f"the regular expression {self.pattern!r} for times must have one group, the "
                    f"time; it has {groups} (write (?:…) for those that only group)"
                )

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


# -------------------------------------------------------------------- terms

_KINDS: Final = {
    "dateTime": e.INSTANT,
    "dateTimeStamp": e.INSTANT,
    "date": e.DATE,
    **dict.fromkeys((*INTEGERS, "decimal", "double", "float"), e.DECIMAL),
}
"""The datatypes of times; all numbers are read as decimals, which are exact."""

_LITERAL = re.compile(rf'"([^"\\]*)"\^\^<{re.escape(XSD)}(\w+)>')
_UNTYPED = re.compile(rf'"([^"\\^]*)(?:\^\^{re.escape(XSD)}dateTime)?"')
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?")

_SECOND: Final = 1_000_000_000


def read_times(texts: pa.StringArray, unit: str) -> tuple[Int64s, Bools]:
    """Return the times of some terms, and which of them are times.

    >>> five, day = f'"5"^^<{XSD}integer>', f'"1970-01-02"^^<{XSD}date>'
    >>> times, good = read_times(pa.array([five, day, '"5"']), "ms")
    >>> times.tolist(), good.tolist()
    ([5000000, 86400000000000, 0], [True, True, False])
    """
    times, good = _read_exact(texts, unit)
    odd = np.flatnonzero(~good)
    if len(odd):
        tidy = [_tidy(text) for text in texts.take(pa.array(odd)).to_pylist()]
        times[odd], good[odd] = _read_exact(pa.array(tidy, pa.string()), unit)
        for i, text in zip(odd, tidy, strict=True):
            if not good[i] and (time := _read_number(text, unit)) is not None:
                times[i], good[i] = time, True
    return times, good


def read_name_times(names: pa.StringArray, pattern: str, unit: str) -> tuple[Int64s, Bools]:
    """Return the times in the names of graphs, and which have one; blank nodes have none.

    >>> names = pa.array(["<urn:e:7>", "<urn:e>", "_:b7"])
    >>> times, good = read_name_times(names, DIGITS_IN_NAME, "ns")
    >>> times.tolist(), good.tolist()
    ([7, 0, 0], [True, False, False])
    """
    iris = pc.utf8_slice_codeunits(names, 1, -1)
    fits = pc.and_(pc.starts_with(names, "<"), pc.match_substring_regex(iris, pattern))
    found = pc.replace_substring_regex(iris, f"(?s)^.*?(?:{pattern}).*$", r"\1")
    found = pc.replace_substring(found, "%3A", ":")
    times, good = np.zeros(len(names), np.int64), np.zeros(len(names), np.bool_)
    for datatype in ("decimal", "dateTime", "date", "double"):
        rest = np.flatnonzero(np.asarray(fits) & ~good)
        some = found.take(pa.array(rest))
        literals = pc.binary_join_element_wise('"', some, f'"^^<{XSD}{datatype}>', "")
        read = read_times if datatype == "double" else _read_exact
        times[rest], good[rest] = read(literals, unit)
    return times, good


def parse_time(time: int | float | str | datetime, unit: str, what: str) -> int:
    """Return a number of units, or a date, in nanoseconds.

    >>> parse_time(2, "s", "advance"), parse_time("1970-01-01T00:00:01Z", "s", "advance")
    (2000000000, 1000000000)
    """
    if isinstance(time, datetime):
        time = time.isoformat()
    kind = {int: "integer", float: "double"}.get(type(time), "dateTime")
    text = f'"{time}"^^<{XSD}{kind}>'
    times, good = read_times(pa.array([text], pa.string()), unit)
    if not good[0]:
        raise DataError(f"{what} {time}: is no time")
    return int(times[0])


def format_time(time: int, unit: str | None) -> str:
    """Return a time for messages: a number of units, or a date without a unit.

    >>> format_time(1_704_186_000_250_000_000, None), format_time(10_500_000, "ms")
    ('2024-01-02T09:00:00.25Z', '10.5')
    """
    if unit is not None:
        return f"{Decimal(time) / UNITS[unit]:f}"
    seconds, rest = divmod(time, _SECOND)
    whole = np.datetime_as_string(np.datetime64(seconds, "s"))
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{whole}{fraction}Z"


def _read_exact(texts: pa.StringArray, unit: str) -> tuple[Int64s, Bools]:
    """Return the times of terms in the usual forms, and which these are."""
    if not len(texts):
        return np.zeros(0, np.int64), np.zeros(0, np.bool_)
    facts = np.zeros(len(texts), e.FACT)
    codes = np.arange(len(texts), dtype=np.int32)
    Tags(_KINDS).read(texts, codes, facts, np.empty(texts.nbytes, np.uint8), 0)
    kind, exact = facts["kind"], facts["exact"]
    dated = (kind >= e.INSTANT) & (kind <= e.LOCAL_DATE)
    zeros = np.where(dated, 9, len(str(UNITS[unit])) - 1) - facts["scale"]
    factor, divisor = e.TEN_TO[np.maximum(zeros, 0)], e.TEN_TO[np.maximum(-zeros, 0)]
    good = (dated | (kind == e.DECIMAL)) & (facts["scale"] >= 0)
    good &= np.abs(exact) <= e.LARGEST // factor
    return np.where(good, exact * factor // divisor, 0), good


def _tidy(text: str) -> str:
    """Return a literal without blanks around its value, and a plain string as a dateTime."""
    if bare := _UNTYPED.fullmatch(text):
        return f'"{bare[1]}"^^<{XSD}dateTime>'
    found = _LITERAL.fullmatch(text)
    return f'"{found[1].strip(" ")}"^^<{XSD}{found[2]}>' if found else text


def _read_number(text: str, unit: str) -> int | None:
    """Return the time of a number with an exponent or many digits."""
    found = _LITERAL.fullmatch(text)
    if found is None or _KINDS.get(found[2]) != e.DECIMAL or not _NUMBER.fullmatch(found[1]):
        return None
    if "e" in found[1].lower() and found[2] not in ("double", "float"):
        return None
    time = floor(Fraction(found[1]) * UNITS[unit])
    return time if abs(time) <= e.LARGEST else None
