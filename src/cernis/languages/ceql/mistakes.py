"""Explain the syntax errors of CEQL as a person would."""

from __future__ import annotations

from collections.abc import Sequence

from cernis.errors import Diagnostic, Span
from cernis.languages.ceql.habits import suggest_for_habit
from cernis.languages.ceql.words import CLAUSE_WORDS, SOFT, TERMINALS, describe_expected
from cernis.languages.text import mistakes
from cernis.languages.text.tokens import Token, span_of
from cernis.pattern.suggest import find_closest

_STRAY_HELP = dict(mistakes.STRAY_HELP) | {
    "&&": "use AND between conditions, ALL between formulas",
    "&": "use AND between conditions, ALL between formulas",
    "||": "use OR",
    "|": "use OR",
    "-->": "use '->'; '--' begins a comment",
    "=>": "use '>=' between values, '->' between events",
    "=<": "use '<='",
    "=~": "use LIKE 'regex'",
    "!": "use NOT: A : NOT B in a formula, x[NOT price > 100] in a condition",
}
_CLAUSES = {
    "_SELECT": "SELECT",
    "_FROM": "FROM",
    "_WHERE": "WHERE",
    "_FILTER": "FILTER",
    "_WITHOUT": "WITHOUT",
    "_PARTITION": "PARTITION BY",
    "_WITHIN": "WITHIN",
    "_GROUP": "GROUP BY",
    "_HAVING": "HAVING",
    "_CONSUME": "CONSUME BY",
    "_ORDER": "ORDER BY",
    "_LIMIT": "LIMIT",
    "_FORGET": "FORGET AFTER",
    "_SUPPRESS": "SUPPRESS BY",
}


_PREV = "PREV is for conditions: FILTER PREV(x)[price] < x[price]"
_SIDE = "a value such as 5 or y[price]"
_CONDITION = "a condition such as x[price > 100]"
_VALUES = {"INT", "FLOAT", "STRING", "TRUE", "FALSE", "MINUS", "PLUS"}
_INSIDE = frozenset(("_IN", "_LIKE", "_IS", "NOT"))
"""Words of conditions on one event, which stand in its brackets."""
_CALCULATING = {"CMP", "GT", "PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "RPAR"}


def explain_lexeme(token: Token) -> Diagnostic | None:
    """Explain a lexeme that no query holds; None for all others."""
    return mistakes.explain_lexeme(token, _STRAY_HELP)


# ------------------------------------------------------------------------ tokens


def _find_clause(before: Sequence[Token]) -> str:
    """Return the clause that the last token belongs to."""
    depth = 0
    for token in reversed(before):
        if token.type in mistakes.CLOSING:
            depth += 1
        elif token.type in mistakes.OPENING:
            depth -= 1
        elif depth <= 0 and token.type in _CLAUSES:
            return token.type
    return ""


def _describe_name(accepted: set[str], before: Sequence[Token]) -> str:
    """Return what a name would be if it stood here."""
    last = before[-1].type if before else ""
    clause = _find_clause(before)
    if accepted >= CLAUSE_WORDS - {"_ALL", "_NONE"}:
        return "an attribute"
    if last in ("_AS", "_IN"):
        return "a variable name"
    if last == "_JOIN":
        return "a table name"
    if last == "_OF":
        return "START"
    if last in ("_STREAM", "_FROM") or clause == "_FROM":
        return "a stream name"
    if last == "_EVENT":
        return "an event type"
    if last == "COLON" and clause == "":
        return "a type such as int or string"
    if clause == "_SELECT":
        return "a variable or a value"
    if clause == "_FILTER":
        return _SIDE if last in ("CMP", "GT") else _CONDITION
    return "an event type"


def _is_operator_missing(token: Token, accepted: set[str]) -> bool:
    starts = {"NAME", "QUOTED", "LPAR", "NOT"} | SOFT
    return token.type in starts and "SEMICOLON" in accepted and "QMARK" in accepted


def _suggest(token: Token, accepted: set[str], before: Sequence[Token]) -> str | None:
    last = before[-1] if before else None
    last_type = last.type if last is not None else ""
    clause = _find_clause(before)
    in_formula = "QMARK" in accepted
    if (habit := suggest_for_habit(token, accepted, before, clause)) is not None:
        return habit
    if _is_value_alone(accepted, before):
        if token.type in _INSIDE:
            inside = "".join(each.value for each in before[_find_side(before) : -1])
            return _suggest_inside(inside, token)
        return "compare it: x[price] < y[price], or with a constant x[price > 100]"
    if token.type in _INSIDE and [each.type for each in before[-3:]] == ["NAME", "DOT", "NAME"]:
        return _suggest_inside(f"{before[-3].value}[{before[-1].value}", token)
    if "RSQB" in accepted and any(each.type == "PREV" for each in before[-6:-5]):
        return "the comparison stands outside the brackets: PREV(x)[price] < y[price]"
    match token.type:
        case "LSQB" if [each.type for each in before[-3:]] == ["PREV", "LPAR", "NAME"]:
            return f"the attribute stands outside the parentheses: PREV({before[-1].value})[price]"
        case "LPAR" if last_type == "PREV":
            return _PREV
        case _ if accepted == {"LSQB"} and any(each.type == "PREV" for each in before[-6:]):
            return _PREV
        case "INT" if clause == "_WHERE" and "NAME" in accepted and "STAR" in accepted:
            return f"a type that is a number stands in backquotes: `{token.value}`"
        case "STAR" if in_formula:
            return "use + for one or more, {0,} for any number"
        case "COMMA" if in_formula:
            return "use ';' for a sequence, ALL for any order"
        case "_AND" if in_formula:
            return "AND joins conditions; use ALL for events in any order, ';' for a sequence"
        case "_NULL" if "INT" in accepted:
            return "use IS NULL or IS NOT NULL"
        case "RSQB" | "RPAR" | "_AND" | "_OR" if "CMP" in accepted:
            return "compare the attribute with something: flag = TRUE"
        case "_HAVING" if all(earlier.type != "_GROUP" for earlier in before):
            return "HAVING stands after GROUP BY; FILTER is for conditions on a match"
        case "LSQB" if last_type in ("COLON", "COLON_PLUS", "RBRACE") and clause == "_WHERE":
            return "a gap bounds what lies between: write ;[5 MINUTES], ->[…], +[…] or {2,}[…]"
        case "LSQB" if clause == "_PARTITION":
            return "variables are named inside a formula: (A ; B PARTITION BY [A[x], B[y]])"
        case "NAME" | "QUOTED" if last_type == "_BY" and clause in ("_PARTITION", "_SUPPRESS"):
            return f"write {_CLAUSES[clause]} [{token.value}]"
        case "COMMA" if last_type == "STAR" and clause == "_SELECT":
            return "'*' stands alone; name the variables to combine them with aggregates"
    if token.type in _CLAUSES and "$END" in accepted and clause:
        if any(earlier.type == token.type for earlier in before):
            return f"a query has one {_CLAUSES[token.type]} clause"
        return f"the clauses come in this order: {', '.join(_CLAUSES.values())}"
    word = before[1] if last_type == "STAR" and len(before) == 3 else last  # SELECT NEXTT *
    if word is not None and word.type == "NAME":
        meant = find_closest(word.value, TERMINALS, cutoff=0.75)
        if meant is not None:
            return f"did you mean '{meant}' instead of '{word.value}'?"
    if _is_operator_missing(token, accepted):
        return (
            "put ';' (some time later) or ':' (right after) between two events, and AS before a "
            "variable"
        )
    if token.type.startswith("_") and token.type not in _CLAUSES and "NAME" in accepted:
        return quote_keyword(token.value)
    return None


def _suggest_inside(written: str, token: Token) -> str:
    return f"this condition stands inside the brackets: {written} {token.value.upper()} …]"


def _is_value_alone(accepted: set[str], before: Sequence[Token]) -> bool:
    """Whether the tokens end with `x[a]` where a condition should."""
    last = before[-1].type if before else ""
    return last == "RSQB" and "CMP" in accepted and accepted <= _CALCULATING


def _find_side(before: Sequence[Token]) -> int:
    """Return where the `x[a]` or `PREV(x)[a]` begins that ends the tokens."""
    opened = max(n for n, earlier in enumerate(before) if earlier.type == "LSQB")
    if before[opened - 1].type == "RPAR":
        opened = max(n for n, earlier in enumerate(before[:opened]) if earlier.type == "LPAR")
    return opened - 1


def explain_token(
    token: Token, accepted: set[str], before: Sequence[Token], end: int
) -> Diagnostic:
    """Explain a token that the parser did not expect; `end` is the text's end."""
    role = _describe_name(accepted, before)
    if "NAME" in accepted and role in (_SIDE, _CONDITION, "a variable or a value"):
        accepted = accepted - _VALUES - {"CHOICE"}
    expected = describe_expected(accepted, role)
    suggestion = _suggest(token, accepted, before)
    if _is_value_alone(accepted, before):
        span = Span(span_of(before[_find_side(before)]).start, span_of(before[-1]).end)
        return Diagnostic("an attribute alone is not a condition", span, expected, suggestion)
    return mistakes.explain_unexpected(token, end, expected, suggestion)


def quote_keyword(word: str) -> str:
    """Return how a keyword can be a name all the same."""
    return f"to use '{word}' as a name, write it in backquotes: `{word}`"
