"""The columns that travel beside attributes, between Spark and its Python workers.

Does not import Spark.
"""

from __future__ import annotations

ROW, STREAM, MOMENT = "@row", "@stream", "@moment"
"""The number of an event, the number of its stream, and the time by which Spark sorts it."""
BUCKET, PART, OWN = "@bucket", "@part", "@own"
"""The task that reads a row, the part of that task, and whether the row is the part's own."""
TICKS, NOW, PLACE = "@ticks", "@now", "@place"
"""The time of an event, the last time of the whole input, and the rank of a match in its part."""
LEAD = "@lead"
"""Whether a row stands for its event, which may travel in several."""

REASON, EVENT = "@aside", "@whole"
"""Why an event is not read, NULL if it is; the event as it came, as JSON."""
LATE, AHEAD, UNTIMED, UNDECODABLE = "late", "ahead", "no time", "undecodable"
"""Why events are not read."""

ARRIVAL, BLOB = "arrival", "blob"
"""The columns of packed rows, beside their bucket: when they came, and the rows."""
