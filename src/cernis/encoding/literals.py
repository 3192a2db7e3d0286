"""`LiteralSearch`: which of thousands of texts stand in the values of a column, in one pass.

It is the Aho–Corasick automaton of the crate behind ripgrep (`ahocorasick_rs`), over the bytes of a
whole column at once: Arrow's values lie one after the other, and a match that crosses the border of
two values is dropped. Capitals do not count: values are folded as LOWER does, and texts are in
small letters.

Cost contract: one pass over the bytes of a column, whatever the number of texts, and some hundred
nanoseconds for each occurrence of one. Turned down: a set of RE2 is asked value by value
from Python, and its automaton is bounded by a budget of memory, beyond which it fails; a test with
Arrow for each text costs a pass each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from ahocorasick_rs import BytesAhoCorasick

from cernis.events.batch import Int64s
from cernis.events.column_types import is_text
from cernis.events.evaluation.functions import change_case

_BYTES = 1 << 22
"""So many bytes are searched at once, which bounds the list of matches."""


def fold_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of text in small letters.

    >>> fold_text(pa.chunked_array([["Ab", None]])).to_pylist()
    ['ab', None]
    """
    chunks = [_fold(chunk) for chunk in column.chunks if len(chunk)]
    return pa.chunked_array(chunks, None if chunks else pa.string())


def _fold(chunk: pa.Array) -> pa.Array:
    if not pa.types.is_dictionary(chunk.type):
        return change_case(_plain_text(chunk), True)
    folded = change_case(_plain_text(chunk.dictionary), True)
    return pa.DictionaryArray.from_arrays(chunk.indices, folded)


def _plain_text(values: pa.Array) -> pa.Array:
    """Return text whose kernels Arrow has."""
    return values if values.type in (pa.string(), pa.large_string()) else values.cast(pa.string())


class LiteralSearch:
    """Finds texts in the values of a column.

    >>> search = LiteralSearch(["cmd", "md.e"])
    >>> rows, numbers = search.find(pa.chunked_array([["CMD.exe", None, "m", "d.e", "xcmd"]]))
    >>> rows.tolist(), numbers.tolist()
    ([0, 0, 4], [0, 1, 0])
    """

    def __init__(self, texts: Sequence[str]) -> None:
        """`texts` are ASCII in small letters, none of them empty."""
        self._count = len(texts)
        self._automaton = BytesAhoCorasick([text.encode() for text in texts])

    def find(self, column: pa.ChunkedArray) -> tuple[Int64s, Int64s]:
        """Return the rows that have some text in them, and which; each pair once, in order."""
        found, first = [np.empty(0, np.int64)], 0
        for chunk in column.chunks:
            found.append(self._find_pairs(chunk) + first * self._count)
            first += len(chunk)
        return np.divmod(np.concatenate(found), self._count)

    def _find_pairs(self, chunk: pa.Array) -> Int64s:
        """Return row times the number of texts plus the number of a text, ascending."""
        if not pa.types.is_dictionary(chunk.type):
            return self._search(chunk)
        values, numbers = np.divmod(self._search(chunk.dictionary), self._count)
        cuts = np.searchsorted(values, np.arange(len(chunk.dictionary) + 1))
        indices = np.asarray(pc.fill_null(chunk.indices.cast(pa.int64()), len(cuts) - 1))
        counts = np.append(np.diff(cuts), 0)[indices]
        before = np.cumsum(counts) - counts
        at = np.repeat(cuts[indices] - before, counts) + np.arange(counts.sum())
        pairs: Int64s = np.repeat(np.arange(len(chunk)), counts) * self._count + numbers[at]
        return pairs

    def _search(self, values: pa.Array) -> Int64s:
        if not len(values) or not is_text(values.type):
            return np.empty(0, np.int64)
        folded = change_case(_plain_text(values), True)
        if not pc.all(pc.string_is_ascii(folded)).as_py():
            folded = pc.replace_substring(folded, "ſ", "s")  # LIKE '(?i)s' matches it
        wide = folded.cast(pa.large_string())
        offsets = np.frombuffer(wide.buffers()[1], np.int64)
        offsets = offsets[wide.offset : wide.offset + len(wide) + 1]
        data = memoryview(wide.buffers()[2] or b"").cast("B")
        found, first = [np.empty(0, np.int64)], 0
        while first < len(wide):
            last = int(np.searchsorted(offsets, offsets[first] + _BYTES))
            last = min(max(last, first + 1), len(wide))
            low, high = int(offsets[first]), int(offsets[last])
            found.append(self._search_bytes(data[low:high], offsets[first : last + 1] - low, first))
            first = last
        pairs = np.concatenate(found)
        if wide.null_count:
            pairs = pairs[np.asarray(wide.is_valid())[pairs // self._count]]
        return pairs

    def _search_bytes(self, data: memoryview, offsets: Int64s, first: int) -> Int64s:
        matches = self._automaton.find_matches_as_indexes(data, overlapping=True)
        if not matches:
            return np.empty(0, np.int64)
        numbers, starts, ends = np.array(matches, np.int64).T
        rows = np.searchsorted(offsets, starts, side="right") - 1
        inside = ends <= offsets[rows + 1]
        return np.unique((rows[inside] + first) * self._count + numbers[inside])
