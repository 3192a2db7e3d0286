"""The versions of a rule set: which rules hold from which micro-batch on, noted in the checkpoint.

A rule set may change while its stream goes on: the query is stopped, `recognize_rules` is called
with the new rules and the same checkpoint, and the query is started again. The note in the
checkpoint's folder then says from which micro-batch on the new rules hold: the first one that Spark
has not planned yet, by its own log of offsets. A micro-batch that was planned before and did not
end runs again with the rules that it had, so each micro-batch always runs with the same rules,
whenever the process was killed. Workers get all versions that may still be needed, and choose by
the number of the micro-batch that they run.

A rule knows since which micro-batch it has run with its key. A bucket may sleep through versions: a
rule that was removed and has come back meanwhile is another one to it.

A key of rules keeps its buckets for as long as the checkpoint lives, also while no rule has it.

Turned down: a new set of rules inside the running query. Its plan is fixed when it starts, and new
rules may need other keys; and Spark calls nothing of ours between planning a micro-batch and
running it, at which the driver could record the rules, but for `foreachBatch`, which would give up
exactly-once files.

The note is the one of `checkpoint`. Does not import Spark.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyarrow import fs

from cernis.signature import Secret
from cernis.spark.keys import KeyedRules
from cernis.spark.streaming.balance import choose_balanced
from cernis.work.checkpoint import FUNCTIONS, check_same, read_note, write_note
from cernis.work.rule_record import (
    BucketGroup,
    RuleKey,
    RuleRecord,
    RuleText,
    RuleTexts,
    RuleVersion,
)
from cernis.work.side_output import open_folder

QUERY = "a rule set"
"""What the note of a rule set has in place of a query."""


def record_rules(
    folder: str | None,
    note: Mapping[str, Any],
    keyed: Sequence[KeyedRules],
    sizes: tuple[int, int],
    secret: Secret = None,
) -> RuleRecord:
    """Return the record with these rules as its last version, and write it to the checkpoint.

    `note` describes what does not change: the columns. `sizes` are the number of buckets of a new
    key, and of Spark's partitions. Without a folder there is one version.
    """
    before = None if folder is None else read_note(folder, secret)
    known = RuleRecord()
    if folder is not None and before is not None:
        check_same(folder, before, {"query": QUERY, **note})
        known = RuleRecord.from_note(folder, before)
    last = -1 if folder is None else find_last_batch(folder)
    for message in describe_moves(known, keyed, last):
        warnings.warn(message, stacklevel=4)
    record = extend_record(known, keyed, sizes, last)
    versions = None if before is None else before.get(FUNCTIONS)
    if folder is not None and (record != known or versions != note.get(FUNCTIONS)):
        write_note(folder, {"query": QUERY, **note, **record.to_note()}, secret)
    return record


def describe_moves(known: RuleRecord, keyed: Sequence[KeyedRules], batch: int) -> Iterator[str]:
    """Yield which rules lose their state, since their events go to the buckets of another key.

    `batch` is the last micro-batch that has been planned.

    >>> from cernis.run.rules.rule_set import RuleSet
    >>> rules = RuleSet.of({"a": "SELECT * WHERE A"}).rules
    >>> texts = (RuleText("a", rules[0].text),)
    >>> known = RuleRecord((BucketGroup(RuleKey((("k",),)), (0,)),), (RuleVersion(0, (texts,)),))
    >>> print(*describe_moves(known, [KeyedRules(RuleKey(), rules)], 5))
    rule a: its state is lost, and it begins anew: its events travelled by [k] and have no key now
    """
    before = {
        (rule.name, rule.text): group.key
        for version in [each for each in known.versions if each.since <= batch][-1:]
        for group, several in zip(known.groups, version.rules, strict=True)
        for rule in several
    }
    for group in keyed:
        for rule in group.rules:
            key = before.get((rule.name, rule.text), group.key)
            if key != group.key:
                lost = f"rule {rule.name}: its state is lost, and it begins anew: its events"
                was = "had no key" if key.is_single else f"travelled {key.describe()}"
                now = "have no key" if group.key.is_single else f"travel {group.key.describe()}"
                yield f"{lost} {was} and {now} now"


def find_last_batch(folder: str) -> int:
    """Return the number of the last micro-batch that Spark has planned; -1: none."""
    system, path = open_folder(folder)
    where = fs.FileSelector(f"{path}/offsets", allow_not_found=True)
    names = (info.base_name for info in system.get_file_info(where))
    return max((int(name) for name in names if name.isdecimal()), default=-1)


def extend_record(
    known: RuleRecord, keyed: Sequence[KeyedRules], sizes: tuple[int, int], last: int
) -> RuleRecord:
    """Return a record with these rules from the micro-batch after the last one on."""
    keys = [group.key for group in known.groups]
    new = [keys_.key for keys_ in keyed if keys_.key not in keys]
    groups = (*known.groups, *_add_groups(known.buckets, new, *sizes))
    empty: tuple[RuleTexts, ...] = ((),) * (len(groups) - len(known.groups))
    versions = [RuleVersion(each.since, (*each.rules, *empty)) for each in known.versions]
    versions = [each for each in versions if each.since <= last]  # others were never run
    before = {
        (group.key, rule.name, rule.text): rule
        for group, several in zip(groups, versions[-1].rules if versions else empty, strict=False)
        for rule in several
    }
    texts = {
        k.key: tuple(
            before.get((k.key, rule.name, rule.text), RuleText(rule.name, rule.text, last + 1))
            for rule in k.rules
        )
        for k in keyed
    }
    rules = tuple(texts.get(group.key, ()) for group in groups)
    if not versions or versions[-1].rules != rules:
        versions.append(RuleVersion(last + 1, rules))
    needed = [i for i, each in enumerate(versions) if each.since <= last][-1:]
    return RuleRecord(groups, tuple(versions[needed[0] if needed else 0 :]))


def _add_groups(
    taken: Sequence[int], keys: Sequence[RuleKey], size: int, partitions: int
) -> Iterator[BucketGroup]:
    """Yield buckets for each key, evenly spread over Spark's partitions."""
    wanted = [1 if key.is_single else size for key in keys]
    total = len(taken) + sum(wanted)
    numbers = [n for n in choose_balanced(max(2, total), partitions) if n not in taken]
    for key, number in zip(keys, wanted, strict=True):
        yield BucketGroup(key, tuple(numbers[:number]))
        numbers = numbers[number:]
