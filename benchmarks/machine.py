"""The machine and the versions behind a benchmark's numbers; no names of hosts or people."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

_PACKAGES = ("numpy", "numba", "pyarrow")


def describe_machine() -> dict[str, str]:
    """Return processor, memory, system and versions as texts."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _PACKAGES)
    return {
        "processor": f"{_find_processor()}, {os.cpu_count()} cores",
        "memory": _describe_memory(),
        "load": _describe_load(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}, {versions}",
    }


def _find_processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def _describe_load() -> str:
    """Return the load of the machine, with a warning if it was more than the cores."""
    try:
        load = os.getloadavg()[2]
    except (AttributeError, OSError):
        return "unknown"
    said = f"{load:.1f} processes at work on average in the last 15 minutes"
    if load <= (os.cpu_count() or 1):
        return said
    return (
        f"{said}, more than there are cores: other work ran beside this, all rates are too low, "
        "and CORE, which uses two threads, can lose more by it than Cernis, which uses one"
    )


def _describe_memory() -> str:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return "unknown"
    return f"{total / 2**30:.0f} GiB"
