"""The rows of one stream that travel to the workers: which, with which columns, in which bucket.

Batches and streams share these expressions. Nothing runs here.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from cernis.encoding.masks import mask_column
from cernis.plan.plan import Plan
from cernis.spark.frame import Frame
from cernis.spark.keys import has_key, implied_hash, partition_hash
from cernis.spark.layout import Layout
from cernis.spark.pushdown import Pushdown


def read_condition(
    frame: Frame, plan: Plan, layout: Layout, relevance: Column | None
) -> Column | None:
    """Return the condition under which an event is read at all; None: every event is."""
    if layout.places or layout.ranked:
        relevance = None
    if not plan.pattern.partition:
        return relevance
    keyed = has_key(frame, plan.pattern.partition)
    return keyed if relevance is None else relevance & keyed


def travelling_columns(
    frame: Frame, plan: Plan, layout: Layout, pushdown: Pushdown, columns: Mapping[str, str]
) -> list[Column]:
    """Return attributes and masks.

    Where irrelevant events travel because their places count, their attributes are NULL.
    """
    shown = pushdown.relevance[frame.stream] if layout.places or layout.ranked else None
    key = {name for group in plan.pattern.partition for name in group}
    travelling = []
    for name, column in columns.items():
        found = frame.attribute(name)
        assert found is not None
        value = found[0]
        if shown is not None and name != frame.time and name not in key:
            value = F.when(shown, value)
        travelling.append(value.alias(column))
    bits = pushdown.masks[frame.stream]
    return [*travelling, *(bit.alias(mask_column(i)) for i, bit in enumerate(bits))]


def key_bucket(frame: Frame, plan: Plan, buckets: int) -> Column:
    """Return which of so many buckets the key of an event falls into."""
    if plan.pattern.partition:
        key = partition_hash(frame, plan.pattern.partition)
    else:
        assert plan.key is not None
        key = implied_hash(frame, plan.key)
    return F.coalesce(F.pmod(key, F.lit(buckets)), F.lit(0)).cast("int")
