"""The note in a checkpoint's folder: read, or refused with what to do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cernis.errors import StateError
from cernis.work.checkpoint import NOTE, VERSION, claim, read_note

RELEASED = Path(__file__).parent / "checkpoints" / "note"
QUERY = {"query": "SELECT * FROM S WHERE A ; B WITHIN 5 SECONDS", "buckets": 8}


def test_the_first_run_writes_the_note_and_the_next_one_finds_it(tmp_path: Path) -> None:
    assert read_note(str(tmp_path)) is None
    claim(str(tmp_path), QUERY)
    claim(str(tmp_path), QUERY)
    assert read_note(str(tmp_path)) == {"version": VERSION, **QUERY}


@pytest.mark.parametrize("version", range(1, VERSION + 1))
def test_a_note_of_every_version_is_read(version: int, tmp_path: Path) -> None:
    shutil.copy(RELEASED / f"version-{version}.json", tmp_path / NOTE)
    claim(str(tmp_path), QUERY)


def test_a_note_of_another_version_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / NOTE).write_text(json.dumps({"version": VERSION + 1, **QUERY}))
    with pytest.raises(StateError) as raised:
        claim(str(tmp_path), QUERY)
    assert str(raised.value) == (
        f"{tmp_path}: the checkpoint was written by another version of Cernis; go on with that "
        "version, or begin with a new folder"
    )


def test_another_query_is_refused_and_the_note_stays(tmp_path: Path) -> None:
    claim(str(tmp_path), QUERY)
    with pytest.raises(StateError, match=r"buckets was 8\n.* is 4"):
        claim(str(tmp_path), {**QUERY, "buckets": 4})
    assert read_note(str(tmp_path)) == {"version": VERSION, **QUERY}


def test_a_damaged_note_is_refused(tmp_path: Path) -> None:
    (tmp_path / NOTE).write_text("{")
    with pytest.raises(StateError, match="the note of the checkpoint is damaged"):
        claim(str(tmp_path), QUERY)


def test_a_signed_note_is_read_with_its_secret_only(tmp_path: Path) -> None:
    secret, folder = "0123456789abcdef", str(tmp_path)
    claim(folder, QUERY, secret)
    claim(folder, QUERY, secret)
    assert read_note(folder, secret) == {"version": VERSION, **QUERY}
    for other, message in (
        (None, "the checkpoint is signed: give the secret that it was signed with"),
        (secret[::-1], "the checkpoint was signed with another secret, or was changed since"),
    ):
        with pytest.raises(StateError, match=message):
            claim(folder, QUERY, other)
    written = json.loads((tmp_path / NOTE).read_text())
    (tmp_path / NOTE).write_text(json.dumps({**written, "buckets": 4}))
    with pytest.raises(StateError, match="or was changed since"):
        claim(folder, {**QUERY, "buckets": 4}, secret)
    (tmp_path / NOTE).write_text(json.dumps({"version": VERSION, **QUERY}))
    with pytest.raises(StateError, match="the checkpoint is not signed, and a secret was given"):
        claim(folder, QUERY, secret)
