"""The files of a folder of rules, with what tells whether they have changed.

A file is known by its inode, size and times. A write in the same tick of the clock of the file
system may leave all of them as they were, so a file that has just changed has no stamp.

Cost contract: one call of the system for each file, which is not opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from time import time_ns
from typing import NamedTuple

SUFFIX = ".ceql"
_TICK = 2_000_000_000
"""No file system has longer ticks, in nanoseconds."""

Stamp = tuple[int, int, int, int]


class RuleFile(NamedTuple):
    """A file of a folder."""

    path: str
    stamp: Stamp | None
    """Equal stamps mean equal content; None: nothing is known of it."""


def list_rule_files(folder: Path) -> list[RuleFile]:
    """Return the files of rules in a folder and in the folders below, by their names."""
    now = time_ns()
    found = [RuleFile(entry.path, _find_stamp(entry, now)) for entry in _walk(str(folder))]
    return sorted(found, key=lambda file: file.path.split(os.sep))


def _walk(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        entries = [*os.scandir(folder)]
    except PermissionError:  # as pathlib does
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path)
        elif entry.name.endswith(SUFFIX) and entry.is_file():
            yield entry


def _find_stamp(entry: os.DirEntry[str], now: int) -> Stamp | None:
    try:
        known = entry.stat()
    except OSError:  # it is gone; opening it says so
        return None
    if now - max(known.st_mtime_ns, known.st_ctime_ns) < _TICK:
        return None
    return known.st_ino, known.st_size, known.st_mtime_ns, known.st_ctime_ns
