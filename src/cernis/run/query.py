"""`Query`: a checked pattern with its plan, ready to run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, Generic, Literal, overload

from cernis.errors import CernisError, Diagnostic, QueryError, WarningNote
from cernis.events.csv_form import Columns
from cernis.events.regex import like_mistake
from cernis.events.source import (
    OnError,
    TimeColumns,
    TypeColumns,
    open_events,
    schema_of,
    stream_of,
)
from cernis.languages.ceql.parse import parse as parse_ceql
from cernis.languages.ceql.parse import use_time_zone
from cernis.languages.conjunctive.lower import lower
from cernis.languages.conjunctive.parse import parse as parse_conjunctive
from cernis.pattern.check import resolve
from cernis.pattern.conjunctive import ConjunctiveQuery
from cernis.pattern.query import Pattern
from cernis.plan.explain import Explanation
from cernis.plan.lower_terms import list_decided
from cernis.plan.plan import Plan, make_plan, write_warnings
from cernis.results.budget import CANDIDATE_BUDGET, OnBudget
from cernis.results.matches import Matches
from cernis.results.result import Found
from cernis.run.key_limit import OnFull
from cernis.run.session import MatchForm, RunOptions, Session
from cernis.schema import Schema
from cernis.signature import Secret, open_state
from cernis.views.progress import count_rows, find_display, show_progress

if TYPE_CHECKING:
    from cernis.run.trace.look import Trace


class Query(Generic[Found]):
    """A checked query. It is cheap to make; the automaton is built when it is first needed.

    Any number of threads may use it at once. A session belongs to one thread at a time.

    `Query[Matches]` is one that gives `Matches`. The head of a conjunctive query decides between
    `Matches` and `Answers`; its type leaves that open.

    >>> q = Query("SELECT * FROM S WHERE SELL AS a ; BUY AS b WITHIN 10 EVENTS")
    >>> q.run([{"type": "SELL"}, {"type": "BUY"}, {"type": "BUY"}]).count()
    2
    """

    @overload
    def __init__(
        self: Query[Matches],
        pattern: str | Pattern,
        *,
        lang: Literal["ceql"] = "ceql",
        schema: Schema | None = None,
        time_zone: str | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        pattern: str | Pattern | ConjunctiveQuery,
        *,
        lang: str = "ceql",
        schema: Schema | None = None,
        time_zone: str | None = None,
    ) -> None: ...

    def __init__(
        self,
        pattern: str | Pattern | ConjunctiveQuery,
        *,
        lang: str = "ceql",
        schema: Schema | None = None,
        time_zone: str | None = None,
    ) -> None:
        with use_time_zone(time_zone):
            parsed = _parse(pattern, lang, schema) if isinstance(pattern, str) else pattern
        self.conjunctive = parsed if isinstance(parsed, ConjunctiveQuery) else None
        if isinstance(parsed, ConjunctiveQuery):
            parsed = lower(parsed)
        if not isinstance(parsed, Pattern):
            raise QueryError([Diagnostic("a query is text, a Pattern or a ConjunctiveQuery")])
        self.pattern = resolve(parsed, schema or parsed.declared, like_mistake)

    @cached_property
    def plan(self) -> Plan:
        return make_plan(self.pattern, conjunctive=self.conjunctive)

    @cached_property
    def warnings(self) -> tuple[WarningNote, ...]:
        """What the query probably does not mean as it is written, whatever the events."""
        return write_warnings(self.pattern) if self.conjunctive is None else ()

    def explain(self, events: Any = None, **options: Any) -> Explanation:
        """Explain how the query runs and what it costs; with events, as it runs on them."""
        plan = self.plan
        if events is not None:
            session = Session(plan, RunOptions(**options))
            session.check(events)
            plan = session.plan
        elif self.pattern.declared is not None:
            plan = plan.for_schema(self.pattern.declared)
        return Explanation(
            plan,
            query=str(self.conjunctive or self.pattern),
            decided=list_decided(self.pattern),
        )

    def run(
        self,
        events: Any,
        *,
        time: TimeColumns = None,
        type: TypeColumns = "type",
        time_unit: str = "ms",
        format: str | None = None,
        columns: Columns | None = None,
        delimiter: str | None = None,
        quote: str | None = None,
        on_error: OnError = "fail",
        budget: int = CANDIDATE_BUDGET,
        on_budget: OnBudget = "fail",
        max_keys: int | None = None,
        on_full: OnFull = "fail",
        complete: bool = False,
        strict: bool = False,
        tables: Mapping[str, Any] | None = None,
        matches: MatchForm = "events",
        progress: bool | None = None,
    ) -> Found:
        """Return all matches in the events.

        `events` is a frame, an Arrow table, dicts, a path, or several of these by name. A path
        is a file, a folder, a glob such as `trips-*.csv`, or `-` for standard input; several
        paths of one stream are a list. `time` and `type` name the columns of the timestamp and of
        the event's type, of all streams or in a dict by stream; integers count `time_unit`s. With
        `type=None` the name of the stream is the type of its events. `columns` are the names of
        the columns of CSV without a header; `delimiter` and `quote` are guessed. `on_error` is
        "fail", "skip", or a path or function that receives bad rows. `budget` is the most
        candidates that a query which compares events with each other may check in this run.
        Beyond it the run raises an error, or with `on_budget="partial"` returns the matches found
        so far (`partial`). `max_keys` is the most partitions that may have partial matches at
        once. Beyond it the run raises an error, or with `on_full="oldest"` drops the partitions
        that have been idle longest, with a note.
        `complete` says that nothing follows the last event, so that a match of WITHOUT … FOR
        whose deadline lies after it is certain. With `strict`, warnings (the notes that have a
        code) raise `StrictError`. `tables` are those that the query joins, by name: anything
        that `events` may be, with columns of any names. With `matches="count"` the rows are the
        numbers of matches per end, and no match is kept. A run of more than a second shows its
        `progress` in a terminal and in a notebook; False: it does not.
        """
        session = self.session(
            time=time,
            type=type,
            time_unit=time_unit,
            format=format,
            columns=columns,
            delimiter=delimiter,
            quote=quote,
            on_error=on_error,
            budget=budget,
            on_budget=on_budget,
            max_keys=max_keys,
            on_full=on_full,
            complete=complete,
            strict=strict,
            tables=tables or {},
            matches=matches,
        )
        shown = None if progress is False else find_display()
        with show_progress(lambda: session.events, count_rows(events), shown):
            return session.collect(events)

    def trace(self, matches: Matches) -> Trace:
        """Return the run that gave these matches, to be looked into.

        `step(row)` says what waits at a row, `why(rows)` why rows are no match, `automaton()` how
        often each edge was taken.
        """
        from cernis.run.trace.look import Trace

        if not isinstance(matches, Matches):
            raise CernisError(
                "a trace needs the matches of a query, as in query.trace(query.run(events)); "
                "groups and answers have none"
            )
        store = matches.store
        streams = {name: table.schema for b in store.stored_batches() for name, table in b.parts}
        schema = Schema(tuple(stream_of(name, own) for name, own in streams.items()))
        return Trace(self.plan.for_schema(schema, store.time_column), self.pattern, matches)

    def stream(self, events: Any, **options: Any) -> Iterator[Found]:
        """Yield the matches batch by batch, in memory that does not grow with the input."""
        return self.session(**options).stream(events)

    def session(
        self, *, keep: bool = False, matches: MatchForm = "events", **options: Any
    ) -> Session[Found]:
        """Return a session to push events to; with `keep`, matches can be pulled from it.

        With `matches="count"` each push returns how many matches end where, as `SELECT COUNT(*)`
        does: at a cost per event that does not grow with the window. Without it, `count()` of a
        push walks the compact set of its matches, at a cost that does.
        """
        refuse_insert(self.pattern)
        return Session(self.plan, RunOptions(**options), keep=keep, matches=matches)

    def thaw(
        self,
        frozen: bytes,
        *,
        format: str | None = None,
        columns: Columns | None = None,
        delimiter: str | None = None,
        quote: str | None = None,
        on_error: OnError = "fail",
        budget: int = CANDIDATE_BUDGET,
        on_budget: OnBudget = "fail",
        max_keys: int | None = None,
        on_full: OnFull = "fail",
        complete: bool = False,
        tables: Mapping[str, Any] | None = None,
        secret: Secret = None,
    ) -> Session[Found]:
        """Return the session that `Session.freeze` turned into bytes.

        `secret` is the one that they were signed with. The bytes do not say in which form files
        are, what to do with bad rows, too many candidates and too many keys, nor whether the input
        is complete, and do not hold the tables that the query joins.
        """
        options = RunOptions(
            format=format,
            columns=columns,
            delimiter=delimiter,
            quote=quote,
            on_error=on_error,
            budget=budget,
            on_budget=on_budget,
            max_keys=max_keys,
            on_full=on_full,
            complete=complete,
            tables=tables or {},
        )
        return Session.thaw(self.plan, open_state(frozen, secret), options)

    def __str__(self) -> str:
        return str(self.conjunctive or self.pattern)

    def _repr_html_(self) -> str:
        """Show the query and its automaton in a notebook."""
        return f"<pre>{escape(str(self))}</pre>{self.explain().draw()}"

    def __repr__(self) -> str:
        lang = ', lang="cq"' if self.conjunctive else ""
        return f"cernis.query({str(self)!r}{lang})"


def refuse_insert(pattern: Pattern) -> None:
    """Raise an error for INSERT INTO outside of a rule set."""
    if mistakes := find_insert(pattern):
        raise QueryError(mistakes, pattern.source)


def find_insert(pattern: Pattern) -> list[Diagnostic]:
    """Return the mistake of INSERT INTO outside of a rule set, if there is one."""
    if pattern.into is None:
        return []
    return [
        Diagnostic(
            f"INSERT INTO {pattern.into} makes a stream for other rules",
            next(iter(pattern.spans.get("into", ())), None),
            suggestion="run it in a rule set: RULE name AS INSERT INTO …",
        )
    ]


def _parse(text: str, lang: str, schema: Schema | None) -> Pattern | ConjunctiveQuery:
    match lang:
        case "ceql":
            return parse_ceql(text)
        case "cq":
            return parse_conjunctive(text, schema=schema)
        case _:
            known = "there are 'ceql', 'cq' and 'spaseq'"
            raise QueryError([Diagnostic(f"no language {lang!r}; {known}")])


def schema_of_events(events: Any, **reading: Any) -> Schema:
    """Return the attributes of events in order, without the type and time columns.

    `reading` are the options of `Query.run` that say how events are read.
    """
    sources = open_events(events, **reading)
    streams = []
    for source, stream in zip(sources, schema_of(sources).streams, strict=True):
        kept = {n: k for n, k in stream.attributes.items() if n not in source.aside}
        streams.append(replace(stream, attributes=kept))
    return Schema(tuple(streams))
