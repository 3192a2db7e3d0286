"""Look into a run: which partial matches wait at a row, and why some rows are no match.

`unary` and `correlated` replay the events before a row in the automaton, `why` fits rows into the
formula, `reasons` says in sentences what is in their way.
"""
