"""Values of expressions for whole tables: BIND, and the functions that filters cannot map.

A program of the stack machine calls functions of one term only, which are maps. Functions of two
variables, `CONCAT(?a, ?b)`, and of computed values, `DATATYPE(?l + ?r)`, become columns: the table
gets one more column for each, and the program reads that. Functions are called once for each
distinct row of arguments.

`AMONG(?set, …)` is EXISTS with variables of other steps (`hoist`): whether a row of a set agrees
with the values of variables, and a condition holds on both. Rows of the table become one for each
row of their sets, on which the condition is a program like any other.

Cost: a pass of the kernel over the rows for each program; for each function a sort of its
arguments and a few microseconds for each distinct row of them; for a set as many rows as it has.
Values that functions make are dropped with the table, so a stream with new values all the time does
not fill the memory.

Turned down: calling functions from the stack machine, which would need Python inside a kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cernis.engine.graphs import expressions as e
from cernis.languages.spaseq.graphs import graph as g
from cernis.rdf.reading.terms import Codes
from cernis.rdf.solving.sets import read_set
from cernis.rdf.solving.solutions import Names, Solutions
from cernis.rdf.solving.terms.functions import ARGUMENTS
from cernis.rdf.solving.terms.programs import (
    Program,
    check_call,
    compile_expression,
    is_mapped,
)
from cernis.rdf.solving.terms.values import TermValues


@dataclass(frozen=True, slots=True)
class VariableColumn:
    index: int
    """-1: nothing binds it."""


@dataclass(frozen=True, slots=True)
class ConstantColumn:
    code: int


@dataclass(frozen=True, slots=True)
class FunctionColumn:
    """A function of columns."""

    name: str
    arguments: tuple[Column, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ProgramColumn:
    """A program of the stack machine; after the columns of the table it reads those in `more`, and
    the answers of sets."""

    program: Program
    more: tuple[Column, ...]
    sets: tuple[AmongColumn, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class AmongColumn:
    """Whether a set has a row that fits."""

    index: int
    """The column of the set."""
    width: int
    shared: tuple[tuple[int, int], ...]
    """Columns of the table and of the rows that must agree."""
    condition: ProgramColumn | None
    """A condition on the columns of the table, followed by those of the rows."""


Column = VariableColumn | ConstantColumn | FunctionColumn | ProgramColumn


def is_hard(expression: g.Expression) -> bool:
    """Whether an expression needs columns of its own.

    >>> a, b = g.GraphVariable("a"), g.GraphVariable("b")
    >>> is_hard(g.CallExpression("CONCAT", (a, b))), is_hard(g.CallExpression("STR", (a,)))
    (True, False)
    """
    return any(True for _ in find_hard(expression)) or has_exists(expression)


def has_exists(expression: g.Expression) -> bool:
    """Whether an expression asks EXISTS."""
    return any(True for _ in g.find_exists(expression))


def find_hard(expression: g.Expression) -> Iterable[g.CallExpression]:
    """Yield the outermost functions that no map serves."""
    if isinstance(expression, g.ExistsExpression):
        return
    if isinstance(expression, g.AmongCall):
        yield expression
        return
    if isinstance(expression, g.CallExpression) and _is_function(expression.name):
        if not is_mapped(expression):
            yield expression
        return
    for child in g.list_children(expression):
        yield from find_hard(child)  # type: ignore[arg-type]


def _is_function(name: str) -> bool:
    return name in ARGUMENTS


def replace_parts(expression: g.Expression, parts: Mapping[int, g.Expression]) -> g.Expression:
    """Return an expression with others in place of some of its parts, by their identity."""

    def change(part: Any) -> Any:
        if id(part) in parts:
            return parts[id(part)]
        if isinstance(part, tuple):
            return tuple(map(change, part))
        if isinstance(part, g.Expression) and not isinstance(
            part, g.GraphVariable | g.Term | g.ExistsExpression
        ):
            inner = {one.name: change(getattr(part, one.name)) for one in fields(part)}
            return replace(part, **inner)
        return part

    changed: g.Expression = change(expression)
    return changed


# ------------------------------------------------------------------ planning


def plan_column(expression: g.Expression, names: Names, values: TermValues, source: str) -> Column:
    """Return the plan of an expression over a table with these columns."""
    match expression:
        case g.GraphVariable(name):
            return VariableColumn(names.index(name) if name in names else -1)
        case g.Term(text):
            return ConstantColumn(values.constant(text))
        case g.CallExpression(name, arguments) if _is_function(name):
            check_call(expression, values, source)
            parts = tuple(plan_column(part, names, values, source) for part in arguments)
            return FunctionColumn(name, parts)
    return plan_program(expression, names, values, source)


def plan_program(
    expression: g.Expression, names: Names, values: TermValues, source: str
) -> ProgramColumn:
    """Return the program of an expression over a table with these columns."""
    numbers = count()
    hard = sorted(find_hard(expression), key=lambda part: isinstance(part, g.AmongCall))
    hidden = {id(part): g.GraphVariable(f"_:column {next(numbers)}") for part in hard}
    indices = {name: index for index, name in enumerate(names)}
    indices |= {hidden[id(part)].name: len(names) + i for i, part in enumerate(hard)}
    easy = replace_parts(expression, hidden)
    program = compile_expression(easy, indices, {}, values, source)
    sets = [part for part in hard if isinstance(part, g.AmongCall)]
    return ProgramColumn(
        program,
        tuple(plan_column(part, names, values, source) for part in hard[: len(hard) - len(sets)]),
        tuple(_plan_among(part, names, values, source) for part in sets),
    )


def _plan_among(call: g.AmongCall, names: Names, values: TermValues, source: str) -> AmongColumn:
    mentions = [variable.name for variable in g.find_mentions(call)]
    index = names.index(mentions[0])
    shared = [name for name in dict.fromkeys(mentions[1:]) if name in call.names]
    pairs = tuple((names.index(name), call.names.index(name)) for name in shared if name in names)
    condition = None
    if call.condition is not None:
        condition = plan_program(call.condition, (*names, *call.names), values, source)
    return AmongColumn(index, len(call.names), pairs, condition)


# ------------------------------------------------------------------- running


def run_column(column: Column, codes: Codes, values: TermValues) -> Codes:
    """Return the codes of an expression's values, of terms or made ones; -1 for an error."""
    rows = len(codes)
    match column:
        case VariableColumn(index):
            return codes[:, index] if index >= 0 else np.full(rows, e.UNBOUND, np.int32)
        case ConstantColumn(code):
            return np.full(rows, code, np.int32)
        case FunctionColumn(name, arguments):
            return values.call(name, [run_column(part, codes, values) for part in arguments])
        case ProgramColumn(program, more):
            cells = np.empty(rows, e.FACT)
            operands = _widen(codes, more, values)
            e.evaluate(program.steps, values.update(), operands, e.new_stack(program.depth), cells)
            return values.intern_cells(cells)


def keep_rows(column: ProgramColumn, codes: Codes, values: TermValues) -> NDArray[np.bool_]:
    """Return for which rows a condition holds."""
    answers = [_find_among(one, codes, values) for one in column.sets]  # makes terms known
    with values.temporary():
        operands = _widen(codes, column.more, values, answers)
        steps, stack = column.program.steps, e.new_stack(column.program.depth)
        return e.keep(steps, values.update(), operands, stack)


def _find_among(column: AmongColumn, codes: Codes, values: TermValues) -> Codes:
    """Return for which rows of a table a row of their set fits, as codes of booleans."""
    distinct, of_row = np.unique(codes[:, column.index], return_inverse=True)
    sets = [read_set(text) for text in values.lexical(distinct).to_pylist()]
    listed = [sets[number] for number in of_row.reshape(-1).tolist()]
    numbers = np.repeat(np.arange(len(codes)), [len(rows) for rows in listed])
    cells = [cell for rows in listed for row in rows for cell in row]
    codes_of: dict[str | None, int] = {None: e.UNBOUND}
    codes_of |= {text: values.terms.code(text) for text in cells if text is not None}
    inner = np.array([codes_of[cell] for cell in cells], np.int32).reshape(-1, column.width)
    fits = np.ones(len(numbers), np.bool_)
    for outer, own_column in column.shared:
        own, mine = codes[numbers, outer], inner[:, own_column]
        fits &= (own == mine) | (own == e.UNBOUND) | (mine == e.UNBOUND)
        inner[:, own_column] = np.where(mine == e.UNBOUND, own, mine)
    numbers, inner = numbers[fits], inner[fits]
    if column.condition is not None:
        table = np.concatenate([codes[numbers], inner], axis=1)
        numbers = numbers[keep_rows(column.condition, np.ascontiguousarray(table), values)]
    found = np.full(len(codes), values.false, np.int32)
    found[numbers] = values.true
    return found


def extend_table(table: Solutions, name: str, column: Column, values: TermValues) -> Solutions:
    """Return a table with the values of an expression as one more column of terms."""
    with values.temporary():
        found = run_column(column, table.codes, values)
        distinct, inverse = np.unique(found, return_inverse=True)
        texts = values.write_terms(distinct)
    added = [e.UNBOUND if text is None else values.terms.code(text) for text in texts]
    new = np.array(added, np.int32)[inverse.reshape(-1)]
    codes = np.concatenate([table.codes, new.reshape(-1, 1)], axis=1)
    return Solutions((*table.names, name), table.event, codes)


def _widen(
    codes: Codes, more: Sequence[Column], values: TermValues, answers: Sequence[Codes] = ()
) -> Codes:
    columns = [*(run_column(part, codes, values) for part in more), *answers]
    if not columns:
        return codes
    added = [column.reshape(-1, 1) for column in columns]
    return np.ascontiguousarray(np.concatenate([codes, *added], axis=1))
