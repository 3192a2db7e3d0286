"""Kafka at both ends of a streaming query: records become events, matches become records.

A record is one event. What cannot be decoded is not dropped here: it is text in a column of its
own, for `recognize(…, corrupt=UNDECODABLE)`, which has a policy for it. A record without a value,
an empty one, one that is no UTF-8 or has a value of another type than the schema's cannot be
decoded; attributes that are missing are NULL, and others than the schema's are left out, as is
what follows the first object in a record of JSON.

Key, partition and offset are no columns: `SELECT *` would show them in every match.

A match is written with a key that is the same whenever it is written, since Kafka as a sink of
Spark's gives every match at least once: a batch that is run again after a crash is written again.

Cost: each payload is decoded once, in the JVM. Turned down: decoding in Python, which has to move
every record there before one is found irrelevant; a Kafka client of our own, since Spark's
connector has its offsets in the checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cernis.errors import CernisError
from cernis.spark.frame import quote_name

Format = Literal["json", "csv", "protobuf"]

UNDECODABLE, KAFKA_TIMESTAMP = "undecodable", "kafka_timestamp"
"""The columns after the decoded ones: the payload if it could not be decoded, as text; when
Kafka got the record."""

_DECODED, _CORRUPT = "@decoded", "@corrupt"
_SCALA = "2.13"  # Spark 4 has no other
_NO_CONNECTOR = "KAFKA_DATA_SOURCE_NOT_ENABLED"
_NO_PROTOBUF = "PROTOBUF_NOT_LOADED_SQL_FUNCTIONS_UNUSABLE"


def kafka_package(*, protobuf: bool = False, version: str | None = None) -> str:
    """What `spark.jars.packages` has to be, for the installed version of Spark or another.

    >>> kafka_package(protobuf=True, version="4.1.0")
    'org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.0,org.apache.spark:spark-protobuf_2.13:4.1.0'
    """
    names = ["spark-sql-kafka-0-10", *(["spark-protobuf"] if protobuf else [])]
    found = version or pyspark.__version__
    return ",".join(f"org.apache.spark:{name}_{_SCALA}:{found}" for name in names)


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
    """The records of a topic as a streaming DataFrame: the decoded columns, then two more.

    `UNDECODABLE` is NULL where all is well, otherwise the payload as text (after `base64:` if it
    is none); `KAFKA_TIMESTAMP` can be the `time` of events that have no other.

    `schema` has the columns of JSON or CSV, as in `"type STRING, ts TIMESTAMP, price DOUBLE"`.
    Protobuf has its own: `descriptor` is a file that `protoc --include_imports
    --descriptor_set_out` writes, `message` the name of the type in it. `starting` is where a
    query without a checkpoint begins: `"earliest"`, `"latest"`, or offsets of partitions in
    JSON. `per_trigger` is the most records in a micro-batch. `options` are those of Spark's
    source (`kafka.security.protocol`, …) and of its decoder (`timestampFormat`, …).
    """
    options = options or {}
    told = {name: value for name, value in options.items() if not name.startswith("kafka.")}
    decoder = _decoder(spark, format, schema, descriptor, message, told)
    _check_start(starting)
    settings = {"startingOffsets": starting}
    if per_trigger is not None:
        if per_trigger < 1:
            raise CernisError(f"per_trigger={per_trigger}: at least one record is needed")
        settings["maxOffsetsPerTrigger"] = str(per_trigger)
    records = _records(spark, servers, topic, {**settings, **options})
    return _decoded(records, format, decoder)


def write_kafka(
    lines: Any,
    servers: str,
    topic: str,
    checkpoint: str,
    *,
    options: Mapping[str, str] | None = None,
) -> Any:
    """A writer of matches (`recognize(…, matches="lines")`) to a topic, to be started.

    The value of a record is the line, its key the MD5 of the line, in which row numbers tell
    matches apart: a consumer that drops keys it has seen has every match once. `checkpoint` is the
    folder that was named to `recognize`.
    """
    if "line" not in lines.columns or not lines.isStreaming:
        raise CernisError(
            "what is written to Kafka are lines of a streaming query: recognize it with "
            "matches='lines'"
        )
    _records(lines.sparkSession, servers, topic, options or {})  # is there a connector?
    line = F.col("line")
    writer = lines.select(F.md5(line).alias("key"), line.alias("value")).writeStream
    settings = {"kafka.bootstrap.servers": servers, "topic": topic}
    writer = writer.format("kafka").options(**settings, **(options or {}))
    return writer.option("checkpointLocation", checkpoint)


# ------------------------------------------------------------------- records


def _records(spark: Any, servers: str, topic: str, options: Mapping[str, str]) -> Any:
    """The records of a topic as Spark's connector gives them."""
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
        if _condition(error) == _NO_CONNECTOR:
            raise _lacking("connector for Kafka", kafka_package(version=spark.version)) from None
        raise CernisError(f"Kafka, topic {topic!r}: {_said(error)}") from None
    return records


def _decoded(records: Any, format: Format, decoder: Callable[[Column, Column], Column]) -> Any:
    value = F.col("value")
    text = F.try_validate_utf8(value.cast("string"))
    try:
        data = records.select("value", "timestamp", decoder(value, text).alias(_DECODED))
    except PySparkException as error:
        if _condition(error) == _NO_PROTOBUF:
            coordinates = kafka_package(protobuf=True, version=records.sparkSession.version)
            raise _lacking("decoder of protobuf", coordinates) from None
        raise CernisError(f"format={format!r}: {_said(error)}") from None
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


def _check_start(starting: str) -> None:
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


def _decoder(
    spark: Any,
    format: Format,
    schema: str | None,
    descriptor: str | None,
    message: str | None,
    options: Mapping[str, str],
) -> Callable[[Column, Column], Column]:
    """From a payload (and the same as text, NULL if it is none) to a struct of the columns."""
    if format not in ("json", "csv", "protobuf"):
        raise CernisError(f"format={format!r}: expected 'json', 'csv' or 'protobuf'")
    if format == "protobuf":
        if schema is not None:
            raise CernisError("schema= is for JSON and CSV; the schema of protobuf is descriptor=")
        return _of_protobuf(descriptor, message, options)
    if descriptor is not None or message is not None:
        raise CernisError("descriptor= and message= are for format='protobuf'")
    columns = _columns(spark, format, schema)
    told = {**options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    if format == "json":
        return lambda _, text: F.from_json(text, columns, told)
    ddl = ", ".join(
        f"{quote_name(field.name)} {field.dataType.simpleString()}" for field in columns
    )
    return lambda _, text: F.from_csv(text, F.lit(ddl), told)


def _columns(spark: Any, format: Format, schema: str | None) -> T.StructType:
    example = "schema='type STRING, ts TIMESTAMP, price DOUBLE'"
    if schema is None or not schema.strip():
        raise CernisError(f"format={format!r} needs the columns of the payload, as in {example}")
    try:
        found = spark.createDataFrame([], schema).schema
    except PySparkException as error:
        raise CernisError(
            f"schema={schema!r}: {_said(error)}\n  help: columns with their types, as in {example}"
        ) from None
    _check_names(found.names)
    return T.StructType([*found.fields, T.StructField(_CORRUPT, T.StringType())])


def _of_protobuf(
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
    # what equals its default is not in a message of proto3, and is not NULL for that
    told = {"emit.default.values": "true", **options, "mode": "PERMISSIVE"}
    return lambda value, _: from_protobuf(value, message, options=told, binaryDescriptorSet=types)


def _check_names(names: list[str]) -> None:
    for name in names:
        if name.lower() in (UNDECODABLE, KAFKA_TIMESTAMP):
            raise CernisError(f"the column name {name!r} is taken: rename it in the payload")


# -------------------------------------------------------------------- errors


def _lacking(what: str, coordinates: str) -> CernisError:
    return CernisError(
        f"this session of Spark has no {what}\n"
        f"  help: start it with spark.jars.packages set to {coordinates}"
    )


def _condition(error: PySparkException) -> str | None:
    found: str | None = error.getCondition()
    return found


def _said(error: PySparkException) -> str:
    """The first line of what Spark says."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "refused")
