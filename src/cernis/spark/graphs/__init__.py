"""SPAseQ on Spark, in the same files as CEQL on Spark in the folder above.

`check` checks the files, `layout` says how solutions are spread, `prepare` decides, `batch` builds
the DataFrames, `worker` runs in the tasks, `recognition` and `explanation` have the public
functions. `source` is the data source `rdf`, `texts` makes events of texts. `stream` and
`stream_worker` run on streams, on the buckets of `cernis.spark.streaming`; `versions` notes the
versions of a live background.
"""
