"""Graph patterns by brute force: SPARQL's algebra over a handful of triples, as it is defined.

Terms are texts in N-Triples form; a solution is a dictionary. Exponential, for tests only. It
knows the operators of expressions, `BOUND`, `IF`, `COALESCE` and `EXISTS`; other functions have
SPARQL's own engines to be compared with.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, Decimal, InvalidOperation
from typing import Any

from cernis.errors import Span
from cernis.languages.spaseq.graphs import graph as g
from cernis.languages.spaseq.graphs.paths import END, START, step_pattern
from cernis.languages.spaseq.query import AGGREGATES
from cernis.pattern.predicate import is_number

Solution = Mapping[str, str]
Triples = Collection[tuple[str, str, str]]
Dataset = Mapping[str, Triples]
"""Background knowledge: the triples of each named graph, names in N-Triples form."""

_XSD = "http://www.w3.org/2001/XMLSchema#"
_FALSE, _TRUE = (g.Term(f'"{word}"^^<{_XSD}boolean>') for word in ("false", "true"))
_DIGITS = 18
"""The digits of a quotient after the point."""
_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"(?:\^\^<([^>]*)>|@([\w-]+))?', re.DOTALL)


class ExpressionError(Exception):
    """An error of an expression."""


def find_solutions(pattern: g.GraphPattern, triples: Triples, kb: Dataset) -> list[Solution]:
    """Return the distinct solutions of a pattern.

    >>> p = g.Term("<p>")
    >>> one = g.BasicPattern((g.Triple(g.GraphVariable("x"), p, g.GraphVariable("y")),))
    >>> find_solutions(one, [("<a>", "<p>", "<b>")], {})
    [{'x': '<a>', 'y': '<b>'}]
    """
    found: list[Solution] = []
    for solution in _find_solutions(pattern, triples, kb):
        if solution not in found:
            found.append(solution)
    return found


def _find_solutions(pattern: g.GraphPattern, triples: Triples, kb: Dataset) -> Iterable[Solution]:
    match pattern:
        case g.BasicPattern(patterns):
            return _match_triples(patterns, triples, {})
        case g.JoinPattern(parts):
            found: list[Solution] = [{}]
            for part in parts:
                found = list(join_solutions(found, list(_find_solutions(part, triples, kb))))
            return found
        case g.UnionPattern(parts):
            return [s for part in parts for s in _find_solutions(part, triples, kb)]
        case g.FilterPattern(inner, condition):
            decided = (
                (s, decide_exists(condition, s, triples, kb))
                for s in _find_solutions(inner, triples, kb)
            )
            return [s for s, known in decided if is_true(known, s)]
        case g.BindPattern(inner, variable, expression):
            return [
                {**s, **_bind(variable.name, decide_exists(expression, s, triples, kb), s)}
                for s in _find_solutions(inner, triples, kb)
            ]
        case g.ValuesPattern(variables, rows):
            return [
                {v.name: term.text for v, term in zip(variables, row, strict=True) if term}
                for row in rows
            ]
        case g.MinusPattern(inner, removed):
            others = list(_find_solutions(removed, triples, kb))
            return [
                s
                for s in _find_solutions(inner, triples, kb)
                if not any(s.keys() & other.keys() and is_compatible(s, other) for other in others)
            ]
        case g.ClosurePattern(subject, path, object_):
            return _follow_ways(subject, path, object_, triples)
        case g.UnfoldPattern(inner, variable, form):
            return [
                one
                for s in _find_solutions(inner, triples, kb)
                for one in _match_triples((form,), split_triple_term(s[variable.name]), s)
            ]
        case g.OptionalPattern(inner, extra, condition):
            right = list(_find_solutions(extra, triples, kb))
            left = _find_solutions(inner, triples, kb)
            return [
                one
                for s in left
                for one in [
                    both
                    for both in join_solutions([s], right)
                    if condition is None
                    or is_true(decide_exists(condition, both, triples, kb), both)
                ]
                or [s]
            ]
        case g.BackgroundPattern(name, inner):
            if isinstance(name, g.Term):
                return _find_solutions(inner, kb.get(name.text, ()), kb)
            return [
                one
                for graph, known in kb.items()
                for one in join_solutions(
                    [{name.name: graph}], list(_find_solutions(inner, known, kb))
                )
            ]


_TRIPLE_PART = re.compile(r'"(?:[^"\\]|\\.)*"[^ ]*|[^ ]+')


def split_triple_term(text: str) -> list[tuple[str, str, str]]:
    """Return the triple of a triple term, nothing for other terms.

    >>> split_triple_term('<<( <a> <p> <<( <b> <q> "x y" )>> )>>')
    [('<a>', '<p>', '<<( <b> <q> "x y" )>>')]
    """
    if not text.startswith("<<("):
        return []
    subject, predicate, *object_ = _TRIPLE_PART.findall(text)[1:-1]
    return [(subject, predicate, " ".join(object_))]


def _follow_ways(
    subject: g.Node, path: g.RepeatedPath, object_: g.Node, triples: Triples
) -> Iterator[Solution]:
    """Yield the ends of all ways: steps are the solutions of the path that is repeated."""
    found = _find_solutions(step_pattern(path), triples, {})
    steps = {(one[START.name], one[END.name]) for one in found}
    nodes = {node for s, _, o in triples for node in (s, o)}
    nodes |= {end.text for end in (subject, object_) if isinstance(end, g.Term)}
    ways = set(steps)
    while path.sign != "?":
        more = {(a, d) for a, b in ways for c, d in steps if b == c} - ways
        if not more:
            break
        ways |= more
    if path.sign != "+":
        ways |= {(node, node) for node in nodes}
    for pair in ways:
        bound: dict[str, str] = {}
        for node, term in zip((subject, object_), pair, strict=True):
            known = node.text if isinstance(node, g.Term) else bound.setdefault(node.name, term)
            if known != term:
                break
        else:
            yield bound


def decide_exists(
    expression: g.Expression, solution: Solution, triples: Triples, kb: Dataset
) -> g.Expression:
    """Return an expression in which each EXISTS is true or false, as it is for a solution.

    With variables of other steps, it is a condition on these.
    """

    def decide(part: Any) -> g.Expression | None:
        match part:
            case g.ExistsExpression(pattern, condition, shared=shared, asked=asked):
                joined = join_solutions([solution], list(_find_solutions(pattern, triples, kb)))
                parts: list[g.Expression] = [_FALSE]
                for one in joined:
                    held: g.Expression = _TRUE
                    if condition is not None:
                        held = decide_exists(condition, one, triples, kb)
                    if shared or asked:
                        more = {name: one[name] for name in one if name not in solution}
                        held = _is_sure(_substitute(held, one))
                        parts.append(g.AndExpression((_agree_with(more), held)))
                    elif is_true(held, one):
                        return _TRUE
                return g.OrExpression(tuple(parts))
        return None

    decided: g.Expression = _replace_parts(expression, decide)
    return decided


def _substitute(expression: g.Expression, solution: Solution) -> g.Expression:
    """Return an expression with the terms of a solution in place of its variables."""

    def decide(part: Any) -> g.Expression | None:
        match part:
            case g.CallExpression("BOUND", (g.GraphVariable(name),)) if name in solution:
                return _TRUE
            case g.GraphVariable(name) if name in solution:
                return g.Term(solution[name])
        return None

    substituted: g.Expression = _replace_parts(expression, decide)
    return substituted


def _is_sure(condition: g.Expression) -> g.Expression:
    """Return the condition that a condition is true, and no error."""
    asked = g.CallExpression("IF", (condition, _TRUE, _FALSE))
    return g.CallExpression("COALESCE", (asked, _FALSE))


def _agree_with(solution: Solution) -> g.Expression:
    """Return the condition that the variables that are bound have the terms of a solution."""
    parts: list[g.Expression] = [_TRUE]
    for name, term in solution.items():
        one = g.GraphVariable(name)
        bound = g.CallExpression("BOUND", (one,))
        same = g.CallExpression("SAMETERM", (one, g.Term(term)))
        parts.append(g.OrExpression((g.NotExpression(bound), same)))
    return g.AndExpression(tuple(parts))


def _replace_parts(part: Any, decide: Callable[[Any], g.Expression | None]) -> Any:
    """Return an expression in which some parts are others; `decide` gives these."""
    decided = decide(part)
    if decided is not None:
        return decided
    match part:
        case g.GraphVariable() | g.Term() | str() | bool() | None | Span():
            return part
        case tuple():
            return tuple(_replace_parts(one, decide) for one in part)
    new = {f.name: _replace_parts(getattr(part, f.name), decide) for f in fields(part)}
    return replace(part, **new)


def _bind(name: str, expression: g.Expression, solution: Solution) -> Solution:
    try:
        return {name: _write_value(_evaluate(expression, solution))}
    except (ExpressionError, ArithmeticError):
        return {}


def compute_value(
    expression: g.Expression, solution: Solution, lists: Mapping[str, Collection[str]]
) -> str | None:
    """Return the value of an expression of SELECT as a term; None for an error."""

    def decide(part: Any) -> g.Expression | None:
        match part:
            case g.CallExpression(name, (g.GraphVariable(variable),)) if name in AGGREGATES:
                return _fold(name, lists[variable])
        return None

    return _bind("value", _replace_parts(expression, decide), solution).get("value")


def _fold(name: str, terms: Collection[str]) -> g.Expression:
    """Return an expression for an aggregate of some terms; a variable that is unbound: an error."""
    name, _, distinct = name.partition(" ")
    if distinct:
        terms = list(dict.fromkeys(terms))
    numbers: list[Any] = [_value_of_term(text) for text in terms]
    if name == "COUNT":
        return g.Term(_write_value(len(numbers)))
    is_extreme = name in ("MIN", "MAX")
    of_texts = is_extreme and all(isinstance(one, str) for one in numbers)
    if not (of_texts or all(map(is_number, numbers))) or (is_extreme and not numbers):
        return g.GraphVariable("_:error")
    if is_extreme:
        chosen = (min if name == "MIN" else max)(terms, key=_value_of_term)
        return g.Term(chosen)
    total = g.Term(_write_value(sum(numbers)))
    if name == "SUM" or not numbers:
        return total
    return g.ArithmeticExpression("/", total, g.Term(_write_value(len(numbers))))


def _write_value(value: Value) -> str:
    match value:
        case tuple():
            return value[1]
        case bool():
            return f'"{str(value).lower()}"^^<{_XSD}boolean>'
        case int():
            return f'"{value}"^^<{_XSD}integer>'
        case Decimal():
            if value.as_tuple().exponent < -_DIGITS:  # type: ignore[operator]  # a quotient
                value = value.quantize(Decimal(1).scaleb(-_DIGITS), ROUND_DOWN)
            text = f"{value:f}"
            text = text.rstrip("0").rstrip(".") if "." in text else text
            return f'"{text}"^^<{_XSD}decimal>'
        case float():
            raise NotImplementedError("the forms of floats are left to SPARQL's own engines")
        case str():
            return f'"{value}"'


def _match_triples(
    patterns: tuple[g.Triple, ...], triples: Triples, bound: Solution
) -> Iterator[Solution]:
    if not patterns:
        yield bound
        return
    for triple in triples:
        extended = dict(bound)
        for node, term in zip(patterns[0].nodes(), triple, strict=True):
            known = node.text if isinstance(node, g.Term) else extended.setdefault(node.name, term)
            if known != term:
                break
        else:
            yield from _match_triples(patterns[1:], triples, extended)


def is_compatible(one: Solution, other: Solution) -> bool:
    """Whether two solutions agree on what both bind."""
    return all(other.get(name, term) == term for name, term in one.items())


def join_solutions(left: Iterable[Solution], right: list[Solution]) -> Iterator[Solution]:
    """Yield the compatible pairs, united."""
    for one in left:
        for other in right:
            if is_compatible(one, other):
                yield {**one, **other}


# --------------------------------------------------------------- expressions

_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "+": operator.add, "-": operator.sub, "*": operator.mul,
}  # fmt: skip
Value = bool | int | Decimal | float | str | tuple[str, str, str]
"""A boolean, a number, a plain string; any other term as ("term", its text, "")."""


def is_true(condition: g.Expression, solution: Solution) -> bool:
    """Whether a filter lets a solution pass; an error does not."""
    try:
        return _to_boolean(_evaluate(condition, solution))
    except (ExpressionError, ArithmeticError):
        return False


def _to_boolean(value: Value) -> bool:
    match value:
        case tuple():
            raise ExpressionError
        case float():
            return value != 0 and value == value
        case _:
            return bool(value)


def _evaluate(expression: g.Expression, solution: Solution) -> Value:
    match expression:
        case g.GraphVariable(name):
            if name not in solution:
                raise ExpressionError
            return _value_of_term(solution[name])
        case g.Term(text):
            return _value_of_term(text)
        case g.OrExpression(parts):
            return _is_any(parts, solution)
        case g.AndExpression(parts):
            return not _is_any(tuple(g.NotExpression(part) for part in parts), solution)
        case g.NotExpression(part):
            return not _to_boolean(_evaluate(part, solution))
        case g.ComparisonExpression(op, left, right):
            return _compare(op, _evaluate(left, solution), _evaluate(right, solution))
        case g.InExpression(value, choices, negated):
            equal = tuple(g.ComparisonExpression("=", value, choice) for choice in choices)
            return _is_any(equal, solution) != negated
        case g.ArithmeticExpression(op, left, right):
            return _compute(op, _evaluate(left, solution), _evaluate(right, solution))
        case g.NegativeExpression(part):
            return _compute("-", 0, _evaluate(part, solution))
        case g.CallExpression("BOUND", (g.GraphVariable(name),)):
            return name in solution
        case g.CallExpression("SAMETERM", (one, other)):
            return _find_term(one, solution) == _find_term(other, solution)
        case g.CallExpression("IF", (condition, one, other)):
            chosen = one if _to_boolean(_evaluate(condition, solution)) else other
            return _evaluate(chosen, solution)
        case g.CallExpression("COALESCE", parts):
            for part in parts:
                with suppress(ExpressionError, ArithmeticError):
                    return _evaluate(part, solution)
            raise ExpressionError
        case g.CallExpression("CONCAT", parts):
            return "".join(_require_text(_evaluate(part, solution)) for part in parts)
        case g.CallExpression("REGEX", (part, pattern)):
            text = _require_text(_evaluate(part, solution))
            return re.search(_require_text(_evaluate(pattern, solution)), text) is not None
        case g.CallExpression("STRLEN", (part,)):
            return len(_require_text(_evaluate(part, solution)))
        case g.CallExpression("SUBSTR", (part, *bounds)):
            begin, *size = (_require_integer(_evaluate(one, solution)) for one in bounds)
            text = _require_text(_evaluate(part, solution))
            return text[max(begin - 1, 0) : max(begin - 1 + size[0], 0) if size else None]
        case g.CallExpression("REPLACE", parts) if len(parts) == 3:
            whole, old, new = (_require_text(_evaluate(part, solution)) for part in parts)
            return re.sub(old, new, whole)
        case g.CallExpression("STRDT", (part, kind)):
            text = _require_text(_evaluate(part, solution))
            return ("term", f'"{text}"^^{_find_term(kind, solution)}', "")
        case g.CallExpression(name, (part,)) if name in _ROUNDED:
            number = _evaluate(part, solution)
            if not isinstance(number, int | Decimal) or isinstance(number, bool):
                raise ExpressionError
            return number if isinstance(number, int) else number.to_integral_value(_ROUNDED[name])
        case g.CallExpression("STR", (part,)):
            return _spell(_find_term(part, solution))
        case g.CallExpression("DATATYPE", (part,)):
            _evaluate(part, solution)
            return ("term", f"<{_find_datatype(part, solution)}>", "")
        case _:
            raise NotImplementedError(expression)


_ROUNDED = {"CEIL": ROUND_CEILING, "FLOOR": ROUND_FLOOR}
_PROMOTED = [f"{_XSD}{name}" for name in ("integer", "decimal", "float", "double")]
_SMALL = (
    "byte", "short", "int", "long", "unsignedByte", "unsignedShort", "unsignedInt", "unsignedLong",
    "nonPositiveInteger", "negativeInteger", "nonNegativeInteger", "positiveInteger",
)  # fmt: skip
"""The types of numbers, the widest last; those below integer are integers in a sum."""


def _find_datatype(expression: g.Expression, solution: Solution) -> str:
    """Return the datatype of a value: that of a term, or the wider of two numbers."""
    match expression:
        case g.ArithmeticExpression(op, left, right):
            types = [_find_datatype(part, solution) for part in (left, right)]
            ranks = [_PROMOTED.index(one) if one in _PROMOTED else 0 for one in types]
            return _PROMOTED[max(*ranks, int(op == "/"))]
        case g.NegativeExpression(part):
            return _find_datatype(part, solution)
    found = _LITERAL.fullmatch(_find_term(expression, solution))
    if found is None or found[3]:
        raise ExpressionError
    return found[2] or f"{_XSD}string"


def _require_integer(value: Value) -> int:
    if not isinstance(value, int):
        raise ExpressionError
    return value


def _require_text(value: Value) -> str:
    if not isinstance(value, str):
        raise ExpressionError
    return value


def _find_term(expression: g.Expression, solution: Solution) -> str:
    """Return the value of an expression as a term; one of the data has its own spelling."""
    match expression:
        case g.GraphVariable(name) if name in solution:
            return solution[name]
        case g.Term(text):
            return text
    return _write_value(_evaluate(expression, solution))


def _spell(term: str) -> str:
    """Return the text of an IRI or a literal.

    >>> _spell("<urn:a>"), _spell('"5"^^<urn:t>')
    ('urn:a', '5')
    """
    if term.startswith('"'):
        return term[1 : term.rindex('"')]
    if not term.startswith("<"):
        raise ExpressionError
    return term[1:-1]


def _is_any(parts: tuple[g.Expression, ...], solution: Solution) -> bool:
    """Whether one part is true; an error counts only where none is."""
    wrong = False
    for part in parts:
        try:
            if _to_boolean(_evaluate(part, solution)):
                return True
        except (ExpressionError, ArithmeticError):
            wrong = True
    if wrong:
        raise ExpressionError
    return False


def _value_of_term(text: str) -> Value:
    found = _LITERAL.fullmatch(text)
    if found is None or found[3]:
        return ("term", text, "")
    if not found[2]:
        return found[1]
    kind = found[2].removeprefix(_XSD)
    try:
        if kind == "integer" or kind in _SMALL:
            return int(found[1])
        if kind == "decimal":
            return Decimal(found[1])
        if kind in ("double", "float"):
            return float(found[1])
    except (ValueError, InvalidOperation):
        return ("term", text, "")
    if kind == "boolean":
        return found[1] in ("true", "1")
    return found[1] if kind == "string" else ("term", text, "")


def _compare(op: str, left: Value, right: Value) -> bool:
    if op in ("=", "!="):
        return _is_equal(left, right) == (op == "=")
    if is_number(left) and is_number(right):
        left, right = _promote(left, right)
    elif type(left) is not type(right) or isinstance(left, tuple):
        raise ExpressionError
    return bool(_OPERATORS[op](left, right))


def _is_equal(left: Value, right: Value) -> bool:
    if is_number(left) and is_number(right):
        left, right = _promote(left, right)
        return left == right
    if isinstance(left, tuple) and isinstance(right, tuple) and left != right:
        if all(text.startswith('"') and "^^" in text for text in (left[1], right[1])):
            raise ExpressionError
        return False
    if type(left) is not type(right):
        if any(isinstance(value, tuple) and "^^" in value[1] for value in (left, right)):
            raise ExpressionError
        return False
    return left == right


def _promote(left: Value, right: Value) -> tuple[Value, Value]:
    if isinstance(left, float) or isinstance(right, float):
        return float(left), float(right)  # type: ignore[arg-type]
    return left, right


def _compute(op: str, left: Value, right: Value) -> Value:
    if not (is_number(left) and is_number(right)):
        raise ExpressionError
    a, b = _promote(left, right)
    if op == "/":
        if isinstance(a, float):
            raise ExpressionError  # INF and NaN are left to SPARQL's own engines
        return Decimal(a) / Decimal(b)  # type: ignore[arg-type]
    computed: Value = _OPERATORS[op](a, b)
    return computed
