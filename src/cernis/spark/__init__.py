"""Cernis on Spark: `cernis.spark.recognize(df, query)` gives the matches as a DataFrame.

`cernis.spark.recognize_graphs(spark, query, files)` does so for SPAseQ over RDF streams.

The only part of the package that knows of Spark. A name is loaded when it is first used: Spark's
Python workers load `worker` and nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cernis.spark.explanation import explain
    from cernis.spark.local.session import session
    from cernis.spark.notes import Notes
    from cernis.spark.rdf.explanation import explain_graphs
    from cernis.spark.rdf.recognize import recognize_graphs
    from cernis.spark.rdf.source import RdfDataSource
    from cernis.spark.rdf.texts import parse_graphs
    from cernis.spark.recognition import recognize, recognize_rules, recognizer
    from cernis.spark.statement import match_recognize, sql
    from cernis.spark.streaming.connector import kafka_package
    from cernis.spark.streaming.kafka import UNDECODABLE, read_kafka, write_kafka
    from cernis.spark.streaming.progress import progress_of, watch
    from cernis.spark.table_function import register
    from cernis.work.progress import Progress

__all__ = [
    "UNDECODABLE",
    "Notes",
    "Progress",
    "RdfDataSource",
    "explain",
    "explain_graphs",
    "kafka_package",
    "match_recognize",
    "parse_graphs",
    "progress_of",
    "read_kafka",
    "recognize",
    "recognize_graphs",
    "recognize_rules",
    "recognizer",
    "register",
    "session",
    "sql",
    "watch",
    "write_kafka",
]

_MODULES = {
    "UNDECODABLE": "streaming.kafka",
    "Notes": "notes",
    "Progress": "streaming.progress",
    "RdfDataSource": "rdf.source",
    "explain": "explanation",
    "explain_graphs": "rdf.explanation",
    "kafka_package": "streaming.connector",
    "match_recognize": "statement",
    "parse_graphs": "rdf.texts",
    "progress_of": "streaming.progress",
    "read_kafka": "streaming.kafka",
    "recognize": "recognition",
    "recognize_graphs": "rdf.recognize",
    "recognize_rules": "recognition",
    "recognizer": "recognition",
    "register": "table_function",
    "session": "local.session",
    "sql": "statement",
    "watch": "streaming.progress",
    "write_kafka": "streaming.kafka",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"cernis.spark.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
