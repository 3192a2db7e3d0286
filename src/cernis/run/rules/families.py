"""`Family`: rules that differ in one constant alone run as one query, whose matches are told apart.

The query is the template of the rules (`templates`): it has no constants, and each rule is some of
its partitions. A `Router` gives it the events of its rules alone. The value of the event that ends
a match says whose match it is. So a rule can join a running family, which has none of its events,
and leave it: then its partitions are dropped.

Cost contract: a family costs one query over the events of all its rules, a look-up for each of
these events, and some microseconds for each rule. State: one arena, and the events of all rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from cernis.encoding.lookup import Lookup
from cernis.errors import CernisError
from cernis.events.batch import EventBatch, Int64s, attribute
from cernis.events.order import Scale
from cernis.events.source import DescribedStream
from cernis.events.times import is_text
from cernis.results.matches import Matches
from cernis.results.unary import CompactMatches
from cernis.run.query import Query
from cernis.run.rules.routing import Constant, ConstantTest, sort_places
from cernis.run.rules.rule import Rule
from cernis.run.rules.templates import Template
from cernis.state import require

SMALLEST = 8
"""Fewer rules run one by one."""


@dataclass(frozen=True, eq=False)
class Family:
    """Rules that differ in the constant that an attribute equals, and the query of all of them."""

    rules: tuple[Rule, ...]
    whole: Query[Any]

    @property
    def template(self) -> Template:
        """The template of the first rule; those of the others differ in the constant."""
        template = self.rules[0].template
        assert template is not None
        return template

    @cached_property
    def constants(self) -> tuple[Constant, ...]:
        return tuple(rule.template.constant for rule in self.rules if rule.template is not None)

    def list_pairs(self) -> Iterator[tuple[str, Constant]]:
        """Yield the name and the constant of each rule."""
        return zip((rule.name for rule in self.rules), self.constants, strict=True)

    @property
    def equalities(self) -> frozenset[ConstantTest]:
        """Those of which one holds for each event of its rules."""
        return frozenset(ConstantTest(self.template.attribute, each) for each in self.constants)

    @cached_property
    def _places(self) -> Lookup:
        """The places of rules by their constants."""
        return Lookup([pa.chunked_array([pa.array(self.constants)])])

    def keep(self, names: Collection[str]) -> Family:
        """Return the family of those rules that have these names."""
        return Family(tuple(rule for rule in self.rules if rule.name in names), self.whole)

    def fits(self, streams: Sequence[DescribedStream], scale: Scale) -> bool:
        """Return whether equal values of the attribute are equal keys, by its type.

        Not where events have no times: conditions on them look at positions.
        """
        name = self.template.attribute
        found = [each.schema.field(name).type for each in streams if name in each.schema.names]
        types = [each.value_type if pa.types.is_dictionary(each) else each for each in found]
        is_kind = is_text if isinstance(self.constants[0], str) else pa.types.is_integer
        return bool(types) and all(map(is_kind, types)) and scale.unit_ns is not None

    def count_events(self, batch: EventBatch) -> Int64s:
        """Return how many events of a batch each rule has."""
        path = (self.template.attribute,)
        columns = [attribute(table, path) for _, table in batch.parts]
        places = [self._places.find([column]) for column in columns if column is not None]
        numbers = np.concatenate([np.empty(0, np.int64), *places])
        return np.bincount(numbers[numbers >= 0], minlength=len(self.rules))

    def split(self, found: Matches) -> Iterator[tuple[int, CompactMatches]]:
        """Yield the matches of each rule that has some, with its place in the family."""
        compact = found.match_set
        assert isinstance(compact, CompactMatches)
        shares: dict[int, list[Any]] = {}
        for segment in compact.segments:
            for place, own in self._share_out(segment.roots["end"], found):
                shares.setdefault(place, []).append(segment._replace(roots=segment.roots[own]))
        for place in sorted(shares):
            segments, labels = shares[place], compact.labels
            yield place, CompactMatches(compact.variables, segments, labels, compact.most)

    def _share_out(
        self, ends: np.ndarray[Any, Any], found: Matches
    ) -> Iterator[tuple[int, Int64s]]:
        """Yield which roots are those of each rule that has some, in their order."""
        values = found.store.column(ends.astype(np.int64), self.template.attribute)
        whose = self._places.find([pa.chunked_array([values])])
        order = sort_places(whose, len(self.rules))
        cuts = np.flatnonzero(np.diff(whose[order], prepend=-2, append=-2))
        for low, high in pairwise(cuts):
            yield int(whose[order[low]]), order[low:high]


def join_family(rules: Sequence[Rule]) -> Family:
    """Return the family of rules that were one before; StateError if they cannot be one."""
    templates = [rule.template for rule in rules]
    shared = {template.shared for template in templates if template is not None}
    constants = {template.constant for template in templates if template is not None}
    require(len(shared) == 1 and len(constants) == len(rules), "other rules are a family")
    return Family(tuple(rules), Query(shared.pop()[-1]))


def find_families(
    rules: Sequence[Rule], before: Sequence[Family] = (), alone: Collection[str] = ()
) -> list[Family]:
    """Return the families of rules.

    Of those that run, `before` are the families, whose rules stay in them and may get others; the
    rules that run `alone` stay alone.
    """
    members: dict[Any, dict[Constant, Rule]] = {}
    wholes: dict[Any, Query[Any]] = {}
    inside = {*alone}
    for family in before:
        key = family.template.shared
        pairs = zip(family.constants, family.rules, strict=True)
        members[key] = dict(pairs)
        wholes[key] = family.whole
        inside.update(rule.name for rule in members[key].values())
    for rule in rules:
        if rule.name not in inside and (template := rule.template) is not None:
            several = members.setdefault(template.shared, {})
            several.setdefault(template.constant, rule)  # another rule on it runs alone
    found = []
    for key, several in members.items():
        if key not in wholes:
            if len(several) < SMALLEST:
                continue
            try:
                wholes[key] = Query(key[-1])
            except CernisError:  # no query of its own: the attribute is taken
                continue
        if several:
            found.append(Family(tuple(several.values()), wholes[key]))
    return found
