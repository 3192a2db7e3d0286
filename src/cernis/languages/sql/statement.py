"""A statement to its MATCH_RECOGNIZE clauses and the statement around them.

Each `relation MATCH_RECOGNIZE (…)` is cut out and replaced by a name, padded with spaces, so that
every offset stays that of the user's text. What is left is SQL that the library reads. The
relation of a clause becomes a query with the common table expressions that it can see.

Patterns are blanked out before the library cuts the text into tokens: `$`, `^` and `{-` mean
something else to most dialects.

Cost: linear in the text, whose length and brackets are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, cast

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from cernis.errors import BudgetError, Diagnostic, QueryError, Span
from cernis.languages.sql import flink as _flink  # noqa: F401, a dialect registers itself
from cernis.languages.sql.clause import (
    ClauseReader,
    RecognizeClause,
    SqlExpression,
    explain_parse_error,
    normalize,
    span_of_token,
)
from cernis.languages.sql.translate import translate
from cernis.languages.text.read import MAX_TEXT
from cernis.pattern.suggest import did_you_mean

DIALECTS = ("duckdb", "spark", "databricks", "trino", "snowflake", "oracle", "flink", "risingwave")
_KEYWORD = "MATCH_RECOGNIZE"
PLACEHOLDER = "@none"
"""The column of a clause that returns none: no database has a table without columns."""
_MOST_CLAUSES = 50
_DEEPEST = 200
_LEXEME = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|[A-Za-z_]\w*|[()]|\S|\s+",
    re.DOTALL,
)
_AFTER_PATTERN = (["DEFINE"], ["SUBSET"])
_CALLED = frozenset({"VAR", "IDENTIFIER", "TABLE", "UNNEST"})
"""The kinds of tokens that are called where a bracket follows."""
_BEFORE_RELATION = frozenset({"FROM", "JOIN", ",", "(", "LATERAL", "USING"})


@dataclass(frozen=True)
class Recognition:
    """A MATCH_RECOGNIZE clause, the query of its rows, and the name that stands for its result."""

    name: str
    clause: RecognizeClause
    rows: exp.Query
    span: Span
    """The keyword."""


@dataclass(frozen=True)
class SqlStatement:
    """A statement whose clauses are cut out; they are answered in their order."""

    text: str
    dialect: str
    recognitions: tuple[Recognition, ...]
    query: exp.Query
    """The statement, with names in place of the clauses."""
    bare: tuple[Diagnostic, ...] = ()
    """Each `*` that stands for no column: it cannot run, but be explained and traced."""

    def check_columns(self) -> None:
        """Refuse a `*` that stands for no column."""
        if self.bare:
            raise QueryError(self.bare, self.text)


def parse_statement(text: str, dialect: str = "duckdb") -> SqlStatement:
    """Return a statement with its clauses; raise its mistakes."""
    if dialect not in DIALECTS:
        near = did_you_mean(dialect, DIALECTS)
        known = f"known are {', '.join(DIALECTS)}"
        raise QueryError([Diagnostic(f"unknown dialect '{dialect}'", suggestion=near or known)])
    if len(text) > MAX_TEXT:
        raise BudgetError(
            f"the statement has {len(text):,} characters; at most {MAX_TEXT:,} are allowed"
        )
    return _StatementReader(text, dialect).read()


@dataclass
class _ClauseCut:
    """A clause that is cut out: its name, and its relation with what is cut out of that."""

    name: str
    clause: RecognizeClause
    relation: str
    start: int
    span: Span


class _StatementReader:
    def __init__(self, text: str, dialect: str) -> None:
        self.text = text
        self.dialect = dialect
        self.letters = list(text)

    def read(self) -> SqlStatement:
        masked = _mask_patterns(self.text)
        try:
            tokens = Dialect.get_or_raise(self.dialect).tokenize(masked)
        except SqlglotError as error:
            for lexeme in _LEXEME.finditer(masked):
                if lexeme[0] in ("'", '"', "`"):
                    message = f"{lexeme[0]} is never closed"
                    raise QueryError(
                        [Diagnostic(message, Span(*lexeme.span()))], self.text
                    ) from None
            raise QueryError([Diagnostic(_tell(error))], self.text) from None
        self._check_depth(tokens)
        self._check_keyword(tokens)
        while tokens and tokens[-1].text == ";":
            self.letters[tokens[-1].start] = " "
            tokens = tokens[:-1]
        if not tokens or normalize(tokens[0]) not in (
            "SELECT",
            "WITH",
            "FROM",
            "(",
            "VALUES",
            "TABLE",
        ):
            first = span_of_token(tokens[0]) if tokens else Span(0, 0)
            word = tokens[0].text if tokens else ""
            help_ = did_you_mean(word.upper(), ["SELECT", "WITH"])
            wanted = "a query: SELECT … or WITH …"
            raise QueryError([Diagnostic("this is no query", first, wanted, help_)], self.text)
        cuts = self._cut_clauses(list(tokens))
        outer = self._parse("".join(self.letters), 0)
        trees = {cut.name: self.parse_relation(cut) for cut in cuts}
        bare = tuple(_hide_placeholders(cuts, [outer, *trees.values()]))
        found = tuple(_scope(cuts, outer, trees, self.text))
        return SqlStatement(self.text, self.dialect, found, outer, bare)

    def _check_depth(self, tokens: Sequence[Any]) -> None:
        depth = 0
        for token in tokens:
            depth += (token.text == "(") - (token.text == ")")
            if depth > _DEEPEST:
                message = f"brackets are nested more than {_DEEPEST} deep"
                raise QueryError([Diagnostic(message, span_of_token(token))], self.text)

    def _check_keyword(self, tokens: Sequence[Any]) -> None:
        for token, following in pairwise(tokens):
            word = normalize(token)
            near = word.startswith("MATCH_") and word != _KEYWORD and following.text == "("
            if near and (help_ := did_you_mean(word, [_KEYWORD])):
                mistake = Diagnostic(f"unexpected '{token.text}'", span_of_token(token))
                raise QueryError([replace(mistake, suggestion=help_)], self.text)

    # ------------------------------------------------------------------ clauses

    def _cut_clauses(self, tokens: list[Any]) -> list[_ClauseCut]:
        cuts: list[_ClauseCut] = []
        while True:
            at = next(
                (
                    i
                    for i, token in enumerate(tokens[:-1])
                    if normalize(token) == _KEYWORD and tokens[i + 1].text == "("
                ),
                None,
            )
            if at is None:
                self._refuse_windows(tokens)
                return cuts
            if len(cuts) == _MOST_CLAUSES:
                raise BudgetError(f"a statement has at most {_MOST_CLAUSES} MATCH_RECOGNIZE")
            opened = span_of_token(tokens[at])
            end = _find_closing(tokens, at + 1)
            if end is None:
                bracket = span_of_token(tokens[at + 1])
                raise QueryError([Diagnostic("'(' is never closed", bracket)], self.text)
            first = self._find_relation(tokens, at)
            reader = ClauseReader(self.text, tokens[at + 2 : end], self.dialect)
            if at + 2 == end:
                raise reader.fail("the clause has no PATTERN", opened)
            clause = reader.read(opened)
            start, stop = tokens[first].start, tokens[end].end + 1
            relation = "".join(self.letters[start : opened.start])
            name = f"_rows{len(cuts)}"
            self.letters[start:stop] = name.ljust(stop - start)
            cuts.append(_ClauseCut(name, clause, relation, start, opened))
            token = tokens[first]
            tokens[first : end + 1] = Dialect.get_or_raise(self.dialect).tokenize(name)
            tokens[first].start, tokens[first].end = token.start, token.start + len(name) - 1

    def _refuse_windows(self, tokens: Sequence[Any]) -> None:
        """Refuse a row pattern in a window, such as Trino has."""
        for at, token in enumerate(tokens[:-1]):
            end = _find_closing(tokens, at + 1) if normalize(token) == "PATTERN" else None
            if end is not None and [*map(normalize, tokens[end + 1 : end + 2])] in _AFTER_PATTERN:
                message = "row patterns in windows are not supported"
                expected = "FROM relation MATCH_RECOGNIZE (…)"
                raise QueryError([Diagnostic(message, span_of_token(token), expected)], self.text)

    def _find_relation(self, tokens: Sequence[Any], at: int) -> int:
        """Return the first token of the relation before the clause."""
        first = self._find_primary(tokens, self._skip_ordinality(tokens, at - 1))
        before = normalize(tokens[first - 1]) if first else ""
        if before == "AS":
            first = self._find_primary(tokens, self._skip_ordinality(tokens, first - 2))
        elif before not in _BEFORE_RELATION and first:
            first = self._find_primary(tokens, self._skip_ordinality(tokens, first - 1))
        if first <= 0 or normalize(tokens[first - 1]) not in _BEFORE_RELATION:
            raise QueryError(
                [
                    Diagnostic(
                        "MATCH_RECOGNIZE stands after a relation",
                        span_of_token(tokens[at]),
                        expected="FROM relation MATCH_RECOGNIZE (…)",
                    )
                ],
                self.text,
            )
        return first

    def _skip_ordinality(self, tokens: Sequence[Any], last: int) -> int:
        """Return the token before WITH ORDINALITY, if that ends at a token."""
        words = [normalize(token) for token in tokens[max(last - 1, 0) : last + 1]]
        return last - 2 if words == ["WITH", "ORDINALITY"] else last

    def _find_primary(self, tokens: Sequence[Any], last: int) -> int:
        """Return the first token of a name, a call or brackets that end at a token."""
        if last < 0:
            return -1
        if tokens[last].text == ")":
            depth = 0
            while last >= 0:
                depth += (tokens[last].text == ")") - (tokens[last].text == "(")
                if depth == 0:
                    break
                last -= 1
            called = last > 0 and tokens[last - 1].token_type.name in _CALLED
            return self._find_primary(tokens, last - 1) if called else last
        while last >= 2 and tokens[last - 1].text == ".":
            last -= 2
        return last

    # ------------------------------------------------------------------ queries

    def _parse(self, text: str, offset: int, prefix: str = "") -> exp.Query:
        """Return a query; `offset` is where its text stands."""
        whole = Span(offset, offset + len(text))
        try:
            trees = sqlglot.parse(prefix + text, dialect=self.dialect)
        except SqlglotError as error:
            moved = Span(offset - len(prefix), whole.end)
            raise explain_parse_error(error, self.text, moved) from None
        except RecursionError:
            raise QueryError([Diagnostic("the statement is nested too deeply")]) from None
        tree = trees[0] if len(trees) == 1 else None
        if not isinstance(tree, exp.Query):
            kind = "these are several statements" if len(trees) > 1 else "this is no query"
            raise QueryError([Diagnostic(kind, Span(0, 1), expected="one query")], self.text)
        if isinstance(tree, exp.Select) and not tree.expressions:
            end = Span(max(whole.end - 1, 0), whole.end)
            raise QueryError([Diagnostic("the query selects nothing", end, "columns")], self.text)
        translated = translate(tree, self.dialect, self.text, offset - len(prefix))
        return cast(exp.Query, translated)

    def parse_relation(self, cut: _ClauseCut) -> exp.Query:
        return self._parse(cut.relation, cut.start, "SELECT * FROM ")


def _tell(error: SqlglotError) -> str:
    """Return the first line of what the SQL library says."""
    return str(error).split("\n")[0]


def _find_closing(tokens: Sequence[Any], opening: int) -> int | None:
    depth = 0
    for number in range(opening, len(tokens)):
        depth += (tokens[number].text == "(") - (tokens[number].text == ")")
        if depth == 0:
            return number
    return None


def _mask_patterns(text: str) -> str:
    """Blank out what stands in the brackets of PATTERN.

    >>> _mask_patterns("PATTERN (A $) DEFINE")
    'PATTERN (   ) DEFINE'
    """
    letters = list(text)
    depth, start, last = 0, -1, ""
    for lexeme in _LEXEME.finditer(text):
        word = lexeme[0]
        if word.isspace() or (word.startswith(("--", "/*")) and start < 0):
            continue
        if start >= 0:
            depth += (word == "(") - (word == ")")
            if depth == 0:
                for i in range(start, lexeme.start()):
                    if not text[i].isspace():
                        letters[i] = " "
                start = -1
        elif word == "(" and last.upper() == "PATTERN":
            start, depth = lexeme.end(), 1
        last = word
    return "".join(letters)


def _scope(
    cuts: Sequence[_ClauseCut], outer: exp.Query, trees: Mapping[str, exp.Query], text: str
) -> list[Recognition]:
    """Give the rows of each clause the common table expressions that they can see."""
    seen: dict[str, list[exp.CTE]] = {}

    def find_visible(name: str) -> list[exp.CTE]:
        if name not in seen:
            for holder, tree in [("", outer), *trees.items()]:
                tables = (one for one in tree.find_all(exp.Table) if one.name == name)
                if (table := next(tables, None)) is not None:
                    around = find_visible(holder) if holder else []
                    seen[name] = [*around, *_list_visible(table)]
                    break
        return seen.get(name, [])

    found = []
    for cut in cuts:
        rows = trees[cut.name].copy()
        visible = [cte.copy() for cte in find_visible(cut.name)]
        if visible:
            rows.set("with_", exp.With(expressions=visible))
        clause, rows = _name_keys(cut.clause, rows, text)
        found.append(Recognition(cut.name, clause, rows, cut.span))
    return found


def _hide_placeholders(
    cuts: Sequence[_ClauseCut], trees: Sequence[exp.Query]
) -> Iterator[Diagnostic]:
    """Leave the placeholders of clauses without columns out of `*`; yield each `*` of nothing else.

    The rows of such a clause can be counted, and traced.
    """
    empty = {cut.name: cut.span for cut in cuts if cut.clause.has_no_columns}
    tables = (one for tree in trees for one in tree.find_all(exp.Table) if one.name in empty)
    for table in tables:
        select = table.find_ancestor(exp.Select)
        source = table.find_ancestor(exp.From, exp.Join)
        if select is None or source is None or source.parent is not select:
            continue
        joins = select.args.get("joins") or ()
        others = [one.this for one in (select.args["from_"], *joins)]
        alone = all(isinstance(one, exp.Table) and one.name in empty for one in others)
        alias = table.alias_or_name.lower()
        for item in select.expressions:
            if alone if isinstance(item, exp.Star) else _is_star_of(item, alias):
                wanted = "MEASURES, PARTITION BY or ALL ROWS PER MATCH; or COUNT(*)"
                yield Diagnostic("the clause returns no columns for *", empty[table.name], wanted)
            elif isinstance(item, exp.Star):
                hidden = [*(item.args.get("except_") or ()), _quote(PLACEHOLDER)]
                item.set("except_", [*dict.fromkeys(hidden)])


def _is_star_of(item: exp.Expr, alias: str) -> bool:
    return isinstance(item, exp.Column) and item.is_star and item.table.lower() == alias


def _quote(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


def _name_keys(
    clause: RecognizeClause, rows: exp.Query, text: str
) -> tuple[RecognizeClause, exp.Query]:
    """Make every expression of PARTITION BY a column of the rows, with its text for a name.

    The relation's own name before a column is taken away, here and in ORDER BY.
    """
    relation = rows.args["from_"].this.alias_or_name.lower()

    def strip(expression: SqlExpression) -> SqlExpression:
        tree = expression.tree.copy()
        for column in tree.find_all(exp.Column):
            if column.table and column.table.lower() != relation:
                message = f"'{column.table}' is not the relation of the clause"
                raise QueryError([Diagnostic(message, expression.locate(column))], text)
            column.set("table", None)
        return replace(expression, tree=tree)

    clause = replace(
        clause,
        partition=tuple(map(strip, clause.partition)),
        order=tuple(map(strip, clause.order)),
    )
    keys, added = [], []
    for key in clause.partition:
        if not isinstance(key.tree, exp.Column):
            name = " ".join(text[key.span.start : key.span.end].split())
            added.append(exp.alias_(key.tree, name, quoted=True))
            key = replace(key, tree=exp.column(exp.to_identifier(name, quoted=True)))
        keys.append(key)
    if added:
        rows = exp.select("*", *added).from_(rows.subquery("keyed"))
    return replace(clause, partition=tuple(keys)), rows


def _list_visible(table: exp.Expr) -> list[exp.CTE]:
    """Return the common table expressions that a table can see, outer ones first."""
    visible: list[exp.CTE] = []
    inside: exp.Expr = table
    node = table.parent
    while node is not None:
        clause = node.args.get("with_")
        if isinstance(clause, exp.With) and inside is not clause:
            visible[:0] = clause.expressions
        elif isinstance(node, exp.With):
            at = next(i for i, one in enumerate(node.expressions) if one is inside)
            visible[:0] = node.expressions[:at]
        inside, node = node, node.parent
    return visible
