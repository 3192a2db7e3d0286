"""`Tags`: a number for every datatype and language, with the kind of value that it stands for."""

from __future__ import annotations

import numpy as np

from cernis.engine.graphs import expressions as e
from cernis.engine.graphs.lexical import STRING_TAG, TagTable, fill_slots
from cernis.errors import DataError
from cernis.rdf.solving.functions import XSD

_KINDS = {
    "string": e.STRING,
    "boolean": e.BOOLEAN,
    "decimal": e.DECIMAL,
    "float": e.FLOAT,
    "double": e.DOUBLE,
    "dateTime": e.INSTANT,
    "date": e.DATE,
    "dayTimeDuration": e.DURATION,
}
_LEAST = -(2**63 - 1)
_INTEGERS: dict[str, tuple[int, int]] = {
    "integer": (_LEAST, 2**63 - 1),
    "long": (_LEAST, 2**63 - 1),
    "int": (-(2**31), 2**31 - 1),
    "short": (-(2**15), 2**15 - 1),
    "byte": (-(2**7), 2**7 - 1),
    "nonNegativeInteger": (0, 2**63 - 1),
    "positiveInteger": (1, 2**63 - 1),
    "nonPositiveInteger": (_LEAST, 0),
    "negativeInteger": (_LEAST, -1),
    "unsignedLong": (0, 2**63 - 1),
    "unsignedInt": (0, 2**32 - 1),
    "unsignedShort": (0, 2**16 - 1),
    "unsignedByte": (0, 2**8 - 1),
}

_MOST_TAGS = 2**16 - 1


class Tags:
    """Number datatypes and languages.

    >>> tags = Tags()
    >>> tags.add("@en"), tags.add("@EN"), tags.names[tags.add("^^<http://x/t>")]
    (2, 2, 'http://x/t')
    """

    def __init__(self) -> None:
        self.names = ["", XSD + "string"]
        """Per tag, the IRI of the datatype or the language."""
        self.is_language = [False, False]
        self._suffixes: dict[str, tuple[int, int, int, int]] = {}
        self._numbers: dict[tuple[str, bool], int] = {(XSD + "string", False): STRING_TAG}
        self._table: TagTable | None = None
        self.add("")
        self.add(f"^^<{XSD}string>")

    def add(self, suffix: str) -> int:
        """Return the tag of the text after a literal's closing quote."""
        if suffix in self._suffixes:
            return self._suffixes[suffix][0]
        is_language = suffix.startswith("@")
        name = suffix[1:].lower() if is_language else suffix[3:-1] or XSD + "string"
        tag = self._numbers.setdefault((name, is_language), len(self.names))
        if tag == len(self.names):
            if tag > _MOST_TAGS:
                raise DataError(f"the data has more than {_MOST_TAGS} datatypes and languages")
            self.names.append(name)
            self.is_language.append(is_language)
        local = name.removeprefix(XSD) if name.startswith(XSD) and not is_language else ""
        kind = e.TAGGED if is_language else _KINDS.get(local, e.OTHER)
        least, most = _INTEGERS.get(local, (0, 0))
        if local in _INTEGERS:
            kind = e.INTEGER
        self._suffixes[suffix] = tag, kind, least, most
        self._table = None
        return tag

    def table(self) -> TagTable:
        """Return the tags as arrays for `cernis.engine.graphs.lexical`."""
        if self._table is None:
            self._table = _build_table(self._suffixes)
        return self._table


def _build_table(suffixes: dict[str, tuple[int, int, int, int]]) -> TagTable:
    encoded = [suffix.encode() for suffix in suffixes]
    lengths = np.array([len(suffix) for suffix in encoded], np.int32)
    begin = np.zeros(len(encoded), np.int64)
    np.cumsum(lengths[:-1], out=begin[1:])
    text = np.frombuffer(b"".join(encoded) or b"\0", np.uint8)
    tag, kind, least, most = (list(column) for column in zip(*suffixes.values(), strict=True))
    size = 1 << (2 * len(encoded)).bit_length()
    slots = np.full(size, -1, np.int32)
    fill_slots(slots, begin, lengths, text)
    return TagTable(
        slots,
        begin,
        lengths,
        text,
        np.array(tag, np.uint16),
        np.array(kind, np.int8),
        np.array(least, np.int64),
        np.array(most, np.int64),
    )
