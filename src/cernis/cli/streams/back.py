"""The way back of a stream from Spark to the process that began it (`moved`)."""

from __future__ import annotations

from pathlib import Path

from cernis.cli.terminal import spinner
from cernis.live.moving import MOVED, RULES, RULES_ON_SPARK, CameTo, take_back, was_taken_back
from cernis.live.store import LocalStore
from cernis.signature import Secret, derive_key
from cernis.work.endpoints import Folder, LiveSink

_MS = 1_000_000


def take_stream_back(
    folder: Path, sink: LiveSink, store: LocalStore, secret: Secret, lateness: float
) -> None:
    """Go on in this process where Spark has come to, and remove what Spark has written.

    `lateness` is in seconds.
    """
    from cernis.spark.local.session import local_session, spark_class

    spark_class()  # an error if Spark is missing
    from cernis.spark.streaming import moved

    if moved.is_begun(folder) and not was_taken_back(store, moved.read_run(folder)):
        with spinner("reading the state on Spark"):
            spark = local_session(1, app="cernis stream")
            try:
                ended = moved.read_ended(spark, folder)
            finally:
                spark.stop()
        note, rules = store.read_note(MOVED), store.read_note(RULES_ON_SPARK)
        tick = note["tick"]
        came = CameTo(
            run=ended.run,
            state=ended.state,
            positions=dict(zip(note["inputs"], ended.positions, strict=True)),
            watermark=-((note["shift"] - ended.watermark) * _MS // tick),
            notes={} if rules is None else {RULES: rules},
        )
        own = int(lateness * 1000) * _MS // tick
        take_back(store, derive_key(secret, "bucket 0"), came, own)
    if isinstance(sink, Folder):
        moved.settle_folder(sink.path)
    moved.remove_spark(folder)
