"""Move functions out of conditions on two steps, into BIND of the pattern that has their variables.

A condition on two steps is decided inside of a kernel, which calls functions of one term alone.
EXISTS, and functions of several variables or of computed values, need columns
(`solving.columns`), which only graph patterns have. If one pattern binds all variables of such a
part, the part becomes a variable of that pattern: `FILTER (CONCAT(?x, ?y) = ?before)` is
`BIND (CONCAT(?x, ?y) AS ?fn0)` and `FILTER (?fn0 = ?before)`. An error leaves the variable unbound,
which is an error in the condition.

EXISTS with variables of other steps becomes the set of values that they may have. `EXISTS { ?x :p
?a }` with `?a` of an earlier step is a variable for all values of `?a` in its own event, and the
condition asks whether the earlier one is among them. `EXISTS { ?x :p ?y FILTER (?y < ?a) }` becomes
all values of `?y`, and the condition asks whether one of them is below the earlier `?a`.

A pattern that stands in several steps is left alone: its variables would be those of all of them.
Functions whose variables are of two patterns stay where they are (`solving.answers`), and so do
those with a variable that the pattern may leave unbound and another step binds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from cernis.languages.spaseq.graphs import graph as g
from cernis.languages.spaseq.query import SelectedVariable, SpaseqQuery, find_gpm_names
from cernis.rdf.solving.columns import find_hard, replace_parts

_NOTHING = "_:nothing"
"""The column of a set whose solutions only have to be."""


def hoist_functions(query: SpaseqQuery) -> SpaseqQuery:
    """Return a query with the same matches, whose conditions on two steps ask for variables."""
    uses = Counter(leaf.gpm for step in query.steps for leaf in find_gpm_names(step.element))
    split = {gpm.name: g.split_filters(gpm.pattern) for gpm in query.gpms}
    bound = {name: set(g.find_variables(pattern)) for name, (pattern, _) in split.items()}
    sure = {name: g.find_certain_variables(pattern) for name, (pattern, _) in split.items()}
    taken = set().union(*bound.values())
    fresh = (name for number in count() if (name := f"fn{number}") not in taken)
    values: dict[str, list[tuple[g.GraphVariable, g.Expression]]] = {}
    late: dict[str, list[g.Expression]] = {}
    for own, (_, conditions) in split.items():
        for condition in conditions:
            moved: dict[int, g.Expression] = {}
            for part in _find_parts(condition):
                home = _find_home(part, own, bound, uses)
                if home is not None and _may_come_later(part, home, bound, sure[home]):
                    home = None
                if home is not None:
                    variable = g.GraphVariable(next(fresh))
                    value: g.Expression = part
                    asked: g.Expression = variable
                    if isinstance(part, g.ExistsExpression) and (part.shared or part.asked):
                        others = set[str]().union(*(bound[one] for one in bound if one != own))
                        value, asked = _gather(part, variable, split[own][0], others)
                    moved[id(part)] = asked
                    values.setdefault(home, []).append((variable, value))
            late.setdefault(own, []).append(replace_parts(condition, moved))
    if not values:
        return query
    gpms = []
    for gpm in query.gpms:
        pattern = split[gpm.name][0]
        for variable, expression in values.get(gpm.name, ()):
            pattern = g.BindPattern(pattern, variable, expression)
        if conditions_left := late.get(gpm.name):
            pattern = g.FilterPattern(pattern, g.AndExpression(tuple(conditions_left)))
        gpms.append(replace(gpm, pattern=pattern))
    return replace(_name_selected(query), gpms=tuple(gpms))


def _find_parts(condition: g.Expression) -> Iterator[g.Expression]:
    """Yield the outermost parts of a condition that need columns."""
    hard = list(find_hard(condition))
    yield from hard
    inside = {id(one) for part in hard for one in g.find_exists(part)}
    yield from (one for one in g.find_exists(condition) if id(one) not in inside)


def _gather(
    exists: g.ExistsExpression, variable: g.GraphVariable, around: g.GraphPattern, others: set[str]
) -> tuple[g.ExistsExpression, g.Expression]:
    """Return EXISTS as the set of its solutions, and the condition that asks this set.

    A solution of the set has the variables that other steps may bind, and those of the conditions
    that need values of other steps.
    """
    inside = set(g.find_variables(exists.pattern))
    sure = g.find_certain_variables(exists.pattern)
    mentions = g.find_mentions(exists.condition) if exists.condition is not None else []
    # a variable of the pattern around may be unbound there, and bound by another step
    loose = others.intersection(g.find_variables(around)) - g.find_certain_variables(around)
    shared = {one.name: one for one in exists.shared}
    shared |= {name: g.GraphVariable(name) for name in sorted(loose & inside)}
    asked = {one.name: one for one in exists.asked}
    asked |= {one.name: one for one in mentions if one.name in loose - inside}
    late_names = asked.keys() | (shared.keys() - sure)
    now: list[g.Expression] = []
    late: list[g.Expression] = []
    for part in g.split_and(exists.condition):
        is_late = any(one.name in late_names for one in g.find_mentions(part))
        (late if is_late else now).append(part)
    own = dict.fromkeys(one.name for part in late for one in g.find_mentions(part))
    names = (*shared, *(name for name in own if name not in shared.keys() | asked.keys()))
    columns = tuple(map(g.GraphVariable, names or (_NOTHING,)))
    gathered = replace(exists, condition=_join_and(now), shared=columns, asked=())
    arguments = variable, *shared.values(), *asked.values()
    return gathered, g.AmongCall("AMONG", arguments, None, names or (_NOTHING,), _join_and(late))


def _join_and(conditions: list[g.Expression]) -> g.Expression | None:
    return g.AndExpression(tuple(conditions)) if conditions else None


def _find_home(
    part: g.Expression, own: str, bound: dict[str, set[str]], uses: Counter[str]
) -> str | None:
    """Return the pattern that has all variables of a part; EXISTS asks the event of its own."""
    if isinstance(part, g.ExistsExpression):
        return own if uses[own] == 1 else None
    names = {variable.name for variable in g.find_mentions(part)}
    homes = [own] if names <= bound[own] else [name for name in bound if names & bound[name]]
    if len(homes) != 1 or uses[homes[0]] != 1 or not names <= bound[homes[0]]:
        return None
    return None if homes[0] != own and any(True for _ in g.find_exists(part)) else homes[0]


def _may_come_later(
    part: g.Expression, home: str, bound: dict[str, set[str]], sure: set[str]
) -> bool:
    """Whether a pattern may leave a variable of a part unbound that another one binds.

    EXISTS is asked with the values of other steps.
    """
    names = {variable.name for variable in g.find_mentions(part)} - sure
    others = set[str]().union(*(bound[one] for one in bound if one != home))
    return not isinstance(part, g.ExistsExpression) and not names.isdisjoint(others)


def _name_selected(query: SpaseqQuery) -> SpaseqQuery:
    """Return a query whose SELECT names the variables of `*`."""
    if query.select is not None or query.construct is not None:
        return query
    shown: dict[str, None] = {}
    for step in query.steps:
        for leaf in find_gpm_names(step.element):
            names = g.find_variables(query.gpm(leaf.gpm).pattern)
            shown |= dict.fromkeys(name for name in names if not name.startswith("_:"))
    positive = {
        name
        for step in query.steps
        if not step.negated
        for leaf in find_gpm_names(step.element)
        for name in g.find_variables(query.gpm(leaf.gpm).pattern)
    }
    selected = tuple(SelectedVariable(name, name) for name in shown if name in positive)
    return replace(query, select=selected)
