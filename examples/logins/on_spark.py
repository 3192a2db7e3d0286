"""Many failed logins that end in a success: on a DataFrame of Spark."""

from pathlib import Path

import cernis
from cernis.generators import login_stream

spark = cernis.spark.session()
events = spark.createDataFrame(login_stream(50_000, seed=1, attacks=30))
query = Path(__file__).with_name("query.ceql").read_text()

matches = cernis.spark.recognize(events, query)
matches.orderBy("end_ts").show(5, truncate=False)
