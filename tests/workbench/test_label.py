"""Labels: samples, intervals, stable ids, and the next version of a rule."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import cernis
from cernis.cli.main import app, main
from cernis.errors import CernisError
from cernis.workbench.label import LabelFile, draw_sample, find_recall, measure
from cernis.workbench.precision import Share, Stratum, count_missing, estimate

PAIRS = "SELECT * FROM S WHERE (A AS a ; B AS b) PARTITION BY [k] WITHIN 4 EVENTS"
EVENTS = [{"type": "AB"[i % 2], "k": "xy"[i % 3 == 0], "x": i, "ts": i} for i in range(40)]
SIMULATED = min(int(os.environ.get("CERNIS_FUZZ_N", "400")), 2000)


@pytest.mark.parametrize("truth", [0.02, 0.5, 0.8, 0.97])
@pytest.mark.parametrize(("labels", "size"), [(30, 10**12), (100, 10**12), (60, 150)])
def test_the_interval_covers_the_truth_as_often_as_it_says(
    truth: float, labels: int, size: int
) -> None:
    rng = random.Random(f"{truth} {labels} {size}")
    real = round(truth * min(size, 10**6))
    covered = 0
    for _ in range(SIMULATED):
        if size > 10**6:
            found = sum(rng.random() < truth for _ in range(labels))
        else:
            found = sum(one < real for one in rng.sample(range(size), labels))
        share = estimate([Stratum(found, labels, size)])
        covered += share.low <= (truth if size > 10**6 else real / size) <= share.high
    assert covered / SIMULATED > 0.91


def test_strata_are_weighted_by_their_matches() -> None:
    share = estimate([Stratum(10, 10, 900), Stratum(0, 10, 100)])
    assert share.value == pytest.approx(0.9)
    assert share.low < 0.9 < share.high
    rng = random.Random(1)
    parts = [(0.9, 5000), (0.3, 1000)]
    truth = sum(p * n for p, n in parts) / 6000
    covered = 0
    for _ in range(SIMULATED):
        drawn = [Stratum(sum(rng.random() < p for _ in range(30)), 30, n) for p, n in parts]
        found = estimate(drawn)
        covered += found.low <= truth <= found.high
    assert covered / SIMULATED > 0.91


def test_all_matches_labelled_leave_no_doubt() -> None:
    assert estimate([Stratum(3, 4, 4)]) == Share(0.75, 0.75, 0.75, 4, 4)
    assert estimate([]).value is None


def test_the_number_of_missing_labels_gives_the_width() -> None:
    share = estimate([Stratum(8, 10, 10**9)])
    more = count_missing(share, 0.1)
    n = 10 + more
    wide = estimate([Stratum(round(0.8 * n), n, 10**9)])
    assert 0.095 < wide.width <= 0.101
    assert count_missing(wide, 0.2) == 0


def test_no_more_labels_are_asked_for_than_there_are_matches() -> None:
    share = estimate([Stratum(18, 30, 40)])
    assert 0 < count_missing(share, 0.01) <= 10


def label_all(path: Path, matches: Any, **options: Any) -> LabelFile:
    labels = LabelFile.open(path, matches)
    for one in draw_sample(matches, 30, known=labels.labels, **options):
        labels.add(one.id, "y" if one.match.end % 3 else "n", one.match, one.stratum)
    return labels


@pytest.mark.parametrize("by", [None, "key"])
def test_labels_measure_the_next_version(tmp_path: Path, by: Any) -> None:
    path = tmp_path / "labels.jsonl"
    old = cernis.query(PAIRS).run(EVENTS)
    label_all(path, old, by=by, seed=1)
    labels = LabelFile.open(path, old)
    assert len(labels.labels) == (30 if by is None else 28)  # one key has 13 matches
    measured = measure(old, labels, by)
    assert measured.missed == measured.dropped == 0
    kept = [one for one in labels.labels.values() if one["end"] % 3]
    if by is None:
        assert measured.precision.value == pytest.approx(len(kept) / len(labels.labels))
    assert measure(cernis.query(PAIRS).run(EVENTS), labels, by) == measured
    tighter = cernis.query(PAIRS.replace("(A AS a ; B AS b)", "(A AS a ; B AS b) FILTER b[x > 20]"))
    after = measure(tighter.run(EVENTS), LabelFile.open(path, tighter.run(EVENTS)))
    assert after.missed == sum(one["end"] <= 20 for one in kept)
    assert not list(draw_sample(old, 0, by=None, seed=1, known=labels.labels))


def test_labels_of_another_query_are_refused_with_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    matches = cernis.query(PAIRS).run(EVENTS)
    LabelFile.open(path, matches)
    other = cernis.query("SELECT * FROM S WHERE A AS c").run(EVENTS)
    with pytest.raises(CernisError) as raised:
        LabelFile.open(path, other)
    assert str(raised.value) == (
        f"{path}, line 1: these are labels of another query: its variables are a, b, "
        "those of this one c"
    )
    path.write_text(path.read_text() + '{"id": "x", "label": "yes"}\n')
    with pytest.raises(CernisError, match="line 2: a label has `id` and `label`"):
        LabelFile.open(path, matches)
    path.write_text("[\n")
    with pytest.raises(CernisError, match="line 1: no JSON"):
        LabelFile.open(path, matches)


def test_recall_is_the_share_of_incidents_in_which_a_match_ends() -> None:
    matches = cernis.query(PAIRS).run(EVENTS)
    ends = {(match.partition["k"], match.end) for match in matches}
    key, end = sorted(ends)[0]
    incidents = [
        {"k": key, "start": end - 1, "end": end},
        {"k": "nobody", "start": 0, "end": 40},
    ]
    recall, missed = find_recall(matches, incidents)
    assert (recall.value, missed) == (0.5, [1])


def test_the_command_asks_and_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [",".join(map(str, event.values())) for event in EVENTS]
    Path("S.csv").write_text("\n".join(["type,k,x,ts", *lines]) + "\n")
    call = ["label", PAIRS, "-e", "S.csv", "-o", "l.jsonl"]
    done = CliRunner().invoke(app, [*call, "--sample", "3", "--seed", "1"], input="y\nn\nq\n")
    assert done.exit_code == 0, done.output
    assert "match 1 of 3: rows " in done.output
    assert "precision 50.0% (between" in done.output
    assert "from 2 labels" in done.output
    assert len(Path("l.jsonl").read_text().splitlines()) == 3
    assert json.loads(Path("l.jsonl").read_text().splitlines()[1])["label"] == "y"
    Path("known.csv").write_text("start,end\n0,39\n")
    done = CliRunner().invoke(app, [*call, "--report", "--incidents", "known.csv"])
    assert "recall 100.0%" in done.output, done.output
    assert main(["label", "SELECT * FROM S WHERE A AS c", "-e", "S.csv", "-o", "l.jsonl"]) == 1


def test_an_answer_may_be_wrong_or_late_and_labelling_goes_on_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("S.csv").write_text("type,x,ts\n" + "".join(f"A,{i},{i}\n" for i in range(3)))
    call = ["label", "SELECT * FROM S WHERE A AS a", "-e", "S.csv", "-o", "l.jsonl", "--seed", "1"]
    done = CliRunner().invoke(app, call, input="maybe\nunsure\nquit\n")
    assert "Error: expected y, n, unsure or quit" in done.output
    assert "1 label unsure, left out" in done.output
    assert len(Path("l.jsonl").read_text().splitlines()) == 2
    done = CliRunner().invoke(app, call, input="y\n")  # the input ends
    assert (done.exit_code, "match 1 of 2: " in done.output) == (1, True)
    done = CliRunner().invoke(app, call, input="  \nNo\n")
    assert (done.exit_code, "match 1 of 1: " in done.output) == (0, True)
    done = CliRunner().invoke(app, call)
    assert done.output.startswith("all matches of the sample have a label\nprecision 50.0% (")
    Path("l.jsonl").write_text(Path("l.jsonl").read_text() + "\n\n")
    assert CliRunner().invoke(app, [*call, "--report"]).output.startswith("precision 50.0% (")


def test_without_matches_or_incidents_no_labels_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("S.csv").write_text("type,x,ts\nA,1,1\nA,2,2\n")
    query = "SELECT * FROM S WHERE A AS a FILTER a[x > 0]"
    call = ["label", query.replace("0", "9"), "-e", "S.csv", "-o", "l.jsonl"]
    assert CliRunner().invoke(app, call).output == "precision unknown: there are no matches\n"
    done = CliRunner().invoke(app, ["label", query, *call[2:], "--report"])
    assert done.output == (
        "precision unknown: there are no labels\nabout 2 more labels for a width of 10%\n"
    )
    done = CliRunner().invoke(app, [*call[:-1], "other.jsonl", "--report"])
    assert done.output == "error: other.jsonl: no such file; --report measures the labels of one\n"
    assert not Path("other.jsonl").exists()
    Path("known.csv").write_text("start,end\n")
    done = CliRunner().invoke(app, [*call, "--report", "--incidents", "known.csv"])
    assert done.output.endswith("recall unknown: known.csv has no incidents\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "start,end\n1,5\n1,x\n",
            "known.csv: row 1: end is 'x', no time as the events have (int64)",
        ),
        ("start,end\n5,1\n", "known.csv: row 0: the incident ends before it starts"),
        ("start,end\n1,5\n,7\n", "known.csv: row 1: start is missing"),
        ("when\n1\n", "known.csv: incidents need the columns `start` and `end`, or `ts`"),
    ],
)
def test_bad_incidents_are_refused_with_file_and_row(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "known.csv"
    path.write_text(text)
    with pytest.raises(CernisError) as raised:
        find_recall(cernis.query(PAIRS).run(EVENTS), path)
    assert str(raised.value) == f"{tmp_path}/{said}"


def test_a_match_is_shown_with_its_rows_where_a_rule_reads_few_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("S.csv").write_text("type,x,ts\nA,1,1\nA,2,2\nB,3,3\n")
    Path("r.ceql").write_text("RULE b AS SELECT * FROM S WHERE B AS b")
    done = CliRunner().invoke(app, ["label", "r.ceql", "-e", "S.csv", "-o", "l.jsonl"], input="y\n")
    assert "rows 2 to 2\n  2\nb ●\n" in done.output, done.output


LATE = PAIRS.replace(" PARTITION", " FILTER b[x > 20] PARTITION")
RULES = f"RULE pairs AS {PAIRS}; RULE late AS {LATE};"


def test_matches_of_rules_are_drawn_and_measured_by_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [",".join(map(str, event.values())) for event in EVENTS]
    Path("S.csv").write_text("\n".join(["type,k,x,ts", *lines]) + "\n")
    Path("all.ceql").write_text(RULES)
    call = ["label", "all.ceql", "-e", "S.csv", "-o", "l.jsonl"]
    asked = [*call, "--sample", "6", "--by", "rule", "--seed", "1"]
    done = CliRunner().invoke(app, asked, input="y\nn\nu\ny\nn\ny\n")
    assert done.exit_code == 0, done.output
    assert "match 2 of 6 of late: rows " in done.output
    head, *labels = map(json.loads, Path("l.jsonl").read_text().splitlines())
    assert head["variables"] == {"pairs": ["a", "b"], "late": ["a", "b"]}
    assert [one["id"].split("/")[0] for one in labels] == ["pairs", "late"] * 3
    assert [one["stratum"] for one in labels] == ["pairs", "late"] * 3
    done = CliRunner().invoke(app, [*call, "--report"])
    assert "rule pairs: 50.0% (between" in done.output, done.output
    assert "rule late: 66.7% (between" in done.output
    done = CliRunner().invoke(app, ["label", PAIRS, *call[2:], "--report"])
    assert done.output == "error: l.jsonl, line 1: these are labels of rules, and not of a query\n"
    results = cernis.rules(RULES).run(EVENTS)
    drawn = list(draw_sample(results, 50, by=None, seed=3, known=()))
    total = sum(matches.count() for matches in results.values())
    assert len({one.id for one in drawn}) == min(50, total)
    assert {one.rule for one in drawn} == {"pairs", "late"}
    with pytest.raises(CernisError, match="a sample by rule needs rules; this is one query"):
        list(draw_sample(results["late"], 3, by="rule", seed=1, known=()))
