"""The process from which a local session forks its Python workers, with the engine imported.

Spark starts one daemon on a machine, and forks a worker for each task that runs at once. A worker
imports what its task needs, which takes a second or two of processor time for pandas, Arrow, Numba
and the engine; a micro-batch starts several workers. Here the daemon imports it before it forks.
Workers share that memory, and a collection of garbage after each task skips it.

`spark.python.daemon.module` names this module. On a cluster, set it where Cernis is installed.
"""

from __future__ import annotations

import gc
from contextlib import suppress
from importlib import import_module

PRELOADED = (
    "pandas",
    "pyarrow.compute",
    "pyarrow.pandas_compat",
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "cernis.work.query",
    "cernis.work.bucket",
    "cernis.spark.rdf.solve",
)


def preload() -> None:
    """Import what workers need; a module that is missing fails in the worker that needs it."""
    for name in PRELOADED:
        with suppress(ImportError):
            import_module(name)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    from pyspark.daemon import manager

    preload()
    manager()
