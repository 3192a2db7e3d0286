"""Guess the word that was meant by a misspelt one.

`difflib` compares the word with every candidate, so the number of candidates and the
length of the word are bounded: a hostile query costs a bounded time.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

_LONGEST_WORD = 64
_MOST_CANDIDATES = 2000


def find_closest(word: str, candidates: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the candidate that looks most like the word, in any case; None if none is close.

    >>> find_closest("prise", ["volume", "price"])
    'price'
    >>> find_closest("PRICE", ["volume", "price"])
    'price'
    >>> find_closest("zzz", ["volume", "price"])
    >>> find_closest("site", ["volume", "hosts.site"])
    'hosts.site'
    """
    if len(word) > _LONGEST_WORD:
        return None
    known = [name for name in islice(candidates, _MOST_CANDIDATES) if len(name) <= _LONGEST_WORD]
    ends = {name.rpartition(".")[2].casefold(): name for name in known}
    by_folded = ends | {name.casefold(): name for name in known}
    found = get_close_matches(word.casefold(), by_folded, n=1, cutoff=cutoff)
    return by_folded[found[0]] if found else None


def did_you_mean(word: str, candidates: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Suggest the closest candidate in a sentence; None if none is close.

    >>> did_you_mean("prise", ["volume", "price"])
    "did you mean 'price'?"
    """
    found = find_closest(word, candidates, cutoff=cutoff)
    return None if found is None else f"did you mean '{found}'?"
