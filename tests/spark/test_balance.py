"""The numbers of buckets: by Spark's own hash, evenly over its partitions."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from pyspark.sql import functions as F

from cernis.spark.streaming.balance import choose_balanced, hash_integers


def test_the_hash_of_integers_is_that_of_spark(spark: Any) -> None:
    numbers = np.array([0, 1, 2, 41, 65_535, 2**31 - 1])
    rows = spark.createDataFrame([(int(n),) for n in numbers], "n INT").select(F.hash("n"))
    assert hash_integers(numbers).tolist() == [row[0] for row in rows.collect()]


@pytest.mark.parametrize(("number", "partitions"), [(1, 4), (4, 4), (8, 2), (3, 200), (200, 7)])
def test_buckets_are_spread_evenly_over_partitions(number: int, partitions: int) -> None:
    buckets = choose_balanced(number, partitions)
    assert len({*buckets}) == number
    shares = Counter((hash_integers(np.array(buckets)) % partitions).tolist())
    assert max(shares.values()) == -(-number // partitions)
