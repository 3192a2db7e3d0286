"""Functions in the text of a query: how they are read, printed, checked and completed."""

from __future__ import annotations

import pytest

import cernis
import cernis.pattern as p
from cernis.languages.ceql import parse
from cernis.languages.ceql.parse import parse_schema
from cernis.languages.highlight import CeqlLexer
from cernis.pattern.check import resolve
from cernis.pattern.functions import FUNCTIONS
from cernis.serve.complete import complete


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("* WHERE A FILTER A[lower(u) = 'x']", "* WHERE A FILTER A[LOWER(u) = 'x']"),
        ("* WHERE A FILTER LOWER(A[u]) = 'x'", "* WHERE A FILTER A[LOWER(u) = 'x']"),
        ("* WHERE A FILTER STARTS_WITH(A[u], 'x')", "* WHERE A FILTER A[STARTS_WITH(u, 'x')]"),
        ("* WHERE A FILTER NOT A[u = 1]", "* WHERE A FILTER NOT A[u = 1]"),
        (
            "* WHERE A ; B FILTER NOT (A[u = 1] OR NOT A[v] < B[v])",
            "* WHERE (A ; B) FILTER NOT A[u = 1] AND A[v] < B[v]",
        ),
        ("* WHERE A FILTER A[u MATCHES 'x.*']", "* WHERE A FILTER A[u LIKE 'x.*']"),
        (
            "* WHERE A FILTER A[IF(u > 1, 2, 3) = CAST(v AS int)]",
            "* WHERE A FILTER A[CASE WHEN u > 1 THEN 2 ELSE 3 END = CAST(v AS INT)]",
        ),
        ("SUM(x[a] * x[b]) AS s WHERE A+ AS x", "SUM(x[a * b]) AS s WHERE A+ AS x"),
        ("HOUR(END) AS h WHERE A", "HOUR(END) AS h WHERE A"),
        ("CONTAINS(x[a], 'b') AS c WHERE A AS x", "CONTAINS(x[a], 'b') AS c WHERE A AS x"),
        (
            "* WHERE A PARTITION BY [LOWER(t.user), DAY(`order day`)]",
            "* WHERE A PARTITION BY [LOWER(t.user), DAY(`order day`)]",
        ),
        ("abs, day WHERE A AS abs ; B AS day", "abs, `day` WHERE A AS abs ; B AS `day`"),
        ("* WHERE A AS case ; B AS when", "* WHERE A AS case ; B AS when"),
        ("* WHERE A FILTER A[matches = 'x' AND hour > 1]", None),
        ("* WHERE A AS x FILTER PREV(x)[ABS(a)] < x[a]", None),
        (
            "IF(x[a] > y[b] AND NOT x[s = 'a'], x[a], 2) AS s WHERE A AS x ; B AS y",
            (
                "CASE WHEN x[a] > y[b] AND NOT x[s = 'a'] THEN x[a] ELSE 2 END AS s "
                "WHERE A AS x ; B AS y"
            ),
        ),
        ("* WHERE A FILTER ANY(A[l], e -> e = u)", "* WHERE A FILTER A[ANY(l, e -> e = u)]"),
        ("* WHERE A FILTER A[CONTAINS(u, 'a') = ENDS_WITH(v, 'b')]", None),
        ("* WHERE A FILTER A[COALESCE(CONTAINS(u, 'a'), FALSE) = b]", None),
        ("* WHERE A PARTITION BY [(v % 10)], [CASE WHEN v > 1 THEN 2 END]", None),
        ("ABS(x[a] - y[b]) AS d WHERE A AS x ; B AS y ORDER BY ROUND(x[a], 1) LIMIT 2", None),
    ],
)
def test_functions_are_read_and_written(text: str, written: str | None) -> None:
    pattern = parse(f"SELECT {text}")
    assert parse(str(pattern)) == pattern
    if written is not None:
        assert str(pattern) == f"SELECT {written}"


SCHEMA = parse_schema("CREATE STREAM S { EVENT A { n:int, u:string, t:timestamp, b:boolean } }")


@pytest.mark.parametrize(
    ("condition", "messages"),
    [
        ("A[LOWR(u) = 'x']", ["unknown function 'LOWR'", "did you mean 'LOWER'?"]),
        ("A[frobnicate(u) = 'x']", ["unknown function 'FROBNICATE'", "cernis.function(…)"]),
        ("A[LOWER(n) = 'x']", ["LOWER needs a string, n is a number"]),
        ("A[LOWER(u) = 3]", ["type clash: LOWER(u) is a string, 3 is a number"]),
        ("A[ABS(u, n) = 3]", ["ABS does not take 2 arguments", "ABS(number) → same"]),
        ("A[ROUND(n, n) = 3]", ["ROUND needs a constant, not n"]),
        ("A[CAST(u AS NUMBR) = 3]", ["unknown type 'NUMBR'"]),
        ("A[HOUR(t, 'Mars/Olympus') = 3]", ["unknown time zone 'Mars/Olympus'"]),
        ("A[HOUR('yesterday') = 3]", ["'yesterday' is not a time"]),
        ("A[DATE_TRUNC('FORTNIGHT', t) = t]", ["unknown unit 'FORTNIGHT'"]),
        ("A[CIDR_MATCH(u, '10.0.0/99')]", ["'10.0.0/99' is no network"]),
        ("A[REGEXP_EXTRACT(u, '(a') = 'x']", ["bad regular expression: missing ): (a"]),
        ("A[REGEXP_EXTRACT(u, 'a') = 'x']", ["has no group 1", "expected: group 0"]),
        (
            "A[REGEXP_EXTRACT(u, '(a)', 2) = 'x']",
            ["has no group 2", "from 0, the whole match, to 1"],
        ),
        ("A[COALESCE(n, u) = 3]", ["type clash: n is a number, u is a string"]),
        ("A[CASE WHEN n > 1 THEN 'a' ELSE 2 END = 'a']", ["type clash: 'a' is a string"]),
        ("LOWER(A[x]) = 'a'", ["unknown attribute 'x'"]),
        ("A[ANY(n, e -> e = 1)]", ["ANY needs a list, n is a number"]),
        ("IF(A[n] > COUNT(A), 'a', 2) = 2", ["type clash: 'a' is a string, 2 is a number"]),
        ("ABS(A[n] - MAX(A[u])) > 3", ["does not take '-' here"]),
    ],
)
def test_a_mistake_is_told_with_its_place(condition: str, messages: list[str]) -> None:
    with pytest.raises(cernis.QueryError) as caught:
        cernis.query(f"SELECT * FROM S WHERE A FILTER {condition}", schema=SCHEMA)
    for message in messages:
        assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SUM(x[a] * y[b]) AS s WHERE A AS x ; B AS y", "SUM goes over the events of one variable"),
        (
            "IF(PREV(x)[a] > y[a], x[a], y[b]) AS s WHERE A AS x ; B AS y",
            "PREV, INCREASING and its relatives do not stand in IF and CASE",
        ),
        ("MEDIAN(x[a]) AS m WHERE A AS x", "the functions of several events are COUNT"),
        ("* WHERE A AS x FILTER x[LAG(price) > 3]", "PREV(x)[price] is the event before"),
    ],
)
def test_what_has_no_meaning_is_refused(text: str, message: str) -> None:
    with pytest.raises(cernis.QueryError) as caught:
        parse(f"SELECT {text}")
    assert message in str(caught.value)


def test_nesting_of_functions_is_bounded() -> None:
    deep = "ABS(" * 150 + "a" + ")" * 150
    with pytest.raises(cernis.QueryError, match="nested more than"):
        resolve(parse(f"SELECT * WHERE A FILTER A[{deep} > 1]"), None)


def test_the_playground_completes_functions() -> None:
    options = complete("ceql", "SELECT * WHERE A FILTER A[SUBS", 1, 31, None)["options"]
    assert {
        "label": "SUBSTRING",
        "kind": "function",
        "detail": FUNCTIONS["SUBSTRING"].signature,
    } in (options)


def test_functions_are_coloured_where_they_are_called() -> None:
    tokens = CeqlLexer().get_tokens("SELECT LOWER(a[u]) FROM S WHERE LOWER AS a")
    kinds = [str(kind) for kind, value in tokens if value == "LOWER"]
    assert kinds == ["Token.Name.Function", "Token.Name"]


def test_the_builder_makes_the_same_patterns_as_the_text() -> None:
    x, y = p.var("x"), p.var("y")
    lower = p.call("lower", x["u"]) == p.call("LOWER", y["u"])
    near = p.call("ABS", x["v"] - y["v"]) <= 5
    inside = x[p.call("STARTS_WITH", p.attr("u"), "a") & (p.call("LENGTH", p.attr("u")) > 2)]
    body = p.seq(p.event("A").as_("x"), p.event("B").as_("y"))
    built = body.filter(
        lower & near & inside & ~(x["v"] < y["v"]) & p.call("CONTAINS", x["u"], "b")
    )
    text = (
        "SELECT * WHERE A AS x ; B AS y FILTER LOWER(x[u]) = LOWER(y[u]) AND ABS(x[v] - y[v]) <= 5 "
        "AND x[STARTS_WITH(u, 'a') AND LENGTH(u) > 2] AND NOT x[v] < y[v] AND CONTAINS(x[u], 'b')"
    )
    assert p.select().where(built).build() == parse(text)
    with pytest.raises(cernis.QueryError, match="unknown function 'lowr'"):
        p.call("lowr", x["u"])


def test_the_builder_chooses_and_looks_into_lists() -> None:
    x, y = p.var("x"), p.var("y")
    body = p.seq(p.event("A").as_("x"), p.event("B").as_("y"))
    one = x[p.if_(p.attr("u") == "a", 1, 2) < 2]
    listed = y[p.any_element(p.attr("l"), "e", p.attr("e") == "b")]
    built = body.filter(one & listed & (p.if_(x["v"] > y["v"], x["v"], 3) > 2))
    text = (
        "SELECT * WHERE A AS x ; B AS y FILTER x[IF(u = 'a', 1, 2) < 2] AND ANY(y[l], e -> e = 'b')"
        " AND IF(x[v] > y[v], x[v], 3) > 2"
    )
    assert p.select().where(built).build() == parse(text)
    with pytest.raises(cernis.QueryError, match="do not stand in IF and CASE"):
        p.if_(p.prev("x")["v"] > y["v"], 1, 2)
