"""The folder in which Cernis keeps files between runs; it can be deleted at any time.

It is in the user's cache folder (`XDG_CACHE_HOME`, else `~/.cache` or the system's equivalent).
Where that cannot be written to (executors of a cluster, containers without a home), it is in the
temporary folder, under a name with the user's number.

Its files are code, and to load them is to run them. So the folder must belong to this
user, who alone may write to it. Anything else in its place, a link included, is ignored.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path


@cache
def own_folder() -> Path | None:
    """Return the folder, made if it is missing; None if it can be made nowhere."""
    return next((folder for folder in _list_folders() if is_ours(folder)), None)


def write_whole(file: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file that appears whole: another process may be using the one before."""
    unfinished = file.with_name(f"{file.name}.{os.getpid()}")
    unfinished.write_bytes(content)
    unfinished.chmod(mode)
    os.replace(unfinished, file)


def _list_folders() -> Iterator[Path]:
    if sys.platform == "win32":
        home = os.environ.get("LOCALAPPDATA", "")
    elif sys.platform == "darwin":
        home = os.path.expanduser("~/Library/Caches")
    else:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if os.path.isabs(home):  # a user without a home has "~" left in there
        yield Path(home, "cernis")
    yield Path(tempfile.gettempdir(), f"cernis-{_user()}")


def is_ours(folder: Path) -> bool:
    """Return whether a folder, made if it is missing, is one that only this user may write to."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return False
    if not stat.S_ISDIR(found.st_mode) or not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return False
    if sys.platform == "win32":  # both folders are the user's own there
        return True
    return found.st_uid == _user() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _user() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0
