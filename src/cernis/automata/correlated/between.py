"""Put conditions between events on the links of the steps inside their scope.

Equalities are closed transitively to classes, and each class is compared along the steps
between its events. Every other comparison is put on the steps whose two events it compares,
either way round. Conditions that links cannot decide are checked on each candidate. So are
those that a link has no room for: its index takes one order, a range of one attribute, or up to
`MOST_DIFFERENT` values that must differ. The *verdict* of a condition says how it is decided.

Cost contract: linear in steps times conditions, and the searches of `Shape`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from math import inf

from cernis.automata.correlated.classes import KeyClass, choose_attributes, close_equalities
from cernis.automata.correlated.fragments import Fragment, States, Step, strengthen
from cernis.automata.correlated.pcea import EVERY_INDEX, Link, Ordered, Unindexed
from cernis.automata.correlated.presence import Path
from cernis.automata.unary.cea import ANYTHING, Is, Test, conjoin, conjoin_tests
from cernis.automata.unary.construct import CLOCKS, build_test, compare_with_itself
from cernis.pattern import predicate as pred
from cernis.pattern.formula import Gap, Unit
from cernis.pattern.write import write_condition

MOST_DIFFERENT = 3


class How(Enum):
    """How a condition is decided."""

    EQUAL = "equal"
    DIFFERENT = "different"
    ORDERED = "ordered"
    GAP = "gap"
    NEXT = "next"
    ABSENT = "absent"
    LEAVING = "leaving"
    UNARY = "unary"
    CANDIDATE = "candidate"


_CALCULATES = "it calculates with the values of two events"
KIND_OF: Mapping[str, How] = {"=": How.EQUAL, "!=": How.DIFFERENT}


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one condition of the query is decided, and why so."""

    text: str
    how: How
    why: str


class Verdicts:
    """The verdicts so far, by the path of the filter and the number of the condition in it."""

    def __init__(self) -> None:
        self.found: dict[tuple[Path, int], Verdict] = {}

    def judge(self, path: Path, index: int, leaf: pred.Leaf, how: How, why: str) -> None:
        self.note(path, index, Verdict(write_condition(leaf), how, why))

    def apart(self, path: Path, index: int, text: str, between: str) -> None:
        why = f"{between} can stand between the events it compares"
        self.note(path, index, Verdict(text, How.CANDIDATE, why))

    def note(self, path: Path, index: int, verdict: Verdict) -> None:
        """Note a verdict; of several copies of a condition, the hardest one stays."""
        known = self.found.get((path, index))
        if known is None or hardness(verdict) > hardness(known):
            self.found[path, index] = verdict

    def in_text(self) -> tuple[Verdict, ...]:
        """Return the verdicts in order of the text: a condition stands after its formula."""
        order = sorted(self.found, key=lambda at: (*at[0], inf, at[1]))
        return tuple(self.found[at] for at in order)


def hardness(verdict: Verdict) -> int:
    """Return the rank of a verdict: by the event, by an index, on candidates."""
    return {How.UNARY: 0, How.CANDIDATE: 2}.get(verdict.how, 1)


# -------------------------------------------------------------- conditions


def compare_class(body: Fragment, known: States, keys: KeyClass) -> tuple[Fragment, int | None]:
    """Return the body with the events of a class compared, and a state between two of them."""
    attributes = {state: keys.attributes(known.labels[state]) for state in body.states}
    members = {state for state, found in attributes.items() if found}
    shape = body.shape
    last = set(body.last)
    steps = []
    for step in body.steps:
        own = attributes[step.target]
        if not own:
            steps.append(step)
            continue
        test = conjoin_tests((step.test, *(_agree(own[0], other) for other in own[1:])))
        linked = [source.state in members for source in step.sources]
        alone = step.target in last or any(
            state not in members for state in shape.following(step.target)
        )
        if alone and not any(linked) and len(own) == 1 and own[0] not in CLOCKS:
            test = conjoin(test, _agree(own[0], own[0]))
        sources = tuple(
            replace(
                source,
                link=_add_equality(source.link, *choose_attributes(attributes[source.state], own)),
            )
            if source.state in members
            else source
            for source in step.sources
        )
        steps.append(Step(sources, test, step.target))
    return replace(body, steps=tuple(steps)), shape.find_gap(members)


class FilterConditions:
    """Conditions that hold together, put on the steps of the body of their FILTER."""

    def __init__(
        self,
        body: Fragment,
        states: States,
        verdicts: Verdicts,
        path: Path,
        leaves: tuple[pred.Leaf, ...],
        always: frozenset[str],
        unindexed: Unindexed = EVERY_INDEX,
        in_part: bool = False,
    ) -> None:
        self.body = body
        self.states = states
        self.verdicts = verdicts
        self.shape = body.shape
        self.path = path
        self.leaves = leaves
        self.always = always
        self.unindexed = unindexed
        self.in_part = in_part
        """Whether the body stands in a part with a WITHIN of its own that links decide."""

    def apply(self, chosen: tuple[int, ...]) -> Fragment:
        """Put the chosen conditions on the body; return it.

        Equalities come first, then order, then inequality: links have little room.
        """
        for i in chosen:
            leaf = self.leaves[i]
            if isinstance(leaf, pred.Holds):
                self.apply_to_events(i, leaf)
            elif not isinstance(leaf, pred.Compare):
                why = "it looks at all events of the match"
                if isinstance(leaf, pred.CompareNeighbours):
                    why = f"{_CALCULATES}; an index needs PREV alone on one side, and no !="
                self.verdicts.judge(self.path, i, leaf, How.CANDIDATE, why)
        classes, rest = self.group_equalities(chosen)
        for keys, indices in classes:
            self.body, gap = compare_class(self.body, self.states, keys)
            for i in indices:
                self.judge_equality(i, gap)
        for rank in (("=",), ("<", "<=", ">", ">="), ("!=",)):
            for i in rest:
                if self.compare(i).op in rank:
                    self.apply_to_pairs(i, self.compare(i))
        return self.body

    def group_equalities(
        self, indices: Iterable[int]
    ) -> tuple[list[tuple[KeyClass, list[int]]], list[int]]:
        """Return classes of equalities, each with its conditions, and the other conditions.

        Variables that are always there tie a class together. One that may be empty
        can join a class, but ties nothing.
        """
        rest = [i for i in indices if isinstance(self.leaves[i], pred.Compare)]
        compares = {i: self.compare(i) for i in rest}
        equalities = {i: _keys(c) for i, c in compares.items() if c.is_transitive}
        core = [keys for keys in equalities.values() if all(v in self.always for v, _ in keys)]
        classes = [list(keys.keys) for keys in close_equalities(core)]
        tied: list[list[int]] = [[] for _ in classes]
        firm = {key: number for number, keys in enumerate(classes) for key in keys}
        home = dict(firm)
        for left, right in equalities.values():
            for key, other in ((left, right), (right, left)):
                if key in firm and other not in home:
                    home[other] = firm[key]
                    classes[firm[key]].append(other)
        for i, (left, right) in equalities.items():
            if left in home and home[left] == home.get(right):
                tied[home[left]].append(i)
                rest.remove(i)
        return [(KeyClass(tuple(keys)), own) for keys, own in zip(classes, tied, strict=True)], rest

    def count_missing(self, chosen: Iterable[int]) -> int:
        """Return how many comparisons the links do not enforce."""
        classes, rest = self.group_equalities(chosen)
        found = sum(
            len(own)
            for keys, own in classes
            if self.shape.find_gap(self.find_members(keys)) is not None
        )
        for i in rest:
            leaf = self.compare(i)
            if not leaf.adjacent and leaf.shift is None:
                gap = self.shape.find_between(
                    self.find_marked(leaf.left), self.find_marked(leaf.right)
                )
                found += gap is not None
        return found

    def list_compared(self, chosen: Iterable[int]) -> list[frozenset[str]]:
        """Return the variables of each class and of each other comparison."""
        classes, rest = self.group_equalities(chosen)
        found = [frozenset(v for v, _ in keys.keys if v is not None) for keys, _ in classes]
        sides = [(self.compare(i).left, self.compare(i).right) for i in rest]
        return found + [frozenset(side.variable for side in both_) for both_ in sides]

    def find_members(self, keys: KeyClass) -> set[int]:
        labels = self.states.labels
        return {state for state in self.body.states if keys.attributes(labels[state])}

    def find_marked(self, side: pred.Reference) -> set[int]:
        labels = self.states.labels
        return {state for state in self.body.states if side.variable in labels[state]}

    def compare(self, index: int) -> pred.Compare:
        leaf = self.leaves[index]
        assert isinstance(leaf, pred.Compare)
        return leaf

    def apply_to_events(self, index: int, leaf: pred.Holds) -> None:
        test = build_test(leaf.predicate)
        self.body = strengthen(
            self.body, self.states, lambda labels: test if leaf.variable in labels else ANYTHING
        )
        self.judge(index, How.UNARY, "asked of each event alone")

    def judge(self, index: int, how: How, why: str) -> None:
        self.verdicts.judge(self.path, index, self.leaves[index], how, why)

    def judge_equality(self, index: int, gap: int | None) -> None:
        leaf = self.compare(index)
        if gap is not None:
            (own,) = close_equalities([_keys(leaf)])
            gap = self.shape.find_gap(self.find_members(own))
        if gap is None:
            self.judge(index, How.EQUAL, "each event agrees with the next")
        else:
            self.verdicts.apart(self.path, index, write_condition(leaf), self.states.names[gap])

    def apply_to_pairs(self, index: int, leaf: pred.Compare) -> None:
        """Put a comparison on the links between neighbours that it compares, and judge it."""
        ones, others = self.find_marked(leaf.left), self.find_marked(leaf.right)
        if not ones or not others:
            self.judge(index, How.UNARY, "nothing to compare")
        elif leaf.shift is not None:
            self.judge(index, How.CANDIDATE, _CALCULATES)
        elif leaf.adjacent and not self.shape.is_chain:
            self.judge(index, How.CANDIDATE, "neighbours across the parts of ALL")
        else:
            gap = None if leaf.adjacent else self.shape.find_between(ones, others)
            self.judge_pairs(index, leaf, gap, self.put_on_links(leaf))

    def judge_pairs(self, index: int, leaf: pred.Compare, gap: int | None, full: str) -> None:
        labels = self.states.labels
        between_two = any(
            any(_find_comparisons(leaf, labels[source.state], labels[step.target]))
            for step in self.body.steps
            for source in step.sources
        )
        if gap is not None:
            self.verdicts.apart(self.path, index, write_condition(leaf), self.states.names[gap])
        elif full:
            self.judge(index, How.CANDIDATE, full)
        elif between_two:
            why = "all its pairs are neighbours"
            how = KIND_OF.get(leaf.op, How.ORDERED)
            if isinstance(leaf.origin, pred.CompareTerms):
                why = _write_rewriting(leaf)
                how = How.GAP if self.is_gap(leaf) and leaf.op == "<=" else how
            self.judge(index, how, why)
        else:
            self.judge(index, How.UNARY, "asked of one event")

    def is_gap(self, leaf: pred.Compare) -> bool:
        """Whether a comparison says how far two events are apart, in time."""
        return leaf.reach is not None and not self.unindexed.untimed and not self.in_part

    def put_on_links(self, leaf: pred.Compare) -> str:
        """Put a comparison on the links of the body; return why one has no room, or \"\"."""
        labels = self.states.labels
        full = ""
        steps = []
        for step in self.body.steps:
            later = labels[step.target]
            sources = []
            for source in step.sources:
                link = source.link
                for earlier_name, op, later_name in _find_comparisons(
                    leaf, labels[source.state], later
                ):
                    obstacle = self.unindexed.explain(op, earlier_name, later_name)
                    if obstacle:
                        full = obstacle
                        continue
                    added = add_comparison(link, earlier_name, op, later_name, self.unindexed)
                    if self.is_gap(leaf) and leaf.left.variable in later:
                        added = _add_gap(link, leaf, added)
                    if not isinstance(added, str) and added.asks_recent and self.in_part:
                        added = "the gap stands in a part with a WITHIN"
                    if isinstance(added, str):
                        full = added
                    else:
                        link = added
                sources.append(replace(source, link=link))
            test = step.test
            if not leaf.adjacent and {leaf.left.variable, leaf.right.variable} <= later:
                test = conjoin(test, compare_with_itself(leaf))
            steps.append(Step(tuple(sources), test, step.target))
        self.body = replace(self.body, steps=tuple(steps))
        return full


def _write_rewriting(leaf: pred.Compare) -> str:
    """Write what is compared instead of the condition that a comparison comes from."""
    sides = (
        f"{side.variable}[{side.attribute.name.removeprefix('(').removesuffix(')')}]"
        for side in (leaf.left, leaf.right)
    )
    return f" {leaf.op} ".join(sides)


def _keys(leaf: pred.Compare) -> tuple[tuple[str, str], tuple[str, str]]:
    left, right = leaf.left, leaf.right
    return (left.variable, left.attribute.name), (right.variable, right.attribute.name)


def _find_comparisons(
    leaf: pred.Compare, earlier: Collection[str], later: Collection[str]
) -> Iterator[tuple[str, pred.Operator, str]]:
    """Yield the comparisons of two neighbours with these labels."""
    (x, a), (y, b) = _keys(leaf)
    if x in earlier and y in later:
        yield a, leaf.op, b
    if not leaf.adjacent and y in earlier and x in later:
        yield b, pred.MIRRORED[leaf.op], a


def add_comparison(
    link: Link, earlier: str, op: pred.Operator, later: str, unindexed: Unindexed
) -> Link | str:
    """Return the link with one more comparison, or why it has no room."""
    match op:
        case "=":
            return _add_equality(link, earlier, later)
        case "!=":
            if (earlier, later) in link.different:
                return link
            if link.arrow is not None:
                return "no index has runs leave that differ"
            if link.ordered:
                return "the same events are compared by order already"
            if link.gap is not None:
                return "runs wait in the order of time, for the gap"
            if len(link.different) >= MOST_DIFFERENT:
                return f"the same events must differ in {MOST_DIFFERENT} attributes already"
            return replace(link, different=(*link.different, (earlier, later)))
        case _:
            order = Ordered(earlier, op, later)
            if order in link.ordered:
                return link
            obstacle = _find_range_obstacle(link, order, unindexed) if link.ordered else ""
            if obstacle:
                return obstacle
            if link.gap is not None and link.gap.least:
                return "the gap has a least length"
            if link.gap is not None and link.since is not None:
                return "the gap stands in a part with a WITHIN"
            if link.different:
                return "the same events must differ already"
            both = sorted((*link.ordered, order), key=lambda one: one.op, reverse=True)
            return replace(link, ordered=tuple(both))


def _find_range_obstacle(link: Link, order: Ordered, unindexed: Unindexed) -> str:
    """Return why an order is not the other end of a range, \"\" if it is."""
    known, is_plain = link.ordered[0], link.gap is None and link.arrow is None
    is_number = known.earlier.endswith(pred.NUMBER)
    same = len(link.ordered) == 1 and known.earlier == order.earlier
    if not same or not is_plain or {known.op, order.op} != {">=", "<="}:
        return "the same events are compared by order already"
    if unindexed.far and not is_number:
        return "the same events are compared by order already"
    ends = {known.earlier} if is_number else {known.later, order.later}
    return "a range leaves whole numbers beyond 2⁵³ open" if ends & unindexed.wide else ""


def _add_gap(link: Link, leaf: pred.Compare, ordered: Link | str) -> Link | str:
    """Return the link with the gap of a comparison of times; its order may be needed as well."""
    plain = link.gap is None and link.since is None and link.arrow is None and not link.different
    if leaf.reach is None or not plain or link.ordered or link.contiguous:
        return ordered
    gap = Gap(Unit.TIME, leaf.reach)
    if leaf.op == "<=":
        return replace(link, gap=gap)
    return ordered if isinstance(ordered, str) else replace(ordered, gap=gap)


def _add_equality(link: Link, earlier: str, later: str) -> Link:
    pairs = dict.fromkeys((*link.equal, (earlier, later)))
    return replace(link, equal=tuple(pairs))


def _agree(left: str, right: str) -> Test:
    """Return the test that two attributes of one event are equal."""
    return Is(pred.Comparison("=", pred.Attribute.named(left), pred.Attribute.named(right)))
