"""Prices that rise five times in a row or more: on a DataFrame of Spark."""

from pathlib import Path

import cernis
from cernis.generators import stock_stream

spark = cernis.spark.session()
events = spark.createDataFrame(stock_stream(50_000, seed=1))
query = Path(__file__).with_name("query.ceql").read_text()

matches = cernis.spark.recognize(events, query)
matches.orderBy("end_ts").show(5, truncate=False)
