"""SPAseQ on Spark: `check` opens the files, `layout` decides how solutions are spread, `recognize`
builds the DataFrames, `worker` runs in the tasks, `source` is the data source `rdf`.
"""

from __future__ import annotations
