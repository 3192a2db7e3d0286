"""Queries on streaming DataFrames: exactly once, in order of time, for as long as they run.

    rows ─ masks, watermark (Catalyst) ─▶ packing ─ shuffle of blobs ─▶ processor ─▶ matches
                                                     waiting ─▶ session │ log (state store)

The files in the order of the data: `recognize` makes the DataFrame, `packing` turns
rows into blobs, `processor` is what Spark calls for each bucket, `bucket` is what it does,
with `waiting` and `log` as its parts; `aside` is where events go that cannot be read any
more, `checkpoint` what a checkpoint belongs to, `progress` what a running query tells.
"""
