"""The manual as a site, from README.md, docs/ and examples/.

`make site` builds it offline into `build/site`, a folder for each version. It needs a checkout.
"""

from __future__ import annotations
