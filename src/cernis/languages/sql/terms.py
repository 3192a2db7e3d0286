"""What a condition of DEFINE or a measure looks at: rows of the match, and aggregates over them.

An expression of the clause is a scalar expression over *terms*. A `RowTerm` is a value of one row:
the first or last row of a variable, some rows away. A column is the last row of its variable, and
without a variable the last row of the match. An `AggregateTerm` is an aggregate over the rows of a
variable. `find_terms` replaces each term by a column `@t0`, `@t1`, …; the host evaluates the rest.

Everything that the standard does not allow inside the clause is refused here, by its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from cernis.errors import Diagnostic, QueryError, Span
from cernis.languages.sql.clause import (
    FUNCTIONS,
    OWN_FUNCTIONS,
    SYNONYMS,
    RecognizeClause,
    SqlExpression,
)
from cernis.pattern.suggest import did_you_mean

CLASSIFIER = "@classifier"
"""The column of the variable that a row of a match is mapped to."""
NUMBER = "@number"
"""The column of MATCH_NUMBER(), inside an aggregate."""
_BY_ALIAS = {f"_{name[1:]}": name for name in (*FUNCTIONS, *OWN_FUNCTIONS)}
_BY_ALIAS |= {f"_{name[1:]}": known for name, known in SYNONYMS.items()}
_REFUSED = {
    exp.Query: "a query inside the clause",
    exp.Subquery: "a query inside the clause",
    exp.Window: "a window function inside the clause",
    exp.Filter: "FILTER inside the clause",
    exp.WithinGroup: "WITHIN GROUP inside the clause",
    exp.Parameter: "a parameter inside the clause",
    exp.Placeholder: "a parameter inside the clause",
}


@dataclass(frozen=True)
class RowTerm:
    """A value of the first or last row of some variables, or of a row near it."""

    variables: frozenset[str] | None
    """None: all rows of the match."""
    value: exp.Expr
    first: bool = False
    offset: int = 0
    """How many rows of the variables after the first, or before the last."""
    shift: int = 0
    """How many rows of the partition later; PREV is negative."""
    final: bool = False
    """Whether the rows after the current one count, too."""

    @property
    def has_classifier(self) -> bool:
        return any(column.name == CLASSIFIER for column in self.value.find_all(exp.Column))

    @property
    def is_label(self) -> bool:
        """Return whether the value is CLASSIFIER() as it stands."""
        return isinstance(self.value, exp.Column) and self.has_classifier

    def is_current(self, variable: str) -> bool:
        """Return whether the row is the one that is tried as a variable, or a neighbour of it."""
        own = self.variables is None or variable in self.variables
        return own and not self.first and self.offset == 0 and not self.has_classifier


@dataclass(frozen=True)
class AggregateTerm:
    """An aggregate over the rows of some variables."""

    variables: frozenset[str] | None
    value: exp.Expr
    final: bool = False


@dataclass(frozen=True)
class MatchNumberTerm:
    """MATCH_NUMBER()."""


Term = RowTerm | AggregateTerm | MatchNumberTerm


@dataclass(frozen=True)
class TermExpression:
    """A scalar expression over terms: column `@t0` stands for the first of them."""

    tree: exp.Expr
    terms: tuple[Term, ...]
    source: SqlExpression


def name_term(number: int) -> str:
    return f"@t{number}"


def find_terms(
    expression: SqlExpression, clause: RecognizeClause, text: str, *, variable: str | None = None
) -> TermExpression:
    """Return the terms of an expression: of a measure, or of a condition on a variable."""
    return _TermReader(expression, clause, text, variable).read()


class _TermReader:
    def __init__(
        self, expression: SqlExpression, clause: RecognizeClause, text: str, variable: str | None
    ) -> None:
        self.expression = expression
        self.clause = clause
        self.text = text
        self.variable = variable
        self.names = (*clause.variables, *clause.subsets)
        self.terms: list[Term] = []
        self.modes = dict(expression.modes)

    def fail(self, message: str, node: exp.Expr, **more: Any) -> QueryError:
        span = self.expression.locate(node)
        return QueryError([Diagnostic(message, span, **more)], self.text)

    def read(self) -> TermExpression:
        tree = self._replace(self.expression.tree.copy())
        for call, mode in self.modes.items():
            begin = self.expression.span.start
            span = Span(begin + call.start, begin + call.end)
            message = f"{mode} stands before FIRST, LAST or an aggregate"
            raise QueryError([Diagnostic(message, span)], self.text)
        return TermExpression(tree, tuple(self.terms), self.expression)

    def _replace(self, node: exp.Expr) -> exp.Expr:
        self._refuse(node)
        function = _function_name(node)
        if function is not None:
            return self._add(self._read_function(node, function))
        if isinstance(node, exp.AggFunc):
            return self._add(self._read_aggregate(node))
        if isinstance(node, exp.Column):
            value = node.copy()
            return self._add(RowTerm(self._strip(holder := exp.Paren(this=value)), holder.this))
        for child in list(node.iter_expressions()):
            replaced = self._replace(child)
            if replaced is not child:
                child.replace(replaced)
        return node

    def _refuse(self, node: exp.Expr) -> None:
        for kind, told in _REFUSED.items():
            if isinstance(node, kind):
                raise self.fail(f"{told} is not supported", node)

    def _add(self, term: Term) -> exp.Expr:
        if term not in self.terms:
            self.terms.append(term)
        return exp.column(exp.to_identifier(name_term(self.terms.index(term)), quoted=True))

    # ---------------------------------------------------------------- functions

    def _read_function(self, node: exp.Expr, name: str) -> Term:
        arguments = node.expressions
        if name == "MATCH_NUMBER":
            if arguments:
                raise self.fail("MATCH_NUMBER takes no value", arguments[0])
            return MatchNumberTerm()
        if name in OWN_FUNCTIONS:
            return self._read_own_function(node, name)
        if name == "CLASSIFIER":
            holder = exp.Paren(this=node.copy())
            return RowTerm(self._strip(holder), holder.this, final=False)
        if not arguments or len(arguments) > 2:
            raise self.fail(f"{name} takes a value, and a number of rows", node)
        number = self._read_offset(node, name)
        if name in ("PREV", "NEXT"):
            shift = -number if name == "PREV" else number
            inner = arguments[0]
            nested = _function_name(inner)
            if nested in ("FIRST", "LAST"):
                return self._read_ends(inner, nested, shift)
            return self._read_value(inner, node, shift=shift)
        return self._read_ends(node, name, 0)

    def _read_own_function(self, node: exp.Expr, name: str) -> Term:
        """Return the term of a function that one database has, and the standard has not."""
        if self.variable is not None:
            raise self.fail(f"{name}() is no part of DEFINE", node)
        if name == "MATCH_SEQUENCE_NUMBER":
            return AggregateTerm(None, exp.Count(this=exp.Star()))
        order = self.clause.order[0].tree.this if self.clause.order else None
        if name == "MATCH_PROCTIME" or not isinstance(order, exp.Column):
            raise self.fail(
                f"{name}() is not supported here",
                node,
                suggestion="MATCH_ROWTIME() is the last row's value of a column in ORDER BY",
            )
        return RowTerm(None, order.copy(), final=True)

    def _read_ends(self, node: exp.Expr, name: str, shift: int) -> Term:
        final = self._read_mode(node)
        offset = self._read_offset(node, name) if len(node.expressions) > 1 else 0
        return self._read_value(
            node.expressions[0],
            node,
            first=name == "FIRST",
            offset=offset,
            shift=shift,
            final=final,
        )

    def _read_value(self, value: exp.Expr, node: exp.Expr, **where: Any) -> Term:
        holder = exp.Paren(this=value.copy())
        if (inner := holder.find(exp.AggFunc)) is not None:
            raise self.fail("an aggregate inside of a function of one row", inner)
        variables = self._strip(holder)
        if not list(holder.find_all(exp.Column)):
            raise self.fail("the value has no column, so it belongs to no row", node)
        term = RowTerm(variables, holder.this, **where)
        return self._move_label(term, node) if term.shift and term.has_classifier else term

    def _move_label(self, term: RowTerm, node: exp.Expr) -> Term:
        """Return PREV or NEXT of CLASSIFIER(): rows outside of the match have no variable."""
        if any(column.name != CLASSIFIER for column in term.value.find_all(exp.Column)):
            raise self.fail("PREV and NEXT look at columns or at CLASSIFIER(), not at both", node)
        if self.variable is None:
            return term
        current = term.variables is None or self.variable in term.variables
        if not current or term.first or term.offset or term.shift > 0:
            raise self.fail(
                "in DEFINE, PREV and NEXT of CLASSIFIER() look back from the current row", node
            )
        return RowTerm(None, term.value, offset=-term.shift)

    def _read_offset(self, node: exp.Expr, name: str) -> int:
        if len(node.expressions) == 1:
            return 1 if name in ("PREV", "NEXT") else 0
        number = node.expressions[1]
        if not isinstance(number, exp.Literal) or number.is_string or not number.this.isdigit():
            raise self.fail(f"the number of rows of {name} is a whole number", number)
        if len(number.this) > 9:
            raise self.fail("the number of rows is too large", number)
        return int(number.this)

    def _read_aggregate(self, node: exp.Expr) -> Term:
        final = self._read_mode(node)
        holder = exp.Paren(this=node.copy())
        for inner in holder.this.find_all(exp.AggFunc):
            if inner is not holder.this:
                raise self.fail("an aggregate inside an aggregate", node)
        return AggregateTerm(self._strip(holder), holder.this, final)

    def _read_mode(self, node: exp.Expr) -> bool:
        metas = [each.meta for each in node.walk() if "start" in each.meta]
        inside = (
            call
            for call in self.modes
            if all(call.start <= meta["start"] and meta["end"] < call.end for meta in metas)
        )
        call = next(inside, None) if metas else None
        mode = None if call is None else self.modes.pop(call)
        if mode == "FINAL" and self.variable is not None:
            raise self.fail("FINAL is no part of DEFINE: later rows are not known yet", node)
        return mode == "FINAL"

    # ------------------------------------------------------------------ columns

    def _strip(self, holder: exp.Expr) -> frozenset[str] | None:
        """Take the variable off the columns below a node; return what it stands for.

        CLASSIFIER() becomes a column.
        """
        found: dict[str | None, exp.Expr] = {}
        for node in list(holder.find_all(exp.Column, exp.Anonymous, exp.Query, exp.Window)):
            self._refuse(node)
            function = _function_name(node)
            if function == "CLASSIFIER":
                found.setdefault(self._read_classifier(node), node)
                node.replace(exp.column(exp.to_identifier(CLASSIFIER, quoted=True)))
            elif function == "MATCH_NUMBER" and self.variable is None:
                node.replace(exp.column(exp.to_identifier(NUMBER, quoted=True)))
            elif function is not None:
                raise self.fail(f"{function} inside of another function of rows", node)
            elif isinstance(node, exp.Column) and not _is_classified(node) and node.name != NUMBER:
                found.setdefault(self._strip_column(node), node)
        if len(found) > 1:
            told = " and ".join(sorted(each or "all rows" for each in found))
            raise self.fail(f"one value looks at rows of {told}", [*found.values()][-1])
        variable = next(iter(found), None)
        return None if variable is None else frozenset(self.clause.expand(variable))

    def _read_classifier(self, node: exp.Expr) -> str | None:
        if not node.expressions:
            return None
        column = node.expressions[0]
        if len(node.expressions) > 1 or not isinstance(column, exp.Column) or column.table:
            raise self.fail("CLASSIFIER takes the name of a variable", node)
        return self._check_variable(column.this, node)

    def _strip_column(self, column: exp.Column) -> str | None:
        """Take the variable off a column; fields of structures stay."""
        parts = column.parts
        if len(parts) == 1:
            return None
        name = self._check_variable(parts[0], column)
        rest = list(parts[1:])
        if isinstance(rest[0], exp.Star):
            column.replace(exp.Star())
            return name
        value: exp.Expr = exp.Column(this=rest[0].copy())
        value.this.meta.update(rest[0].meta)
        for field in rest[1:]:
            value = exp.Dot(this=value, expression=field.copy())
        column.replace(value)
        return name

    def _check_variable(self, identifier: exp.Expr, node: exp.Expr) -> str:
        name = identifier.name
        quote = self.text[self.expression.locate(identifier).start]
        if not identifier.args.get("quoted") or quote == "`":
            name = name.upper()
        if name not in self.names:
            raise self.fail(
                f"'{identifier.name}' is no variable of PATTERN",
                identifier,
                suggestion=did_you_mean(name, self.names),
            )
        return name


def _is_classified(column: exp.Column) -> bool:
    """Return whether a column is the argument of CLASSIFIER."""
    return column.parent is not None and _function_name(column.parent) == "CLASSIFIER"


def _function_name(node: exp.Expr) -> str | None:
    """Return which function of row patterns a node calls."""
    if isinstance(node, exp.Anonymous):
        return _BY_ALIAS.get(str(node.this).upper())
    return None


def split_conjunction(tree: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the conditions that AND joins."""
    if isinstance(tree, exp.Paren):
        yield from split_conjunction(tree.this)
    elif isinstance(tree, exp.And):
        yield from split_conjunction(tree.left)
        yield from split_conjunction(tree.right)
    else:
        yield tree
