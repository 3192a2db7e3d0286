"""Choose the runtime of a query, and say what it promises.

`plan` makes the plan of a pattern, `graphs` the plan of a SPAseQ query; `explain` and
`explain_graphs` describe them.
"""
