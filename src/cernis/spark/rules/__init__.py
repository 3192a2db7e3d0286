"""Rule sets on Spark, in the same files as patterns on Spark in the folder above.

`keys` says which rules share a shuffle, `prepare` decides, `batch` builds the DataFrames, `worker`
runs in the tasks, `recognition` has the public function. `packing`, `stream` and `stream_worker`
run on streams, on the buckets of `cernis.spark.streaming`; `versions` notes which rules hold from
which micro-batch on.
"""
