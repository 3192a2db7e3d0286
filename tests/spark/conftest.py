"""One Spark session for all tests that ask for one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from cernis.spark.local.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


QUICK = "-XX:TieredStopAtLevel=1"  # Java need not optimize what runs for seconds


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    settings = {
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.extraJavaOptions": QUICK,
        # without checksums: Hadoop starts a process for each file that it makes
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    }
    session = local_session(2, memory="1g", conf=settings)
    yield session
    session.stop()
