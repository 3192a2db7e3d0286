"""Cases to test an executor of queries: a corpus worked out by hand, and random queries.

`corpus` holds the cases, `grammar` and `strategies` make random queries and streams (only the
latter needs Hypothesis), `exhaustive` lists all small ones, `differential` compares an answer with
the answer of the oracle (`cernis.testing.oracle`).
"""

from __future__ import annotations
