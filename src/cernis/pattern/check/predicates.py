"""Check predicates: attributes, constants, comparisons."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from cernis.errors import Span
from cernis.pattern import predicate as pred
from cernis.pattern.check.kinds import (
    Kinds,
    KnownEvents,
    class_of,
    is_time,
    kind_of_literal,
    unite_kinds,
)
from cernis.pattern.functions import (
    CAST_TYPES,
    UNITS,
    Function,
    count_groups,
    find_function,
    is_zone,
    read_group,
    read_network,
    suggest_function,
)
from cernis.pattern.mistakes import MistakeList
from cernis.pattern.suggest import did_you_mean
from cernis.pattern.write import write_value
from cernis.schema import Kind

MOST_MISTAKES = 50
"""How many mistakes are reported for one schema; the rest of a hopeless query is not."""

RegexMistake = Callable[[str], str | None]
"""Explains the mistake in a regular expression; None if it has none."""

_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
_LONGEST_LIST = 8
_KINDS = {
    "number": Kind.FLOAT,
    "string": Kind.STRING,
    "boolean": Kind.BOOL,
    "timestamp": Kind.TIMESTAMP,
}


class PredicateCheck:
    """Notes the mistakes of predicates on events that are known as far as `events` says."""

    def __init__(self, events: KnownEvents, regex_mistake: RegexMistake | None) -> None:
        self.events = events
        self.regex_mistake = regex_mistake
        self.mistakes = MistakeList(MOST_MISTAKES)
        self.tables: frozenset[str] = frozenset()
        """The tables that are joined to the events: their columns are known."""
        self._elements: list[str] = []
        """The names of elements in the ANY that is checked."""

    def note_unknown(
        self,
        what: str,
        name: str,
        options: Iterable[str],
        span: Span | None,
        *,
        instead: str | None = None,
    ) -> None:
        """Note a name that is not known: suggest the closest one, or else list all of them."""
        if self.mistakes.full:
            return
        known = sorted(set(options))
        suggestion = did_you_mean(name, known)
        expected = None
        if suggestion is None and known:
            more = ", …" if len(known) > _LONGEST_LIST else ""
            expected = ", ".join(known[:_LONGEST_LIST]) + more
            suggestion = instead
        self.mistakes.note(f"unknown {what}", span, expected=expected, suggestion=suggestion)

    def check_attribute(self, attribute: pred.Attribute, known: Kinds | None) -> Kind | None:
        """Return the kind of an attribute; note one that is not known."""
        if attribute in (pred.TIME, pred.TIME_NS):
            return Kind.INT
        if attribute.value is not None:
            return self.check_value(attribute.value, known)
        if not attribute.path or not all(attribute.path):
            self.mistakes.note("an attribute must have a name", attribute.span)
            return None
        if known is None or attribute.path[0] in self._elements:
            return None
        if attribute.name in known:
            return known[attribute.name]
        table = attribute.path[0]
        columns = [name for name in known if name.startswith(f"{table}.")]
        if table in self.tables and columns:
            what = f"attribute '{attribute.name}'"
            self.note_unknown(what, attribute.name, columns, attribute.span)
            return None
        prefixes = (".".join(attribute.path[:n]) for n in range(1, len(attribute.path)))
        if any(known.get(prefix, Kind.INT) in (Kind.OTHER, None) for prefix in prefixes):
            return None
        self.note_unknown(f"attribute '{attribute.name}'", attribute.name, known, attribute.span)
        return None

    def check_classes(
        self,
        left: tuple[str, Kind | None],
        right: tuple[str, Kind | None],
        span: Span | None,
    ) -> None:
        """Note a comparison between two kinds that cannot be compared."""
        one, other = class_of(left[1]), class_of(right[1])
        if one is not None and other is not None and one != other:
            message = f"type clash: {left[0]} is a {one}, {right[0]} is a {other}"
            self.mistakes.note(message, span)

    def check_predicate(self, node: pred.Predicate, known: Kinds | None) -> None:
        match node:
            case pred.Comparison(left=left, right=right):
                self.check_comparable(left, [right], known, node.span)
            case pred.InSet(body=body, values=values):
                if not values:
                    self.mistakes.note("IN needs at least one value", node.span)
                self.check_alike(values, node.span)
                self.check_comparable(body, list(values), known, node.span)
            case pred.InRange(body=body, low=low, high=high):
                self.check_alike((low, high), node.span)
                self.check_comparable(body, [low, high], known, node.span)
                if _is_empty_range(low, high):
                    text = f"{write_value(low)}..{write_value(high)}"
                    self.mistakes.note(f"the range {text} is empty", node.span)
            case pred.Like(body=body, pattern=pattern):
                kind = self.check_value(body, known)
                if class_of(kind) not in ("string", None):
                    message = f"LIKE needs a string, {write_value(body)} is a {class_of(kind)}"
                    self.mistakes.note(message, body.span)
                wrong = None if self.regex_mistake is None else self.regex_mistake(pattern)
                if wrong is not None:
                    self.mistakes.note(
                        f"bad regular expression: {wrong}",
                        node.pattern_span or node.span,
                        expected="the syntax of RE2, without backreferences and lookaround",
                    )
            case pred.AnyElement(body=body, name=name, predicate=test):
                kind = self.check_value(body, known)
                if class_of(kind) not in (None, "other"):
                    message = f"ANY needs a list, {write_value(body)} is a {class_of(kind)}"
                    self.mistakes.note(message, body.span or node.span)
                self._elements.append(name)
                self.check_predicate(test, known)
                self._elements.pop()
            case pred.IsNull(body=body):
                self.check_value(body, known)
            case pred.Negation(body=inner):
                self.check_predicate(inner, known)
            case pred.And(parts=parts) | pred.Or(parts=parts):
                if len(parts) < 2:
                    self.mistakes.note("AND and OR need at least two predicates", node.span)
                for part in parts:
                    self.check_predicate(part, known)

    def check_alike(self, constants: Iterable[pred.Literal], span: Span | None) -> None:
        first: dict[str | None, pred.Literal] = {}
        for constant in constants:
            first.setdefault(class_of(kind_of_literal(constant)), constant)
        if len(first) > 1:
            texts = [f"{write_value(constant)} is a {its}" for its, constant in first.items()]
            self.mistakes.note(f"type clash: {', '.join(texts)}", span)

    def check_comparable(
        self,
        body: pred.Value,
        others: list[pred.Value],
        known: Kinds | None,
        span: Span | None,
    ) -> None:
        kind = self.check_value(body, known)
        for other in others:
            its = self.check_value(other, known)
            pair = {class_of(kind): body, class_of(its): other}
            text = pair.get("string")
            if len(pair) == 2 and "timestamp" in pair and isinstance(text, pred.Literal):
                if not is_time(str(text.value)):
                    time = pair["timestamp"]
                    self.mistakes.note(
                        f"{write_value(time)} is a timestamp, {write_value(text)} is not a time",
                        text.span,
                        suggestion="write it as in '2024-05-31T12:30:00'",
                    )
                continue
            if len(pair) == 2 and None not in pair:
                self.check_classes((write_value(body), kind), (write_value(other), its), span)

    def check_value(self, node: pred.Value, known: Kinds | None) -> Kind | None:
        """Return the kind of a value; note arithmetic on other values than numbers."""
        match node:
            case pred.Attribute():
                return self.check_attribute(node, known)
            case pred.Literal():
                self.check_literal(node)
                return kind_of_literal(node)
            case pred.Negative(body=body):
                return self.check_operand(body, known)
            case pred.Call(function=function, arguments=arguments):
                kinds = [self.check_value(each, known) for each in arguments]
                given = [*zip(arguments, map(class_of, kinds), strict=True)]
                found = self.check_call(function, given, node.span, write_value)
                return kinds[0] if found == "same" and kinds else _KINDS.get(str(found))
            case pred.Case(branches=branches, otherwise=otherwise):
                for test, _ in branches:
                    self.check_predicate(test, known)
                values = [value for _, value in branches]
                values += [] if otherwise is None else [otherwise]
                kinds = [self.check_value(value, known) for value in values]
                for value, kind in zip(values[1:], kinds[1:], strict=True):
                    first = write_value(values[0]), kinds[0]
                    self.check_classes(first, (write_value(value), kind), node.span)
                return unite_kinds(kinds)
            case pred.Arithmetic(op=op, left=left, right=right):
                one, other = self.check_operand(left, known), self.check_operand(right, known)
                if one is None or other is None:
                    return None
                return Kind.FLOAT if op == "/" or Kind.FLOAT in (one, other) else Kind.INT

    def check_call(
        self,
        name: str,
        arguments: Sequence[tuple[Any, str | None]],
        span: Span | None,
        write: Callable[[Any], str],
    ) -> str | None:
        """Return the class that a function gives; note arguments that it does not take.

        Arguments come with their classes; `write` gives their texts, for messages.
        """
        function = find_function(name)
        if function is None:
            self.mistakes.note(
                f"unknown function '{name}'",
                span,
                suggestion=suggest_function(name) or "register it: cernis.function(…)",
            )
            return None
        if not function.accepts(len(arguments)):
            given = f"{len(arguments)} argument{'' if len(arguments) == 1 else 's'}"
            message = f"{name} does not take {given}"
            self.mistakes.note(message, span, expected=function.signature)
            return None
        for index, (node, own) in enumerate(arguments):
            wanted = function.taken(index)
            if own in (None, wanted) or wanted in ("any", "same"):
                pass
            elif (own, wanted) == ("string", "timestamp"):
                if isinstance(node, pred.Literal) and not is_time(str(node.value)):
                    self.mistakes.note(f"{write(node)} is not a time", node.span or span)
            else:
                message = f"{name} needs a {wanted}, {write(node)} is a {own}"
                self.mistakes.note(message, node.span or span, expected=function.signature)
            if index in function.constants and not isinstance(node, pred.Literal):
                self.mistakes.note(f"{name} needs a constant, not {write(node)}", node.span or span)
        if name in ("LEAST", "GREATEST", "COALESCE", "NULLIF"):
            (first, own), *others = arguments
            for node, other in others:
                if own is not None and other is not None and own != other:
                    message = f"type clash: {write(first)} is a {own}, {write(node)} is a {other}"
                    self.mistakes.note(message, span)
        values = [node.value if isinstance(node, pred.Literal) else None for node, _ in arguments]
        self._check_constants(name, function, values, span)
        if name == "CAST":
            return CAST_TYPES.get(str(values[1]))
        return arguments[0][1] if function.gives == "same" else function.gives

    def _check_constants(
        self, name: str, function: Function, values: list[Any], span: Span | None
    ) -> None:
        """Note constants that a function cannot work with."""
        match name, values:
            case "CAST", [_, str(type_), *_] if type_ not in CAST_TYPES:
                names = ", ".join(CAST_TYPES)
                suggestion = did_you_mean(type_, CAST_TYPES)
                self.mistakes.note(
                    f"unknown type '{type_}'", span, expected=names, suggestion=suggestion
                )
            case "REGEXP_EXTRACT", [_, str(pattern), *_]:
                wrong = None if self.regex_mistake is None else self.regex_mistake(pattern)
                if wrong is not None:
                    self.mistakes.note(f"bad regular expression: {wrong}", span)
                elif not 0 <= (asked := read_group(values)) <= (most := count_groups(pattern)):
                    have = f"a group from 0, the whole match, to {most}" if most else "group 0"
                    message = f"the regular expression has no group {asked}"
                    self.mistakes.note(message, span, expected=have)
            case "DATE_TRUNC", [str(unit), *_] if unit.upper() not in UNITS:
                expected = ", ".join(UNITS)
                self.mistakes.note(f"unknown unit '{unit}'", span, expected=expected)
            case "CIDR_MATCH", [_, *networks]:
                for network in networks:
                    if isinstance(network, str) and read_network(network) is None:
                        self.mistakes.note(
                            f"'{network}' is no network", span, expected="such as 10.0.0.0/8"
                        )
        zoned = name == "CAST" or function.group == "Time"
        if zoned and len(values) == len(function.takes):
            zone = values[-1]
            if isinstance(zone, str) and not is_zone(zone):
                self.mistakes.note(
                    f"unknown time zone '{zone}'", span, expected="such as 'Europe/Berlin'"
                )

    def check_operand(self, node: pred.Value, known: Kinds | None) -> Kind | None:
        kind = self.check_value(node, known)
        if class_of(kind) not in ("number", None):
            message = f"arithmetic needs numbers, {write_value(node)} is a {class_of(kind)}"
            self.mistakes.note(message, node.span)
            return None
        return kind

    def check_literal(self, node: pred.Literal) -> None:
        value = node.value
        if isinstance(value, float) and not math.isfinite(value):
            self.mistakes.note("a number must be finite", node.span)
        elif isinstance(value, int) and not _SMALLEST <= value <= _LARGEST:
            self.mistakes.note("a whole number must fit in 64 bits", node.span)


def _is_empty_range(low: pred.Literal, high: pred.Literal) -> bool:
    if class_of(kind_of_literal(low)) != class_of(kind_of_literal(high)):
        return False
    return pred.compare_values(">", low.value, high.value)
