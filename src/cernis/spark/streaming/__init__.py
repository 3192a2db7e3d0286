"""Queries on streaming DataFrames: exactly once, in order of time, for as long as they run.

    rows ─ masks, watermark (Catalyst) ─▶ packing ─ shuffle of blobs ─▶ processor ─▶ matches
                                                     buffer ─▶ session │ log (state store)

The files in the order of the data: `recognize` makes the DataFrame, `packing` turns rows into
blobs, Spark calls `processor` for each bucket, `bucket` runs the engine, with a `buffer` of
events and a `log` of its state. `side_output` writes events that are not read, `checkpoint`
says which query a checkpoint belongs to, `progress` has the numbers of a running query.
"""
