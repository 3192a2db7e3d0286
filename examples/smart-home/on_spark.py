"""Episodes of high power: on a DataFrame of Spark."""

from pathlib import Path

import cernis
from cernis.generators import power_readings

spark = cernis.spark.session()
events = spark.createDataFrame(power_readings())
query = Path(__file__).with_name("query.ceql").read_text()

matches = cernis.spark.recognize(events, query)
matches.orderBy("end_ts").show(5, truncate=False)
