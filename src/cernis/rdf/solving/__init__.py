"""Graph events to rows of solutions.

`values`, `functions` and `programs` compile FILTERs. `plan` turns a graph pattern into a plan of
`operators` over tables of `solutions`, and `solve` runs it on whole batches. `rows` makes the
engine's rows of the solutions.
"""

from __future__ import annotations
