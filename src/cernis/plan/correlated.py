"""How a query that compares events with each other is run: the automaton, and why so.

Tried in this order:

1. A join of single events by equalities alone (a conjunctive query, or `A ALL B ALL C`
   with equal attributes) that is hierarchical: the automaton of its q-tree.
2. The formula as an automaton that compares neighbours (`cernis.automata.correlated.correlate`).
   Where that says all, matches come straight from it. Conditions between events that are
   not neighbours are checked while matches are listed, as soon as both events are chosen
   (`apart`); what is left then is verified on whole candidates.
3. Neither: the automaton of the formula without its comparisons, and every candidate
   is checked (the caller's business).

An automaton that could write a match twice is determinized (Theorem 8 of the chain automata
paper) where
it is a chain; otherwise its matches are listed and duplicates dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cernis.automata.correlated.ambiguity import is_ambiguous
from cernis.automata.correlated.between import Verdict
from cernis.automata.correlated.correlate import Correlation, Refusal, correlate
from cernis.automata.correlated.determinize import determinize_chain
from cernis.automata.correlated.hierarchical import construct_join
from cernis.automata.correlated.pcea import PCEA, Apart
from cernis.automata.correlated.qtree import build_q_trees, draw_trees, find_conflict
from cernis.errors import BudgetError
from cernis.pattern.conjunctive import ConjunctiveQuery
from cernis.pattern.query import Pattern
from cernis.plan.apart import conditions_apart
from cernis.plan.joins import JoinOfEvents, join_of_events


@dataclass(frozen=True)
class Correlated:
    """What was found; `pcea` None: no automaton compares anything."""

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


def correlated_plan(
    pattern: Pattern,
    selected: frozenset[str],
    unordered: frozenset[str] = frozenset(),
    conjunctive: ConjunctiveQuery | None = None,
) -> Correlated:
    """The automaton for a formula that compares events; `selected` variables are kept.

    `unordered` attributes hold text, whose order no index keeps.
    """
    join = join_of_events(pattern.formula)
    broken = ""
    if join is not None:
        clash = find_conflict(join.variables)
        if clash is None:
            try:
                pcea = construct_join(join.atoms)
            except BudgetError as error:
                broken = str(error)
            else:
                unique = join.told_apart_by(selected)
                tree = _tree(join, conjunctive)
                return Correlated(pcea, True, unique, join.verdicts, tree=tree)
        else:
            broken = _conflict(conjunctive) or clash.explain(join.texts)
    found = correlate(pattern.formula, unordered=unordered)
    if isinstance(found, Refusal):
        return Correlated(None, False, False, broken=broken, refused=found.reason)
    apart: tuple[Apart, ...] = ()
    if not found.exact:
        apart, complete = conditions_apart(pattern.formula, found.verdicts, unordered)
        if complete:
            return replace(_told_apart(found, selected, broken), apart=apart)
        named = correlate(pattern.formula, name_atoms=True, unordered=unordered)
        if isinstance(named, Refusal):
            return Correlated(None, False, False, broken=broken, refused=named.reason)
        return Correlated(named.pcea, False, False, found.verdicts, broken=broken, apart=apart)
    return _told_apart(found, selected, broken)


def _conflict(query: ConjunctiveQuery | None) -> str:
    """What breaks the hierarchy, in the names of a conjunctive query."""
    if query is None:
        return ""
    clash = find_conflict([tuple(columns) for columns in query.columns])
    return "" if clash is None else clash.explain([atom.short for atom in query.atoms])


def _tree(join: JoinOfEvents, query: ConjunctiveQuery | None) -> tuple[str, ...]:
    """The q-tree, drawn in the names of the query."""
    variables, texts = join.variables, join.texts
    if query is not None:
        variables = tuple(tuple(columns) for columns in query.columns)
        texts = tuple(atom.short for atom in query.atoms)
        if find_conflict(variables) is not None:  # x = y in the body joins what the names do not
            variables, texts = join.variables, join.texts
    return tuple(draw_trees(build_q_trees(variables), texts).splitlines())


def _told_apart(found: Correlation, selected: frozenset[str], broken: str) -> Correlated:
    """The automaton with one run for each match, where there is such a one."""
    pcea = found.pcea
    if not is_ambiguous(pcea, selected):
        return Correlated(pcea, True, True, found.verdicts, broken=broken)
    if pcea.is_chain:
        determined = determinize_chain(pcea)
        if determined is not None and not is_ambiguous(determined, selected):
            note = "determinized: two ways to read the formula wrote the same match"
            return Correlated(determined, True, True, found.verdicts, broken=broken, notes=(note,))
    note = "the same match may be found in several ways: duplicates are dropped one by one"
    return Correlated(pcea, True, False, found.verdicts, broken=broken, notes=(note,))
