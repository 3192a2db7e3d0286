"""Build queries: one method for each clause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.builder.arguments import check_name, check_whole, choose_member, refuse, show
from cernis.pattern.builder.conditions import (
    ConditionBuilder,
    Property,
    TermBuilder,
    Var,
    refer_to,
    unwrap_condition,
)
from cernis.pattern.builder.durations import make_window, sum_units
from cernis.pattern.builder.formulas import FormulaBuilder, make_formula
from cernis.pattern.builder.predicates import make_attribute
from cernis.pattern.check import resolve
from cernis.pattern.query import (
    Absence,
    Consume,
    Grouping,
    OrderBy,
    Overall,
    Pattern,
    Select,
    SelectedTerm,
    Strategy,
    Suppression,
    TableJoin,
    Unit,
    Variable,
    Window,
)
from cernis.pattern.selection import settle_select
from cernis.pattern.suggest import did_you_mean
from cernis.schema import Schema


@dataclass(frozen=True, slots=True)
class QueryBuilder:
    """A query being built; every method gives a new one, `build` gives the `Pattern`."""

    draft: Pattern
    has_formula: bool = False

    def from_(self, *streams: str) -> QueryBuilder:
        names = tuple(check_name(stream, "a stream") for stream in streams)
        return replace(self, draft=replace(self.draft, streams=names))

    def insert_into(self, stream: str) -> QueryBuilder:
        """`INSERT INTO stream SELECT …`: each match is an event of that stream, for other rules."""
        return replace(self, draft=replace(self.draft, into=check_name(stream, "a stream")))

    def join(
        self, table: str, on: Mapping[str, str], *, left: bool = False, stream: str | None = None
    ) -> QueryBuilder:
        """`FROM S JOIN table ON a = table.b`, for `on={"a": "b"}`; by default the last stream.

        >>> print(select().from_("S").join("companies", {"name": "ticker"}).where("A").build())
        SELECT * FROM S JOIN companies ON name = companies.ticker WHERE A
        """
        streams = self.draft.streams
        if not streams:
            raise refuse("join() comes after from_()")
        if stream is not None and stream not in streams:
            raise refuse(f"join(stream={stream!r}): no such stream", did_you_mean(stream, streams))
        keys = tuple((make_attribute((a,)).name, check_name(b, "a column")) for a, b in on.items())
        name = check_name(table, "a table")
        made = TableJoin(stream or streams[-1], name, keys, left)
        return replace(self, draft=replace(self.draft, joins=(*self.draft.joins, made)))

    def where(self, formula: FormulaBuilder | str) -> QueryBuilder:
        return QueryBuilder(replace(self.draft, formula=make_formula(formula)), True)

    def filter(self, condition: ConditionBuilder) -> QueryBuilder:
        """Set the FILTER clause of the query; call it after `where`."""
        if not self.has_formula:
            raise refuse("filter() comes after where()")
        filtered = cel.Filter(self.draft.formula, unwrap_condition(condition))
        return replace(self, draft=replace(self.draft, formula=filtered))

    def without(
        self,
        guard: FormulaBuilder | str,
        length: timedelta | None = None,
        *,
        events: int | None = None,
        before: bool = False,
        **units: float | Decimal | Fraction,
    ) -> QueryBuilder:
        """`without("PAY", hours=1)`: no PAY follows a match within that; `before`: none precedes.

        >>> print(select().where("ORDER").without("PAY", hours=1).build())
        SELECT * WHERE ORDER WITHOUT PAY FOR 1 HOUR
        """
        timed = length is not None or bool(units)
        if timed == (events is not None):
            raise refuse(
                "without() takes a duration or events", "for example without('PAY', hours=1)"
            )
        window = Window(Unit.TIME, sum_units(length, units, "without"))
        if events is not None:
            window = Window(Unit.EVENTS, Fraction(check_whole(events, "events")))
        absence = Absence(make_formula(guard), window, before)
        return replace(self, draft=replace(self.draft, without=(*self.draft.without, absence)))

    def partition_by(self, *groups: str | Iterable[str]) -> QueryBuilder:
        """Set the key: each attribute, or list of alternatives, is one component."""
        keys = tuple(
            tuple(
                make_attribute((name,)).name
                for name in ([group] if isinstance(group, str) else group)
            )
            for group in groups
        )
        if not all(keys):
            raise refuse("a group of partition_by() is empty")
        return replace(self, draft=replace(self.draft, partition=keys))

    def within(
        self,
        length: timedelta | None = None,
        *,
        events: int | None = None,
        attribute: str | None = None,
        size: float | Decimal | Fraction | None = None,
        **units: float | Decimal | Fraction,
    ) -> QueryBuilder:
        """`within(minutes=5, seconds=30)`, `within(events=10)`, `within(attribute="a", size=5)`."""
        window = make_window(length, events, attribute, size, units)
        return replace(self, draft=replace(self.draft, within=window))

    def group_by(
        self,
        *components: str,
        every: timedelta | None = None,
        end: bool = False,
        having: ConditionBuilder | None = None,
        of_start: bool = False,
    ) -> QueryBuilder:
        """`GROUP BY [a], EVERY d HAVING …`: aggregate over the matches of each group.

        With `of_start`, `EVERY d OF START`: the first event of a match lies in the interval.

        >>> import cernis.pattern as p
        >>> query = p.select(p.count()).where("A").partition_by("k")
        >>> minute = timedelta(minutes=1)
        >>> print(query.group_by("k", every=minute, having=p.count() > 3).build())
        SELECT COUNT(*) WHERE A PARTITION BY [k] GROUP BY [k], EVERY 1 MINUTE HAVING COUNT(*) > 3
        """
        names = tuple(check_name(name, "a component") for name in components)
        if not names and every is None and not end:
            raise refuse("group_by() needs a component of the partition, every=… or end=True")
        size = None if every is None else sum_units(every, {})
        kept = None if having is None else unwrap_condition(having)
        grouping = Grouping(names, size, end, kept, of_start)
        return replace(self, draft=replace(self.draft, grouping=grouping))

    def consume(self, policy: str | Consume) -> QueryBuilder:
        chosen = choose_member(Consume, policy, "policy")
        return replace(self, draft=replace(self.draft, consume=chosen))

    def order_by(self, term: TermBuilder, *, descending: bool = False) -> QueryBuilder:
        """`ORDER BY term [DESC]`: the matches of one end, sorted; `limit` keeps the first ones.

        >>> import cernis.pattern as p
        >>> query = p.select().where(p.event("A").as_("a"))
        >>> query = query.order_by(p.var("a")["x"], descending=True)
        >>> print(query.limit(1).build())
        SELECT * WHERE A AS a ORDER BY a[x] DESC LIMIT 1
        """
        if isinstance(term, Property):
            value: pred.MatchTerm = refer_to(term, "order_by()")
        elif isinstance(term, TermBuilder):
            value = term.term
        else:
            raise refuse(f"order_by() takes a value, not {show(term)}")
        return replace(self, draft=replace(self.draft, order=OrderBy(value, descending)))

    def limit(
        self,
        most: int,
        *,
        every: timedelta | None = None,
        overall: bool = False,
        per_partition: bool = False,
    ) -> QueryBuilder:
        """`LIMIT n`; after `order_by`, `every` counts in each interval of time.

        `overall` counts the matches of the whole input, with `per_partition` those of each key.

        >>> import cernis.pattern as p
        >>> query = p.select().where(p.event("A").as_("a")).order_by(p.var("a")["x"])
        >>> print(query.limit(5, overall=True).build())
        SELECT * WHERE A AS a ORDER BY a[x] LIMIT 5 OVERALL
        """
        draft = replace(self.draft, limit=check_whole(most, "limit()"))
        if every is not None and overall:
            raise refuse("limit() takes every or overall, not both")
        if per_partition and not overall:
            raise refuse("limit(per_partition=True) goes with overall=True")
        if every is None and not overall:
            return replace(self, draft=draft)
        if draft.order is None:
            name = "overall=True" if overall else "every=…"
            raise refuse(f"limit({name}) comes after order_by()")
        order = draft.order
        if every is not None:
            order = replace(order, every=sum_units(every, {}))
        else:
            scope = Overall.PARTITION if per_partition else Overall.INPUT
            order = replace(order, overall=scope)
        return replace(self, draft=replace(draft, order=order))

    def forget_after(
        self, length: timedelta | None = None, **units: float | Decimal | Fraction
    ) -> QueryBuilder:
        """`forget_after(minutes=5)`: forget partitions without events for longer than that."""
        if length is None and not units:
            raise refuse("forget_after() needs a duration", "for example forget_after(minutes=5)")
        forget = sum_units(length, units, "forget_after")
        return replace(self, draft=replace(self.draft, forget=forget))

    def suppress_by(
        self, *names: str, length: timedelta | None = None, **units: float | Decimal | Fraction
    ) -> QueryBuilder:
        """`SUPPRESS BY [names] FOR d`: a match silences those of equal values that follow it.

        >>> query = select().where("A").partition_by("user")
        >>> print(query.suppress_by("user", minutes=10).build())
        SELECT * WHERE A PARTITION BY [user] SUPPRESS BY [user] FOR 10 MINUTES
        """
        if not names:
            raise refuse("suppress_by() needs a component of the partition, or a value of select()")
        if length is None and not units:
            raise refuse(
                "suppress_by() needs a duration", "for example suppress_by('user', minutes=5)"
            )
        keys = tuple(check_name(name, "a component or a value") for name in names)
        suppress = Suppression(keys, sum_units(length, units, "suppress_by"))
        return replace(self, draft=replace(self.draft, suppress=suppress))

    def declare(self, schema: Schema) -> QueryBuilder:
        """Set the declarations of streams that stand before the query."""
        return replace(self, draft=replace(self.draft, declared=schema))

    def build(self) -> Pattern:
        """Return the pattern; raise QueryError with every mistake."""
        if not self.has_formula:
            raise refuse("the query has no formula", "call where() before build()")
        return resolve(settle_select(self.draft))

    def __str__(self) -> str:
        return str(self.build())


def _make_item(item: object) -> Variable | SelectedTerm:
    match item:
        case Variable() | SelectedTerm():
            return item
        case pred.Aggregate():
            return SelectedTerm(item)
        case Var(name=name):
            return Variable(name)
        case str():
            name = check_name(item, "a variable")
            if {*name} & {*"[]()"}:
                raise refuse(
                    f"text names a variable in select(), but {show(name)} looks like a value",
                    "write p.var('x')['a'], p.count() or p.aggregate('sum', p.var('x')['a'])",
                )
            return Variable(name)
        case Property():
            return SelectedTerm(refer_to(item, "select()"))
        case TermBuilder():
            return SelectedTerm(item.term)
        case _:
            raise refuse(f"select() takes variables and values, not {show(item)}")


def select(
    *items: str | Var | Variable | TermBuilder | SelectedTerm | pred.Aggregate,
    strategy: str | Strategy = "ALL",
) -> QueryBuilder:
    """`SELECT x, y[a], COUNT(*) AS n`; without items, or with "*", `SELECT *`."""
    everything = not items or (len(items) == 1 and isinstance(items[0], str) and items[0] == "*")
    chosen = Select() if everything else Select(False, tuple(map(_make_item, items)))
    draft = Pattern(cel.Event("-"), chosen, choose_member(Strategy, strategy, "strategy"))
    return QueryBuilder(draft)


def select_none(*, strategy: str | Strategy = "ALL") -> QueryBuilder:
    """`SELECT NONE`: the intervals alone."""
    draft = Pattern(cel.Event("-"), Select(False), choose_member(Strategy, strategy, "strategy"))
    return QueryBuilder(draft)
