"""`RuleRecord`: which rules of a stream hold from which micro-batch on, and in which buckets.

A checkpoint has it in its note (`streaming.versions`), and workers get it with their work. Rules
travel as text. Does not import Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from cernis.errors import StateError


class RuleKey(NamedTuple):
    """The key that rules share: attributes of PARTITION BY, or one for each type of event."""

    partition: tuple[tuple[str, ...], ...] = ()
    implied: tuple[tuple[str, str], ...] = ()

    @property
    def is_single(self) -> bool:
        """Whether there is none: one bucket has all events."""
        return not self.partition and not self.implied

    def describe(self) -> str:
        """Return the key in words.

        >>> RuleKey((("a", "b"), ("c",))).describe(), RuleKey().describe()
        ('by [a, b], [c]', 'no key')
        """
        if self.is_single:
            return "no key"
        if self.partition:
            return "by " + ", ".join(f"[{', '.join(group)}]" for group in self.partition)
        return "by " + ", ".join(f"{name} of {kind}" for kind, name in self.implied)


class RuleText(NamedTuple):
    """A rule as it travels."""

    name: str
    text: str
    since: int = 0
    """The micro-batch since which it has run: one that comes back is another rule."""


RuleTexts = tuple[RuleText, ...]


class BucketGroup(NamedTuple):
    """The buckets of the rules of one key."""

    key: RuleKey
    buckets: tuple[int, ...]


class RuleVersion(NamedTuple):
    """The rules from one micro-batch on, for each group of buckets."""

    since: int
    rules: tuple[RuleTexts, ...]


class RuleRecord(NamedTuple):
    """The groups of buckets of a checkpoint, and the versions that may still be needed."""

    groups: tuple[BucketGroup, ...] = ()
    versions: tuple[RuleVersion, ...] = ()

    @property
    def buckets(self) -> tuple[int, ...]:
        """The buckets of all groups."""
        return tuple(number for group in self.groups for number in group.buckets)

    def find_group(self, bucket: int) -> int:
        """Return the group of a bucket."""
        return next(i for i, group in enumerate(self.groups) if bucket in group.buckets)

    def find_version(self, batch: int) -> RuleVersion:
        """Return the version of a micro-batch.

        >>> record = RuleRecord((), (RuleVersion(0, ()), RuleVersion(7, ())))
        >>> record.find_version(6).since, record.find_version(7).since
        (0, 7)
        """
        return [each for each in self.versions if each.since <= batch][-1]

    def find_rules(self, bucket: int, batch: int) -> RuleTexts:
        """Return the rules of a bucket in a micro-batch."""
        return self.find_version(batch).rules[self.find_group(bucket)]

    def to_note(self) -> dict[str, Any]:
        """Return the record for the note of a checkpoint."""
        groups = [{**group.key._asdict(), "buckets": group.buckets} for group in self.groups]
        return {"groups": groups, "versions": [each._asdict() for each in self.versions]}

    @classmethod
    def from_note(cls, folder: str, note: Mapping[str, Any]) -> RuleRecord:
        """Read the record in the note of a checkpoint."""
        try:
            groups = tuple(
                BucketGroup(
                    RuleKey(_tuples(group["partition"]), _tuples(group["implied"])),
                    tuple(map(int, group["buckets"])),
                )
                for group in note["groups"]
            )
            versions = tuple(
                RuleVersion(int(each["since"]), tuple(map(_read_texts, each["rules"])))
                for each in note["versions"]
            )
        except (LookupError, TypeError, ValueError) as error:
            raise StateError(f"{folder}: the note of the checkpoint is damaged: {error}") from error
        return cls(groups, versions)


def _read_texts(written: Sequence[Sequence[Any]]) -> RuleTexts:
    return tuple(RuleText(str(name), str(text), int(since)) for name, text, since in written)


def _tuples(lists: Sequence[Sequence[str]]) -> tuple[Any, ...]:
    return tuple(tuple(each) for each in lists)
