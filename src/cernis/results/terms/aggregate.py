"""Aggregates over the events of a match, for a block of matches at once.

NULLs are left out; over nothing COUNT is 0 and the others are NULL. FIRST and LAST go
by the order of the stream. SUM of integers is exact: a sum that does not fit 64 bits
is an error, not a wrapped number. AVG of integers divides the exact sum, or a rough one where that
does not fit. SUM and AVG of anything but numbers are NULL, as are MIN and MAX of values of several
kinds.

Cost contract: one gather of the attribute and one grouped pass in Arrow, whatever the
number of matches. Of matches that share their events, each event is read once: sums, least and
greatest values of integers and floats are put together from parts of them (`fold_spans`), which
costs the logarithm of the events for each; those of other types list the events.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cernis.engine.spans import count_distinct, fold_spans, list_indices
from cernis.errors import DataError
from cernis.events.kinds import NULL, Int8s
from cernis.events.store import EventStore
from cernis.events.times import as_floats
from cernis.pattern.predicate import Aggregate, Reference
from cernis.pattern.write import write_term
from cernis.results.sets.matchset import (
    MatchBlock,
    Positions,
    SharedSpans,
    Spans,
    spans_of,
)
from cernis.results.terms.distinct import number_distinct

_GROUPED = {"SUM": "sum", "MIN": "min", "MAX": "max", "AVG": "mean"}


_LISTED = 1 << 22
"""So many events that matches share are copied at a time."""

SEVERAL = -1
"""The kind of an aggregate over values of several kinds."""


def find_kinds(
    aggregate: Aggregate, block: MatchBlock, variables: Sequence[str], events: EventStore
) -> Int8s | None:
    """Return the kind of the value for each match; None if the kind is always the same."""
    function, argument = aggregate.function.upper(), aggregate.argument
    if function == "COUNT" or not isinstance(argument, Reference):
        return None
    v = variables.index(argument.variable)
    positions, low, high = spans_of(block, v)
    kinds = events.kinds(positions, argument.attribute.name)
    if kinds is None:
        return None
    if function in ("FIRST", "LAST"):
        known = pa.array(kinds, mask=kinds == NULL)
        chosen = _outermost(known, low, high, last=function == "LAST")
        return np.asarray(chosen.fill_null(NULL), np.int8)
    found = np.full(len(low), NULL, np.int8)
    for kind in np.unique(kinds[kinds != NULL]):
        before = np.concatenate(([0], np.cumsum(kinds == kind)))
        here = before[high] > before[low]
        found[here] = np.where(found[here] == NULL, kind, SEVERAL)
    return found


def evaluate(
    aggregate: Aggregate,
    block: MatchBlock,
    variables: Sequence[str],
    events: EventStore,
    kind: int | None = None,
) -> pa.Array:
    """Return one value for each match of the block, whose values have this kind."""
    function, argument = aggregate.function.upper(), aggregate.argument
    if argument is None:
        return pa.array(_distinct_events(block), pa.int64())
    if isinstance(argument, str):
        return pa.array(np.diff(block.offsets[variables.index(argument)]), pa.int64())
    v, name = variables.index(argument.variable), argument.attribute.name
    positions, low, high = spans = spans_of(block, v)
    shares = isinstance(block.positions, SharedSpans)
    if function == "COUNT" and aggregate.distinct:
        kinds = events.list_kinds(name)
        of_kinds = (events.column_of_kind(positions, name, each) for each in kinds)
        distinct = sum(_count_distinct(values, spans) for values in of_kinds)
        return pa.array(np.zeros(len(block.start), np.int64) + distinct)
    if kind is None:
        if function in _GROUPED and len(events.list_kinds(name)) > 1:
            raise DataError(
                f"{write_term(aggregate)}: {name} is of one type in one stream and of another type "
                "in another; GROUP BY aggregates values of one type"
            )
        values = events.column(positions, name)
    else:
        values = events.column_of_kind(positions, name, kind)
    match function:
        case "COUNT":
            valid = values.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
            before = np.concatenate(([0], np.cumsum(valid)))
            return pa.array(before[high] - before[low], pa.int64())
        case "FIRST" | "LAST":
            return _outermost(values, low, high, last=function == "LAST")
        case _ if shares and (pa.types.is_int64(values.type) or pa.types.is_float64(values.type)):
            return _aggregate_spans(aggregate, values, low, high)
        case _ if shares:
            return _aggregate_listed(aggregate, values, low, high)
        case _:
            return _aggregate_groups(aggregate, values, block.offsets[v])


def _distinct_events(block: MatchBlock) -> NDArray[np.int64]:
    """Return how many events each match has; an event of several variables counts once."""
    m = len(block.start)
    if not block.positions:
        return np.zeros(m, np.int64)
    if isinstance(block.positions, SharedSpans):
        return block.positions.count_events()
    owner = np.concatenate([np.repeat(np.arange(m), np.diff(o)) for o in block.offsets])
    position = np.concatenate(block.positions)
    order = np.lexsort((position, owner))
    owner, position = owner[order], position[order]
    fresh = np.ones(len(owner), np.bool_)
    fresh[1:] = (owner[1:] != owner[:-1]) | (position[1:] != position[:-1])
    return np.bincount(owner[fresh], minlength=m).astype(np.int64)


def _count_distinct(values: pa.Array, spans: Spans) -> NDArray[np.int64]:
    """Return how many different values there are in each span, NULL left out."""
    if pa.types.is_null(values.type):
        return np.zeros(len(spans.low), np.int64)
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    return count_distinct(np.where(valid, number_distinct(values), -1), spans.low, spans.high)


def _outermost(values: pa.Array, low: Positions, high: Positions, *, last: bool) -> pa.Array:
    """Return the first or last value that is not null, in each span."""
    valid = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    if last:
        index = np.searchsorted(valid, high) - 1
        inside = (index >= 0) & (valid[index] >= low) if len(valid) else index >= 0
    else:
        index = np.searchsorted(valid, low)
        inside = index < len(valid)
        inside[inside] = valid[index[inside]] < high[inside]
    chosen = np.zeros(len(index), np.int64)
    chosen[inside] = valid[index[inside]]
    return values.take(pa.array(chosen, mask=~inside))


def _aggregate_groups(aggregate: Aggregate, values: pa.Array, offsets: Positions) -> pa.Array:
    """Return SUM, MIN, MAX or AVG of the values between each two offsets."""
    function, m = aggregate.function.upper(), len(offsets) - 1
    kind = values.type
    if pa.types.is_null(kind):
        return pa.nulls(m, pa.float64() if function == "AVG" else kind)
    if function in ("SUM", "AVG") and not (
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    ):
        return pa.nulls(m)
    whole = function in ("SUM", "AVG") and pa.types.is_integer(kind)
    if function == "AVG" and not whole:
        values = as_floats(values)
    digits = 0  # of a sum of decimals
    if function == "SUM" and pa.types.is_decimal(kind):
        digits = 76 if pa.types.is_decimal256(kind) else 38
        values = values.cast(pa.decimal256(76, kind.scale))
    owner = np.repeat(np.arange(m), np.diff(offsets))
    columns = {"match": owner, "value": values}
    wanted = [("value", "sum" if whole else _GROUPED[function])]
    if digits:
        columns["rough"] = as_floats(values)
        wanted.append(("rough", "sum"))
    if whole:
        columns["rough"] = as_floats(values)
        wanted += [("rough", "sum"), ("value", "count")]
    try:
        found = pa.table(columns).group_by("match", use_threads=False).aggregate(wanted)
    except pa.ArrowNotImplementedError as error:
        raise DataError(f"{write_term(aggregate)}: values of type {kind} have no order") from error
    result = found.column("_".join(wanted[0])).combine_chunks()
    if whole:
        rough = found.column("rough_sum").combine_chunks()
        wrapped = _find_wrapped(result, rough)
        if function == "AVG":
            number = found.column("value_count").combine_chunks()
            result = pc.divide(pc.if_else(wrapped, rough, as_floats(result)), as_floats(number))
        elif pc.any(wrapped).as_py():
            raise _no_room(aggregate)
    if digits:
        result = _narrow(aggregate, result, found.column("rough_sum"), digits)
    index = np.zeros(m, np.int64)
    present = np.zeros(m, np.bool_)
    groups = found.column("match").to_numpy()
    index[groups], present[groups] = np.arange(len(groups)), True
    return result.take(pa.array(index, mask=~present))


def _aggregate_spans(
    aggregate: Aggregate, values: pa.Array, low: Positions, high: Positions
) -> pa.Array:
    """Return SUM, MIN, MAX or AVG of the values in each span, put together from parts."""
    function, is_float = aggregate.function.upper(), pa.types.is_float64(values.type)
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    before = np.concatenate(([0], np.cumsum(valid)))
    number = before[high] - before[low]
    known = values.filter(pa.array(valid)).to_numpy(zero_copy_only=False)
    low, high, nothing = before[low], before[high], number == 0
    if function in ("MIN", "MAX"):
        either = (np.fmin, np.fmax) if is_float else (np.minimum, np.maximum)
        return pa.array(fold_spans(either[function == "MAX"], known, low, high), mask=nothing)
    rough = fold_spans(np.add, known.astype(np.float64), low, high)
    total = rough if is_float else fold_spans(np.add, known, low, high)
    wrapped = np.abs(total.astype(np.float64) - rough) > 2.0**63 if not is_float else nothing
    if function == "AVG":
        with np.errstate(invalid="ignore", divide="ignore"):
            return pa.array(np.where(wrapped, rough, total) / number, mask=nothing)
    if not is_float and wrapped.any():
        raise _no_room(aggregate)
    return pa.array(total, mask=nothing)


def _aggregate_listed(
    aggregate: Aggregate, values: pa.Array, low: Positions, high: Positions
) -> pa.Array:
    """Return SUM, MIN, MAX or AVG of the values in each span; some are copied at a time."""
    load, at = np.cumsum(high - low), 0
    pieces: list[pa.Array] = []
    while at < len(low) or not pieces:
        done = int(load[at - 1]) if at else 0
        upto = max(at + 1, int(np.searchsorted(load, done + _LISTED, side="right")))
        some = slice(at, upto)
        copied = values.take(pa.array(list_indices(low[some], high[some])))
        offsets = np.concatenate(([0], np.cumsum(high[some] - low[some])))
        pieces.append(_aggregate_groups(aggregate, copied, offsets))
        at = upto
    return pa.concat_arrays(pieces)


def _no_room(aggregate: Aggregate) -> DataError:
    return DataError(
        f"{write_term(aggregate)}: a sum does not fit into 64 bits; "
        "give the column a floating-point type"
    )


def _narrow(aggregate: Aggregate, sums: pa.Array, rough: Any, digits: int) -> pa.Array:
    """Return sums of decimals with so many digits; Arrow does not notice sums beyond 256 bits."""
    scale = sums.type.scale
    try:
        if (pc.max(pc.abs(rough)).as_py() or 0.0) < 2 * 10.0 ** (76 - scale):
            sums.validate(full=True)
            return sums.cast(pa.decimal128(38, scale)) if digits == 38 else sums
    except pa.ArrowInvalid:
        pass
    raise DataError(
        f"{write_term(aggregate)}: a sum has more than {digits} digits; "
        "give the column a floating-point type"
    )


def _find_wrapped(exact: pa.Array, rough: pa.Array) -> pa.Array:
    """Return which 64-bit sums have wrapped, by 2^64: a sum of floats is never wrong by as much."""
    return pc.greater(pc.abs(pc.subtract(as_floats(exact), rough)), 2.0**63)
