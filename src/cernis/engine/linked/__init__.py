"""The runtime of SPAseQ: runs that wait under `,`, `;` or `:` for the rows that continue them.

It reads rows of term codes, one for each solution of a graph pattern, and writes the records of
`cernis.engine.dag`, which lists, counts and collects them. The way of the data: `tables` (the
automaton as arrays) → `step` (reads rows, makes vertices) → `waiting` and `heaps` (indexes of the
runs that wait). `runtime` drives them, `freeze` writes their state as arrays.
"""
