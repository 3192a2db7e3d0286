"""Check a query as it is typed: diagnostics with locations and fixes that a program can apply.

A diagnostic is the package's own: message, location, what was expected, help. A *fix* is made of a
help that says what to write ("did you mean 'price'?", "write [5 MINUTES]"), and is offered only
where the text with the fix has fewer mistakes: so a fix never makes matters worse.

Locations count lines from 1 and UTF-16 code units from 1, as editors in a browser do.

Cost contract: one parse for the query, one for each fix that is tried, and at most `_MOST_FIXES`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cernis.errors import Diagnostic, QueryError, Span
from cernis.events.evaluation.regex import like_mistake
from cernis.languages.ceql.parse import parse
from cernis.languages.ceql.rules import is_rule_set
from cernis.pattern import formula as cel
from cernis.pattern.advice import find_warnings
from cernis.pattern.atom import TypeIs
from cernis.pattern.check import check
from cernis.pattern.query import Pattern
from cernis.pattern.write import write_name
from cernis.run.advice.absent_types import describe_absent_type
from cernis.run.query import Query, find_insert
from cernis.schema import Kind, Schema, Stream

LANGUAGES = ("ceql", "cq", "spaseq", "sql")
RULES = "a rule set: the playground runs one query at a time, so run its rules one by one"

_MOST_FIXES = 8
_MEANT = re.compile(r"^did you mean '(.*)'\?$")
_WRITE = re.compile(r"^write (.*)$", re.DOTALL)


@dataclass(frozen=True)
class KnownData:
    """What is known of the events: the schema, the types, the columns of types and times."""

    schema: Schema
    types: Mapping[str, Sequence[str]]
    aside: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, written: Mapping[str, Any] | None) -> KnownData | None:
        """Read what `EventData.write_schema` has written; None where no data is chosen."""
        if not written:
            return None
        streams = tuple(
            Stream(one["name"], {n: Kind(k) for n, k in one["attributes"].items()})
            for one in written["streams"]
        )
        return cls(Schema(streams), written.get("types", {}), written.get("aside", {}))

    def name_after(self, pattern: Pattern) -> Schema:
        """Return the schema under the names of FROM: one stream may have any name."""
        if len(self.schema.streams) == len(pattern.streams) == 1:
            return Schema((Stream(pattern.streams[0], self.schema.streams[0].attributes),))
        return self.schema

    def arguments(self) -> Schema:
        """Return the attributes that conjunctive queries take by position."""
        return Schema(
            tuple(
                Stream(
                    one.name,
                    {
                        n: k
                        for n, k in one.attributes.items()
                        if n not in self.aside.get(one.name, ())
                    },
                )
                for one in self.schema.streams
            )
        )


def diagnose(language: str, text: str, known: KnownData | None) -> list[dict[str, Any]]:
    """Return the mistakes and warnings of a query."""
    mistakes = find_mistakes(language, text, known)
    warnings = _find_warnings(language, text, known, is_right=not mistakes)
    return [
        *(
            write_diagnostic(one, text, "error", fixes)
            for one, fixes in _with_fixes(mistakes, language, text, known)
        ),
        *(write_diagnostic(one, text, "warning", _replace(one, text)) for one in warnings),
    ]


def find_mistakes(language: str, text: str, known: KnownData | None) -> tuple[Diagnostic, ...]:
    """Return the mistakes of a query, for the events where they are known."""
    if not text.strip():
        return (Diagnostic("the query is empty", Span(0, 0)),)
    try:
        match language:
            case "spaseq":
                from cernis.languages.spaseq import parse as parse_spaseq

                parse_spaseq(text)
            case "sql":
                return _check_sql(text, known)
            case "cq":
                Query(text, lang="cq", schema=known.arguments() if known else None)
            case "ceql" if re.search(r"\brule\b", text, re.IGNORECASE) and is_rule_set(text):
                return (Diagnostic(RULES, Span(0, 0)),)
            case "ceql":
                return _check_ceql(text, known)
            case _:
                return (Diagnostic(f"no language {language!r}"),)
    except QueryError as error:
        return error.diagnostics
    return ()


def _check_sql(text: str, known: KnownData | None) -> tuple[Diagnostic, ...]:
    """Return the mistakes of a statement; columns are those of tables that are known."""
    from cernis.run.rows.statement import SqlQuery

    query = SqlQuery(text)
    streams = {one.name.lower(): one for one in known.schema.streams} if known else {}
    found: list[Diagnostic] = []
    for plan in query.plans:
        table = plan.find_table()
        if (stream := streams.get(table.lower())) is not None:
            aside = known.aside.get(stream.name, ()) if known else ()
            try:
                plan.check_columns([*stream.attributes, *aside])
            except QueryError as error:
                found += error.diagnostics
    return tuple(found)


def _check_ceql(text: str, known: KnownData | None) -> tuple[Diagnostic, ...]:
    """Return all mistakes at once: of the text, of scopes, and of names and types."""

    def find_schema(pattern: Pattern) -> Schema | None:
        if known is None or pattern.joins or pattern.declared is not None:
            return None
        return known.name_after(pattern)

    pattern = parse(text, find_schema)
    mistakes = check(pattern, find_schema(pattern), like_mistake)
    return (*find_insert(pattern), *mistakes)


def _find_warnings(
    language: str, text: str, known: KnownData | None, *, is_right: bool
) -> Iterator[Diagnostic]:
    """Return the types that no event has, and if the query is right, what it may not mean."""
    if language != "ceql":
        return
    try:
        pattern = parse(text)
    except QueryError:
        return
    if is_right:
        yield from find_warnings(pattern)
    if known is None:
        return
    types = list(dict.fromkeys(name for names in known.types.values() for name in names))
    named = dict.fromkeys(
        TypeIs(node.type, node.stream)
        for node in cel.walk(pattern.formula)
        if isinstance(node, cel.Event) and node.type not in types
    )
    for atom in named:
        yield describe_absent_type(pattern, atom, types)


def _with_fixes(
    mistakes: Sequence[Diagnostic], language: str, text: str, known: KnownData | None
) -> Iterator[tuple[Diagnostic, list[dict[str, Any]]]]:
    tried = 0
    for one in mistakes:
        fixes = _replace(one, text)
        if fixes and tried < _MOST_FIXES:
            tried += 1
            assert one.span is not None
            mended = text[: one.span.start] + fixes[0]["text"] + text[one.span.end :]
            left = find_mistakes(language, mended, known)
            same = [other for other in left if other.message == one.message]
            if same or (len(left) >= len(mistakes) and _first(left) <= one.span.start):
                fixes = []
        else:
            fixes = []
        yield one, fixes


def _first(mistakes: Sequence[Diagnostic]) -> int:
    return min((one.span.start for one in mistakes if one.span is not None), default=0)


def _replace(one: Diagnostic, text: str) -> list[dict[str, Any]]:
    """Return the replacement that a help names, if it names one."""
    if one.span is None or one.suggestion is None or one.span.start == one.span.end:
        return []
    meant = _MEANT.match(one.suggestion)
    found = meant or _WRITE.match(one.suggestion)
    if found is None or "…" in found[1]:
        return []
    instead = found[1]
    if meant and not re.fullmatch(r"[\w.]+", instead):
        instead = write_name(instead)
    return [{"label": f"Replace with {instead}", "text": instead, **write_location(text, one.span)}]


def write_diagnostic(
    one: Diagnostic, text: str, severity: str, fixes: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return a diagnostic as the page reads it."""
    help_ = [f"expected: {one.expected}"] if one.expected else []
    help_ += [one.suggestion] if one.suggestion else []
    return {
        "severity": severity,
        "code": one.find_code(),
        "message": one.message,
        **write_location(text, one.span or Span(0, 0)),
        "help": "\n".join(help_) or None,
        "fixes": fixes,
    }


def write_location(text: str, span: Span) -> dict[str, int]:
    """Return a span as lines and columns.

    >>> write_location("A ;\\nB", Span(4, 5))
    {'line': 2, 'column': 1, 'end_line': 2, 'end_column': 2}
    """
    line, column = _locate(text, span.start)
    end_line, end_column = _locate(text, span.end)
    return {"line": line, "column": column, "end_line": end_line, "end_column": end_column}


def _locate(text: str, position: int) -> tuple[int, int]:
    before = text[:position]
    start = before.rfind("\n") + 1
    return before.count("\n") + 1, count_units(before[start:]) + 1


def count_units(text: str) -> int:
    """Return the length of a text in UTF-16.

    >>> count_units("a😀")
    3
    """
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
