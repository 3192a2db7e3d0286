"""SPARQL graph patterns and the expressions of their filters: what one event must hold.

The algebra of Pérez, Arenas and Gutierrez that the SPAseQ paper builds on (AND, OPT, UNION,
FILTER, GRAPH), as plain data. Terms are kept in N-Triples form; a blank node of a pattern is a
variable that nobody can name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from cernis.errors import Span

__all__ = [
    "And",
    "Arithmetic",
    "Background",
    "Basic",
    "Call",
    "Compared",
    "Expression",
    "Filtered",
    "GraphPattern",
    "Joined",
    "Negative",
    "Node",
    "Not",
    "OneOf",
    "Optional",
    "Or",
    "Term",
    "Triple",
    "United",
    "Variable",
]


@dataclass(frozen=True, slots=True)
class Variable:
    """`?name`; a blank node of a pattern has a name that begins with `_:`."""

    name: str
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def hidden(self) -> bool:
        return self.name.startswith("_:")


@dataclass(frozen=True, slots=True)
class Term:
    """An IRI or a literal, in N-Triples form: `<http://…>`, `"5"^^<…integer>`, `"a"@en`."""

    text: str
    span: Span | None = field(default=None, compare=False, repr=False)


Node = Variable | Term


@dataclass(frozen=True, slots=True)
class Triple:
    subject: Node
    predicate: Node
    object: Node

    def nodes(self) -> tuple[Node, Node, Node]:
        return self.subject, self.predicate, self.object


# ------------------------------------------------------------------ patterns


@dataclass(frozen=True, slots=True)
class Basic:
    """A basic graph pattern: all triples at once. No triples: the empty solution."""

    triples: tuple[Triple, ...]


@dataclass(frozen=True, slots=True)
class Joined:
    """`{ P₁ P₂ … }`: compatible solutions of all parts, united."""

    parts: tuple[GraphPattern, ...]


@dataclass(frozen=True, slots=True)
class Optional:
    """`P OPTIONAL { Q FILTER c }`: with Q where it fits and `c` holds on both, else P alone."""

    pattern: GraphPattern
    extra: GraphPattern
    condition: Expression | None = None


@dataclass(frozen=True, slots=True)
class United:
    """`{ P₁ } UNION { P₂ } …`"""

    parts: tuple[GraphPattern, ...]


@dataclass(frozen=True, slots=True)
class Filtered:
    """`{ P FILTER c }`: the solutions of P for which `c` is true; an error is not true."""

    pattern: GraphPattern
    condition: Expression


@dataclass(frozen=True, slots=True)
class Background:
    """`GRAPH <kb> { P }`: P over background knowledge of that name, not over the event."""

    name: Node
    pattern: GraphPattern


GraphPattern = Basic | Joined | Optional | United | Filtered | Background


# --------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Not:
    part: Expression


@dataclass(frozen=True, slots=True)
class Compared:
    """`left op right`, op one of = != < <= > >="""

    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class OneOf:
    """`value IN (…)` or `value NOT IN (…)`."""

    value: Expression
    choices: tuple[Expression, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left op right`, op one of + - * /"""

    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Negative:
    part: Expression


@dataclass(frozen=True, slots=True)
class Call:
    """A built-in function by its name in capitals, or a cast by its IRI in N-Triples form."""

    name: str
    arguments: tuple[Expression, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


Expression = Variable | Term | Or | And | Not | Compared | OneOf | Arithmetic | Negative | Call


# ----------------------------------------------------------------- variables


def variables(pattern: GraphPattern) -> list[str]:
    """The variables that a solution may bind, blank nodes among them, in order of appearance.

    >>> s, p, o = Variable("s"), Term("<http://x/p>"), Variable("o")
    >>> variables(Optional(Basic((Triple(s, p, o),)), Basic((Triple(o, p, s),))))
    ['s', 'o']
    """
    return list(dict.fromkeys(_variables(pattern)))


def _variables(pattern: GraphPattern) -> Iterator[str]:
    match pattern:
        case Basic(triples):
            for triple in triples:
                yield from (n.name for n in triple.nodes() if isinstance(n, Variable))
        case Joined(parts) | United(parts):
            for part in parts:
                yield from _variables(part)
        case Optional(inner, extra, _):
            yield from _variables(inner)
            yield from _variables(extra)
        case Filtered(inner, _):
            yield from _variables(inner)
        case Background(name, inner):
            if isinstance(name, Variable):
                yield name.name
            yield from _variables(inner)


def certain(pattern: GraphPattern) -> set[str]:
    """The variables that every solution binds.

    >>> s, p, o = Variable("s"), Term("<http://x/p>"), Variable("o")
    >>> sorted(certain(Optional(Basic((Triple(s, p, s),)), Basic((Triple(s, p, o),)))))
    ['s']
    """
    match pattern:
        case Basic():
            return set(variables(pattern))
        case Joined(parts):
            return set().union(*map(certain, parts))
        case United(parts):
            return set.intersection(*map(certain, parts))
        case Optional(inner, _, _) | Filtered(inner, _):
            return certain(inner)
        case Background(name, inner):
            return certain(inner) | ({name.name} if isinstance(name, Variable) else set())


def mentioned(expression: Expression) -> list[Variable]:
    """The variables of an expression, each time they occur."""
    match expression:
        case Variable():
            return [expression]
        case Term():
            return []
        case Or(parts) | And(parts):
            return [v for part in parts for v in mentioned(part)]
        case Not(part) | Negative(part):
            return mentioned(part)
        case Compared(_, left, right) | Arithmetic(_, left, right):
            return mentioned(left) + mentioned(right)
        case OneOf(value, choices, _):
            return mentioned(value) + [v for choice in choices for v in mentioned(choice)]
        case Call(_, arguments):
            return [v for argument in arguments for v in mentioned(argument)]


def parted(pattern: GraphPattern) -> tuple[GraphPattern, tuple[Expression, ...]]:
    """A pattern without the conditions of its outermost FILTERs that mention what it does not
    bind, and these conditions: they are asked of the pattern joined with what came before.

    >>> x, y, p = Variable("x"), Variable("y"), Term("<http://x/p>")
    >>> one = Basic((Triple(x, p, x),))
    >>> parted(Filtered(one, Compared("<", x, y))) == (one, (Compared("<", x, y),))
    True
    """
    own: list[Expression] = []
    late: list[Expression] = []
    inner = pattern
    while isinstance(inner, Filtered):
        known = set(variables(inner.pattern))
        condition = inner.condition
        for part in condition.parts if isinstance(condition, And) else (condition,):
            here = all(variable.name in known for variable in mentioned(part))
            (own if here else late).append(part)
        inner = inner.pattern
    for condition in reversed(own):
        inner = Filtered(inner, condition)
    return inner, tuple(late)
