"""Random conjunctive queries with streams on which they often match.

The same two drivers as `tools.cases.grammar`: everything random comes from a chooser
for which 0 is the simplest answer. A query is a text: by position (with declarations) or
by name, with self joins, constants, variables that stand twice, comparisons, timestamps
and windows. `JoinFeatures` switches what it may contain; `hierarchical` keeps to joins whose
variables form a tree, `chain` to atoms in one order of time, with heads that drop variables.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from tools.cases.grammar import Choices, Chooser, Events

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


def make_seeded_join(seed: int, features: JoinFeatures | None = None) -> JoinCase:
    """Make a case without Hypothesis; a seed always gives the same case.

    >>> make_seeded_join(1) == make_seeded_join(1)
    True
    """
    return JoinGrammar(random.Random(seed).randrange, features or JoinFeatures()).make_case()


class JoinGrammar(Choices):
    """Random conjunctive queries with some features, and streams for them."""

    def __init__(self, choose: Chooser, features: JoinFeatures) -> None:
        super().__init__(choose)
        self.features = features

    def make_case(self) -> JoinCase:
        """Make a text and a stream for it."""
        timed = self.features.timestamps and self.choose(2) == 1
        text = self._write_chain(timed) if self.features.chain else self._write_query(timed)
        body = text.rpartition("<-")[2]
        used = [name for name in RELATIONS for _ in range(body.count(f"{name}("))]
        return text, self._make_events(timed, used)

    # -------------------------------------------------------- queries

    def _write_query(self, timed: bool) -> str:
        number = 1 + self.choose(self.features.atoms)
        paths = self._make_tree() if self.features.hierarchical else None
        positional = self.choose(2) == 1
        clock = self.features.timestamps and self.choose(3) > 0
        atoms: list[str] = []
        own: list[list[str]] = []
        times: list[str] = []
        for index in range(number):
            relation, terms = self._choose_arguments(paths)
            own.append(
                [term for term in dict.fromkeys(terms) if term[0] in self.features.variables]
            )
            atom = self._write_atom(relation, terms, positional)
            if clock and not self.happens(6):
                again = bool(times) and self.happens(10)
                times.append(self.pick(times) if again else f"t{index}")
                atom += f"@{times[-1]}"
            atoms.append(atom)
        body = atoms + self._write_comparisons(own) + self._write_ordering(times, timed)
        names = list(dict.fromkeys([name for names in own for name in names] + times))
        if self.features.projections and self.happens(4):
            names = [name for name in names if self.choose(2) == 0]
        text = f"Q({', '.join(names)}) <- {', '.join(body)}"
        if self.features.windows and self.happens(3):
            size = 1 + self.choose(5)
            text += f" WITHIN {size} {'MILLISECONDS' if timed and self.choose(2) else 'EVENTS'}"
        return f"{DECLARATION}\n{text}" if positional else text

    def _write_chain(self, timed: bool) -> str:
        """Write atoms one after the other in time, most with a variable of the one before."""
        number = 2 + self.choose(max(1, self.features.atoms - 1))
        names, atoms, last = list[str](), list[str](), ""
        for index in range(number):
            relation = self.pick(tuple(RELATIONS))
            terms = [self._choose_term() for _ in RELATIONS[relation]]
            if last and not self.happens(4):
                terms[self.choose(len(terms))] = last
            names += [term for term in terms if term in self.features.variables]
            last = self.pick(names) if names else ""
            atoms.append(f"{self._write_atom(relation, terms, positional=False)}@t{index}")
        times = [f"t{index}" for index in range(number)]
        body = [*atoms, " < ".join(times)]
        if self.features.comparisons and names and self.happens(6):
            body.append(f"{self.pick(names)} {self.pick(_OPERATORS)} {self.pick(names)}")
        if self.features.windows and self.choose(3):
            limit = f"{1 + self.choose(6)}{' MILLISECONDS' if timed and self.choose(2) else ''}"
            body.append(f"{times[-1]} - {times[0]} {self.pick(('<', '<='))} {limit}")
        head = [name for name in dict.fromkeys([*names, *times]) if not self.happens(3)]
        few = head if self.choose(2) else [name for name in head if name in (times[-1], last)]
        text = f"Q({', '.join(few)}) <- {', '.join(body)}"
        return text + (" WITHIN 4 EVENTS" if self.features.windows and self.happens(8) else "")

    def _make_tree(self) -> list[list[str]]:
        """Return the path to each variable of a random forest, and an empty one."""
        paths: list[list[str]] = [[]]
        for name in self.features.variables:
            above = [path for path in paths if len(path) < 3]
            paths.append([*self.pick(above), name])
        return paths

    def _choose_arguments(self, paths: list[list[str]] | None) -> tuple[str, list[str]]:
        """Choose a relation and a term for each of its attributes."""
        if paths is None:
            relation = self.pick(tuple(RELATIONS))
            terms = [self._choose_term() for _ in RELATIONS[relation]]
            return relation, terms
        path = paths[-1 - self.choose(len(paths))]
        wide = [name for name, attributes in RELATIONS.items() if len(attributes) >= len(path)]
        relation = self.pick(wide)
        spare = len(RELATIONS[relation]) - len(path)
        terms = path + [self._choose_filler(path) for _ in range(spare)]
        if self.happens(3):
            terms = terms[::-1]
        return relation, terms

    def _choose_term(self) -> str:
        if self.features.constants and self.happens(8):
            return str(1 + self.choose(2))
        return "_" if self.happens(10) else self.pick(self.features.variables[:3])

    def _choose_filler(self, path: list[str]) -> str:
        """Choose a term to stand beside the variables of a path."""
        kind = self.choose(6)
        if kind == 1 and path:
            return self.pick(path)
        if kind == 2 and self.features.constants:
            return str(1 + self.choose(2))
        return "_"

    def _write_atom(self, relation: str, terms: list[str], positional: bool) -> str:
        if positional:
            return f"{relation}({', '.join(terms)})"
        named = [
            f"{attribute}: {term}"
            for attribute, term in zip(RELATIONS[relation], terms, strict=True)
            if term != "_"
        ]
        return f"{relation}({', '.join(named[::-1] if self.happens(4) else named)})"

    def _write_comparisons(self, own: list[list[str]]) -> list[str]:
        names = list(dict.fromkeys(name for each in own for name in each))
        found: list[str] = []
        if not self.features.comparisons or not names:
            return found
        if self.happens(4):
            found.append(f"{self.pick(names)} {self.pick(_OPERATORS)} {1 + self.choose(3)}")
        if self.happens(5):
            together = names if self.features.between else self.pick(own)
            if together:
                one, other = self.pick(together), self.pick(together)
                found.append(f"{one} {self.pick(_OPERATORS)} {other}")
        return found

    def _write_ordering(self, times: list[str], timed: bool) -> list[str]:
        """Write comparisons of the timestamps."""
        names = list(dict.fromkeys(times))
        if len(names) < 2:
            return []
        found: list[str] = []
        if self.choose(3) < 2:
            order = names[::-1] if self.choose(2) else names
            found.append(" < ".join(order[: 2 + self.choose(len(order) - 1)]))
        if self.choose(2):
            limit = f"{1 + self.choose(4)}{' MILLISECONDS' if timed and self.choose(2) else ''}"
            found.append(f"{names[-1]} - {names[0]} {self.pick(('<', '<=', '>', '='))} {limit}")
        return found

    # -------------------------------------------------------- streams

    def _make_events(self, timed: bool, used: list[str]) -> Events:
        """Make events, mostly such that some atom can take them."""
        events: Events = []
        now = 0
        for _ in range(
            max(self.choose(self.features.events + 1), self.choose(self.features.events + 1))
        ):
            relation = self.pick(tuple(RELATIONS) if self.happens(8) else used)
            event = {"type": relation} | {
                name: value
                for name in RELATIONS[relation]
                if (value := self.pick(VALUES)) is not None
            }
            if timed:
                now += self.choose(3)
                event["ts"] = now
            events.append(event)
        return events
