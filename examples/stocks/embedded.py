"""Prices that rise five times in a row or more: in this process."""

from pathlib import Path

import cernis
from cernis.generators import stock_stream

events = stock_stream(50_000, seed=1)
query = cernis.query(Path(__file__).with_name("query.ceql").read_text())

matches = query.run(events)
print(matches)
for match in matches.head(5):
    print(match.end_ts, match.partition, match.values)
