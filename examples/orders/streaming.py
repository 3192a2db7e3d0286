"""Orders that are not paid within an hour: on a stream of Spark."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq

import cernis
from cernis.generators import shop_orders

spark = cernis.spark.session()
events = shop_orders()
query = Path(__file__).with_name("query.ceql").read_text()

with TemporaryDirectory() as folder:
    incoming = Path(folder, "incoming")
    incoming.mkdir()
    stream = spark.readStream.schema(spark.createDataFrame(events).schema).parquet(str(incoming))
    matches = cernis.spark.recognize(stream, query, lateness="1 minute")
    running = (
        matches.writeStream.format("memory")
        .queryName("found")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .start()
    )
    for part in range(3):  # files appear whole, one after the other
        first, last = part * len(events) // 3, (part + 1) * len(events) // 3
        pq.write_table(events.slice(first, last - first), f"{folder}/{part}.parquet")
        Path(folder, f"{part}.parquet").rename(incoming / f"{part}.parquet")
        running.processAllAvailable()
    running.stop()
    spark.table("found").orderBy("end_ts").show(5, truncate=False)
