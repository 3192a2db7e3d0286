"""The runtime: Numba kernels over NumPy record arrays. They see integers only.

`arena` is the compact set of partial matches, `tables` the automaton as arrays,
`update` reads events, `resolve` applies the strategies that compare starts,
`enumerate` and `count` read the result, `compact` gives memory back, `freeze` turns
the state into bytes, `runtime` drives them.
"""
