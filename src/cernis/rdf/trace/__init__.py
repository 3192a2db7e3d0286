"""Look into a run of SPAseQ: the twin of `cernis.run.trace`.

`graphs` reads and solves the graphs, `linked` replays them in the automaton of links, `why` fits
graphs into the sequence, `reasons` says in sentences what is in their way.
"""
