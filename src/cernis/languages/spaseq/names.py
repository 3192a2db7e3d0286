"""Resolve the names of a written query: streams, graph patterns and variables.

All mistakes are collected. A variable is bound by the steps that are not negated; the FILTER of
a graph pattern, and EXISTS there, may mention those of earlier steps and of the patterns of the
same `&`, a FILTER further inside only what its own graph pattern binds.

Where SEQ names graph patterns that do not exist, it is not known what a step binds: then
only variables that no graph pattern binds at all are mistakes.

Linear in the query, but for a graph pattern that stands in many branches of one step and
mentions many variables of its companions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from functools import cached_property
from typing import Any, NamedTuple

from cernis.errors import Diagnostic, Span
from cernis.languages.spaseq import query as q
from cernis.languages.spaseq.graphs import graph as g
from cernis.languages.spaseq.tree import WrittenGpm, WrittenSpaseqQuery
from cernis.languages.text.tokens import Name
from cernis.languages.text.words import list_words
from cernis.pattern.check import MAX_DEPTH
from cernis.pattern.mistakes import MistakeList

_LONGEST_LIST = 8


class _Companions(NamedTuple):
    """The variables that the parts of an `&` bind, and those that one part alone binds."""

    found: set[str]
    hidden: set[str]


def resolve(written: WrittenSpaseqQuery, mistakes: MistakeList, source: str) -> q.SpaseqQuery:
    """Return the query with its names resolved; note its mistakes."""
    names = _SpaseqNames(written, mistakes)
    names.check_streams()
    names.check_graph_patterns()
    names.check_sequence()
    names.check_filters()
    names.check_answer()
    names.check_partition()
    return q.SpaseqQuery(
        select=None if written.select is None else tuple(i.selected for i in written.select),
        streams=tuple((stream.name.text, stream.iri) for stream in written.streams),
        gpms=tuple(
            q.Gpm(
                gpm.name.text,
                tuple(s.text for s in gpm.streams),
                _share_variables(gpm, names.everywhere),
                gpm.name.span,
            )
            for gpm in written.gpms
        ),
        steps=written.steps,
        within=written.within,
        tumbling_from=written.tumbling_from,
        partition=tuple(variable.name for variable in written.partition),
        construct=written.construct,
        distinct=written.distinct,
        source=source,
    )


# ------------------------------------------------------------------------ depth


def find_too_deep(gpms: Iterable[WrittenGpm]) -> Diagnostic | None:
    """Return the mistake of a graph pattern that is nested too deeply; not recursive."""
    for gpm in gpms:
        stack: list[tuple[g.GraphPattern | g.Expression, int]] = [(gpm.pattern, 1)]
        while stack:
            node, depth = stack.pop()
            if depth > MAX_DEPTH:
                return Diagnostic(
                    f"graph pattern {gpm.name.text} is nested more than {MAX_DEPTH} deep",
                    gpm.name.span,
                )
            stack.extend((child, depth + 1) for child in g.list_children(node))
    return None


# ---------------------------------------------------------------------- filters


def _asks_exists(node: g.GraphPattern | g.Expression) -> bool:
    """Whether a pattern or an expression asks EXISTS."""
    return isinstance(node, g.ExistsExpression) or any(map(_asks_exists, g.list_children(node)))


class _Mention(NamedTuple):
    """A variable inside of a graph pattern, where only the graph pattern itself can bind it."""

    variable: g.GraphVariable
    word: str
    """What mentions it: a FILTER inside braces, BIND, MINUS or EXISTS."""
    own: frozenset[str]
    """The variables that MINUS or EXISTS binds for itself."""


def _find_nodes(node: g.GraphPattern | g.Expression) -> Iterator[g.GraphVariable]:
    """Yield the variables that a pattern may bind, where they stand; those of EXISTS as well."""
    match node:
        case g.BasicPattern(triples):
            nodes = (node for triple in triples for node in triple.nodes())
            yield from (node for node in nodes if isinstance(node, g.GraphVariable))
        case g.ValuesPattern(variables, _):
            yield from variables
        case g.ClosurePattern(subject, _, object_):
            ends = (subject, object_)
            yield from (end for end in ends if isinstance(end, g.GraphVariable))
        case g.BindPattern(_, variable, _):
            yield variable
        case g.UnfoldPattern(_, _, form):
            yield from (part for part in form.nodes() if isinstance(part, g.GraphVariable))
    for child in g.list_children(node):
        if isinstance(child, g.GraphPattern):
            yield from _find_nodes(child)


def _find_aside(node: g.GraphPattern | g.Expression) -> tuple[str, g.GraphPattern] | None:
    """Return the pattern of MINUS or EXISTS, whose variables are its own."""
    match node:
        case g.MinusPattern(_, removed):
            return "MINUS", removed
        case g.ExistsExpression(pattern, _):
            return "EXISTS", pattern
    return None


def _find_mentions(
    node: g.GraphPattern | g.Expression, own: frozenset[str] = frozenset()
) -> Iterator[_Mention]:
    """Yield what the filters, BIND, MINUS and EXISTS of a pattern mention."""
    aside = _find_aside(node)
    for child in g.list_children(node):
        word, known = "a FILTER inside braces", own
        if isinstance(node, g.BindPattern):
            word = "BIND"
        elif aside is not None and (aside[0] == "EXISTS" or child is aside[1]):
            word, known = aside[0], own.union(g.find_variables(aside[1]))
            if isinstance(child, g.GraphPattern):
                yield from (_Mention(variable, word, own) for variable in _find_nodes(child))
        if not isinstance(child, g.GraphPattern) and (
            isinstance(node, g.GraphPattern) or word == "EXISTS"
        ):
            yield from (_Mention(variable, word, known) for variable in g.find_mentions(child))
        yield from _find_mentions(child, known)


def _find_shared(exists: g.ExistsExpression, others: set[str]) -> list[g.GraphVariable]:
    """Return the variables that EXISTS may bind and that are among others, where they stand."""
    names = others.intersection(g.find_variables(exists.pattern))
    return [one for one in _find_nodes(exists.pattern) if one.name in names and not one.hidden]


def _find_asked(exists: g.ExistsExpression, others: set[str]) -> list[g.GraphVariable]:
    """Return the variables of the FILTER of EXISTS that are among others, and not its own."""
    if exists.condition is None:
        return []
    names = others.difference(g.find_variables(exists.pattern))
    return [one for one in g.find_mentions(exists.condition) if one.name in names]


def _share_variables(gpm: WrittenGpm, everywhere: set[str]) -> g.GraphPattern:
    """Return a graph pattern whose EXISTS know which of their variables other steps bind."""
    inside, condition = gpm.group
    if condition is None:
        return inside
    others = everywhere.difference(g.find_variables(inside))

    def share(part: Any) -> Any:
        if isinstance(part, tuple):
            return tuple(map(share, part))
        if isinstance(part, g.ExistsExpression):
            shared = {one.name: one for one in _find_shared(part, others)}
            asked = {one.name: one for one in _find_asked(part, others)}
            return replace(part, shared=tuple(shared.values()), asked=tuple(asked.values()))
        if isinstance(part, g.Expression) and not isinstance(part, g.GraphVariable | g.Term):
            return replace(
                part, **{one.name: share(getattr(part, one.name)) for one in fields(part)}
            )
        return part

    found = list(g.find_exists(condition))
    if any(_find_shared(exists, others) or _find_asked(exists, others) for exists in found):
        condition = share(condition)
    return g.FilterPattern(inside, condition)


class _SpaseqNames:
    def __init__(self, written: WrittenSpaseqQuery, mistakes: MistakeList) -> None:
        self.written = written
        self.mistakes = mistakes
        self.bound: dict[str, set[str]] = {}
        """The variables that each graph pattern may bind."""
        self.certain: dict[str, set[str]] = {}
        for gpm in written.gpms:
            found = {name for name in g.find_variables(gpm.pattern) if not name.startswith("_:")}
            self.bound.setdefault(gpm.name.text, set()).update(found)
            self.certain.setdefault(gpm.name.text, g.find_certain_variables(gpm.pattern))
        self.everywhere = {name for found in self.bound.values() for name in found}
        self.used: dict[str, Span | None] = {}
        """The graph patterns of SEQ, each with the span that names it first."""
        for step in written.steps:
            for leaf in q.find_gpm_names(step.element):
                self.used.setdefault(leaf.gpm, leaf.span)
        self.sure = bool(written.steps) and self.used.keys() <= self.bound.keys()
        """Whether it is known what each step binds."""
        self.positive = self._find_binders(step for step in written.steps if not step.negated)
        """For each variable, the first graph pattern of a step that binds it."""
        self.negative = self._find_binders(step for step in written.steps if step.negated)
        self.repeated = self._find_binders(
            step for step in written.steps if step.rounds is not None
        )
        self.unused: dict[str, str] = {}
        for gpm_name, found in self.bound.items():
            if gpm_name not in self.used:
                for name in found:
                    self.unused.setdefault(name, gpm_name)

    def _find_binders(self, steps: Iterable[q.SequenceStep]) -> dict[str, str]:
        found: dict[str, str] = {}
        for gpm in dict.fromkeys(
            leaf.gpm for step in steps for leaf in q.find_gpm_names(step.element)
        ):
            for name in self.bound.get(gpm, ()):
                found.setdefault(name, gpm)
        return found

    @cached_property
    def all_names(self) -> list[str]:
        return [f"?{name}" for name in sorted(self.everywhere)]

    @cached_property
    def names_of_steps(self) -> list[str]:
        return [f"?{name}" for name in sorted(self.positive)]

    # -------------------------------------------------------- streams and patterns

    def _note_unknown(self, what: str, name: str, span: Span | None, known: Iterable[str]) -> None:
        if self.mistakes.full:
            return
        names = list(dict.fromkeys(known))
        shown = list_words(names) if 0 < len(names) <= _LONGEST_LIST else None
        self.mistakes.note(f"unknown {what} '{name}'", span, expected=shown, word=name, among=names)

    def _note_repeats(self, message: str, names: Iterable[Name]) -> None:
        seen: set[str] = set()
        for name in names:
            if name.text in seen:
                self.mistakes.note(message.format(name.text), name.span)
            seen.add(name.text)

    def check_streams(self) -> None:
        self._note_repeats("stream '{}' is declared twice", (s.name for s in self.written.streams))

    def check_graph_patterns(self) -> None:
        self._note_repeats(
            "graph pattern '{}' is defined twice", (gpm.name for gpm in self.written.gpms)
        )
        known = [stream.name.text for stream in self.written.streams]
        declared = set(known)
        for gpm in self.written.gpms:
            self._note_repeats("stream '{}' is named twice", gpm.streams)
            for stream in gpm.streams:
                if stream.text not in declared and known:
                    self._note_unknown("stream", stream.text, stream.span, known)

    # ------------------------------------------------------------------- sequences

    def check_sequence(self) -> None:
        steps = self.written.steps
        for name, span in self.used.items():
            if name not in self.bound:
                self._note_unknown("graph pattern", name, span, self.bound)
        for step in steps:
            if step.negated and (steps[0] is step or steps[-1] is step):
                self._note_edge(step, "before" if steps[0] is step else "after")
        if steps and all(step.optional or step.negated for step in steps):
            whole = None
            if steps[0].span is not None and steps[-1].span is not None:
                whole = steps[0].span.to(steps[-1].span)
            self.mistakes.note("at least one step must be neither optional nor negated", whole)

    def _note_edge(self, step: q.SequenceStep, side: str) -> None:
        self.mistakes.note(
            f"a negated step needs a step {side} it",
            step.span,
            suggestion="'!' says what does not happen between two steps: SEQ (A ; B! ; C)",
        )

    # --------------------------------------------------------------------- filters

    def check_filters(self) -> None:
        own: dict[str, dict[str, g.GraphVariable]] = {}
        for gpm in self.written.gpms:
            inside, condition = gpm.group
            bound = self.bound[gpm.name.text]
            found = () if condition is None else tuple(g.find_exists(condition))
            shared = [one for exists in found for one in _find_shared(exists, self.everywhere)]
            shared += [one for exists in found for one in _find_asked(exists, self.everywhere)]
            shared_ids = set(map(id, shared))
            for part in (inside,) if condition is None else (inside, condition):
                for variable, word, aside in _find_mentions(part):
                    known = variable.hidden or id(variable) in shared_ids
                    if not known and variable.name not in bound | aside:
                        self._note_inner(gpm, variable, word)
            needed = own.setdefault(gpm.name.text, {})
            for variable in () if condition is None else (*g.find_mentions(condition), *shared):
                if variable.name not in bound:
                    needed.setdefault(variable.name, variable)
        for name, needed in own.items():
            if name not in self.used or not self.sure:
                for variable in needed.values():
                    if variable.name not in self.everywhere:
                        self._note_unbound(variable)
        self._check_exists()
        if self.sure:
            self._check_order(own)

    def _check_exists(self) -> None:
        """Check that EXISTS beside other steps stands in a pattern of one step: it becomes a
        variable of that pattern, which all its steps would share."""
        uses = Counter(
            leaf.gpm for step in self.written.steps for leaf in q.find_gpm_names(step.element)
        )
        for gpm in self.written.gpms:
            name = gpm.name.text
            late = g.split_filters(_share_variables(gpm, self.everywhere))[1]
            for condition in late:
                for exists in g.find_exists(condition):
                    if exists.shared or exists.asked:
                        self._check_inner_exists(gpm, exists)
            if uses[name] <= 1:
                continue
            for condition in late:
                for exists in g.find_exists(condition):
                    of_others = exists.shared or exists.asked
                    why = "has variables of" if of_others else "beside a comparison with"
                    self.mistakes.note(
                        f"{name} stands in several steps, and its EXISTS {why} another step",
                        exists.span,
                        suggestion=f"define {name} once for each step, under other names",
                    )

    def _check_inner_exists(self, gpm: WrittenGpm, exists: g.ExistsExpression) -> None:
        """Check that no part of the FILTER of EXISTS asks EXISTS and another step at once."""
        sure = g.find_certain_variables(gpm.group[0]) | g.find_certain_variables(exists.pattern)
        for part in g.split_and(exists.condition):
            names = [variable.name for variable in g.find_mentions(part)]
            late = [name for name in names if name in self.everywhere and name not in sure]
            for inner in g.find_exists(part) if late else ():
                self.mistakes.note(
                    f"EXISTS beside ?{late[0]} of another step, inside of EXISTS",
                    inner.span,
                    suggestion="give each a FILTER of its own",
                )

    def _note_inner(self, gpm: WrittenGpm, variable: g.GraphVariable, word: str) -> None:
        if variable.name in self.everywhere:
            inside = "group" if "braces" in word else "graph pattern"
            self.mistakes.note(
                f"{gpm.name.text} does not bind ?{variable.name}, "
                f"and {word} sees its own {inside} alone",
                variable.span,
                suggestion=f"put the FILTER outside of the inner braces of {gpm.name.text}"
                if "braces" in word
                else "compare with other steps in a FILTER of the outermost group",
            )
        elif word not in ("MINUS", "EXISTS"):
            self._note_unbound(variable)

    def _note_unbound(self, variable: g.GraphVariable) -> None:
        self.mistakes.note(
            f"nothing binds ?{variable.name}",
            variable.span,
            word=f"?{variable.name}",
            among=self.all_names,
        )

    def _check_order(self, own: dict[str, dict[str, g.GraphVariable]]) -> None:
        """Check that the variables of each FILTER are bound when its step is matched."""
        before: set[str] = set()
        # a variable that is bound before one use of a graph pattern is bound before the later ones
        pending = {gpm: set(needed) for gpm, needed in own.items()}
        for number, step in enumerate(self.written.steps):
            for gpm, beside in self._find_companions(step.element, ()):
                pending[gpm] -= before
                missing = pending[gpm]
                for found, hidden in beside:
                    missing = (missing - found) | (missing & hidden)
                if missing:
                    pending[gpm] = pending[gpm] - missing
                    for name in filter(missing.__contains__, own[gpm]):
                        self._note_too_early(gpm, own[gpm][name], number)
            if not step.negated:
                for leaf in q.find_gpm_names(step.element):
                    before |= self.bound[leaf.gpm]

    def _find_companions(
        self, element: q.Element, beside: tuple[_Companions, ...]
    ) -> Iterator[tuple[str, tuple[_Companions, ...]]]:
        """Yield each graph pattern of an element with the variables bound at the same time."""
        if isinstance(element, q.GpmName):
            yield element.gpm, beside
            return
        if not isinstance(element, q.GpmConjunction):
            for part in element.parts:
                yield from self._find_companions(part, beside)
            return
        each = [self._find_bound(part) for part in element.parts]
        found: set[str] = set()
        shared: set[str] = set()
        for one in each:
            shared |= found & one
            found |= one
        for part, one in zip(element.parts, each, strict=True):
            yield from self._find_companions(part, (*beside, _Companions(found, one - shared)))

    def _find_bound(self, element: q.Element) -> set[str]:
        found: set[str] = set()
        for leaf in q.find_gpm_names(element):
            found |= self.bound[leaf.gpm]
        return found

    def _note_too_early(self, gpm: str, variable: g.GraphVariable, number: int) -> None:
        name = variable.name
        if self.mistakes.full:
            return
        if name not in self.everywhere:
            self._note_unbound(variable)
            return
        here = [leaf.gpm for leaf in q.find_gpm_names(self.written.steps[number].element)]
        branch = next((other for other in here if name in self.bound[other]), None)
        if branch is not None:
            why = f"only {branch} binds ?{name}, and {gpm} is in another branch of '|'"
        elif name in self.positive:
            why = f"{self.positive[name]} binds ?{name}, and comes after {gpm}"
        elif name in self.negative:
            why = f"only {self.negative[name]} binds ?{name}, and is negated: it has no event"
        else:
            why = f"only {self.unused[name]} binds ?{name}, and SEQ does not use it"
        later = branch is None and name in self.positive
        self.mistakes.note(
            why,
            variable.span,
            suggestion=f"put the FILTER into {self.positive[name]}" if later else None,
        )

    # ---------------------------------------------------------------------- answer

    def check_answer(self) -> None:
        for variable in g.find_template_variables(self.written.construct or ()):
            self._check_selected(variable)
        seen: set[str] = set()
        for selected, span in self.written.select or ():
            self._check_item(selected, span)
            if selected.name in seen:
                value = str(replace(selected, name=selected.name + "2"))
                self.mistakes.note(
                    f"two things are called ?{selected.name}",
                    span,
                    suggestion=f"give one of them another name: {value}",
                )
            seen.add(selected.name)

    def _check_item(self, selected: q.SelectedVariable | q.SelectedExpression, span: Span) -> None:
        if isinstance(selected, q.SelectedVariable):
            self._check_selected(g.GraphVariable(selected.variable, span))
            if selected.listed and selected.variable in self.positive and self.sure:
                self._check_listed(selected.variable, span)
            return
        for variable in g.find_mentions(selected.expression):
            self._check_selected(variable)
        if _asks_exists(selected.expression):
            self.mistakes.note("EXISTS asks an event, and SELECT has none", span)

    def _check_selected(self, variable: g.GraphVariable) -> None:
        name = variable.name
        if name in self.positive or (not self.sure and name in self.everywhere):
            return
        if name in self.negative:
            why = f"only {self.negative[name]} binds ?{name}, and is negated: it has no event"
            self.mistakes.note(why, variable.span)
        elif name in self.unused:
            why = f"only {self.unused[name]} binds ?{name}, and SEQ does not use it"
            self.mistakes.note(why, variable.span)
        else:
            known = self.names_of_steps if self.sure else self.all_names
            self.mistakes.note(
                f"no step binds ?{name}",
                variable.span,
                expected=list_words(known) if 0 < len(known) <= _LONGEST_LIST else None,
                word=f"?{name}",
                among=known,
            )

    def _check_listed(self, name: str, span: Span) -> None:
        if name not in self.repeated:
            self.mistakes.note(
                f"no step with '+' binds ?{name}, so that it has one value",
                span,
                suggestion=f"write ?{name}",
            )

    # ------------------------------------------------------------------- partition

    def check_partition(self) -> None:
        self._note_repeats(
            "?{} stands twice in PARTITION BY",
            (Name(v.name, v.span) for v in self.written.partition if v.span is not None),
        )
        for variable in self.written.partition:
            name = variable.name
            if name not in self.everywhere:
                self._check_selected(variable)
                continue
            if not self.sure:
                continue
            lacking = [gpm for gpm in self.used if name not in self.certain[gpm]]
            if lacking:
                self.mistakes.note(
                    f"{_join_names(lacking)} {'does' if len(lacking) == 1 else 'do'} "
                    f"not bind ?{name} for certain",
                    variable.span,
                    suggestion="a key is bound by every graph pattern of SEQ, outside of "
                    "OPTIONAL and in every branch of UNION",
                )


def _join_names(names: list[str]) -> str:
    """Return the first names as an English list.

    >>> _join_names(["A", "B", "C"])
    'A, B and C'
    """
    if len(names) > _LONGEST_LIST:
        return f"{', '.join(names[:_LONGEST_LIST])} and others"
    *head, last = names
    return f"{', '.join(head)} and {last}" if head else last
