"""Frozen sessions of SPAseQ: bytes of every released format keep thawing; others are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cernis
from cernis.engine.dag import records as r
from cernis.rdf.query import GraphQuery
from cernis.rdf.session import GraphSession
from cernis.state import VERSION
from tools.cases.frozen import pack_parts as pack
from tools.cases.frozen import unpack_parts as unpack

RELEASED = Path(__file__).parent / "frozen"

DEFINED = """
  DEFINE GPM A ON S { ?m :in ?bed . ?m :celsius ?c }
  DEFINE GPM B ON S { ?m :in ?bed . ?m :celsius ?d FILTER (?d > ?c) }
  DEFINE GPM C ON S { ?m :name ?name GRAPH :known { ?name :means ?what } }
}
"""
HEAD = "PREFIX : <urn:g:> SELECT * {} WITHIN 9 SECONDS FROM STREAM S <urn:g:s> WHERE {{ SEQ ({})"
CASES = {
    "any": HEAD.format("", "A : B+: : C") + DEFINED,
    "chain": HEAD.format("", "A ; B : C") + DEFINED,
    "ended": HEAD.format("", "A ; C+; ; B")
    + DEFINED.replace("?m :in ?bed . ?m :celsius ?d", "?n :in ?bed . ?n :celsius ?d").replace(
        "?m :name", "?o :in ?bed . ?o :name"
    ),
    "next": HEAD.format("", "A ; B") + DEFINED,
    "rounds": HEAD.format("", "A ; B+; : C")
    + DEFINED.replace("?m :celsius", "?n :celsius").replace("?m :in", "?n :in"),
    "sorted": HEAD.format("", "A : B : C") + DEFINED,
    "strict": HEAD.format("PARTITION BY (?m)", "A , C") + DEFINED,
}
FIXTURES = sorted(RELEASED.glob("*/*.bin"))
KNOWN = b"".join(b"<urn:g:name%d> <urn:g:means> <urn:g:thing%d> .\n" % (i, i) for i in range(20))
INTEGER = "<http://www.w3.org/2001/XMLSchema#integer>"


def write_events(first: int, number: int) -> bytes:
    lines = []
    for at in range(first, first + number):
        graph, meter = f"<urn:g:e{at}/at/{at // 2}>", f"<urn:g:meter{at % 3}>"
        lines += [
            f"{meter} <urn:g:in> <urn:g:bed{at % 2}> {graph} .",
            f'{meter} <urn:g:celsius> "{35 + 7 * at % 11}"^^{INTEGER} {graph} .',
            f"{meter} <urn:g:name> <urn:g:name{at}> {graph} .",
        ]
    return "\n".join(lines).encode()


def open_query(name: str) -> GraphQuery:
    return cernis.query(CASES[name], lang="spaseq")


def freeze(name: str) -> bytes:
    session = open_query(name).session(time_unit="s", background=KNOWN)
    session.push(write_events(0, 5))
    session.push(write_events(5, 6))
    return session.freeze()


def thaw(name: str, state: bytes, background: bytes = KNOWN) -> GraphSession:
    return open_query(name).thaw(state, background=background)


def finish(session: GraphSession) -> list[Any]:
    found = [*session.push(write_events(11, 5)), *session.finish()]
    return [(match.start_ts, match.end_ts, match.events, match.bindings) for match in found]


def expected(name: str) -> list[Any]:
    """The matches of the whole stream that were not certain when it was frozen."""
    whole = open_query(name).run(write_events(0, 16), time_unit="s", background=KNOWN)
    rows = [(match.start_ts, match.end_ts, match.events, match.bindings) for match in whole]
    return [row for row in rows if row[1] >= 5]


@pytest.mark.parametrize("name", CASES)
def test_a_thawed_session_goes_on_where_it_was_frozen(name: str) -> None:
    found = finish(thaw(name, freeze(name)))
    assert found == expected(name)
    assert any(start < 5 for start, *_ in found)


def test_terms_have_other_codes_beside_other_knowledge() -> None:
    more = b"<urn:g:other> <urn:g:means> <urn:g:bed1> .\n" + KNOWN
    assert finish(thaw("any", freeze("any"), more)) == expected("any")


@pytest.mark.parametrize("file", FIXTURES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_bytes_of_every_released_format_still_thaw(file: Path) -> None:
    name = file.parent.name
    assert finish(thaw(name, file.read_bytes())) == expected(name)


@pytest.mark.parametrize("name", CASES)
def test_the_format_of_this_version_has_its_bytes_kept(name: str) -> None:
    """Run this file as a script to write them, when the format has a new version."""
    assert (RELEASED / name / f"version-{VERSION}.bin").exists()


def test_another_query_is_refused() -> None:
    with pytest.raises(cernis.StateError, match="frozen by another query"):
        thaw("next", freeze("any"))


def test_sessions_that_keep_or_have_ended_cannot_be_frozen() -> None:
    query = open_query("next")
    with pytest.raises(cernis.StateError, match=r"keeps its matches \(keep=True\) cannot be"):
        query.session(keep=True).freeze()
    ended = query.session()
    ended.finish()
    with pytest.raises(cernis.StateError, match="this session is finished"):
        ended.freeze()


@pytest.mark.parametrize("name", CASES)
def test_every_array_is_missed_and_must_have_its_shape(name: str) -> None:
    meta, arrays = unpack(freeze(name))
    for part, array in arrays.items():
        rest = {other: each for other, each in arrays.items() if other != part}
        for state in (pack(meta, rest), pack(meta, {**rest, part: array[None]})):
            with pytest.raises(cernis.StateError, match="damaged"):
                thaw(name, state)


@pytest.mark.parametrize(
    ("part", "number", "message"),
    [
        ("engine/entries/store", 99, "'store' is out of range"),
        ("engine/entries/codes", 10_000, "'codes' is out of range"),
        ("engine/entries/root", 0, "'root' is out of range"),
        ("engine/entries/root", 1, "buckets share their runs"),
        ("rows.event", -1, "its rows do not belong to its events"),
        ("held.first", 1, "the last events are not in order"),
        ("terms.text", 32, "a term is no term"),
    ],
)
def test_numbers_that_lead_nowhere_are_refused(part: str, number: int, message: str) -> None:
    meta, arrays = unpack(freeze("chain"))
    arrays[part] = np.full_like(arrays[part], number)
    with pytest.raises(cernis.StateError, match=message):
        thaw("chain", pack(meta, arrays))


@pytest.mark.parametrize(
    ("part", "layout", "field", "number", "message"),
    [
        ("nodes", r.NODE, "left", 10_000, "a node leads nowhere"),
        ("nodes", r.NODE, "vertex", 10_000, "'vertex of nodes' is out of range"),
        ("sources", r.SOURCE, "version", -1, "'version of sources' is out of range"),
        ("sources", r.SOURCE, "link", 1, "a source leads to no run before it"),
        ("vertices", r.VERTEX, "position", 10_000, "'vertices' are not in order"),
    ],
)
def test_records_that_lead_nowhere_are_refused(
    part: str, layout: Any, field: str, number: int, message: str
) -> None:
    meta, arrays = unpack(freeze("chain"))
    records = arrays[f"engine/{part}"].view(layout)
    records[field][min(1, len(records) - 1) :] = number
    with pytest.raises(cernis.StateError, match=message):
        thaw("chain", pack(meta, arrays))


@pytest.mark.parametrize("case", ["ended", "rounds"])
@pytest.mark.parametrize("number", [0, 10_000])
def test_rounds_that_lead_nowhere_are_refused(case: str, number: int) -> None:
    meta, arrays = unpack(freeze(case))
    sources = arrays["engine/sources"].view(r.SOURCE)
    sources["group"][:] = number or arrays["engine/entries/rounds"].max()
    with pytest.raises(cernis.StateError, match=r"a round leads (nowhere|to none before it)"):
        thaw(case, pack(meta, arrays))


@pytest.mark.parametrize(
    ("case", "name"), [("ended", "rounds"), ("ended", "taken"), ("rounds", "rounds")]
)
def test_rounds_that_are_no_rounds_are_refused(case: str, name: str) -> None:
    meta, arrays = unpack(freeze(case))
    kept = arrays[f"engine/entries/{name}"]
    assert kept.any()
    arrays[f"engine/entries/{name}"] = np.where(kept > 0, arrays["engine/entries/root"], 0).astype(
        np.int32
    )
    with pytest.raises(cernis.StateError, match="a round leads to none before it"):
        thaw(case, pack(meta, arrays))


@pytest.mark.parametrize("name", ["ready", "taken"])
def test_groups_without_rounds_have_not_ended_any(name: str) -> None:
    meta, arrays = unpack(freeze("ended"))
    arrays[f"engine/entries/{name}"][:] = 10_000
    with pytest.raises(cernis.StateError, match=f"'{name}' is out of range"):
        thaw("ended", pack(meta, arrays))


def test_a_run_that_leads_to_itself_is_refused() -> None:
    meta, arrays = unpack(freeze("chain"))
    vertices, nodes = arrays["engine/vertices"].view(r.VERTEX), arrays["engine/nodes"].view(r.NODE)
    node = next(i for i, vertex in enumerate(nodes["vertex"]) if vertices["count"][vertex])
    own = vertices["first"][nodes["vertex"][node]]
    arrays["engine/sources"].view(r.SOURCE)["at"][own] = node
    with pytest.raises(cernis.StateError, match="a source leads to no run before it"):
        thaw("chain", pack(meta, arrays))


if __name__ == "__main__":
    for case in CASES:
        file = RELEASED / case / f"version-{VERSION}.bin"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(freeze(case))
