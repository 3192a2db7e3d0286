"""A small payment that tries a stolen card out, then a large one: on a DataFrame of Spark."""

from pathlib import Path

import cernis
from cernis.generators import card_payments

spark = cernis.spark.session()
events = spark.createDataFrame(card_payments())
query = Path(__file__).with_name("query.ceql").read_text()

matches = cernis.spark.recognize(events, query)
matches.orderBy("end_ts").show(5, truncate=False)
