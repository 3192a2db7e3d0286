"""Work that a host runs: a query, or rules, over rows that come in pieces.

A host is Spark, in batch and on streams, or one process over a live stream. It gives a `Work` the
rows in order, or a `Bucket` rows that may be late, and a folder to keep state in. Nothing here
imports Spark.
"""
