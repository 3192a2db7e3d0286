"""Formats of times: those of Oracle and of Joda, which Trino takes, and how Spark writes them.

In a tree, a format is one of `strftime`. Readers return None for an element that has no such form.
"""

from __future__ import annotations

import re

from sqlglot.dialects.spark import Spark

ORACLE_ELEMENTS = {
    "YYYY": "%Y",
    "YY": "%y",
    "RRRR": "%Y",
    "RR": "%y",
    "MM": "%m",
    "MON": "%b",
    "DD": "%d",
    "DY": "%a",
    "HH24": "%H",
    "HH12": "%I",
    "HH": "%I",
    "MI": "%M",
    "SS": "%S",
    "FF6": "%f",
    "AM": "%p",
    "PM": "%p",
}
JODA_ELEMENTS = {
    **dict.fromkeys(("y", "yyyy", "Y", "YYYY"), "%Y"),
    **dict.fromkeys(("yy", "YY"), "%y"),
    "M": "%-m",
    "MM": "%m",
    "MMM": "%b",
    "MMMM": "%B",
    "d": "%-d",
    "dd": "%d",
    "DDD": "%j",
    "H": "%-H",
    "HH": "%H",
    "h": "%-I",
    "hh": "%I",
    "m": "%-M",
    "mm": "%M",
    "s": "%-S",
    "ss": "%S",
    "SSS": "%g",
    "SSSSSS": "%f",
    "a": "%p",
    **dict.fromkeys(("E", "EE", "EEE"), "%a"),
    "EEEE": "%A",
}
_SPARK_ELEMENTS = {
    "%Y": "yyyy",
    "%y": "yy",
    "%-m": "M",
    "%m": "MM",
    "%b": "MMM",
    "%B": "MMMM",
    "%-d": "d",
    "%d": "dd",
    "%j": "DDD",
    "%-H": "H",
    "%H": "HH",
    "%-I": "h",
    "%I": "hh",
    "%-M": "m",
    "%M": "mm",
    "%-S": "s",
    "%S": "ss",
    "%g": "SSS",
    "%f": "SSSSSS",
    "%p": "a",
    "%a": "EEE",
    "%A": "EEEE",
}
_ORACLE = re.compile(
    rf"({'|'.join(sorted(ORACLE_ELEMENTS, key=len, reverse=True))})|\"([^\"%]*)\"|[-/.,:; ]",
    re.IGNORECASE,
)
_JODA = re.compile(r"(([A-Za-z])\2*)|('(?:[^']|'')*')|([^A-Za-z'])")
_STRFTIME = re.compile(r"(%-?.)|([^%]+)")
_ELEMENT = re.compile("%-?[A-Za-z]")
_JAVA_LETTERS = {
    element: letters
    for letters, element in sorted(
        Spark.TIME_MAPPING.items(), key=lambda item: (-len(item[0]), item[0].islower())
    )
}
"""The letters that stand for an element in Java: the fewest."""
_OF_TWO_DIGITS = ("%m", "%d", "%H", "%I", "%M", "%S")


def read_oracle_format(text: str) -> str | None:
    """Return a format of TO_CHAR as one of `strftime`.

    >>> read_oracle_format('DD-MON-YY "at" HH24')
    '%d-%b-%y at %H'
    """
    written, at = "", 0
    while at < len(text) and (lexeme := _ORACLE.match(text, at)):
        element, quoted = lexeme.groups()
        known = ORACLE_ELEMENTS[element.upper()] if element else quoted
        written += known or lexeme[0].strip('"')
        at = lexeme.end()
    return written if text and at == len(text) else None


def read_joda_format(text: str) -> str | None:
    """Return a format of Joda-Time as one of `strftime`.

    >>> read_joda_format("yyyy-MM-dd'T'HH:mm:ss.SSS")
    '%Y-%m-%dT%H:%M:%S.%g'
    >>> read_joda_format("xxxx-'W'ww")
    """
    written, at = "", 0
    while at < len(text) and (lexeme := _JODA.match(text, at)):
        element, _, quoted, other = lexeme.groups()
        if element:
            if element not in JODA_ELEMENTS:
                return None
            written += JODA_ELEMENTS[element]
        else:
            told = other or quoted[1:-1].replace("''", "'") or "'"
            written += told.replace("%", "%%")
        at = lexeme.end()
    return written if text and at == len(text) else None


def unquote_java_format(text: str) -> str:
    """Return a format without the quotes around its words, in which the library reads elements.

    >>> unquote_java_format("%Y'T'%H 'o''%-clock %-d%p%Y'")
    "%YT%H o'%-clock day"
    """
    words = (word.replace("\0", "'") for word in text.replace("''", "\0").split("'"))
    return "".join(_restore(word) if i % 2 else word for i, word in enumerate(words))


def _restore(word: str) -> str:
    """Return a word whose letters the library has read as elements of a format."""
    return _ELEMENT.sub(lambda element: _JAVA_LETTERS.get(element[0], element[0]), word)


def write_spark_format(text: str, *, reads: bool = False) -> str | None:
    """Return a format of `strftime` as one of Spark; `reads`: it also takes single digits.

    >>> write_spark_format("%Y-%m-%dT%H o'clock")
    "yyyy-MM-dd'T'HH' o''clock'"
    >>> write_spark_format("%Y-%m-%d", reads=True)
    'yyyy-M-d'
    >>> write_spark_format("%Y%m%d", reads=True)
    'yyyyMMdd'
    """
    parts = [*_STRFTIME.finditer(text)]
    written = ""
    for number, part in enumerate(parts):
        element, words = part.groups()
        if element == "%%":
            written += "%"
        elif words is not None:
            quoted = words.replace("'", "''")
            written += f"'{quoted}'" if re.search("[A-Za-z'#{}\\[\\]]", words) else words
        elif element not in _SPARK_ELEMENTS:
            return None
        else:
            around = [*parts[max(number - 1, 0) : number], *parts[number + 1 : number + 2]]
            alone = all(one[2] is not None for one in around)
            spark = _SPARK_ELEMENTS[element]
            written += spark[:1] if reads and alone and element in _OF_TWO_DIGITS else spark
    return written
