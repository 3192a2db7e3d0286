"""The runtime of complex event automata: states that hold compact sets of partial matches.

The way of the data: `tables` (the automaton as arrays) → `step` (reads events, appends to the
`arena`) → `enumerate` (matches as arrays) and `count`. `resolve` applies the strategies that
compare starts, `collect` frees memory, `freeze` turns the state into bytes, `runtime` drives them.
"""

from __future__ import annotations
