"""From columns to integers: one code per event for the engine.

`evaluate` asks predicates of columns (`regex` has the expressions of LIKE), `classify` and
`hashing` number the distinct rows of answers, `encode` puts them together (`masks` where somebody
else has evaluated the predicates), `keys` numbers partitions, `compare` the values that events are
compared by, `clock` reads the window's clock.
"""

from __future__ import annotations
