"""`make package`: build a wheel and an sdist, and try both in environments of their own.

The wheel is made from the sdist, so the sdist is complete. `smoke.py` runs with the wheel on each
Python that is found, and with the sdist on the first one. Needs the network; takes a minute for
each Python, so it is no part of `make test`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SMOKE = Path(__file__).with_name("smoke.py")
VERSIONS = ("3.11", "3.12", "3.13", "3.14")


def call(*command: str | Path) -> None:
    """Run a command in a folder without modules; its failure is the end."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [str(word) for word in command]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    if words[-1] == str(SMOKE):
        print(done.stdout, end="")


def make_environment(python: str, folder: Path) -> Path:
    """Return the interpreter of a new, empty environment."""
    call(python, "-m", "venv", folder)
    return folder / "bin" / "python"


def find_pythons() -> Iterator[str]:
    """Yield the Pythons that are named as arguments, or one of each version that is here."""
    yield from sys.argv[1:]
    for version in VERSIONS if not sys.argv[1:] else ():
        found = shutil.which(f"python{version}")
        # a name may be there without the Python, if that is chosen by pyenv
        if (
            found
            and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0
        ):
            yield found
        else:
            print(f"no Python {version} here: not tried")


def main() -> None:
    pythons = [*find_pythons()]
    if not pythons:
        sys.exit(f"none of these Pythons is here: {', '.join(VERSIONS)}")
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="cernis-package-") as name:
        folder = Path(name)
        builder = make_environment(pythons[0], folder / "build")
        call(builder, "-m", "pip", "install", "--quiet", "build")
        call(builder, "-m", "build", "--outdir", dist, ROOT)
        [wheel], [sdist] = dist.glob("*.whl"), dist.glob("*.tar.gz")
        print(f"==> {wheel.relative_to(ROOT)}, {sdist.relative_to(ROOT)}")
        tries = [*((python, wheel) for python in pythons), (pythons[0], sdist)]
        for number, (python, package) in enumerate(tries):
            own = make_environment(python, folder / str(number))
            call(own, "-m", "pip", "install", "--quiet", package)
            print(f"==> {package.name}: ", end="", flush=True)
            call(own, "-I", SMOKE)


if __name__ == "__main__":
    main()
