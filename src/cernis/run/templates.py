"""`Template`: a rule without the constant that all its events have.

A thousand rules on a thousand hosts are one pattern and a thousand constants: each asks of every
event that can move it that `host = c`. Without that question, and partitioned by `host` too, they
are the same query. Its caller passes it the events of these hosts only (`families`).

Only where nothing but the order of events counts (`routing.why_whole`), and no clause chooses
between matches of different partitions.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple

from cernis.pattern import predicate as pred
from cernis.pattern.query import Consume, Pattern
from cernis.pattern.selection import counts_only
from cernis.plan.plan import Plan
from cernis.run.routing import Constant, ConstantTest, find_equalities, why_whole


class Template(NamedTuple):
    """A query that rules share, and the constant by which one of them differs."""

    test: ConstantTest
    pattern: Pattern
    """It is partitioned by the attribute of the test, before all others."""

    @property
    def attribute(self) -> str:
        return self.test.attribute or ""

    @property
    def constant(self) -> Constant:
        return self.test.value

    @property
    def shared(self) -> tuple[str, type[Constant], Pattern]:
        """What the rules of a family have in common."""
        return self.attribute, type(self.constant), self.pattern


def find_template(pattern: Pattern, plan: Plan) -> Template | None:
    """Return a query without the constant of all its events; None: they have none in common.

    >>> from cernis.run.query import Query
    >>> query = Query("SELECT * FROM S WHERE (A AS a ; B AS b) FILTER a[x = 1] AND b[x = 1]")
    >>> test, pattern = find_template(query.pattern, query.plan)
    >>> print(test)
    x = 1
    >>> print(pattern)
    SELECT * FROM S WHERE (A AS a ; B AS b) FILTER a[x IS NOT NULL] AND b[x IS NOT NULL] \
PARTITION BY [x]
    """
    chooses = pattern.consume is not Consume.NONE or pattern.suppress is not None
    chooses = chooses or pattern.order is not None or pattern.into is not None
    if chooses or pattern.declared is not None or counts_only(pattern) or plan.unary is None:
        return None
    if plan.tables is not None or why_whole(plan):
        return None
    equalities = find_equalities(plan)
    if equalities is None or len(equalities) != 1:
        return None
    (test,) = equalities
    name = test.attribute
    if name is None or "." in name or (name,) in pattern.partition:
        return None
    if type(test.value) not in (str, int):
        return None
    formula = _replace_test(pattern.formula, test, pred.IsNull(pred.Attribute((name,)), True))
    partition = ((name,), *pattern.partition)
    return Template(test, replace(pattern, formula=formula, partition=partition))


def _replace_test(node: Any, test: ConstantTest, by: pred.IsNull) -> Any:
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
