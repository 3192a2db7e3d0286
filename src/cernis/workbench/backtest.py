"""`backtest`: run rules over a history and as a stream, and report what a person would have seen.

The stream reads the same events one after the other. Its alerts are those of the run over the
history, and the report says whether they are. Alerts that a stream has delivered are compared with
those of the history on the time that both have: by rule, times, key and values, because rows are
numbered in each input. What SUPPRESS would save is counted by running each rule that has a key and
no SUPPRESS with it.

Cost contract: two runs and a stream; alerts are kept as lines, because they are compared one by
one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from cernis.errors import CernisError
from cernis.events.reading.files import stem_of
from cernis.integers import count_noun
from cernis.pattern.query import Consume, Pattern, Suppression
from cernis.results.matches import Matches
from cernis.run.query import Query
from cernis.run.rules.rule_set import RuleSet
from cernis.views.svg import element, write
from cernis.work.interval import parse_milliseconds
from cernis.workbench.check_case import Executor, FoundMatches, RunnableCase, list_all, run_stream
from cernis.workbench.reread import make_rereadable
from cernis.workbench.tally import MatchNumbers, tally

_SHOWN = 5


@dataclass(frozen=True)
class RuleReport:
    """The alerts of a rule; `left` is how many SUPPRESS would leave, None: it has no key."""

    alerts: MatchNumbers
    left: int | None
    missing: int | None
    """Alerts of the run that the stream does not have; None: there was no stream."""
    surplus: int | None


@dataclass(frozen=True)
class Overlap:
    """Alerts that a stream has delivered, beside those of the history in the same time."""

    first: Any
    last: Any
    alerts: int
    """Of the history."""
    missing: int
    surplus: int


@dataclass(frozen=True)
class Backtest:
    """The alerts of all rules on a history, and whether the stream agrees."""

    rules: Mapping[str, RuleReport]
    length: str
    """For how long SUPPRESS is tried."""
    overlap: Overlap | None = None

    @property
    def agrees(self) -> bool:
        """Whether the stream found what the run found; True without a stream."""
        compared: list[RuleReport | Overlap] = [*self.rules.values()]
        compared += [] if self.overlap is None else [self.overlap]
        return not any(each.missing or each.surplus for each in compared)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "agrees": self.agrees,
            "overlap": None if self.overlap is None else asdict(self.overlap),
            "rules": {
                name: {
                    "alerts": each.alerts.total,
                    "by_day": each.alerts.days,
                    "by_key": None
                    if each.alerts.keys is None
                    else [{"key": list(k), "alerts": n} for k, n in _list_noisiest(each, None)],
                    "with_suppress": each.left,
                    "missing_on_stream": each.missing,
                    "surplus_on_stream": each.surplus,
                }
                for name, each in self.rules.items()
            },
        }

    def __str__(self) -> str:
        lines = []
        for name, each in self.rules.items():
            alerts = each.alerts
            per_day = "" if alerts.per_day is None else f", {alerts.per_day:.3g} per day"
            lines.append(f"rule {name}: {count_noun(alerts.total, 'alert')}{per_day}")
            if alerts.days:
                most = sorted(alerts.days.items(), key=lambda pair: (-pair[1], pair[0]))[:_SHOWN]
                lines.append("  days: " + ", ".join(f"{day} {n:,}" for day, n in most))
            if noisiest := _list_noisiest(each, _SHOWN):
                told = (f"{', '.join(map(str, key))} {n:,}" for key, n in noisiest)
                lines.append("  noisiest keys: " + "; ".join(told))
            if each.left is not None and each.left < alerts.total:
                saved = alerts.total - each.left
                lines.append(
                    f"  SUPPRESS FOR {self.length} would save {saved:,}, and leave {each.left:,}"
                )
        checked = [each for each in self.rules.values() if each.missing is not None]
        if checked and not any(each.missing or each.surplus for each in checked):
            number = count_noun(sum(each.alerts.total for each in checked), "alert")
            lines.append(f"the stream agrees: {number}")
        for name, each in self.rules.items():
            if each.missing or each.surplus:
                lines.append(
                    f"the stream disagrees in rule {name}: {each.missing:,} missing, "
                    f"{each.surplus:,} more"
                )
        if self.overlap is not None:
            lines.append(_write_overlap(self.overlap))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return element("pre", write(str(self)))


def _write_overlap(overlap: Overlap) -> str:
    if overlap.first is None:
        return "the delivered alerts and the history have no time in common"
    where = f"from {overlap.first} to {overlap.last}"
    if not overlap.missing and not overlap.surplus:
        return f"delivered alerts agree {where}: {count_noun(overlap.alerts, 'alert')}"
    return (
        f"delivered alerts disagree {where}: {overlap.missing:,} missing, {overlap.surplus:,} more"
    )


def _list_noisiest(report: RuleReport, most: int | None) -> list[tuple[tuple[Any, ...], int]]:
    keys = report.alerts.keys or {}
    return sorted(keys.items(), key=lambda pair: (-pair[1], str(pair[0])))[:most]


def backtest(
    rules: RuleSet,
    events: Any,
    *,
    batch: Executor | None = None,
    stream: bool = True,
    suppress: str = "1h",
    delivered: Path | None = None,
    **options: Any,
) -> Backtest:
    """Run rules over a history, and as a stream; `batch` runs the history elsewhere than here.

    `delivered` is a file or folder of JSON lines that `cernis stream` has written.
    """
    events = make_rereadable(events)
    length = Fraction(parse_milliseconds("suppress", suppress)) * 1_000_000
    found = rules.run(events, **options)
    over_history: Mapping[str, FoundMatches] | None = None
    streamed: Mapping[str, FoundMatches] | None = None
    if stream:
        if any(rule.query.conjunctive is not None for rule in rules):
            raise CernisError(
                "a conjunctive query is not compared with a stream: --no-stream (stream=False)"
            )
        case = RunnableCase(None, rules, _name_streams(events), dict(options))
        named = _take_reading(options)
        streamed = run_stream(replace(case, options=named))
        over_history = {name: list_all(own) for name, own in found.items()}
        if batch is not None:
            over_history = batch(replace(case, events=_name_streams(events)))
    suppressed = {
        name: quiet
        for name, own in found.items()
        if isinstance(own, Matches) and own.store.is_timed
        if (quiet := _add_suppress(rules[name].pattern, length)) is not None
    }
    kept = {rule.name: suppressed.get(rule.name, rule.query.pattern) for rule in rules}
    left: Mapping[str, Any] = {}
    if suppressed:  # rules run together: some may read what others insert
        quiet_rules = RuleSet.of({name: Query(pattern) for name, pattern in kept.items()})
        left = quiet_rules.run(events, **options)
    reports = {}
    for name, own in found.items():
        missing = surplus = None
        if streamed is not None and over_history is not None:
            one, other = (_count_lines(each[name]) for each in (over_history, streamed))
            missing, surplus = (one - other).total(), (other - one).total()
        total = tally(left[name]).total if name in suppressed else None
        reports[name] = RuleReport(tally(own), total, missing, surplus)
    overlap = None if delivered is None else _compare_delivered(found, delivered)
    return Backtest(reports, suppress, overlap)


def _compare_delivered(found: Mapping[str, Any], delivered: Path) -> Overlap:
    """Compare alerts on the time from the first to the last alert that both may have."""
    mine = [
        (name, json.loads(line))
        for name, own in found.items()
        for batch in own.lines()
        for line in batch.column("line").to_pylist()
    ]
    only = next(iter(found)) if len(found) == 1 else ""
    theirs = [(line.get("rule", only), line) for line in _read_lines(delivered)]
    if not mine or not theirs:
        return Overlap(None, None, 0, 0, 0)
    try:
        first = max(min(line["start_ts"] for _, line in each) for each in (mine, theirs))
        last = min(max(line["end_ts"] for _, line in each) for each in (mine, theirs))
        counted = [
            Counter(
                json.dumps([name, *map(line.get, _IDENTITY)], sort_keys=True)
                for name, line in each
                if first <= line["start_ts"] and line["end_ts"] <= last
            )
            for each in (mine, theirs)
        ]
    except (KeyError, TypeError):
        raise CernisError(f"{delivered}: its alerts lack the times of the events") from None
    if last < first:
        return Overlap(None, None, 0, 0, 0)
    missing, surplus = (counted[0] - counted[1]).total(), (counted[1] - counted[0]).total()
    return Overlap(first, last, counted[0].total(), missing, surplus)


_IDENTITY = ("start_ts", "end_ts", "partition", "values")


def _read_lines(path: Path) -> list[dict[str, Any]]:
    paths = sorted(path.rglob("*.json*")) if path.is_dir() else [path]
    if not paths:
        raise CernisError(f"{path}: no JSON lines; cernis stream writes them with --output-format")
    lines: list[dict[str, Any]] = []
    for each in paths:
        for number, text in enumerate(each.read_text(encoding="utf-8").splitlines(), 1):
            try:
                line = json.loads(text)
            except json.JSONDecodeError as error:
                raise CernisError(f"{each}, line {number}: no JSON: {error.msg}") from None
            if not isinstance(line, dict):
                raise CernisError(f"{each}, line {number}: expected an object")
            lines.append(line)
    return lines


def _take_reading(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _name_streams(events: Any) -> Any:
    """Return events as a stream's run takes them: one path, or paths by the name of the stream."""
    if not isinstance(events, Sequence) or not all(isinstance(each, Path) for each in events):
        return events
    if len(events) == 1:
        return events[0]
    named = {stem_of(path): path for path in events}
    if len(named) < len(events):
        raise CernisError("name the streams of these files apart, as NAME=FILE, or use --no-stream")
    return named


def _count_lines(found: FoundMatches) -> Counter[str]:
    return Counter(json.dumps(dict(each), sort_keys=True, default=str) for each in found.matches)


def _add_suppress(pattern: Pattern, length: Fraction) -> Pattern | None:
    """Return a rule with SUPPRESS BY its key; None: it has no key, or chooses its alerts."""
    is_free = pattern.suppress is None and pattern.consume is Consume.NONE and pattern.order is None
    if not pattern.partition or not is_free or pattern.grouping is not None or pattern.into:
        return None
    quiet = Suppression(tuple(pattern.components), length)
    return replace(pattern, suppress=quiet, qualified=(), spans={}, source="")
