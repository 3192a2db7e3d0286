"""Views: what the playground, notebooks and the manual draw, as plain data and as SVG.

`timeline_index` aggregates events and matches for an interval, and `timeline` draws them.
`describe_automaton` and `describe_linked` put an automaton into words, `layout` places its states,
and `automaton` draws it. They take arrays and automata, and know neither files nor sessions.
"""
