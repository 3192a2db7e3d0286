"""Labels: a person says of a sample of matches which are real, and the precision follows.

A file of labels is JSON lines: the query and its variables first, then a label for each match by
its id, which depends on the rows of its events alone. So a later version of the query is measured
on the same labels, as long as it has the same variables.

Cost contract: a run, and a uniform sample of its compact set; no match is listed but those at the
ends of labelled ones, at most `MOST_AT_END` each.
"""

from __future__ import annotations

import json
import random
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cernis.errors import CernisError, DataError
from cernis.events.source import open_events
from cernis.integers import count_noun
from cernis.results.match import Match
from cernis.results.matches import Matches
from cernis.results.sets.matchset import ListedMatches, join
from cernis.results.sets.rooted import RootedMatches
from cernis.workbench.diff import draw_ranks, list_ids
from cernis.workbench.precision import Share, Stratum, count_missing, estimate
from cernis.workbench.tally import EndGroups, group_ends

MOST_AT_END = 20_000
Label = Literal["y", "n", "unsure"]
LABELS = get_args(Label)
By = Literal["key", "day", "rule"]
FoundMatches = Matches | Mapping[str, Matches]
"""The matches of a query, or of the rules of a set by their names."""


def _by_rule(found: FoundMatches) -> Mapping[str, Matches]:
    return {"": found} if isinstance(found, Matches) else found


def _name_match(rule: str, id_: str) -> str:
    return f"{rule}/{id_}" if rule else id_


@dataclass
class Labels:
    """The labels of matches by id; the id of a rule's match begins with the rule's name."""

    queries: dict[str, str]
    variables: dict[str, list[str]]
    labels: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, found: FoundMatches, text: str | None = None, name: str = "") -> Self:
        """Return the labels of a text, or none yet; raise an error with file and line."""
        rules = _by_rule(found)
        own = cls(
            {rule: str(matches.pattern) for rule, matches in rules.items()},
            {rule: sorted(matches.match_set.variables) for rule, matches in rules.items()},
        )
        for number, line in enumerate((text or "").split("\n"), 1):
            if line.strip() or (number == 1 and text):
                own._read(line, number, f"{name}, line {number}")
        return own

    def _read(self, line: str, number: int, where: str) -> None:
        try:
            record = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            reason = getattr(error, "msg", "it is nested too deeply")
            raise CernisError(f"{where}: no JSON: {reason}") from None
        if not isinstance(record, dict):
            raise CernisError(f"{where}: expected an object")
        if number == 1:
            self._check_head(record, where)
            return
        is_named = isinstance(record.get("id"), str)
        if not is_named or record.get("label") not in LABELS:
            raise CernisError(f"{where}: a label has `id` and `label`: y, n or unsure")
        if not isinstance(record.get("end"), int) or isinstance(record["end"], bool):
            raise CernisError(f"{where}: a label has `end`, the row at which its match ends")
        self.labels[record["id"]] = record

    def keep_rule(self, rule: str) -> Labels:
        """Return the labels of one rule."""
        own = {i: record for i, record in self.labels.items() if i.startswith(f"{rule}/")}
        return Labels(self.queries, self.variables, own)

    @property
    def head(self) -> dict[str, Any]:
        """The first line of the file."""
        return {"labels_of": _unwrap(self.queries), "variables": _unwrap(self.variables)}

    def _check_head(self, record: Mapping[str, Any], where: str) -> None:
        known = record.get("variables")
        if "labels_of" not in record or not isinstance(known, list | dict):
            raise CernisError(f"{where}: a file of labels begins with `labels_of` and `variables`")
        named = known if isinstance(known, dict) else {"": known}
        if not named.keys() & self.variables.keys():
            kind, own = ("rules", "a query") if isinstance(known, dict) else ("a query", "rules")
            if isinstance(known, dict) and "" not in self.variables:
                kind, own = f"the rules {', '.join(named)}", ", ".join(self.variables)
            raise CernisError(f"{where}: these are labels of {kind}, and not of {own}")
        for rule, names in self.variables.items():
            theirs = named.get(rule, names)
            if theirs != names:
                what = f"rule {rule}" if rule else "query"
                raise CernisError(
                    f"{where}: these are labels of another {what}: its variables are "
                    f"{', '.join(map(str, theirs))}, those of this one {', '.join(names)}"
                )


def _unwrap(by_rule: Mapping[str, Any]) -> Any:
    return by_rule[""] if "" in by_rule else dict(by_rule)


@dataclass
class LabelFile(Labels):
    """Labels in a file; `add` appends one to it."""

    path: Path = Path()

    @classmethod
    def open(cls, path: Path, found: FoundMatches) -> LabelFile:
        """Read a file of labels, or begin one."""
        try:
            text = path.read_text(encoding="utf-8") if path.exists() else None
        except UnicodeDecodeError as error:
            raise CernisError(f"{path}: not UTF-8 text at byte {error.start}") from None
        except OSError as error:
            raise CernisError(
                f"{path}: cannot be read as labels: {error.strerror or error}"
            ) from None
        own = cls.of(found, text, str(path))
        own.path = path
        if not text:
            path.write_text(json.dumps(own.head, ensure_ascii=False) + "\n", encoding="utf-8")
        return own

    def add(self, id_: str, label: Label, match: Match, stratum: str) -> None:
        """Keep a label, in memory and in the file."""
        record = {**write_match(id_, match, stratum), "label": label}
        self.labels[id_] = record
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False, default=str) + "\n")


def write_match(id_: str, match: Match, stratum: str) -> dict[str, Any]:
    """Return what a line has beside the label."""
    held = {name: list(rows) for name, rows in match.vars.items()}
    return {"id": id_, "start": match.start, "end": match.end, "vars": held, "stratum": stratum}


# -------------------------------------------------------------------------- samples


@dataclass(frozen=True)
class DrawnMatch:
    """A match of a sample: its id, and the stratum that it was drawn from."""

    id: str
    stratum: str
    match: Match
    rule: str = ""


@dataclass(frozen=True)
class _StratumPart:
    """The matches of a rule in a stratum: all of them, or those of some ends."""

    rule: str
    matches: Matches
    size: int
    ends: NDArray[np.int64] | None = None

    def sample(self, k: int, seed: int | None) -> list[DrawnMatch]:
        found = self.matches.match_set
        if self.ends is not None:
            assert isinstance(found, RootedMatches | ListedMatches)
            found = found.at_ends(self.ends)
        chosen = found.sample(k, seed)
        ids = list_ids(self.matches, chosen)
        matches = self.matches.make_matches(chosen)
        return [
            DrawnMatch(_name_match(self.rule, id_), "", match, self.rule)
            for id_, match in zip(ids, matches, strict=True)
        ]


def draw_sample(
    found: FoundMatches, k: int, *, by: By | None, seed: int | None, known: Collection[str]
) -> Iterator[DrawnMatch]:
    """Yield matches without a label: `k` of a uniform sample, or as many of the strata in turn."""
    queues = []
    strata = list_strata(found, by)
    rng = random.Random(seed)
    for name, parts in strata.items():
        each = k if by is None else max(1, -(-k // len(strata)))
        fresh = [
            replace(one, stratum=name)
            for part, number in zip(parts, _share(parts, each + len(known), rng), strict=True)
            for one in part.sample(number, seed)
            if one.id not in known
        ]
        rng.shuffle(fresh)
        queues.append(fresh[:each])
    for turn in range(max(map(len, queues), default=0)):
        yield from (queue[turn] for queue in queues if turn < len(queue))


def _share(parts: Sequence[_StratumPart], k: int, rng: random.Random) -> list[int]:
    """Return how many of `k` matches of a uniform sample are of each part."""
    upto = list(accumulate(part.size for part in parts))
    if len(upto) == 1:
        return [k]
    numbers = [0] * len(upto)
    for rank in draw_ranks(upto[-1], k, rng):
        numbers[bisect_right(upto, rank)] += 1
    return numbers


def list_strata(found: FoundMatches, by: By | None) -> dict[str, list[_StratumPart]]:
    """Return the matches of each stratum by its name; those of several rules are together."""
    strata: dict[str, list[_StratumPart]] = {}
    for rule, matches in _by_rule(found).items():
        if by is None or by == "rule":
            if by is not None and not rule:
                raise CernisError("a sample by rule needs rules; this is one query")
            strata.setdefault(rule if by else "", []).append(
                _StratumPart(rule, matches, matches.count())
            )
            continue
        ends, numbers = matches.match_set.counts()
        groups: EndGroups = group_ends(matches, ends)
        names, which = (groups.keys, groups.key_of) if by == "key" else (groups.days, groups.day_of)
        if names is None or which is None:
            lack = "PARTITION BY" if by == "key" else "times that are dates"
            raise CernisError(f"{f'rule {rule}: ' if rule else ''}a sample by {by} needs {lack}")
        for number, name in enumerate(names):
            own = np.flatnonzero(which == number)
            title = name if isinstance(name, str) else ", ".join(map(str, name))
            size = sum(int(numbers[i]) for i in own.tolist())
            strata.setdefault(title, []).append(_StratumPart(rule, matches, size, ends[own]))
    return strata


# ------------------------------------------------------------------------- measures


@dataclass(frozen=True)
class Measured:
    """What labels say of the matches of a query."""

    precision: Share
    unsure: int
    missed: int
    """Real matches of the labels that this version does not find."""
    dropped: int
    """Matches that are not real, and that this version does not find."""
    unknown: int
    """Labels at ends with too many matches to look for theirs."""

    def describe(self, width: float) -> str:
        """Return the numbers, and how many labels a width takes, in a sentence each."""
        share = self.precision
        labelled = f", from {count_noun(share.labelled, 'label')}" if share.labelled else ""
        lines = [f"precision {share}{labelled}"]
        more = count_missing(share, width)
        if more:
            number = count_noun(more, "more label", "more labels")
            lines.append(f"about {number} for a width of {width:.0%}")
        if self.unsure:
            lines.append(f"{count_noun(self.unsure, 'label')} unsure, left out")
        if self.missed or self.dropped:
            lines.append(
                f"of matches labelled before, {self.missed} that are real and {self.dropped} that "
                "are not are no longer found"
            )
        if self.unknown:
            number = count_noun(self.unknown, "label")
            lines.append(f"{number} not looked up: their ends have too many matches")
        return "\n".join(lines)


def measure(found: FoundMatches, labels: Labels, by: By | None = None) -> Measured:
    """Return the precision of a query on the labels, whatever version they were given for."""
    present, unknown = find_labelled(found, labels.labels)
    strata = {
        name: [0, 0, sum(part.size for part in parts)]
        for name, parts in list_strata(found, by).items()
    }
    unsure = missed = dropped = 0
    for id_, record in labels.labels.items():
        label = record["label"]
        if id_ in unknown:
            continue
        if id_ not in present:
            missed += label == "y"
            dropped += label == "n"
        elif label == "unsure":
            unsure += 1
        else:
            own = strata.get(record.get("stratum", "") if by else "")
            if own is not None:
                own[0] += label == "y"
                own[1] += 1
    share = estimate([Stratum(real, labelled, size) for real, labelled, size in strata.values()])
    return Measured(share, unsure, missed, dropped, len(unknown))


def find_labelled(
    found: FoundMatches, labels: Mapping[str, Mapping[str, Any]]
) -> tuple[set[str], set[str]]:
    """Return the ids of labels that are matches, and of those that cannot be looked up."""
    present: set[str] = set()
    unknown: set[str] = set()
    for rule, matches in _by_rule(found).items():
        ends, numbers = matches.match_set.counts()
        rows = matches.store.rows(ends)
        pairs = zip(rows.tolist(), ends.tolist(), numbers, strict=True)
        by_row = {row: (end, int(number)) for row, end, number in pairs}
        wanted: dict[int, set[str]] = {}
        for id_, record in labels.items():
            if rule and not id_.startswith(f"{rule}/"):
                continue
            end, number = by_row.get(record["end"], (-1, 0))
            if number > MOST_AT_END:
                unknown.add(id_)
            elif number:
                wanted.setdefault(end, set()).add(id_)
        width = len(matches.match_set.variables)
        for end in sorted(wanted):
            blocks = list(matches.match_set.of_ends(np.array([end], np.int64), MOST_AT_END))
            ids = list_ids(matches, join(blocks, width))
            present |= {_name_match(rule, id_) for id_ in ids} & wanted[end]
    return present, unknown


# -------------------------------------------------------------------------- recall


def find_recall(found: FoundMatches, incidents: Any, **reading: Any) -> tuple[Share, list[int]]:
    """Return the share of known incidents that are found, and the rows of those that are not.

    An incident has `start` and `end` (or one time, `ts`), and the components of PARTITION BY that
    its file names. It is found if a match with these components ends in it.
    """
    table = _read_incidents(incidents, **reading)
    about = f"{incidents}: " if isinstance(incidents, str | Path) else ""
    names = {*table.column_names}
    first, last = ("start", "end") if {"start", "end"} <= names else ("ts", "ts")
    if first not in names:
        raise DataError(f"{about}incidents need the columns `start` and `end`, or `ts`")
    missed = {*range(table.num_rows)}
    try:
        for matches in _by_rule(found).values():
            missed -= _find_incidents(matches, table, first, last)
    except DataError as error:
        raise DataError(f"{about}{error}") from None
    number = table.num_rows
    return estimate([Stratum(number - len(missed), number, 1 << 60)]), sorted(missed)


def _find_incidents(matches: Matches, table: pa.Table, first: str, last: str) -> set[int]:
    """Return the rows of the incidents in which a match ends."""
    ends, _ = matches.match_set.counts()
    times = matches.store.times(ends)
    groups = group_ends(matches, ends)
    components = [name for name in groups.components if name in table.column_names]
    keys: list[tuple[str, ...]] = [()] * len(ends)
    if components and groups.keys is not None and groups.key_of is not None:
        indices = [groups.components.index(name) for name in components]
        written = [tuple(str(key[p]) for p in indices) for key in groups.keys]
        keys = [written[which] for which in groups.key_of.tolist()]
    by_key: dict[tuple[str, ...], list[Any]] = {}
    for key, time in sorted(zip(keys, times.to_pylist(), strict=True), key=itemgetter(1)):
        by_key.setdefault(key, []).append(time)
    low, high = (_read_times(table, name, times.type) for name in (first, last))
    named = [table.column(name).to_pylist() for name in components]
    found = set()
    for row, (begin, end) in enumerate(zip(low, high, strict=True)):
        own = by_key.get(tuple(str(column[row]) for column in named), [])
        if end < begin:
            raise DataError(f"row {row}: the incident ends before it starts")
        at = bisect_left(own, begin)
        if at < len(own) and own[at] <= end:
            found.add(row)
    return found


def _read_incidents(incidents: Any, **reading: Any) -> pa.Table:
    (source, *_) = open_events(incidents, type=None, **reading)
    pieces = [piece.table for piece in source.reader.pieces(None)]
    return pa.concat_tables(pieces) if pieces else pa.table({"ts": []})


def _read_times(table: pa.Table, name: str, type_: pa.DataType) -> list[Any]:
    """Return the times of a column in the type of the events'; an error has the first bad row."""
    column = table.column(name)
    try:
        times: list[Any] = pc.cast(column, type_).to_pylist()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        row = next((i for i in range(len(column)) if not _is_time(column[i], type_)), 0)
        raise DataError(
            f"row {row}: {name} is {column[row].as_py()!r}, no time as the events have ({type_})"
        ) from None
    if None in times:
        raise DataError(f"row {times.index(None)}: {name} is missing")
    return times


def _is_time(value: pa.Scalar, type_: pa.DataType) -> bool:
    try:
        value.cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True
