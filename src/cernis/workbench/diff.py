"""`diff`: the matches that a new version of a query gains, loses and keeps, exactly.

Both versions run, and what both find is counted for each end. Versions of one formula share the
matches that satisfy the conditions of both within the smaller window, unless conditions also say
which event is the next (`->`). Where one version is stricter, these are its own matches. Of other
versions the union `(A) OR (B)` runs, and |A ∩ B| = |A| + |B| − |A ∪ B|: its automaton is
input/output-deterministic, so a match of both is one match, and none is listed. Turned down: the
difference of the automata. It needs a complement, whose states are as many, and which no other part
of the engine needs.

It takes two versions whose matches are free of each other, with the same streams, partition and
variables. Otherwise matches are listed and compared by their ids, up to `MOST_LISTED`; beyond that,
their ends are compared.

A sample of one side chooses ends by their exact numbers, and then matches of the end: of few by
listing, of many by drawing from the side and dropping those that the other side has.

Cost contract: two runs, or three where no version is the stricter one, linear in the events and the
ends; `MOST_LISTED` ids at most; for each match of a sample, `_TRIED` draws and walks over the nodes
below the end at most.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from cernis.engine.unary.arena import UNION
from cernis.engine.words import find_most, list_integers
from cernis.errors import BudgetError, CernisError, QueryError
from cernis.integers import count_noun
from cernis.pattern import formula as cel
from cernis.pattern import predicate as pred
from cernis.pattern.query import Pattern
from cernis.pattern.variables import starred_variables
from cernis.pattern.waits import has_arrow
from cernis.results.match import Match
from cernis.results.matches import Matches
from cernis.results.sets.counted import CountedMatches, read_counts
from cernis.results.sets.identity import match_ids
from cernis.results.sets.matchset import ListedMatches, MatchBlock, join, part, take
from cernis.results.sets.unary import CompactMatches
from cernis.run.query import Query
from cernis.run.rules.rule_set import RuleSet
from cernis.views.svg import element, write
from cernis.workbench.reread import make_rereadable
from cernis.workbench.tally import MatchNumbers, group_ends, keeps_every_match, need_matches, tally

MOST_LISTED = 2_000_000
_FEW = 20_000
"""Of an end with at most so many matches on both sides, those of one side are listed."""
_TRIED = 256
"""Of an end with more, so many are drawn from one side for each that is wanted."""
_GROUPS = 10
"""So many days, and keys, are written."""
Side = Literal["lost", "gained"]


@dataclass(frozen=True)
class MatchDiff:
    """How many matches are lost, gained and kept, in all, per day and per key."""

    lost: MatchNumbers
    gained: MatchNumbers
    kept: MatchNumbers
    counted: Literal["matches", "listed", "ends"]
    """Matches that are counted, matches that are listed, or ends that have a match."""
    samples: Mapping[Side, Sequence[Match]]
    """Of ends: a match of each of some ends."""
    reason: str = ""
    """Why ends are compared, and not matches."""

    @property
    def same(self) -> bool:
        return not self.lost.total and not self.gained.total

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        told: dict[str, Any] = {"counted": self.counted}
        if self.reason:
            told["reason"] = self.reason
        for name in ("lost", "gained", "kept"):
            own: MatchNumbers = getattr(self, name)
            told[name] = own.total
            if own.days is not None:
                told[f"{name}_by_day"] = own.days
            if own.keys is not None:
                pairs = sorted(own.keys.items(), key=lambda pair: -pair[1])
                told[f"{name}_by_key"] = [{"key": list(key), "matches": n} for key, n in pairs]
        told["samples"] = {
            side: [
                {
                    "start": match.start,
                    "end": match.end,
                    "partition": dict(match.partition or {}),
                    "vars": {name: list(rows) for name, rows in match.vars.items()},
                    "events": {name: match.events(name) for name in match.vars},
                }
                for match in matches
            ]
            for side, matches in self.samples.items()
        }
        return told

    def __str__(self) -> str:
        return "\n".join([*self.list_numbers(), *map(write_sample, *self.list_samples())])

    def list_samples(self) -> tuple[list[Side], list[Match]]:
        """Return the sides of the sampled matches, and the matches."""
        pairs = [(side, match) for side, several in self.samples.items() for match in several]
        return [side for side, _ in pairs], [match for _, match in pairs]

    def list_numbers(self) -> Iterator[str]:
        """Yield the numbers in lines, those of the days and keys that differ most with them."""
        noun = "end" if self.counted == "ends" else "match"
        for name in ("lost", "gained", "kept"):
            yield f"{name} {count_noun(getattr(self, name).total, noun)}"
        if self.counted == "ends":
            yield f"{self.reason}: ends with a match are compared"
        yield from self.list_groups()

    def list_groups(self) -> Iterator[str]:
        """Yield the numbers of the days, in order, and of the keys that differ most."""
        lost, gained = self.lost.days or {}, self.gained.days or {}
        yield from _write_groups(lost, gained, sorted({*lost, *gained}), "day")
        of_lost, of_gained = self.lost.keys or {}, self.gained.keys or {}
        keys = {key: of_lost.get(key, 0) + of_gained.get(key, 0) for key in {*of_lost, *of_gained}}
        ordered = sorted(keys, key=lambda key: (-keys[key], str(key)))
        yield from _write_groups(of_lost, of_gained, ordered, "key")

    def _repr_html_(self) -> str:
        rows = [
            element("tr", element("th", name), element("td", f"{getattr(self, name).total:,}"))
            for name in ("lost", "gained", "kept")
        ]
        groups = [element("li", write(line)) for line in self.list_groups()]
        listed = [
            element("p", write(write_sample(side, match))) + match._repr_html_()
            for side, match in zip(*self.list_samples(), strict=True)
        ]
        drawn = [element("table", *rows), element("ul", *groups) if groups else "", *listed]
        return "".join(drawn)


def _write_groups(
    lost: Mapping[Any, int], gained: Mapping[Any, int], names: Sequence[Any], noun: str
) -> Iterator[str]:
    for name in names[:_GROUPS]:
        title = name if isinstance(name, str) else f"{noun} {', '.join(map(str, name))}"
        yield f"{title}: {lost.get(name, 0):,} lost, {gained.get(name, 0):,} gained"
    if len(names) > _GROUPS:
        yield f"and {count_noun(len(names) - _GROUPS, f'more {noun}')}"


def write_sample(side: Side, match: Match) -> str:
    """Return a match in a line: its side, its rows, its key and its variables."""
    held = "; ".join(f"{name} = {', '.join(map(str, rows))}" for name, rows in match.vars.items())
    key = "".join(f", {name} = {value!r}" for name, value in (match.partition or {}).items())
    return f"{side}: rows {match.start} to {match.end}{key}: {held}"


@dataclass(frozen=True)
class RulesDiff:
    """The differences of the rules by their names.

    A rule of the old set alone loses all its matches, one of the new set alone gains all of its.
    """

    rules: Mapping[str, MatchDiff]
    removed: Mapping[str, MatchDiff]
    added: Mapping[str, MatchDiff]

    @property
    def all_rules(self) -> Mapping[str, MatchDiff]:
        return {**self.rules, **self.removed, **self.added}

    @property
    def lost(self) -> int:
        return sum(each.lost.total for each in self.all_rules.values())

    @property
    def gained(self) -> int:
        return sum(each.gained.total for each in self.all_rules.values())

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            kind: {name: each.to_dict() for name, each in getattr(self, kind).items()}
            for kind in ("rules", "removed", "added")
        }

    def write_head(self, name: str) -> str:
        """Return the numbers of a rule in a line."""
        each = self.all_rules[name]
        if name in self.removed:
            return f"rule {name}: removed, lost {each.lost.total:,}"
        if name in self.added:
            return f"rule {name}: added, gained {each.gained.total:,}"
        numbers = f"lost {each.lost.total:,}, gained {each.gained.total:,}"
        return f"rule {name}: {numbers}, kept {each.kept.total:,}"

    def __str__(self) -> str:
        lines = []
        for name, each in self.all_rules.items():
            below = [*each.list_groups(), *map(write_sample, *each.list_samples())]
            lines += [self.write_head(name), *(f"  {line}" for line in below)]
        return "\n".join(lines) or "neither set has rules"

    def _repr_html_(self) -> str:
        return "".join(
            element("h4", write(self.write_head(name))) + each._repr_html_()
            for name, each in self.all_rules.items()
        )


def diff(
    old: Any, new: Any, events: Any, *, sample: int = 3, seed: int | None = None, **options: Any
) -> MatchDiff | RulesDiff:
    """Compare the matches of two queries, or of two rule sets, in the same events.

    `sample` matches of each side come with their events. The other options are those of
    `Query.run`.
    """
    events = make_rereadable(events)
    if isinstance(old, RuleSet) and isinstance(new, RuleSet):
        return _diff_rules(old, new, events, sample, seed, options)
    if isinstance(old, RuleSet) or isinstance(new, RuleSet):
        raise CernisError("diff compares two queries or two rule sets, not one of each")
    one, other = (each if isinstance(each, Query) else Query(each) for each in (old, new))
    shared = make_shared(one, other)

    def run_both(form: Literal["events", "count"]) -> list[Matches]:
        found = (each.run(events, matches=form, **options) for each in (one, other))
        return [need_matches(each, "diff") for each in found]

    keeps = shared is None or sample > 0  # samples need the matches
    before, after = run_both("events" if keeps else "count")
    if shared is not None and not (before.partial or after.partial):
        with suppress(BudgetError, QueryError):
            known = {id(one): before, id(other): after}.get(id(shared.query))
            both = shared.query.run(events, matches="count", **options) if known is None else known
            if isinstance(both, Matches) and not both.partial:
                return _diff_counts((before, after, both), shared.is_union, sample, seed)
    if not keeps:
        before, after = run_both("events")
    return _diff_lists(before, after, sample, seed)


def _diff_rules(
    old: RuleSet,
    new: RuleSet,
    events: Any,
    sample: int,
    seed: int | None,
    options: Mapping[str, Any],
) -> RulesDiff:
    before, after = ({rule.name: rule.query for rule in rules} for rules in (old, new))
    if any(query.pattern.into is not None for query in (*before.values(), *after.values())):
        runs = [_take_matches(rules.run(events, **options)) for rules in (old, new)]
        rules = {
            name: _diff_lists(found, runs[1][name], sample, seed)
            for name, found in runs[0].items()
            if name in runs[1]
        }
        removed, added = (
            {name: found for name, found in own.items() if name not in other}
            for own, other in (runs, reversed(runs))
        )
    else:
        rules = {}
        for name in before:
            if name in after:
                found = diff(before[name], after[name], events, sample=sample, seed=seed, **options)
                assert isinstance(found, MatchDiff)
                rules[name] = found
        removed, added = (
            _run_alone({name: q for name, q in own.items() if name not in other}, events, options)
            for own, other in ((before, after), (after, before))
        )
    return RulesDiff(
        rules,
        {name: _count_alone("lost", found, sample, seed) for name, found in removed.items()},
        {name: _count_alone("gained", found, sample, seed) for name, found in added.items()},
    )


def _run_alone(
    queries: Mapping[str, Query[Any]], events: Any, options: Mapping[str, Any]
) -> dict[str, Matches]:
    return _take_matches(RuleSet.of(dict(queries)).run(events, **options)) if queries else {}


def _take_matches(results: Mapping[str, Any]) -> dict[str, Matches]:
    return {name: need_matches(found, f"rule {name}: diff") for name, found in results.items()}


def _count_alone(side: Side, matches: Matches, sample: int, seed: int | None) -> MatchDiff:
    """Return the difference of a rule that one set has."""
    none, own = MatchNumbers(0), tally(matches)
    lost, gained = (own, none) if side == "lost" else (none, own)
    return MatchDiff(lost, gained, none, "matches", {side: matches.sample(sample, seed)})


# ------------------------------------------------------------------------ by counting


@dataclass(frozen=True)
class SharedMatches:
    """The query whose matches are those of both versions, or with `is_union` those of either."""

    query: Query[Any]
    is_union: bool


def make_shared(old: Query[Any], new: Query[Any]) -> SharedMatches | None:
    """Return the query that says what two versions share; None: no query of this language does."""
    a, b = old.pattern, new.pattern
    if old.conjunctive is not None or new.conjunctive is not None:
        return None
    if not (keeps_every_match(a) and keeps_every_match(b)):
        return None
    shared = ("streams", "joins", "partition", "forget", "without", "declared", "into")
    if any(getattr(a, name) != getattr(b, name) for name in shared):
        return None
    if {*starred_variables(a.formula)} != {*starred_variables(b.formula)}:
        return None
    if (stricter := _find_stricter(old, new)) is not None:
        return SharedMatches(stricter, is_union=False)
    return _make_union(a, b)


def _find_stricter(old: Query[Any], new: Query[Any]) -> Query[Any] | None:
    """Return the query that both versions of one formula share: the stricter one, if one is."""
    a, b = old.pattern, new.pattern
    (body, mine), (other_body, others) = _take_filters(a.formula), _take_filters(b.formula)
    windows = [each.within for each in (a, b) if each.within is not None]
    if mine != others and has_arrow(body):
        return None
    if body != other_body or len({(one.unit, one.attribute, one.strict) for one in windows}) > 1:
        return None
    within = min(windows, key=lambda one: one.size) if windows else None
    both = dict.fromkeys([*mine, *others])
    needed = [one for one in both if not any(_implies(each, one) for each in both)]
    for query, own in ((old, mine), (new, others)):
        if within == query.pattern.within and {*needed} <= {*own}:
            return query
    together = replace(a, formula=cel.put_filter(body, needed), within=within)
    return Query(replace(together, qualified=(), spans={}, source=""))


def _take_filters(formula: cel.Formula) -> tuple[cel.Formula, list[pred.Condition]]:
    """Return a formula without the filters around it, and their conditions, one for each test."""
    body, whole = cel.take_off(formula)
    conditions: list[pred.Condition] = []
    for one in whole:
        match one:
            case pred.Holds(predicate=pred.And(parts=tests)):
                conditions += [replace(one, predicate=test) for test in tests]
            case _:
                conditions.append(one)
    return body, conditions


def _implies(stricter: pred.Condition, one: pred.Condition) -> bool:
    """Whether a bound on a value is another, tighter bound on it (`x[a > 3]` and `x[a > 2]`)."""
    first, second = _read_bound(stricter), _read_bound(one)
    if first is None or second is None or first[0] != second[0]:
        return False
    ((_, _, side), tight, has_tight), (_, loose, has_loose) = first, second
    if tight == loose:
        return bool(has_loose and not has_tight)
    return bool((tight > loose) == (side == ">"))


def _read_bound(condition: pred.Condition) -> tuple[Any, Any, bool] | None:
    """Return what a condition bounds and on which side, the number, and whether it may be it."""
    if not isinstance(condition, pred.Holds) or not isinstance(
        condition.predicate, pred.Comparison
    ):
        return None
    op, value, constant = (getattr(condition.predicate, n) for n in ("op", "left", "right"))
    if isinstance(value, pred.Literal):
        op, value, constant = pred.MIRRORED[op], constant, value
    if op in ("=", "!=") or not isinstance(constant, pred.Literal):
        return None
    number = constant.value
    if isinstance(number, bool) or not isinstance(number, int | float | Decimal):
        return None
    return (condition.variable, value, op[0]), pred.to_exact(number), op[1:] == "="


def _make_union(a: Pattern, b: Pattern) -> SharedMatches | None:
    within = a.within if a.within == b.within else None
    parts = tuple(
        each.formula if each.within in (None, within) else cel.Within(each.formula, each.within)
        for each in (a, b)
    )
    try:
        union = replace(a, formula=cel.Choice(parts), within=within)
        return SharedMatches(Query(replace(union, qualified=(), spans={}, source="")), True)
    except QueryError:
        return None


def _diff_counts(
    found: tuple[Matches, Matches, Matches], is_union: bool, sample: int, seed: int | None
) -> MatchDiff:
    """Return the difference of two results, given what both, or either of them, found."""
    before, after, _ = found
    old, new, shared = map(_sort_counts, found)
    is_drawn = all(isinstance(each.match_set, CompactMatches) for each in (before, after))
    samples: dict[Side, Sequence[Match]] = {}
    numbers: dict[str, MatchNumbers] = {}
    for side, own, other, counts in (("lost", before, after, old), ("gained", after, before, new)):
        ends = counts[0]
        mine, either = counts[1], _look_up(old, ends) + _look_up(new, ends)
        both = _look_up(shared, ends)
        both = either - both if is_union else both
        alone, few, groups = mine - both, either <= _FEW, group_ends(own, ends)
        numbers[side], numbers["kept"] = groups.tally(alone), groups.tally(both)
        weights = alone if is_drawn else np.where(few, alone, 0)
        samples[cast("Side", side)] = _draw(own, other, ends, weights, few, sample, seed)
    return MatchDiff(numbers["lost"], numbers["gained"], numbers["kept"], "matches", samples)


CountsByEnd = tuple[NDArray[np.int64], NDArray[Any]]


def _sort_counts(matches: Matches) -> CountsByEnd:
    """Return the ends in order, and the numbers of matches: words, or integers of any size."""
    ends, numbers = read_counts(matches.match_set)
    if find_most(numbers) >= 2**60:
        numbers = np.array(list_integers(numbers), object)
    if len(ends) > 1 and not (np.diff(ends) > 0).all():
        ends, which = np.unique(ends, return_inverse=True)
        totals = np.zeros(len(ends), numbers.dtype)
        np.add.at(totals, which, numbers)
        numbers = totals
    return ends, numbers


def _look_up(counts: CountsByEnd, ends: NDArray[np.int64]) -> NDArray[Any]:
    """Return the numbers of some ends; 0 where there is none."""
    known, numbers = counts
    if len(known) == len(ends) and (known == ends).all():
        return numbers
    at = np.searchsorted(known, ends)
    has = at < len(known)
    has[has] = known[at[has]] == ends[has]
    found = np.zeros(len(ends), numbers.dtype)
    found[has] = numbers[at[has]]
    return found


def _draw(
    side: Matches,
    other: Matches,
    ends: NDArray[np.int64],
    weights: NDArray[Any],
    few: NDArray[np.bool_],
    k: int,
    seed: int | None,
) -> list[Match]:
    """Return a uniform sample of the matches of one side alone: an end by its number, then one.

    It may be smaller where an end has many matches, and hardly any of one side alone.
    """
    upto = np.cumsum(weights) if len(weights) else weights
    total = int(upto[-1]) if len(upto) else 0
    if not total or not k:
        return []
    ranks = draw_ranks(total, k, random.Random(seed))
    chosen: list[MatchBlock] = []
    at = np.searchsorted(upto, np.array(ranks, upto.dtype), side="right")
    for index in sorted({int(i) for i in at}):
        if not few[index]:
            chosen += _draw_alone(side, other, ends[index], int((at == index).sum()), seed)
            continue
        alone = _list_alone(side, other, ends[index])
        first = int(upto[index]) - int(weights[index])
        wanted = [r - first for r, i in zip(ranks, at, strict=True) if i == index]
        chosen.append(take(alone, np.array(wanted, np.int64)))
    return side.make_matches(join(chosen, len(side.match_set.variables)))


def draw_ranks(total: int, k: int, rng: random.Random) -> list[int]:
    """Return `k` numbers below a total that may be beyond 64 bits, or all, in order."""
    if total <= 4 * k:
        return sorted(rng.sample(range(total), min(k, total)))
    ranks: set[int] = set()
    while len(ranks) < k:
        ranks.add(rng.randrange(total))
    return sorted(ranks)


def _list_alone(side: Matches, other: Matches, end: int) -> MatchBlock:
    """Return the matches of an end that the other side does not have."""
    at = np.array([end], np.int64)
    width = len(side.match_set.variables)
    own = join(list(side.match_set.of_ends(at, _FEW)), width)
    others = join(list(other.match_set.of_ends(at, _FEW)), len(other.match_set.variables))
    known = {*list_ids(other, others)}
    alone = [i for i, name in enumerate(list_ids(side, own)) if name not in known]
    return take(own, np.array(alone, np.int64))


def _draw_alone(
    side: Matches, other: Matches, end: int, k: int, seed: int | None
) -> Iterator[MatchBlock]:
    """Yield a uniform sample of the matches of an end that the other side does not have."""
    one, two = side.match_set, other.match_set
    assert isinstance(one, CompactMatches)
    assert isinstance(two, CompactMatches)
    at = np.array([end], np.int64)
    drawn, others = one.at_ends(at).sample(_TRIED * k, seed), two.at_ends(at)
    for i in np.random.default_rng(seed).permutation(len(drawn.end)).tolist():
        if k and not has_match(others, one.variables, part(drawn, i, i + 1)):
            k -= 1
            yield part(drawn, i, i + 1)


def has_match(found: CompactMatches, variables: Sequence[str], block: MatchBlock) -> bool:
    """Return whether a compact set of one end has the one match of a block.

    It visits each node below the end once for each event of the match, at most.
    """
    held: dict[int, set[str]] = {}
    for name, positions in zip(variables, block.positions, strict=True):
        for position in positions.tolist():
            held.setdefault(position, set()).add(name)
    marks = sorted(held.items(), reverse=True)
    own = {*found.variables}
    for arena, roots in found.segments:
        stack = [(int(root["node"]), 0, int(root["bound"])) for root in roots]
        seen = set(stack)
        while stack:
            node, read, bound = stack.pop()
            start, position, left, right, label, _ = arena[node].item()
            if node == 0 or start < bound:
                continue
            below = [(right, read, bound)] if right else []
            written = set() if label == UNION else own & found.labels[label]
            if label == UNION or not written:
                below.append((left, read, bound))
            elif read < len(marks) and marks[read] == (position, written):
                read += 1
                below.append((left, read, bound))
            is_start = label != UNION and left == 0 and position == int(block.start[0])
            if is_start and read == len(marks):
                return True
            below = [each for each in below if each not in seen]
            seen.update(below)
            stack += below
    return False


def list_ids(matches: Matches, block: MatchBlock) -> list[str]:
    """Return the ids of matches, with variables in the order of their names."""
    names = matches.match_set.variables
    order = sorted(range(len(names)), key=names.__getitem__)
    sorted_block = block._replace(
        offsets=tuple(block.offsets[v] for v in order),
        positions=tuple(block.positions[v] for v in order),
        suppressed=None,
    )
    ids: list[str] = match_ids(sorted_block, matches.store.rows).to_pylist()
    return ids


# ------------------------------------------------------------------------ by listing


def _diff_lists(before: Matches, after: Matches, sample: int, seed: int | None) -> MatchDiff:
    if reason := _find_obstacle(before, after):
        return _diff_ends(before, after, reason, sample, seed)
    blocks = [
        join(list(each.match_set.blocks()), len(each.match_set.variables))
        for each in (before, after)
    ]
    ids = [list_ids(each, block) for each, block in zip((before, after), blocks, strict=True)]
    known = [{*each} for each in ids]
    flags = [np.array([name in known[1 - i] for name in ids[i]], bool) for i in range(2)]
    lost, gained = (np.flatnonzero(~each) for each in flags)
    samples: dict[Side, Sequence[Match]] = {}
    numbers = []
    rng = np.random.default_rng(seed)
    sides: list[tuple[Side, Matches, MatchBlock, NDArray[np.int64]]] = [
        ("lost", before, blocks[0], lost),
        ("gained", after, blocks[1], gained),
    ]
    for side, matches, block, chosen in sides:
        numbers.append(_tally_block(matches, take(block, chosen)))
        drawn = np.sort(rng.permutation(chosen)[:sample])
        samples[side] = matches.make_matches(take(block, drawn)) if len(drawn) else []
    kept = _tally_block(before, take(blocks[0], np.flatnonzero(flags[0])))
    return MatchDiff(numbers[0], numbers[1], kept, "listed", samples)


def _find_obstacle(before: Matches, after: Matches) -> str:
    """Return why the matches of two versions cannot be listed and compared; empty: they can."""
    names = [sorted(each.match_set.variables) for each in (before, after)]
    if any(isinstance(each.match_set, CountedMatches) for each in (before, after)):
        return "SELECT COUNT(*) keeps no matches"
    if names[0] != names[1]:
        old, new = (", ".join(each) or "none" for each in names)
        return f"the variables differ ({old}; {new})"
    if before.count() > MOST_LISTED or after.count() > MOST_LISTED:
        return "too many matches to list"
    return ""


def _tally_block(matches: Matches, block: MatchBlock) -> MatchNumbers:
    ends, counts = ListedMatches(matches.match_set.variables, [block]).counts()
    return group_ends(matches, ends).tally(counts)


def _diff_ends(
    before: Matches, after: Matches, reason: str, sample: int, seed: int | None
) -> MatchDiff:
    old, new = (_sort_counts(each)[0] for each in (before, after))
    lost, gained, kept = np.setdiff1d(old, new), np.setdiff1d(new, old), np.intersect1d(old, new)
    parts = ((before, lost), (after, gained), (before, kept))
    numbers = [group_ends(each, ends).tally([1] * len(ends)) for each, ends in parts]
    samples: dict[Side, Sequence[Match]] = {
        "lost": _show_ends(before, lost, sample, seed),
        "gained": _show_ends(after, gained, sample, seed),
    }
    return MatchDiff(numbers[0], numbers[1], numbers[2], "ends", samples, reason)


def _show_ends(
    matches: Matches, ends: NDArray[np.int64], k: int, seed: int | None
) -> Sequence[Match]:
    """Return a match of each of some ends, which are a uniform sample."""
    if not k or not len(ends) or isinstance(matches.match_set, CountedMatches):
        return []
    drawn = np.sort(np.random.default_rng(seed).permutation(ends)[:k])
    blocks = list(matches.match_set.of_ends(drawn, 1))
    return matches.make_matches(join(blocks, len(matches.match_set.variables)))
