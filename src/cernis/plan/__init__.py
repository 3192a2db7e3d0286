"""Which runtime a query gets, and what that promises.

`plan` chooses, `explain` says what was chosen and why, `verify` and `choose` filter
the matches of queries that no automaton can decide alone.
"""
