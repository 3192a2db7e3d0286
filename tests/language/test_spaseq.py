"""SPAseQ: what a text stands for."""

from __future__ import annotations

import pytest

from cernis.languages.spaseq import parse
from cernis.languages.spaseq.graphs import graph as g
from cernis.languages.spaseq.query import (
    Element,
    GpmConjunction,
    GpmDisjunction,
    GpmName,
    SelectedVariable,
    SpaseqQuery,
    find_gpm_names,
)

E = "http://example.org/"
X, Y, Z = (g.GraphVariable(name) for name in "xyz")


def iri(local: str) -> g.Term:
    return g.Term(f"<{E}{local}>")


def number(digits: str, kind: str = "integer") -> g.Term:
    return g.Term(f'"{digits}"^^<http://www.w3.org/2001/XMLSchema#{kind}>')


def triple(subject: g.Node, predicate: str, object_: g.Node) -> g.Triple:
    return g.Triple(subject, iri(predicate), object_)


def basic(*triples: g.Triple) -> g.BasicPattern:
    return g.BasicPattern(triples)


def query(steps: str = "A", clauses: str = "", **groups: str) -> SpaseqQuery:
    """A query with a graph pattern for each letter that is used."""
    names = dict.fromkeys(letter for letter in steps if letter.isalpha())
    define = "".join(
        f"DEFINE GPM {name} ON S {{ {groups.get(name, f'?x :{name} ?{name.lower()}')} }}\n"
        for name in names
    )
    return parse(
        f"PREFIX : <{E}> SELECT * FROM STREAM S <{E}s> {clauses} WHERE {{ SEQ ({steps}) {define} }}"
    )


def pattern(group: str) -> g.GraphPattern:
    return query(A=group).gpms[0].pattern


def condition(text: str) -> g.Expression:
    found = pattern(f"?x :p ?y, ?z FILTER ({text})")
    assert isinstance(found, g.FilterPattern)
    return found.condition


def objects(text: str) -> list[g.Node]:
    found = pattern(f"?x :p {text}")
    assert isinstance(found, g.BasicPattern)
    return [triple.object for triple in found.triples]


# -------------------------------------------------------------------- sequences


def shown(element: Element) -> str:
    if isinstance(element, GpmName):
        return element.gpm
    sign = "&" if isinstance(element, GpmConjunction) else "|"
    return f"({sign.join(map(shown, element.parts))})"


def steps(text: str) -> str:
    """Each step with the link before it, and the link between its rounds."""
    return " ".join(
        f"{step.link or ''}{shown(step.element)}"
        f"{'' if step.rounds is None else '+' + step.rounds}"
        f"{'?' * step.optional}{'!' * step.negated}"
        for step in query(text).steps
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A", "A"),
        ("A , B ; C : D", "A ,B ;C :D"),
        ("A:B", "A :B"),
        ("A:B:C", "A :B :C"),
        ("A: B", "A :B"),
        ("A :B", "A :B"),
        ("A:B+:C", "A :B+, :C"),
        ("A ; B? ; C! ; D", "A ;B? ;C! ;D"),
        ("A;B?:C", "A ;B? :C"),
        ("A # why\n ; B", "A ;B"),
        # the link between rounds
        ("A+", "A+;"),
        ("A+,", "A+,"),
        ("A+:", "A+:"),
        ("(A+)", "A+;"),
        ("A; B+", "A ;B+,"),
        ("A; B+; C", "A ;B+, ;C"),
        ("A ; B+;", "A ;B+;"),
        ("A ; B+: , C", "A ;B+: ,C"),
        ("A ; B+::C", "A ;B+: :C"),
        ("A ; B+;; C", "A ;B+; ;C"),
        ("(A ; B+:) , C", "A ;B+: ,C"),
        # parentheses
        ("(A ; B)", "A ;B"),
        ("A ; (B , C)", "A ;B ,C"),
        ("((A , B) : (C ; D))", "A ,B :C ;D"),
        ("A ; ((B)) ; (C+)", "A ;B ;C+,"),
        # one timestamp
        ("A & B", "(A&B)"),
        ("A | B & C", "(A|(B&C))"),
        ("(A | B) & C", "((A|B)&C)"),
        ("A & (B & C)", "(A&B&C)"),
        ("A ; (B & C)+ , D", "A ;(B&C)+, ,D"),
        ("A ; (B | C)! ; D", "A ;(B|C)! ;D"),
    ],
)
def test_a_sequence_is_flat_and_each_separator_stands_before_its_step(
    text: str, found: str
) -> None:
    assert steps(text) == found


def test_a_graph_pattern_may_be_named_like_a_keyword() -> None:
    found = parse(
        "SELECT * FROM STREAM from <http://e/s> FROM STREAM on <http://e/t> WHERE {"
        " SEQ (a:select:_ ; gpm)"
        " DEFINE GPM a ON from, on { } DEFINE GPM select ON on { } DEFINE GPM _ ON on { }"
        " DEFINE GPM gpm ON on { } }"
    )
    assert [leaf.gpm for step in found.steps for leaf in find_gpm_names(step.element)] == [
        "a", "select", "_", "gpm",
    ]  # fmt: skip
    assert found.gpms[0].streams == ("from", "on")


def test_a_graph_pattern_may_be_used_twice_or_not_at_all() -> None:
    assert steps("A ; A") == "A ;A"
    found = parse(
        "SELECT * FROM STREAM S <http://e/s> WHERE { SEQ (A)"
        " DEFINE GPM A ON S { ?x a ?y } DEFINE GPM B ON S { ?x a ?z FILTER (?y = ?z) } }"
    )
    assert [gpm.name for gpm in found.gpms] == ["A", "B"]


def test_elements_keep_their_precedence() -> None:
    element = query("A | B & C").steps[0].element
    assert element == GpmDisjunction((GpmName("A"), GpmConjunction((GpmName("B"), GpmName("C")))))


# ---------------------------------------------------------------------- clauses

BODY = "SEQ (A ; B+) DEFINE GPM A ON S { ?x a ?y } DEFINE GPM B ON S { ?x a ?z }"
FROM = "FROM STREAM S <http://e/s>"


@pytest.mark.parametrize(
    ("items", "found"),
    [
        ("*", None),
        ("?x $y", (SelectedVariable("x", "x"), SelectedVariable("y", "y"))),
        ("LIST(?z)", (SelectedVariable("z", "z", listed=True),)),
        (
            "?z (list(?z) as ?zs) (?x AS ?z2)",
            (
                SelectedVariable("z", "z"),
                SelectedVariable("z", "zs", listed=True),
                SelectedVariable("x", "z2"),
            ),
        ),
    ],
)
def test_variables_lists_and_new_names_are_selected(
    items: str, found: tuple[SelectedVariable, ...] | None
) -> None:
    assert parse(f"SELECT {items} {FROM} WHERE {{ {BODY} }}").select == found


def test_construct_has_a_template_with_blank_nodes_of_its_own() -> None:
    found = parse(
        f"PREFIX : <{E}> CONSTRUCT {{ ?x :saw [ :it ?z ] . _:b1 :p _:b0 }}"
        f" {FROM} WHERE {{ {BODY} }}"
    )
    nameless, b1, b0 = (g.GraphVariable(name) for name in ("_:.b2", "_:.b1", "_:.b0"))
    assert found.construct == (
        triple(X, "saw", nameless),
        triple(nameless, "it", Z),
        triple(b1, "p", b0),
    )
    assert found.select is None
    assert parse(f"CONSTRUCT {{}} {FROM} WHERE {{ {BODY} }}").construct == ()


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("30 MINUTES", 1_800_000_000_000),
        ("1 hour 30 minutes", 5_400_000_000_000),
        ("1 DAY", 86_400_000_000_000),
        ("0.5 SECONDS", 500_000_000),
        ("1e-1 SECONDS 1 MILLISECOND", 101_000_000),
        ("1.e1 MILLISECONDS", 10_000_000),
        ("0.0000015 MILLISECONDS", 1),
        ("0 SECONDS", 0),
    ],
)
def test_a_window_is_a_number_of_nanoseconds(text: str, nanoseconds: int) -> None:
    assert parse(f"SELECT * WITHIN {text} {FROM} WHERE {{ {BODY} }}").within == nanoseconds


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("", None),
        ("TUMBLING FROM 0", 0),
        ("tumbling from -5", -5),
        ('TUMBLING FROM "2015-01-01T00:00:00Z"', "2015-01-01T00:00:00Z"),
        ("TUMBLING FROM '2015-01-01T00:00:00.25+01:00'", "2015-01-01T00:00:00.25+01:00"),
        ('TUMBLING FROM "2015-01-01T00:00:00"^^xsd:dateTime', "2015-01-01T00:00:00"),
    ],
)
def test_windows_may_tumble_from_a_point_in_time(text: str, start: int | str | None) -> None:
    found = parse(f"SELECT * WITHIN 5 MINUTES {text} {FROM} WHERE {{ {BODY} }}")
    assert found.tumbling_from == start


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT * WITHIN 5 SECONDS {FROM} PARTITION BY (?x) WHERE {{ {BODY} }}",
        f"select * partition by (?x) {FROM} within 5 seconds where {{ {BODY} }}",
        f"SELECT * {FROM} WITHIN 5 SECONDS WHERE {{ {BODY} }} PARTITION BY (?x)",
        f"SELECT * {FROM} WITHIN 5 SECONDS SEQ (A ; B+) PARTITION BY (?x) WHERE {{ {BODY[13:]} }}",
        f"SELECT * {FROM} WITHIN 5 SECONDS PARTITION BY (?x) WHERE {{ {BODY[13:]} SEQ (A;B+) }}",
    ],
)
def test_clauses_come_in_any_order(text: str) -> None:
    plain = parse(f"SELECT * WITHIN 5 SECONDS {FROM} PARTITION BY (?x) WHERE {{ {BODY} }}")
    assert parse(text) == plain


def test_keys_may_have_commas_between_them() -> None:
    group = "?x a ?y"
    assert query(A=group, clauses="PARTITION BY (?x ?y)").partition == ("x", "y")
    assert query(A=group, clauses="PARTITION BY (?x, ?y)").partition == ("x", "y")


def test_streams_are_named_by_iris_and_prefixed_names() -> None:
    found = parse(
        "BASE <http://e/> PREFIX p: <p#> SELECT * FROM STREAM S <s> FROM STREAM T p:t "
        "WHERE { SEQ (A) DEFINE GPM A ON S, T { } }"
    )
    assert found.streams == (("S", "http://e/s"), ("T", "http://e/p#t"))
    assert found.gpm("A").streams == ("S", "T")


def test_a_later_base_and_a_later_prefix_hold_from_there_on() -> None:
    found = parse(
        "PREFIX p: <http://1/> BASE <http://e/a/> PREFIX q: <b#> BASE <c> PREFIX p: <d#>"
        " SELECT * FROM STREAM S p:s FROM STREAM T q:t WHERE { SEQ (A) DEFINE GPM A ON S { } }"
    )
    assert found.streams == (("S", "http://e/a/d#s"), ("T", "http://e/a/b#t"))


def test_the_function_iri_knows_the_base() -> None:
    found = parse(
        "BASE <http://e/a/> SELECT * FROM STREAM S <s> WHERE "
        "{ SEQ (A) DEFINE GPM A ON S { ?x a ?y BIND (IRI(?y) AS ?z) } }"
    )
    assert "IRI(?y, <http://e/a/>)" in str(found)
    assert str(parse(str(found))) == str(found)


# ------------------------------------------------------------------------ terms


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("5", '"5"^^<http://www.w3.org/2001/XMLSchema#integer>'),
        ("-05", '"-05"^^<http://www.w3.org/2001/XMLSchema#integer>'),
        ("+5", '"+5"^^<http://www.w3.org/2001/XMLSchema#integer>'),
        ("5.0", '"5.0"^^<http://www.w3.org/2001/XMLSchema#decimal>'),
        (".5", '".5"^^<http://www.w3.org/2001/XMLSchema#decimal>'),
        ("-5e0", '"-5e0"^^<http://www.w3.org/2001/XMLSchema#double>'),
        ("5.E+1", '"5.E+1"^^<http://www.w3.org/2001/XMLSchema#double>'),
        ("true", '"true"^^<http://www.w3.org/2001/XMLSchema#boolean>'),
        ("FALSE", '"false"^^<http://www.w3.org/2001/XMLSchema#boolean>'),
        ('"a"', '"a"'),
        ("'a'", '"a"'),
        ("''", '""'),
        ('""', '""'),
        ("'say \"a\"'", r'"say \"a\""'),
        (r"'it\'s\t\\'", r'"it' + "'" + r's\t\\"'),
        ('"""a\n"b" ""c"""', r'"a\n\"b\" \"\"c"'),
        ("'''a'b''c'''", '"a' + "'b''c" + '"'),
        (r'"\u0041\U0001F600\u0001"', '"A😀' + r'\u0001"'),
        ('"a"@en-GB', '"a"@en-gb'),
        ('"5"^^xsd:byte', '"5"^^<http://www.w3.org/2001/XMLSchema#byte>'),
        ('"a"^^<http://e/t>', '"a"^^<http://e/t>'),
        ('"a"^^xsd:string', '"a"'),
        ("<http://e/é#x>", "<http://e/é#x>"),
        (r"<http://e/\u00e9>", "<http://e/é>"),
        (":", f"<{E}>"),
        (":a.b", f"<{E}a.b>"),
        (":a:b", f"<{E}a:b>"),
        (":1", f"<{E}1>"),
        (r":a\-b\~c\'", f"<{E}a-b~c'>"),
        (":a%20b", f"<{E}a%20b>"),
        (":été-1", f"<{E}été-1>"),
        ("rdf:nil", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#nil>"),
        ("rdfs:label", "<http://www.w3.org/2000/01/rdf-schema#label>"),
    ],
)
def test_terms_are_in_the_form_of_n_triples(text: str, found: str) -> None:
    assert objects(text) == [g.Term(found)]
    assert objects(f"{text}.") == [g.Term(found)]


def test_variables_may_have_any_letters() -> None:
    assert objects("?é_1, $2") == [g.GraphVariable("é_1"), g.GraphVariable("2")]


def test_a_declared_prefix_hides_a_known_one() -> None:
    found = parse(
        "PREFIX xsd: <http://mine/> SELECT * FROM STREAM S xsd:s WHERE"
        " { SEQ (A) DEFINE GPM A ON S { } }"
    )
    assert found.streams == (("S", "http://mine/s"),)


# --------------------------------------------------------------- graph patterns


def test_triples_share_subjects_and_predicates() -> None:
    expected = basic(
        g.Triple(X, g.Term("<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"), iri("T")),
        triple(X, "p", Y),
        triple(X, "p", Z),
        triple(Y, "q", X),
    )
    assert pattern("?x a :T ; :p ?y , ?z ; . ?y :q ?x") == expected
    assert pattern("?x a :T . ?x :p ?y . ?x :p ?z . ?y :q ?x .") == expected
    assert pattern("?x a :T ;; :p ?y,?z. ?y:q ?x.") == expected


def test_a_blank_node_is_a_variable_of_its_graph_pattern() -> None:
    found = query("A ; B", A="_:b0 :p [] . [ :q ?x ; :r [ :s 3 ] ] :t _:b0", B="_:b0 :p []")
    b0, b1, b2, b3 = (g.GraphVariable(f"_:A.b{n}") for n in range(4))
    first, second = (gpm.pattern for gpm in found.gpms)
    assert isinstance(first, g.BasicPattern)
    assert set(first.triples) == {
        triple(b0, "p", b1),
        triple(b3, "q", X),
        triple(b3, "r", b2),
        triple(b2, "s", number("3")),
        triple(b3, "t", b0),
    }
    assert second == basic(triple(g.GraphVariable("_:B.b0"), "p", g.GraphVariable("_:B.b1")))
    assert g.GraphVariable("_:B.b0").hidden


def test_a_described_blank_node_may_stand_alone() -> None:
    b0 = g.GraphVariable("_:A.b0")
    assert pattern("[ :p ?x ; :q ?y ]") == basic(triple(b0, "p", X), triple(b0, "q", Y))
    assert pattern("[] :p ?x") == basic(triple(b0, "p", X))


P, Q, R = triple(X, "p", Y), triple(X, "q", Y), triple(X, "r", Z)
ABOVE, BELOW = (
    g.ComparisonExpression(">", Y, number("1")),
    g.ComparisonExpression("<", Y, number("9")),
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", basic()),
        ("{}", basic()),
        ("?x :p ?y", basic(P)),
        ("{ ?x :p ?y }", basic(P)),
        ("?x :p ?y . {}", basic(P)),
        ("?x :p ?y . { ?x :q ?y }", g.JoinPattern((basic(P), basic(Q)))),
        ("{ ?x :p ?y } ?x :q ?y", g.JoinPattern((basic(P), basic(Q)))),
        ("?x :p ?y . { { ?x :q ?y } { ?x :r ?z } }", g.JoinPattern((basic(P), basic(Q), basic(R)))),
        # filters apply to the whole group, and do not part triples
        ("?x :p ?y FILTER (?y > 1)", g.FilterPattern(basic(P), ABOVE)),
        ("FILTER (?y > 1) . ?x :p ?y", g.FilterPattern(basic(P), ABOVE)),
        ("?x :p ?y FILTER (?y > 1) ?x :q ?y", g.FilterPattern(basic(P, Q), ABOVE)),
        (
            "?x :p ?y FILTER (?y > 1) ?x :q ?y . FILTER (?y < 9) .",
            g.FilterPattern(basic(P, Q), g.AndExpression((ABOVE, BELOW))),
        ),
        ("{ ?x :p ?y FILTER (?y > 1) }", g.FilterPattern(basic(P), ABOVE)),
        (
            "{ ?x :p ?y FILTER (?y > 1) } FILTER (?y < 9)",
            g.FilterPattern(g.FilterPattern(basic(P), ABOVE), BELOW),
        ),
        # an OPTIONAL takes all that stands before it, and the filter of its own group
        ("?x :p ?y OPTIONAL { ?x :q ?y }", g.OptionalPattern(basic(P), basic(Q))),
        ("OPTIONAL { ?x :q ?y }", g.OptionalPattern(basic(), basic(Q))),
        ("?x :p ?y OPTIONAL {}", g.OptionalPattern(basic(P), basic())),
        (
            "?x :p ?y OPTIONAL { ?x :q ?y FILTER (?y > 1) }",
            g.OptionalPattern(basic(P), basic(Q), ABOVE),
        ),
        (
            "?x :p ?y OPTIONAL { { ?x :q ?y FILTER (?y > 1) } }",
            g.OptionalPattern(basic(P), g.FilterPattern(basic(Q), ABOVE)),
        ),
        (
            "?x :p ?y OPTIONAL { ?x :q ?y } . ?x :r ?z",
            g.JoinPattern((g.OptionalPattern(basic(P), basic(Q)), basic(R))),
        ),
        (
            "?x :p ?y OPTIONAL { ?x :q ?y } OPTIONAL { ?x :r ?z }",
            g.OptionalPattern(g.OptionalPattern(basic(P), basic(Q)), basic(R)),
        ),
        (
            "?x :p ?y OPTIONAL { ?x :q ?y } FILTER (?y > 1)",
            g.FilterPattern(g.OptionalPattern(basic(P), basic(Q)), ABOVE),
        ),
        # the others
        ("{ ?x :p ?y } UNION { ?x :q ?y }", g.UnionPattern((basic(P), basic(Q)))),
        (
            "{ ?x :p ?y } UNION {} UNION { ?x :q ?y FILTER (?y > 1) } ?x :r ?z",
            g.JoinPattern(
                (g.UnionPattern((basic(P), basic(), g.FilterPattern(basic(Q), ABOVE))), basic(R))
            ),
        ),
        ("GRAPH :kb { ?x :p ?y }", g.BackgroundPattern(iri("kb"), basic(P))),
        (
            "?x :p ?y . GRAPH ?z { ?x :q ?y FILTER (?y > 1) } .",
            g.JoinPattern((basic(P), g.BackgroundPattern(Z, g.FilterPattern(basic(Q), ABOVE)))),
        ),
        (
            "?x :p ?y GRAPH <http://example.org/kb> {} ?x :q ?y",
            g.JoinPattern((basic(P), g.BackgroundPattern(iri("kb"), basic()), basic(Q))),
        ),
    ],
)
def test_groups_become_the_algebra_of_sparql(text: str, found: g.GraphPattern) -> None:
    assert pattern(text) == found


# ------------------------------------------------------------------ expressions

A, B, C = (g.ComparisonExpression("=", variable, number("1")) for variable in (X, Y, Z))
ONE, TWO = number("1"), number("2")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("?x", X),
        ("?x = 1 || ?y = 1 && ?z = 1", g.OrExpression((A, g.AndExpression((B, C))))),
        ("(?x = 1 || ?y = 1) && ?z = 1", g.AndExpression((g.OrExpression((A, B)), C))),
        ("?x = 1 && (?y = 1 && ?z = 1)", g.AndExpression((A, B, C))),
        ("?x=1||(?y=1||?z=1)", g.OrExpression((A, B, C))),
        ("!?x = ?y", g.ComparisonExpression("=", g.NotExpression(X), Y)),
        ("!(?x = 1)", g.NotExpression(A)),
        ("!!?x", g.NotExpression(g.NotExpression(X))),
        ("?x != ?y", g.ComparisonExpression("!=", X, Y)),
        ("?x <= ?y", g.ComparisonExpression("<=", X, Y)),
        ("?x>=?y", g.ComparisonExpression(">=", X, Y)),
        ("?x < ?y", g.ComparisonExpression("<", X, Y)),
        ("?x IN (1, 2)", g.InExpression(X, (ONE, TWO))),
        ("?x not in (1)", g.InExpression(X, (ONE,), negated=True)),
        ("?x IN ()", g.InExpression(X, ())),
        (
            "?x + 1 * 2 - ?y",
            g.ArithmeticExpression(
                "-", g.ArithmeticExpression("+", X, g.ArithmeticExpression("*", ONE, TWO)), Y
            ),
        ),
        ("?x - 1 - 2", g.ArithmeticExpression("-", g.ArithmeticExpression("-", X, ONE), TWO)),
        ("?x/(1/2)", g.ArithmeticExpression("/", X, g.ArithmeticExpression("/", ONE, TWO))),
        (
            "?x*10 >= ?y",
            g.ComparisonExpression(">=", g.ArithmeticExpression("*", X, number("10")), Y),
        ),
        ("?x -1", g.ArithmeticExpression("-", X, ONE)),
        ("?x+1", g.ArithmeticExpression("+", X, ONE)),
        ("-1", number("-1")),
        ("+1.5", number("+1.5", "decimal")),
        ("- 1", g.NegativeExpression(ONE)),
        ("-(1)", g.NegativeExpression(ONE)),
        ("--1", g.NegativeExpression(number("-1"))),
        ("-?x * -1", g.ArithmeticExpression("*", g.NegativeExpression(X), number("-1"))),
        ("+?x", g.NegativeExpression(g.NegativeExpression(X))),
        ('-"1"^^xsd:integer', g.NegativeExpression(ONE)),
        ("?x = :a", g.ComparisonExpression("=", X, iri("a"))),
        ("?x=<http://example.org/a>", g.ComparisonExpression("=", X, iri("a"))),
        ("true", number("true", "boolean")),
        ("bound(?x)", g.CallExpression("BOUND", (X,))),
        ("isURI(?x)", g.CallExpression("ISIRI", (X,))),
        (
            'REGEX(STR(?x), "a", "i")',
            g.CallExpression(
                "REGEX", (g.CallExpression("STR", (X,)), g.Term('"a"'), g.Term('"i"'))
            ),
        ),
        (
            "hours(?x) < Minutes(?x)",
            g.ComparisonExpression(
                "<", g.CallExpression("HOURS", (X,)), g.CallExpression("MINUTES", (X,))
            ),
        ),
        (
            "xsd:double(?x)",
            g.CallExpression("<http://www.w3.org/2001/XMLSchema#double>", (X,)),
        ),
    ],
)
def test_expressions_have_the_precedence_of_sparql(text: str, found: g.Expression) -> None:
    assert condition(text) == found


def test_a_filter_may_be_a_call() -> None:
    called = g.CallExpression("BOUND", (Y,))
    assert pattern("?x :p ?y FILTER bound(?y)") == g.FilterPattern(basic(P), called)
    cast = g.CallExpression("<http://www.w3.org/2001/XMLSchema#boolean>", (Y,))
    assert pattern("?x :p ?y FILTER xsd:boolean(?y) .") == g.FilterPattern(basic(P), cast)


# ------------------------------------------------------------------------ scope


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("A ; B", {"B": "?x :p ?b FILTER (?b > ?a)"}),
        ("A? ; B", {"B": "?x :p ?b FILTER (!BOUND(?a) || ?b > ?a)"}),
        ("A+ ; B!, C", {"B": "?x :p ?b FILTER (?b > ?a)"}),
        ("A & B", {"A": "?x :p ?a FILTER (?b > ?a)", "B": "?x :p ?b FILTER (?b > ?a)"}),
        ("(A | B) & C", {"A": "?x :p ?a FILTER (?c > ?a)", "C": "?x :p ?c FILTER (?b > ?c)"}),
        ("(A | B) ; C", {"C": "?x :p ?c FILTER (?b > ?a)"}),
        ("A ; B ; A", {"B": "?x :p ?b FILTER (?b > ?a)"}),
        ("A", {"A": "?x :p ?a OPTIONAL { ?x :q ?y FILTER (?y > ?a) }"}),
        ("A", {"A": "{ ?x :p ?a } UNION { ?x :q ?y FILTER (?y > ?a) }"}),
        ("A", {"A": "GRAPH ?kb { ?x :p ?a } FILTER (?kb = ?a)"}),
    ],
)
def test_a_filter_sees_its_graph_pattern_its_companions_and_what_came_before(
    text: str, groups: dict[str, str]
) -> None:
    assert query(text, **groups).steps


# -------------------------------------------------------------------- the paper

HOUSES = """
PREFIX : <http://smartgrid.org/ns#>
SELECT ?house ?fr1 ?fr2 ?house2 ?city ?oname
WITHIN 30 MINUTES
FROM STREAM S1 <http://smartgrid.org/mainSource>
FROM STREAM S2 <http://smartgrid.org/weather>
FROM STREAM S3 <http://smartgrid.org/storageSource>
WHERE {
  SEQ (A; B+, C)
  DEFINE GPM A ON S1 {
    ?house :loc ?l . ?house :pow ?pw . ?pw :source "fuel" . ?pw :fare ?fr1 .
    FILTER(?fr1 > 20).
    GRAPH <http://smartgrid.org/db> {
      ?house :locatedIn ?city . ?house :nearBy ?house2 . ?house :ownerName ?oname } }
  DEFINE GPM B ON S2 { ?wther :loc ?l . ?wther :value ?vl . ?vl :windsp ?sp FILTER (?sp > 5) }
  DEFINE GPM C ON S3 {
    ?storage :loc ?l ; :pow ?pw2 . ?pw2 :source "solar" ; :fare ?fr2 . FILTER (?fr2 < ?fr1). }
}"""
CARDS = """
PREFIX pred: <http://example/>
SELECT ?card LIST(?amount2) ?name WITHIN 30 MINUTES
FROM STREAM S1 <http://creditCard.org/cards>
WHERE {
  SEQ (A, B+)
  DEFINE GPM A ON S1 { ?card pred:id ?id. ?card pred:amount ?amount1. FILTER (?amount1 > 0) }
  DEFINE GPM B ON S1 { ?card pred:id ?id. ?card pred:amount ?amount2.
    FILTER (?amount2 *10 >= ?amount1)
    GRAPH <http://creditcard.org/db> { ?id pred:cardHolder ?name. } }
}"""
TRAFFIC = """
PREFIX ssn: <http://purl.oclc.org/NET/ssnx/ssn#>
PREFIX sao: <http://purl.oclc.org/NET/sao/ssn#>
SELECT * WITHIN 30 MINUTES
FROM STREAM S1 <http://www.insight-centre.org/dataset/SampleEventService#AarhusTrafficData182955>
FROM STREAM S2 <http://www.insight-centre.org/dataset/SampleEventService#AarhusTrafficData195578>
WHERE {
  SEQ (A; (B&C))
  DEFINE GPM A ON S1 { ?t1 ssn:observedProperty ?p1. ?t1 sao:hasValue ?v1. FILTER (?v1 > 3) }
  DEFINE GPM B ON S2 { ?t2 ssn:observedProperty ?p1. ?t2 sao:hasValue ?v2. FILTER (?v2 > 3) }
  DEFINE GPM C ON S1 { ?t3 ssn:observedProperty ?p1. ?t3 sao:hasValue ?v3. FILTER (?v3 > 3) }
}"""
VESSELS = """
PREFIX pred: <http://example/>
SELECT ?vessel ?n ?cname WITHIN 30 MINUTES
FROM STREAM S1 <http://harbour.org/boats>
WHERE {
  SEQ (A, B+, C)
  DEFINE GPM A ON S1 { ?vessel pred:speed ?s1. ?vessel pred:location "harbour".
    ?vessel pred:direction ?dir1. FILTER (?s1 > 0) }
  DEFINE GPM B ON S1 { ?vessel pred:speed ?s2. ?vessel pred:location ?l. FILTER (?s2 > ?s1) }
  DEFINE GPM C ON S1 { ?vessel pred:speed 0. ?vessel pred:location "fishingarea".
    GRAPH <http://harbour.org/db> { ?vessel pred:name ?n. ?vessel pred:operatedBy ?company.
      ?company pred:name ?cname. } }
}"""


@pytest.mark.parametrize(
    ("text", "links"),
    [(HOUSES, ";,"), (CARDS, ","), (TRAFFIC, ";"), (VESSELS, ",,")],
    ids=["houses", "cards", "traffic", "vessels"],
)
def test_the_queries_of_the_paper_are_read_and_written(text: str, links: str) -> None:
    found = parse(text)
    assert "".join(step.link or "" for step in found.steps) == links
    assert found.within == 1_800_000_000_000
    assert parse(str(found)) == found


def test_the_text_is_kept() -> None:
    text = f"SELECT * {FROM} WHERE {{ {BODY} }}"
    found = parse(text)
    assert found.source == text
    first = found.steps[0].span
    assert first is not None
    assert text[slice(*first)] == "A"
