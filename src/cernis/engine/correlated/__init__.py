"""The runtime of parallelized automata: runs that wait in indexes and are gathered.

Way of the data: `tables` (the automaton as arrays) → `step` (reads events, makes
vertices, files them in indexes: `unions`, `unlike`, `sorted`) → `walk` (matches as
arrays) and `tally` (how many). `collect` gives back what has left the window, `freeze`
turns the state into bytes; `runtime` drives them.
"""
