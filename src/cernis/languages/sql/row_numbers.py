"""Oracle's ROWNUM, in the words that other databases have for it.

Oracle numbers the rows that a query block has found, before it sorts and groups them. So in what
the block selects, ROWNUM is ROW_NUMBER() in any order, and in its WHERE a bound on ROWNUM is a
LIMIT, unless the block sorts, groups or sums up its rows. Everywhere else it is refused.
"""

from __future__ import annotations

from sqlglot import exp

from cernis.errors import Diagnostic, QueryError, Span

_HINT = "FETCH FIRST n ROWS ONLY, or ROW_NUMBER() OVER (ORDER BY …)"
_FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.EQ: exp.EQ,
}
_BEFORE_LIMIT = ("group", "having", "distinct", "order", "limit", "offset", "qualify", "windows")


def is_row_number(node: exp.Expr | None) -> bool:
    """Return whether a node is ROWNUM."""
    if not isinstance(node, exp.Column) or node.table:
        return False
    return node.name.upper() == "ROWNUM" and not node.this.args.get("quoted")


def replace_row_numbers(select: exp.Select) -> None:
    """Write the ROWNUM of a query block in other words; leave what has none."""
    own = [one for one in select.find_all(exp.Column) if is_row_number(one)]
    own = [one for one in own if one.parent_select is select]
    where = select.args.get("where")
    if where is not None and not _sums_up(select):
        parts = [*where.this.flatten()] if isinstance(where.this, exp.And) else [where.this]
        limits = {id(part): _read_limit(part) for part in parts}
        rest = [part for part in parts if limits[id(part)] is None]
        bounds = [limit for limit in limits.values() if limit is not None]
        if bounds:
            select.set("where", exp.Where(this=exp.and_(*rest)) if rest else None)
            select.set("limit", exp.Limit(expression=exp.Literal.number(max(min(bounds), 0))))
    for column in own:
        shown = any(column in [*item.find_all(exp.Column)] for item in select.expressions)
        inside = column.find_ancestor(exp.AggFunc, exp.Window)
        if shown and inside is None and not select.args.get("group"):
            column.replace(exp.Window(this=exp.RowNumber()))


def refuse_row_numbers(tree: exp.Expr, text: str, offset: int) -> None:
    """Refuse the ROWNUM that is left in a tree, whose text stands at an offset of a statement."""
    for column in tree.find_all(exp.Column):
        if is_row_number(column):
            start = offset + column.this.meta.get("start", 0)
            span = Span(start, start + len("ROWNUM"))
            found = Diagnostic("ROWNUM is not supported here", span, suggestion=_HINT)
            raise QueryError([found], text)


def _sums_up(select: exp.Select) -> bool:
    """Return whether a block sorts, groups or sums up its rows: LIMIT comes after that."""
    if any(select.args.get(name) for name in _BEFORE_LIMIT):
        return True
    items = (one for item in select.expressions for one in item.find_all(exp.AggFunc, exp.Window))
    return any(one.parent_select is select for one in items)


def _read_limit(condition: exp.Expr) -> int | None:
    """Return how many rows a bound on ROWNUM lets through; None: it is no such bound."""
    if not isinstance(condition, exp.LT | exp.LTE | exp.GT | exp.GTE | exp.EQ):
        return None
    kind: type[exp.Expr] = type(condition)
    left, right = condition.left, condition.right
    if is_row_number(right):
        kind, left, right = _FLIPPED.get(kind, exp.NEQ), right, left
    if not is_row_number(left) or not isinstance(right, exp.Literal) or not right.is_int:
        return None
    number = int(right.name)
    if kind is exp.EQ and number == 1:
        return 1
    if kind is exp.LT:
        return number - 1
    return number if kind is exp.LTE else None
