"""Compiled kernels on disk: found again by the next process, never stale, never in the way."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba import njit
from numba.core import config

from cernis.compiled import borrowing, cache, kernel, turns

pytestmark = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cache, "_folder", lambda: tmp_path / "kernels")
    return tmp_path / "kernels"


def made(source: str = "return x + LIMIT", limit: object = 3, way: Any = kernel) -> Any:
    """A kernel as a new process would make it."""
    scope: dict[str, Any] = {"LIMIT": limit, "__name__": "pack.module"}
    exec(f"def f(x):\n    {source}", scope)
    return way(scope["f"])


def hits(compiled: Any) -> int:
    return sum(compiled.stats.cache_hits.values())


def test_what_one_process_compiled_the_next_one_loads(folder: Path) -> None:
    assert made()(1) == 4
    again = made()
    assert again(2) == 5
    assert hits(again) == 1
    assert len(list(folder.iterdir())) == 1


def test_each_signature_has_a_file_of_its_own(folder: Path) -> None:
    compiled = made()
    assert (compiled(1), compiled(1.5)) == (4, 4.5)
    again = made()
    assert (again(1.5), again(1)) == (4.5, 4)
    assert hits(again) == 2
    assert len(list(folder.iterdir())) == 2


def test_a_changed_constant_is_seen(folder: Path) -> None:
    assert (made()(1), made(limit=9)(1), made()(1)) == (4, 10, 4)


def test_fields_that_changed_places_are_seen(folder: Path) -> None:
    read = "return x.price"
    assert made(read)(namedtuple("Pair", ["price", "volume"])(1, 2)) == 1
    assert made(read)(namedtuple("Pair", ["volume", "price"])(1, 2)) == 2


def test_the_two_ways_to_compile_are_kept_apart(folder: Path) -> None:
    assert made()(1) == 4
    borrowed = made(way=borrowing)
    assert borrowed(1) == 4
    assert hits(borrowed) == 0


def test_bounds_that_are_checked_are_kept_apart(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "BOUNDSCHECK", None)
    made("return x[7]")(np.arange(8))
    monkeypatch.setattr(config, "BOUNDSCHECK", 1)
    with pytest.raises(IndexError):
        made("return x[7]")(np.arange(3))


def test_code_of_another_compiler_is_left_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made()(1)
    monkeypatch.setattr(cache, "_find_compiler", lambda: "another")
    changed = made()
    assert changed(1) == 4
    assert hits(changed) == 0
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("module", [np, numba])
def test_code_of_another_version_is_left_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch, module: Any
) -> None:
    made()(1)
    (old,) = folder.iterdir()
    code = old.read_bytes()
    monkeypatch.setattr(module, "__version__", "999.0")
    upgraded = made()
    assert upgraded(1) == 4
    assert hits(upgraded) == 0
    assert len(list(folder.iterdir())) == 2
    assert old.read_bytes() == code


@pytest.mark.parametrize("spoil", [b"", b"no code", b"\x80\x04N."])
def test_a_file_that_is_broken_is_made_again(folder: Path, spoil: bytes) -> None:
    assert made()(1) == 4
    (file,) = folder.iterdir()
    file.write_bytes(spoil)
    assert made()(1) == 4
    again = made()
    assert again(1) == 4
    assert hits(again) == 1


def test_without_a_place_a_kernel_still_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_folder", lambda: None)
    compiled = made()
    assert compiled(1) == 4
    assert compiled.stats.cache_path is None


def test_a_place_that_cannot_be_written_does_no_harm(folder: Path) -> None:
    folder.write_text("not a folder")
    assert made()(1) == 4


def test_a_kernel_of_objects_of_this_process_runs_and_is_not_kept(folder: Path) -> None:
    assert made("return x(LIMIT)")(njit(lambda x: x + 1)) == 4
    assert not folder.exists()


def test_a_process_that_never_ends_its_turn_is_not_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made()(1)
    (file,) = folder.iterdir()
    file.unlink()
    monkeypatch.setattr(turns, "_LONGEST_WAIT", 0.1)
    hold = (
        "import sys; from pathlib import Path; from cernis.compiled.turns import take_turn;"
        "print(take_turn(Path(sys.argv[1])), flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() != b"None\n"
        late = made()
        assert (late(1), hits(late)) == (4, 0)
        other.communicate()


def test_the_latest_versions_are_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_VERSIONS_KEPT", 2)
    for age, limit in zip((30, 20, 10), (1, 2, 3), strict=True):
        made(limit=limit)(1)
        for file in folder.iterdir():
            when = file.stat().st_mtime - age
            os.utime(file, (when, when))
    assert len(list(folder.iterdir())) == 2
    newest = made(limit=3)
    newest(1)
    assert hits(newest) == 1


# ------------------------------------------------------------ real processes

MODULE = """
from cernis.compiled import kernel
from cernis.compiled.tiers import compile_from_now
from pack.limit import LIMIT

compile_from_now()

@kernel
def f(x):
    return x + LIMIT
"""
RUN = "from pack.module import f; print(f(1), f.py_func.__code__.co_filename, f.stats.cache_hits)"


def package(at: Path, limit: int = 3) -> Path:
    (at / "pack").mkdir(parents=True)
    (at / "pack" / "__init__.py").touch()
    (at / "pack" / "limit.py").write_text(f"LIMIT = {limit}\n")
    (at / "pack" / "module.py").write_text(MODULE)
    return at


def zipped(at: Path) -> Path:
    target = at.with_suffix(".zip")
    with zipfile.ZipFile(target, "w") as archive:
        for file in package(at).rglob("*.py"):
            archive.write(file, file.relative_to(at))
    return target


def started(at: Path, cache: Path, script: str = RUN) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(at), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path, "XDG_CACHE_HOME": str(cache)}
    environment.pop("NUMBA_CACHE_DIR", None)
    return subprocess.Popen(
        [sys.executable, "-c", script],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer(process: subprocess.Popen[str]) -> str:
    out, errors = process.communicate()
    assert not errors
    return out


@pytest.mark.skipif(sys.platform == "win32", reason="XDG_CACHE_HOME is not looked at there")
@pytest.mark.parametrize("second", [package, zipped], ids=["folder", "zip"])
def test_a_copy_of_the_package_elsewhere_loads_the_same_code(
    tmp_path: Path, second: Callable[[Path], Path]
) -> None:
    assert "Counter()" in answer(started(package(tmp_path / "one"), tmp_path))
    kept = set((tmp_path / "cernis" / "kernels").iterdir())
    out = answer(started(second(tmp_path / "two"), tmp_path))
    assert out.startswith(f"4 {tmp_path / 'two'}")
    assert "Counter({(int64,): 1})" in out
    assert set((tmp_path / "cernis" / "kernels").iterdir()) == kept


@pytest.mark.skipif(sys.platform == "win32", reason="XDG_CACHE_HOME is not looked at there")
def test_processes_that_start_at_once_compile_each_version_once(tmp_path: Path) -> None:
    at = package(tmp_path / "one")
    script = (
        "from cernis.compiled.tiers import count_compiled; from pack.module import f;"
        "print(f(1), f(1.5), count_compiled())"
    )
    processes = [started(at, tmp_path, script) for _ in range(4)]
    found = [answer(process).split() for process in processes]
    assert [values for *values, _ in found] == [["4", "4.5"]] * 4
    assert sum(int(compiled) for *_, compiled in found) == 2  # in turns: each version once
    kept = list((tmp_path / "cernis" / "kernels").iterdir())
    assert len(kept) == 2
    assert all(file.suffix == ".nbc" for file in kept)


def test_a_numba_without_the_parts_used_here_keeps_code_its_own_way(tmp_path: Path) -> None:
    at = package(tmp_path / "one")
    script = (
        "from numba.core.compiler import CompileResult; CompileResult._later = "
        "CompileResult._reduce; del CompileResult._reduce;"
        "from pack.module import f; CompileResult._reduce = CompileResult._later;"
        "print(f(1), type(f._cache).__name__)"
    )
    assert answer(started(at, tmp_path, script)) == "4 FunctionCache\n"


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ("", "KernelCache"),
        ("del numba.core.codegen.CPUCodegen._module_pass_manager", "FunctionCache"),
        ("numba.core.compiler.Compiler.define_pipelines = None", "FunctionCache"),
    ],
)
def test_a_numba_that_was_never_tried_compiles_its_own_way_if_ours_fails(
    tmp_path: Path, change: str, kept: str
) -> None:
    at = package(tmp_path / "one")
    script = (
        "import numba.core.codegen, numba.core.compiler\n"
        "numba.__version__ = '0.99.0'\n"
        "before = {c: dict(vars(c)) for c in (numba.core.codegen.CPUCodegen,"
        " numba.core.compiler.Compiler)}\n"
        f"{change}\n"
        "import cernis.compiled\n"
        "[setattr(c, n, v) for c, kept in before.items() for n, v in kept.items()"
        " if vars(c).get(n) is not v]\n"
        "from pack.module import f; print(f(1), type(f._cache).__name__)"
    )
    assert answer(started(at, tmp_path, script)) == f"4 {kept}\n"


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_chosen_folder_that_others_may_write_to_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    chosen = tmp_path / "chosen"
    chosen.mkdir()
    monkeypatch.setattr(config, "CACHE_DIR", str(chosen))
    chosen.chmod(mode)
    with pytest.warns(UserWarning, match="NUMBA_CACHE_DIR=.*: not used"):
        assert cache._folder.__wrapped__() != chosen
    chosen.chmod(0o700)
    assert cache._folder.__wrapped__() == chosen
