"""The expression of a filter to a program of the stack machine.

A variable is a column of the current row or of the values that a run has kept. One in both takes
the row's value where it has one; one in neither is unbound. A nest of functions of one term becomes
one *term map* (`cernis.rdf.solving.terms.values`); functions of constants are evaluated here.
Functions without a map or an operation of the machine, of a computed number, STR(?a + 1), or of two
variables, CONCAT(?a, ?b), are columns of their table (`cernis.rdf.solving.columns`). Where there is
no table, in conditions on two steps, whole conditions are asked for (`cernis.rdf.solving.answers`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.engine.graphs import expressions as e
from cernis.errors import Diagnostic, QueryError, Span
from cernis.languages.spaseq.graphs import graph as g
from cernis.rdf.solving.terms.functions import ARGUMENTS, TermFunction, find_cast, write_boolean
from cernis.rdf.solving.terms.regex import translate_pattern
from cernis.rdf.solving.terms.values import TermValues

_COMPARISONS = {
    "=": e.EQUAL,
    "!=": e.DIFFERENT,
    "<": e.LESS,
    "<=": e.LESS_EQUAL,
    ">": e.GREATER,
    ">=": e.GREATER_EQUAL,
}
_ARITHMETIC = {"+": e.ADD, "-": e.SUBTRACT, "*": e.MULTIPLY, "/": e.DIVIDE}
_OF_NUMBERS = {"ABS": e.ABSOLUTE, "CEIL": e.CEILING, "FLOOR": e.FLOOR, "ROUND": e.ROUND}
_OF_TWO = {
    "SAMETERM": e.SAME_TERM,
    "CONTAINS": e.CONTAINS,
    "STRSTARTS": e.STARTS,
    "STRENDS": e.ENDS,
}
_UNSTEADY = ("RAND", "NOW", "UUID", "STRUUID", "BNODE")
_ARGUMENTS = {
    **ARGUMENTS,
    **dict.fromkeys(_OF_NUMBERS, (1, 1)),
    **dict.fromkeys(_OF_TWO, (2, 2)),
    "BOUND": (1, 1),
    "IF": (3, 3),
    "COALESCE": (0, 255),
}

Step = tuple[int, int, int]


class Program(NamedTuple):
    """Steps for `cernis.engine.graphs.expressions.holds`, and the height of the stack they need."""

    steps: NDArray[np.int32]
    depth: int


def compile_expression(
    expression: g.Expression,
    row: Mapping[str, int],
    kept: Mapping[str, int],
    values: TermValues,
    source: str = "",
) -> Program:
    """Return the program of an expression; `row` and `kept` map variables to columns.

    >>> from cernis.rdf.reading.terms import Terms
    >>> more = g.ComparisonExpression(">", g.GraphVariable("a"), g.GraphVariable("b"))
    >>> compile_expression(more, {"a": 0}, {"b": 0}, TermValues(Terms())).steps.tolist()
    [[0, 0, 0], [1, 0, 0], [11, 0, 0]]
    """
    steps = list(_Compiler(row, kept, values, source).steps(expression))
    height, depth = 0, 0
    for operation, _, _ in steps:
        height += e.EFFECT.get(operation, 0)
        depth = max(depth, height)
    return Program(np.array(steps, np.int32).reshape(-1, 3), depth)


def join_programs(programs: list[Program]) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
    """Return all steps in one array, where each program begins and the last ends, and the depth."""
    steps = [program.steps for program in programs]
    begins = np.cumsum([0, *map(len, steps)]).astype(np.int32)
    together = np.concatenate([np.zeros((0, 3), np.int32), *steps])
    return together, begins, max([1, *(program.depth for program in programs)])


class _Compiler(NamedTuple):
    """Yield the steps that push the value of an expression."""

    row: Mapping[str, int]
    kept: Mapping[str, int]
    values: TermValues
    source: str

    def steps(self, expression: g.Expression) -> Iterator[Step]:
        match expression:
            case g.GraphVariable(name):
                yield from self._push_variable(name, e.ROW, e.KEPT)
            case g.Term(text):
                yield e.CONSTANT, self.values.constant(text), 0
            case g.AndExpression(parts):
                yield from self._push_logic(parts, e.AND, e.SKIP_IF_FALSE)
            case g.OrExpression(parts):
                yield from self._push_logic(parts, e.OR, e.SKIP_IF_TRUE)
            case g.NotExpression(part):
                yield from self.steps(part)
                yield e.NOT, 0, 0
            case g.ComparisonExpression(op, left, right):
                yield from self._push_binary(_COMPARISONS[op], left, right)
            case g.ArithmeticExpression(op, left, right):
                yield from self._push_binary(_ARITHMETIC[op], left, right)
            case g.NegativeExpression(part):
                yield from self.steps(part)
                yield e.NEGATE, 0, 0
            case g.InExpression(value, choices, negated):
                yield from self._push_in(value, choices)
                if negated:
                    yield e.NOT, 0, 0
            case g.CallExpression():
                yield from self._push_call(expression)
            case g.ExistsExpression(span=span):
                raise self._make_error(
                    "EXISTS in a condition on two steps is not supported: give it a FILTER of its "
                    "own",
                    span,
                )

    def _push_variable(self, name: str, of_row: int, of_kept: int, *first: int) -> Iterator[Step]:
        """Push a variable with one operation for each table that may bind it."""
        found = 0
        for operation, columns in ((of_row, self.row), (of_kept, self.kept)):
            if name in columns:
                a, b, *_ = (*first, columns[name], 0)
                yield operation, a, b
                found += 1
        if found == 2:
            yield (e.OR if of_row == e.BOUND_ROW else e.OTHERWISE), 0, 0
        elif found == 0:
            nothing = self.values.false if of_row == e.BOUND_ROW else e.UNBOUND
            yield e.CONSTANT, nothing, 0

    def _push_binary(
        self, operation: int, left: g.Expression, right: g.Expression
    ) -> Iterator[Step]:
        yield from self.steps(left)
        yield from self.steps(right)
        yield operation, 0, 0

    def _push_logic(
        self, parts: tuple[g.Expression, ...], operation: int, skip: int
    ) -> Iterator[Step]:
        yield from self.steps(parts[0])
        rest = parts[1:] or (g.Term(write_boolean(operation == e.AND)),)
        for part in rest:
            steps = list(self.steps(part))
            yield skip, len(steps) + 1, 0
            yield from steps
            yield operation, 0, 0

    def _push_in(self, value: g.Expression, choices: tuple[g.Expression, ...]) -> Iterator[Step]:
        if choices:
            equal = tuple(g.ComparisonExpression("=", value, choice) for choice in choices)
            yield from self.steps(g.OrExpression(equal))
        else:
            yield from self.steps(value)
            yield e.IN_NOTHING, 0, 0

    # ---------------------------------------------------------- functions

    def _push_call(self, call: g.CallExpression) -> Iterator[Step]:
        name, arguments = call.name, call.arguments
        self.check(call)
        if name == "BOUND":
            if not isinstance(arguments[0], g.GraphVariable):
                raise self._make_error("BOUND takes a variable", call.span)
            yield from self._push_variable(arguments[0].name, e.BOUND_ROW, e.BOUND_KEPT)
        elif name in _OF_NUMBERS:
            yield from self.steps(arguments[0])
            yield _OF_NUMBERS[name], 0, 0
        elif name in _OF_TWO:
            if name == "SAMETERM" and not all(map(_is_term, arguments)):
                raise self._make_error(
                    "sameTerm of a computed value is not supported: compare it with =", call.span
                )
            yield from self._push_binary(_OF_TWO[name], *arguments)
        elif name == "IF":
            for argument in arguments:
                yield from self.steps(argument)
            yield e.CHOOSE, 0, 0
        elif name == "COALESCE":
            yield e.CONSTANT, e.UNBOUND, 0
            for argument in arguments:
                yield from self.steps(argument)
                yield e.OTHERWISE, 0, 0
        else:
            yield from self._push_mapped(call)

    def check(self, call: g.CallExpression) -> None:
        if call.name in _UNSTEADY:
            raise self._make_error(
                f"{call.name} gives another value each time it is asked: not supported in a filter",
                call.span,
            )
        if call.name not in _ARGUMENTS:
            raise self._make_error(f"unknown function {call.name}", call.span)
        least, most = _ARGUMENTS[call.name]
        if not least <= len(call.arguments) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            plural = "" if wanted == "1" else "s"
            raise self._make_error(
                f"{_display_name(call.name)} takes {wanted} argument{plural}, "
                f"here are {len(call.arguments)}",
                call.span,
            )

    def _push_mapped(self, call: g.CallExpression) -> Iterator[Step]:
        """Push a function of one term, or of constants."""
        names = list(dict.fromkeys(variable.name for variable in g.find_mentions(call)))
        if len(names) > 1:
            raise self._make_error(
                f"{_display_name(call.name)} of two variables, ?{names[0]} and ?{names[1]}, is not "
                "supported in a condition on two steps: BIND it in the pattern that has both",
                call.span,
            )
        function = self._build_function(call)
        if names:
            number = self.values.add_map(function)
            yield from self._push_variable(names[0], e.MAPPED_ROW, e.MAPPED_KEPT, number)
        else:
            found = self.values.apply(function, np.full(1, e.UNBOUND, np.int32))
            yield e.CONSTANT, int(found[0]), 0

    def _build_function(self, call: g.CallExpression) -> TermFunction:
        self.check(call)
        arguments: list[TermFunction | str | None] = []
        for argument in call.arguments:
            match argument:
                case g.GraphVariable():
                    arguments.append(None)
                case g.Term(text):
                    arguments.append(text)
                case g.CallExpression(name) if name in ARGUMENTS:
                    arguments.append(self._build_function(argument))
                case _:
                    raise self._make_error(
                        f"{_display_name(call.name)} of a computed value is not supported in a "
                        "condition on two steps: BIND it in the pattern that has its variables",
                        call.span,
                    )
        if call.name in ("REGEX", "REPLACE"):
            constants = [part for part in arguments[1:] if isinstance(part, str)]
            if len(constants) < len(arguments) - 1:
                raise self._make_error(
                    f"the pattern of {call.name} must be a constant in a condition on two steps",
                    call.span,
                )
            self.check_pattern(call, constants)
        return TermFunction(call.name, tuple(arguments))

    def check_pattern(self, call: g.CallExpression, constants: list[str]) -> None:
        parts = self.values.take_apart(self.values.intern(constants))
        if any(part.kind != e.STRING for part in parts):
            raise self._make_error(f"the pattern of {call.name} must be a plain string", call.span)
        at_flags = 1 if call.name == "REGEX" else 2
        flags = parts[at_flags].text if len(parts) > at_flags else ""
        try:
            translate_pattern(parts[0].text, flags)
        except ValueError as problem:
            raise self._make_error(f"{call.name}: {problem}", call.span) from None

    def _make_error(self, message: str, span: Span | None) -> QueryError:
        return QueryError([Diagnostic(message, span)], self.source)


def is_mapped(call: g.CallExpression) -> bool:
    """Whether a function is one of one term, and so a map.

    >>> a, one = g.GraphVariable("a"), g.Term('"1"')
    >>> is_mapped(g.CallExpression("CONCAT", (a, one, a)))
    True
    >>> is_mapped(g.CallExpression("REGEX", (one, a)))
    False
    """
    parts = [part for part in call.arguments if isinstance(part, g.CallExpression)]
    rest = [part for part in call.arguments if not isinstance(part, g.CallExpression)]
    if call.name in ("REGEX", "REPLACE") and not all(
        isinstance(part, g.Term) for part in call.arguments[1:]
    ):
        return False
    return (
        all(isinstance(part, g.GraphVariable | g.Term) for part in rest)
        and all(part.name in ARGUMENTS and is_mapped(part) for part in parts)
        and len({variable.name for variable in g.find_mentions(call)}) <= 1
    )


def check_call(call: g.CallExpression, values: TermValues, source: str) -> None:
    """Check the number of arguments of a function, and the constant pattern of REGEX."""
    compiler = _Compiler({}, {}, values, source)
    compiler.check(call)
    constants = [part.text for part in call.arguments[1:] if isinstance(part, g.Term)]
    if call.name in ("REGEX", "REPLACE") and len(constants) == len(call.arguments) - 1:
        compiler.check_pattern(call, constants)


def _is_term(expression: g.Expression) -> bool:
    """Whether a value is a term; computed numbers and truth values are not."""
    match expression:
        case g.GraphVariable() | g.Term():
            return True
        case g.CallExpression("IF", (_, one, other)):
            return _is_term(one) and _is_term(other)
        case g.CallExpression("COALESCE", parts):
            return all(map(_is_term, parts))
        case g.CallExpression(name, _):
            return name in ARGUMENTS
    return False


def _display_name(name: str) -> str:
    local = find_cast(name)
    return f"xsd:{local}" if local else name
