"""Check formulas: event types, bounds, keys, and the conditions of their filters."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from cernis.errors import Span
from cernis.pattern import formula as cel
from cernis.pattern.check.kinds import class_of
from cernis.pattern.check.scopes import (
    NO_VARIABLES,
    VariableScope,
    bind_variable,
    find_uncovered,
    is_single_event,
    unite_scopes,
)
from cernis.pattern.check.terms import TermCheck
from cernis.pattern.formula import Unit, Window
from cernis.pattern.predicate import (
    Aggregate,
    AllOf,
    AnyOf,
    Compare,
    CompareNeighbours,
    CompareTerms,
    Condition,
    Denied,
    Holds,
    IntervalTime,
    Leaf,
    Monotone,
    Reference,
    leaves,
    mentioned_variables,
    walk_term,
)
from cernis.pattern.variables import single_variables
from cernis.pattern.waits import list_first
from cernis.pattern.write import (
    write_gap,
    write_name,
    write_previous,
    write_reference,
    write_term,
    write_value,
)
from cernis.schema import Kind

LARGEST_WINDOW = 10**100
"""More than a text can write, and less than the largest float."""

_BEGIN = {
    "ALL": "use ';', or say which event comes first",
    "NOT": "'->' passes over events that do not fit; use ':' or ';' before NOT",
}


class FormulaCheck(TermCheck):
    """Notes the mistakes of a pattern's formula."""

    def check_formula(self, node: cel.Formula) -> VariableScope:
        """Check a formula and return the variables that it binds."""
        match node:
            case cel.Event():
                return self.check_event(node)
            case cel.Not(body=body):
                if not is_single_event(body):
                    self.mistakes.note(
                        "NOT takes a single event",
                        node.span,
                        expected="an event type, with FILTER, OR and AS if need be",
                        suggestion="to forbid a pattern between two events, use UNLESS",
                    )
                self.check_formula(body)
                return NO_VARIABLES
            case cel.As(body=body, variable=variable):
                return bind_variable(self.check_formula(body), variable)
            case cel.Iterate(body=body):
                self.check_bounds(node)
                self.check_gaps(node)
                if node.separator.next:
                    self.check_begin(body)
                return self.check_formula(body)
            case cel.Optional(body=body):
                return self.check_formula(body)
            case cel.Filter(body=body, condition=condition):
                scope = self.check_formula(body)
                self.check_condition(condition, scope, single_variables(body))
                return scope
            case cel.PartitionBy(body=body):
                scope = self.check_formula(body)
                self.check_keys(node, scope)
                return scope
            case cel.Within(body=body, window=window):
                self.check_window(window)
                return self.check_formula(body)
            case cel.Unless(body=body, guard=guard):
                scope = self.check_formula(body)
                self.check_guard(guard, scope, single_variables(body))
                return scope
            case cel.Sequence(parts=parts) | cel.Contiguous(parts=parts):
                self.check_gaps(node)
            case cel.Choice(parts=parts) | cel.All(parts=parts):
                pass
        if len(parts) < 2:
            self.mistakes.note(f"{type(node).__name__} needs at least two parts", node.span)
        scopes = []
        for i, part in enumerate(parts):
            if i and isinstance(node, cel.Sequence) and node.separator_before(i).next:
                self.check_begin(part)
            scopes.append(self.check_formula(part))
        return unite_scopes(scopes) if scopes else NO_VARIABLES

    def check_event(self, event: cel.Event) -> VariableScope:
        self.check_event_type(event)
        sort = (event.stream, event.type)
        sorts = frozenset((sort,))
        return VariableScope({} if event.type == cel.ANY_TYPE else {event.type: sorts}, sorts)

    def is_read(self, event: cel.Event) -> bool:
        """Whether FROM reads the event's stream; note the mistake if it does not."""
        name, read = event.stream, self.pattern.streams
        if name is None or not read or name in read:
            return True
        message = f"stream '{name}' is not in FROM"
        self.mistakes.note(message, event.span, expected=", ".join(read), word=name, among=read)
        return False

    def check_event_type(self, event: cel.Event) -> None:
        name = event.stream
        if not self.is_read(event) or self.schema is None or event.type == cel.ANY_TYPE:
            return
        if name is not None and self.schema.stream(name) is None:
            if not self.pattern.streams:
                names = [stream.name for stream in self.schema.streams]
                self.note_unknown(f"stream '{name}'", name, names, event.span)
            return
        streams = [s for s in self.events.streams if name is None or s.name == name]
        if streams and all(s.events and event.type not in s.events for s in streams):
            types = [kind for stream in streams for kind in stream.events]
            self.note_unknown(f"event type '{event.type}'", event.type, types, event.span)

    def check_bounds(self, node: cel.Iterate) -> None:
        low, high = node.low, node.high
        if low < 0 or (high is not None and high < low):
            self.mistakes.note(
                f"the bounds {{{low},{'' if high is None else high}}} allow no number",
                node.span,
                suggestion=None if high is None or low < 0 else f"write {{{high},{low}}}",
            )
        elif high == 0:
            self.mistakes.note("zero repetitions match nothing", node.span)

    def check_begin(self, after: cel.Formula) -> None:
        """Note a formula after `->` that does not begin with single events."""
        for _, first in list_first(after):
            if not isinstance(first, cel.Event):
                word = "ALL" if isinstance(first, cel.All) else "NOT"
                self.mistakes.note(
                    f"what follows '->' must begin with single events, not with {word}",
                    first.span,
                    expected="an event type, also with AS, FILTER, OR, + or ?",
                    suggestion=_BEGIN[word],
                )

    def check_window(self, window: Window) -> None:
        self.check_size(window, "WITHIN")
        if window.unit is Unit.ATTRIBUTE:
            if window.attribute is None:
                self.mistakes.note("WITHIN n [a] needs an attribute", window.span)
                return
            kind = self.check_attribute(window.attribute, self.events.all_kinds())
            if class_of(kind) not in ("number", None):
                message = f"WITHIN needs numbers, {window.attribute.name} is a {class_of(kind)}"
                self.mistakes.note(message, window.attribute.span)

    def check_size(self, window: Window, clause: str) -> None:
        if window.size < 0:
            self.mistakes.note(f"{clause} must not be negative", window.span)
        if window.size > LARGEST_WINDOW:
            self.mistakes.note(f"the size of {clause} is out of range", window.span)
        if window.unit is Unit.EVENTS and Fraction(window.size).denominator != 1:
            self.mistakes.note("a number of events must be whole", window.span)
        if not is_decimal(Fraction(window.size)):
            self.mistakes.note(f"the size of {clause} must be a decimal number", window.span)

    def check_gaps(self, node: cel.Formula) -> None:
        for gap in cel.list_gaps(node):
            if gap.least < 0 or gap.most < 0:
                self.mistakes.note("a gap must not be negative", gap.span)
            elif gap.least > gap.most:
                turned = replace(gap, least=gap.most, most=gap.least)
                self.mistakes.note(
                    "the gap ends before it begins",
                    gap.span,
                    suggestion=f"write [{write_gap(turned)}]",
                )
            if gap.most > LARGEST_WINDOW:
                self.mistakes.note("the size of the gap is out of range", gap.span)
            if gap.unit is Unit.EVENTS and any(n.denominator != 1 for n in (gap.least, gap.most)):
                self.mistakes.note("a number of events must be whole", gap.span)
            elif not is_decimal(gap.least) or not is_decimal(gap.most):
                self.mistakes.note("the size of a gap must be a decimal number", gap.span)

    def check_keys(self, node: cel.PartitionBy, scope: VariableScope) -> None:
        kinds = []
        variables: set[str] = set()
        for key in node.keys:
            if key.variable is None:
                known = self.events.kinds_of(scope.sorts)
            else:
                variables.add(key.variable)
                known = self.check_variable(key.variable, scope, "PARTITION BY", key.span)
            kinds.append((key, self.check_attribute(key.attribute, known)))
        bare = [key for key in node.keys if key.variable is None]
        if bare:
            if len(node.keys) > 1:
                self.mistakes.note(
                    "PARTITION BY inside a formula takes one attribute, or x[a] for each variable",
                    bare[0].span,
                    suggestion="name the variable that the attribute belongs to",
                )
            return
        missing = list(dict.fromkeys(e.type for e in find_uncovered(node.body, variables)))
        if missing:
            names = ", ".join(f"'{name}'" for name in missing)
            self.mistakes.note(
                f"PARTITION BY does not cover {names}",
                node.keys[0].span if node.keys else node.span,
                suggestion=f"add {write_name(missing[0])}[…]",
            )
        classes = [(key, class_of(kind)) for key, kind in kinds if class_of(kind) is not None]
        for (first, one), (second, other) in pairwise(classes):
            if one != other:
                left, right = _write_key(first), _write_key(second)
                message = f"type clash: {left} is a {one}, {right} is a {other}"
                self.mistakes.note(message, second.span)

    def check_guard(
        self, guard: cel.Formula, outside: VariableScope, outer_single: frozenset[str]
    ) -> None:
        """Check a formula whose outermost FILTER may mention variables of what it guards."""
        filters: list[cel.Filter] = []
        body = guard
        while isinstance(body, cel.Filter):
            filters.append(body)
            body = body.body
        scope = self.check_formula(body)
        names = scope.variables
        both = VariableScope({**outside.variables, **names}, scope.sorts)
        single = single_variables(body) | (outer_single - names.keys())
        for node in reversed(filters):
            self.check_condition(node.condition, both, single)
            for leaf in leaves(node.condition):
                self.check_foreign(leaf, frozenset(names))

    def check_foreign(self, leaf: Leaf, names: frozenset[str]) -> None:
        """Note what has no meaning in a condition on a guard's events and those of the match."""
        if mentioned_variables(leaf) <= names:
            return
        match leaf:
            case Compare(adjacent=True, left=left):
                self.note_two_formulas(left, leaf.span)
            case CompareNeighbours(references=references):
                earlier = next(each for each in references if each.previous)
                self.note_two_formulas(earlier, leaf.span)
            case CompareTerms(left=one, right=other):
                for part in (*walk_term(one), *walk_term(other)):
                    if part == Aggregate("COUNT") or isinstance(part, IntervalTime):
                        self.mistakes.note(
                            f"{write_term(part)} beside variables of two formulas has no meaning",
                            part.span,
                            expected="values of variables",
                        )

    def note_two_formulas(self, earlier: Reference, span: Span | None) -> None:
        self.mistakes.note(
            f"{write_previous(earlier)} is the event before in one formula, not in two",
            span,
            suggestion=f"compare {write_reference(replace(earlier, previous=False))}",
        )

    # ---------------------------------------------------------------- conditions

    def check_condition(
        self, node: Condition, scope: VariableScope, single: frozenset[str]
    ) -> None:
        """Check a condition; `single` are the variables that hold exactly one event."""
        match node:
            case Holds(variable=variable, predicate=predicate):
                known = self.check_variable(variable, scope, "FILTER", node.span)
                self.check_predicate(predicate, known)
            case (CompareNeighbours() as pair) | Compare(origin=CompareNeighbours() as pair):
                self.check_neighbours(pair, scope)
            case Compare(origin=CompareTerms() as whole):
                self.check_condition(whole, scope, single)
            case Compare(left=left, right=right, adjacent=adjacent):
                earlier = write_previous(left) if adjacent else write_reference(left)
                self.check_classes(
                    (earlier, self.check_reference(left, scope)),
                    (write_reference(right), self.check_reference(right, scope)),
                    node.span,
                )
            case CompareTerms(left=one, right=other):
                self.check_terms_compare(
                    (one, self.check_term(one, scope, single, "FILTER")),
                    (other, self.check_term(other, scope, single, "FILTER")),
                    node.span,
                )
            case Monotone(variable=variable, attribute=attribute):
                self.check_attribute(
                    attribute, self.check_variable(variable, scope, "FILTER", node.span)
                )
            case Denied(body=body):
                self.check_condition(body, scope, single)
            case AllOf(parts=parts) | AnyOf(parts=parts):
                if len(parts) < 2:
                    self.mistakes.note("AND and OR need at least two conditions", node.span)
                for part in parts:
                    self.check_condition(part, scope, single)

    def check_neighbours(self, node: CompareNeighbours, scope: VariableScope) -> None:
        """Check a comparison of an event with the event before, with arithmetic."""
        parts = (*walk_term(node.left), *walk_term(node.right))
        for part in parts:
            if isinstance(part, Aggregate | IntervalTime):
                self.mistakes.note(
                    f"{write_term(part)} is of the whole match; PREV compares two events",
                    part.span or node.span,
                    expected="values of the two events, constants and durations",
                    suggestion="join two conditions by AND",
                )
                return
        earlier, later = (
            {part.variable for part in node.references if part.previous is previous}
            for previous in (True, False)
        )
        if not later:
            first, *_, last = (*node.references, *node.references)
            own = write_reference(replace(last, previous=False))
            self.mistakes.note(
                "PREV compares an event with the one before it",
                node.span,
                expected="the event itself beside it, without PREV",
                suggestion=f"write {write_reference(first)} {node.op} {own}, for example",
            )
        elif len(earlier) > 1 or len(later) > 1:
            several = earlier if len(earlier) > 1 else later
            names = " and ".join(f"'{name}'" for name in sorted(several))
            self.mistakes.note(
                f"PREV compares two events, and {names} are different ones",
                node.span,
                expected="one variable in PREV and one without",
                suggestion="name the parts of the formula by one AS, or join conditions by AND",
            )
        every = frozenset(scope.variables)
        self.check_terms_compare(
            (node.left, self.check_term(node.left, scope, every, "FILTER", previous=True)),
            (node.right, self.check_term(node.right, scope, every, "FILTER", previous=True)),
            node.span,
        )

    def check_reference(self, node: Reference, scope: VariableScope) -> Kind | None:
        known = self.check_variable(node.variable, scope, "FILTER", node.span)
        return self.check_attribute(node.attribute, known)


def _write_key(node: cel.KeyPart) -> str:
    text = write_value(node.attribute)
    return text if node.variable is None else f"{write_name(node.variable)}[{text}]"


def is_decimal(number: Fraction) -> bool:
    """Whether a number has a finite decimal expansion."""
    rest = number.denominator
    for factor in (2, 5):
        while rest % factor == 0:
            rest //= factor
    return rest == 1
