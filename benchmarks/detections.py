"""A log of hosts with hundreds of columns, and detection rules as security teams write them.

Real rule sets ask few of many columns, with five to forty wildcards and equalities for each rule.
Most events concern no rule, and each rule sees a few events. A third of the rules are sequences of
two steps on one host; some wait for an event that does not come, or count.

Vectorized, so that a hundred thousand events take a second. The same seed gives the same stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cernis.generators.nquads import OPENING

DETECTED_COLUMNS = 455
_CHANNELS = ("Sysmon", "Security", "System", "Application", "PowerShell")
_TEXTS = (
    "Image", "ParentImage", "CommandLine", "ParentCommandLine", "User", "TargetFilename",
    "TargetObject", "Details", "ImageLoaded", "OriginalFileName", "Product", "Company",
    "DestinationHostname", "QueryName", "PipeName", "ServiceName", "TaskName", "ScriptBlockText",
    "LogonProcess", "WorkstationName", "Provider",
)  # fmt: skip
_SPARSE = 0.25
"""So many events have a value in a column that not all kinds of events have."""
_HOSTS, _IDS, _PROGRAMS, _WORDS = 200, 40, 400, 5_000
_MARKED = 0.03
"""So many events have words that rules look for."""


def _make_words(count: int, seed: int) -> list[str]:
    """Return different words that look like names of tools."""
    chance = Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        syllables = (
            chance.choice("bcdfghklmnprstvwz") + chance.choice("aeiou")
            for _ in range(chance.randint(3, 6))
        )
        found["".join(syllables)] = None
    return [*found]


_TOOLS, _NAMES = _make_words(_WORDS, 1), _make_words(_PROGRAMS, 2)


def host_log(n: int, seed: int = 0, columns: int = DETECTED_COLUMNS) -> pa.Table:
    """Make `n` events of hosts, ten in a second, in order of ts.

    >>> log = host_log(100, seed=1)
    >>> log.num_columns, log.schema.names[:5]
    (455, ['ts', 'Host', 'Channel', 'EventID', 'Image'])
    """
    rng = np.random.default_rng(seed)
    found: dict[str, pa.Array] = {
        "ts": pa.array(OPENING + 100 * np.arange(n)).cast(pa.timestamp("ms")),
        "Host": _pick([f"host{i:03}" for i in range(_HOSTS)], rng.integers(0, _HOSTS, n)),
        "Channel": _pick(_CHANNELS, _skew(rng, len(_CHANNELS), n)),
        "EventID": pa.array(1 + _skew(rng, _IDS, n)),
    }
    for name in _TEXTS:
        found[name] = _write_texts(name, rng, n)
    few = [_write_texts("Other", rng, n) for _ in range(4)]  # shared by columns that no rule reads
    for number in range(columns - len(found)):
        found[f"Field{number:03}"] = few[number % len(few)]
    return pa.table(found)


def _write_texts(name: str, rng: np.random.Generator, n: int) -> pa.Array:
    """Return the texts of a column: paths, command lines, or nothing."""
    programs = [f"C:/Windows/System32/{name.capitalize()}.exe" for name in _NAMES]
    texts = _pick(programs, _skew(rng, len(programs), n))
    if name in ("Image", "ParentImage"):
        return texts
    if name in ("CommandLine", "ParentCommandLine", "ScriptBlockText"):
        flags = _pick([f" /{word[:3]} {word}" for word in _NAMES], rng.integers(0, _PROGRAMS, n))
        marks = _pick(
            ["", *(f" --{word.upper()}" for word in _TOOLS)],
            np.where(rng.random(n) < _MARKED, 1 + _skew(rng, _WORDS, n), 0),
        )
        ids = _pick([f" {{{i:08X}}}" for i in range(5000)], rng.integers(0, 5000, n))
        parts = zip(*(part.to_pylist() for part in (texts, flags, marks, ids)), strict=True)
        texts = pa.array(["".join(part) for part in parts])
    if name in ("CommandLine", "User"):
        return texts
    return pa.array(texts.to_numpy(zero_copy_only=False), pa.string(), mask=rng.random(n) > _SPARSE)


def _skew(rng: np.random.Generator, count: int, n: int) -> NDArray[np.int64]:
    """Return numbers below a count, of which the first are frequent."""
    return (count * rng.random(n) ** 3).astype(np.int64)


def _pick(words: Sequence[str], codes: NDArray[np.int64]) -> pa.Array:
    return pa.array(words, pa.string()).take(pa.array(codes))


# ------------------------------------------------------------------------ rules


def detection_rules(count: int, seed: int = 0) -> dict[str, str]:
    """Return rules over such a log, by their names; of two counts, one begins like the other.

    >>> [*detection_rules(2)]
    ['rule 0', 'rule 1']
    """
    return {f"rule {number}": write_detection(number, seed) for number in range(count)}


def write_detection(number: int, seed: int = 0) -> str:
    """Return the query of one rule."""
    chance = Random(f"{seed}/{number}")
    kind = chance.random()
    if kind < 0.33:
        return (
            f"SELECT * FROM log WHERE (log AS a ; log AS b) FILTER a[{_write_step(chance)}] "
            f"AND b[{_write_step(chance)}] PARTITION BY [Host] "
            f"WITHIN {chance.randint(1, 10)} MINUTES"
        )
    if kind < 0.38:
        return (
            f"SELECT * FROM log WHERE log AS e FILTER e[{_write_step(chance)}] WITHOUT "
            f"(log AS w FILTER w[{_write_step(chance)}]) FOR 1 MINUTE PARTITION BY [Host]"
        )
    if kind < 0.43:
        return (
            f"SELECT COUNT(*) AS times FROM log WHERE log AS e FILTER e[{_write_step(chance)}] "
            "PARTITION BY [Host] GROUP BY [Host], EVERY 1 MINUTE HAVING COUNT(*) > 1"
        )
    return f"SELECT * FROM log WHERE log AS e FILTER e[{_write_step(chance)}]"


def _write_step(chance: Random) -> str:
    """Return the conditions on one event: which kind, which programs and words, and exceptions."""
    parts = [f"Channel = '{_CHANNELS[int(5 * chance.random() ** 3)]}'"]
    if chance.random() < 0.8:
        parts.append(f"EventID = {1 + int(_IDS * chance.random() ** 3)}")
    if chance.random() < 0.6:
        some = [_write_program(chance) for _ in range(chance.randint(1, 6))]
        parts.append(_write_any(chance.choice(["Image", "ParentImage", "ImageLoaded"]), some))
    words = [f"%{_write_word(chance)}%" for _ in range(chance.randint(2, 20))]
    column = chance.choice(["CommandLine"] * 4 + ["ParentCommandLine", "ScriptBlockText"])
    parts.append(_write_any(column, words))
    if chance.random() < 0.3:
        some = [_write_program(chance) for _ in range(chance.randint(1, 4))]
        parts.append(f"NOT {_write_any('User', some)}")
    if chance.random() < 0.1:
        other = chance.choice(_TEXTS[5:])
        parts.append(f"LOWER({other}) != '{chance.choice(_NAMES)}'")
    return " AND ".join(parts)


def _write_word(chance: Random) -> str:
    return _TOOLS[int(_WORDS * chance.random() ** 2)]


def _write_program(chance: Random) -> str:
    return f"%/{_NAMES[int(_PROGRAMS * chance.random() ** 2)]}.exe"


def _write_any(column: str, patterns: Sequence[str]) -> str:
    tests = (f"SQL_ILIKE({column}, '{one}')" for one in patterns)
    return f"({' OR '.join(tests)})"
