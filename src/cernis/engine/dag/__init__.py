"""The run DAG: vertices that gather runs, and the indexes that runs wait in.

The correlated and the linked runtime write these records; matches are read off them in one
way. `records` has the arrays, `links` what readers know of the automaton. Indexes: `unions` for
keys, `unlike` for keys and ≠, `ordered` for keys and order. Passes: `enumerate` (matches as
arrays), `count` (how many), `collect` (drops records outside the window). The linked runtime counts
all roots of a sliding window at once, by its `steps`: `slide` by groups, `count_pairs` by pairs of
a run and a round, `count_ranges` by ranges of values, which are maps of segment trees (`run_maps`).
"""
