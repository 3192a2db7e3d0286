"""From rules of a grammar to nodes: what all languages share, and the rules of two of them.

One method for each rule of `grammar.lark`, called when the parser has recognized it, with where it
stands and what was made of its parts. A reader notes what the nodes cannot hold, such as a number
out of range, and goes on, so that all mistakes are reported together.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple, cast, get_args

from cernis.errors import Span
from cernis.languages.text.mistakes import MOST_MISTAKES
from cernis.languages.text.tokens import MOST_DIGITS, Name, Token, exact_number, span_of
from cernis.languages.text.words import NANOSECONDS
from cernis.pattern.check.kinds import unite_kinds
from cernis.pattern.mistakes import MistakeList
from cernis.pattern.predicate import Attribute, Literal, Number, Operator, negate, read_number
from cernis.pattern.query import Unit, Window
from cernis.schema import Attributes, Kind, Schema, Stream

KINDS: dict[str, Kind] = {
    "int": Kind.INT,
    "integer": Kind.INT,
    "long": Kind.INT,
    "bigint": Kind.INT,
    "double": Kind.FLOAT,
    "float": Kind.FLOAT,
    "string": Kind.STRING,
    "boolean": Kind.BOOL,
    "bool": Kind.BOOL,
    "timestamp": Kind.TIMESTAMP,
    "datetime": Kind.TIMESTAMP,
    "date": Kind.TIMESTAMP,
    "primary_time": Kind.OTHER,  # a time or an integer, as the data has it
    "other": Kind.OTHER,
}
"""The names of types that a declaration may use, in any case."""

OPERATORS: dict[str, Operator] = {op: op for op in get_args(Operator)} | {"==": "=", "<>": "!="}


class DeclaredMember(NamedTuple):
    """An attribute of a declaration, or an event with its attributes."""

    name: str
    kind: Kind | None
    attributes: dict[str, Kind]
    span: Span


def flatten_attributes(events: dict[str, Attributes], loose: dict[str, Kind]) -> dict[str, Kind]:
    """Return every attribute of a stream, whichever event type has it."""
    kinds: dict[str, list[Kind]] = {}
    for attributes in events.values():
        for name, kind in attributes.items():
            kinds.setdefault(name, []).append(kind)
    return {name: unite_kinds(found) or Kind.OTHER for name, found in kinds.items()} | {
        name: kind for name, kind in loose.items() if name not in kinds
    }


def unquote(text: str) -> str:
    return text[1:-1].replace(text[0] * 2, text[0])


class LanguageReader:
    """Reads one text of any language; `mistakes` holds what was wrong with it."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.mistakes = MistakeList(MOST_MISTAKES)

    def _read_number(self, token: Token) -> Fraction:
        number = exact_number(token)
        if number is None:
            self.mistakes.note("the number is out of range", span_of(token))
            return Fraction(1)
        return number

    def _read_nanoseconds(self, parts: list[Token]) -> Fraction:
        """Return how long a duration is: numbers, each with its unit."""
        size = Fraction(0)
        for number, unit in zip(parts[::2], parts[1::2], strict=True):
            size += self._read_number(number) * NANOSECONDS[unit.value.upper()]
        return size


class TreeReader(LanguageReader):
    """Reads the rules that CEQL and conjunctive queries share."""

    # --------------------------------------------------------------- declarations

    def declarations(self, span: Span, streams: list[tuple[Stream, Span]]) -> Schema | None:
        seen: set[str] = set()
        for stream, span in streams:
            if stream.name in seen:
                self.mistakes.note(f"stream '{stream.name}' is declared twice", span)
            seen.add(stream.name)
        return Schema(tuple(stream for stream, _ in streams)) if streams else None

    def declaration(self, span: Span, parts: list[Any]) -> tuple[Stream, Span]:
        name: Name = parts[0]
        members = [part for part in parts[1:] if isinstance(part, DeclaredMember)]
        events: dict[str, Attributes] = {}
        for member in members:
            if member.kind is None:
                if member.name in events:
                    self.mistakes.note(f"event '{member.name}' is declared twice", member.span)
                events[member.name] = member.attributes
        loose = self._collect_attributes([member for member in members if member.kind is not None])
        return Stream(name.text, flatten_attributes(events, loose), events), name.span

    def _collect_attributes(self, members: list[DeclaredMember]) -> dict[str, Kind]:
        attributes: dict[str, Kind] = {}
        for member in members:
            if member.name in attributes:
                self.mistakes.note(f"attribute '{member.name}' is declared twice", member.span)
            attributes[member.name] = cast(Kind, member.kind)
        return attributes

    def event_declaration(self, span: Span, parts: list[Any]) -> DeclaredMember:
        name: Name = parts[0]
        members = [part for part in parts[1:] if isinstance(part, DeclaredMember)]
        return DeclaredMember(name.text, None, self._collect_attributes(members), name.span)

    def attribute_declaration(self, span: Span, parts: list[Any]) -> DeclaredMember:
        attribute: Attribute = parts[0]
        name: Name = parts[1]
        kind = KINDS.get(name.text.lower())
        if kind is None:
            self.mistakes.note(
                f"unknown type '{name.text}'",
                name.span,
                expected="int, double, string, boolean or timestamp",
                word=name.text,
                among=KINDS,
            )
        return DeclaredMember(attribute.name, kind or Kind.OTHER, {}, cast(Span, attribute.span))

    # -------------------------------------------------------------------- windows

    def events_span(self, span: Span, parts: list[Token]) -> Window:
        return Window(Unit.EVENTS, self._read_number(parts[0]), span=span)

    def time_span(self, span: Span, parts: list[Token]) -> Window:
        return Window(Unit.TIME, self._read_nanoseconds(parts), span=span)

    def attribute_span(self, span: Span, parts: list[Any]) -> Window:
        return Window(Unit.ATTRIBUTE, self._read_number(parts[0]), parts[1], span=span)

    # ------------------------------------------------------------------ constants

    def literal(self, span: Span, parts: list[Token | None]) -> Literal:
        token = cast(Token, parts[-1])
        constant = self._read_constant(token)
        if len(parts) == 2 and parts[0] is not None and parts[0].value == "-":
            return Literal(negate(cast(Number, constant.value)), span=span)
        return constant

    def _read_constant(self, token: Token) -> Literal:
        span = span_of(token)
        match token.type:
            case "INT":
                return Literal(self._read_whole(token), span=span)
            case "FLOAT":
                return Literal(self._read_fraction(token), span=span)
            case "STRING":
                return Literal(unquote(token.value), span=span)
            case _:
                return Literal(token.type == "TRUE", span=span)

    def _read_fraction(self, token: Token) -> float | Decimal:
        number = read_number(token.value)
        if number is None:
            self.mistakes.note("the number is out of range", span_of(token))
            return 1.0
        return number

    def _read_whole(self, token: Token) -> int:
        if len(token.value) > MOST_DIGITS:
            self.mistakes.note("the number is out of range", span_of(token))
            return 1
        return int(token.value)

    # ---------------------------------------------------------------------- names

    def name(self, span: Span, parts: list[Token]) -> Name:
        token = parts[0]
        text = unquote(token.value) if token.type == "QUOTED" else token.value
        return Name(text, span_of(token))

    attribute_name = name

    def attribute(self, span: Span, parts: list[Name]) -> Attribute:
        return Attribute(tuple(part.text for part in parts), span=span)
