"""Patterns that compare events with each other, as parallelized automata.

`pcea` is the automaton. `correlate` builds one from any formula (`fragments`, `close`, `between`,
`classes`, `presence`), `hierarchical` from a join with a q-tree (`qtree`). `ambiguity` tells
whether two runs can write one match, `determinize` removes that from chains, `mermaid` draws.
"""

from __future__ import annotations
