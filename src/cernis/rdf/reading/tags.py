"""`Tags`: a number for every datatype and language, and the kind of its values."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.engine.graphs import expressions as e
from cernis.engine.graphs.lexical import STRING_TAG, TagTable, fill_slots, read_terms
from cernis.errors import DataError
from cernis.languages.spaseq.terms import XSD
from cernis.rdf.reading.terms import Codes

_LEAST = -(2**63 - 1)
INTEGERS: Mapping[str, tuple[int, int]] = {
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
"""The datatypes of integers, with the least and the largest value of each."""

_KINDS = {
    "string": e.STRING,
    "boolean": e.BOOLEAN,
    "decimal": e.DECIMAL,
    "float": e.FLOAT,
    "double": e.DOUBLE,
    "dateTime": e.INSTANT,
    "date": e.DATE,
    "dayTimeDuration": e.DURATION,
    **dict.fromkeys(INTEGERS, e.INTEGER),
}

_MOST_TAGS = 2**16 - 1


class Tags:
    """Number datatypes and languages; `kinds` are the kinds of values by datatypes of XSD.

    >>> tags = Tags()
    >>> tags.add("@en"), tags.add("@EN"), tags.names[tags.add("^^<http://x/t>")]
    (2, 2, 'http://x/t')
    """

    def __init__(self, kinds: Mapping[str, int] = _KINDS) -> None:
        self._kinds = kinds
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
        kind = e.TAGGED if is_language else self._kinds.get(local, e.OTHER)
        self._suffixes[suffix] = tag, kind, *INTEGERS.get(local, (0, 0))
        self._table = None
        return tag

    def read(
        self,
        texts: pa.StringArray,
        codes: Codes,
        facts: NDArray[np.void],
        text: NDArray[np.uint8],
        begin: int,
    ) -> tuple[int, Codes]:
        """Read terms into the facts of these codes, and their lexical forms into `text`.

        Forms are written from `begin` on. Return their end, and the codes of numbers that the
        kernel does not round correctly.
        """
        _, offsets, data = texts.buffers()
        first = np.frombuffer(offsets, np.int32)[texts.offset :][: len(texts) + 1]
        raw = np.frombuffer(data or b"\0", np.uint8)
        hard = np.empty(len(codes), np.int32)
        used = np.array([begin, 0, 0], np.int64)
        while True:
            if self._table is None:
                self._table = _build_table(self._suffixes)
            done = read_terms(raw, first, codes, facts, text, used, self._table, hard)
            if done == len(codes):
                return int(used[0]), hard[: used[1]]
            self.add(texts[done].as_py().rpartition('"')[2])


def _build_table(suffixes: dict[str, tuple[int, int, int, int]]) -> TagTable:
    encoded = [suffix.encode() for suffix in suffixes]
    lengths = np.array([len(suffix) for suffix in encoded], np.int32)
    begin = np.cumsum([0, *lengths[:-1]])
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
