"""Move functions out of conditions on two steps, into BIND of the pattern that has their variables.

A condition on two steps is decided inside of a kernel, which calls functions of one term alone.
EXISTS, and functions of several variables or of computed values, need columns
(`solving.columns`), which only graph patterns have. If one pattern binds all variables of such a
part, the part becomes a variable of that pattern: `FILTER (CONCAT(?x, ?y) = ?before)` is
`BIND (CONCAT(?x, ?y) AS ?fn0)` and `FILTER (?fn0 = ?before)`. An error leaves the variable unbound,
which is an error in the condition.

EXISTS with variables of other steps becomes the set of values that they may have. `EXISTS { ?x :p
?a }` with `?a` of an earlier step is a variable for all values of `?a` in its own event, and the
condition asks whether the earlier one is among them.

A pattern that stands in several steps is left alone: its variables would be those of all of them.
Functions whose variables are of two patterns stay where they are (`solving.answers`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from cernis.pattern import graph as g
from cernis.pattern.spaseq import SelectedVariable, SpaseqQuery, find_gpm_names
from cernis.rdf.solving.columns import find_hard, replace_parts
from cernis.rdf.solving.functions import AMONG


def hoist_functions(query: SpaseqQuery) -> SpaseqQuery:
    """Return a query with the same matches, whose conditions on two steps ask for variables."""
    uses = Counter(leaf.gpm for step in query.steps for leaf in find_gpm_names(step.element))
    split = {gpm.name: g.split_filters(gpm.pattern) for gpm in query.gpms}
    bound = {name: set(g.find_variables(pattern)) for name, (pattern, _) in split.items()}
    taken = set().union(*bound.values())
    fresh = (name for number in count() if (name := f"fn{number}") not in taken)
    values: dict[str, list[tuple[g.GraphVariable, g.Expression]]] = {}
    late: dict[str, list[g.Expression]] = {}
    for own, (_, conditions) in split.items():
        for condition in conditions:
            moved: dict[int, g.Expression] = {}
            for part in _find_parts(condition):
                home = _find_home(part, own, bound, uses)
                if home is not None:
                    variable = g.GraphVariable(next(fresh))
                    moved[id(part)] = variable
                    if isinstance(part, g.ExistsExpression) and part.shared:
                        moved[id(part)] = g.CallExpression(AMONG, (variable, *part.shared))
                    values.setdefault(home, []).append((variable, part))
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
