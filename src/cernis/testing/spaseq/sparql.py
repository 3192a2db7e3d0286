"""Graph patterns and expressions as SPARQL text, for engines that read it.

Written so that scopes stay what they are: every operand of an operator stands in braces of its
own, every expression in parentheses.
"""

from __future__ import annotations

from cernis.pattern import graph as g

__all__ = ["expression_text", "pattern_text"]

_NAMES = {"SAMETERM": "sameTerm"}


def expression_text(expression: g.Expression) -> str:
    """Return an expression as SPARQL.

    >>> less = g.ComparisonExpression("<", g.GraphVariable("a"), g.Term('"b"'))
    >>> expression_text(g.NotExpression(less))
    '(! (?a < "b"))'
    """
    match expression:
        case g.GraphVariable(name):
            return f"?{name}"
        case g.Term(text):
            return text
        case g.AndExpression(parts):
            return "(" + " && ".join(map(expression_text, parts)) + ")"
        case g.OrExpression(parts):
            return "(" + " || ".join(map(expression_text, parts)) + ")"
        case g.NotExpression(part):
            return f"(! {expression_text(part)})"
        case g.NegativeExpression(part):
            return f"(- {expression_text(part)})"
        case g.ComparisonExpression(op, left, right) | g.ArithmeticExpression(op, left, right):
            return f"({expression_text(left)} {op} {expression_text(right)})"
        case g.InExpression(value, choices, negated):
            inside = ", ".join(map(expression_text, choices))
            return f"({expression_text(value)} {'NOT ' if negated else ''}IN ({inside}))"
        case g.CallExpression(name, arguments):
            inside = ", ".join(map(expression_text, arguments))
            return f"{_NAMES.get(name, name)}({inside})"


def pattern_text(pattern: g.GraphPattern) -> str:
    """
    >>> s, p = g.GraphVariable("s"), g.Term("<http://x/p>")
    >>> pattern_text(g.FilterPattern(g.BasicPattern((g.Triple(s, p, s),)), s))
    '{ ?s <http://x/p> ?s . FILTER(?s) }'
    """
    return f"{{ {_inside(pattern)} }}"


def _inside(pattern: g.GraphPattern) -> str:
    match pattern:
        case g.BasicPattern(triples):
            return " ".join(" ".join(map(_node, triple.nodes())) + " ." for triple in triples)
        case g.JoinPattern(parts):
            return " ".join(map(pattern_text, parts))
        case g.UnionPattern(parts):
            return " UNION ".join(map(pattern_text, parts))
        case g.OptionalPattern(inner, extra, condition):
            tail = f" FILTER({expression_text(condition)})" if condition is not None else ""
            return f"{pattern_text(inner)} OPTIONAL {{ {pattern_text(extra)}{tail} }}"
        case g.FilterPattern(g.BasicPattern() as inner, condition):
            return f"{_inside(inner)} FILTER({expression_text(condition)})"
        case g.FilterPattern(inner, condition):
            return f"{pattern_text(inner)} FILTER({expression_text(condition)})"
        case g.BackgroundPattern(name, inner):
            return f"GRAPH {_node(name)} {pattern_text(inner)}"


def _node(node: g.Node) -> str:
    if isinstance(node, g.Term):
        return node.text
    return node.name if node.hidden else f"?{node.name}"
