"""Graph events to rows of solutions.

`values`, `functions` and `programs` compile FILTERs, `solve` solves a graph pattern in whole
batches, `rows` makes the engine's rows of the solutions.
"""

from __future__ import annotations
