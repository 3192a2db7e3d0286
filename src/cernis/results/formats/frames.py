"""Results as pandas frames, in which the times inside of events are timestamps.

Arrow turns nested times into numbers where they count nanoseconds, and into `datetime` otherwise.
Columns of events are made anew here: the times of all events of a column are converted at once.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cernis.extras import import_extra

if TYPE_CHECKING:
    import pandas as pd


def to_frame(table: pa.Table) -> pd.DataFrame:
    """Return a table as a pandas frame (pandas must be installed)."""
    import_extra("pandas", "to_pandas")
    frame = table.to_pandas()
    for at, field in enumerate(table.schema):
        if pa.types.is_list(field.type) and _holds_times(field.type.value_type):
            frame.isetitem(at, _make_lists(table.column(at)))
    return frame


def _holds_times(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) and any(pa.types.is_timestamp(field.type) for field in kind)


def _make_lists(column: pa.ChunkedArray) -> pd.Series[Any]:
    import numpy as np
    import pandas as pd

    lists: list[Any] = []
    for chunk in column.chunks:
        structs = chunk.flatten()
        held = [part.to_pandas().tolist() for part in structs.flatten()]
        names = [field.name for field in structs.type]
        records = [dict(zip(names, values, strict=True)) for values in zip(*held, strict=True)]
        ends = chunk.offsets.to_numpy() - (chunk.offsets[0].as_py() if len(chunk) else 0)
        lists += [records[a:b] for a, b in pairwise(ends.tolist())]
    made = np.empty(len(lists), object)
    for at, each in enumerate(lists):
        made[at] = np.array(each, object)
    return pd.Series(made)
