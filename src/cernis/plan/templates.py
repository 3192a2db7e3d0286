"""`Template`: a rule without the constant that all its events have.

A thousand rules on a thousand hosts are one pattern and a thousand constants: each asks of every
event that can move it that `host = c`. Without that question, and partitioned by `host` too, they
are the same query. Its caller passes it the events of these hosts only (`run.rules.shared.group`).

Only where nothing but the order of events counts (`equalities.why_whole`), and no clause chooses
between matches of different partitions.

The plan of a rule says whether it has a template. Rules that differ in the constant alone have the
same plan but for that constant, so one of them is planned for all.

Cost contract: a plan for each template, and a walk over the formula for each rule.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from decimal import Decimal
from typing import Any, NamedTuple

from cernis.pattern import predicate as pred
from cernis.pattern.query import Consume, Pattern, counts_only
from cernis.pattern.simple_tests import Constant, ConstantTest
from cernis.plan.equalities import find_equalities, why_whole
from cernis.plan.plan import Plan


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


def find_template(pattern: Pattern, plan: Callable[[], Plan]) -> Template | None:
    """Return a query without the constant of all its events; None: they have none in common.

    The `plan` is made if no template like it is known.

    >>> from cernis.languages.ceql.parse import parse
    >>> from cernis.plan.plan import make_plan
    >>> query = parse("SELECT * FROM S WHERE (A AS a ; B AS b) FILTER a[x = 1] AND b[x = 1]")
    >>> test, pattern = find_template(query, lambda: make_plan(query))
    >>> print(test)
    x = 1
    >>> print(pattern)
    SELECT * FROM S WHERE (A AS a ; B AS b) FILTER a[x IS NOT NULL] AND b[x IS NOT NULL] \
PARTITION BY [x]
    """
    tests, size = _list_constants(pattern)
    for test in tests:
        if (test.attribute, type(test.value), size) in _sizes:
            guess = _guess_template(pattern, test)
            if guess is not None and guess.shared in _known:
                return guess
    template = _find_by_plan(pattern, plan())
    if template is not None and template == _guess_template(pattern, template.test):
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
            _sizes.clear()
        _known.add(template.shared)
        _sizes.add((template.attribute, type(template.constant), size))
    return template


_MOST_KNOWN = 1 << 12
_known: set[tuple[str, type[Constant], Pattern]] = set()
"""What the rules of a template share, of templates that a plan has confirmed."""
_sizes: set[tuple[str | None, type[Constant], int]] = set()
"""The attributes of these templates, their types, and the numbers of nodes of the formulas."""


def _list_constants(pattern: Pattern) -> tuple[list[ConstantTest], int]:
    """Return the attributes that are compared with one constant alone, and the number of nodes."""
    found: dict[str, set[tuple[type[Constant], Constant]]] = {}
    nodes: list[Any] = [pattern.formula]
    size = 0
    while nodes:
        node = nodes.pop()
        size += 1
        test = _read_equality(node)
        if test is not None and test.attribute is not None and type(test.value) in (str, int):
            found.setdefault(test.attribute, set()).add((type(test.value), test.value))
        nodes += _list_parts(node)
    once = ((name, several) for name, several in found.items() if len(several) == 1)
    return [ConstantTest(name, value) for name, several in once for _, value in several], size


def _guess_template(pattern: Pattern, test: ConstantTest) -> Template | None:
    """Return what the template of a pattern may be, for an attribute with one constant.

    Nothing else in the formula looks at the attribute. So a pattern with another constant in its
    place, of the same type, has the same plan but for the constant.
    """
    template = _replace_constant(pattern, test)
    is_free = not _mentions(template.pattern.formula, test.attribute or "")
    return template if is_free else None


def _mentions(node: Any, name: str) -> bool:
    """Return whether something other than IS NULL looks at an attribute."""
    if isinstance(node, pred.IsNull):
        return False
    if isinstance(node, pred.Attribute):
        return node.path[0] == name
    return any(_mentions(part, name) for part in _list_parts(node))


def _list_parts(node: Any) -> Iterator[Any]:
    if isinstance(node, tuple):
        yield from node
        return
    for name in _list_fields(type(node)):
        value = getattr(node, name)
        if isinstance(value, tuple) or _list_fields(type(value)):
            yield value


_fields: dict[type, tuple[str, ...]] = {}


def _list_fields(kind: type) -> tuple[str, ...]:
    """Return the fields that a class of nodes is made with; () for what is no node."""
    if kind not in _fields:
        made = fields(kind) if is_dataclass(kind) else ()
        _fields[kind] = tuple(each.name for each in made if each.init)
    return _fields[kind]


def _find_by_plan(pattern: Pattern, plan: Plan) -> Template | None:
    """Return the template of a rule, by the equalities in its plan."""
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
    return _replace_constant(pattern, test)


def _replace_constant(pattern: Pattern, test: ConstantTest) -> Template:
    """Return a pattern without a test, partitioned by its attribute."""
    name = test.attribute or ""
    formula = _replace_test(pattern.formula, test, pred.IsNull(pred.Attribute((name,)), True))
    partition = ((name,), *pattern.partition)
    return Template(test, replace(pattern, formula=formula, partition=partition))


def _replace_test(node: Any, test: ConstantTest, by: pred.IsNull) -> Any:
    """Return a formula in which another predicate stands for `attribute = constant`."""
    if isinstance(node, tuple):
        parts = tuple(_replace_test(part, test, by) for part in node)
        return node if all(map(operator.is_, node, parts)) else parts
    found = _read_equality(node)
    if found == test and type(found.value) is type(test.value):
        return replace(by, span=node.span)
    changed = {}
    for name in _list_fields(type(node)):
        value = getattr(node, name)
        if isinstance(value, tuple) or _list_fields(type(value)):
            new = _replace_test(value, test, by)
            if new is not value:
                changed[name] = new
    return replace(node, **changed) if changed else node


def _read_equality(node: Any) -> ConstantTest | None:
    """Return `attribute = constant`, if a node is one."""
    if not isinstance(node, pred.Comparison) or node.op != "=":
        return None
    sides = (node.left, node.right)
    attributes = [side for side in sides if isinstance(side, pred.Attribute)]
    literals = [side for side in sides if isinstance(side, pred.Literal)]
    if len(attributes) == len(literals) == 1 and len(attributes[0].path) == 1:
        value = literals[0].value
        return None if isinstance(value, Decimal) else ConstantTest(attributes[0].path[0], value)
    return None
