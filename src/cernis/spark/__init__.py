"""Cernis on Spark: `cernis.spark.recognize(df, query)` gives the matches as a DataFrame.

`cernis.spark.recognize_graphs(spark, query, files)` is the same for SPAseQ over RDF streams.

The only part of the package that knows of Spark. Its names are looked up when they are
asked for, so that Spark's Python workers, which need `worker` alone, load nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cernis.spark.explanation import explain
    from cernis.spark.graphs.job import recognize_graphs
    from cernis.spark.graphs.layout import explain_graphs
    from cernis.spark.graphs.source import RdfDataSource
    from cernis.spark.job import recognize, recognizer
    from cernis.spark.local.session import session
    from cernis.spark.streaming.kafka import read_kafka, write_kafka
    from cernis.spark.streaming.progress import Progress, progress_of, watch
    from cernis.spark.table_function import register

__all__ = [
    "Progress",
    "RdfDataSource",
    "explain",
    "explain_graphs",
    "progress_of",
    "read_kafka",
    "recognize",
    "recognize_graphs",
    "recognizer",
    "register",
    "session",
    "watch",
    "write_kafka",
]

_WHERE = {
    "Progress": "streaming.progress",
    "RdfDataSource": "graphs.source",
    "explain": "explanation",
    "explain_graphs": "graphs.layout",
    "progress_of": "streaming.progress",
    "read_kafka": "streaming.kafka",
    "recognize": "job",
    "recognize_graphs": "graphs.job",
    "recognizer": "job",
    "register": "table_function",
    "session": "local.session",
    "watch": "streaming.progress",
    "write_kafka": "streaming.kafka",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"cernis.spark.{_WHERE[name]}"), name)
