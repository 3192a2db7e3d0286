"""Kafka at both ends of a streaming query: records become events, matches become records.

A record is one event. A record that cannot be decoded is not dropped here: its text is in a column
of its own, and `recognize(…, corrupt=UNDECODABLE)` has a policy for it. A record cannot be decoded
if it has no value or an empty one, if it is not UTF-8, or if a value does not have the type in the
schema. A missing attribute is NULL. Attributes that are not in the schema are left out, and so is
all that follows the first object in a record of JSON.

Key, partition and offset are no columns: `SELECT *` would show them in every match.

Spark writes each match to Kafka at least once: after a crash it runs the last batch again. So the
key of a record depends on the match alone, and a repeated match has the same key.

Matches are written one request at a time (`ONE_REQUEST`). A producer has five under way by
default. If the first meets a partition whose leader is not ready, as in a topic that the write
creates, and the second does not, the broker takes the second, and then refuses the first as out of
order until the producer gives up (KAFKA-15591). Larger batches make up for the wait.

Cost: each payload is decoded once, in the JVM. Rejected: decoding in Python, which moves every
record there before the irrelevant ones are found; a Kafka client of our own, since Spark's
connector keeps its offsets in the checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cernis.errors import CernisError
from cernis.spark.streaming.connector import kafka_package
from cernis.spark.unify import quote_name

Format = Literal["json", "csv", "protobuf"]

UNDECODABLE, KAFKA_TIMESTAMP = "undecodable", "kafka_timestamp"
"""The columns after the decoded ones: the payload of a record that could not be decoded, and the
time at which Kafka got the record."""

ONE_REQUEST = {
    "kafka.max.in.flight.requests.per.connection": "1",
    "kafka.batch.size": str(1 << 17),
}
"""Settings of a producer that can write to a topic while Kafka creates it."""

_WAIT_MS = 20_000  # for a topic that Kafka creates
_DECODED, _CORRUPT = "@decoded", "@corrupt"
_NO_CONNECTOR = "KAFKA_DATA_SOURCE_NOT_ENABLED"
_NO_PROTOBUF = "PROTOBUF_NOT_LOADED_SQL_FUNCTIONS_UNUSABLE"


def read_kafka(
    spark: Any,
    servers: str,
    topic: str,
    *,
    format: Format = "json",
    schema: str | None = None,
    descriptor: str | None = None,
    message: str | None = None,
    starting: str = "earliest",
    per_trigger: int | None = None,
    options: Mapping[str, str] | None = None,
) -> Any:
    """Return the records of a topic as a streaming DataFrame: the decoded columns and two more.

    `UNDECODABLE` is NULL if the record could be decoded, otherwise its payload as text, or in
    base64 after `base64:` if it is not text. `KAFKA_TIMESTAMP` can be the `time` of events that
    have no other.

    `schema` has the columns of JSON or CSV, as in `"type STRING, ts TIMESTAMP, price DOUBLE"`.
    Protobuf has its own: `descriptor` is a file that `protoc --include_imports
    --descriptor_set_out` writes, `message` the name of the type in it. `starting` is where a
    query without a checkpoint begins: `"earliest"`, `"latest"`, or offsets of partitions in
    JSON. `per_trigger` limits the records in a micro-batch. `options` are those of Spark's
    source (`kafka.security.protocol`, …) and of its decoder (`timestampFormat`, …).
    """
    options = options or {}
    of_decoder = {name: value for name, value in options.items() if not name.startswith("kafka.")}
    decoder = _make_decoder(spark, format, schema, descriptor, message, of_decoder)
    records = load_records(
        spark, servers, topic, starting=starting, per_trigger=per_trigger, options=options
    )
    return _decode(records, format, decoder)


def load_records(
    spark: Any,
    servers: str,
    topic: str,
    *,
    starting: str = "earliest",
    per_trigger: int | None = None,
    options: Mapping[str, str] | None = None,
) -> Any:
    """Return the records of a topic as they are: `value`, `partition`, `offset`, `timestamp`, …"""
    _check_starting(starting)
    settings = {"startingOffsets": starting}
    if per_trigger is not None:
        if per_trigger < 1:
            raise CernisError(f"per_trigger={per_trigger}: at least one record is needed")
        settings["maxOffsetsPerTrigger"] = str(per_trigger)
    return _load(spark, servers, topic, {**settings, **(options or {})})


def write_kafka(
    lines: Any,
    servers: str,
    topic: str,
    checkpoint: str,
    *,
    options: Mapping[str, str] | None = None,
) -> Any:
    """Return a writer that writes matches (`recognize(…, matches="lines")`) to a topic.

    The caller starts it. The value of a record is the line. Its key is the MD5 of the line, in
    which row numbers tell matches apart: a consumer that drops repeated keys has every match once.
    `checkpoint` is the folder that `recognize` was given. `options` are those of Spark's sink.

    A topic that does not exist is an error, unless Kafka creates topics for producers: then it
    creates this one now.
    """
    if "line" not in lines.columns or not lines.isStreaming:
        raise CernisError(
            "write_kafka needs the lines of a streaming query: recognize it with matches='lines'"
        )
    options = options or {}
    _load(lines.sparkSession, servers, topic, options)  # is there a connector?
    _check_topic(lines.sparkSession, servers, topic, options)
    line = F.col("line")
    writer = lines.select(F.md5(line).alias("key"), line.alias("value")).writeStream
    writer = writer.format("kafka").options(**ONE_REQUEST).options(**options)
    writer = writer.option("kafka.bootstrap.servers", servers).option("topic", topic)
    return writer.option("checkpointLocation", checkpoint)


# ------------------------------------------------------------------- topics


def _check_topic(spark: Any, servers: str, topic: str, options: Mapping[str, str]) -> None:
    """Refuse a topic that Kafka neither has nor creates: the first match may be days away.

    The driver asks as a producer does, with the settings of the producers in the executors.
    """
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:  # Spark Connect: this process need not reach Kafka
        return
    from py4j.protocol import Py4JJavaError

    settings = {"kafka.max.block.ms": str(_WAIT_MS), **options, "kafka.bootstrap.servers": servers}
    names = [name for name in settings if name.startswith("kafka.")]
    parameters = {name.removeprefix("kafka."): settings[name] for name in names}
    try:
        _ask_for_partitions(jvm, topic, parameters)
    except TypeError:  # a platform's own connector has the classes of Kafka under other names
        return
    except Py4JJavaError as error:
        raised = error.java_exception
        if not raised.getClass().getName().startswith("org.apache.kafka."):
            return
        if raised.getClass().getSimpleName() == "TimeoutException":
            raise CernisError(
                f"Kafka at {servers}: no answer, or no topic {topic!r}\n"
                "  help: check the address; create the topic if Kafka does not create topics itself"
            ) from None
        while (cause := raised.getCause()) is not None:
            raised = cause
        raise CernisError(f"Kafka, topic {topic!r}: {raised.getMessage()}") from None


def _ask_for_partitions(jvm: Any, topic: str, parameters: dict[str, str]) -> None:
    """Ask for the partitions of a topic; Kafka may create it for that."""
    given = jvm.PythonUtils.toScalaMap(parameters)
    updater = jvm.org.apache.spark.kafka010.KafkaConfigUpdater("sink", given)
    serializer = jvm.org.apache.kafka.common.serialization.ByteArraySerializer()
    producer = jvm.org.apache.kafka.clients.producer.KafkaProducer(
        updater.setAuthenticationConfigIfNeeded().build(), serializer, serializer
    )
    try:
        producer.partitionsFor(topic)
    finally:
        producer.close()


# ------------------------------------------------------------------- records


def _load(spark: Any, servers: str, topic: str, options: Mapping[str, str]) -> Any:
    """Return the records of a topic as Spark's connector gives them."""
    if not servers.strip():
        raise CernisError("no Kafka to connect to: servers= is a list as in 'host:9092,other:9092'")
    if not topic.strip():
        raise CernisError("no topic of Kafka: name it with topic=")
    reader = spark.readStream.format("kafka").options(**options)
    reader = reader.option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    try:
        records = reader.load()
        records.schema  # noqa: B018  # Spark Connect looks at it only now
    except PySparkException as error:
        if error.getCondition() == _NO_CONNECTOR:
            coordinates = kafka_package(version=spark.version)
            raise _missing_package("connector for Kafka", coordinates) from None
        raise CernisError(f"Kafka, topic {topic!r}: {_first_line(error)}") from None
    return records


def _decode(records: Any, format: Format, decoder: Callable[[Column, Column], Column]) -> Any:
    """Return the columns that a decoder finds in records, and the two that follow them."""
    value = F.col("value")
    text = F.try_validate_utf8(value.cast("string"))
    try:
        data = records.select("value", "timestamp", decoder(value, text).alias(_DECODED))
    except PySparkException as error:
        if error.getCondition() == _NO_PROTOBUF:
            coordinates = kafka_package(protobuf=True, version=records.sparkSession.version)
            raise _missing_package("decoder of protobuf", coordinates) from None
        raise CernisError(f"format={format!r}: {_first_line(error)}") from None
    fields = data.schema[_DECODED].dataType
    _check_names(fields.names)
    decoded = F.col(_DECODED)
    bad = decoded.isNull()
    if _CORRUPT in fields.names:
        bad = bad | decoded.getField(_CORRUPT).isNotNull() | (text == "")
        decoded = decoded.dropFields(quote_name(_CORRUPT))
    payload = F.coalesce(text, F.concat(F.lit("base64:"), F.base64(value)), F.lit(""))
    whole = data.select(
        decoded.alias(_DECODED),
        F.when(bad, payload).alias(UNDECODABLE),
        F.col("timestamp").alias(KAFKA_TIMESTAMP),
    )
    return whole.select(f"`{_DECODED}`.*", UNDECODABLE, KAFKA_TIMESTAMP)


def _check_starting(starting: str) -> None:
    try:
        if starting in ("earliest", "latest") or isinstance(json.loads(starting), dict):
            return
    except ValueError:
        pass
    raise CernisError(
        f"starting={starting!r}: expected 'earliest', 'latest' or the offsets of partitions in "
        'JSON, as in \'{"trades": {"0": 23, "1": -2}}\''
    )


# ------------------------------------------------------------------ decoding


def _make_decoder(
    spark: Any,
    format: Format,
    schema: str | None,
    descriptor: str | None,
    message: str | None,
    options: Mapping[str, str],
) -> Callable[[Column, Column], Column]:
    """Return a function from a payload, and its text if it has one, to a struct of the columns."""
    if format not in ("json", "csv", "protobuf"):
        raise CernisError(f"format={format!r}: expected 'json', 'csv' or 'protobuf'")
    if format == "protobuf":
        if schema is not None:
            raise CernisError("schema= is for JSON and CSV; the schema of protobuf is descriptor=")
        return _make_protobuf_decoder(descriptor, message, options)
    if descriptor is not None or message is not None:
        raise CernisError("descriptor= and message= are for format='protobuf'")
    columns = _parse_columns(spark, format, schema)
    options = {**options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    if format == "json":
        return lambda _, text: F.from_json(text, columns, options)
    ddl = ", ".join(
        f"{quote_name(field.name)} {field.dataType.simpleString()}" for field in columns
    )
    return lambda _, text: F.from_csv(text, F.lit(ddl), options)


def _parse_columns(spark: Any, format: Format, schema: str | None) -> T.StructType:
    example = "schema='type STRING, ts TIMESTAMP, price DOUBLE'"
    if schema is None or not schema.strip():
        raise CernisError(f"format={format!r} needs the columns of the payload, as in {example}")
    try:
        found = spark.createDataFrame([], schema).schema
    except PySparkException as error:
        raise CernisError(
            f"schema={schema!r}: {_first_line(error)}\n"
            f"  help: columns with their types, as in {example}"
        ) from None
    _check_names(found.names)
    return T.StructType([*found.fields, T.StructField(_CORRUPT, T.StringType())])


def _make_protobuf_decoder(
    descriptor: str | None, message: str | None, options: Mapping[str, str]
) -> Callable[[Column, Column], Column]:
    from pyspark.sql.protobuf.functions import from_protobuf

    if descriptor is None or message is None:
        raise CernisError(
            "format='protobuf' needs descriptor=, the file that protoc --descriptor_set_out "
            "writes, and message=, the name of the type in it"
        )
    try:
        with open(descriptor, "rb") as file:
            types = file.read()
    except OSError as error:
        raise CernisError(f"descriptor={descriptor!r}: {error.strerror or error}") from None
    # a message of proto3 leaves out values that equal their default; they are not NULL
    options = {"emit.default.values": "true", **options, "mode": "PERMISSIVE"}
    return lambda value, _: from_protobuf(
        value, message, options=options, binaryDescriptorSet=types
    )


def _check_names(names: list[str]) -> None:
    for name in names:
        if name.lower() in (UNDECODABLE, KAFKA_TIMESTAMP):
            raise CernisError(f"the column name {name!r} is taken: rename it in the payload")


def _missing_package(what: str, coordinates: str) -> CernisError:
    """Return the error of a session without a package, with the setting that adds it."""
    return CernisError(
        f"this session of Spark has no {what}\n"
        f"  help: start it with spark.jars.packages set to {coordinates}"
    )


def _first_line(error: PySparkException) -> str:
    """Return the first line of Spark's message."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "refused")
