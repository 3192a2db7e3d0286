"""What a run gives back: lazy sets of matches, and the ways to look at them.

`matchset` is the border to the engine (arrays of positions, no Arrow), `matches` the
object that users hold, `columns`, `aggregate` and `jsonlines` turn blocks of matches
into Arrow and text, `timeline` and `html` draw them.
"""
