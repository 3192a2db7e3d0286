"""Stages: the clauses of a query, between the feed of a run and its result.

    feed ─▶ opening ─▶ longest ─▶ best ─▶ suppress ─▶ history ─▶ closing ─▶ result

`stage` says what a stage is, and `order` makes the stages of a plan in the order in which matches
pass through them. A new clause is a file here and a line there.
"""
