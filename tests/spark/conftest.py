"""One Spark session for all tests that ask for one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from cernis.spark.local.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = local_session(2, memory="1g", conf={"spark.sql.shuffle.partitions": "4"})
    yield session
    session.stop()
