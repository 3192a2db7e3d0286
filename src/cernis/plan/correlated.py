"""Choose the automaton of a query that compares events with each other, and say why.

Tried in this order:

1. A join of single events by equalities alone (a conjunctive query, or `A ALL B ALL C`
   with equal attributes) that is hierarchical: the automaton of its q-tree.
2. The formula as an automaton that compares neighbours (`cernis.automata.correlated.correlate`).
   Where links decide every condition, matches come straight from it. Conditions between
   distant events are checked while matches are listed, as soon as both events are chosen
   (`apart`); the others are verified on whole candidates.
3. Neither: the caller takes the automaton of the formula without its comparisons, and checks
   every candidate.

An automaton that could write a match twice is determinized (Theorem 8 of the chain automata
paper) where it is a chain; otherwise its matches are listed and duplicates dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cernis.automata.correlated.ambiguity import is_ambiguous
from cernis.automata.correlated.between import How, Verdict
from cernis.automata.correlated.correlate import Correlation, Refusal, TimedParts, correlate
from cernis.automata.correlated.determinize import determinize_chain
from cernis.automata.correlated.guards import NO_SCOPES, Scopes, find_scopes
from cernis.automata.correlated.hierarchical import construct_join
from cernis.automata.correlated.pcea import EVERY_INDEX, PCEA, Apart, Unindexed
from cernis.automata.correlated.qtree import build_q_trees, draw_trees, find_conflict
from cernis.errors import BudgetError
from cernis.languages.conjunctive.query import ConjunctiveQuery
from cernis.pattern import formula as cel
from cernis.pattern.predicate import RANK
from cernis.pattern.query import Pattern, Strategy, Unit
from cernis.plan.apart import find_conditions_apart
from cernis.plan.joins import (
    EventJoin,
    explain_any_order,
    recognize_join,
    recognize_star,
)


@dataclass(frozen=True)
class Correlated:
    """The automaton of a query that compares events; `pcea` None: there is none."""

    pcea: PCEA | None
    exact: bool
    """The automaton accepts the formula's valuations and nothing else, but for `apart`."""
    unique: bool
    """No match is written twice."""
    verdicts: tuple[Verdict, ...] = ()
    apart: tuple[Apart, ...] = ()
    """Conditions that are checked while matches are listed."""
    broken: str = ""
    """Why a join is not hierarchical."""
    refused: str = ""
    """Why there is no automaton that compares neighbours."""
    tree: tuple[str, ...] = ()
    """The q-tree of a hierarchical join, line by line."""
    notes: tuple[str, ...] = field(default=())
    drawn: PCEA | None = None
    """The automaton to show in place of one that gathers across an event; it accepts more."""

    @property
    def undecided(self) -> int:
        """How many conditions the links do not decide."""
        return sum(verdict.how is How.CANDIDATE for verdict in self.verdicts)


def plan_correlated(
    pattern: Pattern,
    selected: frozenset[str],
    unindexed: Unindexed = EVERY_INDEX,
    conjunctive: ConjunctiveQuery | None = None,
    *,
    is_guard: bool = False,
) -> Correlated:
    """Return the automaton for a formula that compares events; `selected` variables are kept.

    `unindexed` says what is left to candidates. The pattern may itself be a guard.
    """
    join = recognize_join(pattern.formula)
    broken = ""
    if join is not None:
        clash = find_conflict(join.variables)
        if clash is None:
            try:
                pcea = construct_join(join.atoms)
            except BudgetError as error:
                broken = str(error)
            else:
                unique = join.is_unique_for(selected)
                tree = _draw_tree(join, conjunctive)
                return Correlated(pcea, True, unique, join.verdicts, tree=tree)
        else:
            broken = _explain_conflict(conjunctive) or clash.explain(join.texts)
    timed = find_timed_parts(pattern)
    scopes = NO_SCOPES if is_guard else find_guarded(pattern)
    has_middles = _has_position_starts(pattern) and not unindexed.far
    found = correlate(
        pattern.formula,
        unindexed=unindexed,
        timed=timed,
        scopes=scopes,
        gathers_middles=has_middles,
    )
    if isinstance(found, Refusal):
        return Correlated(None, False, False, broken=broken, refused=found.reason)
    apart: tuple[Apart, ...] = ()
    star = recognize_star(pattern.formula, unindexed)
    if not found.exact and star is not None and has_middles and conjunctive is None:
        unique = all(names & selected for names in star.own)
        return Correlated(star.pcea, True, unique, star.verdicts, drawn=found.pcea)
    if not found.exact:
        found = replace(found, verdicts=explain_any_order(pattern.formula, found.verdicts))
        crossed = _compare_across(pattern, selected, unindexed, scopes, broken)
        if crossed is not None:
            return crossed
        apart, complete = find_conditions_apart(pattern.formula, found.verdicts, unindexed)
        if complete:
            return replace(_make_unique(found, selected, broken), apart=apart)
        named = correlate(
            pattern.formula,
            name_atoms=True,
            unindexed=unindexed,
            timed=timed,
            scopes=scopes,
            gathers_middles=has_middles,
        )
        if isinstance(named, Refusal):
            return Correlated(None, False, False, broken=broken, refused=named.reason)
        return Correlated(
            named.pcea,
            False,
            False,
            found.verdicts,
            broken=broken,
            apart=apart,
            drawn=named.drawn,
        )
    return _make_unique(found, selected, broken)


def _compare_across(
    pattern: Pattern,
    selected: frozenset[str],
    unindexed: Unindexed,
    scopes: Scopes,
    broken: str,
) -> Correlated | None:
    """Return the automaton that compares equal values across an event; None: there is none."""
    if not _has_position_starts(pattern):
        return None
    found = correlate(pattern.formula, unindexed=unindexed, scopes=scopes, gathers_across=True)
    if isinstance(found, Refusal) or found.drawn is None or is_ambiguous(found.drawn, selected):
        return None
    return Correlated(found.pcea, True, True, found.verdicts, broken=broken, drawn=found.drawn)


def _has_position_starts(pattern: Pattern) -> bool:
    """Whether starts may count positions: the start of a middle is one."""
    return pattern.within is None or pattern.within.unit is not Unit.ATTRIBUTE


def find_timed_parts(pattern: Pattern) -> TimedParts:
    """Return which WITHIN inside the formula links decide: those that count as the window does."""
    own = pattern.within
    if own is not None:
        unit = None if own.attribute is not None else own.unit
        return TimedParts(unit, in_window=True)
    parts = [node for node in cel.walk(pattern.formula) if isinstance(node, cel.Within)]
    counts_events = parts and all(part.window.unit is Unit.EVENTS for part in parts)
    return TimedParts(Unit.EVENTS if counts_events else Unit.TIME)


def find_guarded(pattern: Pattern) -> Scopes:
    """Return which UNLESS an index may decide: starts must count positions, latest first."""
    own = pattern.within
    in_attribute = own is not None and own.attribute not in (None, RANK)
    if pattern.strategy is Strategy.LONGEST or in_attribute:
        return NO_SCOPES
    shared = (names[0] for names in pattern.partition if len(names) == 1)
    return find_scopes(pattern.formula, shared)


def _explain_conflict(query: ConjunctiveQuery | None) -> str:
    """Return why the query is not hierarchical, in its own names."""
    if query is None:
        return ""
    clash = find_conflict([tuple(columns) for columns in query.columns])
    return "" if clash is None else clash.explain([atom.short for atom in query.atoms])


def _draw_tree(join: EventJoin, query: ConjunctiveQuery | None) -> tuple[str, ...]:
    """Return the q-tree, drawn in the names of the query."""
    variables, texts = join.variables, join.texts
    if query is not None:
        variables = tuple(tuple(columns) for columns in query.columns)
        texts = tuple(atom.short for atom in query.atoms)
        if find_conflict(variables) is not None:  # x = y in the body joins what the names do not
            variables, texts = join.variables, join.texts
    return tuple(draw_trees(build_q_trees(variables), texts).splitlines())


def _make_unique(found: Correlation, selected: frozenset[str], broken: str) -> Correlated:
    """Return the automaton with one run for each match, if there is one."""
    pcea = found.pcea
    if not is_ambiguous(found.drawn or pcea, selected):
        return Correlated(pcea, True, True, found.verdicts, broken=broken, drawn=found.drawn)
    if pcea.is_chain:
        determined = determinize_chain(pcea)
        if determined is not None and not is_ambiguous(determined, selected):
            note = "determinized: two ways to read the formula wrote the same match"
            return Correlated(determined, True, True, found.verdicts, broken=broken, notes=(note,))
    note = "the same match may be found in several ways: duplicates are dropped one by one"
    return Correlated(
        pcea, True, False, found.verdicts, broken=broken, notes=(note,), drawn=found.drawn
    )
