"""The kernels of SPAseQ: runs that wait for what may follow them, under `,`, `;` or `:`.

They read rows of term codes, one for each solution of a graph pattern, and write the records of
`cernis.engine.correlated`, so that what lists, counts and draws matches there serves here.
"""
