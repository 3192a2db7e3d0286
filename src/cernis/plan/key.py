"""Find the key that a query implies: for each type, an attribute that all events of a match share.

Matches never mix events of different keys, so the stream can be split by the key over
machines without a PARTITION BY in the query. Such keys are the root of the q-tree, and the
attributes of a PARTITION BY around the whole formula.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from cernis.automata.correlated.pcea import PCEA
from cernis.automata.unary.cea import Both, Is, Test
from cernis.pattern.atom import TypeIs


def find_shared_key(pcea: PCEA, calculated: Container[str] = ()) -> Mapping[str, str] | None:
    """Return type to attribute, if there is one choice that every link compares by =.

    Contiguity counts the events between, whatever their key: then there is none. No key is
    `calculated`.
    """
    links = [(t, s) for t in pcea.transitions for s in t.sources]
    if not links or any(s.link.contiguous for _, s in links):
        return None
    first, source = links[0]
    for pair in source.link.equal:
        key = _follow_links(pcea, {source.state: pair[0], first.target: pair[1]}, calculated)
        if key is not None:
            return key
    return None


def _follow_links(
    pcea: PCEA, chosen: dict[int, str], calculated: Container[str]
) -> dict[str, str] | None:
    """Return the key that one choice of attributes gives, followed through all links."""
    waiting = True
    while waiting:
        waiting = False
        for t in pcea.transitions:
            for s in t.sources:
                here, there = chosen.get(s.state), chosen.get(t.target)
                fitting = [
                    (a, b) for a, b in s.link.equal if here in (None, a) and there in (None, b)
                ]
                if not fitting:
                    return None
                if here is None or there is None:
                    if here is None and there is None:
                        continue
                    chosen[s.state], chosen[t.target] = fitting[0]
                    waiting = True
    key: dict[str, str] = {}
    for t in pcea.transitions:
        attribute = chosen.get(t.target)
        for name in _list_types(t.test):
            if attribute is not None and key.setdefault(name, attribute) != attribute:
                return None
    # a match of one event that plays all roles has no links: any key of its type will do
    whole = all(name in key for t in pcea.transitions for name in _list_types(t.test))
    is_calculated = any(name in calculated for name in key.values())
    return key if whole and not is_calculated else None


def _list_types(test: Test) -> Iterator[str]:
    parts = test.parts if isinstance(test, Both) else (test,)
    for part in parts:
        if isinstance(part, Is) and isinstance(part.atom, TypeIs):
            yield part.atom.type
