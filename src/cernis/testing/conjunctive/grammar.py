"""Random conjunctive queries with streams on which they often match.

The same two drivers as `cernis.testing.grammar`: everything random comes from a chooser
for which 0 is the simplest answer. A query is a text: by position (with declarations) or
by name, with self joins, constants, variables that stand twice, comparisons, timestamps
and windows. `JoinFeatures` switches what it may contain; `hierarchical` keeps to joins whose
variables form a tree, `chain` to atoms in one order of time, with heads that drop variables.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from cernis.testing.grammar import Chooser, Events

T = TypeVar("T")
JoinCase = tuple[str, Events]

RELATIONS = {"T": "a", "S": "ab", "R": "ab", "U": "abg"}
"""The relations and their attributes, in order."""

DECLARATION = (
    "CREATE STREAM J { "
    + ", ".join(
        f"EVENT {name} {{ {', '.join(f'{a}:int' for a in attributes)} }}"
        for name, attributes in RELATIONS.items()
    )
    + " }"
)
VALUES = (1, 2, 1, 1, 2, 1, 1, 2, 3, 1, 2, None)
_OPERATORS = ("<", "!=", "<=", "=", ">", ">=")


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinFeatures:
    """What a random conjunctive query may contain."""

    atoms: int = 4
    events: int = 8
    variables: str = "xyzuv"
    hierarchical: bool = False
    chain: bool = False
    constants: bool = True
    comparisons: bool = True
    between: bool = True
    """Comparisons of variables that no atom has together."""
    timestamps: bool = True
    windows: bool = True
    projections: bool = True


def make_join(choose: Chooser, features: JoinFeatures | None = None) -> JoinCase:
    """Make a text and a stream for it.

    >>> make_join(random.Random(1).randrange) == make_join(random.Random(1).randrange)
    True
    """
    switched = features or JoinFeatures()
    timed = switched.timestamps and choose(2) == 1
    text = (_write_chain if switched.chain else _write_query)(choose, switched, timed)
    body = text.rpartition("<-")[2]
    used = [name for name in RELATIONS for _ in range(body.count(f"{name}("))]
    return text, _make_events(choose, switched, timed, used)


def _pick(choose: Chooser, items: Sequence[T]) -> T:
    return items[choose(len(items))]


def _happens(choose: Chooser, one_in: int) -> bool:
    return choose(one_in) == one_in - 1


# ----------------------------------------------------------------- queries


def _write_query(choose: Chooser, features: JoinFeatures, timed: bool) -> str:
    number = 1 + choose(features.atoms)
    paths = _make_tree(choose, features) if features.hierarchical else None
    positional = choose(2) == 1
    clock = features.timestamps and choose(3) > 0
    atoms: list[str] = []
    own: list[list[str]] = []
    times: list[str] = []
    for index in range(number):
        relation, terms = _choose_arguments(choose, features, paths)
        own.append([term for term in dict.fromkeys(terms) if term[0] in features.variables])
        atom = _write_atom(choose, relation, terms, positional)
        if clock and not _happens(choose, 6):
            again = bool(times) and _happens(choose, 10)
            times.append(_pick(choose, times) if again else f"t{index}")
            atom += f"@{times[-1]}"
        atoms.append(atom)
    body = atoms + _write_comparisons(choose, features, own) + _write_ordering(choose, times, timed)
    names = list(dict.fromkeys([name for names in own for name in names] + times))
    if features.projections and _happens(choose, 4):
        names = [name for name in names if choose(2) == 0]
    text = f"Q({', '.join(names)}) <- {', '.join(body)}"
    if features.windows and _happens(choose, 3):
        text += f" WITHIN {1 + choose(5)} {'MILLISECONDS' if timed and choose(2) else 'EVENTS'}"
    return f"{DECLARATION}\n{text}" if positional else text


def _write_chain(choose: Chooser, features: JoinFeatures, timed: bool) -> str:
    """Write atoms one after the other in time, most with a variable of the one before."""
    number = 2 + choose(max(1, features.atoms - 1))
    names, atoms, last = list[str](), list[str](), ""
    for index in range(number):
        relation = _pick(choose, tuple(RELATIONS))
        terms = [_choose_term(choose, features) for _ in RELATIONS[relation]]
        if last and not _happens(choose, 4):
            terms[choose(len(terms))] = last
        names += [term for term in terms if term in features.variables]
        last = _pick(choose, names) if names else ""
        atoms.append(f"{_write_atom(choose, relation, terms, positional=False)}@t{index}")
    times = [f"t{index}" for index in range(number)]
    body = [*atoms, " < ".join(times)]
    if features.comparisons and names and _happens(choose, 6):
        body.append(f"{_pick(choose, names)} {_pick(choose, _OPERATORS)} {_pick(choose, names)}")
    if features.windows and choose(3):
        limit = f"{1 + choose(6)}{' MILLISECONDS' if timed and choose(2) else ''}"
        body.append(f"{times[-1]} - {times[0]} {_pick(choose, ('<', '<='))} {limit}")
    head = [name for name in dict.fromkeys([*names, *times]) if not _happens(choose, 3)]
    few = head if choose(2) else [name for name in head if name in (times[-1], last)]
    text = f"Q({', '.join(few)}) <- {', '.join(body)}"
    return text + (" WITHIN 4 EVENTS" if features.windows and _happens(choose, 8) else "")


def _make_tree(choose: Chooser, features: JoinFeatures) -> list[list[str]]:
    """Return the paths of a random forest of variables, from a root to each; and an empty one."""
    paths: list[list[str]] = [[]]
    for name in features.variables:
        above = [path for path in paths if len(path) < 3]
        paths.append([*_pick(choose, above), name])
    return paths


def _choose_arguments(
    choose: Chooser, features: JoinFeatures, paths: list[list[str]] | None
) -> tuple[str, list[str]]:
    """Choose a relation and a term for each of its attributes."""
    if paths is None:
        relation = _pick(choose, tuple(RELATIONS))
        terms = [_choose_term(choose, features) for _ in RELATIONS[relation]]
        return relation, terms
    path = paths[-1 - choose(len(paths))]
    wide = [name for name, attributes in RELATIONS.items() if len(attributes) >= len(path)]
    relation = _pick(choose, wide)
    spare = len(RELATIONS[relation]) - len(path)
    terms = path + [_choose_filler(choose, features, path) for _ in range(spare)]
    if _happens(choose, 3):
        terms = terms[::-1]
    return relation, terms


def _choose_term(choose: Chooser, features: JoinFeatures) -> str:
    if features.constants and _happens(choose, 8):
        return str(1 + choose(2))
    return "_" if _happens(choose, 10) else _pick(choose, features.variables[:3])


def _choose_filler(choose: Chooser, features: JoinFeatures, path: list[str]) -> str:
    """Choose a term to stand beside the variables of a path."""
    kind = choose(6)
    if kind == 1 and path:
        return _pick(choose, path)
    if kind == 2 and features.constants:
        return str(1 + choose(2))
    return "_"


def _write_atom(choose: Chooser, relation: str, terms: list[str], positional: bool) -> str:
    if positional:
        return f"{relation}({', '.join(terms)})"
    named = [
        f"{attribute}: {term}"
        for attribute, term in zip(RELATIONS[relation], terms, strict=True)
        if term != "_"
    ]
    return f"{relation}({', '.join(named[::-1] if _happens(choose, 4) else named)})"


def _write_comparisons(choose: Chooser, features: JoinFeatures, own: list[list[str]]) -> list[str]:
    names = list(dict.fromkeys(name for each in own for name in each))
    found: list[str] = []
    if not features.comparisons or not names:
        return found
    if _happens(choose, 4):
        found.append(f"{_pick(choose, names)} {_pick(choose, _OPERATORS)} {1 + choose(3)}")
    if _happens(choose, 5):
        together = names if features.between else _pick(choose, own)
        if together:
            one, other = _pick(choose, together), _pick(choose, together)
            found.append(f"{one} {_pick(choose, _OPERATORS)} {other}")
    return found


def _write_ordering(choose: Chooser, times: list[str], timed: bool) -> list[str]:
    """Write comparisons of the timestamps."""
    names = list(dict.fromkeys(times))
    if len(names) < 2:
        return []
    found: list[str] = []
    if choose(3) < 2:
        order = names[::-1] if choose(2) else names
        found.append(" < ".join(order[: 2 + choose(len(order) - 1)]))
    if choose(2):
        limit = f"{1 + choose(4)}{' MILLISECONDS' if timed and choose(2) else ''}"
        found.append(f"{names[-1]} - {names[0]} {_pick(choose, ('<', '<=', '>', '='))} {limit}")
    return found


# ----------------------------------------------------------------- streams


def _make_events(choose: Chooser, features: JoinFeatures, timed: bool, used: list[str]) -> Events:
    """Make events, mostly such that some atom can take them."""
    events: Events = []
    now = 0
    for _ in range(max(choose(features.events + 1), choose(features.events + 1))):
        relation = _pick(choose, tuple(RELATIONS) if _happens(choose, 8) else used)
        event = {"type": relation} | {
            name: value
            for name in RELATIONS[relation]
            if (value := _pick(choose, VALUES)) is not None
        }
        if timed:
            now += choose(3)
            event["ts"] = now
        events.append(event)
    return events


def make_seeded_join(seed: int, features: JoinFeatures | None = None) -> JoinCase:
    """Make a case without Hypothesis; a seed always gives the same case."""
    return make_join(random.Random(seed).randrange, features)
