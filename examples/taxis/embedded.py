"""Taxis that drive to another zone for their next passenger: in this process."""

from pathlib import Path

import cernis
from cernis.generators import taxi_stops

events = taxi_stops()
query = cernis.query(Path(__file__).with_name("query.ceql").read_text())

matches = query.run(events)
print(matches)
for match in matches.head(5):
    print(match.end_ts, match.partition, match.values)
