"""Partitions of a MATCH_RECOGNIZE clause in slices of time, where WITHIN bounds a match.

A slice reads its own rows, and ahead the rows that a match may have which begins in it. Windows of
Spark compute masks inside a slice, so PREV and NEXT need the rows around what a slice reads: the
last rows of each slice travel to all later ones, and the first to all earlier ones, because a slice
may have fewer rows than PREV looks back. They are dropped when masks are there.

Without PARTITION BY the whole line of time is cut. With it, only partitions are that have far more
than their share of the rows, found by hashes of their keys in a sample (`slices.choose_hot_cuts`).
The answer does not depend on the cuts; `work.row_slices` joins the slices.

Turned down: cuts at gaps that no match spans, because a hot partition has none; and a second read
of the rows to find where searches go on, because ties of ORDER BY may come in another order there.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from cernis.plan.rows.write import QueryWriter
from cernis.spark.options import SAMPLE
from cernis.spark.slices import HOT, Line, choose_cuts, choose_hot_cuts, find_piece
from cernis.work.columns import BUCKET, OWN
from cernis.work.row_slices import EARLY, SLICE

AROUND = "@around"
"""Whether a row is in a slice only for PREV and NEXT."""
_AT, _CUTS, _HOME, _FROM, _TO, _ALL = "@at", "@cuts", "@home", "@from", "@to", "@all"


def slice_partitions(
    rows: Any, numbered: Any, writer: QueryWriter, pieces: int, sample: float
) -> Any:
    """Return rows with the slice that reads them: a copy for each."""
    line = Line(_AT, 0, _make_later(writer), ahead=1)
    data = numbered.select("*", *_list_columns(writer))
    data = data.withColumn(_CUTS, _choose(rows, writer, line, pieces, sample))
    here, cuts = F.col(_AT), F.col(_CUTS)
    data = data.withColumn(_HOME, find_piece(here, cuts, 0, pieces - 1))
    data = data.withColumn(_FROM, find_piece(line.later(here, -1), cuts, 0, pieces - 1))
    data = data.withColumn(_TO, F.when(cuts.isNotNull(), F.size(cuts)).otherwise(0))
    home, early = F.col(_HOME), F.col(_FROM) < F.col(_HOME)
    targets = [F.sequence(F.col(_FROM), home), *_list_around(writer, home, early)]
    data = data.withColumn(EARLY, early).withColumn(_ALL, F.array_distinct(F.concat(*targets)))
    data = data.withColumn(SLICE, F.explode(_ALL))
    own = F.col(SLICE) == home
    ahead = F.col(EARLY) & (F.col(SLICE) == home - 1)
    data = data.withColumn(OWN, own).withColumn(AROUND, ~(own | ahead))
    return data.drop(BUCKET, _AT, _CUTS, _HOME, _FROM, _TO, _ALL)


def _list_columns(writer: QueryWriter) -> list[Column]:
    """Return the time of a row, and the hash of its key."""
    hashed = [F.xxhash64(*map(F.expr, writer.keys)).alias(BUCKET)] if writer.keys else []
    return [F.expr(writer.time).alias(_AT), *hashed]


def _make_later(writer: QueryWriter) -> Any:
    def later(value: Column, by: int) -> Column:
        within = F.expr(f"({writer.within}) * {abs(by)}")
        return F.try_add(value, within) if by > 0 else F.try_subtract(value, within)

    return later


def _choose(rows: Any, writer: QueryWriter, line: Line, pieces: int, sample: float) -> Column:
    """Choose the cuts of the line of time, or of hot partitions."""
    some = rows.select(*_list_columns(writer))
    share = sample or SAMPLE
    some = some if share >= 1 else some.sample(share, seed=1)
    if not writer.keys:
        return choose_cuts(some, line, pieces)
    sizes = some.groupBy(BUCKET).agg(F.count(F.lit(1)).alias("n"))
    total = some.agg(F.count(F.lit(1)).alias("n")).scalar()
    hot = sizes.filter(F.col("n") * F.lit(pieces) >= F.lit(HOT) * total)
    known = hot.agg(F.collect_list(BUCKET).alias("keys")).scalar()
    return choose_hot_cuts(some.filter(F.array_contains(known, F.col(BUCKET))), line, pieces)


def _list_around(writer: QueryWriter, home: Column, early: Column) -> list[Column]:
    """Return the slices that need a row for PREV or NEXT."""
    before, after = writer.plan.count_neighbours()
    window = QueryWriter(writer.plan, writer.dialect, writer.columns, _HOME).window
    none = F.array().cast("array<int>")
    found = []
    if before:
        is_last = F.expr(f"lead(true, {before}) OVER {window} IS NULL")
        later = F.sequence(home + 1, F.col(_TO))
        found.append(F.when(is_last & (home < F.col(_TO)), later).otherwise(none))
    if after:
        is_first = F.expr(f"lag(true, {after}) OVER {window} IS NULL")
        found.append(F.when(is_first & (home > 0), F.sequence(F.lit(0), home - 1)).otherwise(none))
        told = f"lag(`{_FROM}` < `{_HOME}`, {after}) OVER {window}"
        follows = ~early & F.coalesce(F.expr(told), F.lit(True))
        found.append(F.when(follows & (home > 0), F.array(home - 1)).otherwise(none))
    return found
