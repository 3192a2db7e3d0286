"""The conditions of DEFINE: masks that the host computes, programs for what depends on the path.

A condition is *path-independent* if it looks at the row that is tried and at its neighbours in the
partition. The host computes it as a column of truth values. Of any other condition, the parts that
AND joins are taken apart: those that are path-independent go to the host, and the rest becomes a
program of the stack machine in `engine.rows.search`.

The host evaluates as much of such a program as looks at one row: `LAST(A.ts) + INTERVAL '1' HOUR`
is a column of the host, read at the last row of A. What is left compares and adds values of several
rows. It may calculate, compare, choose, count the time between two rows in a unit, and join by AND,
OR and NOT; any other function of several rows is refused by its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sqlglot import exp

from cernis.engine.rows import search
from cernis.engine.rows.search import Programs, Registers
from cernis.errors import Diagnostic, QueryError, Span
from cernis.languages.sql.clause import RecognizeClause
from cernis.languages.sql.terms import (
    AggregateTerm,
    MatchNumberTerm,
    RowTerm,
    Term,
    TermExpression,
    find_terms,
    name_term,
    split_conjunction,
)
from cernis.plan.rows.kinds import CONSTANT_KINDS, TRUNCATES, ValueKind

_SECONDS = {
    "WEEK": 604_800,
    "DAY": 86_400,
    "HOUR": 3_600,
    "MINUTE": 60,
    "SECOND": 1,
    "MILLISECOND": 1e-3,
    "MICROSECOND": 1e-6,
}
_BINARY: dict[type[exp.Expr], int] = {
    exp.Add: search.ADD,
    exp.Sub: search.SUBTRACT,
    exp.Mul: search.MULTIPLY,
    exp.Mod: search.MODULO,
    exp.EQ: search.EQUAL,
    exp.LT: search.LESS,
    exp.LTE: search.LESS_EQUAL,
    exp.And: search.AND,
    exp.Or: search.OR,
}
_UNARY: dict[type[exp.Expr], int] = {
    exp.Not: search.NOT,
    exp.Neg: search.NEGATE,
    exp.Abs: search.ABSOLUTE,
    exp.Floor: search.FLOOR,
    exp.Ceil: search.CEIL,
    exp.Sqrt: search.SQUARE_ROOT,
}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In)
_NOT_STRICT = (exp.Func, exp.Is, exp.And, exp.Or, exp.Case, exp.In, exp.NullSafeEQ, exp.NullSafeNEQ)
"""What may be something else than NULL of a NULL."""
_AGGREGATES: dict[type[exp.Expr], int] = {
    exp.Sum: search.SUM,
    exp.Min: search.LEAST,
    exp.Max: search.GREATEST,
}


@dataclass(frozen=True)
class HostValue:
    """A value of one row that the host computes: an expression over terms of that row."""

    tree: exp.Expr
    terms: tuple[Term, ...]
    missing: bool = False
    """Whether it is the value where there is no such row."""
    span: Span | None = field(default=None, compare=False)
    """The condition that has it."""


@dataclass(frozen=True)
class RowConditions:
    """The conditions of all variables, in their order."""

    masks: tuple[HostValue | None, ...]
    """What the host computes; None: it is always true."""
    values: tuple[HostValue, ...]
    """What programs look at."""
    registers: Registers | None
    """None: no condition depends on the path."""
    programs: Programs | None
    dependent: tuple[str, ...]
    """The variables whose condition depends on the path."""

    @property
    def are_numbered(self) -> bool:
        """Whether some condition looks at MATCH_NUMBER()."""
        return self.registers is not None and search.MATCH_NUMBER in self.registers.kind


def plan_conditions(clause: RecognizeClause, text: str) -> RowConditions:
    """Divide the conditions of a clause between the host and the matcher."""
    masks: list[HostValue | None] = []
    writer = _ProgramWriter(clause, text)
    dependent: list[str] = []
    for variable in clause.variables:
        mask: exp.Expr | None = None
        terms: tuple[Term, ...] = ()
        if variable in clause.define:
            condition = find_terms(clause.define[variable], clause, text, variable=variable)
            terms = condition.terms
            residual = []
            for part in split_conjunction(condition.tree):
                if all(_is_current(term, variable) for term in _list_terms(part, terms)):
                    mask = part.copy() if mask is None else exp.and_(mask, part.copy())
                else:
                    residual.append(part)
            if residual:
                writer.write(condition, variable, residual)
                dependent.append(variable)
        span = clause.define[variable].span if variable in clause.define else None
        masks.append(None if mask is None else HostValue(mask, terms, span=span))
        writer.end()
    if not dependent:
        return RowConditions(tuple(masks), (), None, None, ())
    return RowConditions(
        tuple(masks),
        tuple(writer.values),
        writer.make_registers(),
        writer.make_programs(),
        tuple(dependent),
    )


def _list_terms(tree: exp.Expr, terms: Sequence[Term]) -> list[Term]:
    numbers = {name_term(number): number for number in range(len(terms))}
    return [terms[numbers[c.name]] for c in tree.find_all(exp.Column) if c.name in numbers]


def _is_current(term: Term, variable: str) -> bool:
    return isinstance(term, RowTerm) and term.is_current(variable)


Pointer = tuple[frozenset[str] | None, bool, int]
_CURRENT: Pointer = (None, False, -1)


@dataclass
class _ProgramWriter:
    """Writes the programs of one clause, which share values and registers."""

    clause: RecognizeClause
    text: str
    values: list[HostValue] = field(default_factory=list)
    operations: list[tuple[int, int, int, float]] = field(default_factory=list)
    firsts: list[int] = field(default_factory=lambda: [0])
    groups: list[tuple[int, int, int, int, frozenset[str] | None]] = field(default_factory=list)
    initial: list[float] = field(default_factory=list)

    def write(self, condition: TermExpression, variable: str, parts: Sequence[exp.Expr]) -> None:
        self.condition, self.variable = condition, variable
        for number, part in enumerate(parts):
            self._write(part, 1)
            if number:
                self._emit(search.AND)

    def end(self) -> None:
        """End the program of a variable."""
        self.firsts.append(len(self.operations))

    def make_programs(self) -> Programs:
        columns = list(zip(*self.operations, strict=True))
        operation, argument, column = (np.array(each, np.int64) for each in columns[:3])
        constants = np.array(columns[3], np.float64)
        return Programs(np.array(self.firsts, np.int64), operation, argument, column, constants)

    def make_registers(self) -> Registers:
        kinds, bases, depths, columns = (
            np.array([group[i] for group in self.groups], np.int64) for i in range(4)
        )
        names = self.clause.variables
        flags = np.zeros((len(self.groups), len(names)), np.bool_)
        for number, (*_, own) in enumerate(self.groups):
            flags[number] = [own is None or name in own for name in names]
        initial = np.array(self.initial, np.float64)
        return Registers(kinds, bases, depths, columns, flags, initial)

    # ------------------------------------------------------------------ writing

    def _emit(
        self, operation: int, argument: int = 0, column: int = 0, constant: float = 0
    ) -> None:
        self.operations.append((operation, argument, column, constant))

    def _fail(self, message: str, **more: Any) -> QueryError:
        span = self.condition.source.span
        return QueryError([Diagnostic(message, span, **more)], self.text)

    def _write(self, node: exp.Expr, depth: int) -> None:
        """Write the program of an expression."""
        if depth > search.DEEPEST - 2:
            raise self._fail("the condition is nested too deeply")
        terms = _list_terms(node, self.condition.terms)
        classified = [t for t in terms if isinstance(t, RowTerm) and t.has_classifier]
        pointers = {self._find_pointer(term) for term in terms}
        if isinstance(node, exp.Paren):
            self._write(node.this, depth)
        elif not classified and len(pointers) == 1 and None not in pointers:
            self._write_value(node, pointers.pop())
        elif not terms:
            self._write_constant(node)
        elif isinstance(node, exp.Column):
            self._write_term(terms[0])
        elif classified and isinstance(node, _COMPARISONS):
            self._write_classifier(node)
        else:
            self._write_operation(node, depth)

    def _find_pointer(self, term: Term) -> Pointer | None:
        """Return which row a term looks at; None: several."""
        if not isinstance(term, RowTerm):
            return None
        if _is_current(term, self.variable):
            return _CURRENT
        return (term.variables, term.first, term.offset)

    def _write_value(self, node: exp.Expr, pointer: Pointer | None) -> None:
        column = self._add_value(HostValue(node.copy(), self.condition.terms))
        if pointer == _CURRENT or pointer is None:
            self._emit(search.CURRENT, 0, column)
        else:
            variables, first, offset = pointer
            kind = search.FIRST_ROW_OF if first else search.LAST_ROW
            missing = -1
            if node.find(*_NOT_STRICT) is not None:
                missing = self._add_value(HostValue(node.copy(), self.condition.terms, True))
            group = self._add_group(kind, offset, -1, variables)
            self._emit(search.VALUE_AT, group, column, missing)

    def _write_constant(self, node: exp.Expr) -> None:
        match node:
            case exp.Literal() if not node.is_string:
                self._emit_constant(float(node.this), is_whole=str(node.this).isdigit())
            case exp.Boolean():
                self._emit_constant(float(bool(node.this)))
            case exp.Interval() if (size := _read_interval(node)) is not None:
                self._emit(search.CONSTANT, CONSTANT_KINDS.index(ValueKind.INTERVAL), constant=size)
            case _:
                self._write_value(node, _CURRENT)

    def _emit_constant(self, value: float, *, is_whole: bool = True) -> None:
        kind = ValueKind.WHOLE if is_whole else ValueKind.NUMBER
        self._emit(search.CONSTANT, CONSTANT_KINDS.index(kind), constant=value)

    def _write_term(self, term: Term) -> None:
        if isinstance(term, AggregateTerm):
            self._write_aggregate(term)
        elif isinstance(term, MatchNumberTerm):
            self._emit(search.REGISTER, self._add_group(search.MATCH_NUMBER, 0, -1, None))
        else:
            raise self._fail("CLASSIFIER() can be compared with a text")

    def _write_aggregate(self, term: AggregateTerm) -> None:
        value = term.value
        inner = value.this
        if isinstance(inner, exp.Distinct) or type(value) not in (*_AGGREGATES, exp.Avg, exp.Count):
            raise self._fail(
                f"{value.sql()} is not supported in a condition that depends on the path",
                expected="COUNT, SUM, AVG, MIN or MAX, without DISTINCT",
            )
        rows = isinstance(value, exp.Count) and isinstance(inner, exp.Star)
        column = -1 if rows else self._add_value(HostValue(inner.copy(), ()))
        if isinstance(value, exp.Avg):
            self._emit(search.REGISTER, self._add_group(search.SUM, 0, column, term.variables))
            self._emit(search.REGISTER, self._add_group(search.COUNT, 0, column, term.variables))
            self._emit(search.DIVIDE)
        else:
            kind = _AGGREGATES.get(type(value), search.COUNT)
            self._emit(search.REGISTER, self._add_group(kind, 0, column, term.variables))

    def _write_classifier(self, node: exp.Expr) -> None:
        if not isinstance(node, exp.EQ | exp.NEQ | exp.In):
            raise self._fail("CLASSIFIER() can be compared with =, <> and IN")
        others = node.expressions if isinstance(node, exp.In) else [node.expression]
        for number, other in enumerate(others):
            self._write_label(node.this)
            self._write_label(other)
            self._emit(search.EQUAL)
            if number:
                self._emit(search.OR)
        if isinstance(node, exp.NEQ):
            self._emit(search.NOT)

    def _write_label(self, side: exp.Expr) -> None:
        """Write the number of a variable: that of a text, or of CLASSIFIER()."""
        terms = _list_terms(side, self.condition.terms)
        if isinstance(side, exp.Literal):
            names = list(self.clause.variables)
            number = names.index(side.this) if side.this in names else -1
            self._emit_constant(number)
            return
        term = terms[0] if terms and isinstance(side, exp.Column) else None
        if not isinstance(term, RowTerm) or not term.is_label:
            raise self._fail("CLASSIFIER() can be compared with a text")
        kind = search.FIRST_VARIABLE if term.first else search.LAST_VARIABLE
        self._emit(search.REGISTER, self._add_group(kind, term.offset, -1, term.variables))

    def _write_operation(self, node: exp.Expr, depth: int) -> None:
        match node:
            case exp.GT() | exp.GTE():
                kind = search.LESS if isinstance(node, exp.GT) else search.LESS_EQUAL
                self._write_binary(node.expression, node.this, kind, depth)
            case exp.NEQ():
                self._write_binary(node.this, node.expression, search.EQUAL, depth)
                self._emit(search.NOT)
            case exp.NullSafeEQ() | exp.NullSafeNEQ():
                self._write_distinct(node, depth)
            case exp.Between():
                low, high = node.args["low"], node.args["high"]
                self._write_binary(low, node.this, search.LESS_EQUAL, depth)
                self._write_binary(node.this, high, search.LESS_EQUAL, depth + 1)
                self._emit(search.AND)
            case exp.In() if node.expressions:
                for number, value in enumerate(node.expressions):
                    self._write_binary(node.this, value, search.EQUAL, depth + 1)
                    if number:
                        self._emit(search.OR)
            case exp.Is() if isinstance(node.expression, exp.Null):
                terms = _list_terms(node.this, self.condition.terms)
                if len(terms) == 1 and isinstance(terms[0], RowTerm) and terms[0].is_label:
                    self._write_label(node.this)
                else:
                    self._write(node.this, depth)
                self._emit(search.IS_NULL)
            case exp.Case() | exp.If() | exp.Nullif():
                self._write_choice(node, depth)
            case exp.Greatest() | exp.Least():
                self._write_extreme(node, depth)
            case exp.Coalesce():
                self._write(node.this, depth)
                for other in node.expressions:
                    self._write(other, depth + 1)
                    self._emit(search.COALESCE)
            case exp.DateDiff() | exp.TimestampDiff() if self._write_difference(node, depth):
                pass
            case exp.Div():
                self._write(node.this, depth)
                self._write(node.expression, depth + 1)
                self._emit(search.DIVIDE, TRUNCATES if node.args.get("typed") else 0)
            case _ if type(node) in _UNARY and not node.args.get("decimals"):
                self._write(node.this, depth)
                self._emit(_UNARY[type(node)])
            case _ if type(node) in _BINARY:
                self._write_binary(node.this, node.expression, _BINARY[type(node)], depth)
            case _:
                name = node.sql_name() if isinstance(node, exp.Func) else node.key.upper()
                if isinstance(node, exp.Anonymous):
                    name = str(node.this)
                raise self._fail(
                    f"{name} of values of several rows is not supported",
                    suggestion="such a condition may compare and calculate with + - * /; "
                    "most functions look at one row each",
                )

    def _write_distinct(self, node: exp.Expr, depth: int) -> None:
        """Write IS [NOT] DISTINCT FROM: equal, or both are NULL."""
        self._write_binary(node.this, node.expression, search.EQUAL, depth)
        self._emit_constant(0)
        self._emit(search.COALESCE)
        for number, side in enumerate((node.this, node.expression)):
            self._write(side, depth + 1 + number)
            self._emit(search.IS_NULL)
        self._emit(search.AND)
        self._emit(search.OR)
        if isinstance(node, exp.NullSafeNEQ):
            self._emit(search.NOT)

    def _write_difference(self, node: exp.Expr, depth: int) -> bool:
        """Write the time between two rows in a unit; False: it has no program.

        TIMESTAMPDIFF counts full units. DATEDIFF counts where one unit ends and the next begins:
        the host counts those since 1970 at each row.
        """
        if isinstance(node, exp.TimestampDiff):
            size = _SECONDS.get(str(node.args.get("unit") or "").upper().rstrip("S"))
            if size is None:
                return False
            self._write_binary(node.this, node.expression, search.SUBTRACT, depth)
            interval = CONSTANT_KINDS.index(ValueKind.INTERVAL)
            self._emit(search.CONSTANT, interval, constant=size * 1e6)
            self._emit(search.QUOTIENT)
            return True
        if str(node.args.get("unit") or "").upper().startswith("WEEK"):
            return False
        left, right = sides = node.copy(), node.copy()
        for side, kept in zip(sides, (node.this, node.expression), strict=True):
            side.set("this", kept.copy())
            side.set("expression", exp.cast(exp.Literal.string("1970-01-01"), "date"))
            own = {self._find_pointer(t) for t in _list_terms(kept, self.condition.terms)}
            if len(own) > 1 or None in own:
                return False
        self._write_binary(left, right, search.SUBTRACT, depth)
        return True

    def _write_choice(self, node: exp.Expr, depth: int) -> None:
        """Write CASE, and what stands for it: for each WHEN its condition, its value, and ELSE."""
        if isinstance(node, exp.Nullif):
            test: exp.Expr = exp.EQ(this=node.this.copy(), expression=node.expression.copy())
            ways, last = [(test, exp.null())], node.this
        elif isinstance(node, exp.If):
            ways, last = [(node.this, node.args["true"])], node.args.get("false")
        else:
            ways = [(one.this, one.args["true"]) for one in node.args["ifs"]]
            if node.this is not None:
                ways = [
                    (exp.EQ(this=node.this.copy(), expression=value.copy()), then)
                    for value, then in ways
                ]
            last = node.args.get("default")
        for test, then in ways:
            self._write(test, depth)
            self._write(then, depth + 1)
            depth += 2
        self._write(last or exp.null(), depth)
        for _ in ways:
            self._emit(search.CHOOSE)

    def _write_extreme(self, node: exp.Expr, depth: int) -> None:
        """Write GREATEST or LEAST; what a NULL does to them depends on the dialect."""
        strict = node.args.get("ignore_nulls") is False
        if isinstance(node, exp.Greatest):
            kind = search.GREATER if strict else search.GREATEST_KNOWN
        else:
            kind = search.LESSER if strict else search.LEAST_KNOWN
        self._write(node.this, depth)
        for other in node.expressions:
            self._write(other, depth + 1)
            self._emit(kind)

    def _write_binary(self, left: exp.Expr, right: exp.Expr, kind: int, depth: int) -> None:
        self._write(left, depth)
        self._write(right, depth + 1)
        self._emit(kind)

    # ------------------------------------------------------------------- tables

    def _add_value(self, value: HostValue) -> int:
        if value not in self.values:
            self.values.append(replace(value, span=self.condition.source.span))
        return self.values.index(value)

    def _add_group(
        self, kind: int, depth: int, column: int, variables: frozenset[str] | None
    ) -> int:
        """Return the register of a group, the one that has its value."""
        for known, base, deep, own, names in self.groups:
            if (known, deep, own, names) == (kind, depth, column, variables):
                return _find_register(known, base, deep)
        base = len(self.initial)
        self.groups.append((kind, base, depth, column, variables))
        if kind in (search.FIRST_ROW_OF, search.FIRST_VARIABLE):
            self.initial += [0.0, np.nan]
        elif kind in (search.LAST_ROW, search.LAST_VARIABLE):
            self.initial += [np.nan] * (depth + 1)
        else:
            self.initial.append(0.0 if kind == search.COUNT else np.nan)
        return _find_register(kind, base, depth)


def _find_register(kind: int, base: int, depth: int) -> int:
    if kind in (search.FIRST_ROW_OF, search.FIRST_VARIABLE):
        return base + 1
    return base + depth if kind in (search.LAST_ROW, search.LAST_VARIABLE) else base


def _read_interval(node: exp.Interval) -> float | None:
    """Return an interval in microseconds; None: its length depends on the calendar."""
    unit = str(node.args.get("unit") or "").upper().rstrip("S")
    value = node.this
    if unit not in _SECONDS or not isinstance(value, exp.Literal):
        return None
    try:
        return float(value.this) * _SECONDS[unit] * 1e6
    except ValueError:
        return None
