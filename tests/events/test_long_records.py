"""Records that are too long, or never end, are bad rows: reading them takes bounded memory."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest

import cernis
from cernis.events.reading import text

QUERY = "SELECT * FROM S WHERE A ; B"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(file: str) -> tuple[int, list[tuple[int, str]]]:
    """Return how many matches there are, and the bad rows."""
    bad: list[tuple[int, str]] = []
    count = cernis.query(QUERY).run(file, on_error=lambda r: bad.append((r["row"], r["reason"])))
    return count.count(), bad


def failure(file: str) -> str:
    with pytest.raises(cernis.DataError) as raised:
        cernis.query(QUERY).run(file)
    return str(raised.value)


LONG = "the record is longer than 100 bytes (CERNIS_LONGEST_RECORD allows more)"


@pytest.mark.parametrize("block", [16, 64, 1 << 23])
@pytest.mark.parametrize("end", ["\n", ""])
def test_a_long_line_of_json_is_a_bad_row(
    block: int, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", block)
    monkeypatch.setenv("CERNIS_LONGEST_RECORD", "100")
    a, b, long = (json.dumps({"type": kind}) for kind in ("A", "B", "x" * 200))
    Path("s.jsonl").write_text("\n".join([a, long, b, "[", b, long]) + end)
    assert failure("s.jsonl") == f"s.jsonl, line 2 (row 1): {LONG}"
    count, bad = rows("s.jsonl")
    assert count == 2
    assert [row for row, _ in bad] == [1, 3, 5]
    assert bad[0][1] == bad[2][1] == LONG


def test_memory_for_a_long_line_is_bounded() -> None:
    with Path("s.jsonl").open("w") as file:
        file.write('{"type": "A"}\n')
        json.dump({"type": "A", "x": "y" * 100_000_000}, file)
        file.write('\n{"type": "B"}\n')
    tracemalloc.start()
    try:
        assert rows("s.jsonl")[0] == 1
        assert tracemalloc.get_traced_memory()[1] < 8 * text.LONGEST_RECORD
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("block", [16, 64, 1 << 23])
def test_a_quote_that_is_never_closed_is_a_bad_row(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", block)
    lines = ["type,x", 'A,"one', "", 'two, ""2"""', 'A,"open', "B,2", 'B,"no']
    Path("s.csv").write_text("\n".join(lines) + '"\n')
    # closed by the quote of the last line: one value, with line ends in it
    assert rows("s.csv") == (0, [])
    Path("s.csv").write_text("\n".join(lines[:-1]) + "\n")
    assert failure("s.csv") == (
        "s.csv, line 5 (row 1): a quote is not closed before the end of the file"
    )
    assert rows("s.csv") == (1, [(1, "a quote is not closed before the end of the file")])


@pytest.mark.parametrize("block", [16, 64, 1 << 23])
def test_or_one_that_is_closed_too_late(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", block)
    monkeypatch.setenv("CERNIS_LONGEST_RECORD", "100")
    Path("s.csv").write_text('type,x\nA,"open\n' + "B,2\n" * 100 + 'B,"\n3"\n')
    count, bad = rows("s.csv")
    assert bad[0][0] == 0
    if block < 100:
        assert (count, bad) == (0, [(0, "a quote is not closed within 100 bytes")])
    else:  # it was closed by the quote of another value
        assert "100 bytes" in bad[0][1]
    with pytest.raises(cernis.DataError, match=r"s\.csv, line 2 \(row 0\): "):
        cernis.query(QUERY).run("s.csv")


@pytest.mark.parametrize("block", [16, 64, 1 << 23])
def test_quotes_inside_of_plain_values_are_text(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", block)
    monkeypatch.setenv("CERNIS_LONGEST_RECORD", "60")
    rows_ = ['A,5" pipe', *["B,t"] * 50, 'A,"a b"', *["B,t"] * 50]
    Path("s.csv").write_text("type,x\n" + "\n".join(rows_) + "\n")
    assert rows("s.csv") == (150, [])


def test_a_long_row_of_csv_is_a_bad_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CERNIS_LONGEST_RECORD", "100")
    Path("s.csv").write_text(f'type,x\nA,1\nA,{"x" * 200}\nA,"{"x" * 200}\n"\nB,2\n')
    assert rows("s.csv") == (1, [(1, LONG), (2, LONG)])
    Path("s.csv").write_text("type,x" + "y" * 200 + "\nA,1\n")
    assert failure("s.csv") == f"s.csv: the header cannot be read: {LONG}"
    monkeypatch.setenv("CERNIS_LONGEST_RECORD", "much")
    assert failure("s.csv") == "CERNIS_LONGEST_RECORD=much: expected a number of bytes"


def test_a_file_of_thirty_thousand_columns_is_read() -> None:
    names = [f"c{i}" for i in range(30_000)]
    Path("s.csv").write_text(
        f"type,{','.join(names)}\nA{',1' * len(names)}\nB{',2' * len(names)}\n"
    )
    assert rows("s.csv") == (1, [])
    found = cernis.query("SELECT * FROM S WHERE A AS a").run("s.csv")
    assert len(found.head(1)[0].events("a")[0]) == 30_001
