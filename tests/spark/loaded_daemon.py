"""Spark's daemon of Python workers, which loads Cernis before it forks them.

With Spark's own daemon each new worker loads Cernis, Numba, Arrow and pandas: two seconds.
Threads that these start are idle at the fork.
"""

from __future__ import annotations

from importlib import import_module

from pyspark.daemon import manager

LOADED = (
    "pandas",
    "pyspark.worker",
    "cernis.spark.graphs.recognition",
    "cernis.spark.graphs.source",
    "cernis.spark.recognition",
    "cernis.spark.streaming.recognize",
)

if __name__ == "__main__":
    for name in LOADED:
        import_module(name)
    manager()
