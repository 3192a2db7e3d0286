"""The folder for files between runs: whose it may be, and where it is when there is no home."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path

import pytest

from cernis import folder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have other places")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache folder; the temporary folder is beside it."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "home"


def found() -> Path | None:
    return folder.own_folder.__wrapped__()


def in_the_temporary_folder(home: Path) -> Path:
    return home.parent / "temporary" / f"cernis-{os.geteuid()}"


def test_it_is_made_in_the_users_cache_for_the_user_alone(home: Path) -> None:
    assert found() == home / "cernis"
    assert stat.S_IMODE((home / "cernis").stat().st_mode) == 0o700


def test_it_is_found_again(home: Path) -> None:
    assert found() == found() == home / "cernis"


def test_without_a_cache_that_can_be_written_it_is_in_the_temporary_folder(home: Path) -> None:
    home.write_text("not a folder")
    assert found() == in_the_temporary_folder(home)
    assert stat.S_IMODE(in_the_temporary_folder(home).stat().st_mode) == 0o700


def test_a_user_without_a_home_has_one_in_the_temporary_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert found() == in_the_temporary_folder(home)


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_may_write_to_is_passed_over(home: Path, mode: int) -> None:
    (home / "cernis").mkdir(parents=True)
    (home / "cernis").chmod(mode)
    assert found() == in_the_temporary_folder(home)


def test_a_link_is_passed_over(home: Path) -> None:
    (home.parent / "elsewhere").mkdir(mode=0o700)
    home.mkdir()
    (home / "cernis").symlink_to(home.parent / "elsewhere")
    assert found() == in_the_temporary_folder(home)


def test_folders_of_another_user_are_passed_over(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = os.geteuid() + 1
    (home / "cernis").mkdir(parents=True, mode=0o700)
    (home.parent / "temporary" / f"cernis-{other}").mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: other)
    assert found() is None
