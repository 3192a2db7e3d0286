"""Events: read them, put them in order, keep them.

`open_events` turns files, frames and tables into `Source`s; `Ordering` merges those into
`EventBatch`es in final order; `EventStore` keeps events for the output.
"""
