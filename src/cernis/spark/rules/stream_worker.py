"""`RuleStreamWork`: the work of the buckets of a rule set.

A bucket has the rules of one key. Their session changes with the rules of the micro-batch
(`versions`). A row travels to one bucket for each key whose rules it can move, and one of these
buckets counts it.

Does not import Spark.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from cernis.spark.rules.versions import RuleRecord
from cernis.spark.rules.worker import RuleRecognizer, RuleWork
from cernis.spark.streaming.work import RowWork, StreamRecognizer, drop_column
from cernis.spark.worker import HOME, RowReading

_STRIDE = 1 << 12
"""There are fewer buckets than this. Their number may grow, and numbers of rows differ."""


@dataclass(frozen=True, kw_only=True)
class RuleStreamWork(RowWork):
    """The work for rules over rows."""

    work: RuleWork
    record: RuleRecord

    @property
    def rows(self) -> RowReading:
        return self.work

    @property
    def stride(self) -> int:
        return _STRIDE

    @property
    def schema(self) -> pa.Schema:
        return self.work.schema

    def open(self, frozen: bytes | None = None) -> RuleRecognizer:
        return RuleRecognizer(self.work, frozen)

    def identify(self, bucket: int) -> str:
        key = self.record.groups[self.record.find_group(bucket)].key
        return f"{self.query}.{hashlib.sha256(repr(key).encode()).hexdigest()[:8]}"

    def continues(self, other: Self) -> bool:
        """Not where the tables are others that rules join."""
        return self.work.reading == other.work.reading

    def revise(self, recognizer: StreamRecognizer, bucket: int, batch: int) -> str:
        """Give a session the rules of a micro-batch, which read the events that it releases."""
        assert isinstance(recognizer, RuleRecognizer)
        texts = self.record.find_version(batch).rules[self.record.find_group(bucket)]
        if recognizer.texts == texts:
            return ""
        recognizer.update(texts)
        return repr(texts)

    @property
    def has_rules(self) -> bool:
        return True

    def describe_rules(self, recognizer: StreamRecognizer) -> str:
        assert isinstance(recognizer, RuleRecognizer)
        return recognizer.list_numbers()

    def select_events(self, table: pa.Table) -> pa.Table:
        """Return the events that are counted here, and not in a bucket of another key."""
        return table.filter(table.column(HOME)) if HOME in table.column_names else table

    def number_rows(self, table: pa.Table, first: int, place: int) -> pa.Table:
        return super().number_rows(drop_column(table, HOME), first, place)
