"""`python -m tools.manual site` builds the site of a checkout, `pages` writes its made pages."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from cernis.errors import CernisError
from tools.manual.build import build_site
from tools.manual.made import write_files

ROOT = Path(__file__).parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Build what is asked for; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.manual", description=__doc__)
    parser.add_argument("what", choices=["site", "pages"])
    parser.add_argument("--output", metavar="DIR", type=Path, default=ROOT / "build" / "site")
    given = parser.parse_args(arguments)
    if not (ROOT / "docs").is_dir():
        sys.stderr.write("error: the manual is built from a checkout of Cernis, and this is none\n")
        return 1
    try:
        if given.what == "pages":
            written = write_files(ROOT)
        else:
            written = [str(build_site(ROOT, given.output))]
        sys.stdout.writelines(f"{path}\n" for path in written)
    except CernisError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
