"""`cernis run` and `explain` for rule sets, on Spark: one job for all rules.

Tasks write the matches of all rules to files, which this process merges (`spark.files.merge`), rule
after rule, as without Spark. Another job counts the matches, and lists none.

The rules, the files and the output are checked before Spark starts, which takes seconds.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cernis.cli.arguments import Delivery, RunArguments
from cernis.cli.events_on_spark import EventRun, load_frames, make_job_options, narrow_integers
from cernis.cli.rules import CountedRule, FoundByRules, Shares, deliver, list_notes
from cernis.cli.terminal import print_notes, spinner
from cernis.errors import StrictError, list_warnings
from cernis.results.of_rules import name_rules
from cernis.run.metrics import SessionMetrics
from cernis.run.rules.explain import describe_silence
from cernis.run.rules.rule import Rule
from cernis.run.rules.rule_set import RuleSet
from cernis.spark.carriers import convert
from cernis.spark.files.check import check_rule_files
from cernis.spark.keys import explain_rules
from cernis.spark.rule_worker import ORDER

if TYPE_CHECKING:
    from cernis.spark.files.load import FileFrames
    from cernis.spark.files.merge import MatchFiles
    from cernis.spark.prepare import RuleJob


def run(source: str | Path, arguments: RunArguments, delivery: Delivery) -> None:
    """Find the matches of all rules in files, and deliver them."""
    rules, on_error = RuleSet.of(source), arguments.on_error
    sources = check_rule_files(rules, arguments.files, on_error=on_error, **arguments.reading)
    queries = [rule.query for rule in rules]
    with load_frames(sources, queries, on_error) as frames, ExitStack() as stack:
        found = _FoundOnSpark(rules, frames, arguments, stack)
        deliver(found, delivery)
        pairs = ((rule, _list_notes(rule, found, frames, arguments)) for rule in rules)
        notes = list_notes(pairs, common=frames.notes)
    if arguments.strict and (warnings := list_warnings(notes)):
        raise StrictError(warnings)
    print_notes(notes)


def explain(source: str | Path, arguments: RunArguments) -> str:
    """Explain what the rules share, and in which shuffles their events travel.

    With events, a job counts: which rules take most of the time, and which find nothing.
    """
    rules, on_error = RuleSet.of(source), arguments.on_error
    shared = explain_rules(rules)
    if not arguments.files:
        return shared
    sources = check_rule_files(rules, arguments.files, on_error=on_error, **arguments.reading)
    queries = [rule.query for rule in rules]
    with load_frames(sources, queries, on_error) as frames, ExitStack() as stack:
        found = _FoundOnSpark(rules, frames, arguments, stack)
        numbers = {each.rule: each.numbers for each in found.count() if each.numbers is not None}
        silent = []
        for rule in rules:
            if not found.matches[rule.name]:
                notes = list_warnings([*_list_notes(rule, found, frames, arguments)])
                silent.append((rule.name, describe_silence(rule, numbers[rule.name].events, notes)))
    return "\n".join([shared, *rules.explain_run(numbers, silent)])


class _FoundOnSpark(FoundByRules):
    """What rules find in one job."""

    def __init__(
        self, rules: RuleSet, frames: FileFrames, arguments: RunArguments, stack: ExitStack
    ) -> None:
        """`stack` deletes the files of the tasks."""
        self.names = rules.names
        self.rules, self.frames, self.arguments = rules, frames, arguments
        self.matches = Counter[str]()
        """How many matches each rule has, of those that were wanted."""
        self._stack = stack

    def count(self) -> Sequence[CountedRule]:
        from cernis.spark.batch import recognize_rule_batch

        with spinner("running on Spark"):
            rows = recognize_rule_batch(self._prepare(matches="measures")).toArrow().to_pylist()
        own: dict[str, list[dict[str, Any]]] = {name: [] for name in self.rules.names}
        for row in rows:
            own[row["rule"]].append(json.loads(row["numbers"]))
        for name, parts in own.items():
            self.matches[name] = sum(int(part["matches"]) for part in parts)
        return [CountedRule(name, self.matches[name], _add_up(own[name])) for name in own]

    def list_lines(self, delivery: Delivery) -> Shares:
        text = "whole" if delivery.events else "named"
        job = self._prepare(matches="lines", text=text, placed=True, limit=delivery.limit)
        for name, table in self._merge(self._find(job, delivery), delivery.limit):
            for lines in table.column("line").chunks:
                yield name, pc.binary_join_element_wise(lines, "", "\n")

    def list_tables(self, delivery: Delivery) -> tuple[pa.Schema, Shares]:
        form, text = "flat" if delivery.form == "csv" else "events", "named"
        if form == "flat" and delivery.events:
            text = "whole"
        job = self._prepare(matches=form, text=text, placed=True, limit=delivery.limit)
        united, files = job.work.united, self._find(job, delivery)
        assert united is not None
        named = pa.schema([*name_rules(united)][1:])
        exact = [each.name for each in named if pa.types.is_decimal(each.type)]
        types = narrow_integers(named, exact, files).types
        schema = pa.schema([*zip(united.names, types, strict=True)])

        def list_parts() -> Shares:
            for name, table in self._merge(files, delivery.limit):
                pairs = zip(named.names, types, strict=True)
                columns = [convert(table.column(own), type_) for own, type_ in pairs]
                yield name, pa.table(columns, schema=schema)

        return schema, list_parts()

    def _prepare(self, **options: Any) -> RuleJob:
        from cernis.spark.options import JobOptions
        from cernis.spark.prepare import prepare_rule_job

        options |= {**make_job_options(self.arguments, self.frames), **self.arguments.limits}
        return prepare_rule_job(self.frames.frames, self.rules, JobOptions(**options))

    def _find(self, job: RuleJob, delivery: Delivery) -> MatchFiles:
        """Have the tasks write the matches of all rules to files."""
        from cernis.spark.batch import recognize_rule_batch
        from cernis.spark.files.merge import write_matches

        output = delivery.output or "-"
        folder = Path(tempfile.gettempdir()) if output == "-" else Path(output).absolute().parent
        found, schema = recognize_rule_batch(job), job.work.schema
        assert schema is not None
        with spinner("running on Spark"):
            return self._stack.enter_context(write_matches(found, schema, ORDER, folder, sort=True))

    def _merge(self, files: MatchFiles, limit: int | None) -> Iterator[tuple[str, pa.Table]]:
        """Yield the first matches of each rule, in the order of this process."""
        for table in files.merge():
            numbers = np.asarray(table.column(ORDER[0]))
            bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
            for first, last in pairwise(bounds):
                if first == last:
                    continue
                name = self.rules.names[int(numbers[first])]
                left = None if limit is None else limit - self.matches[name]
                own = table.slice(first, last - first).slice(0, left)
                self.matches[name] += len(own)
                if len(own):
                    yield name, own


def _add_up(parts: Sequence[Mapping[str, Any]]) -> SessionMetrics:
    """Return the numbers of a rule in all tasks."""
    seconds = Counter[str]()
    for part in parts:
        seconds.update(part["seconds"])
    names = [name for name in SessionMetrics.__slots__ if name != "seconds"]
    sums = {name: sum(part[name] for part in parts) for name in names}
    return SessionMetrics(**sums, seconds=dict(seconds))


def _list_notes(
    rule: Rule, found: _FoundOnSpark, frames: FileFrames, arguments: RunArguments
) -> Iterator[str]:
    """Yield remarks on a rule; the types of derived events are not known here."""
    streams, made = rule.query.pattern.streams, {each.query.pattern.into for each in found.rules}
    own = {name: df for name, df in frames.frames.items() if not streams or name in streams}
    run = EventRun(rule.query, replace(frames, frames=own), arguments, reads_again=False)
    yield from run.notes_of(found.matches[rule.name], warns=made.isdisjoint(streams))
