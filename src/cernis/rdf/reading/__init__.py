"""RDF files to graph events.

`terms` numbers terms, `quads` reads files, `group` collects the quads of each event, `timing` gives
events their times (`times` parses them), `merge` merges streams, and `streams` puts these together.
`scan` and `parts` cut files for parallel reading, `messages` reads texts in any order, `background`
loads background graphs.
"""

from __future__ import annotations
