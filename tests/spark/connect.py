"""A client of Spark Connect, run by `test_connect.py`: `python connect.py sc://host:port FOLDER`.

What only a full installation of Spark has is hidden: py4j and the JVM's side of pyspark are not in
the package pyspark-client. Without arguments it only imports what a query needs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

QUERY = "SELECT * FROM S WHERE A AS a ; B AS b PARTITION BY [k] WITHIN 5 SECONDS"


def main(address: str, folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql import SparkSession

    import cernis
    from cernis.spark import explain, recognize

    spark: Any = SparkSession.builder.remote(address).getOrCreate()
    seconds = pa.array([0, 1, 2, 3, 3600], pa.timestamp("s", "UTC"))
    table = pa.table(
        {
            "type": ["A", "B", "A", "B", "C"],
            "k": [1, 1, 2, 2, 9],
            "ts": seconds.cast(pa.timestamp("us", "UTC")),
        }
    )
    expected = [match.vars for match in cernis.query(QUERY).run(table)]
    data = spark.createDataFrame(table)
    rows = recognize(data, QUERY, tasks=2).orderBy("end").collect()
    assert [(row.start, row.end) for row in rows] == [(m["a"][0], m["b"][0]) for m in expected]
    assert "PARTITION BY" in str(explain(data, QUERY))

    (folder / "in").mkdir()
    pq.write_table(table, folder / "in" / "1.parquet")
    stream = spark.readStream.schema("type string, k bigint, ts timestamp").parquet(
        str(folder / "in")
    )
    writing = recognize(stream, QUERY, tasks=2).writeStream.format("parquet")
    options = {"path": str(folder / "out"), "checkpointLocation": str(folder / "checkpoint")}
    writing.options(**options).trigger(availableNow=True).start().awaitTermination()
    assert spark.read.parquet(str(folder / "out")).count() == len(expected)
    spark.stop()


if __name__ == "__main__":
    for hidden in ("py4j", "pyspark.core"):
        sys.modules[hidden] = None  # type: ignore[assignment]
    import cernis.spark
    import cernis.spark.streaming.recognize

    assert cernis.spark.recognize
    if len(sys.argv) > 1:
        main(sys.argv[1], Path(sys.argv[2]))
    print("done")
