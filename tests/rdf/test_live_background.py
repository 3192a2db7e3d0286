"""A live background is read again between two pieces, and matches name its versions."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

import cernis
from cernis.errors import CernisError, DataError, StateError
from cernis.rdf.query import GraphQuery
from cernis.rdf.session import GraphSession

QUERY = """PREFIX : <urn:x:> SELECT ?who ?place {} WITHIN 100 SECONDS FROM STREAM S <urn:s>
WHERE {{ SEQ ({}) DEFINE GPM In ON S {{ ?who :enters ?door GRAPH :plan {{ ?door :leads ?place }} }}
  DEFINE GPM Out ON S {{ ?who :leaves ?door }} }}
"""
PAIR = QUERY.format("", "In ; Out")
KITCHEN = "<urn:x:d1> <urn:x:leads> <urn:x:kitchen> .\n"
CELLAR = "<urn:x:d1> <urn:x:leads> <urn:x:cellar> .\n" * 2


def event(at: int, who: str, does: str = "enters") -> bytes:
    return f"<urn:x:{who}> <urn:x:{does}> <urn:x:d1> <urn:e:{at}> .".encode()


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.ttl"
    path.write_text(KITCHEN)
    return path


def replace(path: Path, text: str) -> None:
    """Put another file in place of one, as an editor does."""
    path.with_suffix(".new").write_text(text)
    os.replace(path.with_suffix(".new"), path)


def open_session(query: str, plan: Any, **options: Any) -> GraphSession:
    session = cernis.query(query, lang="spaseq").session(
        background=plan, live=True, time_unit="s", **options
    )
    assert isinstance(session, GraphSession)
    return session


def places(found: Any) -> list[tuple[str, tuple[str, ...]]]:
    return [(match.bindings["place"], match.background) for match in found]


def test_pieces_after_a_change_are_matched_with_the_new_version(plan: Path) -> None:
    session = open_session(PAIR, plan)
    session.push(event(1, "ann"))
    session.advance(2)
    replace(plan, CELLAR)
    session.push(event(3, "bob"))
    assert session.versions is not None
    first, second = session.versions
    found = [*session.push(event(5, "ann", "leaves")), *session.push(event(6, "bob", "leaves"))]
    found += session.finish()
    assert places(found) == [
        ("<urn:x:kitchen>", (first, second)),
        ("<urn:x:cellar>", (second, second)),
    ]


def test_versions_are_in_columns_and_in_lines_beside_the_events(plan: Path) -> None:
    session = open_session(PAIR, plan)
    session.push(event(1, "ann"))
    session.push(event(2, "ann", "leaves"))
    found = session.finish()
    [version] = session.versions or []
    assert found.to_arrow().column("background").to_pylist() == [[version, version]]
    text = io.BytesIO()
    found.write_jsonl(text)
    assert json.loads(text.getvalue())["background"] == [version, version]
    found.write_csv(plan.with_name("found.csv"))
    assert version in plan.with_name("found.csv").read_text()


def test_matches_without_a_live_background_are_as_before(plan: Path) -> None:
    text = event(1, "ann") + b"\n" + event(2, "ann", "leaves")
    found = GraphQuery(PAIR).run(text, background=plan, time_unit="s")
    assert found.to_arrow().column_names == ["start_ts", "end_ts", "who", "place", "events"]
    assert [match.background for match in found] == [()]


def test_the_graphs_of_construct_say_what_they_used(plan: Path) -> None:
    query = PAIR.replace("SELECT ?who ?place", "CONSTRUCT { ?who :was_in ?place }")
    session = open_session(query, plan)
    session.push(event(1, "ann"))
    found = session.push(event(2, "ann", "leaves")), session.finish()
    text = io.BytesIO()
    assert [matches.write_nquads(text) for matches in found] == [0, 1]
    [version] = session.versions or []
    used = [line for line in text.getvalue().decode().splitlines() if "prov#used" in line]
    assert used == [
        f"<urn:cernis:match:0> <http://www.w3.org/ns/prov#used> <urn:cernis:background:{version}> ."
    ]


def test_a_variable_of_that_name_gives_way(plan: Path) -> None:
    query = PAIR.replace("?who ?place", "?who (?place AS ?background)")
    session = open_session(query, plan)
    assert session.finish().schema.names[3:] == ["background_", "events", "background"]


def test_equal_content_is_the_same_version_wherever_it_is_read(plan: Path) -> None:
    session = open_session(PAIR, plan)
    session.push(event(1, "ann"))
    replace(plan, KITCHEN)
    session.push(event(2, "ann"))
    assert len(session.versions or ()) == 1
    assert open_session(PAIR, plan).versions == session.versions
    replace(plan, CELLAR)
    session.push(event(3, "ann"))
    replace(plan, KITCHEN)
    session.push(event(4, "ann"))
    one, two, three = session.versions or ()
    assert one == three != two


def test_a_file_that_cannot_be_read_leaves_the_version_before(plan: Path) -> None:
    session = open_session(PAIR, plan)
    session.push(event(1, "ann"))
    [version] = session.versions or []
    replace(plan, "this is no Turtle")
    found = session.push(event(2, "ann", "leaves"))
    assert session.versions == [version]
    assert found.notes[0].startswith(f"the background is still {version}: background, line 1")
    plan.unlink()
    assert "cannot be read" in session.push(event(3, "bob")).notes[0]
    plan.write_text(CELLAR)
    assert not session.push(event(4, "bob")).notes
    assert len(session.versions or ()) == 2
    with pytest.raises(DataError):
        open_session(PAIR, plan.with_name("none.ttl"))


@pytest.mark.parametrize("steps", ["In ; Out", "In : Out", "In , Out", "In+: ; Out"])
def test_a_session_goes_on_with_all_that_it_holds(steps: str, plan: Path) -> None:
    """A change of a file that the query does not read changes no match."""
    query = QUERY.format("PARTITION BY (?who)", steps)
    events = [event(at, "ab"[at % 2], "leaves" if at % 3 == 2 else "enters") for at in range(12)]
    quiet, live = open_session(query, plan), open_session(query, plan)
    found = [
        [match for one in change(events, plan, i) for match in session.push(one)]
        + [*session.finish()]
        for i, session in enumerate((quiet, live))
    ]
    told = [
        [(match.start_ts, match.end_ts, match.bindings, match.events) for match in some]
        for some in found
    ]
    assert told[0] == told[1]
    assert len(told[0]) > 2
    assert len(live.versions or ()) > 6 > len(quiet.versions or ())


def change(events: list[bytes], plan: Path, changing: int) -> Any:
    for at, one in enumerate(events):
        if changing:
            replace(plan, KITCHEN + f"<urn:x:other{at}> <urn:x:leads> <urn:x:nowhere> .\n")
        yield one


def test_frozen_sessions_remember_the_versions(plan: Path) -> None:
    session = open_session(PAIR, plan)
    session.push(event(1, "ann"))
    session.advance(2)
    [before] = session.versions or []
    frozen = session.freeze()
    replace(plan, CELLAR)
    thawed = cernis.query(PAIR, lang="spaseq").thaw(frozen, background=plan)
    thawed.push(event(3, "ann", "leaves"))
    _, after = thawed.versions or ()
    assert places(thawed.finish()) == [("<urn:x:kitchen>", (before, after))]


def test_what_cannot_be_live_is_refused(plan: Path) -> None:
    with pytest.raises(CernisError, match="is a file, not bytes"):
        open_session(PAIR, b"")
    with pytest.raises(StateError, match="keeps its matches has no live background"):
        open_session(PAIR, plan, keep=True)
