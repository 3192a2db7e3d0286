"""The frame of a MATCH_RECOGNIZE clause: its sections, names and expressions.

The tokens are those of the SQL library, so that strings, comments and quotes are read as the
dialect has them. A section begins at its keyword outside of brackets. Expressions go to the library
as they are, except that FIRST, LAST, PREV, NEXT, CLASSIFIER, MATCH_NUMBER and what some databases
have for them (LAG, LEAD, …) get other names of the same length, because dialects know some of them
as functions of another meaning, and that RUNNING and FINAL are noted and blanked out. So every
offset stays that of the user's text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from cernis.errors import Diagnostic, QueryError, Span
from cernis.languages.sql.pattern import parse_pattern, read_identifier
from cernis.languages.sql.row_pattern import (
    RowExclusion,
    RowPattern,
    RowsPerMatch,
    RowVariable,
    SkipMode,
    walk_pattern,
)
from cernis.languages.sql.translate import translate
from cernis.languages.text.tokens import Name
from cernis.pattern.suggest import did_you_mean

FUNCTIONS = ("FIRST", "LAST", "PREV", "NEXT", "CLASSIFIER", "MATCH_NUMBER")
SYNONYMS = {"LAG": "PREV", "LEAD": "NEXT", "FIRST_VALUE": "FIRST", "LAST_VALUE": "LAST"}
"""How Snowflake calls functions of the standard."""
OWN_FUNCTIONS = ("MATCH_SEQUENCE_NUMBER", "MATCH_ROWTIME", "MATCH_PROCTIME")
"""Functions of Snowflake, and of Flink."""
_RENAMED = frozenset({*FUNCTIONS, *SYNONYMS, *OWN_FUNCTIONS})
_SECTIONS = (
    "PARTITION BY",
    "ORDER BY",
    "MEASURES",
    "ROWS PER MATCH",
    "AFTER MATCH SKIP",
    "PATTERN",
    "WITHIN",
    "SUBSET",
    "DEFINE",
)
_SECOND = {"ONE": ("ROW", "ROWS"), "ALL": ("ROW", "ROWS"), "AFTER": ("MATCH",), "PATTERN": ("(",)}
_SECTION_OF = {"ONE": "ROWS PER MATCH", "ALL": "ROWS PER MATCH", "AFTER": "AFTER MATCH SKIP"}
_ROWS = {
    "ONE ROW PER MATCH": RowsPerMatch.ONE,
    "ALL ROWS PER MATCH": RowsPerMatch.ALL,
    "ALL ROWS PER MATCH SHOW EMPTY MATCHES": RowsPerMatch.ALL,
    "ALL ROWS PER MATCH OMIT EMPTY MATCHES": RowsPerMatch.ALL_OMIT_EMPTY,
    "ALL ROWS PER MATCH WITH UNMATCHED ROWS": RowsPerMatch.ALL_WITH_UNMATCHED,
}
_SKIPS = {
    "PAST LAST ROW": SkipMode.PAST_LAST_ROW,
    "TO NEXT ROW": SkipMode.TO_NEXT_ROW,
}


@dataclass(frozen=True)
class SqlExpression:
    """An expression, as the SQL library reads it, and where it stands."""

    tree: exp.Expr
    span: Span
    modes: Mapping[Span, str] = field(default_factory=dict)
    """The calls that RUNNING or FINAL stands before, by their span in the expression."""

    def locate(self, node: exp.Expr) -> Span:
        """Return where a part of the expression stands."""
        metas = [each.meta for each in node.walk() if "start" in each.meta]
        if not metas:
            return self.span
        start, end = min(p["start"] for p in metas), max(p["end"] for p in metas)
        return Span(self.span.start + start, self.span.start + end + 1)


@dataclass(frozen=True)
class RecognizeClause:
    """A MATCH_RECOGNIZE clause. Names are in capitals, or as they stand in quotes."""

    partition: tuple[SqlExpression, ...]
    order: tuple[SqlExpression, ...]
    measures: tuple[tuple[Name, SqlExpression], ...]
    rows: RowsPerMatch
    skip: SkipMode
    target: Name | None
    """The variable of SKIP TO."""
    pattern: RowPattern
    pattern_span: Span
    within: SqlExpression | None
    subsets: Mapping[str, tuple[str, ...]]
    define: Mapping[str, SqlExpression]

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of the pattern, as they appear first."""
        named = (part.name for part in walk_pattern(self.pattern) if isinstance(part, RowVariable))
        return tuple(dict.fromkeys(named))

    @property
    def has_no_columns(self) -> bool:
        """Whether the clause returns rows without columns."""
        return self.rows is RowsPerMatch.ONE and not self.partition and not self.measures

    def expand(self, name: str) -> tuple[str, ...]:
        """Return the variables that a name stands for: itself, or those of a SUBSET."""
        return self.subsets.get(name, (name,))


def normalize(token: Any) -> str:
    """Return a token as a keyword: in capitals, with single spaces; quoted names are none."""
    if token.token_type.name in ("IDENTIFIER", "STRING"):
        return ""
    return " ".join(token.text.upper().split())


class ClauseReader:
    """Reads the tokens between the brackets of a clause."""

    def __init__(self, source: str, tokens: Sequence[Any], dialect: str) -> None:
        self.source = source
        """The whole statement; the tokens have none of its patterns."""
        self.tokens = tokens
        self.dialect = dialect
        self.spans: dict[str, Span] = {}
        """Where SUBSET and DEFINE have their names."""

    def fail(self, message: str, span: Span, **more: Any) -> QueryError:
        return QueryError([Diagnostic(message, span, **more)], self.source)

    # ----------------------------------------------------------------- sections

    def read(self, opened: Span) -> RecognizeClause:
        """Read the clause; `opened` is its keyword."""
        sections = self._split_sections(opened)
        if "PATTERN" not in sections:
            for token in self.tokens:
                if normalize(token) == "PATTERN":
                    message = "PATTERN has no brackets"
                    raise self.fail(message, span_of_token(token), expected="PATTERN (…)")
                if help_ := did_you_mean(normalize(token), ["PATTERN"]):
                    raise self.fail(
                        f"unexpected '{token.text}'", span_of_token(token), suggestion=help_
                    )
            raise self.fail("the clause has no PATTERN", opened)
        pattern, pattern_span = self._read_pattern(sections["PATTERN"])
        subsets = self._read_subsets(sections.get("SUBSET", []))
        skip, target = self._read_skip(sections.get("AFTER MATCH SKIP"))
        order = tuple(map(self._read_order, self._split_list(sections.get("ORDER BY", []))))
        clause = RecognizeClause(
            partition=tuple(
                self.read_expression(item)
                for item in self._split_list(sections.get("PARTITION BY", []))
            ),
            order=order,
            measures=tuple(map(self._read_measure, self._split_list(sections.get("MEASURES", [])))),
            rows=self._read_rows(sections.get("ROWS PER MATCH")),
            skip=skip,
            target=target,
            pattern=pattern,
            pattern_span=pattern_span,
            within=self._read_within(sections.get("WITHIN")),
            subsets=subsets,
            define=self._read_define(sections.get("DEFINE", [])),
        )
        self._check(clause)
        return clause

    def _split_sections(self, opened: Span) -> dict[str, list[Any]]:
        """Return the tokens of each section; its keyword is left out where it is one word."""
        sections: dict[str, list[Any]] = {}
        keywords: dict[str, Any] = {}
        current: list[Any] | None = None
        depth = 0
        for number, token in enumerate(self.tokens):
            if depth == 0 and self._is_modifier(number):
                message = "SEEK and INITIAL belong to windows; a clause has neither"
                raise self.fail(message, span_of_token(token))
            if depth == 0 and (name := self._begin_section(number)) is not None:
                self._check_order(name, token, sections)
                current = sections[name] = []
                keywords[name] = token
                if name not in ("ROWS PER MATCH", "AFTER MATCH SKIP"):
                    continue
            depth += (token.text == "(") - (token.text == ")")
            if normalize(token) == ";":
                raise self.fail("unexpected ';'", span_of_token(token))
            if current is None:
                raise self.fail(
                    f"unexpected '{token.text}'",
                    span_of_token(token),
                    expected="PARTITION BY, ORDER BY, MEASURES, ONE ROW PER MATCH, ALL ROWS PER "
                    "MATCH, AFTER MATCH SKIP or PATTERN",
                    suggestion=did_you_mean(token.text.upper(), _SECTIONS),
                )
            current.append(token)
        for name, token in keywords.items():
            if not sections[name]:
                raise self.fail(f"nothing stands after {name}", span_of_token(token))
        return sections

    def _is_modifier(self, number: int) -> bool:
        """Return whether a token is SEEK or INITIAL at PATTERN, as Trino's grammar has them."""
        near = [normalize(token) for token in self.tokens[max(number - 1, 0) : number + 2]]
        return normalize(self.tokens[number]) in ("SEEK", "INITIAL") and "PATTERN" in near

    def _begin_section(self, number: int) -> str | None:
        word = normalize(self.tokens[number])
        if number and normalize(self.tokens[number - 1]) in (".", "AS"):
            return None
        name = _SECTION_OF.get(word, word)
        if name not in _SECTIONS:
            return None
        second = _SECOND.get(word)
        following = normalize(self.tokens[number + 1]) if number + 1 < len(self.tokens) else ""
        if (word, following) == ("WITHIN", "GROUP"):  # of an aggregate
            return None
        return name if second is None or following in second else None

    def _check_order(self, name: str, token: Any, sections: Mapping[str, Any]) -> None:
        if name in sections:
            raise self.fail(f"{name} stands twice", span_of_token(token))
        later = [one for one in sections if _SECTIONS.index(one) > _SECTIONS.index(name)]
        if later and {name, *later} != {"WITHIN", "SUBSET"}:
            raise self.fail(f"{name} stands before {later[0]}", span_of_token(token))

    # -------------------------------------------------------------- small parts

    def _split_list(self, tokens: Sequence[Any]) -> Iterator[list[Any]]:
        """Yield the tokens between commas."""
        item: list[Any] = []
        depth = 0
        for token in tokens:
            depth += (token.text in "([{") - (token.text in ")]}") if token.text else 0
            if token.text == "," and depth == 0 and normalize(token) == ",":
                self._refuse_empty(item, token)
                yield item
                item = []
            else:
                item.append(token)
        if item or tokens:
            self._refuse_empty(item, tokens[-1])
            yield item

    def _refuse_empty(self, item: Sequence[Any], token: Any) -> None:
        if not item:
            raise self.fail("something is missing here", span_of_token(token))

    def _read_rows(self, tokens: Sequence[Any] | None) -> RowsPerMatch:
        if tokens is None:
            return RowsPerMatch.ONE
        words = " ".join(map(normalize, tokens))
        if words not in _ROWS:
            span = span_of_tokens(tokens)
            help_ = did_you_mean(words, _ROWS)
            raise self.fail(
                f"unexpected '{words}'", span, expected=" or ".join(_ROWS), suggestion=help_
            )
        return _ROWS[words]

    def _read_skip(self, tokens: Sequence[Any] | None) -> tuple[SkipMode, Name | None]:
        if tokens is None:
            return SkipMode.PAST_LAST_ROW, None
        words = [normalize(token) for token in tokens]
        rest = words[3:]
        if words[:3] == ["AFTER", "MATCH", "SKIP"]:
            if " ".join(rest) in _SKIPS:
                return _SKIPS[" ".join(rest)], None
            if rest[:1] == ["TO"] and 2 <= len(rest) <= 3:
                mode = SkipMode.TO_FIRST if rest[1] == "FIRST" else SkipMode.TO_LAST
                if len(rest) == 2 or rest[1] in ("FIRST", "LAST"):
                    return mode, self.read_name(tokens[-1])
        raise self.fail(
            f"unexpected '{' '.join(words[2:])}'",
            span_of_tokens(tokens),
            expected="AFTER MATCH SKIP PAST LAST ROW, TO NEXT ROW, TO FIRST variable or TO LAST "
            "variable",
        )

    def _read_pattern(self, tokens: Sequence[Any]) -> tuple[RowPattern, Span]:
        span = Span(tokens[0].end + 1, tokens[-1].start)
        if tokens[-1].text != ")":
            bad = next(t for t, u in zip(tokens[1:], tokens, strict=False) if u.text == ")")
            raise self.fail(
                f"unexpected '{bad.text}'", span_of_token(bad), expected="WITHIN, SUBSET or DEFINE"
            )
        text = self.source[span.start : span.end]
        return parse_pattern(text, span.start, self.source), span

    def _read_within(self, tokens: Sequence[Any] | None) -> SqlExpression | None:
        return None if tokens is None else self.read_expression(tokens)

    def _read_subsets(self, tokens: Sequence[Any]) -> dict[str, tuple[str, ...]]:
        subsets: dict[str, tuple[str, ...]] = {}
        for item in self._split_list(tokens):
            texts = [token.text for token in item]
            if len(item) < 5 or texts[1:3] != ["=", "("] or texts[-1] != ")":
                raise self.fail(
                    "this is no SUBSET", span_of_tokens(item), expected="name = (variable, …)"
                )
            name = self.read_name(item[0])
            members = [self._note_name(part[0]).text for part in self._split_list(item[3:-1])]
            self.spans[name.text] = name.span
            if name.text in subsets:
                raise self.fail(f"SUBSET '{name.text}' stands twice", name.span)
            subsets[name.text] = tuple(members)
        return subsets

    def _read_measure(self, tokens: Sequence[Any]) -> tuple[Name, SqlExpression]:
        last = tokens[-1]
        value = tokens[:-1]
        if len(value) > 1 and normalize(value[-1]) == "AS":
            value = value[:-1]
        elif not (self.dialect == "snowflake" and value and _is_end(value[-1])):
            raise self.fail(
                "a measure has no name", span_of_tokens(tokens), expected="expression AS name"
            )
        return Name(last.text, span_of_token(last)), self.read_expression(value)

    def _read_define(self, tokens: Sequence[Any]) -> dict[str, SqlExpression]:
        define: dict[str, SqlExpression] = {}
        for item in self._split_list(tokens):
            if len(item) < 3 or normalize(item[1]) != "AS":
                raise self.fail(
                    "this is no definition", span_of_tokens(item), expected="variable AS condition"
                )
            name = self._note_name(item[0])
            if name.text in define:
                raise self.fail(f"'{name.text}' is defined twice", name.span)
            define[name.text] = self.read_expression(item[2:])
        return define

    def read_name(self, token: Any) -> Name:
        span = span_of_token(token)
        return Name(read_identifier(self.source[span.start : span.end]), span)

    def _note_name(self, token: Any) -> Name:
        name = self.read_name(token)
        self.spans[name.text] = name.span
        return name

    # -------------------------------------------------------------- expressions

    def read_expression(self, tokens: Sequence[Any], into: Any = None) -> SqlExpression:
        """Return an expression; the library reads it."""
        span = span_of_tokens(tokens)
        text = list(self.source[span.start : span.end])
        modes: dict[Span, str] = {}
        for number, token in enumerate(tokens[:-1]):
            word, following = normalize(token), tokens[number + 1]
            at = token.start - span.start
            if word in _RENAMED and following.text == "(":
                text[at] = "_"
            elif word in ("RUNNING", "FINAL") and _is_call(tokens[number + 1 : number + 3]):
                text[at : token.end - span.start + 1] = " " * (token.end - token.start + 1)
                modes[_find_call(tokens[number + 1 :], span.start)] = word
            elif word in ("RUNNING", "FINAL") and _is_name(tokens[number + 1 : number + 3]):
                message = f"{word} stands before FIRST, LAST or an aggregate"
                raise self.fail(message, span_of_token(token))
        try:
            kind = {} if into is None else {"into": into}
            tree = sqlglot.parse_one("".join(text), dialect=self.dialect, **kind)
        except SqlglotError as error:
            raise explain_parse_error(error, self.source, span) from None
        except RecursionError:
            raise self.fail("the expression is nested too deeply", span) from None
        tree = translate(tree, self.dialect, self.source, span.start)
        return SqlExpression(tree, span, modes)

    def _read_order(self, tokens: Sequence[Any]) -> SqlExpression:
        return self.read_expression(tokens, exp.Ordered)

    # ------------------------------------------------------------------- checks

    def _check(self, clause: RecognizeClause) -> None:
        """Refuse names that stand for nothing, and what the standard excludes."""
        variables = clause.variables
        for name, members in clause.subsets.items():
            span = self.spans[name]
            if name in variables:
                raise self.fail(f"'{name}' is a variable of PATTERN, and a SUBSET", span)
            for member in members:
                if member not in variables:
                    raise self.fail(
                        f"SUBSET '{name}' has '{member}', which is no variable of PATTERN",
                        self.spans[member],
                        suggestion=did_you_mean(member, variables),
                    )
        for name in clause.define:
            if name not in variables:
                raise self.fail(
                    f"'{name}' is no variable of PATTERN",
                    self.spans[name],
                    suggestion=did_you_mean(name, variables),
                )
        if clause.target is not None:
            known = (*variables, *clause.subsets)
            if clause.target.text not in known:
                raise self.fail(
                    f"'{clause.target.text}' is no variable of PATTERN",
                    clause.target.span,
                    suggestion=did_you_mean(clause.target.text, known),
                )
        excludes = any(isinstance(part, RowExclusion) for part in walk_pattern(clause.pattern))
        if excludes and clause.rows is RowsPerMatch.ALL_WITH_UNMATCHED:
            raise self.fail(
                "WITH UNMATCHED ROWS does not go with {- -} in PATTERN", clause.pattern_span
            )
        seen: set[str] = set()
        for measure, _ in clause.measures:
            if measure.text.upper() in seen:
                raise self.fail(f"two measures are called '{measure.text}'", measure.span)
            seen.add(measure.text.upper())
        for part in (*clause.partition, *clause.order):
            if part.tree.find(exp.Query, exp.Window, exp.AggFunc):
                raise self.fail("PARTITION BY and ORDER BY look at one row", part.span)


def _is_end(token: Any) -> bool:
    """Return whether an expression may end with a token, and a name may follow it."""
    names = ("VAR", "IDENTIFIER", "NUMBER", "STRING", "END")
    return token.text == ")" or token.token_type.name in names


def _is_call(tokens: Sequence[Any]) -> bool:
    return len(tokens) == 2 and tokens[0].text.isidentifier() and tokens[1].text == "("


def _find_call(tokens: Sequence[Any], start: int) -> Span:
    """Return the span of the call that begins some tokens, in an expression that starts there."""
    depth = 0
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if token.text == ")" and depth == 0:
            break
    return Span(tokens[0].start - start, token.end + 1 - start)


def _is_name(tokens: Sequence[Any]) -> bool:
    return len(tokens) == 2 and tokens[0].text.isidentifier() and tokens[1].text == "."


def span_of_token(token: Any) -> Span:
    return Span(token.start, token.end + 1)


def span_of_tokens(tokens: Sequence[Any]) -> Span:
    return Span(tokens[0].start, tokens[-1].end + 1)


def explain_parse_error(error: SqlglotError, source: str, span: Span) -> QueryError:
    """Return what the SQL library refuses, with its location in the statement."""
    message, found = "this is no SQL expression", span
    if isinstance(error, ParseError) and error.errors:
        first = error.errors[0]
        word, line, column = first.get("highlight") or "", first.get("line"), first.get("col")
        message = str(first.get("description") or message)
        if line is not None and column is not None:
            begin = span.start
            for _ in range(line - 1):
                begin = source.find("\n", begin) + 1
            end = begin + column
            found = Span(max(end - max(len(word), 1), span.start), min(end, span.end))
            message = _reword(message, source[found.start : found.end])
    return QueryError([Diagnostic(message, found)], source)


def _reword(message: str, word: str) -> str:
    """Return what the SQL library says in the words of our messages."""
    if message.startswith("Required keyword"):
        return "the expression is not complete"
    if "Unexpected token" in message:
        return f"unexpected '{word}'"
    return message[:1].lower() + message[1:].rstrip(".")
