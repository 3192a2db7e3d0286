"""From formulas to automata, a folder for each runtime.

`unary` automata look at one event at a time, `correlated` ones compare events, `linked` ones
match sequences of graph patterns. `str()` of an automaton is its text; `mermaid` draws it.
"""
