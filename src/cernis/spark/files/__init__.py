"""Files on Spark: `check` checks them before Spark starts, `load` makes DataFrames of them, `merge`
brings the matches of all tasks into the order of the embedded engine.
"""
