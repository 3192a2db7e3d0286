"""Tasks that fail after three evictions or more: on a DataFrame of Spark."""

from pathlib import Path

import cernis
from cernis.generators import cluster_tasks

spark = cernis.spark.session()
events = spark.createDataFrame(cluster_tasks())
query = Path(__file__).with_name("query.ceql").read_text()

matches = cernis.spark.recognize(events, query)
matches.orderBy("end_ts").show(5, truncate=False)
