"""A small payment that tries a stolen card out, then a large one: in this process."""

from pathlib import Path

import cernis
from cernis.generators import card_payments

events = card_payments()
query = cernis.query(Path(__file__).with_name("query.ceql").read_text())

matches = query.run(events)
print(matches)
for match in matches.head(5):
    print(match.end_ts, match.partition, match.values)
