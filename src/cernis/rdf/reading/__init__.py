"""RDF files to graph events.

`terms` numbers terms, `quads` reads files, `times` says when an event happened, `events` puts quads
into events and merges streams, `parts` cuts files for parallel reading, `background` loads
background graphs.
"""

from __future__ import annotations
