"""Dependencies: bounds, the lock file, and every private name that Cernis uses of them.

A private name may change in any release of its library. Each is listed here with its use, so that
an upgrade that takes it away fails with what to look at.
"""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "cernis"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DIRECT = [
    *PROJECT["dependencies"],
    *(each for extra in PROJECT["optional-dependencies"].values() for each in extra),
]


class PrivateName(NamedTuple):
    """A private name of a library: where and why it is used, and whether it is still there."""

    name: str
    used_in: str
    reason: str
    exists: Callable[[], bool]


def numba_options() -> bool:
    from numba.core.options import DefaultOptions
    from numba.core.registry import CPUDispatcher

    options = CPUDispatcher.targetdescr.options
    wanted = ("_nrt", "no_cpython_wrapper", "no_cfunc_wrapper", "forceinline", "nogil")
    return all(hasattr(options, name) or hasattr(DefaultOptions, name) for name in wanted)


def numba_results() -> bool:
    from numba.core.compiler import CompileResult

    return callable(CompileResult._reduce) and callable(CompileResult._rebuild)


def numba_cache() -> bool:
    from numba import njit

    return hasattr(njit(lambda x: x), "_cache")


def numba_libraries() -> bool:
    from numba.core.codegen import JITCodeLibrary

    names = ("_raise_if_finalized", "_ensure_finalized", "_get_module_for_linking")
    written = inspect.getsource(JITCodeLibrary.__mro__[1]) + inspect.getsource(
        JITCodeLibrary.__mro__[2]
    )
    kept = ("_linking_libraries", "_final_module", "_finalized", "_reload_init", "_codegen")
    return all(hasattr(JITCodeLibrary, name) for name in names) and all(
        f"self.{name}" in written for name in kept
    )


def numba_passes() -> bool:
    from numba.core.codegen import CPUCodegen, CPUCodeLibrary

    return callable(CPUCodegen._module_pass_manager) and (
        callable(CPUCodeLibrary._optimize_final_module)
        and "self._codegen._data_layout" in inspect.getsource(CPUCodeLibrary._optimize_functions)
    )


def numba_serialize() -> bool:
    from numba.core import config, serialize

    names = ("BOUNDSCHECK", "OPT", "CACHE_DIR", "DISABLE_JIT")
    return callable(serialize.dumps) and all(hasattr(config, name) for name in names)


def spark_frame() -> bool:
    from pyspark.sql.classic.dataframe import DataFrame

    return "self._jdf" in inspect.getsource(DataFrame)


def spark_gateway() -> bool:
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    names = ("_gateway", "_active_spark_context")
    given = set(inspect.signature(launch_gateway).parameters)
    return all(hasattr(SparkContext, name) for name in names) and {"conf", "popen_kwargs"} <= given


def spark_session() -> bool:
    from pyspark.sql import SparkSession

    source = inspect.getsource(SparkSession.__init__)
    return "self._jvm =" in source and "self._sc =" in source


def spark_errors() -> bool:
    from pyspark.errors.exceptions.captured import CapturedException

    return "self._origin =" in inspect.getsource(CapturedException)


def spark_connect_plan() -> bool:
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.plan import DataSource

    return "self._plan" in inspect.getsource(DataFrame) and "self._format" in inspect.getsource(
        DataSource
    )


def spark_connection() -> bool:
    from pyspark import util, worker_util

    return worker_util.local_connect_and_auth is util.local_connect_and_auth


PRIVATE = [
    PrivateName("_nrt", "compiled/__init__.py", "kernels count no references", numba_options),
    PrivateName("_reduce", "compiled/cache.py", "compiled code as bytes", numba_results),
    PrivateName("_rebuild", "compiled/cache.py", "compiled code as bytes", numba_results),
    PrivateName("_cache", "compiled/__init__.py", "the cache of compiled code", numba_cache),
    PrivateName("_cache", "compiled/tiers.py", "whether code is on disk", numba_cache),
    *(
        PrivateName(name, "compiled/inner.py", "inner functions as LLVM code", numba_libraries)
        for name in ("_reload_init", "_final_module", "_finalized", "_get_module_for_linking")
    ),
    PrivateName("_module_pass_manager", "compiled/entry.py", "no vectors", numba_passes),
    PrivateName("_data_layout", "compiled/inner.py", "one optimization", numba_passes),
    PrivateName("dumps", "compiled/cache.py", "compiled code as bytes", numba_serialize),
    PrivateName("_jdf", "spark/arrangement.py", "whether rows lie as needed", spark_frame),
    PrivateName("_jdf", "spark/numbering.py", "whether files are Parquet", spark_frame),
    PrivateName("_gateway", "spark/local/session.py", "Java without its messages", spark_gateway),
    PrivateName("_active_spark_context", "spark/local/session.py", "one at a time", spark_gateway),
    PrivateName(
        "local_connect_and_auth",
        "spark/local/start_python.py",
        "an answer to Spark in time",
        spark_connection,
    ),
    PrivateName("_jvm", "spark/streaming/kafka.py", "whether a topic exists", spark_session),
    PrivateName("_sc", "spark/options.py", "how many tasks run at once", spark_session),
    PrivateName("_origin", "spark/streaming/sinks.py", "the cause of an error", spark_errors),
    PrivateName("_plan", "spark/numbering.py", "Parquet on Spark Connect", spark_connect_plan),
    PrivateName("_format", "spark/numbering.py", "Parquet on Spark Connect", spark_connect_plan),
]
PUBLIC = {"_replace", "_fields", "_asdict", "_field_defaults", "_make", "_exit"}
"""Names that the documentation of Python gives."""


@pytest.mark.parametrize("private", PRIVATE, ids=lambda each: f"{each.name} in {each.used_in}")
def test_a_private_name_is_still_there(private: PrivateName) -> None:
    try:
        exists = private.exists()
    except (ImportError, AttributeError):
        exists = False
    assert exists, (
        f"cernis/{private.used_in} uses the private name {private.name} ({private.reason}), and "
        "the installed version of its library has it no longer: find its replacement, or lower "
        "the upper bound in pyproject.toml"
    )


def test_every_private_name_of_a_library_is_listed() -> None:
    trees = {file: ast.parse(file.read_text()) for file in SOURCE.rglob("*.py")}
    own: set[str] = set(PUBLIC)
    used: set[tuple[str, str]] = set()
    for file, tree in trees.items():
        for node in ast.walk(tree):
            match node:
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    own.add(name)
                case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                    own.add(name)
                case ast.Attribute(value=ast.Name(id="self"), attr=name):
                    own.add(name)
                case ast.Attribute(attr=name) if re.match(r"_[a-z]", name):
                    used.add((name, str(file.relative_to(SOURCE))))
                case ast.Call(args=[_, ast.Constant(value=str(name)), *_], func=ast.Name(id=call)):
                    if call in ("getattr", "hasattr") and re.match(r"_[a-z]", name):
                        used.add((name, str(file.relative_to(SOURCE))))
    listed = {(each.name, each.used_in) for each in PRIVATE}
    assert {each for each in used if each[0] not in own} <= listed


def test_every_dependency_has_a_lower_and_an_upper_bound() -> None:
    for each in DIRECT:
        assert each.startswith("cernis[") or (">=" in each and ",<" in each), each


def test_the_lock_file_has_every_dependency_inside_its_bounds() -> None:
    from packaging.requirements import Requirement

    lines = (ROOT / "requirements-dev.lock").read_text().splitlines()
    pins = map(Requirement, (line for line in lines if not line.startswith("#")))
    locked = {pin.name.lower().replace("_", "-"): str(pin.specifier)[2:] for pin in pins}
    for each in DIRECT:
        needed = Requirement(each)
        if needed.name != "cernis":
            assert needed.specifier.contains(locked[needed.name.lower()]), each
