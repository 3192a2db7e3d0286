"""Cut the line of time (or of positions) into slices with about as many events each.

Spark computes the cuts, which are quantiles, inside the same query. An event is read by its own
slice, by later slices that reach back to it, and by earlier ones that reach ahead to it. Cuts lie
at least `APART` times as far apart, so that at most a quarter of the events is read twice. The
matches do not depend on the cuts.

Rows get the number of their part (`@part`) and whether it is their own (`@own`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, Window
from pyspark.sql import functions as F

from cernis.pattern.predicate import RANK
from cernis.work.columns import BUCKET, MOMENT, OWN, PART, ROW

APART = 4
HOT = 2
"""A bucket with at least so many times its share of the events is cut."""

FITS = "@fits"
_CUTS, _HOME, _SLICE, _RANGE, _AFTER = "@cuts", "@home", "@slice", "@range", "@after"

Later = Callable[[Column, int], Column]


@dataclass(frozen=True)
class Line:
    """The line that is cut: a column, how far a slice reads around itself, and how to move."""

    column: str
    back: int
    later: Later
    ahead: int = 0


def later_position(position: Column, by: int) -> Column:
    """Return the position that lies so far behind, or the last one; NULL before the first one."""
    found = F.try_add(position, F.lit(by))
    return found if by < 0 else F.coalesce(found, F.lit(2**63 - 1))


def quantiles(column: str, pieces: int) -> Column:
    """Return the values that cut a column into so many pieces."""
    shares = [i / pieces for i in range(1, pieces)]
    return F.percentile_approx(column, shares, max(10_000, 20 * pieces))


def space_cuts(cuts: Column, line: Line) -> Column:
    """Drop cuts that come too soon after another."""
    nothing = F.filter(cuts, lambda _: F.lit(False))
    gap = min(APART * (line.back + line.ahead), 2**62) + 1

    def add(kept: Column, cut: Column) -> Column:
        last = F.get(kept, F.size(kept) - F.lit(1))
        fits = last.isNull() | (cut >= line.later(last, gap))
        return F.when(fits, F.concat(kept, F.array(cut))).otherwise(kept)

    return F.aggregate(cuts, nothing, add)


def find_piece(value: Column, cuts: Column, low: int, high: int) -> Column:
    """Count the cuts low … high - 1 that lie at or before a value; missing ones do not.

    NULL lies before every cut.
    """
    if low == high:
        return F.lit(low)
    middle = (low + high) // 2
    beyond = find_piece(value, cuts, middle + 1, high)
    return F.when(value >= F.get(cuts, F.lit(middle)), beyond).otherwise(
        find_piece(value, cuts, low, middle)
    )


def choose_cuts(data: Any, line: Line, pieces: int) -> Column:
    """Choose the cuts of the whole line."""
    cuts: Column = data.agg(space_cuts(quantiles(line.column, pieces), line).alias("cuts")).scalar()
    return cuts


def choose_hot_cuts(data: Any, line: Line, pieces: int) -> Column:
    """Choose the cuts of buckets with far more than their share of the events."""
    share = F.floor(F.col("n") * F.lit(pieces) / F.sum("n").over(Window.partitionBy(F.lit(0))))
    counted = data.groupBy(BUCKET).agg(
        F.count(F.lit(1)).alias("n"), quantiles(line.column, pieces).alias("all")
    )
    shared = counted.select(BUCKET, "all", F.least(share, F.lit(pieces)).cast("int").alias("m"))
    hot = shared.filter(F.col("m") >= F.lit(HOT))
    each = F.transform(
        F.sequence(F.lit(1), F.col("m") - F.lit(1)),
        lambda j: F.get(F.col("all"), (j * F.lit(pieces) / F.col("m")).cast("int") - F.lit(1)),
    )
    chosen = hot.select(F.struct(BUCKET, space_cuts(each, line).alias("cuts")).alias("hot"))
    table = chosen.agg(F.map_from_entries(F.collect_list("hot")).alias("cuts")).scalar()
    return F.try_element_at(table, F.col(BUCKET))


def slice_rows(data: Any, cuts: Column, line: Line, pieces: int) -> Any:
    """Copy each row for every slice that reads it."""
    names = data.columns
    bucket = F.col(BUCKET) if BUCKET in names else F.lit(0)
    here = F.col(line.column)
    data = data.withColumn(_CUTS, cuts)
    data = data.withColumn(_HOME, find_piece(here, F.col(_CUTS), 0, pieces - 1))
    last = find_piece(line.later(here, line.back), F.col(_CUTS), 0, pieces - 1)
    first = F.col(_HOME)
    if line.ahead:
        first = find_piece(line.later(here, -line.ahead), F.col(_CUTS), 0, pieces - 1)
    data = data.select(*names, _HOME, F.explode(F.sequence(first, last)).alias(_SLICE))
    part = bucket + F.lit(pieces) * F.col(_SLICE)
    own = F.col(_SLICE) == F.col(_HOME)
    target = F.pmod(bucket + F.col(_SLICE), F.lit(pieces)).alias(BUCKET)
    kept = [name for name in names if name != BUCKET]
    return data.select(*kept, part.cast("int").alias(PART), own.alias(OWN), target)


def rank_rows(
    data: Any, bare: Any, some: Any, line: Line, pieces: int, gaps: bool
) -> tuple[Any, Column]:
    """Return the relevant rows with their positions in the stream, and cuts of positions.

    Each task numbers a piece of the time line, and adds the sizes of the pieces before, which
    are counted on the `bare` rows; `some` of these say where to cut the line into pieces with
    about as many rows each. With `gaps`, one of the irrelevant rows between two relevant ones
    stays.
    """
    bounds = some.agg(quantiles(MOMENT, pieces).alias("cuts")).scalar()
    piece = find_piece(F.col(MOMENT), bounds, 0, pieces - 1)
    sizes = bare.select(piece.alias(_RANGE)).groupBy(_RANGE).agg(F.count(F.lit(1)).alias("n"))
    data = data.withColumn(_RANGE, piece)
    listed = sizes.agg(F.collect_list(F.struct(_RANGE, "n")).alias("sizes"))
    every = F.transform(F.sequence(F.lit(0), F.lit(pieces - 1)), _size_before)
    begins = listed.select(every.alias("all"))
    found = begins.select(F.struct("all", space_cuts(F.col("all"), line).alias("cuts"))).scalar()
    data = data.repartitionById(pieces, F.col(_RANGE))
    inside = Window.partitionBy(_RANGE).orderBy(MOMENT, ROW)
    rank = F.get(found["all"], F.col(_RANGE)) + F.row_number().over(inside) - F.lit(1)
    data = data.withColumn(RANK.name, rank)
    kept = F.col(FITS)
    if gaps:
        data = data.withColumn(_AFTER, F.lag(FITS, 1, True).over(inside))
        kept = kept | F.col(_AFTER)
    return data.filter(kept).drop(_RANGE, _AFTER, FITS), found["cuts"]


def _size_before(piece: Column) -> Column:
    before = F.filter("sizes", lambda size: size[_RANGE] < piece)
    return F.aggregate(before, F.lit(0).cast("bigint"), lambda total, size: total + size["n"])
