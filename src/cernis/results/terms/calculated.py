"""Columns that plans calculate from the attributes of an event, for the indexes that compare them.

Cost contract: one pass in Arrow for each operation.
"""

from __future__ import annotations

import pyarrow as pa

from cernis.events.column_types import is_text
from cernis.events.evaluation.attributes import share_lookup
from cernis.events.evaluation.evaluate import Lookup, calculate_column
from cernis.events.evaluation.functions import Operand
from cernis.events.times import parse_timestamps
from cernis.pattern import predicate as pred
from cernis.results.terms.term import calculate_term, to_column


def calculate_from_table(attribute: pred.Attribute, table: pa.Table, *, time_unit: str) -> pa.Array:
    """Return the attribute of each row of a table of events."""
    return calculate_values(attribute, share_lookup(table), table.num_rows, time_unit)


def calculate_values(
    attribute: pred.Attribute, lookup: Lookup, length: int, time_unit: str
) -> pa.Array:
    """Return the attribute of each event; `lookup` gives the columns that the events have.

    A term of neighbours is a number, a time or a duration, or is compared with one. So its text is
    a time, or NULL.
    """
    if attribute.term is None:
        return calculate_column(attribute.value or attribute, lookup, length)

    def read(leaf: pred.MatchTerm) -> Operand:
        assert isinstance(leaf, pred.Reference)
        column = lookup(leaf.attribute.path)
        return None if column is None or pa.types.is_null(column.type) else column

    found = to_column(calculate_term(attribute.term, read, time_unit), length)
    return parse_timestamps(found) if is_text(found.type) else found
