"""Results of a run: lazy sets of matches or answers, in every form they can be had in.

`matchset` is the border to the engine (arrays of positions, no Arrow). `result` is the base of the
objects that users hold: `matches`, `answers`, and those of `cernis.rdf`. `columns`, `aggregate` and
`jsonlines` turn blocks of matches into Arrow and text; `index_timeline` and `notebook` show them.
"""
