"""`cernis serve` as a user starts and ends it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from cernis.cli.main import main


@pytest.mark.skipif(sys.platform == "win32", reason="a signal ends it")
def test_the_server_says_where_it_is_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    events = tmp_path / "trades.csv"
    events.write_text("type,n\nA,1\n")
    command = [sys.executable, "-m", "cernis", "serve", "--port", "0", "--events", str(events)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            found = re.fullmatch(r"Cernis is at (http://127.0.0.1:\d+/) \(Ctrl-C ends it\)\n", line)
            assert found is not None, line
            asked = Request(f"{found[1]}api/limits", headers={"X-Cernis": "1"})
            with urlopen(asked, timeout=60) as answer:
                assert json.load(answer)["files"] == ["trades"]
            assert len(list(tmp_path.glob("cernis-serve-*"))) == 1
            server.send_signal(signal.SIGINT)
            assert server.wait(60) == 0
        finally:
            server.kill()
    assert list(tmp_path.glob("cernis-serve-*")) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--events", "nowhere.csv"], "error: nowhere.csv: no such file\n"),
        (["--events", "a=x.csv", "--events", "a=y.csv"], "error: two files for the stream 'a';"),
        (["--host", "256.1.1.1"], "error: cannot listen on 256.1.1.1, port 0: "),
    ],
)
def test_a_mistake_is_a_message_before_anything_starts(
    arguments: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--port", "0", *arguments]) == 1
    assert capfd.readouterr().err.startswith(message)


def test_without_the_extra_the_message_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["serve"]) == 1
    assert capfd.readouterr().err == (
        "error: cernis serve needs uvicorn, which is not installed: pip install 'cernis[serve]'\n"
    )
