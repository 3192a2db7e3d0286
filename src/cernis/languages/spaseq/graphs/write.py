"""Write graph patterns and expressions as SPARQL; parsing the text gives an equal pattern.

IRIs are written in full. Numbers, truth values and `a` are short. Only the parentheses that the
precedence asks for are written. Linear in the size of the pattern; recursive, so the depth limit
of the parser must hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from cernis.languages.spaseq.graphs import graph as g

_XSD = r"\^\^<http://www\.w3\.org/2001/XMLSchema#"
_SHORT = re.compile(
    rf'"([+-]?[0-9]+)"{_XSD}integer>'
    rf'|"([+-]?[0-9]*\.[0-9]+)"{_XSD}decimal>'
    rf'|"([+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)[eE][+-]?[0-9]+)"{_XSD}double>'
    rf'|"(true|false)"{_XSD}boolean>'
)
_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
INDENT = "  "


# ------------------------------------------------------------------------ terms


def write_term(term: g.Term) -> str:
    """Write a term, without its datatype where its form tells it.

    >>> write_term(g.Term('"5"^^<http://www.w3.org/2001/XMLSchema#integer>'))
    '5'
    >>> write_term(g.Term('"a"@en'))
    '"a"@en'
    """
    found = _SHORT.fullmatch(term.text)
    return term.text if found is None else next(filter(None, found.groups()))


def _write_node(node: g.Node, scope: str, forms: Mapping[str, str] | None = None) -> str:
    """Write a node of a triple; a blank node has the name of its graph pattern in its own.

    `forms` are the texts of triple terms, by the variables that stand for them.
    """
    match node:
        case g.GraphVariable(name) if forms and name in forms:
            return forms[name]
        case g.GraphVariable(name) if node.hidden:
            return "_:" + name.removeprefix(f"_:{scope}.")
        case g.GraphVariable(name):
            return f"?{name}"
        case g.Term():
            return write_term(node)


def write_path(path: g.Path) -> str:
    """Write a property path; only the top of it has no brackets.

    >>> p, q = g.Term("<urn:p>"), g.Term("<urn:q>")
    >>> write_path(g.RepeatedPath(g.PathChain((g.InversePath(p), q)), "*"))
    '((^<urn:p>)/<urn:q>)*'
    """
    match path:
        case g.InversePath(inner):
            return f"^{_write_step(inner)}"
        case g.PathChain(steps):
            return "/".join(map(_write_step, steps))
        case g.PathChoice(paths):
            return "|".join(map(_write_step, paths))
        case g.NegatedPath(forwards, backwards):
            avoided = [*map(write_term, forwards), *(f"^{write_term(one)}" for one in backwards)]
            return f"!({'|'.join(avoided)})"
        case g.RepeatedPath(inner, sign):
            return f"{_write_step(inner)}{sign}"
        case g.Term():
            return write_term(path)
        case g.GraphVariable():
            raise AssertionError("a path has no variables")


def _write_step(path: g.Path) -> str:
    return write_path(path) if isinstance(path, g.Term) else f"({write_path(path)})"


def write_triple(triple: g.Triple, scope: str, forms: Mapping[str, str] | None = None) -> str:
    subject, predicate, object_ = (_write_node(node, scope, forms) for node in triple.nodes())
    return f"{subject} {'a' if predicate == _TYPE else predicate} {object_} ."


def write_template(template: g.TripleTemplate, scope: str = "") -> str:
    """Return the statement of a triple, which may have triple terms inside of each other."""
    triple, inside = g.split_template(template)
    forms: dict[str, str] = {}
    for name, form in inside.items():
        nodes = (_write_node(node, scope, forms) for node in form.nodes())
        forms[name] = f"<<( {' '.join(nodes)} )>>"
    return write_triple(triple, scope, forms)


# ------------------------------------------------------------------ expressions

_PRIMARY, _UNARY, _PRODUCT, _SUM, _RELATION, _AND, _OR = range(7)


def _level(expression: g.Expression) -> int:
    match expression:
        case g.GraphVariable() | g.Term() | g.CallExpression() | g.ExistsExpression():
            return _PRIMARY
        case g.NotExpression() | g.NegativeExpression():
            return _UNARY
        case g.ArithmeticExpression(op, _, _):
            return _PRODUCT if op in "*/" else _SUM
        case g.ComparisonExpression() | g.InExpression():
            return _RELATION
        case g.AndExpression():
            return _AND
        case g.OrExpression():
            return _OR


def _write_inner(expression: g.Expression, level: int) -> str:
    text = write_expression(expression)
    return text if _level(expression) <= level else f"({text})"


def write_expression(expression: g.Expression) -> str:
    """Write an expression as it stands between brackets.

    >>> x, y = g.GraphVariable("x"), g.GraphVariable("y")
    >>> write_expression(g.NotExpression(g.ComparisonExpression("<", x, g.NegativeExpression(y))))
    '!(?x < -?y)'
    """
    match expression:
        case g.GraphVariable(name):
            return f"?{name}"
        case g.Term():
            return write_term(expression)
        case g.OrExpression(parts):
            return " || ".join(_write_inner(part, _AND) for part in parts)
        case g.AndExpression(parts):
            return " && ".join(_write_inner(part, _RELATION) for part in parts)
        case g.NotExpression(part):
            return f"!{_write_inner(part, _UNARY)}"
        case g.NegativeExpression(part):
            # brackets keep the sign apart from the digits of a number
            return (
                f"-({write_expression(part)})"
                if _is_signed(part)
                else f"-{_write_inner(part, _UNARY)}"
            )
        case g.ComparisonExpression(op, left, right):
            return f"{_write_inner(left, _SUM)} {op} {_write_inner(right, _SUM)}"
        case g.InExpression(value, choices, negated):
            word = "NOT IN" if negated else "IN"
            return (
                f"{_write_inner(value, _SUM)} {word} ({', '.join(map(write_expression, choices))})"
            )
        case g.ArithmeticExpression(op, left, right):
            level = _level(expression)
            return f"{_write_inner(left, level)} {op} {_write_inner(right, level - 1)}"
        case g.CallExpression(name, arguments):
            name, _, distinct = name.partition(" ")
            written = ", ".join(map(write_expression, arguments))
            if isinstance(expression, g.AmongCall) and expression.condition is not None:
                written += f" FILTER ({write_expression(expression.condition)})"
            return f"{name}({distinct} {written})" if distinct else f"{name}({written})"
        case g.ExistsExpression(pattern, condition):
            lines = [*_write_before_more(pattern, _find_scope(pattern))]
            if condition is not None:
                lines.append(f"FILTER ({write_expression(condition)})")
            return f"EXISTS {{ {' '.join(line.strip() for line in lines)} }}"


def _find_scope(pattern: g.GraphPattern) -> str:
    """Return the graph pattern whose blank nodes a pattern has."""
    hidden = (name for name in g.find_variables(pattern) if name.startswith("_:"))
    return next(hidden, "_:").removeprefix("_:").rpartition(".")[0]


def _is_signed(expression: g.Expression) -> bool:
    return isinstance(expression, g.Term | g.NegativeExpression)


# --------------------------------------------------------------- graph patterns


def _write_braces(head: str, pattern: g.GraphPattern, scope: str) -> Iterator[str]:
    yield f"{head}{{"
    yield from (INDENT + line for line in write_pattern_lines(pattern, scope))
    yield "}"


def write_pattern_lines(pattern: g.GraphPattern, scope: str) -> Iterator[str]:
    """Yield the lines of a group that holds this pattern alone."""
    match pattern:
        case g.BasicPattern(triples):
            yield from (write_triple(triple, scope) for triple in triples)
        case g.FilterPattern(
            g.BasicPattern((g.Triple(subject, g.GraphVariable() as verb, object_),)),
            g.InExpression(_, terms, True),
        ) if verb.hidden:
            avoided = "|".join(write_term(term) for term in terms if isinstance(term, g.Term))
            ends = _write_node(subject, scope), _write_node(object_, scope)
            yield f"{ends[0]} !({avoided}) {ends[1]} ."
        case g.FilterPattern(inner, condition):
            yield from _write_before_more(inner, scope)
            yield f"FILTER ({write_expression(condition)})"
        case g.OptionalPattern(inner, extra, condition):
            yield from _write_before_more(inner, scope)
            yield "OPTIONAL {"
            yield from (INDENT + line for line in _write_before_more(extra, scope))
            if condition is not None:
                yield f"{INDENT}FILTER ({write_expression(condition)})"
            yield "}"
        case g.JoinPattern(parts):
            before: g.GraphPattern | None = None
            for part in parts:
                apart = isinstance(part, _AFTER_OTHERS) if before else False
                apart |= isinstance(part, g.BasicPattern) and isinstance(before, g.BasicPattern)
                yield from (
                    _write_braces("", part, scope) if apart else _write_before_more(part, scope)
                )
                before = part
        case g.UnionPattern(parts):
            first, *rest = parts
            yield from _write_braces("", first, scope)
            for part in rest:
                yield from _write_braces("UNION ", part, scope)
        case g.BindPattern(inner, variable, expression):
            yield from _write_before_more(inner, scope)
            yield f"BIND ({write_expression(expression)} AS ?{variable.name})"
        case g.MinusPattern(inner, removed):
            yield from _write_before_more(inner, scope)
            yield from _write_braces("MINUS ", removed, scope)
        case g.ValuesPattern(variables, rows):
            names = " ".join(f"?{variable.name}" for variable in variables)
            cells = (" ".join(map(_write_cell, row)) for row in rows)
            yield f"VALUES ({names}) {{ {' '.join(f'({row})' for row in cells)} }}"
        case g.ClosurePattern(subject, path, object_):
            ends = _write_node(subject, scope), _write_node(object_, scope)
            yield f"{ends[0]} {write_path(path)} {ends[1]} ."
        case g.UnfoldPattern():
            yield write_template(pattern, scope)
        case g.BackgroundPattern(name, inner):
            yield from _write_braces(f"GRAPH {_write_node(name, scope)} ", inner, scope)


_AFTER_OTHERS = g.OptionalPattern | g.BindPattern | g.MinusPattern
"""The elements of a group that apply to all before them."""


def _write_cell(term: g.Term | None) -> str:
    return "UNDEF" if term is None else write_term(term)


def _write_before_more(pattern: g.GraphPattern, scope: str) -> Iterator[str]:
    """Yield the lines of a pattern before more of its group: braces keep its filters apart."""
    if isinstance(pattern, g.FilterPattern):
        return _write_braces("", pattern, scope)
    return write_pattern_lines(pattern, scope)
