"""Outputs appear whole, and never in place of a file that the run reads."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import cernis
from cernis.cli.main import main
from cernis.output import open_output

EVENTS = "type,ts\nA,1\nB,2\nA,3,4\n"
QUERY = "SELECT * FROM S WHERE A ; B"
LINES = '{"type": "A", "ts": 1}\n{"type": "B", "ts": 2}\n'
GRAPHS = """
<urn:a> <urn:p> "1" <urn:e:1> .
<urn:b> <urn:q> "2" <urn:e:2> .
"""
SPASEQ = """SELECT ?a ?b FROM STREAM S <http://example.org/s>
WHERE { SEQ (A ; B) DEFINE GPM A ON S { ?a <urn:p> "1" } DEFINE GPM B ON S { ?b <urn:q> "2" } }
"""
CONJUNCTIVE = "Q(x, y) <- A@x(ts: t), B@y(ts: u), x < y"
ENGINES = ("local", "spark")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("s.csv").write_text(EVENTS)
    Path("s.jsonl").write_text(LINES)
    Path("s.nq").write_text(GRAPHS)
    Path("q.spaseq").write_text(SPASEQ)
    return tmp_path


def same(link: str, file: str, how: str) -> None:
    if how == "symbolic":
        os.symlink(file, link)
    elif how == "hard":
        os.link(file, link)


def names() -> set[str]:
    return {entry.name for entry in Path().iterdir()}


# ------------------------------------------------------- nothing is overwritten


@pytest.mark.parametrize("how", ["itself", "symbolic", "hard"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("option", ["--output", "--on-error"])
def test_the_command_line_does_not_write_over_an_input(
    how: str, engine: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = "s.jsonl" if how == "itself" else "link.jsonl"
    same(place, "s.jsonl", how)
    assert main(["run", QUERY, "s.jsonl", option, place, f"--engine={engine}"]) == 1
    content = "the matches" if option == "--output" else "the bad rows"
    assert capsys.readouterr().err == (
        f"error: {place}: {content} cannot be written there: it is the input s.jsonl\n"
    )
    assert Path("s.jsonl").read_text() == LINES


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("option", ["--output", "--on-error"])
def test_nor_over_one_of_spaseq(
    engine: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    os.symlink("s.nq", "link.jsonl")
    os.link("s.nq", "background.nq")
    command = ["run", "q.spaseq", "s.nq", f"--engine={engine}", option]
    for place in ("link.jsonl", "background.nq"):
        assert main([*command, place]) == 1
        assert f"{place}: the " in capsys.readouterr().err
    assert main(["run", "q.spaseq", "s.nq", "--background", "s.csv", "--on-error", "s.csv"]) == 1
    assert "it is the background s.csv" in capsys.readouterr().err
    assert main(["run", "q.spaseq", "s.nq", "--on-error", "q.spaseq"]) == 1
    assert "it is the query q.spaseq" in capsys.readouterr().err
    assert Path("s.nq").read_text() == GRAPHS
    assert Path("s.csv").read_text() == EVENTS
    assert Path("q.spaseq").read_text() == SPASEQ


def test_nor_with_a_conjunctive_query(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", CONJUNCTIVE, "--lang=cq", "s.jsonl", "-o", "s.jsonl"]) == 1
    assert "it is the input s.jsonl" in capsys.readouterr().err
    assert Path("s.jsonl").read_text() == LINES


def test_nor_one_output_over_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    os.symlink("new.jsonl", "link.jsonl")
    for place, other in (("new.jsonl", "link.jsonl"), ("./new.jsonl", "new.jsonl"), ("-", "-")):
        assert main(["run", QUERY, "s.csv", "-o", place, "--on-error", other]) == 1
        assert f"it is the file of bad rows {other}" in capsys.readouterr().err
    assert not Path("new.jsonl").exists()


def test_nor_into_a_folder_that_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    Path("in").mkdir()
    Path("in/a.parquet").write_bytes(b"x")
    command = ["run", QUERY, "in", "--engine=spark", "-o"]
    for place in ("in/a.parquet", "in/b.parquet"):
        assert main([*command, place]) == 1
        assert "it lies in the input in" in capsys.readouterr().err
    assert Path("in/a.parquet").read_bytes() == b"x"


@pytest.mark.parametrize("how", ["itself", "symbolic", "hard"])
def test_python_does_not_write_over_an_input(how: str) -> None:
    place = "s.jsonl" if how == "itself" else "link.jsonl"
    same(place, "s.jsonl", how)
    query = cernis.query(QUERY)
    with pytest.raises(cernis.DataError, match=r"the bad rows .* it is the input s\.jsonl"):
        query.run("s.jsonl", on_error=place)
    for found in (query.run("s.jsonl"), next(iter(query.stream(["s.jsonl"])))):
        for write in (found.write_jsonl, found.write_parquet):
            with pytest.raises(cernis.DataError, match=r"the matches .* it is the input s\.jsonl"):
                write(place)
    graphs = cernis.query(SPASEQ, lang="spaseq")
    with pytest.raises(cernis.DataError, match="the bad rows"):
        graphs.run("s.nq", on_error="s.nq")
    Path("kb.nq").write_text(GRAPHS)
    with pytest.raises(cernis.DataError, match=r"it is the background kb\.nq"):
        graphs.run("s.nq", background={"urn:kb": ["kb.nq"]}, on_error="kb.nq")
    with pytest.raises(cernis.DataError, match=r"it is the input s\.nq"):
        graphs.run("s.nq").write_jsonl("s.nq")
    with pytest.raises(cernis.DataError, match="it is the file of bad rows bad"):
        query.run("s.csv", on_error="bad.jsonl").write_jsonl("bad.jsonl")
    session = query.session(on_error="bad.jsonl")
    session.push("s.csv")
    with pytest.raises(cernis.DataError, match="it is the input bad"):
        session.push("bad.jsonl")
    assert Path("s.jsonl").read_text() == LINES
    assert Path("s.nq").read_text() == GRAPHS


# ------------------------------------------------------------ whole, or nothing


def test_a_run_that_fails_leaves_the_former_files(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("out.jsonl", "out.parquet", "bad.jsonl"):
        Path(name).write_text("before")
    before = names()
    for output in ("out.jsonl", "out.parquet"):
        assert main(["run", QUERY, "s.csv", "-o", output]) == 1  # row 2 is broken
    query = cernis.query("SELECT * FROM S WHERE A AS a ; B AS b FILTER a[ts] < b[ts] AND a[x] < 1")
    with pytest.raises(cernis.CernisError):
        query.run("s.csv", on_error="bad.jsonl")
    for name in ("out.jsonl", "out.parquet", "bad.jsonl"):
        assert Path(name).read_text() == "before"
    assert names() == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_run_that_is_ended_leaves_the_former_file(number: int) -> None:
    Path("out.jsonl").write_text("before")
    program = "import sys; from cernis.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = ["run", QUERY, "s.csv", "-o", "out.jsonl", "--on-error", "bad.jsonl"]
    code = (
        "import os, signal, time, cernis.events.reading.csv_text as text\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup has it ignored\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # so have background jobs\n"
        "class Slow(text.CsvReader):\n"
        "    def pieces(self, columns):\n"
        "        yield from super().pieces(columns)\n"
        "        if columns is None:\n"
        "            print('reading', flush=True); time.sleep(60)\n"
        "import cernis.events.reading.files as files; files.CsvReader = Slow\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code + program, *command], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"reading\n"
        assert any(name.startswith(".cernis-") for name in names())
        process.send_signal(number)
        assert process.wait() == (-number if number == signal.SIGKILL else 128 + number)
    assert Path("out.jsonl").read_text() == "before"
    assert not Path("bad.jsonl").exists()
    if number != signal.SIGKILL:
        assert not any(name.startswith(".cernis-") for name in names())


def test_a_run_that_ends_writes_all_files() -> None:
    os.symlink("target.jsonl", "link.jsonl")
    Path("target.jsonl").write_text("before")
    Path("target.jsonl").chmod(0o640)
    command = ["run", QUERY, "s.csv", "--on-error", "bad.jsonl", "-o"]
    for output in ("link.jsonl", "out.parquet"):
        assert main([*command, output]) == 0
    assert Path("link.jsonl").is_symlink()
    assert len(Path("target.jsonl").read_text().splitlines()) == 1
    assert stat.S_IMODE(Path("target.jsonl").stat().st_mode) == 0o640
    assert len(Path("bad.jsonl").read_text().splitlines()) == 1
    assert main([*command, "few.jsonl", "--limit", "0"]) == 0
    assert not any(name.startswith(".cernis-") for name in names())
    session = cernis.query(QUERY).session(on_error="bad.jsonl")
    Path("t.csv").write_text("type\nA\nB,1\n")
    for _ in range(2):
        session.push("t.csv")
    assert len(Path("bad.jsonl").read_text().splitlines()) == 2


def test_an_output_that_cannot_be_written_is_said_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("dir.jsonl").mkdir()
    assert main(["run", QUERY, "s.jsonl", "-o", "dir.jsonl"]) == 1
    assert capsys.readouterr().err == "error: dir.jsonl: cannot be written: Is a directory\n"
    os.symlink("b.jsonl", "a.jsonl")
    os.symlink("a.jsonl", "b.jsonl")
    assert main(["run", QUERY, "s.jsonl", "-o", "a.jsonl"]) == 1
    assert "a.jsonl: cannot be written: " in capsys.readouterr().err


# ---------------------------------------------------------------- special files


def test_devices_and_pipes_are_written_directly() -> None:
    os.symlink("/dev/null", "null.jsonl")
    os.mkfifo("pipe.jsonl")
    read: list[str] = []
    thread = threading.Thread(target=lambda: read.append(Path("pipe.jsonl").read_text()))
    thread.start()
    assert main(["run", QUERY, "s.jsonl", "-o", "pipe.jsonl"]) == 0
    thread.join(10)
    assert len(read[0].splitlines()) == 1
    assert main(["run", QUERY, "s.csv", "-o", "null.jsonl", "--on-error", "/dev/null"]) == 0
    assert Path("null.jsonl").is_symlink()
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_names_of_open_files_are_written_directly() -> None:
    program = "import cernis; cernis.query({!r}).run('s.jsonl').write_jsonl('/dev/stdout')"
    with open("redirected.jsonl", "wb") as file:
        file.write(b"before\n")
        file.flush()
        subprocess.run([sys.executable, "-c", program.format(QUERY)], stdout=file, check=True)
        inode = os.fstat(file.fileno()).st_ino
    assert os.stat("redirected.jsonl").st_ino == inode


@pytest.mark.parametrize(
    "write", [cernis.Matches.write_jsonl, cernis.Matches.write_parquet], ids=["jsonl", "parquet"]
)
def test_a_full_disk_is_said(write: Callable[[cernis.Matches, str], int]) -> None:
    found = cernis.query(QUERY).run("s.jsonl")
    with pytest.raises(cernis.DataError, match="/dev/full: cannot be written: No space left"):
        write(found, "/dev/full")


def test_a_block_that_fails_leaves_nothing() -> None:
    def write() -> None:
        with open_output("new.txt") as file:
            file.write(b"x" * 100_000)
            raise KeyboardInterrupt

    before = names()
    with pytest.raises(KeyboardInterrupt):
        write()
    assert names() == before
