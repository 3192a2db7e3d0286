"""Graph patterns and expressions: from lark's parse tree to the algebra.

One method for each rule, called bottom-up without recursion and from left to right, so that
prefixes are known before they are used. Groups become the algebra of SPARQL 1.1, 18.2.2:

* the filters of a group apply to the whole group, those of an OPTIONAL's own group to the
  solutions of both sides;
* triple patterns with nothing or filters between them are one `BasicPattern`;
* a join is flat, and the empty pattern is left out of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

from lark import Token, Transformer_NonRecursive, v_args
from lark.tree import Meta

from cernis.errors import Span
from cernis.languages.spaseq.terms import (
    KNOWN_PREFIXES,
    RDF_TYPE,
    XSD,
    TermError,
    iri_value,
    literal,
    local_name,
    string_value,
)
from cernis.languages.text.mistakes import MOST_MISTAKES
from cernis.languages.text.tokens import span_of, span_of_tree
from cernis.pattern.graph import (
    AndExpression,
    ArithmeticExpression,
    BackgroundPattern,
    BasicPattern,
    CallExpression,
    ComparisonExpression,
    Expression,
    FilterPattern,
    GraphPattern,
    GraphVariable,
    InExpression,
    JoinPattern,
    NegativeExpression,
    Node,
    NotExpression,
    OptionalPattern,
    OrExpression,
    Term,
    Triple,
    UnionPattern,
)
from cernis.pattern.mistakes import MistakeList

_DATATYPES = {"INTEGER": XSD + "integer", "DECIMAL": XSD + "decimal", "DOUBLE": XSD + "double"}

_ONE, _TWO = range(1, 2), range(2, 3)
_ARGUMENTS = {
    "BOUND": _ONE,
    "STR": _ONE,
    "LANG": _ONE,
    "LANGMATCHES": _TWO,
    "DATATYPE": _ONE,
    "ISIRI": _ONE,
    "ISURI": _ONE,
    "ISBLANK": _ONE,
    "ISLITERAL": _ONE,
    "ISNUMERIC": _ONE,
    "REGEX": range(2, 4),
    "SAMETERM": _TWO,
    "CONTAINS": _TWO,
    "STRSTARTS": _TWO,
    "STRENDS": _TWO,
    "STRLEN": _ONE,
    "UCASE": _ONE,
    "LCASE": _ONE,
    "ABS": _ONE,
    "YEAR": _ONE,
    "MONTH": _ONE,
    "DAY": _ONE,
    "HOURS": _ONE,
    "MINUTES": _ONE,
    "SECONDS": _ONE,
}
"""How many arguments each function takes."""

_CASTS = ("integer", "decimal", "float", "double", "string", "boolean", "dateTime")
_CAST_IRIS = {f"<{XSD}{name}>" for name in _CASTS}
_CAST_NAMES = [f"xsd:{name}" for name in _CASTS]
_SAME_FUNCTION = {"ISURI": "ISIRI"}


class Described(NamedTuple):
    """A blank node with the triples that describe it."""

    node: GraphVariable
    triples: list[Triple]


class WrittenGroup(NamedTuple):
    """`{ … }`: its pattern, and the filters that apply to the whole of it."""

    pattern: GraphPattern
    condition: Expression | None

    @property
    def whole(self) -> GraphPattern:
        if self.condition is None:
            return self.pattern
        return FilterPattern(self.pattern, self.condition)


class _Condition(NamedTuple):
    condition: Expression


class _Optionally(NamedTuple):
    group: WrittenGroup


def _joined(left: GraphPattern, right: GraphPattern) -> GraphPattern:
    empty = BasicPattern(())
    if left == empty or right == empty:
        return right if left == empty else left
    parts: list[GraphPattern] = []
    for side in (left, right):
        parts += side.parts if isinstance(side, JoinPattern) else (side,)
    return JoinPattern(tuple(parts))


def _translated(elements: Iterable[object]) -> WrittenGroup:
    """SPARQL 1.1, 18.2.2.6, for elements in the order of the group."""
    pattern: GraphPattern = BasicPattern(())
    triples: list[Triple] = []
    conditions: list[Expression] = []
    for element in elements:
        match element:
            case list():
                triples += element
            case _Condition(condition):
                conditions.append(condition)
            case _Optionally(group):
                pattern, triples = _joined(pattern, BasicPattern(tuple(triples))), []
                pattern = OptionalPattern(pattern, group.pattern, group.condition)
            case _:
                pattern, triples = _joined(pattern, BasicPattern(tuple(triples))), []
                pattern = _joined(pattern, cast(GraphPattern, element))
    pattern = _joined(pattern, BasicPattern(tuple(triples)))
    return WrittenGroup(pattern, _chain(AndExpression, conditions) if conditions else None)


def _chain(
    kind: type[AndExpression] | type[OrExpression], parts: Sequence[Expression]
) -> Expression:
    """One node for a chain of one operator, whatever its brackets."""
    flat: list[Expression] = []
    for part in parts:
        flat += part.parts if isinstance(part, kind) else (part,)
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


@v_args(meta=True)
class GraphPatternReader(Transformer_NonRecursive[Token, Any]):
    """Reads the graph patterns of one text; `mistakes` holds what was wrong with it.

    `labels` are the labels of all blank nodes in the text, which nameless ones must not take.
    """

    def __init__(self, source: str, labels: Iterable[str]) -> None:
        super().__init__()
        self.source = source
        self.mistakes = MistakeList(MOST_MISTAKES)
        self.base: str | None = None
        self.prefixes = dict(KNOWN_PREFIXES)
        self.labels = frozenset(labels)
        self.scope = ""
        """The graph pattern whose blank nodes are read; empty for CONSTRUCT."""
        self.nameless = 0

    # ---------------------------------------------------------------------- terms

    def prologue(self, meta: Meta, parts: list[Any]) -> None:
        return None

    def base_iri(self, meta: Meta, parts: list[Token]) -> None:
        self.base = self._iri(parts[0])

    def prefix(self, meta: Meta, parts: list[Token]) -> None:
        self.prefixes[parts[0].value[:-1]] = self._iri(parts[1])

    def _iri(self, token: Token) -> str:
        """The IRI in angle brackets, or one that is wrong as well where it is wrong."""
        try:
            return iri_value(token.value, self.base)
        except TermError as error:
            suggestion = None
            if "BASE" in str(error):
                suggestion = "put BASE <http://…/> before everything, or write the whole IRI"
            self.mistakes.note(str(error), span_of(token), suggestion=suggestion)
            return "error:"

    def iri(self, meta: Meta, parts: list[Token]) -> Term:
        token = parts[0]
        if token.type == "IRI":
            return Term(f"<{self._iri(token)}>", span_of(token))
        prefix, _, local = token.value.partition(":")
        if prefix not in self.prefixes:
            self.mistakes.note(
                f"unknown prefix '{prefix}:'",
                span_of(token),
                suggestion=f"declare it before SELECT: PREFIX {prefix}: <http://…>",
                word=prefix,
                among=self.prefixes,
            )
            return Term("<error:>", span_of(token))
        return Term(f"<{self.prefixes[prefix]}{local_name(local)}>", span_of(token))

    def variable(self, meta: Meta, parts: list[Token]) -> GraphVariable:
        return GraphVariable(parts[0].value[1:], span_of(parts[0]))

    def string(self, meta: Meta, parts: list[Any]) -> Term:
        span = span_of_tree(meta)
        try:
            value = string_value(parts[0].value)
        except TermError as error:
            self.mistakes.note(
                str(error), span_of(parts[0]), suggestion=r"a backslash is written \\"
            )
            value = ""
        match parts[1:]:
            case [tag]:
                return Term(literal(value, language=tag.value[1:]), span)
            case [_carets, datatype]:
                return Term(literal(value, datatype=datatype.text[1:-1]), span)
            case _:
                return Term(literal(value), span)

    def number(self, meta: Meta, parts: list[Token]) -> Token:
        return parts[0]

    def unsigned(self, meta: Meta, parts: list[Token]) -> Term:
        token = parts[0]
        return Term(literal(token.value, datatype=_DATATYPES[token.type]), span_of(token))

    def signed(self, meta: Meta, parts: list[Token]) -> Term:
        number, sign = parts[-1], "".join(part.value for part in parts[:-1])
        text = literal(sign + number.value, datatype=_DATATYPES[number.type])
        return Term(text, span_of_tree(meta))

    def boolean(self, meta: Meta, parts: list[Token]) -> Term:
        value = parts[0].value.lower()
        return Term(literal(value, datatype=XSD + "boolean"), span_of(parts[0]))

    def type(self, meta: Meta, parts: list[Token]) -> Term:
        return Term(RDF_TYPE, span_of(parts[0]))

    # -------------------------------------------------------------------- triples

    def blank(self, meta: Meta, parts: list[Token]) -> GraphVariable:
        return GraphVariable(f"_:{self.scope}.{parts[0].value[2:]}", span_of(parts[0]))

    def anonymous(self, meta: Meta, parts: list[Any]) -> GraphVariable:
        return self._nameless(span_of_tree(meta))

    def _nameless(self, span: Span) -> GraphVariable:
        while f"b{self.nameless}" in self.labels:
            self.nameless += 1
        self.nameless += 1
        return GraphVariable(f"_:{self.scope}.b{self.nameless - 1}", span)

    def blank_with(self, meta: Meta, parts: list[Any]) -> Described:
        node = self._nameless(span_of_tree(meta))
        return Described(node, self._triples_of(node, parts[0]))

    def verb(self, meta: Meta, parts: list[Node]) -> Node:
        predicate = parts[0]
        if isinstance(predicate, GraphVariable) and predicate.hidden:
            self.mistakes.note(
                "a predicate is no blank node", predicate.span, suggestion="use a variable"
            )
        elif isinstance(predicate, Term) and not predicate.text.startswith("<"):
            self.mistakes.note("a predicate is an IRI or a variable, not a literal", predicate.span)
        return predicate

    def objects(self, meta: Meta, parts: list[Node | Described]) -> list[Node | Described]:
        return parts

    def property(self, meta: Meta, parts: list[Any]) -> tuple[Node, list[Node | Described]]:
        return parts[0], parts[1]

    def properties(self, meta: Meta, parts: list[Any]) -> list[Any]:
        return parts

    def _triples_of(
        self, subject: Node, properties: Iterable[tuple[Node, list[Node | Described]]]
    ) -> list[Triple]:
        triples: list[Triple] = []
        for predicate, objects in properties:
            for one in objects:
                node, more = one if isinstance(one, Described) else (one, [])
                triples += [Triple(subject, predicate, node), *more]
        return triples

    def same_subject(self, meta: Meta, parts: list[Any]) -> list[Triple]:
        subject, properties = parts[0], parts[1] if len(parts) > 1 else ()
        if isinstance(subject, Described):
            return subject.triples + self._triples_of(subject.node, properties)
        if isinstance(subject, Term) and not subject.text.startswith("<"):
            self.mistakes.note("a subject is an IRI or a variable, not a literal", subject.span)
        return self._triples_of(subject, properties)

    def triples(self, meta: Meta, parts: list[list[Triple]]) -> list[Triple]:
        return [triple for part in parts for triple in part]

    # --------------------------------------------------------------------- groups

    def group(self, meta: Meta, parts: list[object]) -> WrittenGroup:
        return _translated(parts)

    def filter(self, meta: Meta, parts: list[Expression]) -> _Condition:
        return _Condition(parts[0])

    def optional(self, meta: Meta, parts: list[WrittenGroup]) -> _Optionally:
        return _Optionally(parts[0])

    def union(self, meta: Meta, parts: list[WrittenGroup]) -> GraphPattern:
        return (
            parts[0].whole if len(parts) == 1 else UnionPattern(tuple(part.whole for part in parts))
        )

    def background(self, meta: Meta, parts: list[Any]) -> BackgroundPattern:
        return BackgroundPattern(parts[0], parts[1].whole)

    # ---------------------------------------------------------------- expressions

    def any_of(self, meta: Meta, parts: list[Expression]) -> Expression:
        return _chain(OrExpression, parts)

    def all_of(self, meta: Meta, parts: list[Expression]) -> Expression:
        return _chain(AndExpression, parts)

    def compared(self, meta: Meta, parts: list[Any]) -> ComparisonExpression:
        left, op, right = parts
        return ComparisonExpression(op.value, left, right)

    def one_of(self, meta: Meta, parts: list[Any]) -> InExpression:
        value, *choices = parts
        negated = bool(choices) and isinstance(choices[0], Token)
        return InExpression(value, tuple(choices[1:] if negated else choices), negated)

    def sum(self, meta: Meta, parts: list[Any]) -> ArithmeticExpression:
        left, op, right = parts
        return ArithmeticExpression(op.value, left, right)

    product = sum

    def denied(self, meta: Meta, parts: list[Any]) -> NotExpression:
        return NotExpression(parts[1])

    def _with_sign(self, sign: Token, operand: Expression) -> Term | None:
        """The number that a sign right before its digits is part of."""
        if not isinstance(operand, Term) or operand.span is None:
            return None
        start = operand.span.start
        if start != sign.end_pos or self.source[start] not in "0123456789.":
            return None
        return Term(f'"{sign.value}{operand.text[1:]}', span_of(sign).to(operand.span))

    def minus(self, meta: Meta, parts: list[Any]) -> Expression:
        return self._with_sign(parts[0], parts[1]) or NegativeExpression(parts[1])

    def plus(self, meta: Meta, parts: list[Any]) -> Expression:
        # what is no number must stay an error: twice negative is the same number
        return self._with_sign(parts[0], parts[1]) or NegativeExpression(
            NegativeExpression(parts[1])
        )

    def call(self, meta: Meta, parts: list[Any]) -> CallExpression:
        function, *arguments = parts
        span = span_of_tree(meta)
        if isinstance(function, Term):
            return self._cast(function, tuple(arguments), span)
        name = function.value.upper()
        if name not in _ARGUMENTS:
            self.mistakes.note(
                f"unknown function '{function.value}'",
                span_of(function),
                word=name,
                among=_ARGUMENTS,
                suggestion="EXISTS is not part of the language; B! in SEQ is what must not happen"
                if name == "EXISTS"
                else None,
            )
        else:
            self._count(function.value, _ARGUMENTS[name], len(arguments), span)
            if (
                name == "BOUND"
                and len(arguments) == 1
                and not isinstance(arguments[0], GraphVariable)
            ):
                self.mistakes.note("BOUND asks for a variable", span, expected="BOUND(?x)")
        return CallExpression(_SAME_FUNCTION.get(name, name), tuple(arguments), span)

    def _cast(
        self, function: Term, arguments: tuple[Expression, ...], span: Span
    ) -> CallExpression:
        if function.text in _CAST_IRIS:
            self._count(self._text(function), _ONE, len(arguments), span)
        elif function.text != "<error:>":
            self.mistakes.note(
                f"unknown function {self._text(function)}",
                function.span,
                word=self._text(function),
                among=_CAST_NAMES,
                suggestion=f"the casts are {', '.join(_CAST_NAMES)}",
            )
        return CallExpression(function.text, arguments, span)

    def _text(self, term: Term) -> str:
        return self.source[slice(*cast(Span, term.span))]

    def _count(self, name: str, takes: range, given: int, span: Span) -> None:
        if given in takes:
            return
        number = " or ".join(map(str, takes))
        arguments = "argument" if number == "1" else "arguments"
        self.mistakes.note(f"{name} takes {number} {arguments}, not {given}", span)
