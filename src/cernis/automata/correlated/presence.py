"""Find the variables of a formula that can be empty, and split it into cases where none can.

Equalities are transitive over variables that are never empty. Where one may be, the open
choices on which that depends (OR, `?`, `{0,n}`, none of them inside an iteration) are
decided one way and the other: a *decision* is which way, by the path of the node.

Cost contract: sets of variables, at most 2^`MOST_NAMES` for a node; at most `MOST_CASES`
cases; beyond that, no split.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cernis.pattern import formula as cel

MOST_CASES = 64
MOST_NAMES = 8

Path = tuple[int, ...]
Decisions = Mapping[Path, int]
Presence = frozenset[frozenset[str] | None]
"""Which variables can be non-empty together; None is the empty valuation."""


def split_cases(
    body: cel.Formula, path: Path, names: frozenset[str], decided: Decisions
) -> list[dict[Path, int]]:
    """Return decisions under which each variable is always there or never, where possible."""
    if not names or len(names) > MOST_NAMES:
        return [{}]
    done: list[dict[Path, int]] = []
    open_: list[dict[Path, int]] = [{}]
    while open_:
        case = open_.pop()
        fork = _find_choice(body, path, names, {**decided, **case})
        if fork is None:
            done.append(case)
        else:
            at, ways = fork
            open_ += [{**case, at: way} for way in reversed(range(ways))]
        if len(done) + len(open_) > MOST_CASES:
            return [{}]
    return done


def _find_choice(
    body: cel.Formula, path: Path, names: frozenset[str], decided: Decisions
) -> tuple[Path, int] | None:
    """Return the outermost open choice that decides which variables are there."""
    if len(find_possible(body, path, names, decided) - {None}) <= 1:
        return None
    stack = [(body, path)]
    while stack:
        node, here = stack.pop()
        ways_out = {found or frozenset() for found in find_possible(node, here, names, decided)}
        if len(ways_out) <= 1:
            continue
        ways = len(node.parts) if isinstance(node, cel.Choice) else 2
        optional = isinstance(node, cel.Iterate) and node.low == 0
        if (isinstance(node, cel.Choice | cel.Optional) or optional) and here not in decided:
            return here, ways
        if not isinstance(node, cel.Iterate):
            inside = (node.body,) if isinstance(node, cel.Unless) else cel.children(node)
            below = enumerate(inside)  # a guard's events are in no valuation
            stack += reversed([(child, (*here, i)) for i, child in below])
    return None


def find_always_present(
    body: cel.Formula, path: Path, names: Iterable[str], decided: Decisions
) -> frozenset[str]:
    """Return the variables that no valuation lacks, except the empty one."""
    nothing = frozenset[str]()
    return frozenset(
        name
        for name in names
        if nothing not in find_possible(body, path, frozenset({name}), decided)
    )


def find_possible(
    node: cel.Formula, path: Path, names: frozenset[str], decided: Decisions
) -> Presence:
    """Return the sets of these variables that valuations of the formula can have together."""
    match node:
        case cel.Event(type=name):
            return frozenset({names & {name}})
        case cel.Not():
            return frozenset({None})  # refused elsewhere
        case cel.As(body=body, variable=variable):
            inner = find_possible(body, (*path, 0), names, decided)
            return frozenset(
                found if found is None else found | (names & {variable}) for found in inner
            )
        case cel.Sequence(parts=parts) | cel.Contiguous(parts=parts) | cel.All(parts=parts):
            found: Presence = frozenset({None})
            for i, part in enumerate(parts):
                found = _unite(found, find_possible(part, (*path, i), names, decided))
            return found
        case cel.Choice(parts=parts):
            chosen = decided.get(path)
            return frozenset(
                found
                for i, part in enumerate(parts)
                if chosen in (None, i)
                for found in find_possible(part, (*path, i), names, decided)
            )
        case cel.Optional(body=body):
            inner = find_possible(body, (*path, 0), names, decided)
            return _leave_out(inner, decided.get(path), may_be=True)
        case cel.Iterate(body=body, low=low, high=high):
            inner = find_possible(body, (*path, 0), names, decided)
            rounds = inner
            for _ in range((high or low + 2 + len(names)) - 1):
                more = rounds | _unite(rounds, inner)
                if more == rounds:
                    break
                rounds = more
            return _leave_out(rounds, decided.get(path), may_be=low == 0)
        case cel.Filter() | cel.PartitionBy() | cel.Within() | cel.Unless():
            return find_possible(node.body, (*path, 0), names, decided)


def _unite(left: Presence, right: Presence) -> Presence:
    return frozenset(b if a is None else a if b is None else a | b for a in left for b in right)


def _leave_out(inner: Presence, decided: int | None, may_be: bool) -> Presence:
    if decided == 0:
        return frozenset({None})
    if decided is not None:
        return inner - {None}
    return inner | {None} if may_be else inner
