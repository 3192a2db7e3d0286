"""Look up the known vulnerabilities of the locked dependencies: `make audit`.

    python tests/house/audit.py [--index https://pypi.org]

PyPI lists the advisories of each release (https://docs.pypi.org/api/json). The exit code is 0 if
there are none, 1 if there are some, and 2 if the index could not be asked.
"""

from __future__ import annotations

import argparse
import json
import sys
import urllib.request
from pathlib import Path
from typing import Any

LOCK = Path(__file__).parents[2] / "requirements-dev.lock"
SECONDS = 20.0


def read_lock(text: str) -> dict[str, str]:
    """Return the version of each locked package."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    pins = (line.split("==") for line in lines if line)
    return {name.lower().replace("_", "-"): version for name, version in pins}


def list_advisories(release: dict[str, Any]) -> list[str]:
    """Return the advisories of a release that were not withdrawn, a line each."""
    return [
        f"{each['id']}: {each.get('summary') or each.get('details', '')[:80]} "
        f"(fixed in {', '.join(each.get('fixed_in', [])) or 'no version yet'})"
        for each in release.get("vulnerabilities", [])
        if not each.get("withdrawn")
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--index", default="https://pypi.org")
    index = parser.parse_args().index
    pins = read_lock(LOCK.read_text())
    found = 0
    for asked, (name, version) in enumerate(pins.items()):
        address = f"{index}/pypi/{name}/{version}/json"
        try:
            with urllib.request.urlopen(address, timeout=SECONDS) as answer:
                release = json.load(answer)
        except (OSError, ValueError) as error:
            print(f"audited {asked} of {len(pins)} packages: {address} gives {error}")
            print("an audit needs the network; run `make audit` where the index can be reached")
            return 2
        for advisory in list_advisories(release):
            found += 1
            print(f"{name} {version}  {advisory}")
    print(f"audited {len(pins)} packages: {found} known vulnerabilities")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
