"""A real Kafka for the tests, with Spark's connector, which Cernis fetches as for `cernis stream`.

Where the Java registry cannot be reached, these tests fail, unless `CERNIS_WITHOUT=kafka` leaves
them out.

Spark is the session that runs in this process already, if there is one. Its class loader gets the
jars that `spark.jars` gives to a session at its start.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from broker import BROKER, Broker, Topics, add_jars, find_broker

from cernis.errors import CernisError
from cernis.spark.local.session import local_session
from cernis.spark.streaming.connector import Connector, fetch_connector
from tools.cases.missing import report_missing

SMALL = {
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}


@pytest.fixture(scope="session")
def broker_jars() -> Path:
    folder = find_broker()
    if folder is None:
        names = " or ".join(BROKER)
        report_missing("kafka", f"the Java registry cannot be reached, or has no {names}")
    return folder


@pytest.fixture(scope="session")
def launched(broker_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that may not answer yet: Spark starts meanwhile."""
    broker = Broker(broker_jars, tmp_path_factory.mktemp("kafka"))
    broker.launch()
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def session() -> Any:
    """Spark as it is, with the connector or without."""
    return local_session(2, memory="1g", conf=SMALL)  # ends with this process


@pytest.fixture(scope="session")
def connector() -> Connector:
    try:
        connector = fetch_connector()
    except CernisError as error:
        report_missing("kafka", str(error))
    if connector.note is not None:
        warnings.warn(connector.note, stacklevel=1)
    return connector


@pytest.fixture(scope="session")
def connected(session: Any, connector: Connector) -> Any:
    """Spark with the connector."""
    add_jars(session, connector.jars)
    return session


@pytest.fixture
def spark(connected: Any) -> Iterator[Any]:
    before = connected.conf.get("spark.sql.shuffle.partitions")
    connected.conf.set("spark.sql.shuffle.partitions", "2")
    yield connected
    for query in connected.streams.active:  # of a test that failed
        query.stop()
    connected.conf.set("spark.sql.shuffle.partitions", before)


@pytest.fixture
def topics(launched: Broker, spark: Any) -> Topics:
    launched.wait()
    return Topics(spark, launched)


@pytest.fixture
def created_topics(broker_jars: Path, spark: Any, tmp_path: Path) -> Iterator[Topics]:
    """The topics of a broker that creates those that a producer asks for, with many partitions."""
    changes = {"auto_create_topics_enable": "true", "num_partitions": "100"}
    broker = Broker(broker_jars, tmp_path, **changes)
    broker.launch()
    try:
        broker.wait()
        yield Topics(spark, broker)
    finally:
        broker.stop()


@pytest.fixture
def protobuf(spark: Any) -> None:
    """The decoder of protobuf."""
    try:
        add_jars(spark, fetch_connector(protobuf=True).jars)
    except CernisError as error:  # not every version of Spark has its decoder in the registry
        pytest.skip(str(error))
