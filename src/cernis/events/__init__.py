"""Events in: reading them, putting them in order, evaluating predicates on them.

`open_events` turns files, frames and tables into `Source`s; `ordered` merges those into
`EventBatch`es in final order; `AtomEncoder` gives each event one small code that stands
for the truth of every predicate; `EventStore` keeps events for the output.
"""
