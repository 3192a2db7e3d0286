"""Variables of a formula: which it binds, and which events they can hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cernis.pattern.check.kinds import Sort
from cernis.pattern.formula import As, Choice, Event, Filter, Formula, Not, Unless, children


@dataclass(frozen=True, slots=True)
class VariableScope:
    """The variables that a formula binds, each with the sorts of events that it can hold."""

    variables: Mapping[str, frozenset[Sort]]
    sorts: frozenset[Sort]


NO_VARIABLES = VariableScope({}, frozenset())


def unite_scopes(scopes: list[VariableScope]) -> VariableScope:
    if len(scopes) == 1:
        return scopes[0]
    variables: dict[str, frozenset[Sort]] = {}
    sorts: set[Sort] = set()
    for scope in scopes:
        sorts |= scope.sorts
        for name, its in scope.variables.items():
            known = variables.get(name)
            variables[name] = its if known is None or known is its else known | its
    return VariableScope(variables, frozenset(sorts))


def bind_variable(scope: VariableScope, variable: str) -> VariableScope:
    known = scope.variables.get(variable, frozenset())
    return VariableScope({**scope.variables, variable: known | scope.sorts}, scope.sorts)


def is_single_event(formula: Formula) -> bool:
    stack = [formula]
    while stack:
        node = stack.pop()
        match node:
            case Event():
                pass
            case As() | Filter() | Choice():
                stack.extend(children(node))
            case _:
                return False
    return True


def find_uncovered(body: Formula, variables: set[str]) -> Iterator[Event]:
    """Yield the events of a formula that none of the variables holds."""
    stack = [body]
    while stack:
        node = stack.pop()
        match node:
            case Event(type=kind):
                if kind not in variables:
                    yield node
            case As(variable=variable) if variable in variables:
                pass
            case Not():
                pass
            case Unless(body=inner):
                stack.append(inner)
            case _:
                stack.extend(reversed(children(node)))
