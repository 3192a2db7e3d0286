"""The runtimes: Numba kernels over NumPy record arrays. They see integers only.

`unary`, `correlated` and `linked` have the same file for the same pass: `tables` is the automaton
as arrays, `step` reads events, `enumerate` and `count` read the matches, `collect` drops dead
records, `freeze` turns the state into bytes, `runtime` drives them. `correlated` and `linked` share
`dag`, their records and the passes over them. `graphs` evaluates graph patterns. `listing` has
matches as arrays, `settings` how a query runs.
"""
