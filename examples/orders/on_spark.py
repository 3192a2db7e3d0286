"""Orders that are not paid within an hour: on a DataFrame of Spark."""

from pathlib import Path

import cernis
from cernis.generators import shop_orders

spark = cernis.spark.session()
events = spark.createDataFrame(shop_orders())
query = Path(__file__).with_name("query.ceql").read_text()

matches = cernis.spark.recognize(events, query)
matches.orderBy("end_ts").show(5, truncate=False)
