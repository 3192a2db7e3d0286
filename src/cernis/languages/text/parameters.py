"""Parameters: `$name` in a text is a constant that is given when the query is run.

A value takes the place of its token before the text is parsed. It becomes tokens of constants, at
the position of `$name`, and is never cut into tokens again: no value can change the shape of a
query, and every mistake points at `$name`. Turned down: a node of the pattern that is filled in
later. Every check, construction and plan would have to know a constant without a value.

A leading `PARAMETER $t = 1.05, $who = 'ann'` gives defaults, and with them types. Linear in the
tokens.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import date, datetime, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

from cernis.errors import CernisError, Diagnostic, QueryError, Span
from cernis.languages.text.tokens import Token, span_of
from cernis.languages.text.words import NANOSECONDS
from cernis.pattern.suggest import find_closest

Constant = int | float | Decimal | str | bool | timedelta
"""A value of a parameter; a timedelta is a duration."""

_NUMBERS = ("INT", "FLOAT")
_SIGNS = ("MINUS", "PLUS")


class Parameter(NamedTuple):
    """A parameter of a text: its name, where it first stands, and the tokens of its default."""

    name: str
    span: Span
    default: tuple[Token, ...] | None


_NONE: Mapping[str, Any] = MappingProxyType({})
_GIVEN: ContextVar[Mapping[str, Constant]] = ContextVar("_GIVEN", default=_NONE)
_DEFAULTS: ContextVar[Mapping[str, tuple[Token, ...]]] = ContextVar("_DEFAULTS", default=_NONE)
_process_values: dict[str, Constant] = {}


@contextmanager
def use_parameters(values: Mapping[str, Constant]) -> Iterator[None]:
    """Parse texts whose parameters have these values."""
    token = _GIVEN.set({**_GIVEN.get(), **{n: _check_value(n, v) for n, v in values.items()}})
    try:
        yield
    finally:
        _GIVEN.reset(token)


@contextmanager
def use_defaults(defaults: Mapping[str, tuple[Token, ...]]) -> Iterator[None]:
    """Parse texts to which the PARAMETER clause of a rule set belongs."""
    token = _DEFAULTS.set(defaults)
    try:
        yield
    finally:
        _DEFAULTS.reset(token)


def set_parameters(values: Mapping[str, Constant]) -> None:
    """Set the values for all texts that this process parses, in any thread."""
    _process_values.clear()
    _process_values.update({name: _check_value(name, value) for name, value in values.items()})


def list_given() -> list[str]:
    """Return the names that have values for all texts that are parsed now."""
    return [*_process_values, *_GIVEN.get()]


def bind_tokens(tokens: list[Token], text: str) -> list[Token]:
    """Return the tokens of a query with a constant in place of each parameter.

    Raise QueryError for parameters that have no value, or one of another type than the default.
    """
    if not any(token.type == "PARAMETER" for token in tokens):
        return tokens
    rest, own = cut_defaults(tokens, text)
    defaults = {**_DEFAULTS.get(), **own}
    given = {**_process_values, **_GIVEN.get()}
    mistakes: dict[str, Diagnostic] = {}
    bound: list[Token] = []
    for token in rest:
        name = token.value[1:]
        if token.type != "PARAMETER":
            bound.append(token)
        elif name in given:
            made = _make_tokens(given[name], token)
            if name in defaults and (mistake := _find_clash(made, defaults[name], token)):
                mistakes.setdefault(name, mistake)
            bound += made
        elif name in defaults:
            bound += [token.replace(one.type, one.value) for one in defaults[name]]
        else:
            help_ = f"give it one: --param {name}=…, query.bind({name}=…), or PARAMETER ${name} = …"
            missing = f"the parameter ${name} has no value"
            mistakes.setdefault(name, Diagnostic(missing, span_of(token), suggestion=help_))
    if mistakes:
        raise QueryError([*mistakes.values()], text)
    return bound


def find_parameters(tokens: Sequence[Token], text: str) -> dict[str, Parameter]:
    """Return the parameters of a text by name, in the order in which they first stand."""
    defaults: Mapping[str, tuple[Token, ...]] = {}
    if _has_clause(tokens):
        defaults = cut_defaults(list(tokens), text)[1]
    found: dict[str, Parameter] = {}
    for token in tokens:
        if token.type == "PARAMETER" and (name := token.value[1:]) not in found:
            found[name] = Parameter(name, span_of(token), defaults.get(name))
    return found


def refuse_unknown(given: Iterable[str], known: Iterable[str]) -> None:
    """Raise an error for a value whose parameter no query has."""
    names = sorted(known)
    for name in given:
        if name not in names:
            closest = find_closest(name, names)
            has = f"the parameters are {', '.join(f'${one}' for one in names)}"
            help_ = f"did you mean ${closest}?" if closest else has if names else "it has none"
            raise CernisError(f"the query has no parameter ${name}\n  help: {help_}")


def _has_clause(tokens: Sequence[Token]) -> bool:
    is_word = tokens[:1] and tokens[0].value.upper() == "PARAMETER"
    return bool(is_word and len(tokens) > 1 and tokens[1].type == "PARAMETER")


def cut_defaults(
    tokens: list[Token], text: str
) -> tuple[list[Token], dict[str, tuple[Token, ...]]]:
    """Return the tokens after a leading PARAMETER clause, and the tokens of each default."""
    if not _has_clause(tokens):
        return tokens, {}
    defaults: dict[str, tuple[Token, ...]] = {}
    at = 1
    while True:
        name, equals = tokens[at], tokens[at + 1] if at + 1 < len(tokens) else None
        if name.type != "PARAMETER" or equals is None or equals.value != "=":
            _refuse(name, "$name = constant", text)
        if name.value[1:] in defaults:
            raise QueryError([Diagnostic(f"{name.value} is declared twice", span_of(name))], text)
        value = _take_constant(tokens, at + 2)
        if not value:
            _refuse(tokens[min(at + 2, len(tokens) - 1)], "a constant", text)
        defaults[name.value[1:]] = value
        at += 2 + len(value)
        if at >= len(tokens) or tokens[at].type != "COMMA":
            break
        at += 1
        if at == len(tokens):
            _refuse(tokens[-1], "$name = constant", text)
    if at < len(tokens) and tokens[at].type == "SEMICOLON":
        at += 1
    return tokens[at:], defaults


def _refuse(token: Token, expected: str, text: str) -> NoReturn:
    raise QueryError([Diagnostic(f"unexpected '{token.value}'", span_of(token), expected)], text)


def _take_constant(tokens: Sequence[Token], at: int) -> tuple[Token, ...]:
    """Return the tokens of the constant that begins here: a text, a number, or a duration."""
    kinds = [token.type for token in tokens[at : at + 12]]
    if kinds[:1] and kinds[0] in ("STRING", "TRUE", "FALSE"):
        return (tokens[at],)
    if kinds[:1] and kinds[0] in _SIGNS:
        return tuple(tokens[at : at + 2]) if kinds[1:2] and kinds[1] in _NUMBERS else ()
    end = 0
    while kinds[end : end + 1] and kinds[end] in _NUMBERS:
        if kinds[end + 1 : end + 2] != ["UNIT"]:
            return tuple(tokens[at : at + (end or 1)])
        end += 2
    return tuple(tokens[at : at + end])


def _check_value(name: str, value: object) -> Constant:
    if isinstance(value, datetime | date):
        return value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
    item = getattr(value, "item", None)
    value = item() if callable(item) and not isinstance(value, str) else value  # of NumPy
    is_number = isinstance(value, int | float | Decimal) and math.isfinite(value)
    if not is_number and not isinstance(value, str | timedelta):
        told = "is not finite" if isinstance(value, float | Decimal) else "is no constant"
        raise CernisError(
            f"the parameter ${name}: {value!r} {told}; expected a number, a text, True, False or "
            "a timedelta"
        )
    return value  # type: ignore[return-value]  # of one of these types


def _make_tokens(value: Constant, at: Token) -> list[Token]:
    """Return the tokens that write a constant, all of them where the parameter stands."""
    parts: list[tuple[str, str]]
    match value:
        case bool():
            parts = [("TRUE" if value else "FALSE", str(value).upper())]
        case str():
            parts = [("STRING", "'" + value.replace("'", "''") + "'")]
        case timedelta():
            whole = value // timedelta(microseconds=1)
            size = f"{abs(whole) // 1000}.{abs(whole) % 1000:03d}"
            sign = [("MINUS", "-")] if whole < 0 else []
            parts = [*sign, ("FLOAT", size), ("UNIT", "MILLISECONDS")]
        case _:
            digits = str(abs(value))
            kind = "INT" if digits.isdigit() else "FLOAT"
            negative = value < 0 or (isinstance(value, float) and math.copysign(1, value) < 0)
            parts = [*([("MINUS", "-")] if negative else []), (kind, digits)]
    return [at.replace(kind, text) for kind, text in parts]


def _find_kind(tokens: Sequence[Token]) -> str:
    kinds = {token.type for token in tokens}
    if "UNIT" in kinds:
        return "a duration"
    if "STRING" in kinds:
        return "a text"
    return "TRUE or FALSE" if kinds & {"TRUE", "FALSE"} else "a number"


def write_constant(tokens: Sequence[Token]) -> str:
    """Return a constant as it is written."""
    return re.sub(r"^([-+]) ", r"\1", " ".join(token.value for token in tokens))


def _find_clash(
    given: Sequence[Token], default: Sequence[Token], token: Token
) -> Diagnostic | None:
    kind, wanted = _find_kind(given), _find_kind(default)
    if kind == wanted:
        return None
    return Diagnostic(
        f"the parameter {token.value} is {wanted}, and its value {write_constant(given)} is {kind}",
        span_of(token),
        suggestion=f"its default is {write_constant(default)}",
    )


def read_constant(text: str, tokens: Sequence[Token]) -> Constant:
    """Return the value that a person gives on a command line: a constant, or else a text.

    `tokens` are those of the text.
    """
    taken = _take_constant(tokens, 0)
    if not taken or len(taken) != len(tokens):
        return text
    last = taken[-1]
    match last.type:
        case "STRING":
            quote = str(last.value[0])
            return str(last.value[1:-1]).replace(quote * 2, quote)
        case "TRUE" | "FALSE":
            return last.type == "TRUE"
        case "UNIT":
            return _read_duration(taken)
        case "INT":
            return -int(last.value) if taken[0].type == "MINUS" else int(last.value)
    return -float(last.value) if taken[0].type == "MINUS" else float(last.value)


def _read_duration(tokens: Sequence[Token]) -> timedelta:
    pairs = zip(tokens[::2], tokens[1::2], strict=True)
    size = sum(float(number.value) * NANOSECONDS[unit.value.upper()] for number, unit in pairs)
    return timedelta(microseconds=size / 1000)
