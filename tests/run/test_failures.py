"""A push that fails: the session is as it was before, or it is closed and says so."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from inspect import CO_GENERATOR
from threading import Event
from types import FrameType
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

import cernis
from cernis.engine.linked.runtime import LinkedEngine
from cernis.engine.unary.runtime import UnaryEngine
from cernis.rdf.reading import merge

PACKAGE = os.path.dirname(cernis.__file__)
FAILED = r"^this session has failed before \(.*\); begin a new one"
QUERIES = {
    "unary": "SELECT * WHERE A ; B+ PARTITION BY [k] WITHIN 9 EVENTS",
    "unary, by an attribute": "SELECT LAST * WHERE A ; B+ WITHIN 5 [n]",
    "counts": "SELECT COUNT(*) WHERE A ; B+ PARTITION BY [k] WITHIN 9 EVENTS",
    "correlated": "SELECT * WHERE (A AS a ; B AS b) FILTER a[k] = b[k] AND a[n] < b[n]",
    "listed": """SELECT * WHERE (A AS a ; B AS b ; A AS c) FILTER a[n] < c[n]
        PARTITION BY [k] CONSUME BY PARTITION""",
    "conjunctive": "Q(x, y) <- A(k: x, n: y), B(k: x) WITHIN 9 EVENTS",
    "answers": "Q(x) <- A(k: x, n: y), B(k: x)",
}
PIECES = [
    pa.table({"type": list("ABAB"), "k": [1, 1, 2, 2], "n": [1, 2, 3, 4]}),
    pa.table({"type": list("BABA"), "k": [1, 3, 2, 1], "n": [5, 6, 7, 8]}),
    pa.table({"type": list("BABB"), "k": [1, 1, 2, 3], "n": [9, 9, 9, 9]}),
]


def show(found: Any) -> list[Any]:
    shown: list[Any] = found.to_arrow().to_pylist()
    return shown


class Interrupted:
    """Raise KeyboardInterrupt at the n-th call of a function in Cernis; count the calls."""

    def __init__(self, at: int = -1) -> None:
        self.at, self.calls = at, 0

    def __enter__(self) -> Interrupted:
        sys.setprofile(self._look)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _look(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if code.co_flags & CO_GENERATOR:  # Python ignores errors of a generator that is closed
            return
        if event == "call" and code.co_filename.startswith(PACKAGE):
            self.calls += 1
            if self.calls == self.at:
                raise KeyboardInterrupt


def is_closed(session: Any) -> bool:
    try:
        session.freeze()
    except cernis.StateError:
        return True
    return False


def interrupt_everywhere(act: Callable[[], object], points: int) -> list[int]:
    """Return places to interrupt: the calls of an action, or so many of them."""
    with Interrupted() as counted:
        act()
    step = max(1, counted.calls // points)
    return [*range(1, counted.calls + 1, step), counted.calls - 1, counted.calls]


@pytest.mark.parametrize("kind", QUERIES)
@pytest.mark.parametrize("before", [0, 1])
def test_an_interrupted_push_is_undone_or_closes_the_session(kind: str, before: int) -> None:
    text = QUERIES[kind]
    query: Any = cernis.query(text, lang="cq" if "<-" in text else "ceql")
    whole = query.session()
    expected = [show(whole.push(piece)) for piece in PIECES]
    first, second = PIECES[before : before + 2]

    def begin() -> Any:
        session = query.session()
        for piece in PIECES[:before]:
            session.push(piece)
        return session

    counted = begin()
    outcomes = set()
    for at in interrupt_everywhere(lambda: counted.push(first), 30):
        session = begin()
        with pytest.raises(KeyboardInterrupt), Interrupted(at):
            session.push(first)
        if is_closed(session):
            for action in (partial(session.push, second), session.freeze, session.forget):
                with pytest.raises(cernis.StateError, match=FAILED):
                    action()
            outcomes.add("closed")
        else:
            found = [show(session.push(piece)) for piece in (first, second)]
            assert found == expected[before : before + 2]
            outcomes.add("undone")
    assert outcomes == {"closed", "undone"}


def test_an_interrupted_freeze_closes_the_session_or_changes_nothing() -> None:
    query = cernis.query(QUERIES["listed"])
    whole = query.session()
    expected = [show(whole.push(piece)) for piece in PIECES]
    counted = query.session()
    counted.push(PIECES[0])
    for at in interrupt_everywhere(counted.freeze, 30):
        session = query.session()
        session.push(PIECES[0])
        with pytest.raises(KeyboardInterrupt), Interrupted(at):
            session.freeze()
        if not is_closed(session):
            assert show(session.push(PIECES[1])) == expected[1]


def test_events_that_an_encoder_refuses_close_the_session_from_the_first_batch_on() -> None:
    """The batch is in the store already."""
    session = cernis.query("SELECT * WHERE A ; B WITHIN 3 [x]").session()
    with pytest.raises(cernis.DataError, match="'x' decreases at row 1"):
        session.push(pa.table({"type": ["A", "B"], "x": [5, 1]}))
    good = pa.table({"type": ["A"], "x": [9]})
    for action in (partial(session.push, good), session.freeze):
        with pytest.raises(cernis.StateError, match=FAILED):
            action()


def test_a_bad_first_value_changes_nothing(tmp_path: Any) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("type,ts\nA,1\nB,never\n")
    session = cernis.query("SELECT * WHERE A ; B WITHIN 5 SECONDS").session()
    with pytest.raises(cernis.DataError, match="column 'ts'"):
        session.push(bad)
    assert session.events == 0
    assert session.push(pa.table({"type": ["A", "B"], "ts": [1, 2]})).count() == 1


def test_the_plan_of_a_refused_first_push_is_forgotten() -> None:
    """Text has no index of order; the events that are read decide."""
    session = cernis.query("SELECT * WHERE (A AS a ; B AS b) FILTER a[x] < b[x]").session()
    plan = session.plan
    with pytest.raises(cernis.DataError):
        session.push(
            [{"type": "A", "x": "text", "ts": 5}, {"type": "A", "x": "text", "ts": "never"}]
        )
    assert session.push(pa.table({"type": ["A", "B"], "x": [1, 2]})).count() == 1
    assert session.plan is plan


def test_a_failed_pull_changes_nothing() -> None:
    query = cernis.query("Q(x) <- A(k: x, n: y), B(k: x) WITHIN 9 EVENTS", lang="cq")
    session = query.session(keep=True)
    session.push(PIECES[0])
    counted = interrupt_everywhere(session.pull, 30)
    pulled = show(session.pull())
    for at in counted:
        with pytest.raises(KeyboardInterrupt), Interrupted(at):
            session.pull()
        assert show(session.pull()) == pulled


def test_a_session_can_be_used_between_the_batches_of_a_stream() -> None:
    session = cernis.query("SELECT * WHERE A").session(keep=True)
    batches = session.stream(iter([pa.table({"type": ["A"]}), pa.table({"type": ["A"]})]))
    assert [(next(batches).count(), session.pull().count()) for _ in range(2)] == [(1, 1), (1, 2)]


def test_one_session_in_two_threads_is_refused() -> None:
    session = cernis.query("SELECT * WHERE A").session()
    push = UnaryEngine.push

    def push_again(engine: UnaryEngine, *arguments: Any, **more: Any) -> Any:
        session.push(pa.table({"type": ["A"]}))
        return push(engine, *arguments, **more)

    with (
        mock.patch.object(UnaryEngine, "push", push_again),
        pytest.raises(cernis.StateError, match="another thread uses it"),
    ):
        session.push(pa.table({"type": ["A"]}))


def test_a_thread_that_pulls_while_another_pushes_is_refused_or_sees_whole_pushes() -> None:
    session = cernis.query("SELECT * WHERE A AS a ; B AS b").session(keep=True)
    pairs, pushed = pa.table({"type": ["A", "B"]}), 0
    whole = {n * (n + 1) // 2 for n in range(201)}  # after n pushes

    def pull(stop: Event) -> list[int]:
        seen = []
        while not stop.is_set():
            with suppress(cernis.StateError):
                seen.append(session.pull().count())
        return seen

    with ThreadPoolExecutor(1) as pool:
        stop = Event()
        pulling = pool.submit(pull, stop)
        while pushed < 200:
            with suppress(cernis.StateError):  # refused before anything was read
                session.push(pairs)
                pushed += 1
        stop.set()
        assert {*pulling.result()} <= whole
    assert session.pull().count() == 200 * 201 // 2


# ------------------------------------------------------------------ SPAseQ

GRAPHS = """
PREFIX : <urn:x:>
SELECT ?a ?b WITHIN 1 SECOND FROM STREAM S <urn:x:s>
WHERE { SEQ (A ; B) DEFINE GPM A ON S { ?a :is 1 } DEFINE GPM B ON S { ?b :is 2 } }
"""


def write_stream(events: int) -> bytes:
    integer = "http://www.w3.org/2001/XMLSchema#integer"
    return "\n".join(
        f'<urn:x:{i}> <urn:x:is> "{1 + i % 2}"^^<{integer}> <urn:x:g/{i}> .' for i in range(events)
    ).encode()


def test_an_interrupted_run_over_graphs_closes_the_session() -> None:
    query = cernis.query(GRAPHS, lang="spaseq")
    stream = {"S": write_stream(8)}
    whole = show(query.session().collect(stream))
    assert whole
    counted = query.session()
    for at in interrupt_everywhere(lambda: counted.collect(stream), 30):
        session = query.session()
        with pytest.raises(KeyboardInterrupt), Interrupted(at):
            session.collect(stream)
        try:
            session.forget()
        except cernis.StateError:
            continue
        assert show(session.collect(stream)) == whole


def test_a_stream_of_graphs_that_fails_in_the_middle_says_so() -> None:
    session = cernis.query(GRAPHS, lang="spaseq").session()
    push, batches = LinkedEngine.push, 0

    def fail_later(engine: LinkedEngine, *arguments: Any) -> Any:
        nonlocal batches
        batches += 1
        if batches == 2:
            raise KeyboardInterrupt
        return push(engine, *arguments)

    with (
        mock.patch.object(merge, "EVENTS", 4),
        mock.patch.object(LinkedEngine, "push", fail_later),
        pytest.raises(KeyboardInterrupt),
    ):
        list(session.stream({"S": write_stream(12)}))
    with pytest.raises(cernis.StateError, match=FAILED):
        session.collect({"S": write_stream(2)})
    with pytest.raises(cernis.StateError, match=FAILED):
        session.forget()


def test_events_without_times_do_not_follow_events_with_times() -> None:
    session = cernis.query("SELECT * FROM S WHERE A ; B WITHIN 10 EVENTS").session()
    session.push([{"type": "A", "ts": 1}])
    with pytest.raises(cernis.DataError) as caught:
        session.push([{"type": "B"}])
    assert str(caught.value) == (
        "stream 'S': no column for the time, which the events before these have"
    )
    assert session.push([{"type": "B", "ts": 2}]).count() == 1


def test_an_event_that_comes_too_late_leaves_a_session_as_it_was() -> None:
    text = "SELECT * FROM S WHERE A ; B"
    for session in (cernis.query(text).session(), cernis.rules({"pair": text}).session()):
        session.push([{"type": "A", "ts": 1}, {"type": "C", "ts": 3}])
        with pytest.raises(cernis.DataError, match="earlier than one that was handled before"):
            session.push([{"type": "B", "ts": 2}])
        found = session.push([{"type": "B", "ts": 4}])
        assert len(found["pair"] if isinstance(found, dict) else found) == 1
