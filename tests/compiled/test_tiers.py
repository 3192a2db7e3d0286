"""Kernels as plain Python first: when they are compiled, and that the answers are the same."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core import config

import cernis
from cernis.compiled import inner, kernel, tiers
from cernis.compiled.tiers import TieredKernel, Warmth, cut_events, interpret

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")


@pytest.fixture
def warmth(monkeypatch: pytest.MonkeyPatch) -> Warmth:
    """The warmth of a new process."""
    monkeypatch.setattr(tiers, "WARMTH", Warmth())
    monkeypatch.setattr(tiers, "_kernels", [])
    return tiers.WARMTH


@inner
def double(x: int) -> int:
    return 2 * x


def double_all(numbers: Any) -> int:
    total = 0
    for i in range(len(numbers)):
        numbers[i] = double(numbers[i])
        total += numbers[i]
    return total


def is_compiled(compiled: Any) -> bool:
    return bool(compiled.overloads)


def test_a_new_process_runs_a_kernel_as_plain_python(warmth: Warmth) -> None:
    compiled, numbers = kernel(double_all), np.array([1, 2, 3])
    assert compiled(numbers) == 12
    assert numbers.tolist() == [2, 4, 6]
    assert not is_compiled(compiled)
    assert warmth.seconds > 0


def test_many_events_make_a_process_compile_for_good(warmth: Warmth) -> None:
    compiled = kernel(double_all)
    assert isinstance(compiled, TieredKernel)
    tiers.expect_events(1_000_000)
    assert not isinstance(compiled, TieredKernel)
    assert compiled(np.array([1, 2])) == 6
    assert is_compiled(compiled)
    assert not isinstance(kernel(double_all), TieredKernel)


def test_much_time_makes_a_process_compile_for_good(warmth: Warmth) -> None:
    compiled = kernel(double_all)
    warmth.add(seconds=100)
    assert not isinstance(compiled, TieredKernel)


def test_some_events_load_what_is_on_disk_and_compile_nothing(
    warmth: Warmth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cernis.compiled.cache._folder", lambda: tmp_path)
    warmth.add(events=10_000)
    assert not warmth.is_cold
    new = kernel(double_all)
    new(np.array([1]))
    assert not is_compiled(new)
    new.compile((new.typeof_pyval(np.array([1])),))
    known = kernel(double_all)
    assert known(np.array([1])) == 2
    assert is_compiled(known)


def test_a_hot_process_compiles_no_kernel_that_has_little_to_do(
    warmth: Warmth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cernis.compiled.cache._folder", lambda: tmp_path)
    warmth.add(events=1_000_000)
    brief, long, patient = kernel(double_all), kernel(double_all), kernel(double_all)
    assert tiers.call_briefly(brief, 2, np.array([1, 2])) == 6
    assert not is_compiled(brief)
    assert tiers.call_briefly(long, 1_000_000, np.array([1, 2])) == 6
    assert is_compiled(long)
    monkeypatch.setitem(tiers._brief, id(patient), 10.0)
    assert tiers.call_briefly(patient, 2, np.array([1, 2])) == 6
    assert is_compiled(patient)


def test_a_kernel_that_has_much_to_do_is_compiled_in_a_cold_process(
    warmth: Warmth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cernis.compiled.cache._folder", lambda: tmp_path)
    counting = kernel(double_all)
    assert tiers.call_patiently(counting, np.array([1, 2])) == 6
    assert not is_compiled(counting)
    monkeypatch.setitem(tiers._brief, id(counting), 10.0)
    assert tiers.call_patiently(counting, np.array([1, 2])) == 6
    assert is_compiled(counting)
    assert warmth.is_cold


def test_arrays_answer_in_pieces_until_compiling_pays(
    warmth: Warmth, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "_PIECE", 10)
    monkeypatch.setattr(tiers, "_is_on_disk", lambda _: False)
    counting, numbers = kernel(double_all), np.arange(35)

    def find_parts() -> list[list[int]]:
        return [part.tolist() for part in tiers.arrays_in_pieces(counting, double, len(numbers))]

    def double(piece: slice) -> Any:
        return None if 31 in numbers[piece] else 2 * numbers[piece]

    assert [part[0] for part in find_parts()] == [0, 20, 40]
    monkeypatch.setitem(tiers._brief, id(counting), 10.0)
    assert find_parts() == []


def test_a_kernel_that_has_little_to_do_is_compiled_ahead(warmth: Warmth) -> None:
    tiers.compile_from_now()
    compiled = kernel(double_all)
    tiers.call_briefly(compiled, 2, np.array([1, 2]))
    assert is_compiled(compiled)


def test_a_kernel_has_code_once_any_process_has_compiled_it(
    warmth: Warmth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cernis.compiled.cache._folder", lambda: tmp_path)
    warmth.add(events=1_000_000)
    first, second = kernel(double_all), kernel(double_all)
    assert not tiers.has_code(first)
    first(np.array([1, 2]))
    assert tiers.has_code(first)
    assert tiers.has_code(second)
    assert not is_compiled(second)


def test_code_of_another_version_is_none(
    warmth: Warmth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cernis.compiled.cache._folder", lambda: tmp_path)
    warmth.add(events=1_000_000)

    def work(numbers: Any) -> int:
        return len(numbers)

    before = kernel(work)
    before(np.array([1]))
    assert tiers.has_code(before)

    def work(numbers: Any) -> int:  # type: ignore[no-redef]
        return len(numbers) + 1

    after = kernel(work)
    assert before._cache._name == after._cache._name
    assert not tiers.has_code(after)


def test_results_are_pythons_numbers_in_both_ways(warmth: Warmth) -> None:
    def make_results(x: Any) -> Any:
        return x[0], (x[0] > 1, 1.5 * x[0])

    plain = interpret(kernel(make_results), (np.array([4]),))
    tiers.compile_from_now()
    compiled = kernel(make_results)(np.array([4]))
    assert plain == compiled == (4, (True, 6.0))
    kinds = [type(each) for each in (plain[0], *plain[1])]
    assert kinds == [type(each) for each in (compiled[0], *compiled[1])] == [int, bool, float]


def test_a_cold_process_reads_events_in_growing_pieces(warmth: Warmth) -> None:
    pieces = list(cut_events(1_000))
    assert pieces[0] == slice(0, 64)
    assert pieces[-1].stop == 1_000
    assert all(one.stop == next.start for one, next in pairwise(pieces))
    assert list(cut_events(0)) == [slice(0, 0)]


def test_a_batch_that_would_take_long_is_compiled_after_some_pieces(warmth: Warmth) -> None:
    read = 0
    for piece in cut_events(60_000):
        assert not warmth.is_hot or piece.stop == 60_000
        warmth.add(seconds=1e-4 * (piece.stop - piece.start))
        read += piece.stop - piece.start
    assert read == 60_000
    assert warmth.is_hot
    assert warmth.seconds < 1.0


def test_a_batch_is_read_as_plain_python_if_compiling_would_take_longer(warmth: Warmth) -> None:
    tiers.expect_compiling(13.0)
    for piece in cut_events(60_000):
        warmth.add(seconds=1e-4 * (piece.stop - piece.start))
    assert not warmth.is_hot
    warmth.add(seconds=9.0)
    assert warmth.is_hot


def test_an_engine_that_takes_long_to_compile_starts_with_more_plain_python(
    warmth: Warmth,
) -> None:
    cernis.query("SELECT * FROM S WHERE A AS a ; B AS b").run([{"type": "A"}])
    assert warmth.price < 3
    across = "SELECT * FROM S WHERE A AS a ; B AS b ; C AS c FILTER a[k] = c[k] WITHIN 9 EVENTS"
    cernis.query(across).run([{"type": "A", "k": 1}])
    assert warmth.price > 5


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The watch over the compiler of a new process, in which any compiling takes long."""
    watch = tiers._CompilerWatch()
    monkeypatch.setattr(tiers, "_COMPILER", watch)
    monkeypatch.setattr(tiers, "LONG_COMPILING", -1.0)
    return watch


def test_compiling_that_takes_long_is_announced_once(watch: Any) -> None:
    said: list[str] = []
    tiers.announce_compiling(said.append)
    for _ in range(2):
        watch.on_start(None)
        watch.on_end(None)
    once = "once on this machine; `cernis warm` does it ahead of the first query"
    assert said == [f"the engine is being compiled, {once}"]
    assert tiers.note_compiling(0.0) == []


def test_a_result_notes_that_compiling_took_long(watch: Any) -> None:
    matches = cernis.query("SELECT * FROM S WHERE A").run([{"type": "A"}])
    [note] = matches.notes
    assert note.startswith("the engine was compiled, once on this machine; `cernis warm`")


def test_the_command_line_says_at_once_that_it_compiles(tmp_path: Path) -> None:
    rows = "\n".join(f'{{"type": "{"AB"[i % 2]}", "k": {i % 7}}}' for i in range(90_000))
    (tmp_path / "s.jsonl").write_text(rows)
    query = "SELECT * FROM s WHERE A AS a ; B AS b FILTER a[k] = b[k] WITHIN 3 EVENTS"
    code = (
        "from cernis.compiled import tiers; tiers.LONG_COMPILING = 0.0;"
        "from cernis.cli.main import app; app()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "run", query, "--events", str(tmp_path / "s.jsonl")],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path), "NUMBA_CACHE_DIR": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.startswith("note: the engine is being compiled, once on this machine;")
    assert done.stderr.count("compiled") == 1


def test_the_rest_of_a_batch_is_one_piece_when_the_process_is_hot(warmth: Warmth) -> None:
    pieces = cut_events(1_000_000)
    next(pieces)
    tiers.compile_from_now()
    assert list(pieces) == [slice(64, 1_000_000)]


def test_compiled_and_plain_calls_in_any_mixture_have_the_answers_worked_out_by_hand() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "tests/run/test_corpus.py"],
        env={**os.environ, "CERNIS_TEST_TIERS": "mixed"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
