"""Valleys in the speed on a road: on a DataFrame of Spark."""

from pathlib import Path

import cernis
from cernis.generators import road_speeds

spark = cernis.spark.session()
events = spark.createDataFrame(road_speeds())
query = Path(__file__).with_name("query.ceql").read_text()

matches = cernis.spark.recognize(events, query)
matches.orderBy("end_ts").show(5, truncate=False)
