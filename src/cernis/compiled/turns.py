"""Turns: of several processes that need a kernel at once, one compiles it and the others load it.

The workers of a cluster's machine start together and need the same kernels. The first one locks a
file beside the compiled code's. The others wait for the lock, and then find the code.

The locks are POSIX record locks: they end with their process, and a fork does not inherit them.
A kernel locks before the kernels that it calls, never after them, so processes cannot wait in a
circle. A wait has a limit all the same: a process may be suspended while it compiles.

Cost: a few system calls for each kernel that is compiled, none for one that is loaded.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from pathlib import Path

if sys.platform != "win32":
    import fcntl

_LONGEST_WAIT = 60.0
_PAUSE = 0.02


def take_turn(file: Path) -> int | None:
    """Wait while another process compiles this file; return the lock, or None without one."""
    if sys.platform == "win32":
        return None  # every process compiles for itself
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(_beside(file), os.O_RDWR | os.O_CREAT, 0o600)
    give_up = time.monotonic() + _LONGEST_WAIT
    while time.monotonic() < give_up:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                break  # a file system without locks
        time.sleep(_PAUSE)
    os.close(lock)
    return None


def end_turn(file: Path, lock: int) -> None:
    """Let the next process have its turn."""
    _beside(file).unlink(missing_ok=True)
    os.close(lock)


def _beside(file: Path) -> Path:
    return file.with_suffix(".lock")
