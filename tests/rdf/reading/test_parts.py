"""Files in parts have the events, the numbers and the mistakes of the whole file."""

from __future__ import annotations

import gzip
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cernis.errors import DataError
from cernis.rdf.reading.parts import FilePart, PartReader, list_files, look_ahead, split_stream
from cernis.rdf.reading.streams import Streamset
from cernis.rdf.reading.terms import Terms
from cernis.rdf.reading.times import TimeRule

PROV = "<http://www.w3.org/ns/prov#generatedAtTime>"
INTEGER = "<http://www.w3.org/2001/XMLSchema#integer>"

Event = tuple[int, int, str, frozenset[tuple[str, ...]]]


def write_lines(events: int, seed: int = 1) -> list[str]:
    """N-Quads of events with the time before, after or among their quads."""
    draw = random.Random(seed)
    written, time = [], 0
    for number in range(events):
        time += draw.choice((0, 1, 5))
        graph = f"<http://e/g{number}x>"
        quads = [
            f'<http://x/s{k}> <http://x/p> "a \\" <b> . {draw.random()}"@en {graph} .'
            for k in range(draw.randrange(1, 4))
        ]
        quads.append(f'_:b <http://x/q> "{number}"^^{INTEGER} {graph} . # said')
        quads.insert(draw.randrange(len(quads) + 1), f'{graph} {PROV} "{time}"^^{INTEGER} .')
        written += quads
    for i in range(5, len(written) - 5, 37):
        written[i], written[i + 2] = written[i + 2], written[i]
    return [*written[:3], "", "  # a comment", *written[3:]]


def write(path: Path, text: Sequence[str]) -> Path:
    path.write_text("\n".join(text) + "\n")
    return path


def read_whole(path: Path) -> list[Event]:
    terms = Terms()
    found: list[Event] = []
    for batch in Streamset({"S": path}, terms):
        found += describe_events(batch, terms)
    return found


def describe_events(batch: Any, terms: Terms, names: Any = None) -> list[Event]:
    columns = [terms.texts(column).to_pylist() for column in (batch.s, batch.p, batch.o)]
    triples = list(zip(*columns, strict=True))
    shown = [""] * batch.size if names is None else terms.texts(names).to_pylist()
    return [
        (
            int(batch.times[i]),
            int(batch.numbers[i]),
            shown[i],
            frozenset(triples[batch.first[i] : batch.first[i + 1]]),
        )
        for i in range(batch.size)
    ]


def read_parts(parts: Sequence[FilePart]) -> list[Event]:
    found: list[Event] = []
    for part in parts:
        terms = Terms()
        reader = PartReader(part, terms)
        for batch in reader:
            found += describe_events(batch, terms, reader.names)
    return found


def split_file(path: Path, piece: int = 2000, **options: Any) -> list[FilePart]:
    return split_stream([path], scopes=["f0"], piece=piece, **options)


# --------------------------------------------------------------------- events


@pytest.mark.parametrize("piece", [600, 5000])
def test_a_file_in_pieces_has_the_events_of_the_whole(tmp_path: Path, piece: int) -> None:
    path = write(tmp_path / "a.nq", write_lines(120))
    parts = split_file(path, piece)
    found = read_parts(parts)
    assert len(parts) > 4
    assert [(time, number, "", held) for time, number, _, held in found] == read_whole(path)
    assert all(name == f"<http://e/g{number}x>" for _, number, name, _ in found)


def test_a_byte_order_mark_and_other_line_ends_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.nq"
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(write_lines(60)).encode())
    parts = split_file(path)
    assert len(parts) > 2
    assert [event[1] for event in read_parts(parts)] == list(range(60))


def test_several_files_are_one_stream_whose_numbers_go_on(tmp_path: Path) -> None:
    plain, packed, last = tmp_path / "1.nq", tmp_path / "2.nq.gz", tmp_path / "3.nq"
    write(plain, write_lines(40))
    packed.write_bytes(gzip.compress("\n".join(write_lines(30)).encode()))
    write(last, write_lines(20))
    files = list_files(tmp_path)
    parts = split_stream(files, scopes=["a", "b", "c"], piece=2000)
    assert files == [str(plain), str(packed), str(last)]
    assert [event[1] for event in read_parts(parts)] == list(range(90))
    assert {part.time.property for part in parts} == {PROV[1:-1]}


def test_the_first_events_tell_how_times_are_meant(tmp_path: Path) -> None:
    dated = [
        f"<http://x/a> <http://x/p> <http://x/b> <http://e/2024-01-0{day}T00:00:00Z> ."
        for day in (1, 2)
    ]
    ahead = look_ahead(split_file(write(tmp_path / "dated.nq", dated))[0])
    assert not ahead.numeric_times
    assert ahead.span == 86_400 * 10**9
    ahead = look_ahead(split_file(write(tmp_path / "numbers.nq", write_lines(10)))[0])
    assert ahead.numeric_times
    assert ahead.time.property == PROV[1:-1]


# ---------------------------------------------------------- uncut files


@pytest.mark.parametrize(
    ("name", "odd"),
    [
        ("a.nq", r"<http://x/a> <http://x/p> <http://x/b> <http://e/\u0061> ."),
        ("a.nq", "<http://x/a> <http://x/p> <<( <http://x/a> <http://x/p> <http://x/b> )>> ."),
        ("a.nq", "this is no quad"),
        ("a.trig", ""),
    ],
)
def test_what_is_not_plain_is_one_part(tmp_path: Path, name: str, odd: str) -> None:
    path = write(tmp_path / name, [*write_lines(60), odd])
    assert [part.whole for part in split_file(path)] == [True]


def test_a_file_whose_mistakes_are_skipped_is_one_part(tmp_path: Path) -> None:
    path = write(tmp_path / "a.nq", [*write_lines(20), "nonsense", *write_lines(20, seed=2)[3:]])
    assert [part.whole for part in split_file(path, on_error="skip")] == [True]


# ------------------------------------------------------------------- mistakes


def test_a_mistake_in_a_piece_is_told_as_one_of_the_file(tmp_path: Path) -> None:
    text = write_lines(80)
    path = write(tmp_path / "a.nq", text)
    parts = split_file(path)
    text[-9] = text[-9].replace("<http://x/", "<http: //x/", 1)  # after it was looked through
    write(path, text)
    with pytest.raises(DataError) as whole:
        read_whole(path)
    with pytest.raises(DataError) as apart:
        read_parts(parts)
    assert str(apart.value) == str(whole.value)


def test_time_that_goes_back_at_a_cut_is_a_mistake(tmp_path: Path) -> None:
    quads = [
        f"<http://x/a> <http://x/p> <http://x/b> <http://e/n{number}/{time}> ."
        for number, time in enumerate([*range(100, 160), *range(50, 110)])
    ]
    path = write(tmp_path / "a.nq", quads)
    parts = split_file(path, path.stat().st_size // 2, time=TimeRule(pattern="/([0-9]+)$"))
    assert [part.own for part in parts] == [0, 60]
    with pytest.raises(DataError, match="time goes back"):
        read_parts(parts)


def test_a_file_that_changes_is_noticed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.nq", write_lines(80))
    parts = split_file(path)
    write(path, write_lines(90))
    with pytest.raises(DataError, match="changed while it was read"):
        read_parts(parts)
