"""Many failed logins that end in a success: in this process."""

from pathlib import Path

import cernis
from cernis.generators import login_stream

events = login_stream(50_000, seed=1, attacks=30)
query = cernis.query(Path(__file__).with_name("query.ceql").read_text())

matches = query.run(events)
print(matches)
for match in matches.head(5):
    print(match.end_ts, match.partition, match.values)
