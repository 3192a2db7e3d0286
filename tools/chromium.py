"""Find Chromium of the distribution, or install it where apt and the rights for it are there.

`make setup` runs this file. Without Chromium, the tests in the browser fail, unless
`CERNIS_WITHOUT=browser` leaves them out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium() -> str | None:
    """Return the path of a browser that Playwright can drive."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def install_chromium() -> None:
    """Install the package of the distribution, where this user may."""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return
    print("==> installing Chromium for the tests in a browser (once; about 100 MB to fetch)")
    quiet = {"DEBIAN_FRONTEND": "noninteractive", **os.environ}
    apt = ["apt-get", "-o", "Acquire::http::Timeout=20", "-o", "Acquire::Retries=1"]
    install = [*apt, "install", "--yes", "-qq", "--no-install-recommends", "chromium"]
    for command in (install, [*apt, "update", "-qq"], install):
        done = subprocess.run(command, env=quiet, capture_output=True)
        if command == install and done.returncode == 0:
            return


if __name__ == "__main__":
    if find_chromium() is None and sys.platform == "linux":
        install_chromium()
    if find_chromium() is None:
        print("==> no Chromium here: install it, or leave its tests out: CERNIS_WITHOUT=browser")
