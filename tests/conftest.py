"""Hypothesis profiles: `ci` repeats the same few cases each time, `fuzz` looks for new ones.

With several test processes, all tests of Spark in batch run in one of them, and all of streams in
another, with the pages that have examples on Spark: each process that has some starts a Java of its
own. All tests of benchmarks run in one process as well: they share the records. So do those of the
playground, which share a server and a browser.
"""

from __future__ import annotations

import os
import random
import shlex
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from numba.core import config

from cernis.compiled import tiers
from cernis.compiled.tiers import TieredKernel, Warmth, compile_from_now

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

settings.register_profile(
    "ci",
    max_examples=30,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),  # to find a smaller case takes minutes and gigabytes
    database=None,
    suppress_health_check=_SLOW,
)
settings.register_profile(
    "fuzz",
    deadline=None,
    max_examples=int(os.environ.get("CERNIS_FUZZ_N", "5000")),
    print_blob=True,
    suppress_health_check=_SLOW,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# what a collection has freed is overwritten, also in processes that tests start
os.environ.setdefault("CERNIS_POISON", "1")
# compiled code checks every index, in this process and in those that tests start
os.environ.setdefault("NUMBA_BOUNDSCHECK", "1")
config.reload_config()

# small tests would never compile; processes that tests start decide as those of users do
_TIERS = os.environ.get("CERNIS_TEST_TIERS", "compiled")
if _TIERS == "mixed":  # each call of a kernel is compiled or plain Python, by chance
    _chance = random.Random(0)
    TieredKernel.is_plain = lambda kernel, args: _chance.random() < 0.5
    tiers.prefers_arrays = lambda kernel: _chance.random() < 0.5
    Warmth.add = lambda *work, **more: None
elif _TIERS == "compiled":
    compile_from_now()
tiers.LONG_COMPILING = float("inf")  # tests compare notes, also where the cache is empty

# of every local session, also of those in processes that tests start
SPARK = {
    # it runs for seconds: it need not optimize its code, nor collect garbage beside the work
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    # without checksums: Hadoop starts a process for each file that it makes
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    # for a few rows, writing and compiling Java takes a third of the time; `test_catalyst` has it
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join(
    [*(word for item in SPARK.items() for word in ("--conf", "=".join(item))), "pyspark-shell"]
)

STREAMS = (
    *(f"tests/spark/test_{name}" for name in ("stream", "graph_stream", "rule_stream", "crash")),
    "tests/kafka/",
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    # not the group marks of xdist: with some versions of pytest they have no effect
    from xdist.scheduler import LoadScopeScheduling

    class SparkTogether(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(STREAMS) or ", on Spark" in nodeid:
                return "streams"
            if nodeid.startswith("tests/bench/"):
                return "benchmarks"
            if nodeid.startswith("tests/serve/"):
                return "playground"
            return "spark" if nodeid.startswith("tests/spark/") else nodeid

    return SparkTogether(config, log) if config.getoption("dist") == "load" else None
