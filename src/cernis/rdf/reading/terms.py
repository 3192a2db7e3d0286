"""`Terms`: the dictionary that gives every RDF term of a run one code, dense from 0.

Kernels and joins see codes only. A term's text is its N-Triples form as pyoxigraph writes
it, so that two terms are the same exactly when their texts are. `UNBOUND` (-1) is no term.

Cost: `encode` hashes each text once in Arrow and looks up each *distinct* text once in a
Python dictionary (about 0.2 µs, and some 250 bytes for a new term). The rejected design, a hash
table in a kernel, would save little: three quarters of the time of reading is parsing.

Nearly every event brings terms of its own (its name, its time). A long run drops the terms that are
in no state (`keep`). That changes codes, which all owners of codes must replace; a `view` taken
before has the old ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cernis.state import require

Codes = NDArray[np.int32]

UNBOUND = -1

_IRI = r'<[^\x00-\x20<>"{}|^`\\]*>'
_TERM = (
    rf"^(?:{_IRI}|_:[^\x00-\x20<>\"]+|<<\(.*\)>>"
    r'|"(?:[^"\\\x00-\x1f]|\\[tbnrf"\\]|\\u00[0-7][0-9A-Fa-f])*"'
    rf"(?:@[A-Za-z0-9-]+|\^\^{_IRI})?)$"
)
"""The forms of terms, as `Terms` has them."""


class CodeHolder(Protocol):
    """Something that holds codes of terms between two batches."""

    def codes(self) -> Iterator[Codes]: ...

    def recode(self, new_codes: Codes) -> None: ...


class Terms:
    """A dictionary from the texts of terms to codes, and back."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._texts: list[str] = []
        self._scopes = 0

    def __len__(self) -> int:
        return len(self._texts)

    def __contains__(self, text: str) -> bool:
        return text in self._codes

    def encode(self, texts: pa.StringArray | Sequence[str]) -> Codes:
        """Return the codes of some texts; new texts are added, in order.

        >>> terms = Terms()
        >>> terms.encode(["<http://x/b>", '"5"', "<http://x/b>"]).tolist(), len(terms)
        ([0, 1, 0], 2)
        """
        array = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.string())
        encoded = array.dictionary_encode()
        codes = self.add(encoded.dictionary.to_pylist())
        return codes[np.asarray(encoded.indices, np.int32)]

    def add(self, distinct: Sequence[str]) -> Codes:
        """Return the codes of distinct texts; new texts are added, in order."""
        known, before = self._codes, len(self._texts)
        codes = np.array([known.setdefault(text, len(known)) for text in distinct], np.int32)
        new = np.flatnonzero(codes >= before).tolist()
        self._texts.extend([distinct[i] for i in new])
        return codes

    def code(self, text: str) -> int:
        """Return the code of one text, added if it is new."""
        code = self._codes.setdefault(text, len(self._codes))
        if code == len(self._texts):
            self._texts.append(text)
        return code

    def find(self, text: str) -> int:
        """Return the code of one text, or `UNBOUND` if it is not in the dictionary."""
        return self._codes.get(text, UNBOUND)

    def text(self, code: int) -> str:
        if code < 0:
            raise IndexError(f"{code} is no term's code")
        return self._texts[code]

    def texts(self, codes: NDArray[Any] | Sequence[int]) -> pa.StringArray:
        """Return the texts of some codes; null where unbound.

        >>> terms = Terms()
        >>> terms.texts([terms.code("_:b"), -1]).to_pylist()
        ['_:b', None]
        """
        known = self._texts
        found = np.asarray(codes).tolist()
        return pa.array([known[c] if c >= 0 else None for c in found], pa.string())

    def repeated_texts(self, codes: Codes) -> pa.StringArray:
        """Like `texts`, faster where codes repeat."""
        distinct, inverse = np.unique(codes, return_inverse=True)
        return self.texts(distinct).take(pa.array(inverse))

    def keep(self, live: NDArray[np.bool_]) -> Codes:
        """Drop all terms but the live ones; return the new code of each old one, -1 for none.

        >>> terms = Terms()
        >>> old = terms.encode(["<a>", "<b>"])
        >>> before = terms.view()
        >>> terms.keep(np.array([False, True])).tolist(), terms.text(0), before.text(0)
        ([-1, 0], '<b>', '<a>')
        """
        moved = np.where(live, np.cumsum(live) - 1, UNBOUND).astype(np.int32)
        self._texts = [self._texts[code] for code in np.flatnonzero(live).tolist()]
        self._codes = {text: code for code, text in enumerate(self._texts)}
        return moved

    def view(self) -> Terms:
        """Return the dictionary as it is now; `keep` does not change it."""
        same = Terms()
        same._codes, same._texts, same._scopes = self._codes, self._texts, self._scopes
        return same

    def new_scope(self) -> str:
        """Return a prefix for the blank nodes of one more file: `f0`, `f1`, …"""
        self._scopes += 1
        return f"f{self._scopes - 1}"


def check_terms(texts: Sequence[str]) -> None:
    """Raise StateError where a text of a frozen state is no term."""
    good = pc.match_substring_regex(pa.array(texts, pa.string()), _TERM)
    require(bool(np.asarray(good).all()), "a term is no term")
