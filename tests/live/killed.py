"""Run a command of Cernis in a process that ends by itself at a moment which is hard to hit.

    python tests/live/killed.py MOMENT NUMBER stream …

At the NUMBERth MOMENT the process gets SIGKILL: between the two halves of a `snapshot`, after a
delivery was staged and before the `commit`, after the commit and before the `release`. `full` lets
the checkpoint grow by NUMBER bytes only, as a full disk does. Snapshots are made often here.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cernis.cli.main import main
from cernis.live.run import LiveRun
from cernis.live.store import FILE, LocalStore
from cernis.work import log

left = 0


def die_at(number: int, owner: Any, name: str, wanted: str = "") -> None:
    """Kill this process before a call; `wanted` is the first argument of those that count."""
    global left
    left, call = number, getattr(owner, name)

    def counted(self: Any, *arguments: Any) -> Any:
        global left
        if not wanted or arguments[0] == wanted:
            left -= 1
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return call(self, *arguments)

    setattr(owner, name, counted)


def fill_disk(number: int) -> None:
    folder = Path(sys.argv[sys.argv.index("--checkpoint") + 1])
    sizes = [path.stat().st_size for path in folder.glob(f"{FILE}*")] or [0]
    resource.setrlimit(resource.RLIMIT_FSIZE, (max(sizes) + number,) * 2)


MOMENTS: dict[str, Callable[[int], None]] = {
    "snapshot": lambda number: die_at(number, LocalStore, "_put", "waiting"),
    "commit": lambda number: die_at(number, LocalStore, "commit"),
    "release": lambda number: die_at(number, LiveRun, "_release"),
    "full": fill_disk,
}

if __name__ == "__main__":
    log.SMALLEST_SNAPSHOT = 4096
    MOMENTS[sys.argv[1]](int(sys.argv[2]))
    sys.exit(main(sys.argv[3:]))
