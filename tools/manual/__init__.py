"""The manual: a site from README.md, docs/ and examples/, and the pages made from the code.

`make site` builds the site offline into `build/site`, a folder for each version. `make pages`
writes the made pages of docs/ anew. Both need a checkout.
"""

from __future__ import annotations
