"""Explain the syntax errors of SPAseQ as a person would."""

from __future__ import annotations

from collections.abc import Sequence

from cernis.errors import Diagnostic, Span
from cernis.languages.spaseq.words import TERMINALS, describe_expected
from cernis.languages.text import mistakes
from cernis.languages.text.tokens import Token, shorten, span_of
from cernis.pattern.suggest import find_closest

_STRAY_HELP = dict(mistakes.STRAY_HELP) | {
    "==": "use '='",
    "->": "use ',', ';' or ':' between the steps of a sequence",
    "“": 'use straight quotes: "',
    "”": 'use straight quotes: "',
    "@": 'a language is written right after its string: "word"@en',
    "$": "a variable begins with '?' or '$', and a letter follows",
}
_NOT_SPARQL = {
    "AND": "use '&&'",
    "OR": "use '||'",
    "NOT": "use '!', or NOT EXISTS { … }",
    "SERVICE": "graph patterns have no SERVICE; GRAPH <…> is background knowledge",
    "SELECT": "graph patterns have no queries inside",
}
_NOT_A_CLAUSE = {
    "REDUCED": "leave it out",
    "LIMIT": "--limit (in Python head()) is the number of matches to show",
    "OFFSET": "leave it out",
    "ORDER": "leave it out; matches come in the order of time",
    "GROUP": "use PARTITION BY (?x), or LIST(?x) for the values of a '+' step",
    "HAVING": "leave it out",
    "RANGE": "write WITHIN 30 MINUTES",
    "STEP": "write WITHIN 30 MINUTES TUMBLING FROM 0",
}
_AGGREGATES = {"COUNT", "SUM", "AVG", "MIN", "MAX"}
_CLAUSES = {"_WITHIN": "WITHIN", "_FROM": "FROM STREAM", "_SEQ": "SEQ", "_SELECT": "SELECT"}
_REPEATS = {"STAR", "MORE", "QMARK"}
_NODES = {"VAR", "IRI", "PNAME", "PNAME_NS", "BLANK", "STRING", "LSQB"}
_NO_REPEAT = "'*', '+' and '?' stand after an IRI or brackets: :p* or (:p/:q)+"
_SEPARATORS = {"COMMA", "SEMICOLON", "COLON"}
_JOINING = {"AND": "&", "OR": "|", "ANDAND": "&", "OROR": "|"}


# ---------------------------------------------------------------------- lexemes


def explain_lexeme(token: Token) -> Diagnostic | None:
    """Explain a lexeme that no query holds; None for all others."""
    span = span_of(token)
    match token.type:
        case "STRAY" | "FOREIGN":
            return mistakes.explain_stray(token, _STRAY_HELP)
        case "BAD_IRI":
            return Diagnostic(
                "this is not an IRI",
                span,
                suggestion="an IRI holds no spaces, quotes, braces, '|', '^', '`' or '\\'",
            )
        case "UNCLOSED":
            quote = token.value[:3] if token.value[:3] == token.value[0] * 3 else token.value[0]
            return Diagnostic(
                f"the quote {quote} is never closed",
                Span(span.start, span.start + len(quote)),
                suggestion="a string with line breaks stands in three quotes"
                if len(quote) == 1 and "\n" in token.value
                else f"a quote inside the quotes is written \\{quote[0]}",
            )
        case "NAME" if not token.value.isascii():
            return Diagnostic(
                f"'{shorten(token.value)}' is not part of the language",
                span,
                suggestion="names are made of A to Z, a to z, 0 to 9 and '_'",
            )
        case _:
            return None


# ------------------------------------------------------------------------ tokens


def _is_in_sequence(before: Sequence[Token]) -> bool:
    """Whether SEQ's brackets are open after these tokens."""
    depth = 0
    for token in reversed(before):
        match token.type:
            case "RPAR":
                depth += 1
            case "LPAR":
                depth -= 1
            case "_SEQ":
                return depth < 0
            case "LBRACE" | "RBRACE" | "VAR":
                return False
    return False


def _is_in_triples(before: Sequence[Token]) -> bool:
    """Whether the braces of a graph pattern or a template are open after these tokens."""
    types = [token.type for token in before]
    deep = types.count("LBRACE") - types.count("RBRACE")
    return deep > ("_WHERE" in types)


def _suggest_in_steps(token: Token, accepted: set[str], last: Token) -> str | None:
    """Suggest what to do about a token inside SEQ."""
    word = token.value.upper() if token.type == "NAME" else token.type
    if token.type == "STAR":
        return "use '+' for one or more, '?' for none or one"
    if word in _JOINING and "AMP" in accepted:
        return f"use '{_JOINING[word]}'"
    if token.type == "BANG" and "BANG" not in accepted:
        return "'!' stands after the name: SEQ (A ; B! ; C)"
    if token.type in ("NAME", "LPAR") and "SEMICOLON" in accepted:
        return "put ',', ';' or ':' between two steps"
    if last.type in _SEPARATORS and token.type in _SEPARATORS:
        return "one separator stands between two steps"
    return None


def _suggest_in_group(token: Token, accepted: set[str], last: Token) -> str | None:
    """Suggest what to do about a token inside a graph pattern."""
    word = token.value.upper()
    if last.type == "NOT":
        return _NOT_SPARQL["NOT"]
    if last.type == "_FILTER":
        return "put the condition in brackets: FILTER (?x > 5)"
    if "CMP" in accepted or "ANDAND" in accepted:
        if token.value == "<>":
            return "use '!='"
        if token.type == "IRI":
            return "put a space after '<', or this is an IRI"
        if token.type == "CMP":
            return "join comparisons with '&&'"
        if token.type in ("AMP", "VBAR"):
            return f"use '{token.value * 2}'"
    if token.type in ("NAME", "NOT", "_SELECT") and word in _NOT_SPARQL:
        return _NOT_SPARQL[word]
    if word == "A" and "A" in accepted:
        return "the keyword is a small 'a'"
    if token.type == "NAME" and "VAR" in accepted:
        name = shorten(token.value)
        return f"a name has a prefix, and a variable begins with '?': :{name} or ?{name}"
    if token.type in _REPEATS and ("A" in accepted or last.type in ("VAR", *_REPEATS)):
        return _NO_REPEAT
    if token.type in _NODES and {"DOT", "SEMICOLON"} <= accepted:
        return "put '.' between two triple patterns"
    if token.type == "LSQB" and "A" in accepted:
        return "a predicate is an IRI or a variable"
    return None


def _suggest_in_clauses(
    token: Token, accepted: set[str], before: Sequence[Token], last: Token | None
) -> str | None:
    """Suggest what to do about a token outside of graph patterns and SEQ."""
    word = token.value.upper()
    last_type = last.type if last is not None else ""
    if token.type == "NAME" and word in _NOT_A_CLAUSE:
        return f"there is no {word}; {_NOT_A_CLAUSE[word]}"
    if last is not None and last.type == "NAME" and last.value.upper() in _NOT_A_CLAUSE:
        return _NOT_A_CLAUSE[last.value.upper()]
    if token.type == "STAR" and last_type == "LPAR" and _is_aggregate(before):
        return (
            "an aggregate goes over all values of a variable in a '+' step: (COUNT(?x) AS ?y); "
            "--count (in Python count()) is the number of matches"
        )
    if token.type == "COMMA" and "_LIST" in accepted:
        return "variables stand side by side: SELECT ?a ?b"
    if token.type == "NAME" and "VAR" in accepted and word in _AGGREGATES:
        return (
            f"an expression stands in brackets and has a name: ({word}(?x) AS ?y) goes over the "
            "values of a '+' step; --count (in Python count()) is the number of matches"
        )
    if token.type == "NAME" and "VAR" in accepted:
        return f"a variable begins with '?': ?{shorten(token.value)}"
    if token.type == "VAR" and last_type == "_BY":
        return f"write PARTITION BY ({token.value})"
    if accepted == {"PNAME_NS"} and token.type in ("NAME", "A"):
        return f"a prefix ends with ':': {shorten(token.value)}:"
    if accepted == {"_STREAM"}:
        return "write FROM STREAM S <http://…>"
    if last_type == "_DEFINE":
        return "write DEFINE GPM A ON S { … }"
    if token.type == "LBRACE" and "_WHERE" in accepted:
        return "write WHERE before '{'"
    if token.type in _CLAUSES and "$END" in accepted:
        return f"{_CLAUSES[token.type]} stands before WHERE"
    if token.type in ("_PREFIX", "_BASE"):
        return f"{word} stands before SELECT"
    if last is not None and last.type == "NAME" and before[-2:-1]:
        meant = find_closest(last.value, TERMINALS, cutoff=0.75)
        if meant is not None:
            return f"did you mean '{meant}' instead of '{shorten(last.value)}'?"
    return None


def _is_aggregate(before: Sequence[Token]) -> bool:
    """Whether the last of these tokens is the opening bracket of an aggregate."""
    return any(token.value.upper() in _AGGREGATES for token in before[-2:-1])


def explain_token(
    token: Token, accepted: set[str], before: Sequence[Token], end: int
) -> Diagnostic:
    """Explain a token that the parser did not expect; `end` is the text's end."""
    last = before[-1] if before else None
    in_sequence = _is_in_sequence(before)
    if in_sequence and last is not None and last.type in _SEPARATORS:
        accepted = accepted - {"RPAR"}  # read, so that a trailing separator can be explained
    expected = describe_expected(accepted, last.type if last is not None else "", in_sequence)
    suggestion = None
    if token.type != "$END":
        if in_sequence and last is not None:
            suggestion = _suggest_in_steps(token, accepted, last)
        elif last is not None and _is_in_triples(before):
            suggestion = _suggest_in_group(token, accepted, last)
        suggestion = suggestion or _suggest_in_clauses(token, accepted, before, last)
    return mistakes.explain_unexpected(token, end, expected, suggestion)
