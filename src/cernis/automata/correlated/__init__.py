"""Patterns that compare events with each other, as parallelized automata.

`pcea` is the automaton. `correlate` builds one from any formula (`fragments`, `between`, `classes`,
`presence`), `hierarchical` from a join with a q-tree (`qtree`). `disambiguate` finds out whether
two runs can write one match, and determinizes chains.
"""

from __future__ import annotations
