"""`Family`: rules that differ in one constant alone run as one query, whose matches are told apart.

A thousand rules on a thousand hosts are one pattern and a thousand constants: each asks of every
event that can move it that `host = c`. So the events of different rules are different, and the
matches of all of them are those of one query, partitioned by `host` too, on the hosts of the rules.
The host of the event that ends a match says whose match it is.

Only where nothing but the order of events counts (`routing.why_whole`), and no clause chooses
between matches of different partitions. Only for whole runs: a session of rules that may change has
a state for each rule.

Cost contract: a family costs one query over the events of all its rules, and some microseconds for
each rule. State: one arena, and the events of all rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cernis.errors import CernisError
from cernis.events.source import DescribedStream
from cernis.events.times import is_text
from cernis.output import UsedFile
from cernis.pattern import predicate as pred
from cernis.pattern.query import Consume, Pattern
from cernis.pattern.selection import counts_only
from cernis.results.matches import Matches
from cernis.results.unary import CompactMatches
from cernis.run.query import Query
from cernis.run.routing import Constant, ConstantTest, sort_places
from cernis.run.rule import Rule

SMALLEST = 8
"""Fewer rules run one by one."""


@dataclass(frozen=True, eq=False)
class Family:
    """Rules that differ in the constant that an attribute equals, and the query of all of them."""

    rules: tuple[Rule, ...]
    attribute: str
    constants: tuple[Constant, ...]
    whole: Rule
    """It has the name of the first rule, whose text its mistakes show."""

    def fits(self, streams: Sequence[DescribedStream]) -> bool:
        """Return whether equal values of the attribute are equal keys, by its type."""
        types = [
            stream.schema.field(self.attribute).type
            for stream in streams
            if self.attribute in stream.schema.names
        ]
        values = [t.value_type if pa.types.is_dictionary(t) else t for t in types]
        is_kind = is_text if isinstance(self.constants[0], str) else pa.types.is_integer
        return bool(values) and all(map(is_kind, values))

    def split(
        self, found: Matches, notes: Sequence[str], used: Sequence[UsedFile]
    ) -> Iterator[tuple[Rule, Matches]]:
        """Yield the matches of each rule, with the notes of all rules and the files of the run."""
        compact, store = found.match_set, found.store
        assert isinstance(compact, CompactMatches)
        shares = [self._share_out(segment.roots["end"], found) for segment in compact.segments]
        for number, rule in enumerate(self.rules):
            segments = [
                segment._replace(roots=segment.roots[own])
                for segment, share in zip(compact.segments, shares, strict=True)
                if len(own := share[number])
            ]
            own_set = CompactMatches(compact.variables, segments, compact.labels, compact.most)
            pattern, plan = rule.query.pattern, rule.query.plan
            told = [*notes, *plan.warnings, *plan.notes]
            yield rule, Matches(own_set, store, pattern, notes=told, used=used)

    def _share_out(self, ends: np.ndarray[Any, Any], found: Matches) -> list[np.ndarray[Any, Any]]:
        """Return which roots are those of each rule, in their order."""
        values = found.store.column(ends.astype(np.int64), self.attribute)
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        constants = pa.array(self.constants).cast(values.type)
        whose = np.asarray(pc.index_in(values, constants).fill_null(-1))
        order = sort_places(whose, len(self.rules))
        cuts = np.searchsorted(whose[order], np.arange(len(self.rules) + 1))
        return [order[low:high] for low, high in pairwise(cuts)]


class RuleFamilies(NamedTuple):
    """The families of a rule set, and the rules that run by themselves, in their order."""

    families: Mapping[str, Family]
    """By the names of their first rules."""
    rules: tuple[Rule, ...]
    """The queries of families in the places of their first rules, and all others."""


def find_families(rules: Sequence[Rule]) -> RuleFamilies:
    """Return the families of rules."""
    members: dict[tuple[Any, ...], list[tuple[Rule, Constant]]] = {}
    for rule in rules:
        if (test := _find_constant(rule)) is not None:
            name, value = test
            blank = pred.InSet(pred.Attribute((name or "",)), ())
            template = _replace_test(rule.query.pattern.formula, test, blank)
            key = (name, type(value), replace(rule.query.pattern, formula=template))
            members.setdefault(key, []).append((rule, value))
    families: dict[str, Family] = {}
    inside: set[str] = set()
    for (name, *_), several in members.items():
        constants = tuple(constant for _, constant in several)
        if len(several) < SMALLEST or len({*constants}) < len(constants):
            continue
        own = tuple(rule for rule, _ in several)
        try:
            whole = _unite(own[0], ConstantTest(name, constants[0]), constants)
        except CernisError:  # no query of its own: the attribute is taken, a limit is passed
            continue
        families[own[0].name] = Family(own, name, constants, whole)
        inside.update(rule.name for rule in own[1:])
    left = tuple(
        families[rule.name].whole if rule.name in families else rule
        for rule in rules
        if rule.name not in inside
    )
    return RuleFamilies(families, left)


def _find_constant(rule: Rule) -> ConstantTest | None:
    """Return the equality that holds for every event that can move a rule, if there is one."""
    pattern, plan = rule.query.pattern, rule.query.plan
    chooses = pattern.consume is not Consume.NONE or pattern.suppress is not None
    chooses = chooses or pattern.order is not None or pattern.into is not None
    if chooses or pattern.declared is not None or counts_only(pattern) or plan.unary is None:
        return None
    if rule.whole or plan.tables is not None or rule.equalities is None:
        return None
    if len(rule.equalities) != 1:
        return None
    (test,) = rule.equalities
    is_plain = test.attribute is not None and "." not in test.attribute
    if not is_plain or (test.attribute,) in pattern.partition:
        return None
    return test if type(test.value) in (str, int) else None


def _unite(first: Rule, test: ConstantTest, constants: Sequence[Constant]) -> Rule:
    """Return the query of all rules of a family."""
    pattern: Pattern = first.query.pattern
    name = test.attribute or ""
    literals = tuple(pred.Literal(constant) for constant in constants)
    one_of = pred.InSet(pred.Attribute((name,)), literals)
    formula = _replace_test(pattern.formula, test, one_of)
    partition = (*pattern.partition, (name,))
    query: Query[Any] = Query(replace(pattern, formula=formula, partition=partition))
    return Rule(first.name, query, first.origin)


def _replace_test(node: Any, test: ConstantTest, by: pred.InSet) -> Any:
    """Return a formula in which another predicate stands for `attribute = constant`."""
    if isinstance(node, tuple):
        return tuple(_replace_test(part, test, by) for part in node)
    if not is_dataclass(node) or isinstance(node, type):
        return node
    if isinstance(node, pred.Comparison) and node.op == "=":
        sides = (node.left, node.right)
        attributes = [side for side in sides if isinstance(side, pred.Attribute)]
        literals = [side for side in sides if isinstance(side, pred.Literal)]
        if (
            len(attributes) == len(literals) == 1
            and attributes[0].path == (test.attribute,)
            and literals[0].value == test.value
            and type(literals[0].value) is type(test.value)
        ):
            return replace(by, span=node.span)
    changed = {}
    for each in fields(node):
        value = getattr(node, each.name)
        if each.init and (isinstance(value, tuple) or is_dataclass(value)):
            new = _replace_test(value, test, by)
            if new is not value:
                changed[each.name] = new
    return replace(node, **changed) if changed else node
