"""Hostile input: parsers, readers and states get valid input with mutations.

A case must be answered, or refused with a `CernisError`. Anything else is a finding: a crash of the
process, a hang, another exception. Cases run in processes of their own, so that a crash or a hang
is counted and the run goes on. A finding is written to `cases/TARGET/`; `make test` replays these.

    python tests/fuzz/hostile.py --seconds 600          # look for new cases
    python tests/fuzz/hostile.py --replay               # run the cases that were found before
    python tests/fuzz/hostile.py --target thaw --seed 7 --cases 1000

A case follows from the target, the seed and its number alone.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import itertools
import json
import os
import random
import select
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

CASES = Path(__file__).parent / "cases"
FIRST_SECONDS, CASE_SECONDS = 240.0, 30.0
"""How long a case may take before it is a hang; the first one of a process may compile kernels."""
GROUP = 400
"""Cases in one process."""
MEMORY = 8 << 30

ANSWERED, REFUSED, RAW, CRASH, HANG = "answered", "refused", "raw", "crash", "hang"
OUTCOMES = (ANSWERED, REFUSED, RAW, CRASH, HANG)


class Target(NamedTuple):
    """How to make a case, and how to run it."""

    make: Callable[[random.Random], bytes]
    run: Callable[[bytes], None]


# -------------------------------------------------------------- mutations

_NUMBERS = (0, 1, 2, 3, 7, 8, 16, 63, 64, 127, 128, 255, 256, 1000, 65535, 2**31 - 1, 2**31)
_NUMBERS += (2**32 - 1, 2**32, 2**62, 2**63 - 1)


def draw_number(draw: random.Random) -> int:
    number = draw.choice(_NUMBERS) if draw.random() < 0.7 else draw.randrange(0, 40)
    return -number - draw.randrange(2) if draw.random() < 0.4 else number


def mutate_bytes(draw: random.Random, content: bytes) -> bytes:
    """Return the bytes with a few changes."""
    data = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        at = draw.randrange(len(data) + 1) if data else 0
        match draw.randrange(7):
            case 0 if data:
                data[at % len(data)] ^= 1 << draw.randrange(8)
            case 1 if data:
                data[at % len(data)] = draw.choice((0, 1, 127, 128, 255, draw.randrange(256)))
            case 2:
                width, kind = draw.choice(((4, "<i"), (8, "<q")))
                place = at // width * width
                number = max(
                    -(2 ** (8 * width - 1)), min(draw_number(draw), 2 ** (8 * width - 1) - 1)
                )
                if place + width <= len(data):
                    data[place : place + width] = struct.pack(kind, number)
            case 3:
                data[at : at + draw.randrange(1, 9)] = b""
            case 4:
                data[at:at] = draw.randbytes(draw.randrange(1, 5))
            case 5:
                other, size = draw.randrange(len(data) + 1), draw.randrange(1, 33)
                data[at : at + size] = data[other : other + size]
            case _ if draw.random() < 0.2:
                del data[at:]
    return bytes(data)


def mutate_text(draw: random.Random, texts: list[str], words: list[str]) -> bytes:
    """Return one of the texts with words of the others, of the language, or of noise."""
    parts = _split(draw.choice(texts))
    for _ in range(draw.choice((1, 1, 2, 3, 6))):
        at = draw.randrange(len(parts) + 1)
        match draw.randrange(6):
            case 0:
                parts[at : at + draw.randrange(1, 4)] = []
            case 1:
                parts.insert(at, draw.choice(words))
            case 2:
                other = _split(draw.choice(texts))
                first = draw.randrange(len(other) + 1)
                parts[at:at] = other[first : first + draw.randrange(1, 8)]
            case 3 if parts:
                other_at = draw.randrange(len(parts))
                here = at % len(parts)
                parts[here], parts[other_at] = parts[other_at], parts[here]
            case 4:
                parts[at:at] = parts[max(0, at - 5) : at] * draw.choice((1, 2, 50))
            case _:
                parts.insert(
                    at,
                    "".join(
                        chr(draw.choice((32, 39, 92, 233, 8239, 128512, draw.randrange(1, 55000))))
                        for _ in range(draw.randrange(1, 4))
                    ),
                )
    return "".join(parts).encode("utf-8", "replace")


def _split(text: str) -> list[str]:
    """Return words and single signs, with the spaces between."""
    parts, word = [], ""
    for sign in text:
        if sign.isalnum() or sign == "_":
            word += sign
        else:
            parts += [word, sign] if word else [sign]
            word = ""
    return [*parts, word] if word else parts


def mutate_tree(draw: random.Random, tree: Any) -> Any:
    """Return a JSON value with one change inside."""
    junk = (None, True, -1, 0, 1.5, 2**63, -(2**63), "", "x", [], {}, [[]], [0], draw_number(draw))
    if isinstance(tree, dict) and tree and draw.random() < 0.95:
        name = draw.choice(sorted(tree))
        if draw.random() < 0.05:
            return {n: v for n, v in tree.items() if n != name}
        return {**tree, name: mutate_tree(draw, tree[name])}
    if isinstance(tree, list) and tree and draw.random() < 0.9:
        at = draw.randrange(len(tree))
        match draw.randrange(8):
            case 0:
                return [*tree[:at], *tree[at + 1 :]]
            case 1:
                return [*tree[:at], tree[at], *tree[at:]]
            case _:
                return [*tree[:at], mutate_tree(draw, tree[at]), *tree[at + 1 :]]
    if isinstance(tree, int) and draw.random() < 0.7:
        return tree + draw.choice((-1, 1, 2, 64, -64, 2**31, 2**62))
    return draw.choice(junk)


# --------------------------------------------------------------- languages

CEQL = [
    "SELECT * FROM S WHERE (SELL AS s ; BUY AS b) FILTER s[price > 100] PARTITION BY [name]",
    "SELECT NEXT x, y FROM S, T WHERE (A AS x : B+ AS y) FILTER x[u] = y[u] AND y[v != 3]",
    "CREATE STREAM S { EVENT A { n:string, p:int } } SELECT MAX * FROM S WHERE A{2,5} AS a OR (B)",
    "SELECT * WHERE (A+ AS x) FILTER PREV(x)[u] <= x[u] OR x[n LIKE 'a%'] CONSUME BY ANY LIMIT 3",
    "SELECT LAST * FROM S WHERE A ALL B UNLESS (C ; D) WITHIN 10 [ts] CONSUME BY PARTITION",
    "SELECT * WHERE ((A AS a ; B AS b) PARTITION BY [a[k], b[k]]) FILTER a[x + 2 IN {1, 2.5, 'z'}]",
    "SELECT * FROM S WHERE A ; B WITHIN 5 MINUTES",
]
CONJUNCTIVE = [
    "Q(x, y) <- A(id: x, u: y), B(id: x, u: z) WITHIN 12 EVENTS",
    "Q(y, t3) <- A(id: x)@t1, B(id: x, u: y)@t2, C(u: y)@t3, t1 < t2 < t3, t3 - t1 < 12",
    "Q(*) <- T(a: x), S(a: x, b: y), R(a: x, b: y), x > 3 WITHIN 5 SECONDS",
]
_ABOUT = "FROM STREAM S <http://example.org/s> WITHIN 10 SECONDS WHERE"
_HOT = "DEFINE GPM Hot ON S { ?meter :in ?bed ; :celsius ?t . FILTER (?t > 40) } }"
_MORE = "DEFINE GPM B ON S { ?b a :B OPTIONAL { ?b :of ?a } } DEFINE GPM C ON S { ?a :p 'x'@en } }"
SPASEQ = [
    f"PREFIX : <urn:g:> SELECT ?bed {_ABOUT} {{ SEQ (Hot) {_HOT}",
    f"PREFIX : <urn:x:> SELECT ?a {_ABOUT} {{ SEQ (B ; B+ , C | B) {_MORE}",
]
_SIGNS = [
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ";",
    ":",
    "+",
    "*",
    "?",
    "'",
    '"',
    "<",
    ">",
    "=",
    "!=",
    "|",
]
_SIGNS += ["&", ".", "-", "@", "1", "9" * 30, "1e999", "0.5", "\\", "\n", "\t", "--", "/*", "#"]


def _language(texts: list[str], lang: str) -> Target:
    words = sorted({part for text in texts for part in _split(text)} | set(_SIGNS))

    def run(case: bytes) -> None:
        import cernis

        query = cernis.query(case.decode("utf-8", "surrogatepass"), lang=lang)
        str(query.explain())

    return Target(lambda draw: mutate_text(draw, texts, words), run)


# ----------------------------------------------------------------- readers


def make_events(number: int, seed: int = 1) -> list[dict[str, Any]]:
    """Return events that are the same for ever, whatever Python's random does."""
    drawn, state = [], seed
    for at in range(number):
        state = (1103515245 * state + 12345) % 2**31
        kind, key, other = state >> 16, state >> 20, state >> 24
        name = ("", "u", "vw", "long enough for two words", "é")[key % 5]
        drawn.append(
            {
                "type": "ABC"[kind % 3],
                "ts": at,
                "id": key % 3,
                "u": other % 4,
                "k": name,
                "x": at / 4,
            }
        )
    return drawn


_READ = (
    "SELECT * FROM S WHERE (A AS a ; B AS b) FILTER a[u >= 0] AND b[k != 'q'] "
    "PARTITION BY [k] WITHIN 9 EVENTS"
)


def _check_file(case: bytes, suffix: str) -> None:
    import cernis

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"S{suffix}")
        path.write_bytes(case)
        for read in (
            _READ,
            "SELECT * FROM S WHERE (A AS a ; B AS b) FILTER a[k] = b[k] WITHIN 9 [ts]",
        ):
            matches = cernis.query(read).run(path)
            matches.count()
            list(matches.head(30))
            matches.to_arrow()


@cache
def _files(suffix: str) -> list[bytes]:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    table = pa.Table.from_pylist(make_events(60))
    coded = table.set_column(0, "type", table["type"].dictionary_encode())
    coded = coded.set_column(4, "k", coded["k"].dictionary_encode())
    nested = table.append_column(
        "n", pa.array([{"a": i, "b": [str(i)] * (i % 3)} for i in range(60)])
    )
    sinks = []
    for each in (table, coded, nested):
        sink = pa.BufferOutputStream()
        match suffix:
            case ".arrow":
                with pa.ipc.new_file(sink, each.schema) as writer:
                    writer.write_table(each, max_chunksize=25)
            case ".stream":
                compressed = pa.ipc.IpcWriteOptions(compression="lz4")
                with pa.ipc.new_stream(sink, each.schema, options=compressed) as writer:
                    writer.write_table(each, max_chunksize=25)
            case ".parquet":
                pa.parquet.write_table(each, sink, row_group_size=25)
            case ".csv" if each is not nested:
                pa.csv.write_csv(each.cast(table.schema), sink)
            case ".jsonl":
                lines = (json.dumps(row, ensure_ascii=False) for row in each.to_pylist())
                sink.write("\n".join(lines).encode())
        sinks.append(sink.getvalue().to_pybytes())
    return [content for content in sinks if content]


def _file(suffix: str) -> Target:
    ends = ".arrow" if suffix == ".stream" else suffix
    return Target(
        lambda draw: mutate_bytes(draw, draw.choice(_files(suffix))),
        lambda case: _check_file(case, ends),
    )


def _make_table(draw: random.Random) -> bytes:
    import pyarrow as pa

    while True:
        try:
            return _damage_buffer(draw)
        except pa.ArrowInvalid:  # pyarrow itself refuses to make it
            continue


def _damage_buffer(draw: random.Random) -> bytes:
    """Return an Arrow stream with a change in one buffer."""
    import pyarrow as pa

    name = draw.choice(("type", "k", "u", "ts"))
    base = draw.choice(_files(".arrow"))
    table = pa.ipc.open_file(base).read_all().combine_chunks()
    column = table[name].chunk(0)
    if pa.types.is_dictionary(column.type):
        index = column.indices.to_numpy().copy()
        index[draw.randrange(len(index))] = draw.choice((-1, 100, 2**31 - 1, -(2**31)))
        wrong = pa.DictionaryArray.from_arrays(pa.array(index), column.dictionary, safe=False)
    else:
        buffers = [None if b is None else bytearray(b.to_pybytes()) for b in column.buffers()]
        data = draw.choice([b for b in buffers if b])
        at = draw.randrange(len(data) // 4) * 4
        data[at : at + 4] = struct.pack("<i", max(-(2**31), min(draw_number(draw), 2**31 - 1)))
        wrong = pa.Array.from_buffers(
            column.type,
            len(column),
            [None if b is None else pa.py_buffer(bytes(b)) for b in buffers],
        )
    table = table.set_column(table.column_names.index(name), name, wrong)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def _run_table(case: bytes) -> None:
    import pyarrow as pa

    import cernis

    table = pa.ipc.open_stream(case).read_all()
    for given in (table, table.to_batches()[0], iter(table.to_batches()), [table, table]):
        matches = cernis.query(_READ).session(time="x").push(given)
        matches.count()
        list(matches.head(30))


# --------------------------------------------------------------------- RDF

_PROV = "<http://www.w3.org/ns/prov#generatedAtTime>"
_DATE = "<http://www.w3.org/2001/XMLSchema#dateTime>"
_WHOLE = "<http://www.w3.org/2001/XMLSchema#integer>"


def _quads() -> str:
    lines = []
    for at in range(12):
        graph = f"<urn:g:t{at}>"
        lines += [
            f'{graph} {_PROV} "2024-07-01T12:00:{at:02}Z"^^{_DATE} {graph} .',
            f"<urn:g:meter{at % 3}> <urn:g:in> <urn:g:bed{at % 2}> {graph} .",
            f'<urn:g:meter{at % 3}> <urn:g:celsius> "{35 + at}"^^{_WHOLE} {graph} .',
            f'<urn:g:meter{at % 3}> <urn:g:name> "né {at}"@en {graph} .',
        ]
    return "\n".join(lines) + "\n"


def _trig() -> str:
    head = "@prefix : <urn:g:> .\n@prefix prov: <http://www.w3.org/ns/prov#> .\n"
    head += "@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n"
    return head + "".join(
        f':t{at} {{ :t{at} prov:generatedAtTime "2024-07-01T12:00:{at:02}Z"^^xsd:dateTime . '
        f":meter{at % 3} :in :bed{at % 2} ; :celsius {35 + at} . }}\n"
        for at in range(12)
    )


def _graphs(text: str, suffix: str) -> Target:
    query = (
        "PREFIX : <urn:g:> SELECT ?bed ?t FROM STREAM heat <http://example.org/heat> "
        "WITHIN 9 SECONDS WHERE { SEQ (Hot ; Hotter) "
        "DEFINE GPM Hot ON heat { ?m :in ?bed ; :celsius ?t . FILTER (?t > 36) } "
        "DEFINE GPM Hotter ON heat { ?n :in ?bed } }"
    )

    def run(case: bytes) -> None:
        import cernis

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"heat{suffix}")
            path.write_bytes(case)
            matches = cernis.query(query, lang="spaseq").run(path)
            matches.count()
            list(matches.head(20))

    return Target(lambda draw: mutate_bytes(draw, text.encode()), run)


# ------------------------------------------------------------------ states


def _queries() -> dict[str, tuple[str, str]]:
    """Return queries whose states are frozen, by name: language and text."""
    window = "WITHIN 12 EVENTS"
    formulas = {
        "unary": f"(A AS a ; B+ AS b) FILTER a[x > 1] PARTITION BY [k] {window}",
        "plain": "(A AS a ; B AS b ; C AS c) FILTER a[u > 0]",
        "clock": "(A AS x ; B AS y) FILTER x[u > 0] WITHIN 15 [ts]",
        "fraction": "(A AS x ; B+ AS y) PARTITION BY [id] WITHIN 4.5 [x]",
        "keys": f"(A AS a ; B AS b) PARTITION BY [k], [id] {window}",
        "any": f"(A AS a ; B AS b) PARTITION BY [k] {window} CONSUME BY ANY",
        "consumed": "(A AS a ; B+ AS b) PARTITION BY [id] CONSUME BY PARTITION",
        "unless": f"(A AS a ; B AS b) UNLESS (C ; C) {window}",
        "forked": f"(A AS a ALL (B AS b ; C AS c)) {window}",
        "equal": f"(A AS x ; B AS y ; C AS z) FILTER x[id] = y[id] AND y[id] = z[id] {window}",
        "unlike": f"(A AS x ; B AS y) FILTER x[id] = y[id] AND x[u] != y[u] {window}",
        "ordered": f"(A AS x ; B AS y) FILTER x[id] = y[id] AND x[u] < y[u] {window}",
        "gaps": "(A AS x ;[2 TO 20 MILLISECONDS] B AS y ;[9 EVENTS] C) FILTER x[u] = y[u]",
        "arrow": f"(A AS x ->[15 MILLISECONDS] B+ AS y) FILTER x[id] = y[id] {window}",
        "joined": f"(A AS x ALL B AS y ALL C AS z) FILTER x[id] = y[id] AND y[id] = z[id] {window}",
        "residual": f"(A AS x ; B AS y ; C AS z) FILTER x[id] <= z[id] {window}",
        "across": f"(A AS x ; B AS y -> C AS z) FILTER x[id] = z[id] {window}",
        "parts": f"(A AS x ; B AS y) FILTER x[u] = y[u] PARTITION BY [k] {window}",
        "forgotten": f"(A AS a ; B+ AS b) PARTITION BY [k] {window} FORGET AFTER 5 MILLISECONDS",
        "silenced": "(A AS a ; B AS b) PARTITION BY [k] SUPPRESS BY [k] FOR 9 MILLISECONDS",
        "absent": "A AS a WITHOUT (B AS b FILTER b[u] = a[u]) FOR 50 MILLISECONDS PARTITION BY [k]",
        "absent-events": "A ; B WITHOUT C ; A FOR 5 EVENTS PARTITION BY [k]",
        "absent-before": "B AS b WITHOUT (A AS a ; C FILTER a[u] = b[u]) BEFORE 50 MILLISECONDS",
        "absent-pairs": "A AS a WITHOUT (B AS b FILTER b[u] > a[u]) FOR 50 MILLISECONDS "
        "WITHOUT (C AS c FILTER c[u] < a[u]) BEFORE 4 EVENTS PARTITION BY [k]",
        "forgotten-all": "(A AS x ; B AS y) FILTER x[u] = y[u] FORGET AFTER 9 MILLISECONDS",
        "forgotten-listed": "(A AS x ; B AS y ; C AS z) FILTER x[id] = z[id] PARTITION BY [u] "
        "FORGET AFTER 20 MILLISECONDS",
        "chosen": "(A AS x ; B AS y ; C AS z) FILTER x[id] = z[id] PARTITION BY [u] "
        "CONSUME BY PARTITION",
    }
    known = {name: ("ceql", f"SELECT * FROM S WHERE {text}") for name, text in formulas.items()}
    for strategy in ("NEXT", "LAST", "MAX", "ANY"):
        text = (
            f"SELECT {strategy} * FROM S WHERE (A AS a ; B+ AS b ; C AS c) {window} CONSUME BY ANY"
        )
        known[strategy.lower()] = ("ceql", text)
    for name, text in {
        "longest": f"(A AS a ; B+ AS b) PARTITION BY [k] {window} CONSUME BY PARTITION",
        "longest-plain": "(A AS a ; B+ AS b)",
        "longest-listed": f"(A AS x ; B AS y) FILTER x[u] < y[u] PARTITION BY [k] {window}",
    }.items():
        known[name] = ("ceql", f"SELECT LONGEST * FROM S WHERE {text}")
    best = "SELECT * FROM S WHERE (A AS a ; B+ AS b) PARTITION BY [k] WITHIN 12 EVENTS"
    best = f"{best} ORDER BY SUM(b[x]) DESC LIMIT 2 EVERY 9 MILLISECONDS"
    known["best"] = ("ceql", best)
    known["overall"] = ("ceql", best.replace("EVERY 9 MILLISECONDS", "OVERALL"))
    terms = "SELECT a[x] AS p, b[x] - a[x] AS d FROM S WHERE (A AS a ; B AS b)"
    for name, text in {
        "terms": f"PARTITION BY [k] {window}",
        "terms-best": f"{window} ORDER BY b[x] - a[x] DESC LIMIT 2 EVERY 9 MILLISECONDS",
        "terms-absent": f"WITHOUT C FOR 5 MILLISECONDS {window}",
    }.items():
        known[name] = ("ceql", f"{terms} {text}")
    counted = "SELECT COUNT(*) FROM S WHERE (A AS a ; B+ AS b)"
    known["counted"] = ("ceql", f"{counted} PARTITION BY [k] {window}")
    known["counted-clock"] = ("ceql", f"{counted} WITHIN 15 [ts]")
    known["counted-all"] = ("ceql", counted)
    grouped = "SELECT {}, COUNT(*) AS n, SUM(b[x]) AS s, AVG(a[u]) AS m FROM S WHERE {}"
    pairs = "(A AS a ; B+ AS b)"
    for name, by, text in (
        ("grouped", "[k]", f"{pairs} PARTITION BY [k] {window} GROUP BY [k]"),
        ("grouped-every", "MAX(b[u])", f"{pairs} {window} GROUP BY EVERY 9 MILLISECONDS"),
        ("grouped-start", "MAX(b[u])", f"{pairs} {window} GROUP BY EVERY 9 MILLISECONDS OF START"),
        ("distinct", "COUNT(DISTINCT b[u])", f"{pairs} {window} GROUP BY EVERY 9 MILLISECONDS"),
        (
            "grouped-absent",
            "[k]",
            f"{pairs} WITHOUT C FOR 5 MILLISECONDS PARTITION BY [k] {window} GROUP BY [k]",
        ),
    ):
        known[name] = ("ceql", grouped.format(by, text))
    known["answers"] = ("cq", "Q(x, y) <- A(id: x, u: y), B(id: x, u: z) WITHIN 12 EVENTS")
    known["collapsed"] = (
        "cq",
        "Q(y, t3) <- A(id: x)@t1, B(id: x, u: y)@t2, C(u: y)@t3, t1 < t2 < t3, t3 - t1 < 12",
    )
    return known


@cache
def _query(name: str) -> Any:
    import cernis

    lang, text = _queries()[name]
    return cernis.query(text, lang=lang)


@cache
def _frozen(name: str, number: int) -> bytes:
    session = _query(name).session()
    for first in range(0, number, 20):
        session.push(make_events(number)[first : first + 20])
    return bytes(session.freeze())


def _mutate_array(draw: random.Random, array: Any) -> Any:
    import numpy as np

    array = array.copy()
    flat = array.reshape(-1).view(np.uint8)
    if draw.random() < 0.06 or not flat.size:
        return draw.choice(
            (array[:-1], np.concatenate([array, array]), array.reshape(-1), array[:0])
        )
    if draw.random() < 0.03:
        return array.reshape(-1).view(np.uint8)
    width = draw.choice((1, 4, 4, 4, 8, 8))
    for _ in range(draw.choice((1, 1, 1, 2, 5))):
        number = draw_number(draw) if width > 1 else draw.randrange(256)
        written = (number % 2 ** (8 * width)).to_bytes(width, "little")
        at = draw.randrange(max(1, flat.size // width)) * width
        size = len(flat[at : at + width])
        flat[at : at + width] = np.frombuffer(written[:size], np.uint8)
    return array


def _mutate_frozen(draw: random.Random, frozen: bytes) -> bytes:
    """Return a frozen state with a few changes, and the checksum that belongs to them."""
    import numpy as np

    from cernis.state import pack, split_arrays, unpack

    tree: Any = unpack(frozen)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        if draw.random() < 0.25:
            tree = mutate_tree(draw, tree)
            tree = tree if isinstance(tree, dict) else {}
        _, arrays = split_arrays(tree)
        if not arrays:
            break
        path = draw.choice(sorted(arrays))
        *steps, last = path.split("/")
        part = tree
        for step in steps:
            part = part[int(step) if isinstance(part, list) else step]
        name: Any = int(last) if isinstance(part, list) else last
        if "table" in path and draw.random() < 0.5:
            part[name] = np.frombuffer(mutate_bytes(draw, part[name].tobytes()), np.uint8)
        elif draw.random() < 0.03:
            del part[name]
        else:
            part[name] = _mutate_array(draw, part[name])
    return pack(tree)


def _make_frozen(draw: random.Random) -> bytes:
    name = draw.choice(sorted(_queries()))
    frozen = _frozen(name, draw.choice((25, 60)))
    if draw.random() < 0.05:
        frozen = mutate_bytes(draw, frozen)
    else:
        frozen = _mutate_frozen(draw, frozen)
    return name.encode() + b"\n" + frozen


def _run_frozen(case: bytes) -> None:
    name, _, frozen = case.partition(b"\n")
    query = _query(name.decode())
    before = _describe_shared(query)
    try:
        session = query.thaw(frozen)
    finally:
        assert _describe_shared(query) == before, "a state changed the query that others share"
    later = [
        {**event, "ts": event["ts"] + 60, "x": event["x"] + 15} for event in make_events(40, 5)
    ]
    for first in (0, 20):
        found = session.push(later[first : first + 20])
        found.count()
        list(found.head(20))
        found.to_arrow() if found.count() < 10_000 else None
    query.thaw(session.freeze()).finish().count()


@cache
def _graph_queries() -> dict[str, Any]:
    import cernis

    sequences = {
        "any": ("A : B+: : C", ""),
        "next": ("A ; B+ ; C", ""),
        "strict": ("A , B", "PARTITION BY (?m)"),
        "without": ("A ; C! ; B", ""),
        "both": ("(A & C) : B", ""),
    }
    defined = (
        "DEFINE GPM A ON S { ?m :in ?bed . ?m :celsius ?c } "
        "DEFINE GPM B ON S { ?m :in ?bed . ?m :celsius ?d FILTER (?d > ?c) } "
        "DEFINE GPM C ON S { ?m :name ?name OPTIONAL { ?m :near ?n } } }"
    )
    return {
        name: cernis.query(
            f"PREFIX : <urn:g:> SELECT * {part} WITHIN 9 SECONDS FROM STREAM S <urn:g:s> "
            f"WHERE {{ SEQ ({steps}) {defined}",
            lang="spaseq",
        )
        for name, (steps, part) in sequences.items()
    }


def _graph_events(first: int, number: int) -> bytes:
    lines = []
    for at in range(first, first + number):
        graph = f"<urn:g:e{at}/at/{at // 2}>"
        meter = f"<urn:g:meter{at % 3}>"
        lines += [
            f"{meter} <urn:g:in> <urn:g:bed{at % 2}> {graph} .",
            f'{meter} <urn:g:celsius> "{35 + 7 * at % 11}"^^{_WHOLE} {graph} .',
            f'{meter} <urn:g:name> "né {at}"@en {graph} .',
        ]
    return "\n".join(lines).encode()


@cache
def _frozen_graphs(name: str, number: int) -> bytes:
    session = _graph_queries()[name].session(time_unit="s")
    for first in range(0, number, 5):
        session.push(_graph_events(first, 5))
    return bytes(session.freeze())


def _make_frozen_graphs(draw: random.Random) -> bytes:
    name = draw.choice(sorted(_graph_queries()))
    frozen = _mutate_frozen(draw, _frozen_graphs(name, draw.choice((5, 25))))
    return name.encode() + b"\n" + frozen


def _run_frozen_graphs(case: bytes) -> None:
    name, _, frozen = case.partition(b"\n")
    query = _graph_queries()[name.decode()]
    session = query.thaw(frozen)
    for first in (25, 35):
        found = session.push(_graph_events(first, 10))
        if found.count() < 10_000:
            found.to_arrow()
    session = query.thaw(session.freeze())
    list(session.finish().head(20))


def _rule_texts() -> dict[str, str]:
    """Return rules of every kind: alone, in a family, and on each other's matches."""
    texts = {
        "pairs": "SELECT * FROM S WHERE (A AS a ; B+ AS b) FILTER a[x > 1] WITHIN 12 EVENTS",
        "alone": "SELECT * FROM S WHERE A WITHOUT B FOR 5 MILLISECONDS PARTITION BY [k]",
        "groups": "SELECT COUNT(*) AS n FROM S WHERE A ; B GROUP BY EVERY 9 MILLISECONDS",
        "makes": "INSERT INTO D SELECT a[u] AS u FROM S WHERE A AS a",
        "longest": "INSERT INTO E SELECT LONGEST LAST(a[u]) AS u FROM S WHERE A+ AS a "
        "WITHIN 9 EVENTS",
        "reads": "SELECT * FROM S, D WHERE D AS d ; S>B AS b WITHIN 12 EVENTS",
        "reads longest": "SELECT * FROM S, E WHERE E AS e ; S>B AS b WITHIN 12 EVENTS",
    }
    for number in range(9):
        texts[f"same {number}"] = (
            f"SELECT * FROM S WHERE (A AS a ; B AS b) FILTER a[id = {number}] WITHIN 9 EVENTS"
        )
    return texts


@cache
def _rules() -> Any:
    import cernis

    return cernis.rules(_rule_texts())


@cache
def _frozen_rules(number: int) -> bytes:
    session = _rules().session()
    for first in range(0, number, 20):
        session.push(make_events(number)[first : first + 20])
    return bytes(session.freeze())


def _make_frozen_rules(draw: random.Random) -> bytes:
    return _mutate_frozen_rules(draw, _frozen_rules(draw.choice((25, 60))))


def _mutate_frozen_rules(draw: random.Random, frozen: bytes) -> bytes:
    """Mutate the state of a rule set, or the state of a rule in it."""
    import numpy as np

    from cernis.state import pack, unpack

    tree = unpack(frozen)
    inner = [name for name in tree if name.startswith("rule.")]
    if draw.random() < 0.5:
        return _mutate_frozen(draw, frozen)
    name = draw.choice(sorted(inner))
    changed = _mutate_frozen(draw, tree[name].tobytes())
    return pack({**tree, name: np.frombuffer(changed, np.uint8)})


def _run_frozen_rules(case: bytes) -> None:
    session = _rules().thaw(case)
    for first in (0, 20):
        later = [{**e, "ts": e["ts"] + 60} for e in make_events(40, 5)[first : first + 20]]
        for found in session.push(later).values():
            list(found.head(20))
    session = _rules().thaw(session.freeze())
    for found in session.finish().values():
        list(found.head(20))


def _describe_shared(query: Any) -> list[Any]:
    plan = query.plan
    shared = [len(plan._others)]
    if plan.unary is not None:
        shared += [len(plan.unary.automaton.states), list(plan.unary.tables.labels)]
    return shared


# ------------------------------------------------------------------ chunks


class _Store:
    """A state store in memory."""

    def __init__(self) -> None:
        self.parts: dict[str, bytes] = {}

    def header(self) -> bytes | None:
        return self.parts.get("header")

    def put_header(self, header: bytes) -> None:
        self.parts["header"] = header

    def chunk(self, number: int) -> bytes | None:
        return self.parts.get(f"chunk {number}")

    def put_chunk(self, number: int, chunk: bytes) -> None:
        self.parts[f"chunk {number}"] = chunk

    def drop_chunk(self, number: int) -> None:
        del self.parts[f"chunk {number}"]

    def snapshot(self) -> tuple[bytes, bytes] | None:
        if "session" not in self.parts:
            return None
        return self.parts["session"], self.parts["waiting"]

    def put_snapshot(self, session: bytes, waiting: bytes) -> None:
        self.parts |= {"session": session, "waiting": waiting}


class _Written(NamedTuple):
    """The work of a bucket, and the parts of a state that it has written."""

    stream: Any
    parts: dict[str, bytes]


def _write_parts(stream: Any, batches: list[tuple[list[bytes], int | None]]) -> _Written:
    """Let a bucket take some blobs in each micro-batch, up to a watermark."""
    from cernis.work import log
    from cernis.work.bucket import Bucket

    store, bucket = _Store(), Bucket(stream, 0)
    smallest, log.SMALLEST_SNAPSHOT = log.SMALLEST_SNAPSHOT, 1 << 12
    bucket.revise(store, 0)
    for blobs, watermark in batches:
        list(bucket.take(store, blobs, watermark, lambda *_: None))
    log.SMALLEST_SNAPSHOT = smallest
    return _Written(stream, store.parts)


def _numbered_events() -> Any:
    import pyarrow as pa

    from cernis.work.columns import ROW

    return pa.Table.from_pylist(make_events(60)).append_column(ROW, pa.array(range(60), pa.int64()))


def _read_rows(table: Any) -> Any:
    from cernis.events.order import Scale
    from cernis.run.session import RunOptions
    from cernis.work.columns import ROW
    from cernis.work.reading import RowWork, StreamColumns

    columns = {name: name for name in table.column_names if name != ROW}
    return RowWork(
        streams=(StreamColumns(name="S", columns=columns),),
        reading=RunOptions(time="ts"),
        scale=Scale(10**6, 10**6),
    )


def _cut(table: Any) -> list[tuple[list[bytes], int | None]]:
    from cernis.work.carriers import write_blob

    return [
        ([write_blob(table.slice(first, 10))], first - 5 if first else None)
        for first in range(0, 60, 10)
    ]


@cache
def _stream(snapshots: bool) -> _Written:
    from cernis.work.bucket import BucketWork
    from cernis.work.query import QueryWork, answer_schema

    table = _numbered_events()
    plan = _query("unary" if snapshots else "equal").plan
    work = QueryWork(**_read_rows(table).__dict__, plan=plan, form="lines")
    work = QueryWork(**{**work.__dict__, "schema": answer_schema(work, table)})
    window = None if snapshots else 1000
    stream = BucketWork(work=work, query="q", buckets=(0,), numbered=True, window=window)
    return _write_parts(stream, _cut(table))


@cache
def _rule_stream() -> _Written:
    from cernis.work.bucket import BucketWork
    from cernis.work.query import line_schema
    from cernis.work.rule_record import BucketGroup, RuleKey, RuleRecord, RuleText, RuleVersion
    from cernis.work.rules import RuleWork

    table = _numbered_events()
    reading = _read_rows(table)
    schema = line_schema(reading, table.schema)
    work = RuleWork(**{**reading.__dict__, "rows": table.schema, "schema": schema})
    texts = tuple(RuleText(name, text, 0) for name, text in _rule_texts().items())
    record = RuleRecord((BucketGroup(RuleKey(), (0,)),), (RuleVersion(0, (texts,)),))
    stream = BucketWork(work=work, query="q", buckets=(0,), numbered=True, record=record)
    return _write_parts(stream, _cut(table))


@cache
def _graph_stream(name: str, snapshots: bool) -> _Written:
    import pyarrow as pa

    from cernis.spark.rdf.files import check_knowledge
    from cernis.spark.rdf.layout import choose_solution_stream_layout
    from cernis.spark.rdf.solve import SolutionSpreader, SolutionWork
    from cernis.spark.streaming.packing import pack_buckets
    from cernis.work.bucket import BucketWork
    from cernis.work.rdf import solution_answer_schema

    query = _graph_queries()[name]
    plan = query.plan
    work = SolutionWork(
        plan=plan,
        background=check_knowledge(query, None),
        unit="s",
        numeric_times=True,
        layout=choose_solution_stream_layout(plan),
        tasks=1,
        form="lines",
    )
    work = SolutionWork(**{**work.__dict__, "schema": solution_answer_schema(work)})
    window = None if snapshots else plan.window
    stream = BucketWork(work=work, query="q", buckets=(0,), window=window)
    spread = SolutionSpreader(work, stream.buckets, False)
    rows = [
        {
            "stream": "S",
            "number": at,
            "ts": at * 10**9,
            "triples": [
                {"s": f"<urn:g:m{at % 3}>", "p": "<urn:g:in>", "o": f"<urn:g:bed{at % 2}>"},
                {"s": f"<urn:g:m{at % 3}>", "p": "<urn:g:celsius>", "o": f'"{at}"^^{_WHOLE}'},
                {"s": f"<urn:g:m{at % 3}>", "p": "<urn:g:name>", "o": f'"né {at}"@en'},
            ],
        }
        for at in range(30)
    ]
    triple = pa.struct({"s": pa.string(), "p": pa.string(), "o": pa.string()})
    fields = {"stream": pa.string(), "number": pa.int64(), "ts": pa.int64()}
    schema = pa.schema({**fields, "triples": pa.list_(triple)})
    batches = []
    for first in range(0, 30, 10):
        table = pa.Table.from_pylist(rows[first : first + 10], schema=schema)
        blobs = [
            blob.as_py()
            for solved in spread(table)
            for packed in pack_buckets(solved, 0)
            for blob in packed["blob"]
        ]
        batches.append((blobs, 1000 * (first - 2) if first else None))
    return _write_parts(stream, batches)


def _mutate_part(
    draw: random.Random, parts: dict[str, bytes], mutate_session: Callable[..., bytes]
) -> dict[str, str]:
    """Return parts of a state with changes; mostly with the digest that belongs to them."""
    from cernis.work.log import Header, _digest_snapshot, open_seal, seal

    name = draw.choice(sorted(parts))
    changed = {}
    if draw.random() < 0.15:
        changed[name] = mutate_bytes(draw, parts[name])
    elif name == "header":
        version, _, sealed = parts[name].partition(b"\n")
        fields = mutate_tree(draw, json.loads(open_seal(sealed, name)))
        changed[name] = version + b"\n" + seal(json.dumps(fields).encode())
    elif name in ("session", "waiting"):
        mutate = mutate_session if name == "session" and draw.random() < 0.7 else mutate_bytes
        changed[name] = mutate(draw, parts[name])
        new = {**parts, **changed}
        header = Header.from_bytes(parts["header"])
        header.snapshot_digest = _digest_snapshot(new["session"], new["waiting"])
        changed["header"] = header.to_bytes()
    else:
        changed[name] = seal(mutate_bytes(draw, open_seal(parts[name], name)))
    return {name: content.hex() for name, content in changed.items()}


def _restore(written: _Written, changed: dict[str, str]) -> None:
    from cernis.work.bucket import restore_bucket

    store = _Store()
    store.parts = {**written.parts, **{n: bytes.fromhex(c) for n, c in changed.items()}}
    bucket = restore_bucket(written.stream, 0, store, None)
    bucket.revise(store, 1)
    list(bucket.take(store, [], 2**40, lambda *_: None))


def _make_chunk(draw: random.Random) -> bytes:
    snapshots = draw.random() < 0.5
    changed = _mutate_part(draw, _stream(snapshots).parts, _mutate_frozen)
    return json.dumps({"snapshots": snapshots, "changed": changed}).encode()


def _run_chunk(case: bytes) -> None:
    known = json.loads(case)
    _restore(_stream(known["snapshots"]), known["changed"])


def _mutate_rule_session(draw: random.Random, frozen: bytes) -> bytes:
    """Mutate since when each rule has run, or the state of the rules."""
    since, _, state = frozen.partition(b"\n")
    if draw.random() < 0.15:
        return json.dumps(mutate_tree(draw, json.loads(since))).encode() + b"\n" + state
    return since + b"\n" + _mutate_frozen_rules(draw, state)


def _make_rule_chunk(draw: random.Random) -> bytes:
    return json.dumps(_mutate_part(draw, _rule_stream().parts, _mutate_rule_session)).encode()


def _run_rule_chunk(case: bytes) -> None:
    _restore(_rule_stream(), json.loads(case))


def _make_graph_chunk(draw: random.Random) -> bytes:
    name, snapshots = draw.choice(sorted(_graph_queries())), draw.random() < 0.5
    changed = _mutate_part(draw, _graph_stream(name, snapshots).parts, _mutate_frozen)
    return json.dumps({"query": name, "snapshots": snapshots, "changed": changed}).encode()


def _run_graph_chunk(case: bytes) -> None:
    known = json.loads(case)
    _restore(_graph_stream(known["query"], known["snapshots"]), known["changed"])


TARGETS = {
    "ceql": _language(CEQL, "ceql"),
    "conjunctive": _language(CONJUNCTIVE, "cq"),
    "spaseq": _language(SPASEQ, "spaseq"),
    "csv": _file(".csv"),
    "jsonl": _file(".jsonl"),
    "arrow": _file(".arrow"),
    "arrow-stream": _file(".stream"),
    "arrow-table": Target(_make_table, _run_table),
    "parquet": _file(".parquet"),
    "nquads": _graphs(_quads(), ".nq"),
    "trig": _graphs(_trig(), ".trig"),
    "thaw": Target(_make_frozen, _run_frozen),
    "thaw-graphs": Target(_make_frozen_graphs, _run_frozen_graphs),
    "thaw-rules": Target(_make_frozen_rules, _run_frozen_rules),
    "chunk": Target(_make_chunk, _run_chunk),
    "chunk-rules": Target(_make_rule_chunk, _run_rule_chunk),
    "chunk-graphs": Target(_make_graph_chunk, _run_graph_chunk),
}


# ------------------------------------------------------------------ worker


def run_case(target: Target, case: bytes) -> tuple[str, str]:
    """Run a case; return its outcome and what it said."""
    from cernis import CernisError

    try:
        target.run(case)
    except CernisError as error:
        return REFUSED, str(error).split("\n")[0]
    except Exception as error:
        return RAW, f"{type(error).__name__}: {error}".split("\n")[0]
    return ANSWERED, ""


def work(cases: Iterator[tuple[str, str, bytes]], current: Path) -> None:
    """Run cases one after the other, and write a line for each."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, label, case in cases:
        current.write_bytes(case)
        outcome, said = run_case(TARGETS[name], case)
        print(json.dumps([name, label, outcome, said[:300]]), flush=True)


def make_cases(name: str, seed: int, first: int, count: int) -> Iterator[tuple[str, str, bytes]]:
    for number in range(first, first + count):
        yield name, str(number), TARGETS[name].make(random.Random(f"{name}/{seed}/{number}"))


def kept_cases(name: str) -> Iterator[tuple[str, str, bytes]]:
    for file in sorted((CASES / name).glob("*")):
        yield name, file.name, file.read_bytes()


# ------------------------------------------------------------------ driver


class Tally(NamedTuple):
    """The outcomes of a target, and its findings: outcome, what was said, the case."""

    counts: collections.Counter[str]
    findings: list[tuple[str, str, bytes]]

    def add(self, outcome: str, said: str, case: bytes) -> None:
        self.counts[outcome] += 1
        if outcome not in (ANSWERED, REFUSED):
            self.findings.append((outcome, said, case))


class Case(NamedTuple):
    """A case that a worker has run; its content only if it is the last one so far."""

    target: str
    label: str
    outcome: str
    said: str
    content: bytes


def drive(arguments: list[str], current: Path) -> Iterator[Case]:
    """Run a worker; yield its cases."""
    command = [sys.executable, str(Path(__file__)), "--worker", str(current), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        patience, pending, target = FIRST_SECONDS, b"", ""
        while True:
            ready, _, _ = select.select([process.stdout], [], [], patience)
            if not ready:
                process.kill()
                yield Case(target, "", HANG, f"no answer in {patience:.0f} s", current.read_bytes())
                return
            data = os.read(process.stdout.fileno(), 1 << 16)
            if not data:
                break
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                name, label, outcome, said = json.loads(line)
                patience = CASE_SECONDS if name == target else FIRST_SECONDS
                target = name
                last = outcome == RAW and line is lines[-1]
                yield Case(name, label, outcome, said, current.read_bytes() if last else b"")
        if process.wait() != 0:
            said = process.stderr.read().decode(errors="replace").strip().split("\n")[-1]
            if not current.exists():
                raise RuntimeError(f"no case could be made: {said}")
            said = f"exit code {process.returncode} {said}"
            yield Case(target, "", CRASH, said, current.read_bytes())


def fuzz(name: str, seed: int, cases: int, seconds: float, folder: Path) -> Tally:
    """Run cases of a target until there were enough, or the time is over."""
    tally, end, number = Tally(collections.Counter(), []), time.monotonic() + seconds, 0
    while number < cases and time.monotonic() < end:
        first, count = number, min(GROUP, cases - number)
        arguments = [f"--target={name}", f"--seed={seed}", f"--first={first}", f"--cases={count}"]
        for case in drive(arguments, folder / "current"):
            number = int(case.label) + 1 if case.label else number + 1
            content = case.content
            if not content and case.outcome == RAW:  # others have run since
                [(_, _, content)] = make_cases(name, seed, number - 1, 1)
            tally.add(case.outcome, case.said, content)
            if time.monotonic() > end:
                break
        if number == first:
            break
    return tally


def run_together(names: list[str], arguments: list[str], folder: Path) -> dict[str, Tally]:
    """Run cases of all targets in one process, which is faster and ends with the first crash."""
    tallies = {name: Tally(collections.Counter(), []) for name in names}
    targets = [f"--target={name}" for name in names]
    for case in drive([*targets, *arguments], folder / "current"):
        said = f"{case.label or 'the case after the last one'}: {case.said}"
        tallies[case.target or names[0]].add(case.outcome, said, case.content)
    return tallies


def keep(name: str, finding: tuple[str, str, bytes]) -> Path:
    outcome, _, case = finding
    path = CASES / name / f"{outcome}-{hashlib.sha256(case).hexdigest()[:12]}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(case)
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", action="append", choices=sorted(TARGETS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--cases", type=int, default=10**9, help="of each target")
    parser.add_argument("--seconds", type=float, default=1e9, help="for all targets together")
    parser.add_argument("--together", action="store_true", help="all targets in one process")
    parser.add_argument("--replay", action="store_true", help="run the cases in cases/")
    parser.add_argument("--keep", action="store_true", help="write findings to cases/")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.target or list(TARGETS)
    seed, first, count = options.seed, options.first, options.cases
    if options.worker is not None:
        made = (
            kept_cases(name) if options.replay else make_cases(name, seed, first, count)
            for name in names
        )
        work(itertools.chain.from_iterable(made), options.worker)
        return 0
    total: collections.Counter[str] = collections.Counter()
    failed = False
    print(f"{'target':14}{'tried':>9}" + "".join(f"{outcome:>10}" for outcome in OUTCOMES))
    with tempfile.TemporaryDirectory() as temporary:
        folder, tallies = Path(temporary), {}
        if options.replay or options.together:
            arguments = ["--replay"] if options.replay else [f"--seed={seed}", f"--cases={count}"]
            tallies = run_together(names, arguments, folder)
        for name in names:
            share = options.seconds / len(names)
            tally = tallies.get(name) or fuzz(name, seed, count, share, folder)
            total += tally.counts
            print(f"{name:14}{_row(tally.counts)}", flush=True)
            failed = failed or bool(tally.findings)
            distinct = {finding[:2]: finding for finding in tally.findings}
            for (outcome, said), finding in distinct.items():
                where = f" ({keep(name, finding)})" if options.keep else ""
                print(f"  {outcome}: {said}{where}", flush=True)
    print(f"{'all':14}{_row(total)}")
    return 1 if failed else 0


def _row(counts: collections.Counter[str]) -> str:
    return f"{counts.total():>9,}" + "".join(f"{counts[outcome]:>10,}" for outcome in OUTCOMES)


if __name__ == "__main__":
    sys.exit(main())
