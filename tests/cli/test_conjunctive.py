"""Conjunctive queries and the budget on the command line: output, messages, exit codes."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cernis.cli.main import main

SHOP = """\
type,user,item,price,ts
VIEW,ann,pen,3,1
CART,ann,pen,3,2
VIEW,bob,cup,8,3
PAY,ann,pen,3,5
CART,bob,cup,8,6
PAY,bob,cup,9,7
"""
DECLARED = """\
CREATE STREAM shop {
  EVENT VIEW { user:string, item:string, price:int },
  EVENT CART { user:string, item:string, price:int }
}
"""
FOUND = (
    '{"start":0,"end":1,"start_ts":1,"end_ts":2,"vars":{"0":[0],"1":[1]},"partition":{}}\n'
    '{"start":2,"end":4,"start_ts":3,"end_ts":6,"vars":{"0":[2],"1":[4]},"partition":{}}\n'
)

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop.csv").write_text(SHOP)
    (tmp_path / "seen.cq").write_text("seen(u, i) <- VIEW(u, i, _), CART(u, i, _)\n")
    (tmp_path / "declared.cq").write_text(DECLARED + "seen(u, i) <- VIEW(u, i, _), CART(u, i, _)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def run(query: str, *options: str) -> int:
    return main(["run", query, "--events", "shop.csv", "--output", "-", *options])


@pytest.mark.parametrize("file", ["seen.cq", "declared.cq"])
def test_a_file_with_the_suffix_cq_is_a_conjunctive_query(file: str, capfd: Capture) -> None:
    assert run(file) == 0
    assert capfd.readouterr() == (FOUND, "")


def test_a_conjunctive_query_may_be_given_as_text(capfd: Capture) -> None:
    text = "seen(u, i) <- VIEW(user: u, item: i), CART(user: u, item: i)"
    assert run(text, "--lang", "cq") == 0
    assert capfd.readouterr() == (FOUND, "")


def test_the_names_of_the_columns_may_be_had_from_the_events(capfd: Capture) -> None:
    assert run("seen(u, i) <- VIEW(u, i, _), CART(u, i, _)", "--lang", "cq", "--count") == 0
    assert capfd.readouterr() == ("2\n", "")


def test_a_query_is_checked_without_events(capfd: Capture) -> None:
    assert main(["check", "declared.cq"]) == 0
    assert capfd.readouterr() == ("OK\n", "")
    assert main(["check", "seen.cq"]) == 1
    assert capfd.readouterr().err.startswith(
        "error: seen.cq, line 1, column 15: the arguments of VIEW have no names\n"
    )


def test_a_plan_is_explained_with_the_names_of_the_query(capfd: Capture) -> None:
    assert main(["explain", "declared.cq"]) == 0
    said = capfd.readouterr().out
    assert "seen(u, i) <- VIEW(user: u, item: i), CART(user: u, item: i)\n" in said
    assert "├─ VIEW(u, i)\n" in said


MISTAKES = {
    "a wrong arity": (
        "Q(x) <- VIEW(x)",
        """\
error: line 1, column 9: VIEW takes 3 arguments, not 1
  Q(x) <- VIEW(x)
          ^^^^^^^
  expected: VIEW(user, item, price)
  help: write _ for an argument that does not matter
""",
    ),
    "an unsafe head": (
        "Q(u, z) <- VIEW(u, _, _)",
        """\
error: line 1, column 6: 'z' is in the head and not in the body
  Q(u, z) <- VIEW(u, _, _)
       ^
""",
    ),
    "unequal types in a join": (
        "Q(x) <- VIEW(x, _, _), CART(_, _, x)",
        """\
error: line 1, column 35: type clash: x is a string in VIEW(x), a number in CART(x)
  Q(x) <- VIEW(x, _, _), CART(_, _, x)
                                    ^
""",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_says_what_is_wrong_and_where(mistake: str, capfd: Capture) -> None:
    text, message = MISTAKES[mistake]
    assert run(text, "--lang", "cq") == 1
    assert capfd.readouterr() == ("", message)


def test_an_unknown_relation_is_told_with_those_that_are_declared(
    tmp_path: Path, capfd: Capture
) -> None:
    (tmp_path / "wrong.cq").write_text(DECLARED + "Q(u) <- VEIW(u, _, _)\n")
    assert run("wrong.cq") == 1
    assert capfd.readouterr() == (
        "",
        """\
error: wrong.cq, line 5, column 9: unknown relation 'VEIW'
  Q(u) <- VEIW(u, _, _)
          ^^^^
  expected: VIEW or CART
  help: did you mean 'VIEW'?
""",
    )


def test_partition_variables_must_cover_the_formula(capfd: Capture) -> None:
    text = "SELECT * FROM shop WHERE ((VIEW AS a ; CART AS b) PARTITION BY [a[user]])"
    assert run(text) == 1
    assert capfd.readouterr() == (
        "",
        """\
error: line 1, column 65: PARTITION BY does not cover 'CART'
  SELECT * FROM shop WHERE ((VIEW AS a ; CART AS b) PARTITION BY [a[user]])
                                                                  ^^^^^^^
  help: add CART[…]
""",
    )


def test_attributes_that_are_compared_must_be_of_one_type(capfd: Capture) -> None:
    text = "SELECT * FROM shop WHERE (VIEW AS a ; CART AS b) FILTER a[user] = b[price]"
    assert run(text) == 1
    assert capfd.readouterr() == (
        "",
        """\
error: line 1, column 57: type clash: a[user] is a string, b[price] is a number
  SELECT * FROM shop WHERE (VIEW AS a ; CART AS b) FILTER a[user] = b[price]
                                                          ^^^^^^^^^^^^^^^^^^
""",
    )


def test_a_query_that_is_not_hierarchical_runs_with_a_note(capfd: Capture) -> None:
    text = "Q(u, i) <- VIEW(u, _, _), CART(u, i, _), PAY(_, i, _)"
    assert run(text, "--lang", "cq", "--count") == 0
    assert capfd.readouterr() == (
        "2\n",
        (
            "note: not hierarchical: 'u' and 'i' meet in CART(u, i), but VIEW(u) has only 'u' and "
            "PAY(i) only 'i'; candidates are checked one by one\n"
        ),
    )


# -------------------------------------------------------------------- budget

FAR = "SELECT * FROM shop WHERE (VIEW AS a ; CART AS b ; PAY AS c) FILTER a[price] <= c[price] "
FAR += "AND b[price] < c[price] + 1000"


def test_a_budget_that_is_spent_ends_the_run(capfd: Capture) -> None:
    assert run(FAR, "--budget", "1") == 1
    assert capfd.readouterr() == (
        "",
        (
            "error: the query decides a[price] <= c[price] (b can stand between the events it "
            "compares; b[price] < c[price + 1000] compares c as well) on candidates and has more "
            "candidates to check than its budget of 1; narrow the window or the pattern, allow a "
            "larger budget, or ask for a partial answer\n"
        ),
    )


def test_a_partial_answer_is_noted(capfd: Capture) -> None:
    assert run(FAR, "--budget", "1", "--partial", "--count") == 0
    found, said = capfd.readouterr()
    assert int(found) < 2
    assert said == "note: partial: the budget of 1 candidates is spent; matches are missing\n"


def test_a_budget_that_is_enough_is_not_mentioned(capfd: Capture) -> None:
    assert run(FAR, "--budget", "100", "--partial", "--count") == 0
    assert capfd.readouterr() == ("4\n", "")


def test_a_budget_is_a_number(capfd: Capture) -> None:
    assert run(FAR, "--budget", "-1") == 2
    assert "--budget" in capfd.readouterr().err


# ------------------------------------------------------------------ answers

WHO = "who(u) <- VIEW(user: u, item: i)@t1, PAY(user: u, item: i)@t2, t1 < t2"
ANSWERS = '{"end":3,"end_ts":5,"values":{"u":"ann"}}\n{"end":5,"end_ts":7,"values":{"u":"bob"}}\n'


def test_a_head_that_drops_variables_is_written_as_its_values(capfd: Capture) -> None:
    assert run(WHO, "--lang", "cq") == 0
    assert capfd.readouterr() == (ANSWERS, "")


def test_answers_are_counted_and_limited(capfd: Capture) -> None:
    assert run(WHO, "--lang", "cq", "--count") == 0
    assert run(WHO, "--lang", "cq", "--limit", "1") == 0
    assert capfd.readouterr() == ("2\n" + ANSWERS.splitlines(keepends=True)[0], "")


def test_answers_are_shown_as_a_table(capfd: Capture) -> None:
    assert main(["run", WHO, "--lang", "cq", "--events", "shop.csv", "--limit", "1"]) == 0
    shown = [line.split() for line in capfd.readouterr().out.splitlines()]
    assert shown == [["u", "end", "end_ts"], ["ann", "3", "5"], ["2", "answers;", "1", "more"]]


@pytest.mark.parametrize(("name", "rows"), [("PAY", 2), ("NOTHING", 0)])
def test_answers_are_written_to_a_parquet_file(name: str, rows: int, capfd: Capture) -> None:
    options = ["--lang", "cq", "--events", "shop.csv", "--output", "who.parquet"]
    assert main(["run", WHO.replace("PAY", name), *options]) == 0
    assert f"wrote {rows} answers to who.parquet\n" in capfd.readouterr().err
    table = pq.read_table("who.parquet")
    assert table.column_names == ["u", "end", "end_ts"]
    assert table.num_rows == rows
