"""From the rules of the grammar to a query as it is written, with its names not resolved.

One method for each rule, on top of those in `text/tree.py`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from cernis.errors import Span
from cernis.languages.conjunctive import query as q
from cernis.languages.text.tokens import Name, Token
from cernis.languages.text.tree import OPERATORS, TreeReader
from cernis.pattern.predicate import Arithmetic, Attribute, Call, Literal, Value
from cernis.pattern.query import Window
from cernis.pattern.write import capitalize_ascii
from cernis.schema import Schema

_UPWARD, _DOWNWARD = {"<", "<="}, {">", ">="}


class WrittenAtom(NamedTuple):
    """An atom whose arguments may lack the names of their attributes."""

    relation: Name
    stream: Name | None
    arguments: tuple[tuple[Attribute | None, q.Argument], ...]
    time: q.ConjunctiveVariable | None
    span: Span

    @property
    def label(self) -> str:
        return f"{self.stream.text}>{self.relation.text}" if self.stream else self.relation.text


class WrittenConjunctiveQuery(NamedTuple):
    name: Name
    head: tuple[q.ConjunctiveVariable, ...]
    head_span: Span
    atoms: tuple[WrittenAtom, ...]
    comparisons: tuple[q.ConjunctiveComparison, ...]
    within: Window | None
    declared: Schema | None


def _to_value(side: q.ConjunctiveVariable | Literal | q.Computed) -> Value:
    """Return an argument of a function, in which variables are attributes."""
    match side:
        case q.ConjunctiveVariable(name=name, span=span):
            return Attribute((name,), span=span)
        case q.Computed(value=value):
            return value
    return side


class ConjunctiveReader(TreeReader):
    """Reads one text; `mistakes` holds what was wrong with it."""

    def conjunctive(self, span: Span, parts: list[Any]) -> WrittenConjunctiveQuery:
        declared, (name, head, head_span), _arrow, body, within = parts
        atoms = tuple(item for item in body or () if isinstance(item, WrittenAtom))
        chains = [item for item in body or () if isinstance(item, list)]
        comparisons = tuple(comparison for chain in chains for comparison in chain)
        return WrittenConjunctiveQuery(name, head, head_span, atoms, comparisons, within, declared)

    def head(
        self, span: Span, parts: list[Any]
    ) -> tuple[Name, tuple[q.ConjunctiveVariable, ...], Span]:
        return parts[0], tuple(part for part in parts[1:] if part is not None), span

    def body(self, span: Span, parts: list[Any]) -> list[Any]:
        return parts

    def atom(self, span: Span, parts: list[Any]) -> WrittenAtom:
        (stream, relation), *arguments, _at, time = parts
        given = tuple(argument for argument in arguments if argument is not None)
        return WrittenAtom(relation, stream, given, time, span)

    def relation(self, span: Span, parts: list[Any]) -> tuple[Name | None, Name]:
        first, _of, second = parts
        return (None, first) if second is None else (first, second)

    def argument(self, span: Span, parts: list[Any]) -> tuple[Attribute | None, q.Argument]:
        return parts[0], parts[1]

    def variable(self, span: Span, parts: list[Name]) -> q.ConjunctiveVariable:
        return q.ConjunctiveVariable(parts[0].text, span=parts[0].span)

    def difference(self, span: Span, parts: list[Any]) -> q.Difference:
        return q.Difference(parts[0], parts[2], span=span)

    def computed(self, span: Span, parts: list[Any]) -> q.Computed:
        word, *sides = parts
        name = capitalize_ascii(word.value)
        return q.Computed(Call(name, tuple(map(_to_value, sides)), span=span), span=span)

    def summed(self, span: Span, parts: list[Any]) -> q.Computed:
        left, sign, right = parts
        one, other = _to_value(left), _to_value(right)
        return q.Computed(Arithmetic(sign.value, one, other, span=span), span=span)

    def duration(self, span: Span, parts: list[Token]) -> q.Duration:
        return q.Duration(self.time_span(span, parts).size, span=span)

    def chain(self, span: Span, parts: list[Any]) -> list[q.ConjunctiveComparison]:
        """Take a chain apart: `a < b < c` is `a < b` and `b < c`."""
        sides: list[q.Side] = parts[::2]
        operators = [OPERATORS[token.value] for token in parts[1::2]]
        one_way = {*operators} <= _UPWARD or {*operators} <= _DOWNWARD
        if len(operators) > 1 and not one_way:
            self.mistakes.note(
                "a chain of comparisons must go one way",
                span,
                suggestion="write the comparisons one by one, with ',' between them",
            )
        return [
            q.ConjunctiveComparison(
                op, left, right, span=cast(Span, left.span).to(cast(Span, right.span))
            )
            for op, left, right in zip(operators, sides, sides[1:], strict=False)
        ]
