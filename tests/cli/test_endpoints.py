"""Sources, sinks and times as they are written on the command line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cernis.errors import CernisError
from cernis.work.endpoints import (
    Folder,
    StandardOutput,
    Topic,
    check_apart,
    check_writable,
    parse_folder,
    parse_sink,
    parse_source,
)
from cernis.work.interval import parse_milliseconds


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("argument", "name", "path"),
    [
        ("in", None, "in"),
        ("./in/", None, "in"),
        ("S=in", "S", "in"),
        ("S=a=b", "S", "a=b"),
        ("with space/ä", None, "with space/ä"),
    ],
)
def test_a_folder_is_its_path(here: Path, argument: str, name: str | None, path: str) -> None:
    assert parse_source(argument) == (name, Folder(here / path, ""))


def test_a_folder_may_be_a_uri() -> None:
    assert parse_source("file:///a%20b/c") == (None, Folder(Path("/a b/c"), ""))
    assert parse_source("S=file://localhost/c") == ("S", Folder(Path("/c"), ""))


def test_a_folder_that_is_there_is_no_name(here: Path) -> None:
    (here / "day=1").mkdir()
    assert parse_source("day=1") == (None, Folder(here / "day=1", ""))


@pytest.mark.parametrize(
    ("argument", "servers", "topic", "options"),
    [
        ("kafka://localhost:9092/trades", "localhost:9092", "trades", {}),
        ("kafka://a:1,b.c:2/x.y_z-1", "a:1,b.c:2", "x.y_z-1", {}),
        ("KAFKA://[::1]:9092/t", "[::1]:9092", "t", {}),
        (
            "kafka://a:1/t?starting=latest&per_trigger=500",
            "a:1",
            "t",
            {"starting": "latest", "per_trigger": "500"},
        ),
    ],
)
def test_a_topic_has_servers_and_a_name(
    argument: str, servers: str, topic: str, options: dict[str, str]
) -> None:
    assert parse_source(argument) == (None, Topic(servers, topic, options))
    assert parse_source(f"S={argument}") == ("S", Topic(servers, topic, options))


def test_a_sink_may_be_standard_output(here: Path) -> None:
    assert parse_sink("-") == StandardOutput()
    assert parse_sink("out") == Folder(here / "out", "")
    assert parse_sink("kafka://a:1/t") == Topic("a:1", "t")


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("", "--source '': expected a folder or kafka://host:port/topic"),
        (
            "s3a://bucket/x",
            (
                "s3a://bucket/x: --source knows folders (a path, or file:///…) and "
                "kafka://host:port/topic, not s3a://"
            ),
        ),
        ("file://host/x", "file://host/x: a folder as a URI is file:///and/its/path"),
        (
            "in[1]",
            (
                "in[1]: Spark takes a path with any of []{}*?\\ in it for a pattern; rename the "
                "folder, or give a link to it"
            ),
        ),
        ("kafka://", "kafka://: expected kafka://host:port[,host:port…]/topic"),
        ("kafka://a:1", "kafka://a:1: expected kafka://host:port[,host:port…]/topic"),
        ("kafka://a:1/", "kafka://a:1/: expected kafka://host:port[,host:port…]/topic"),
        (
            "kafka://a,b:1/t",
            (
                "kafka://a,b:1/t: expected kafka://host:port[,host:port…]/topic "
                "('a' is no host:port)"
            ),
        ),
        (
            "kafka://a:1/t u",
            "kafka://a:1/t u: 't u' is no name of a topic: letters, digits, '.', '_' and '-'",
        ),
        (
            "kafka://a:1/t?start=latest",
            (
                "kafka://a:1/t?start=latest: a topic has no option 'start'; there are starting, "
                "per_trigger, descriptor, message; did you mean 'starting'?"
            ),
        ),
        (
            "kafka://a:1/t?per_trigger=0",
            "kafka://a:1/t?per_trigger=0: per_trigger=0: expected a number of records",
        ),
    ],
)
def test_what_is_no_source_is_said(argument: str, message: str) -> None:
    with pytest.raises(CernisError) as caught:
        parse_source(argument)
    assert str(caught.value) == message


def test_what_is_no_sink_or_folder_is_said() -> None:
    with pytest.raises(CernisError, match="a topic that is written to has no options"):
        parse_sink("kafka://a:1/t?starting=latest")
    with pytest.raises(CernisError, match=r"--checkpoint kafka://a:1/t: expected a folder"):
        parse_folder("--checkpoint", "kafka://a:1/t")
    with pytest.raises(CernisError, match="--checkpoint '': expected a folder"):
        parse_folder("--checkpoint", "")


# -------------------------------------------------------------------- times


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("0s", 0),
        ("30s", 30_000),
        ("30 seconds", 30_000),
        ("1 second", 1000),
        (" 5 min ", 300_000),
        ("5m", 300_000),
        ("1.5 MINUTES", 90_000),
        ("250ms", 250),
        ("0.4 ms", 1),
        ("1h", 3_600_000),
        ("2 hours", 7_200_000),
        ("1 day", 86_400_000),
        (".5 secs", 500),
        ("0.1 s", 100),
    ],
)
def test_times_are_short_or_long(text: str, expected: int) -> None:
    assert parse_milliseconds("--lateness", text) == expected


@pytest.mark.parametrize("text", ["", "soon", "30", "-5s", "5 weeks", "s", "1e3 s", "5 s 3 ms"])
def test_what_is_no_time_is_said(text: str) -> None:
    with pytest.raises(CernisError) as caught:
        parse_milliseconds("--lateness", text)
    expected = f"--lateness {text}: expected a time like '30s', '5 min' or '1 hour'"
    assert str(caught.value) == expected


def test_a_time_of_centuries_is_a_mistake() -> None:
    with pytest.raises(CernisError, match="more than a hundred years"):
        parse_milliseconds("--lateness", "99999999 days")


# ------------------------------------------------------------------ folders


def folders(**paths: str) -> list[tuple[str, Folder]]:
    return [(f"--{name}", parse_folder(name, path)) for name, path in paths.items()]


def test_folders_that_are_apart_are_fine() -> None:
    check_apart(folders(source="a/in", sink="a/out", checkpoint="a/in2"))
    check_apart([("--source", parse_folder("", "in")), ("--source", parse_folder("", "in"))])


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ({"source": "in", "sink": "in/out"}, "--sink in/out lies in --source in: keep them apart"),
        ({"source": "a/in", "sink": "a"}, "--source a/in lies in --sink a: keep them apart"),
        (
            {"sink": "out", "checkpoint": "./out"},
            "--sink out and --checkpoint ./out are one folder",
        ),
        (
            {"sink": "out", "checkpoint": "out/x/../cp"},
            "--checkpoint out/x/../cp lies in --sink out: keep them apart",
        ),
        ({"source": "in", "sink": "link"}, "--source in and --sink link are one folder"),
    ],
)
def test_folders_inside_of_each_other_are_refused(
    here: Path, paths: dict[str, str], message: str
) -> None:
    (here / "in").mkdir()
    (here / "link").symlink_to("in")
    with pytest.raises(CernisError) as caught:
        check_apart(folders(**paths))
    assert str(caught.value) == message


def test_a_folder_must_be_one_that_can_be_written_to(here: Path) -> None:
    check_writable("--sink", parse_folder("--sink", "new/and/deep"))
    (here / "file").write_text("")
    for path in ("file", "file/below"):
        with pytest.raises(CernisError, match=rf"--sink {path}: .*/file is a file, not a folder"):
            check_writable("--sink", parse_folder("--sink", path))


@pytest.mark.skipif(
    getattr(os, "geteuid", lambda: 1)() == 0, reason="everything can be written to by root"
)
def test_a_folder_that_is_read_only_is_refused(here: Path) -> None:
    (here / "old").mkdir(mode=0o500)
    with pytest.raises(CernisError, match=r"--sink old/new: .*/old cannot be written to"):
        check_writable("--sink", parse_folder("--sink", "old/new"))
