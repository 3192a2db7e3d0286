"""Graph patterns and expressions as SPARQL text, for engines that read it.

Written so that scopes stay what they are: every operand of an operator stands in braces of its
own, every expression in parentheses.
"""

from __future__ import annotations

from cernis.pattern import graph as g

__all__ = ["expression_text", "pattern_text"]

_NAMES = {"SAMETERM": "sameTerm"}


def expression_text(expression: g.Expression) -> str:
    """
    >>> expression_text(g.Not(g.Compared("<", g.Variable("a"), g.Term('"b"'))))
    '(! (?a < "b"))'
    """
    match expression:
        case g.Variable(name):
            return f"?{name}"
        case g.Term(text):
            return text
        case g.And(parts):
            return "(" + " && ".join(map(expression_text, parts)) + ")"
        case g.Or(parts):
            return "(" + " || ".join(map(expression_text, parts)) + ")"
        case g.Not(part):
            return f"(! {expression_text(part)})"
        case g.Negative(part):
            return f"(- {expression_text(part)})"
        case g.Compared(op, left, right) | g.Arithmetic(op, left, right):
            return f"({expression_text(left)} {op} {expression_text(right)})"
        case g.OneOf(value, choices, negated):
            inside = ", ".join(map(expression_text, choices))
            return f"({expression_text(value)} {'NOT ' if negated else ''}IN ({inside}))"
        case g.Call(name, arguments):
            inside = ", ".join(map(expression_text, arguments))
            return f"{_NAMES.get(name, name)}({inside})"


def pattern_text(pattern: g.GraphPattern) -> str:
    """
    >>> s, p = g.Variable("s"), g.Term("<http://x/p>")
    >>> pattern_text(g.Filtered(g.Basic((g.Triple(s, p, s),)), s))
    '{ ?s <http://x/p> ?s . FILTER(?s) }'
    """
    return f"{{ {_inside(pattern)} }}"


def _inside(pattern: g.GraphPattern) -> str:
    match pattern:
        case g.Basic(triples):
            return " ".join(" ".join(map(_node, triple.nodes())) + " ." for triple in triples)
        case g.Joined(parts):
            return " ".join(map(pattern_text, parts))
        case g.United(parts):
            return " UNION ".join(map(pattern_text, parts))
        case g.Optional(inner, extra, condition):
            tail = f" FILTER({expression_text(condition)})" if condition is not None else ""
            return f"{pattern_text(inner)} OPTIONAL {{ {pattern_text(extra)}{tail} }}"
        case g.Filtered(g.Basic() as inner, condition):
            return f"{_inside(inner)} FILTER({expression_text(condition)})"
        case g.Filtered(inner, condition):
            return f"{pattern_text(inner)} FILTER({expression_text(condition)})"
        case g.Background(name, inner):
            return f"GRAPH {_node(name)} {pattern_text(inner)}"


def _node(node: g.Node) -> str:
    if isinstance(node, g.Term):
        return node.text
    return node.name if node.hidden else f"?{node.name}"
