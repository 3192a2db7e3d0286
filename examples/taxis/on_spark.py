"""Taxis that drive to another zone for their next passenger: on a DataFrame of Spark."""

from pathlib import Path

import cernis
from cernis.generators import taxi_stops

spark = cernis.spark.session()
events = spark.createDataFrame(taxi_stops())
query = Path(__file__).with_name("query.ceql").read_text()

matches = cernis.spark.recognize(events, query)
matches.orderBy("end_ts").show(5, truncate=False)
