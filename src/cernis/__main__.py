"""`python -m cernis` is `cernis`."""

from __future__ import annotations

import sys

from cernis.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
