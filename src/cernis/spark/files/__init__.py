"""Files on Spark: `check` opens them before Spark starts, `load` makes DataFrames of them, `merge`
puts what tasks wrote into the order of the embedded engine.
"""

from __future__ import annotations
