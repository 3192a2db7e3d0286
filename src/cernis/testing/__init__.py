"""What Cernis is tested with, for its own executors and for anyone else's.

`oracle` is the definition of a query's meaning as a program, `corpus` holds cases worked
out by hand, `grammar` and `strategies` make random queries and streams (only the latter
needs Hypothesis), `differential` compares an answer with the oracle's.
"""
