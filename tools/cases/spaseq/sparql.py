"""Graph patterns and expressions as SPARQL text, for engines that read it.

Written so that scopes stay what they are: every operand of an operator stands in braces of its
own, every expression in parentheses.
"""

from __future__ import annotations

from cernis.languages.spaseq.graphs import graph as g
from cernis.languages.spaseq.graphs.write import write_path, write_pattern_lines

_NAMES = {"SAMETERM": "sameTerm"}


def write_expression(expression: g.Expression) -> str:
    """Return an expression as SPARQL.

    >>> less = g.ComparisonExpression("<", g.GraphVariable("a"), g.Term('"b"'))
    >>> write_expression(g.NotExpression(less))
    '(! (?a < "b"))'
    """
    match expression:
        case g.GraphVariable(name):
            return f"?{name}"
        case g.Term(text):
            return text
        case g.AndExpression(parts):
            return "(" + " && ".join(map(write_expression, parts)) + ")"
        case g.OrExpression(parts):
            return "(" + " || ".join(map(write_expression, parts)) + ")"
        case g.NotExpression(part):
            return f"(! {write_expression(part)})"
        case g.NegativeExpression(part):
            return f"(- {write_expression(part)})"
        case g.ComparisonExpression(op, left, right) | g.ArithmeticExpression(op, left, right):
            return f"({write_expression(left)} {op} {write_expression(right)})"
        case g.InExpression(value, choices, negated):
            inside = ", ".join(map(write_expression, choices))
            return f"({write_expression(value)} {'NOT ' if negated else ''}IN ({inside}))"
        case g.CallExpression(name, arguments):
            inside = ", ".join(map(write_expression, arguments))
            return f"{_NAMES.get(name, name)}({inside})"
        case g.ExistsExpression(pattern, condition):
            tail = f" FILTER({write_expression(condition)})" if condition is not None else ""
            return f"EXISTS {{ {write_graph_pattern(pattern)}{tail} }}"


def write_graph_pattern(pattern: g.GraphPattern) -> str:
    """Return a graph pattern as SPARQL.

    >>> s, p = g.GraphVariable("s"), g.Term("<http://x/p>")
    >>> write_graph_pattern(g.FilterPattern(g.BasicPattern((g.Triple(s, p, s),)), s))
    '{ ?s <http://x/p> ?s . FILTER(?s) }'
    """
    return f"{{ {_write_inside(pattern)} }}"


def _write_inside(pattern: g.GraphPattern) -> str:
    match pattern:
        case g.BasicPattern(triples):
            return " ".join(" ".join(map(_write_node, triple.nodes())) + " ." for triple in triples)
        case g.JoinPattern(parts):
            return " ".join(map(write_graph_pattern, parts))
        case g.UnionPattern(parts):
            return " UNION ".join(map(write_graph_pattern, parts))
        case g.OptionalPattern(inner, extra, condition):
            tail = f" FILTER({write_expression(condition)})" if condition is not None else ""
            return f"{write_graph_pattern(inner)} OPTIONAL {{ {write_graph_pattern(extra)}{tail} }}"
        case g.FilterPattern(g.BasicPattern() as inner, condition):
            return f"{_write_inside(inner)} FILTER({write_expression(condition)})"
        case g.FilterPattern(inner, condition):
            return f"{write_graph_pattern(inner)} FILTER({write_expression(condition)})"
        case g.BindPattern(inner, variable, expression):
            bound = f"BIND({write_expression(expression)} AS ?{variable.name})"
            return f"{write_graph_pattern(inner)} {bound}"
        case g.MinusPattern(inner, removed):
            return f"{write_graph_pattern(inner)} MINUS {write_graph_pattern(removed)}"
        case g.ValuesPattern(variables, rows):
            names = " ".join(f"?{variable.name}" for variable in variables)
            cells = (" ".join("UNDEF" if c is None else c.text for c in row) for row in rows)
            return f"VALUES ({names}) {{ {' '.join(f'({row})' for row in cells)} }}"
        case g.UnfoldPattern():
            return "\n".join(write_pattern_lines(pattern, ""))
        case g.ClosurePattern(subject, path, object_):
            return f"{_write_node(subject)} {write_path(path)} {_write_node(object_)} ."
        case g.BackgroundPattern(name, inner):
            return f"GRAPH {_write_node(name)} {write_graph_pattern(inner)}"


def _write_node(node: g.Node) -> str:
    if isinstance(node, g.Term):
        return node.text
    return node.name if node.hidden else f"?{node.name}"
