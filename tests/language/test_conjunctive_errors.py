"""What a person is told about a conjunctive query that is wrong, word for word."""

from __future__ import annotations

import pytest

from cernis.errors import QueryError
from cernis.languages.conjunctive import parse

DECLARED = (
    "CREATE STREAM St { EVENT T { a:int }, EVENT S { a:int, b:int },"
    " EVENT N { a:string, w:timestamp } }\n"
)


def complaint(text: str) -> str:
    with pytest.raises(QueryError) as caught:
        parse(text)
    return str(caught.value)


def test_a_wrong_arity_is_told_with_the_declared_columns() -> None:
    assert (
        complaint(DECLARED + "Q(x) <- T(x, y)")
        == """\
line 2, column 9: T takes 1 argument, not 2
  Q(x) <- T(x, y)
          ^^^^^^^
  expected: T(a)"""
    )
    assert (
        complaint(DECLARED + "Q(x) <- S(x)")
        == """\
line 2, column 9: S takes 2 arguments, not 1
  Q(x) <- S(x)
          ^^^^
  expected: S(a, b)
  help: write _ for an argument that does not matter"""
    )


def test_an_unknown_relation_is_told_with_what_was_meant() -> None:
    assert (
        complaint(DECLARED + "Q(x) <- T(x), TT(x)")
        == """\
line 2, column 15: unknown relation 'TT'
  Q(x) <- T(x), TT(x)
                ^^
  expected: T, S or N
  help: did you mean 'T'?"""
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # heads
        (
            "Q(x, z) <- T(x)",
            """\
line 2, column 6: 'z' is in the head and not in the body
  Q(x, z) <- T(x)
       ^""",
        ),
        (
            "Q(x, x) <- T(x)",
            """\
line 2, column 6: 'x' stands twice in the head
  Q(x, x) <- T(x)
       ^""",
        ),
        (
            "Q(_) <- T(_)",
            """\
line 2, column 3: '_' has no value that the head could give
  Q(_) <- T(_)
    ^""",
        ),
        # bodies
        (
            "Q(x) <-",
            """\
line 2, column 1: the body is empty
  Q(x) <-
  ^^^^
  expected: an atom such as T(x)""",
        ),
        (
            "Q() <- 1 < 2",
            """\
line 2, column 1: the body has no atom
  Q() <- 1 < 2
  ^^^
  expected: an atom such as T(x)
line 2, column 8: a comparison needs a variable
  Q() <- 1 < 2
         ^^^^^""",
        ),
        (
            "Q(x) <- X>T(x)",
            """\
line 2, column 9: unknown stream 'X'
  Q(x) <- X>T(x)
          ^
  expected: St""",
        ),
        # arguments
        (
            "Q(x) <- S(a: x, bb: y)",
            """\
line 2, column 17: S has no attribute 'bb'
  Q(x) <- S(a: x, bb: y)
                  ^^
  expected: a or b
  help: did you mean 'b'?""",
        ),
        (
            "Q(x) <- S(x, a: y)",
            """\
line 2, column 17: attribute 'a' is given twice
  Q(x) <- S(x, a: y)
                  ^""",
        ),
        (
            "Q(x) <- S(a: x, y)",
            """\
line 2, column 17: an argument without a name stands after one with a name
  Q(x) <- S(a: x, y)
                  ^""",
        ),
        # kinds
        (
            "Q(x, y) <- S(y, x), N(x, _)",
            """\
line 2, column 23: type clash: x is a number in S(y, x), a string in N(x)
  Q(x, y) <- S(y, x), N(x, _)
                        ^""",
        ),
        (
            "Q() <- T('one')",
            """\
line 2, column 10: type clash: a is a number, 'one' is a string
  Q() <- T('one')
           ^^^^^""",
        ),
        (
            "Q(x) <- T(x), x < 'two'",
            """\
line 2, column 15: type clash: x is a number, 'two' is a string
  Q(x) <- T(x), x < 'two'
                ^^^^^^^^^""",
        ),
        # comparisons
        (
            "Q(price) <- T(price), prise < 3",
            """\
line 2, column 23: 'prise' is compared and not in any atom
  Q(price) <- T(price), prise < 3
                        ^^^^^
  help: did you mean 'price'?""",
        ),
        (
            "Q(x) <- T(x)@t, x < t",
            """\
line 2, column 17: 't' is a timestamp, 'x' is not
  Q(x) <- T(x)@t, x < t
                  ^^^^^
  help: timestamps are compared with timestamps alone""",
        ),
        (
            "Q(x) <- T(x)@t, t < 5",
            """\
line 2, column 17: 't' is a timestamp, and compared with timestamps alone
  Q(x) <- T(x)@t, t < 5
                  ^^^^^
  help: bound a difference: t - t0 < 5 SECONDS""",
        ),
        (
            "Q(x) <- T(x)@t, t - x < 5",
            """\
line 2, column 21: 'x' is not a timestamp
  Q(x) <- T(x)@t, t - x < 5
                      ^
  help: differences are taken of timestamps (@) alone""",
        ),
        (
            "Q(x) <- T(x)@t, S(x, _)@u, t - u < 'five'",
            """\
line 2, column 28: a difference of timestamps is compared with a number or a duration
  Q(x) <- T(x)@t, S(x, _)@u, t - u < 'five'
                             ^^^^^^^^^^^^^^""",
        ),
        (
            "Q(x) <- T(x), x < 5 SECONDS",
            """\
line 2, column 15: a duration is compared with a difference of timestamps
  Q(x) <- T(x), x < 5 SECONDS
                ^^^^^^^^^^^^^
  help: write t2 - t1 < 5 SECONDS""",
        ),
        (
            "Q(x) <- T(x)@x",
            """\
line 2, column 11: 'x' is a timestamp and an argument
  Q(x) <- T(x)@x
            ^
  help: use another name for one of them""",
        ),
        (
            "Q(x) <- S(x, y), x < y > 3",
            """\
line 2, column 18: a chain of comparisons must go one way
  Q(x) <- S(x, y), x < y > 3
                   ^^^^^^^^^
  help: write the comparisons one by one, with ',' between them""",
        ),
    ],
)
def test_what_is_wrong_with_names_and_kinds(text: str, message: str) -> None:
    assert complaint(DECLARED + text) == message


def test_arguments_by_position_need_a_declaration() -> None:
    assert (
        complaint("Q(x) <- T(x)")
        == """\
line 1, column 9: the arguments of T have no names
  Q(x) <- T(x)
          ^^^^
  help: name them: T(a: x), or declare the relation: CREATE STREAM S { EVENT T { a:int } }"""
    )


def test_a_relation_that_differs_between_streams_needs_the_stream() -> None:
    declared = "CREATE STREAM S { EVENT T { a:int } } CREATE STREAM U { EVENT T { b:int } }\n"
    assert (
        complaint(declared + "Q(x) <- T(x)")
        == """\
line 2, column 9: T differs between streams
  Q(x) <- T(x)
          ^^^^
  help: name the stream, or the arguments: T(a: x)"""
    )


def test_all_mistakes_are_told_together() -> None:
    told = complaint(DECLARED + "Q(x, z) <- T(x, y), TT(x), w < 3")
    assert [line.partition(": ")[2] for line in told.splitlines() if "column" in line] == [
        "'z' is in the head and not in the body",
        "T takes 1 argument, not 2",
        "unknown relation 'TT'",
        "'w' is compared and not in any atom",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "Q(x)",
            """\
line 1, column 5: the query ends too early
  Q(x)
      ^
  expected: '<-'""",
        ),
        (
            "",
            "line 1, column 1: the query ends too early\n  \n  ^\n  expected: a query such as Q(x)",
        ),
        (
            "Q(x) = T(a: x)",
            """\
line 1, column 6: unexpected '='
  Q(x) = T(a: x)
       ^
  expected: '<-'
  help: the head and the body are joined by '<-'""",
        ),
        (
            "Q(x) -> T(a: x)",
            """\
line 1, column 6: '->' is not part of the language
  Q(x) -> T(a: x)
       ^^
  help: the head comes first: Q(x) <- T(x)""",
        ),
        (
            "Q(x) <- T(a: x) && S(a: x)",
            """\
line 1, column 17: '&&' is not part of the language
  Q(x) <- T(a: x) && S(a: x)
                  ^^
  help: use ',' between atoms""",
        ),
        (
            "Q(x) <- T(a: x) S(a: x)",
            """\
line 1, column 17: unexpected 'S'
  Q(x) <- T(a: x) S(a: x)
                  ^
  expected: '@' and a timestamp, WITHIN, ',' or the end of the query
  help: put ',' between two atoms""",
        ),
        (
            "Q(x) <- T(a: x) and S(a: x)",
            """\
line 1, column 17: unexpected 'and'
  Q(x) <- T(a: x) and S(a: x)
                  ^^^
  expected: '@' and a timestamp, WITHIN, ',' or the end of the query
  help: use ',' between atoms""",
        ),
        (
            "Q(x) <- T(a: x), not S(a: x)",
            """\
line 1, column 22: unexpected 'S'
  Q(x) <- T(a: x), not S(a: x)
                       ^
  expected: a comparison such as = or <, '(' or '-'
  help: a conjunctive query has no negation""",
        ),
        (
            "Q(x) <- T(a: x, b: null)",
            """\
line 1, column 20: unexpected 'null'
  Q(x) <- T(a: x, b: null)
                     ^^^^
  expected: a variable or a constant
  help: a missing value equals nothing; write _ for an argument that does not matter""",
        ),
        (
            "Q(x) <- T(a: x",
            """\
line 1, column 10: '(' is never closed
  Q(x) <- T(a: x
           ^""",
        ),
        (
            "Q(x) <- T(a: x) WITHN 5 minuts",
            """\
line 1, column 17: unexpected 'WITHN'
  Q(x) <- T(a: x) WITHN 5 minuts
                  ^^^^^
  help: did you mean 'WITHIN'?
line 1, column 25: unexpected 'minuts'
  Q(x) <- T(a: x) WITHN 5 minuts
                          ^^^^^^
  help: did you mean 'MINUTES'?""",
        ),
    ],
)
def test_what_is_wrong_with_the_form(text: str, message: str) -> None:
    assert complaint(text) == message


def test_keywords_and_units_are_words_of_ascii_letters() -> None:
    parse(DECLARED + "Q(x) <- T(x) within 3 minutes")
    for clause in ("wıthın 3 MINUTES", "WITHIN 3 mınutes"):
        assert "unexpected" in complaint(DECLARED + f"Q(x) <- T(x) {clause}")
