"""Tools to test an executor of queries: an oracle, a corpus, random queries.

`oracle` is the definition of a query's meaning as a program, `corpus` holds cases worked
out by hand, `grammar` and `strategies` make random queries and streams (only the latter
needs Hypothesis), `differential` compares an answer with the oracle's.
"""
