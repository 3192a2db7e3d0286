"""`Query`: a checked pattern with its plan, ready to run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, overload

from cernis.errors import CernisError, Diagnostic, QueryError, Span, WarningNote
from cernis.events.evaluation.regex import like_mistake
from cernis.events.reading.csv_form import Columns
from cernis.events.source import (
    OnError,
    TimeColumns,
    TypeColumns,
    open_events,
    schema_of,
    stream_of,
)
from cernis.languages.ceql.parse import SYNTAX as CEQL
from cernis.languages.ceql.parse import parse as parse_ceql
from cernis.languages.ceql.parse import use_time_zone
from cernis.languages.conjunctive.lower import lower
from cernis.languages.conjunctive.parse import SYNTAX as CONJUNCTIVE
from cernis.languages.conjunctive.parse import parse as parse_conjunctive
from cernis.languages.conjunctive.query import ConjunctiveQuery
from cernis.languages.text.parameters import (
    Constant,
    Parameter,
    cut_defaults,
    find_parameters,
    list_given,
    refuse_unknown,
    use_parameters,
)
from cernis.languages.text.tokens import span_of
from cernis.pattern.check import resolve
from cernis.pattern.query import Pattern
from cernis.plan.explain import Explanation
from cernis.plan.lower_terms import list_decided
from cernis.plan.plan import Plan, make_plan, write_warnings
from cernis.plan.run_counts import list_run_counts
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


@dataclass(frozen=True)
class _QuerySource:
    """What a query was made of."""

    pattern: str | Pattern | ConjunctiveQuery
    lang: str
    schema: Schema | None
    time_zone: str | None
    values: Mapping[str, Constant] = field(default_factory=dict)


_SYNTAXES = {"ceql": CEQL, "cq": CONJUNCTIVE}


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
        self._written = _QuerySource(pattern, lang, schema, time_zone)
        if self.unbound:
            return  # bind gives them values; the text is parsed then
        _ = self.pattern

    @cached_property
    def _parsed(self) -> tuple[Pattern, ConjunctiveQuery | None]:
        written = self._written
        with use_time_zone(written.time_zone), use_parameters(written.values):
            parsed = written.pattern
            if isinstance(parsed, str):
                parsed = _parse(parsed, written.lang, written.schema)
        conjunctive = parsed if isinstance(parsed, ConjunctiveQuery) else None
        if isinstance(parsed, ConjunctiveQuery):
            parsed = lower(parsed)
        if not isinstance(parsed, Pattern):
            raise QueryError([Diagnostic("a query is text, a Pattern or a ConjunctiveQuery")])
        return resolve(parsed, written.schema or parsed.declared, like_mistake), conjunctive

    @property
    def pattern(self) -> Pattern:
        """The checked pattern; an error if a parameter has no value."""
        return self._parsed[0]

    @property
    def conjunctive(self) -> ConjunctiveQuery | None:
        """The conjunctive query that the pattern is made of, if it is one."""
        return self._parsed[1]

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """The parameters of the text, `$name`, by name."""
        text, lang = self._written.pattern, self._written.lang
        if not isinstance(text, str) or "$" not in text or lang not in _SYNTAXES:
            return {}
        return find_parameters(_SYNTAXES[lang].lexer.cut(text), text)

    @property
    def unbound(self) -> tuple[str, ...]:
        """The parameters that have neither a value nor a default."""
        known = (*self._written.values, *list_given())
        pairs = self.parameters.items()
        return tuple(name for name, one in pairs if one.default is None and name not in known)

    def find_spans(self, name: str) -> frozenset[Span]:
        """Return where a parameter stands in the text, its default left out."""
        text = self._written.pattern
        assert isinstance(text, str)
        tokens = _SYNTAXES[self._written.lang].lexer.cut(text)
        rest, _ = cut_defaults(tokens, text)
        own = (token for token in rest if token.type == "PARAMETER" and token.value[1:] == name)
        return frozenset(map(span_of, own))

    def why(self, events: Any, **asked: Any) -> Any:
        """Return how far partial matches get, step by step, and what is in the way of the others.

        `rows=[3, 7]` should have been a match, `key=` and `end=` (a row) say which ones count; the
        other options are those of `run`. The result is a `cernis.workbench.why.Funnel`.
        """
        return _workbench("why").why(self, events, **asked)

    def sweep(self, events: Any, /, **values: Any) -> Any:
        """Count the matches for all choices of values of parameters: `q.sweep(df, t=[1, 2])`.

        Values are a list, or a text such as `"1.01..1.20 by 0.01"`. `options`, a dictionary, are
        those of `run`. The result is a `cernis.workbench.sweep.Sweep`.
        """
        options = values.pop("options", {})
        return _workbench("sweep").sweep(self, events, values, **options)

    def bind(self, **values: Constant) -> Self:
        """Return the query with values for its parameters.

        A value is a constant: a number, a text, True, False, or a timedelta for a duration.

        >>> q = Query("SELECT * FROM S WHERE BUY AS b FILTER b[price > $least]")
        >>> print(q.bind(least=5))
        SELECT * FROM S WHERE BUY AS b FILTER b[price > 5]
        """
        refuse_unknown(values, self.parameters)
        bound = copy(self)
        bound.__dict__ = {}
        written = self._written
        bound._written = replace(written, values={**written.values, **values})
        if not bound.unbound:
            _ = bound.pattern
        return bound

    @cached_property
    def plan(self) -> Plan:
        return make_plan(self.pattern, conjunctive=self.conjunctive)

    @cached_property
    def warnings(self) -> tuple[WarningNote, ...]:
        """What the query probably does not mean as it is written, whatever the events."""
        return write_warnings(self.pattern) if self.conjunctive is None else ()

    def explain(
        self, events: Any = None, *, rate: float | None = None, **options: Any
    ) -> Explanation:
        """Explain how the query runs and what it costs; with events, as it runs on them.

        `rate` is a number of events per second: how many cores and how much memory they take.
        """
        if rate is not None and not rate > 0:
            raise CernisError("rate must be above 0")
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
            decided=list_run_counts(self.pattern) or list_decided(self.pattern),
            rate=rate,
        )

    def follow(self, source: Any, **options: Any) -> Any:
        """Return the matches in inputs that grow, as they are certain: `cernis.follow`.

        Iterate over them, also with `async for`.
        """
        return import_module("cernis.live.follow").follow(self, source, **options)

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
        threads: int | None = None,
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
        numbers of matches per end, and no match is kept. As many `threads` as there are cores read
        slices of the events, where windows bound the matches; the result does not depend on it. A
        run of more than a second shows its `progress` in a terminal and in a notebook; False: it
        does not.
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
            threads=threads,
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
        if self.unbound and isinstance(self._written.pattern, str):
            return self._written.pattern
        return str(self.conjunctive or self.pattern)

    def _repr_html_(self) -> str:
        """Show the query and its automaton in a notebook."""
        return f"<pre>{escape(str(self))}</pre>{self.explain().draw()}"

    def __repr__(self) -> str:
        lang = ', lang="cq"' if self.conjunctive else ""
        return f"cernis.query({str(self)!r}{lang})"


def _workbench(name: str) -> Any:
    """Return a module of the workbench, which stands above this one and runs queries."""
    return import_module(f"cernis.workbench.{name}")


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
