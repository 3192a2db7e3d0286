"""A streaming query in a process of its own, to be killed: python driver.py FOLDER.

Runs FOLDER/query.ceql on the Parquet files of FOLDER/in, one in each micro-batch, and writes the
matches to FOLDER/out. Says when it has begun, and ends when all is read.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.parquet as pq

from cernis.spark import recognize
from cernis.spark.local.session import local_session


def run(folder: Path) -> None:
    settings = {
        "spark.sql.shuffle.partitions": "2",
        # files with checksums, as users have them
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.LocalFs",
    }
    spark = local_session(2, memory="1g", conf=settings)
    first = next(iter(sorted((folder / "in").glob("*.parquet"))))
    pq.write_table(pq.read_schema(first).empty_table(), folder / "schema.parquet")
    reader = spark.readStream.schema(spark.read.parquet(str(folder / "schema.parquet")).schema)
    events = reader.option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    found = recognize(
        events,
        (folder / "query.ceql").read_text(),
        lateness="2 seconds",
        tasks=3,
        ids=True,
        checkpoint=str(folder / "checkpoint"),
        late_output=str(folder / "late"),
    )
    writer = found.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    running = writer.format("parquet").start(str(folder / "out"))
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    running.processAllAvailable()
    running.stop()


if __name__ == "__main__":
    run(Path(sys.argv[1]))
