"""Many failed logins that end in a success: on a stream of Spark."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq

import cernis
from cernis.generators import login_stream

spark = cernis.spark.session()
events = login_stream(50_000, seed=1, attacks=30)
query = Path(__file__).with_name("query.ceql").read_text()

with TemporaryDirectory() as folder:
    Path(folder, "events").mkdir()
    for part in range(3):
        first, last = part * len(events) // 3, (part + 1) * len(events) // 3
        pq.write_table(events.slice(first, last - first), f"{folder}/events/{part}.parquet")
    schema = spark.read.parquet(f"{folder}/events").schema
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    stream = reader.parquet(f"{folder}/events")
    matches = cernis.spark.recognize(stream, query, lateness="1 minute")
    running = (
        matches.writeStream.format("memory")
        .queryName("found")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    running.awaitTermination()
    spark.table("found").orderBy("end_ts").show(5, truncate=False)
