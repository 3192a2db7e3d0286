"""`recognize_graphs`: the matches of a SPAseQ query in RDF streams, as a DataFrame.

Its parts: `prepare` decides, `batch` and `stream` build the DataFrame of the matches.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from cernis.errors import CernisError
from cernis.rdf.query import GraphQuery
from cernis.rdf.reading.parts import PIECE
from cernis.rdf.reading.times import TimeRule
from cernis.signature import Secret
from cernis.spark.graphs.batch import recognize_graph_batch
from cernis.spark.graphs.prepare import find_streaming_frames, prepare_graph_job
from cernis.spark.graphs.worker import GraphAnswerForm
from cernis.spark.notes import Notes


def recognize_graphs(
    spark: SparkSession,
    query: GraphQuery | str,
    events: Any,
    *,
    background: Any = None,
    live: bool = False,
    time: str | TimeRule | Mapping[str, TimeRule] | None = None,
    time_unit: str = "ms",
    format: str | None = None,
    on_error: str = "fail",
    matches: GraphAnswerForm = "events",
    tasks: int | None = None,
    piece: int = PIECE,
    lateness: str | timedelta = "0 seconds",
    ahead: str | timedelta | None = "1 hour",
    late_output: str | None = None,
    checkpoint: str | None = None,
    notes: Notes | None = None,
    secret: Secret = None,
) -> DataFrame:
    """Return the matches in RDF streams as a lazy DataFrame.

    Its columns are those of `GraphMatches.to_arrow`. `events` has the files of each stream (one,
    several, or a folder), by name or in the order of FROM STREAM; or it is a DataFrame of the
    source `rdf` (`cernis.spark.RdfDataSource`), whose streams are named as in the query. Tasks
    read the files, so all machines must see them under the same path. The same holds for files
    of `background`, which may be bytes as well. `background`, `time`, `time_unit` and `format` are
    those of `GraphQuery.run`; `on_error` is "fail" or "skip". `matches="lines"` gives each match as
    a line of JSON, with the columns that order the lines (`end`, `place`); `matches="count"` gives
    numbers of matches that add up to the count. `tasks` is the number of tasks that run the
    engine; `piece` is how many bytes of a large N-Quads file one task reads.

    A streaming DataFrame of events (`cernis.spark.parse_graphs` makes one of texts), or one for
    each stream by name, gives a streaming DataFrame. Times are dates if the rows have a column
    `time`; otherwise `ts` counts nanoseconds of plain numbers, which `time_unit` shows. Events may
    come in any order within the `lateness`. `lateness`, `ahead`, `late_output`, `checkpoint`,
    `secret` and `notes` are those of `recognize`; notes on graphs say how many were skipped.
    `tasks` is then the number of buckets that keys are spread over, which a checkpoint fixes. The
    files of a `live` background are read again in the first micro-batch after they have changed;
    each match has the versions that its events were solved with (`background`).
    """
    query = query if isinstance(query, GraphQuery) else GraphQuery(query)
    frames = find_streaming_frames(query, events)
    if frames is not None:
        # needs more of Spark than batches do
        from cernis.spark.graphs.stream import GraphStreamOptions, recognize_graph_stream
        from cernis.spark.streaming.dataflow import StreamOptions

        flow = StreamOptions(
            lateness=lateness,
            ahead=ahead,
            late_output=late_output,
            checkpoint=checkpoint,
            notes=notes,
            secret=secret,
        )
        options = GraphStreamOptions(
            form=matches,
            unit=time_unit,
            background=background,
            live=live,
            tasks=tasks,
            on_error=on_error,
            flow=flow,
        )
        return recognize_graph_stream(spark, query, frames, options)
    if notes is not None:
        raise CernisError("notes= is for streams")
    if live:
        raise CernisError("live background: a batch reads its background once")
    job = prepare_graph_job(
        query,
        events,
        background=background,
        time=time,
        time_unit=time_unit,
        format=format,
        on_error=on_error,
        piece=piece,
    )
    return recognize_graph_batch(spark, job, matches, tasks=tasks)
