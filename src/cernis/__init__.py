"""Cernis recognizes complex events: write a pattern over a stream, get every match.

    import cernis

    q = cernis.query("SELECT * FROM S WHERE SELL AS a ; BUY AS b WITHIN 10 EVENTS")
    matches = q.run(events)

Importing the package is light; what runs queries is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from cernis.errors import BudgetError, CernisError, DataError, QueryError, StateError

if TYPE_CHECKING:
    from cernis import pattern, spark
    from cernis.pattern.conjunctive import ConjunctiveQuery
    from cernis.pattern.query import Pattern
    from cernis.rdf.matches import GraphMatches
    from cernis.rdf.query import GraphQuery
    from cernis.results.answers import Answers
    from cernis.results.matches import Matches
    from cernis.results.result import Result
    from cernis.run.query import Query
    from cernis.run.session import Session
    from cernis.schema import Schema

__version__ = "0.1.0"

__all__ = [
    "Answers",
    "BudgetError",
    "CernisError",
    "DataError",
    "GraphMatches",
    "GraphQuery",
    "Matches",
    "Pattern",
    "Query",
    "QueryError",
    "Result",
    "Schema",
    "Session",
    "StateError",
    "pattern",
    "query",
    "schema_of",
    "spark",
]

_LAZY = {
    "Answers": "cernis.results.answers",
    "GraphMatches": "cernis.rdf.matches",
    "GraphQuery": "cernis.rdf.query",
    "Matches": "cernis.results.matches",
    "Pattern": "cernis.pattern.query",
    "Query": "cernis.run.query",
    "Result": "cernis.results.result",
    "Schema": "cernis.schema",
    "Session": "cernis.run.session",
}


@overload
def query(  # type: ignore[overload-overlap]  # text in other languages is no GraphQuery
    text: str, *, lang: Literal["spaseq"]
) -> GraphQuery: ...


@overload
def query(
    text: str | Pattern | ConjunctiveQuery, *, lang: str = "ceql", schema: Schema | None = None
) -> Query: ...


def query(
    text: str | Pattern | ConjunctiveQuery, *, lang: str = "ceql", schema: Schema | None = None
) -> Query | GraphQuery:
    """A query, checked (against a schema, where one is given).

    From text in CEQL or, with `lang="cq"`, a conjunctive query; or from what these parse to. With
    `lang="spaseq"`, a query over RDF streams.
    """
    if lang == "spaseq" and isinstance(text, str):
        from cernis.rdf.query import GraphQuery

        return GraphQuery(text)
    from cernis.run.query import Query

    return Query(text, lang=lang, schema=schema)


def schema_of(events: Any, **reading: Any) -> Schema:
    """The attributes that events have; conjunctive queries take arguments in this order."""
    from cernis.run.query import schema_of_events

    return schema_of_events(events, **reading)


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    if name in ("pattern", "spark"):
        return import_module(f"cernis.{name}")
    raise AttributeError(f"module 'cernis' has no attribute {name!r}")
