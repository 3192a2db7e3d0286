"""`cernis bench peers`: the same questions, the same events, every contestant in turn.

Every contestant first answers a question about few events, and its answer must be that of Cernis;
then all who can are asked about many events, in turns, every second round backwards. The tables
have medians. Each contestant lists its matches and adds up their first and last rows; joins count
in the database. One that takes longer than the cap is ended and starts anew for the next question;
over more events it would take longer still, and is not asked. One that takes a fifth of it is asked
once. Cernis has no cap, and all its turns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from math import inf
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.benchmark import MEDIANS, Benchmark, Step
from benchmarks.peers.contestants import (
    CAPPED,
    CONTESTANTS,
    Contestant,
    ContestantError,
    ContestantProcess,
    PeerAnswer,
    start,
    write_events,
)
from benchmarks.peers.questions import QUESTIONS, PeerQuestion
from benchmarks.peers.streams import STREAMS
from benchmarks.record import Case, Record, divide, find
from benchmarks.scale import BenchmarkScale
from benchmarks.table import Table, format_number
from cernis.errors import CernisError

NAME = "peers"
_SLOW = 0.2
"""The share of the cap after which one turn is enough."""
OURS = CONTESTANTS[0].name


class _Arena:
    """The contestants that are here, started when they are asked, and the events of both sizes."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._folder = Path(stack.enter_context(TemporaryDirectory(prefix="cernis-peers-")))
        self._running: dict[str, ContestantProcess] = {}
        self.missing: dict[str, str] = {}

    def ask(
        self, contestant: Contestant, question: PeerQuestion, rows: int, cap: float
    ) -> PeerAnswer | None:
        """Return the answer about so many events; None if the contestant cannot be had."""
        name = contestant.name
        if name in self.missing:
            return None
        if name not in self._running:
            try:
                self._running[name] = self._stack.enter_context(start(contestant))
            except ContestantError:
                raise
            except CernisError as error:
                self.missing[name] = str(error)
                return None
        running = self._running[name]
        running.open(self._write(question.stream, rows, contestant.form))
        answer = running.ask(question, cap)
        if running.is_ended:
            del self._running[name]
        return answer

    def _write(self, stream: str, rows: int, form: str) -> Path:
        file = self._folder / f"{stream}-{rows}.{form}"
        if not file.exists():
            write_events(STREAMS[stream](rows), file)
        return file


def run_peers(scale: BenchmarkScale, step: Step) -> list[Record]:
    """Check all contestants on few events, then measure them on many, in turns."""
    names, asked = scale.peer_names, scale.peer_questions
    contestants = [one for one in CONTESTANTS if names is None or one.name in names]
    questions = [one for one in QUESTIONS if asked is None or one.name in asked]
    records: list[Record] = []
    with ExitStack() as stack:
        arena = _Arena(stack)
        for done, question in enumerate(questions):
            step(question.name, done, len(questions))
            able = [one for one in contestants if one.takes(question)]
            agreed, refused = _check(arena, able, question, scale)
            records += refused
            capped: dict[str, PeerAnswer] = {}
            for rows in scale.peer_rows:
                records += _measure(arena, agreed, question, rows, scale, capped)
        missing = arena.missing.items()
        records += [
            Record(NAME, "missing", None, "", {"contestant": n}, note) for n, note in missing
        ]
    return records


def _check(
    arena: _Arena, contestants: Sequence[Contestant], question: PeerQuestion, scale: BenchmarkScale
) -> tuple[list[Contestant], list[Record]]:
    """Ask about few events; return those who answer as Cernis does, and why others are left out."""
    agreed: list[Contestant] = []
    refused: list[Record] = []
    wanted: PeerAnswer | None = None
    for one in contestants:
        answer = arena.ask(one, question, scale.peer_checked, 5 * scale.peer_cap)
        if answer is None:
            continue
        wanted = wanted or answer
        note = answer.note or _compare(answer, wanted)
        if note:
            case: Case = {"question": question.name, "contestant": one.name}
            refused.append(Record(NAME, "refused", None, "", case, note))
        else:
            agreed.append(one)
    return agreed, refused


def _compare(answer: PeerAnswer, wanted: PeerAnswer) -> str:
    """Return what is unequal, if something is."""
    # CORE and the engines for RDF give the number of matches only
    if answer.found is None or wanted.found is None:
        return ""
    if answer.found == wanted.found[: len(answer.found)]:
        return ""
    return f"it finds {answer.found}, Cernis {wanted.found}"


def _measure(
    arena: _Arena,
    contestants: Sequence[Contestant],
    question: PeerQuestion,
    rows: int,
    scale: BenchmarkScale,
    capped: dict[str, PeerAnswer],
) -> list[Record]:
    """Ask all in turns; `capped` has the answers of those that fewer rows took too long."""
    answers = defaultdict(list, {name: [answer] for name, answer in capped.items()})
    order = list(contestants)
    for _ in range(scale.rounds):
        for one in order:
            given, is_own = answers[one.name], one.name == OURS
            if given and not is_own and _is_enough(given[-1], scale.peer_cap):
                continue
            cap = inf if is_own else scale.peer_cap
            answer = arena.ask(one, question, rows, cap)
            assert answer is not None
            given.append(answer)
            if answer.found is None:
                capped[one.name] = answer
            if unequal := _compare(answer, answers[OURS][0]):
                raise ContestantError(f"{one.name}, {question.name}: {unequal}")
        order.reverse()
    return [
        record
        for one in contestants
        for record in _list_records(question, one.name, rows, answers[one.name], answers[OURS])
    ]


def _is_enough(answer: PeerAnswer, cap: float) -> bool:
    return answer.found is None or answer.processor > _SLOW * cap


def _list_records(
    question: PeerQuestion,
    name: str,
    rows: int,
    given: Sequence[PeerAnswer],
    ours: Sequence[PeerAnswer],
) -> list[Record]:
    """Return the medians of a contestant; those of the capped turn, if there is one."""
    case: Case = {"question": question.name, "contestant": name, "events": rows}
    last = given[-1]
    seconds, processor, own = (
        median(getattr(each, measure) for each in turns)
        for turns, measure in (
            (given if last.found else [last], "seconds"),
            (given if last.found else [last], "processor"),
            (ours, "processor"),
        )
    )
    matches = last.found[0] if last.found else None
    if last.note and last.note != CAPPED:
        return [Record(NAME, "refused", None, "", case, last.note)]
    return [
        Record(NAME, "clock", seconds, "s", case, last.note),
        Record(NAME, "processor", processor, "s", case, last.note),
        Record(NAME, "times Cernis", divide(processor, own), "times", case, last.note),
        Record(NAME, "matches", matches, "matches", case),
    ]


_TITLES = {
    "times Cernis": "Processor seconds, times those of Cernis",
    "processor": "Processor seconds",
    "clock": "Seconds",
}


def build_tables(records: Sequence[Record]) -> list[Table]:
    """Return processor seconds, seconds, and their ratios, a column for each contestant."""
    measured = {(r.case["question"], r.case["contestant"]) for r in records if r.measure == "clock"}
    names = [one.name for one in CONTESTANTS if any(name == one.name for _, name in measured)]
    asked = [one for one in QUESTIONS if (one.name, OURS) in measured]
    sizes = sorted({int(r.case["events"]) for r in records if r.measure == "clock"}, reverse=True)
    tables = [
        Table(
            f"{title}, over {rows:,} events",
            ("question", "matches", *names),
            tuple(_make_row(records, question, measure, rows, names) for question in asked),
        )
        for rows in sizes
        for measure, title in _TITLES.items()
    ]
    away = dict.fromkeys(
        (str(r.case["contestant"]), str(r.case.get("question", "all")), r.note.replace("|", " "))
        for r in records
        if r.measure in ("missing", "refused")
    )
    if away:
        tables.append(Table("Missing", ("contestant", "question", "because"), tuple(away)))
    return tables


def _make_row(
    records: Sequence[Record],
    question: PeerQuestion,
    measure: str,
    rows: int,
    names: Sequence[str],
) -> tuple[str, ...]:
    def cell(name: str) -> str:
        case = {"question": question.name, "contestant": name, "events": rows}
        found = [r for r in records if r.measure == measure and r.case == case]
        if not found:
            return "–"
        value = format_number(found[0].value)
        return f"> {value}" if found[0].note else value

    matches = find(records, "matches", question=question.name, contestant=OURS, events=rows)
    return (question.name, format_number(matches), *map(cell, names))


def build_points(records: Sequence[Record]) -> list[Mapping[str, object]]:
    """Return the processor seconds of each contestant for each question."""
    return [{**r.case, "seconds": r.value} for r in records if r.measure == "processor"]


_LISTED = "\n".join(f"- *{each.name}*: {each.about}" for each in QUESTIONS)

PEERS = Benchmark(
    name=NAME,
    title="The same questions beside other engines",
    question=f"""
What does the same question cost in Cernis, in other engines for complex events, and as a join?

{_LISTED}

Events have fixed seeds and the shapes of public data: trades of many symbols, clicks of users with
skew, ticks, the streams of CORE's sequences, RDF graphs of a market. All are in memory. Each
contestant first answers a question about few events, and its answer must be that of Cernis: the
number of matches, the sum of their first rows and that of their last (CORE and the RDF engines have
the number). Then they take turns on many events; the numbers are medians, from the text of the
question to the last match. Processor seconds are those of all threads and processes.

Engines for events list every match; databases and frames add up inside, which spares them that.
CORE, FlinkCEP, Flink SQL, Esper, Siddhi and a SPARQL store run as their drivers in
`benchmarks/peers` say: FlinkCEP and Flink SQL a whole job with one task, started anew for each
question, as PyFlink would start it. DuckDB and Spark SQL join the events with themselves (for *all
matches*), by time (ASOF, window functions) where the next event is asked for. polars and pandas do
the same on frames. *A run list* is the plain Python that people write, and how OpenCEP works.
A dash: the contestant cannot say it, or not in one statement that we know of. `> 10`: it was ended
after so many processor seconds, at this size or at the smaller one; as a ratio, it is at least
that. Over few events, planning the question is most of what it costs.
""",
    run=run_peers,
    tables=build_tables,
    points=build_points,
    method=MEDIANS,
)
