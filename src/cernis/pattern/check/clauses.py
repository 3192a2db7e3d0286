"""Check the clauses of a query around its formula."""

from __future__ import annotations

from fractions import Fraction
from itertools import chain

from cernis.errors import Diagnostic, Span
from cernis.pattern.check.formulas import LARGEST_WINDOW, FormulaCheck, is_decimal
from cernis.pattern.check.scopes import VariableScope
from cernis.pattern.formula import Event, walk
from cernis.pattern.predicate import (
    Aggregate,
    Attribute,
    CompareTerms,
    Condition,
    Denied,
    IntervalTime,
    MatchTerm,
    Reference,
    leaves,
    walk_term,
)
from cernis.pattern.query import (
    Consume,
    Grouping,
    OrderBy,
    Overall,
    SelectedTerm,
    Strategy,
    Suppression,
    Unit,
    Variable,
    counts_only,
)
from cernis.pattern.suggest import did_you_mean
from cernis.pattern.variables import single_variables
from cernis.pattern.write import write_formula, write_term

INTERVAL = ("start", "end", "start_ts", "end_ts")


class PatternCheck(FormulaCheck):
    """One pass over a pattern with one schema."""

    def run(self) -> list[Diagnostic]:
        self.check_from()
        scope = self.check_formula(self.pattern.formula)
        self.check_without(scope)
        self.check_qualified()
        if self.pattern.grouping is None:
            self.check_select(scope)
        else:
            self.check_grouping(self.pattern.grouping, scope)
        self.check_partition()
        if self.pattern.within is not None:
            self.check_window(self.pattern.within)
        if self.pattern.limit is not None and self.pattern.limit < 0:
            self.mistakes.note("LIMIT must not be negative", self.find_span("limit", 0))
        if self.pattern.order is not None:
            self.check_order(self.pattern.order, scope)
        if self.pattern.forget is not None:
            self.check_length(self.pattern.forget, "FORGET AFTER", self.find_span("forget", 0))
        if self.pattern.suppress is not None:
            self.check_suppress(self.pattern.suppress)
        if self.pattern.into is not None:
            self.check_into(self.pattern.into)
        return self.mistakes.found

    def find_span(self, clause: str, index: int) -> Span | None:
        spans = self.pattern.spans.get(clause, ())
        return spans[index] if index < len(spans) else None

    def check_from(self) -> None:
        seen: set[str] = set()
        for index, name in enumerate(self.pattern.streams):
            if name in seen:
                self.mistakes.note(
                    f"stream '{name}' stands twice in FROM", self.find_span("streams", index)
                )
            seen.add(name)
            self.check_joins(name)
            if self.schema is not None and self.schema.stream(name) is None:
                names = [stream.name for stream in self.schema.streams]
                self.note_unknown(f"stream '{name}'", name, names, self.find_span("streams", index))

    def check_joins(self, stream: str) -> None:
        seen: set[str] = set()
        for join in self.pattern.joins:
            if join.stream != stream:
                continue
            if join.table in seen:
                self.mistakes.note(f"'{join.table}' is joined to '{stream}' twice", join.span)
            seen.add(join.table)
            if not join.keys:
                self.mistakes.note(f"JOIN {join.table} needs a key", join.span)

    def check_qualified(self) -> None:
        """Note each `S>E[…]` whose variable E holds events of other streams than S.

        A bare E in the formula is of every stream in FROM; without FROM, of any stream.
        """
        if not self.pattern.qualified:
            return
        everywhere = self.pattern.streams or (None,)
        streams: dict[str, set[str | None]] = {}
        formulas = [self.pattern.formula, *(one.formula for one in self.pattern.without)]
        for node in chain.from_iterable(map(walk, formulas)):
            if isinstance(node, Event):
                its = everywhere if node.stream is None else (node.stream,)
                streams.setdefault(node.type, set()).update(its)
        for one in self.pattern.qualified:
            if self.is_read(one) and streams.get(one.type, {one.stream}) != {one.stream}:
                name = write_formula(one)
                self.mistakes.note(
                    f"'{name}' is not a variable: "
                    f"'{one.type}' of other streams occurs in the formula too",
                    one.span,
                    suggestion=f"name it in the formula: {name} AS x",
                )

    def check_without(self, scope: VariableScope) -> None:
        """Check WITHOUT … FOR and WITHOUT … BEFORE."""
        pattern, seen = self.pattern, set[bool]()
        single = single_variables(pattern.formula)
        for absence in pattern.without:
            self.check_guard(absence.formula, scope, single)
            clause = "WITHOUT … BEFORE" if absence.before else "WITHOUT … FOR"
            window = absence.within
            if absence.before in seen:
                self.mistakes.note(
                    f"a query has one {clause}",
                    absence.span,
                    suggestion="write WITHOUT (A OR B)",
                )
            seen.add(absence.before)
            if window.unit is Unit.ATTRIBUTE:
                self.mistakes.note(f"{clause} takes a duration or EVENTS", window.span)
            self.check_size(window, clause)
        if pattern.without and pattern.consume is not Consume.NONE:
            span = self.find_span("consume", 0) or pattern.without[0].span
            self.mistakes.note("CONSUME BY does not go with WITHOUT", span)

    def check_select(self, scope: VariableScope) -> None:
        select = self.pattern.select
        if select.everything and select.items:
            self.mistakes.note("'*' stands alone in SELECT", select.span)
        single = single_variables(self.pattern.formula)
        seen: set[str] = set()
        for item in select.items:
            if item.name in seen:
                self.mistakes.note(f"'{item.name}' is selected twice", item.span)
            seen.add(item.name)
            match item:
                case Variable(name=name, span=span) if self.is_component(item, scope):
                    self.note_component(name, scope, span)
                case Variable(name=name, attributes=attributes, span=span):
                    known = self.check_variable(name, scope, "SELECT", span)
                    for attribute in attributes:
                        path = tuple(attribute.split("."))
                        self.check_attribute(Attribute(path, span=span), known)
                case SelectedTerm(term=term, alias=alias):
                    self.check_term(term, scope, single, "SELECT")
                    self.check_alias(alias, item.span)

    def is_component(self, item: Variable, scope: VariableScope) -> bool:
        """Whether SELECT names a component of the partition: `[k]`, or `k` that is no variable."""
        if item.name in scope.variables or item.attributes:
            return False
        in_brackets = item.span is not None and self.pattern.source[item.span.start] == "["
        return in_brackets or item.name in self.pattern.components

    def note_component(self, name: str, scope: VariableScope, span: Span | None) -> None:
        if name in self.pattern.components:
            self.mistakes.note(
                f"'{name}' is selected twice: PARTITION BY makes it a column",
                span,
                suggestion="leave it out: it stands before the columns of SELECT",
            )
            return
        instead = None
        if scope.variables:
            event = next(reversed(list(scope.variables)))
            instead = f"an attribute is written with the event's variable: {event}[{name}]"
        message = f"[{name}] in SELECT is no component of the partition"
        self.mistakes.note(message, span, suggestion=instead)

    def check_order(self, order: OrderBy, scope: VariableScope) -> None:
        """Check ORDER BY, whose term has one value for each match."""
        pattern = self.pattern
        if pattern.grouping is not None or counts_only(pattern):
            what = "SELECT COUNT(*) alone" if pattern.grouping is None else "GROUP BY"
            self.mistakes.note(
                f"ORDER BY does not go with {what}",
                order.span,
                suggestion="it orders matches: select variables or values",
            )
            return
        self.check_term(order.term, scope, single_variables(pattern.formula), "ORDER BY")
        if not any(
            isinstance(part, Reference | Aggregate | IntervalTime) for part in walk_term(order.term)
        ):
            self.mistakes.note(
                "ORDER BY takes a value of the match, not a constant",
                order.span,
                expected="an attribute or an aggregate",
            )
        if order.every is not None and pattern.limit is None:
            self.mistakes.note("EVERY needs LIMIT", order.span)
        if order.every is not None and (order.every <= 0 or order.every % 1):
            message = "EVERY needs a duration of whole nanoseconds, more than none"
            self.mistakes.note(message, order.span)
        if order.overall is not None and pattern.limit is None:
            self.mistakes.note("OVERALL needs LIMIT", order.span)
        if order.overall is Overall.PARTITION and not pattern.partition:
            self.mistakes.note(
                "PER PARTITION needs PARTITION BY",
                self.find_span("limit", 0) or order.span,
                suggestion="name the key: PARTITION BY [a], or leave PER PARTITION out",
            )

    def check_grouping(self, grouping: Grouping, scope: VariableScope) -> None:
        """Check GROUP BY, and SELECT and HAVING, which go over the matches of a group."""
        pattern = self.pattern
        for name in grouping.components:
            if name not in pattern.components:
                message = f"component '{name}' of the partition in GROUP BY"
                instead = did_you_mean(name, pattern.components) or f"add PARTITION BY [{name}]"
                self.mistakes.note(f"unknown {message}", grouping.span, suggestion=instead)
        if grouping.every is not None and grouping.end:
            self.mistakes.note("GROUP BY takes EVERY or END, not both", grouping.span)
        if grouping.every is not None and (grouping.every <= 0 or grouping.every % 1):
            message = "EVERY needs a duration of whole nanoseconds, more than none"
            self.mistakes.note(message, grouping.span)
        if grouping.of_start and grouping.every is None:
            self.mistakes.note("OF START needs EVERY", grouping.span)
        if pattern.consume is not Consume.NONE:
            span = self.find_span("consume", 0) or grouping.span
            self.mistakes.note("CONSUME BY does not go with GROUP BY", span)
        if pattern.limit is not None:
            span = self.find_span("limit", 0) or grouping.span
            self.mistakes.note("LIMIT does not go with GROUP BY", span)
        if not pattern.select.items:
            self.mistakes.note(
                "SELECT of a query with GROUP BY takes aggregates",
                pattern.select.span,
                suggestion="write SELECT COUNT(*)",
            )
        taken = {"from_ts", "to_ts"} if grouping.every is not None else set[str]()
        taken |= {"end", "end_ts"} if grouping.end else set()
        for item in pattern.select.items:
            match item:
                case Variable(name=name) if name in grouping.components and not item.attributes:
                    pass
                case Variable(name=name):
                    self.mistakes.note(
                        f"'{name}' has no single value in a group",
                        item.span,
                        expected="an aggregate, or a component that GROUP BY names",
                    )
                case SelectedTerm(term=term):
                    self.check_group_term(term, scope, "SELECT")
            if item.name in taken:
                self.mistakes.note(f"'{item.name}' is selected twice", item.span)
            taken.add(item.name)
        if grouping.having is not None:
            self.check_having(grouping.having, scope)

    def check_having(self, condition: Condition, scope: VariableScope) -> None:
        for leaf in leaves(condition):
            leaf = leaf.body if isinstance(leaf, Denied) else leaf
            if not isinstance(leaf, CompareTerms):
                self.mistakes.note(
                    "HAVING compares aggregates over the matches of a group",
                    leaf.span,
                    suggestion="conditions on events stand in FILTER",
                )
                continue
            left = leaf.left, self.check_group_term(leaf.left, scope, "HAVING")
            right = leaf.right, self.check_group_term(leaf.right, scope, "HAVING")
            self.check_terms_compare(left, right, leaf.span)

    def check_group_term(self, term: MatchTerm, scope: VariableScope, where: str) -> str | None:
        for part in walk_term(term):
            wrong = None
            match part:
                case Aggregate(function="FIRST" | "LAST"):
                    wrong = f"{write_term(part)} has no meaning over the matches of a group"
                case Reference() | IntervalTime():
                    wrong = f"{write_term(part)} has no single value in a group"
            if wrong is not None:
                expected = "COUNT, SUM, MIN, MAX or AVG"
                self.mistakes.note(wrong, part.span, expected=expected)
                return None
        return self.check_term(term, scope, frozenset(), where)

    def check_alias(self, alias: str | None, span: Span | None) -> None:
        """Note a column that has the name of one that every match has."""
        taken = {*INTERVAL}
        taken |= {"deadline_ts"} if self.pattern.absent_after is not None else set()
        taken |= {"suppressed"} if self.pattern.suppress is not None else set()
        if alias in taken:
            self.mistakes.note(f"every match has a column '{alias}' already", span)
        elif alias in self.pattern.components and self.pattern.into is None:
            message = f"'{alias}' is selected twice: PARTITION BY makes it a column"
            self.mistakes.note(message, span)

    def check_partition(self) -> None:
        known = self.events.all_kinds()
        index = 0
        for group in self.pattern.partition:
            if not group:
                self.mistakes.note("a group of PARTITION BY is empty", None)
            calculated = self.pattern.calculated
            unknown = [
                name
                for name in group
                if known is not None and name not in known and name not in calculated
            ]
            for name in group:
                if name in calculated:
                    self.check_value(calculated[name], known)
                if name in unknown:
                    nothing = len(unknown) == len(group)
                    message = f"attribute '{name}' in PARTITION BY"
                    if nothing:
                        message += ": the group covers nothing"
                    self.note_unknown(
                        message, name, known or (), self.find_span("partition", index)
                    )
                index += 1

    def check_length(self, length: Fraction, clause: str, span: Span | None) -> None:
        if length <= 0:
            self.mistakes.note(f"{clause} needs a duration longer than 0", span)
        if length > LARGEST_WINDOW:
            self.mistakes.note(f"the duration of {clause} is out of range", span)
        if not is_decimal(Fraction(length)):
            self.mistakes.note(f"the duration of {clause} must be a decimal number", span)

    def check_into(self, stream: str) -> None:
        """Check INSERT INTO: each match is an event at a time, and its values have names."""
        pattern, span = self.pattern, self.find_span("into", 0)
        grouping = pattern.grouping
        timeless = {
            "GROUP BY without EVERY": grouping is not None and grouping.every is None,
            "EVERY … OF START": grouping is not None and grouping.of_start,
            "SELECT COUNT(*) alone": counts_only(pattern),
        }
        for clause, is_there in timeless.items():
            if is_there:
                self.mistakes.note(
                    f"INSERT INTO does not go with {clause}",
                    span,
                    suggestion="an event of the new stream has a time: that of a match, or the end "
                    "of an interval of EVERY",
                )
                return
        for item in pattern.select.items or (None,):
            if not isinstance(item, SelectedTerm) or item.alias is None:
                self.mistakes.note(
                    f"an event of '{stream}' has values with names",
                    pattern.select.span if item is None else item.span,
                    expected="term AS name",
                )
            elif item.alias in ("type", "ts"):
                message = f"an event of '{stream}' has an attribute '{item.alias}' already"
                self.mistakes.note(message, item.span)

    def check_suppress(self, suppress: Suppression) -> None:
        pattern, span = self.pattern, suppress.span
        groups = pattern.grouping is not None
        if groups or counts_only(pattern):
            what = "GROUP BY" if groups else "SELECT COUNT(*) alone"
            self.mistakes.note(
                f"SUPPRESS BY does not go with {what}",
                span,
                suggestion="it silences matches: select variables or values",
            )
            return
        if pattern.ranks_intervals or pattern.ranks_overall:
            word, kept = ("OVERALL", "all") if pattern.ranks_overall else ("EVERY", "each interval")
            self.mistakes.note(
                f"SUPPRESS BY does not go with LIMIT … {word}",
                span,
                suggestion=f"{word} keeps the best of {kept}: silence matches, or rank them",
            )
        values = [item.name for item in pattern.select.items if isinstance(item, SelectedTerm)]
        known = [*pattern.components, *values]
        for index, name in enumerate(suppress.names):
            if name not in known:
                self.mistakes.note(
                    f"unknown component or value '{name}' in SUPPRESS BY",
                    span,
                    suggestion=did_you_mean(name, known)
                    or f"PARTITION BY [{name}], or give a value the name: SELECT … AS {name}",
                )
            elif name in suppress.names[:index]:
                self.mistakes.note(f"SUPPRESS BY names '{name}' twice", span)
        after = pattern.absent_after
        beside = None
        if after is not None and pattern.strategy is Strategy.LONGEST:
            beside = "LONGEST and WITHOUT … FOR"
        elif after is not None and after.within.unit is Unit.EVENTS:
            beside = "WITHOUT … FOR … EVENTS"
        if beside is not None and not pattern.suppresses_whole_keys:
            self.mistakes.note(
                f"beside {beside}, SUPPRESS BY names every component of the partition",
                span,
                expected=", ".join(pattern.components),
                suggestion="such matches have no common order across partitions",
            )
        self.check_length(suppress.length, "SUPPRESS BY … FOR", span)
