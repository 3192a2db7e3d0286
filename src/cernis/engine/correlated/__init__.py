"""The runtime of parallelized automata: runs that wait in indexes and are gathered.

The way of the data: `tables` (the automaton as arrays) → `step` (reads events, makes vertices,
files them in indexes) → `enumerate` and `count` of `cernis.engine.dag`, whose `collect` drops dead
records. `freeze` turns the state into bytes; `runtime` drives them.
"""
