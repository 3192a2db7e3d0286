"""Cernis recognizes complex events: write a pattern over a stream, get every match.

    import cernis

    q = cernis.query("SELECT * FROM S WHERE SELL AS a ; BUY AS b WITHIN 10 EVENTS")
    matches = q.run(events)

Importing the package is light: a name is loaded when it is first used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, overload

from cernis.cycles import make_lasting
from cernis.errors import BudgetError, CernisError, DataError, QueryError, StateError, StrictError

if TYPE_CHECKING:
    from cernis import pattern, rdf, spark
    from cernis.events.evaluation.user_functions import forget_function, function
    from cernis.languages.conjunctive.query import ConjunctiveQuery
    from cernis.live.follow import EventQueue, follow
    from cernis.pattern.query import Pattern
    from cernis.rdf.matches import GraphMatches
    from cernis.rdf.query import GraphQuery
    from cernis.results.answers import Answer, Answers
    from cernis.results.groups import Groups, MatchGroup
    from cernis.results.match import Match
    from cernis.results.matches import Matches
    from cernis.results.result import Result
    from cernis.run.query import Query
    from cernis.run.rows.statement import SqlQuery, SqlRows
    from cernis.run.rules.rule_set import RuleSet
    from cernis.run.session import Session
    from cernis.schema import Schema

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Answers",
    "BudgetError",
    "CernisError",
    "DataError",
    "EventQueue",
    "GraphMatches",
    "GraphQuery",
    "Groups",
    "Match",
    "MatchGroup",
    "Matches",
    "Pattern",
    "Query",
    "QueryError",
    "Result",
    "RuleSet",
    "Schema",
    "Session",
    "SqlQuery",
    "SqlRows",
    "StateError",
    "StrictError",
    "diff",
    "follow",
    "forget_function",
    "function",
    "pattern",
    "query",
    "rdf",
    "rules",
    "schema_of",
    "spark",
    "sql",
]

_MODULES = {
    "EventQueue": "cernis.live.follow",
    "follow": "cernis.live.follow",
    "forget_function": "cernis.events.evaluation.user_functions",
    "function": "cernis.events.evaluation.user_functions",
    "Answer": "cernis.results.answers",
    "Answers": "cernis.results.answers",
    "GraphMatches": "cernis.rdf.matches",
    "GraphQuery": "cernis.rdf.query",
    "Groups": "cernis.results.groups",
    "Match": "cernis.results.match",
    "MatchGroup": "cernis.results.groups",
    "Matches": "cernis.results.matches",
    "Pattern": "cernis.pattern.query",
    "Query": "cernis.run.query",
    "Result": "cernis.results.result",
    "RuleSet": "cernis.run.rules.rule_set",
    "Schema": "cernis.schema",
    "Session": "cernis.run.session",
    "SqlQuery": "cernis.run.rows.statement",
    "SqlRows": "cernis.run.rows.statement",
}


@overload
def query(
    text: str | Pattern,
    *,
    lang: Literal["ceql"] = "ceql",
    schema: Schema | None = None,
    time_zone: str | None = None,
) -> Query[Matches]: ...


@overload
def query(  # type: ignore[overload-overlap]  # text in other languages is no GraphQuery
    text: str, *, lang: Literal["spaseq"]
) -> GraphQuery: ...


@overload
def query(
    text: str | Pattern | ConjunctiveQuery,
    *,
    lang: str = "ceql",
    schema: Schema | None = None,
    time_zone: str | None = None,
) -> Query: ...


def query(
    text: str | Pattern | ConjunctiveQuery,
    *,
    lang: str = "ceql",
    schema: Schema | None = None,
    time_zone: str | None = None,
) -> Query | GraphQuery:
    """Parse and check a query, against a schema if one is given.

    `lang` is the language of a text: CEQL, `"cq"` for a conjunctive query, or `"spaseq"` for a
    query over RDF streams. A `Pattern` or a `ConjunctiveQuery` needs none. Functions of time that
    name no zone are in the `time_zone`, otherwise in UTC.
    """
    if lang == "spaseq" and isinstance(text, str):
        with make_lasting():
            from cernis.rdf.query import GraphQuery

        return GraphQuery(text)
    with make_lasting():
        from cernis.run.query import Query

    return Query(text, lang=lang, schema=schema, time_zone=time_zone)


def rules(
    source: Any,
    on_bad_rule: str = "fail",
    *,
    time_zone: str | None = None,
    params: Mapping[str, Any] | None = None,
) -> RuleSet:
    """Read rules that run over the same events in one pass; raise all their mistakes together.

    With `on_bad_rule="skip"`, rules that are wrong or do not fit the events are left out, and notes
    say so.

    `source` is a text of `RULE name AS SELECT …`, a path of a file or of a folder of such texts
    (.ceql), a list of texts and paths, or a dictionary of queries by name. Functions of time that
    name no zone are in the `time_zone`, otherwise in UTC. `params` are the values of `$name`s.
    """
    with make_lasting():
        from cernis.languages.ceql.parse import use_time_zone
        from cernis.languages.text.parameters import use_parameters
        from cernis.run.rules.rule_set import RuleSet

    with use_time_zone(time_zone), use_parameters(params or {}):
        return RuleSet.of(source, on_bad_rule)


def sql(
    text: str,
    tables: Mapping[str, Any] | None = None,
    *,
    dialect: str = "duckdb",
    connection: Any = None,
    budget: int | None = None,
    max_memory: int | None = None,
    **named: Any,
) -> SqlRows:
    """Run a query that may have MATCH_RECOGNIZE clauses, on DuckDB (extra `sql`).

    Tables are given by name: Arrow, pandas and polars frames, lists of dictionaries, or paths of
    CSV, JSON and Parquet files. `dialect` is the SQL that the text is written in, `connection` a
    DuckDB connection whose tables and functions the text may use, `budget` how many transitions a
    search may try where conditions depend on the path, `max_memory` how many MiB DuckDB may use
    before it writes to disk, half of the machine's memory unless you say otherwise.
    """
    with make_lasting():
        from cernis.run.rows.host import HostLimits
        from cernis.run.rows.statement import SqlQuery

    query = SqlQuery(text, dialect=dialect)
    limits = None if max_memory is None else HostLimits(max_memory << 20)
    given = {**(tables or {}), **named}
    return query.run(given, connection=connection, budget=budget, limits=limits)


def diff(
    old: Any, new: Any, events: Any, *, sample: int = 3, seed: int | None = None, **options: Any
) -> Any:
    """Return the matches that a new query, or rule set, gains, loses and keeps, exactly counted.

    `sample` matches of each side come with their events. The other options are those of
    `Query.run`. The result is a `cernis.workbench.diff.MatchDiff`, of rule sets a `RulesDiff`.
    """
    with make_lasting():
        from cernis.workbench.diff import diff

    return diff(old, new, events, sample=sample, seed=seed, **options)


def schema_of(events: Any, **reading: Any) -> Schema:
    """Return the attributes of events; conjunctive queries take arguments in this order."""
    with make_lasting():
        from cernis.run.query import schema_of_events

    return schema_of_events(events, **reading)


def __getattr__(name: str) -> Any:
    from importlib import import_module

    with make_lasting():
        if name in _MODULES:
            return getattr(import_module(_MODULES[name]), name)
        if name in ("pattern", "rdf", "spark"):
            return import_module(f"cernis.{name}")
    raise AttributeError(f"module 'cernis' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
