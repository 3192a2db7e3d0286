"""SPARQL graph patterns and the expressions of their filters: what one event must hold.

The algebra of Pérez, Arenas and Gutierrez that the SPAseQ paper builds on (AND, OPT, UNION,
FILTER, GRAPH), with SPARQL 1.1's BIND, VALUES, MINUS, EXISTS and property paths, as plain data.
Terms are kept in N-Triples form; a blank node of a pattern is a variable that nobody can name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from cernis.errors import Span


@dataclass(frozen=True, slots=True)
class GraphVariable:
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


Node = GraphVariable | Term


@dataclass(frozen=True, slots=True)
class Triple:
    subject: Node
    predicate: Node
    object: Node

    def nodes(self) -> tuple[Node, Node, Node]:
        return self.subject, self.predicate, self.object


# ------------------------------------------------------------------ patterns


@dataclass(frozen=True, slots=True)
class BasicPattern:
    """A basic graph pattern: all triples at once. No triples: the empty solution."""

    triples: tuple[Triple, ...]


@dataclass(frozen=True, slots=True)
class JoinPattern:
    """`{ P₁ P₂ … }`: compatible solutions of all parts, united."""

    parts: tuple[GraphPattern, ...]


@dataclass(frozen=True, slots=True)
class OptionalPattern:
    """`P OPTIONAL { Q FILTER c }`: with Q where it fits and `c` holds on both, else P alone."""

    pattern: GraphPattern
    extra: GraphPattern
    condition: Expression | None = None


@dataclass(frozen=True, slots=True)
class UnionPattern:
    """`{ P₁ } UNION { P₂ } …`"""

    parts: tuple[GraphPattern, ...]


@dataclass(frozen=True, slots=True)
class FilterPattern:
    """`{ P FILTER c }`: the solutions of P for which `c` is true; an error is not true."""

    pattern: GraphPattern
    condition: Expression


@dataclass(frozen=True, slots=True)
class BackgroundPattern:
    """`GRAPH <kb> { P }`: P over background knowledge of that name, not over the event."""

    name: Node
    pattern: GraphPattern


@dataclass(frozen=True, slots=True)
class BindPattern:
    """`P BIND (expression AS ?v)`: the solutions of P with one more value; none for an error."""

    pattern: GraphPattern
    variable: GraphVariable
    expression: Expression


@dataclass(frozen=True, slots=True)
class ValuesPattern:
    """`VALUES (?a ?b) { … }`: these solutions; None is UNDEF."""

    variables: tuple[GraphVariable, ...]
    rows: tuple[tuple[Term | None, ...], ...]


@dataclass(frozen=True, slots=True)
class MinusPattern:
    """`P MINUS { Q }`: the solutions of P that share no variable with a compatible one of Q."""

    pattern: GraphPattern
    removed: GraphPattern


@dataclass(frozen=True, slots=True)
class InversePath:
    """`^path`"""

    path: Path


@dataclass(frozen=True, slots=True)
class PathChain:
    """`path/path`"""

    steps: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class PathChoice:
    """`path|path`"""

    paths: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class NegatedPath:
    """`!(:p|^:q)`: any predicate but these, forwards, or backwards."""

    forwards: tuple[Term, ...]
    backwards: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class RepeatedPath:
    """`path*`, `path+` or `path?`"""

    path: Path
    sign: str


Path = Node | InversePath | PathChain | PathChoice | NegatedPath | RepeatedPath


@dataclass(frozen=True, slots=True)
class ClosurePattern:
    """`?s path* ?o`: the pairs of nodes with a way of such steps from one to the other.

    A way without a step leads from each node of the graph to itself, and from a term that stands
    at an end of the path. Paths of a fixed length are triples and unions.
    """

    subject: Node
    path: RepeatedPath
    object: Node


@dataclass(frozen=True, slots=True)
class UnfoldPattern:
    """`?e :says <<( ?s :p ?o )>>`: the solutions of a pattern in which a variable is a triple term
    of this form, which binds the variables in it.

    The variable stands for the triple term in `pattern`, and no text names it.
    """

    pattern: GraphPattern
    variable: GraphVariable
    form: Triple


TripleTemplate = Triple | UnfoldPattern
"""A triple of CONSTRUCT; one with triple terms is a pattern of one triple with their forms."""


def split_template(template: TripleTemplate) -> tuple[Triple, dict[str, Triple]]:
    """Return a triple of CONSTRUCT, and the forms of the variables that stand for triple terms.

    >>> x, p, t = GraphVariable("x"), Term("<http://x/p>"), GraphVariable("_:t")
    >>> says = UnfoldPattern(BasicPattern((Triple(x, p, t),)), t, Triple(x, p, x))
    >>> split_template(says) == (Triple(x, p, t), {"_:t": Triple(x, p, x)})
    True
    """
    forms: dict[str, Triple] = {}
    inner: GraphPattern | Triple = template
    while isinstance(inner, UnfoldPattern):
        forms[inner.variable.name] = inner.form
        inner = inner.pattern
    if isinstance(inner, BasicPattern):
        (inner,) = inner.triples
    assert isinstance(inner, Triple)
    return inner, forms


def find_template_variables(templates: Iterable[TripleTemplate]) -> list[GraphVariable]:
    """Return the variables that CONSTRUCT takes from a match; blank nodes are none."""
    triples = (one for each in templates for one in _list_template_triples(each))
    nodes = (node for triple in triples for node in triple.nodes())
    return [one for one in nodes if isinstance(one, GraphVariable) and not one.hidden]


def _list_template_triples(template: TripleTemplate) -> tuple[Triple, ...]:
    triple, forms = split_template(template)
    return triple, *forms.values()


GraphPattern = (
    BasicPattern
    | JoinPattern
    | OptionalPattern
    | UnionPattern
    | FilterPattern
    | BackgroundPattern
    | BindPattern
    | ValuesPattern
    | MinusPattern
    | ClosurePattern
    | UnfoldPattern
)


# --------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True)
class OrExpression:
    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class AndExpression:
    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class NotExpression:
    part: Expression


@dataclass(frozen=True, slots=True)
class ComparisonExpression:
    """`left op right`, op one of = != < <= > >="""

    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class InExpression:
    """`value IN (…)` or `value NOT IN (…)`."""

    value: Expression
    choices: tuple[Expression, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class ArithmeticExpression:
    """`left op right`, op one of + - * /"""

    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class NegativeExpression:
    part: Expression


@dataclass(frozen=True, slots=True)
class CallExpression:
    """A built-in function by its name in capitals, or a cast by its IRI in N-Triples form."""

    name: str
    arguments: tuple[Expression, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class AmongCall(CallExpression):
    """Whether a set of solutions has one that agrees with variables and fulfils a condition.

    No query can write it: EXISTS with variables of other steps becomes one. The first argument is
    the set, the others are the variables to agree with and those that the condition mentions
    besides.
    """

    names: tuple[str, ...] = ()
    """The variables of the solutions."""
    condition: Expression | None = None


@dataclass(frozen=True, slots=True)
class ExistsExpression:
    """`EXISTS { P FILTER c }`: whether P has a solution that fits this one, and `c` holds on both.

    Its own variables are not mentioned outside.
    """

    pattern: GraphPattern
    condition: Expression | None = None
    span: Span | None = field(default=None, compare=False, repr=False)
    shared: tuple[GraphVariable, ...] = ()
    """The variables of P that other steps bind, and the pattern around does not."""
    asked: tuple[GraphVariable, ...] = ()
    """The variables of `c` that other steps bind, and neither P nor the pattern around does."""


Expression = (
    GraphVariable
    | Term
    | OrExpression
    | AndExpression
    | NotExpression
    | ComparisonExpression
    | InExpression
    | ArithmeticExpression
    | NegativeExpression
    | CallExpression
    | ExistsExpression
)


# ----------------------------------------------------------------- variables


def find_variables(pattern: GraphPattern) -> list[str]:
    """Return the variables that a solution may bind, with blank nodes, in order of appearance.

    >>> s, p, o = GraphVariable("s"), Term("<http://x/p>"), GraphVariable("o")
    >>> one, other = BasicPattern((Triple(s, p, o),)), BasicPattern((Triple(o, p, s),))
    >>> find_variables(OptionalPattern(one, other))
    ['s', 'o']
    """
    return list(dict.fromkeys(_variables(pattern)))


def _variables(pattern: GraphPattern) -> Iterator[str]:
    """Yield the variables of a pattern, left to right; not recursive, as patterns may be deep."""
    stack = [pattern]
    while stack:
        match stack.pop():
            case BasicPattern(triples):
                nodes = (node for triple in triples for node in triple.nodes())
                yield from (node.name for node in nodes if isinstance(node, GraphVariable))
            case JoinPattern(parts) | UnionPattern(parts):
                stack += reversed(parts)
            case OptionalPattern(inner, extra, _):
                stack += (extra, inner)
            case FilterPattern(inner, _) | MinusPattern(inner, _):
                stack.append(inner)
            case BindPattern(inner, variable, _):
                stack += (ValuesPattern((variable,), ()), inner)
            case ValuesPattern(variables, _):
                yield from (variable.name for variable in variables)
            case ClosurePattern(subject, _, object_):
                ends = (subject, object_)
                yield from (node.name for node in ends if isinstance(node, GraphVariable))
            case UnfoldPattern(inner, _, form):
                stack += (BasicPattern((form,)), inner)
            case BackgroundPattern(name, inner):
                if isinstance(name, GraphVariable):
                    yield name.name
                stack.append(inner)


def find_certain_variables(pattern: GraphPattern) -> set[str]:
    """Return the variables that every solution binds.

    >>> s, p, o = GraphVariable("s"), Term("<http://x/p>"), GraphVariable("o")
    >>> one, other = BasicPattern((Triple(s, p, s),)), BasicPattern((Triple(s, p, o),))
    >>> sorted(find_certain_variables(OptionalPattern(one, other)))
    ['s']
    """
    match pattern:
        case BasicPattern() | ClosurePattern():
            return set(find_variables(pattern))
        case UnfoldPattern(inner, _, form):
            return find_certain_variables(inner).union(find_variables(BasicPattern((form,))))
        case JoinPattern(parts):
            return set().union(*map(find_certain_variables, parts))
        case UnionPattern(parts):
            return set.intersection(*map(find_certain_variables, parts))
        case OptionalPattern(inner, _, _) | FilterPattern(inner, _):
            return find_certain_variables(inner)
        case BindPattern(inner, _, _) | MinusPattern(inner, _):
            return find_certain_variables(inner)
        case ValuesPattern(variables, rows):
            columns = zip(*rows, strict=True) if rows else [()] * len(variables)
            pairs = zip(variables, columns, strict=True)
            return {variable.name for variable, column in pairs if None not in column}
        case BackgroundPattern(name, inner):
            return find_certain_variables(inner) | (
                {name.name} if isinstance(name, GraphVariable) else set()
            )


def find_mentions(expression: Expression) -> list[GraphVariable]:
    """Return the variables of an expression, each time they occur.

    EXISTS mentions those of other steps: what it shares with the solution at hand is found by name.
    """
    match expression:
        case GraphVariable():
            return [expression]
        case Term():
            return []
        case ExistsExpression(shared=shared, asked=asked):
            return [*shared, *asked]
        case OrExpression(parts) | AndExpression(parts):
            return [v for part in parts for v in find_mentions(part)]
        case NotExpression(part) | NegativeExpression(part):
            return find_mentions(part)
        case ComparisonExpression(_, left, right) | ArithmeticExpression(_, left, right):
            return find_mentions(left) + find_mentions(right)
        case InExpression(value, choices, _):
            return find_mentions(value) + [v for choice in choices for v in find_mentions(choice)]
        case CallExpression(_, arguments):
            return [v for argument in arguments for v in find_mentions(argument)]


def list_children(
    node: GraphPattern | Expression,
) -> tuple[GraphPattern | Expression, ...]:
    """Return the patterns and expressions that a pattern or expression consists of."""
    match node:
        case BasicPattern() | ValuesPattern() | ClosurePattern() | GraphVariable() | Term():
            return ()
        case JoinPattern(parts) | UnionPattern(parts):
            return parts
        case AndExpression(conditions) | OrExpression(conditions):
            return conditions
        case OptionalPattern(pattern, extra, condition):
            return (pattern, extra) if condition is None else (pattern, extra, condition)
        case FilterPattern(pattern, condition) | BindPattern(pattern, _, condition):
            return pattern, condition
        case MinusPattern(pattern, removed):
            return pattern, removed
        case BackgroundPattern(_, pattern) | UnfoldPattern(pattern, _, _):
            return (pattern,)
        case ExistsExpression(pattern, condition):
            return (pattern,) if condition is None else (pattern, condition)
        case NotExpression(part) | NegativeExpression(part):
            return (part,)
        case ComparisonExpression(_, left, right) | ArithmeticExpression(_, left, right):
            return left, right
        case InExpression(value, choices, _):
            return value, *choices
        case CallExpression(_, arguments):
            return arguments


def find_exists(expression: Expression) -> Iterator[ExistsExpression]:
    """Yield every EXISTS of an expression, those inside of another one left out."""
    if isinstance(expression, ExistsExpression):
        yield expression
        return
    for child in list_children(expression):
        yield from find_exists(child)  # type: ignore[arg-type]


def split_and(condition: Expression | None) -> tuple[Expression, ...]:
    """Return the parts of a condition that must all be true; None is true."""
    if isinstance(condition, AndExpression):
        return tuple(part for one in condition.parts for part in split_and(one))
    return () if condition is None else (condition,)


def split_filters(pattern: GraphPattern) -> tuple[GraphPattern, tuple[Expression, ...]]:
    """Split a pattern from the conditions of its outermost FILTERs that it cannot decide alone.

    Those mention variables that the pattern does not bind. They are asked of the pattern joined
    with the solutions of earlier steps.

    >>> x, y, p = GraphVariable("x"), GraphVariable("y"), Term("<http://x/p>")
    >>> one = BasicPattern((Triple(x, p, x),))
    >>> late = ComparisonExpression("<", x, y)
    >>> split_filters(FilterPattern(one, late)) == (one, (late,))
    True
    """
    own: list[Expression] = []
    late: list[Expression] = []
    inner = pattern
    while isinstance(inner, FilterPattern):
        known = set(find_variables(inner.pattern))
        condition = inner.condition
        for part in condition.parts if isinstance(condition, AndExpression) else (condition,):
            here = all(variable.name in known for variable in find_mentions(part))
            (own if here else late).append(part)
        inner = inner.pattern
    for condition in reversed(own):
        inner = FilterPattern(inner, condition)
    return inner, tuple(late)
