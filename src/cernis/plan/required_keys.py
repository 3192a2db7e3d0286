"""The keys of a PARTITION BY inside a formula with `->`, as conditions on single events.

An event without the key does not fit after a `->`. Links between events compare keys, but an event
that begins a part has no link that asks for its own.
"""

from __future__ import annotations

from dataclasses import replace

from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.query import Pattern
from cernis.pattern.waits import has_arrow, list_events


def require_keys(pattern: Pattern) -> Pattern:
    """Return the pattern with a condition for each key, if its formula has an arrow.

    >>> from cernis.languages.ceql import parse
    >>> print(require_keys(parse("SELECT * WHERE A -> (B+ PARTITION BY [B[x]])")))
    SELECT * WHERE A -> (B+ FILTER B[x IS NOT NULL] PARTITION BY [B[x]])
    """
    if not has_arrow(pattern.formula):
        return pattern
    return replace(pattern, formula=_require(pattern.formula))


def _require(node: cel.Formula) -> cel.Formula:
    """Return a node with conditions for the keys at and below it."""
    match node:
        case cel.Not():
            return node
        case cel.PartitionBy(body=body, keys=keys):
            every = sorted({min(names) for _, names in list_events(body)})
            conditions = dict.fromkeys(
                pred.Holds(name, pred.IsNull(key.attribute, negated=True))
                for key in keys
                for name in ([key.variable] if key.variable is not None else every)
            )
            required = pred.AllOf(tuple(conditions))
            return replace(node, body=cel.Filter(_require(body), required))
        case _:
            return cel.map_children(node, _require)
