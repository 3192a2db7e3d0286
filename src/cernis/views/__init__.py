"""Views: what the playground, notebooks and the manual draw, as plain data and as SVG.

`timeline_index` aggregates events and matches for an interval, `automaton` lays out an automaton,
`trace` replays the events before a row, `why` finds where some rows stop matching. They take
arrays, automata, patterns and records, and know neither files nor sessions; `results` and `run`
call them.
"""
