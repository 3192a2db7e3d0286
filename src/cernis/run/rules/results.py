"""`RuleResults`: what the rules of a set have found in a push, by name.

Most pushes concern few rules. A result of a rule that found nothing is made when it is read.

Cost contract: nothing for a rule that found nothing, until its result is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any


class RuleResults(Mapping[str, Any]):
    """The results of all rules, in the order of the rule set.

    >>> results = RuleResults({"a": 0, "b": 1}, {"b": "found"}, lambda name: f"nothing of {name}")
    >>> dict(results), results.found
    ({'a': 'nothing of a', 'b': 'found'}, {'b': 'found'})
    """

    def __init__(
        self, names: Mapping[str, int], found: dict[str, Any], make: Callable[[str], Any]
    ) -> None:
        """`make` returns the empty result of a rule that is not in `found`."""
        self._names = names
        self._found = found
        self._nothing: dict[str, Any] = {}
        self._make = make

    @property
    def found(self) -> Mapping[str, Any]:
        """The results of those rules that may have found something."""
        return self._found

    def __getitem__(self, name: str) -> Any:
        known = self._found.get(name)
        if known is None:
            known = self._nothing.get(name)
        if known is None and name in self._names:
            known = self._nothing[name] = self._make(name)
        if known is None:
            raise KeyError(name)
        return known

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self)!r})"
