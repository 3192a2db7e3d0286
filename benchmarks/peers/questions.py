"""The questions, once for each contestant.

Most are sequences of steps, which `write.py` puts into each language. A match is its first and its
last row: the number of matches and the sums of both are what contestants agree on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks.peers.streams import LATENESS, SEED, TYPES
from benchmarks.peers.write import (
    ComparedSteps,
    PeerSteps,
    expand,
    quote_names,
    write_asof,
    write_ceql,
    write_core,
    write_epl,
    write_joins,
    write_plainly,
    write_row_pattern,
    write_siddhi,
    write_windows,
)
from benchmarks.spaseq.queries import WORKLOADS

_ORDER_FREE = ("query", "duckdb", "spark", "steps", "frames", "flink")
"""What takes events out of order."""


@dataclass(frozen=True, slots=True)
class PeerQuestion:
    """A question about one of the streams, in all languages of the contestants."""

    name: str
    about: str
    stream: str
    texts: Mapping[str, object]
    rows: float = 1.0
    """How many of the rows of a run it is asked about: long answers have fewer."""
    lateness: int = 0

    @property
    def request(self) -> dict[str, object]:
        """Return what a contestant is sent."""
        return {"name": self.name, "lateness": self.lateness, **self.texts}


def _ask(
    name: str, about: str, stream: str, *sequences: PeerSteps, rows: float = 1.0
) -> PeerQuestion:
    """Return a question that is one or more sequences of steps."""
    is_next = sequences[0].mode == "next"
    joins = write_joins(sequences)
    is_bounded = bool(joins)
    texts: dict[str, object] = {
        "query": [write_ceql(each) for each in sequences],
        "core": write_core(sequences),
        "flink": write_plainly(sequences),
        "flinksql": write_row_pattern(sequences[0]) if is_next else "",
        "epl": write_epl(sequences),
        "siddhi": write_siddhi(sequences),
        "duckdb": write_asof(sequences[0]) if is_next else joins,
        "spark": write_windows(sequences[0]) if is_next else joins,
        "steps": [asdict(each) for each in sequences],
        "frames": [asdict(one) for each in sequences for one in expand(each)] if is_bounded else [],
    }
    if stream != "late":
        return PeerQuestion(name, about, stream, texts, rows)
    known = {
        language: text for language, text in texts.items() if language in (*_ORDER_FREE, "flinksql")
    }
    return PeerQuestion(name, about, stream, known, rows, LATENESS)


def _make_rules(number: int) -> tuple[PeerSteps, ...]:
    """Return rules: two types, each with a price above a number."""
    chance = np.random.default_rng(SEED)
    pairs = [chance.choice(len(TYPES), 2, replace=False) for _ in range(number)]
    floors = chance.integers(900, 1000, (number, 2)).tolist()
    return tuple(
        PeerSteps((TYPES[first], TYPES[then]), 200, floors=tuple(both))
        for (first, then), both in zip(pairs, floors, strict=True)
    )


def _write_rules(rules: tuple[PeerSteps, ...]) -> str:
    """Return all rules as one join with a table of rules."""
    values = ", ".join(
        f"('{r.types[0]}', '{r.types[1]}', {r.floors[0]}, {r.floors[1]})" for r in rules
    )
    return (
        "SELECT count(*), coalesce(sum(a.row), 0), coalesce(sum(b.row), 0) "
        f"FROM (VALUES {values}) AS rules (t, u, p, q) JOIN s a ON a.type = t AND a.price > p "
        "JOIN s b ON b.type = u AND b.price > q AND b.ts > a.ts AND b.ts <= a.ts + 200"
    )


def _ask_rules(number: int) -> PeerQuestion:
    rules = _make_rules(number)
    asked = _ask("", "", "uniform", *rules)
    join = _write_rules(rules)
    about = f"{number:,} rules: two events of given types, each above a price, within 200 ms"
    texts = {**asked.texts, "duckdb": join, "spark": join}
    return PeerQuestion(f"{number:,} rules", about, "uniform", texts)


SESSION = 30_000
_SESSIONS: Mapping[str, object] = {
    "sql": "SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY key ORDER BY ts MEASURES "
    f"FIRST(row) AS f, LAST(row) AS l PATTERN (a more*) DEFINE more AS ts - PREV(ts) <= {SESSION})",
    "flinksql": quote_names(
        "SELECT min(row) AS f, max(row) AS l FROM TABLE(SESSION(TABLE s PARTITION BY key, "
        f"DESCRIPTOR( at ), INTERVAL '{SESSION // 1000}' SECOND)) "
        "GROUP BY key , window_start, window_end"
    ),
    "frames": "sessions",
    "steps": "sessions",
} | dict.fromkeys(
    ("duckdb", "spark"),
    f"""
WITH gaps AS (
  SELECT *, CASE WHEN ts - lag(ts) OVER (PARTITION BY key ORDER BY ts) <= {SESSION}
    THEN 0 ELSE 1 END AS new FROM s
), numbered AS (SELECT *, sum(new) OVER (PARTITION BY key ORDER BY ts) AS session FROM gaps),
found AS (SELECT min(row) AS f, max(row) AS l FROM numbered GROUP BY key, session)
SELECT count(*), sum(f), sum(l) FROM found""",
)
_V_SHAPES: Mapping[str, object] = {
    "sql": """
SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY key ORDER BY ts MEASURES strt.row AS f, up.row AS l
  AFTER MATCH SKIP TO LAST up PATTERN (strt down+ up)
  DEFINE down AS price < PREV(price), up AS price > PREV(price))""",
    "flinksql": quote_names(
        "SELECT f, l FROM s MATCH_RECOGNIZE (PARTITION BY key ORDER BY at "
        "MEASURES strt.row AS f, up.row AS l AFTER MATCH SKIP TO LAST up "
        "PATTERN (strt down+ up) DEFINE down AS "
        "(LAST(down.level, 1) IS NULL AND down.level < strt.level) "
        "OR down.level < LAST(down.level, 1), up AS up.level > LAST(down.level)) AS m"
    ),
    "frames": "V shapes",
    "steps": "V shapes",
} | dict.fromkeys(
    ("duckdb", "spark"),
    """
WITH moves AS (
  SELECT *, sign(price - lag(price) OVER (PARTITION BY key ORDER BY ts)) AS move FROM s
), tops AS (
  SELECT *, lag(move) OVER (PARTITION BY key ORDER BY ts) AS before,
    max(CASE WHEN move = -1 THEN NULL ELSE ts END) OVER (
      PARTITION BY key ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS top
  FROM moves
)
SELECT count(*), coalesce(sum(s.row), 0), coalesce(sum(tops.row), 0) FROM tops
JOIN s ON s.key = tops.key AND s.ts = tops.top WHERE move = 1 AND before = -1""",
)
_MARKET = WORKLOADS["market"]
_ABC = ("A", "B", "C")

QUESTIONS = (
    *(
        _ask(
            f"sequence {length}, {window:,}",
            f"{length} events of different types within {window:,} ms, all matches (skip till any)",
            f"steps {length} {window}",
            PeerSteps(tuple("ABCDEFGHIJKLMNOPQRSTUVWX"[:length]), window),
        )
        for length, window in ((3, 100), (3, 1000), (3, 10_000), (6, 1000), (12, 1000), (24, 1000))
    ),
    _ask(
        "next event",
        "each A with the B and the C that come next (skip till next) within 100 ms",
        "uniform",
        PeerSteps(_ABC, 100, "next"),
    ),
    _ask(
        "repetition",
        "`A ; B+ ; C` within 60 ms, all matches",
        "uniform",
        PeerSteps(_ABC, 60, repeated=(1, 1, 0)),
    ),
    _ask(
        "bounded repetition",
        "`A ; B{1,3} ; C` within 100 ms, all matches",
        "uniform",
        PeerSteps(_ABC, 100, repeated=(1, 1, 3)),
    ),
    _ask(
        "chain",
        "`A ; B ; C`: B has the key of A, C the price of B, within 10 s",
        "uniform",
        PeerSteps(
            _ABC,
            10_000,
            compared=(ComparedSteps(0, 1, "key", "="), ComparedSteps(1, 2, "price", "=")),
        ),
    ),
    _ask(
        "keyed",
        "`A ; B` of the same key at a higher price within 10 s",
        "uniform",
        PeerSteps(("A", "B"), 10_000, compared=(ComparedSteps(0, 1, "price", "<"),), is_keyed=True),
    ),
    _ask(
        "rising",
        "`A ; B ; C`, each at a price higher by 400 than the one before, within 1 s",
        "uniform",
        PeerSteps(
            _ABC,
            1000,
            compared=(
                ComparedSteps(0, 1, "price", "<", 400),
                ComparedSteps(1, 2, "price", "<", 400),
            ),
        ),
    ),
    _ask(
        "with the first",
        "`A ; B ; C` within 100 ms, the price of C higher by 900 than that of A",
        "uniform",
        PeerSteps(_ABC, 100, compared=(ComparedSteps(0, 2, "price", "<", 900),)),
    ),
    _ask(
        "not neighbours",
        "`A ; B ; C`: C has the key of A, whatever is between, within 1 s",
        "uniform",
        PeerSteps(_ABC, 1000, compared=(ComparedSteps(0, 2, "key", "="),)),
    ),
    _ask(
        "absence",
        "an A that no B of the same key follows within 10 s",
        "uniform",
        PeerSteps(("A", "B"), 10_000, "absent", is_keyed=True),
    ),
    PeerQuestion(
        "sessions",
        f"events of a user at most {SESSION // 1000} s after the one before",
        "clicks",
        _SESSIONS,
    ),
    PeerQuestion("V shapes", "prices of a symbol that fall, then rise", "ticks", _V_SHAPES),
    _ask(
        "funnel",
        "for each view of a user the next cart and purchase, within 10 minutes",
        "clicks",
        PeerSteps(_ABC, 600_000, "next", is_keyed=True),
    ),
    _ask(
        "100,000 keys",
        "each cart with the user's next purchase within a minute; 100,000 users, with skew",
        "skewed",
        PeerSteps(("B", "C"), 60_000, "next", is_keyed=True),
    ),
    _ask(
        "out of order",
        "`A ; B ; C` within 100 ms; 30% of the events come up to a second late",
        "late",
        PeerSteps(_ABC, 100),
    ),
    _ask_rules(1000),
    PeerQuestion(
        "RDF",
        "the market query of the SPAseQ paper over graphs, one for every "
        "hundred events of the other questions",
        "graphs",
        {"spaseq": _MARKET.query(_MARKET.sequences[";"], 500)},
    ),
)
