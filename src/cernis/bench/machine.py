"""The machine and the versions behind a benchmark's numbers; no names of hosts or people."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

_PACKAGES = ("numpy", "numba", "pyarrow")


def describe_machine() -> dict[str, str]:
    """Processor, memory, system and versions, ready to print."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _PACKAGES)
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": _memory(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}, {versions}",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def _memory() -> str:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return "unknown"
    return f"{total / 2**30:.0f} GiB"
