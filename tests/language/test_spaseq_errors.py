"""What a person is told about a SPAseQ query that is wrong, word for word."""

from __future__ import annotations

import pytest

from cernis.errors import QueryError
from cernis.languages.spaseq import parse


def text(
    seq: str = "A ; B",
    a: str = "?h :p ?v",
    b: str = "?h :q ?w",
    *,
    select: str = "*",
    clauses: str = "",
    more: str = "",
    after: str = "",
) -> str:
    return f"""\
PREFIX : <http://e/>
SELECT {select}
FROM STREAM S <http://e/s> {clauses}
WHERE {{
SEQ ({seq})
DEFINE GPM A ON S {{ {a} }}
DEFINE GPM B ON S {{ {b} }}
{more}
}} {after}"""


def complaint(query: str) -> str:
    with pytest.raises(QueryError) as caught:
        parse(query)
    return str(caught.value)


def told(query: str) -> list[str]:
    """The messages and the help, without the places."""
    lines = [line.strip() for line in complaint(query).splitlines()]
    return [
        line.partition(": ")[2]
        for line in lines
        if line.startswith(("line ", "expected: ", "help: "))
    ]


def test_a_mistake_has_its_place_and_what_to_do() -> None:
    assert (
        complaint(text("A, B, C,"))
        == """\
line 5, column 12: unknown graph pattern 'C'
  SEQ (A, B, C,)
             ^
  expected: A or B
line 5, column 13: nothing follows the last ','
  SEQ (A, B, C,)
              ^
  help: leave it out, or name the next graph pattern after it"""
    )


def test_all_mistakes_are_told_together() -> None:
    query = text(
        "A ; B! | A",
        "?h ex:p ?v FILTER (REGX(?v) && ?z > 3)",
        "5 :q 'a\\q'",
        select="?hh LIST(?v) ?v",
        clauses="WITHIN 1 SECOND WITHIN 2 SECONDS",
        more="DEFINE GPM A ON T { }",
    )
    with pytest.raises(QueryError) as caught:
        parse(query)
    assert [mistake.message for mistake in caught.value.diagnostics] == [
        "no step binds ?hh",
        "no step with '+' binds ?v, so that it has one value",
        "two things are called ?v",
        "a query has one WITHIN",
        "'|' joins patterns of one timestamp, and '!' stands inside it",
        "unknown prefix 'ex:'",
        "unknown function 'REGX'",
        "nothing binds ?z",
        "a subject is an IRI or a variable, not a literal",
        "'\\q' is not an escape",
        "graph pattern 'A' is defined twice",
        "unknown stream 'T'",
    ]


@pytest.mark.parametrize(
    ("seq", "message"),
    [
        ("A B", "put ',', ';' or ':' between two steps"),
        ("A ;; B", "one separator stands between two steps"),
        ("A ; B*", "use '+' for one or more, '?' for none or one"),
        ("A && B", "use '&'"),
        ("A or B", "use '|'"),
        ("A ; !B ; A", "'!' stands after the name: SEQ (A ; B! ; C)"),
        ("A ; B?A", "put ',', ';' or ':' between two steps"),
        ("A -> B", "use ',', ';' or ':' between the steps of a sequence"),
        ("A & (B ; A)", "'&' joins patterns of one timestamp, and this is a sequence"),
        ("A | B+", "'|' joins patterns of one timestamp, and '+' stands inside it"),
        ("A & B?", "put it on the whole: (A & B)?"),
        ("A | (B ; A)", "write a query for each sequence"),
        ("(A ; B)+", "'+' stands on patterns of one timestamp, not on a sequence"),
        ("A ; (B , A)?", "put it on the steps one by one"),
        ("A ; B+?", "a step has one of '+', '?' and '!'"),
        ("A ; B!", "a negated step needs a step after it"),
        ("B! ; A", "a negated step needs a step before it"),
        ("A? ; B?", "at least one step must be neither optional nor negated"),
        ("A ; B ;", "nothing follows the last ';'"),
        ("A ; b", "did you mean 'B'?"),
        ("", "the name of a graph pattern or '('"),
        ("A - B", "an operator such as '+' or '&', a separator such as ';' or ')'"),
    ],
)
def test_what_is_wrong_with_a_sequence(seq: str, message: str) -> None:
    assert message in told(text(seq))


AFTER_PATH = "a triple term with variables stands after a predicate, not after a path"
NO_REPEAT = "'*', '+' and '?' stand after an IRI or brackets: :p* or (:p/:q)+"


ALONE = "sees its own graph pattern alone"
OUTERMOST = "compare with other steps in a FILTER of the outermost group"


@pytest.mark.parametrize(
    ("group", "message"),
    [
        # triples
        ("?h ?p+ ?v", NO_REPEAT),
        ("?h * ?v", NO_REPEAT),
        ("?h :p/:q <<( ?v :p ?w )>>", AFTER_PATH),
        ("?h :p <<( ?v :p/:q ?w )>>", "a triple term has no property paths"),
        ("?h :p ?v FILTER (?v = <<( _:b :p ?v )>>)", "an expression has no blank nodes"),
        ("?h :p ?v VALUES ?w { <<( ?v :p 5 )>> }", "VALUES has terms, and no variables in them"),
        ("?h :p?* ?v", NO_REPEAT),
        ("?h :p ?v ?h :q ?w", "put '.' between two triple patterns"),
        ("?h p ?v", "a name has a prefix, and a variable begins with '?': :p or ?p"),
        ("?h A ?v", "the keyword is a small 'a'"),
        ("?h [] ?v", "a predicate is an IRI or a variable"),
        ("?h _:b ?v", "a predicate is no blank node"),
        ("?h 'x' ?v", "a predicate is an IRI or a variable, not a literal"),
        ("5 :p ?v", "a subject is an IRI or a variable, not a literal"),
        ("?h :p", "an object such as ?x"),
        ("?h", "a predicate such as :p"),
        ("?h :p ?v . .", "a triple pattern such as ?x :p ?y, an element such as FILTER or '}'"),
        # terms
        ("?h ex:p ?v", "declare it before SELECT: PREFIX ex: <http://…>"),
        ("?h xds:p ?v", "did you mean 'xsd'?"),
        ("?h :p <x>", "a relative IRI needs a BASE"),
        ("?h :p <http://a b>", "an IRI holds no spaces, quotes, braces, '|', '^', '`' or '\\'"),
        ("?h :p <http://a/%zz>", "an IRI holds no '%'"),
        (r"?h :p <http://a/\u0020>", "an IRI holds no ' '"),
        ("?h :p 'abc", "the quote ' is never closed"),
        ('?h :p """abc"', 'the quote """ is never closed'),
        (r"?h :p 'a\qc'", r"'\q' is not an escape"),
        (r"?h :p '\ud800'", r"'\ud800' is not a character"),
        (r"?h :p '\U00110000'", r"'\U00110000' is not a character"),
        ("?h :p “a”", 'use straight quotes: "'),
        # groups
        ("?h :p ?v OPTINAL { ?h :q ?x }", "did you mean 'OPTIONAL'?"),
        ("?h :p ?v BIND (3 AS ?v)", "?v is bound before: BIND names a new variable"),
        ("?h :p ?v BIND (?x AS ?y)", "nothing binds ?x"),
        ("?h :p ?v BIND (?w AS ?y)", f"A does not bind ?w, and BIND {ALONE}"),
        ("?h :p ?v MINUS { ?h :q ?w }", f"A does not bind ?w, and MINUS {ALONE}"),
        ("?h :p ?v FILTER EXISTS { ?h :q ?w }", "only B binds ?w, and SEQ does not use it"),
        ("{ ?h :p ?v FILTER EXISTS { ?h :q ?w } }", OUTERMOST),
        (
            "?h :p ?v FILTER EXISTS { ?h :q ?x FILTER (?x < ?w) }",
            "only B binds ?w, and SEQ does not use it",
        ),
        (
            "?h :p ?v FILTER EXISTS { ?h :q ?x FILTER EXISTS { ?h :r ?y FILTER (?y < ?w) } }",
            f"A does not bind ?w, and EXISTS {ALONE}",
        ),
        (
            "?h :p ?v FILTER EXISTS { ?h :q ?x FILTER (?x < ?w || EXISTS { ?h :r ?x }) }",
            "EXISTS beside ?w of another step, inside of EXISTS",
        ),
        ("VALUES (?h ?v) { (:a) }", "VALUES has 2 variables, and a row of 1"),
        ("VALUES (?h ?h) { (:a :b) }", "VALUES names a variable twice"),
        ("VALUES ?h { ?v }", "a value such as :a or 5 or '}'"),
        ("GRAPH { }", "an IRI or a variable"),
        # expressions
        ("?h :p ?v FILTER ?v > 3", "put the condition in brackets: FILTER (?x > 5)"),
        ("?h :p ?v FILTER (?v > 3 AND ?v < 9)", "use '&&'"),
        ("?h :p ?v FILTER (?v > 3 | ?v < 1)", "use '||'"),
        ("?h :p ?v FILTER (NOT ?v)", "use '!', or NOT EXISTS { … }"),
        ("?h :p ?v FILTER CONCAT()", "CONCAT takes 1 or more arguments, not 0"),
        ("?h :p ?v FILTER (?v <> 3)", "use '!='"),
        ("?h :p ?v FILTER (?v == 3)", "use '='"),
        ("?h :p ?v FILTER (?v ≥ 3)", "use '>='"),
        ("?h :p ?v FILTER (1 < ?v < 3)", "join comparisons with '&&'"),
        ("?h :p ?v FILTER (?v<?h&&?h>?v)", "put a space after '<', or this is an IRI"),
        ("?h :p ?v FILTER ()", "an expression such as ?x > 5"),
        ("?h :p ?v FILTER REGX(?v, 'a')", "did you mean 'REGEX'?"),
        ("?h :p ?v FILTER (COUNT(?v) > 1)", "COUNT stands in SELECT: (COUNT(?x) AS ?y)"),
        ("?h :p ?v FILTER REGEX(?v)", "REGEX takes 2 or 3 arguments, not 1"),
        ("?h :p ?v FILTER BOUND()", "BOUND takes 1 argument, not 0"),
        ("?h :p ?v FILTER BOUND(3)", "BOUND asks for a variable"),
        ("?h :p ?v FILTER xsd:integr(?v)", "did you mean 'xsd:integer'?"),
        ("?h :p ?v FILTER xsd:double(?v, 3)", "xsd:double takes 1 argument, not 2"),
        ("?h :p ?v FILTER :f(?v)", "unknown function :f"),
    ],
)
def test_what_is_wrong_with_a_graph_pattern(group: str, message: str) -> None:
    assert message in told(text("A", group))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (text("A", "?h :p ?v FILTER (?vv > 3)"), "nothing binds ?vv"),
        (text("A", "?h :p ?v FILTER (?vv > 3)"), "did you mean '?v'?"),
        (text("A", "?h :p ?v FILTER BOUND(?vv)"), "nothing binds ?vv"),
        (text("A", "?h :p ?v FILTER (?w > 3)"), "only B binds ?w, and SEQ does not use it"),
        (text("A ; B", "?h :p ?v FILTER (?w > 3)"), "B binds ?w, and comes after A"),
        (text("A ; B", "?h :p ?v FILTER (?w > 3)"), "put the FILTER into B"),
        (
            text("A | B", "?h :p ?v FILTER (?w > 3)"),
            "only B binds ?w, and A is in another branch of '|'",
        ),
        (
            text("(A | B) & C", "?h :p ?v FILTER (?w > 3)", more="DEFINE GPM C ON S { }"),
            "only B binds ?w, and A is in another branch of '|'",
        ),
        (
            text("C ; B! ; A", "?h :p ?v FILTER (?w > 3)", more="DEFINE GPM C ON S { }"),
            "only B binds ?w, and is negated: it has no event",
        ),
        (text("B ; A ; B", b="?h :q ?w FILTER (?w > ?v)"), "A binds ?v, and comes after B"),
        (
            text("A ; B", b="?h :q ?w OPTIONAL { ?h :r ?x FILTER (?x > ?v) }"),
            "B does not bind ?v, and a FILTER inside braces sees its own group alone",
        ),
        (
            text("A ; B", b="{ ?h :q ?w FILTER (?w > ?v) }"),
            "put the FILTER outside of the inner braces of B",
        ),
        (text("A", b="?h :q ?w FILTER (?zz > 3)"), "nothing binds ?zz"),
        (text("A", b="GRAPH :kb { ?h :q ?w FILTER (?zz > 3) }"), "nothing binds ?zz"),
        # what is selected
        (text(select="?hh"), "no step binds ?hh"),
        (text(select="?hh"), "?h, ?v or ?w"),
        (text("A", select="?w"), "only B binds ?w, and SEQ does not use it"),
        (text("A ; B! ; A", select="?w"), "only B binds ?w, and is negated: it has no event"),
        (text("A ; B+", select="LIST(?v)"), "no step with '+' binds ?v, so that it has one value"),
        (text("A+", select="?v LIST(?v)"), "two things are called ?v"),
        (text("A+", select="?v LIST(?v)"), "give one of them another name: (LIST(?v) AS ?v2)"),
        (text("A", select="?h (?v AS ?h)"), "two things are called ?h"),
        (
            text("A").replace("SELECT *", "CONSTRUCT { _:b :saw ?hh }"),
            "no step binds ?hh",
        ),
        # keys
        (text(clauses="PARTITION BY (?v)"), "B does not bind ?v for certain"),
        (text("B & B", clauses="PARTITION BY (?v)"), "B does not bind ?v for certain"),
        (text("A ; B! ; A", clauses="PARTITION BY (?v)"), "B does not bind ?v for certain"),
        (
            text("A ; B", "OPTIONAL { ?h :p ?v }", clauses="PARTITION BY (?v)"),
            "A and B do not bind ?v for certain",
        ),
        (text(clauses="PARTITION BY (?hh)"), "no step binds ?hh"),
        (text(clauses="PARTITION BY (?h ?h)"), "?h stands twice in PARTITION BY"),
        (
            text(clauses="PARTITION BY (?h)", after="PARTITION BY (?h)"),
            "a query has one PARTITION BY",
        ),
    ],
)
def test_what_is_wrong_with_variables(query: str, message: str) -> None:
    assert message in told(query)


def test_where_a_graph_pattern_is_unknown_no_more_is_said_of_what_it_may_bind() -> None:
    query = text("A ; BB", b="?h :q ?w FILTER (?w > ?v)", select="?w", clauses="PARTITION BY (?w)")
    assert told(query) == ["unknown graph pattern 'BB'", "A or B", "did you mean 'B'?"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "BASE, CONSTRUCT, PREFIX or SELECT"),
        ("SELECT", "'*' or a variable such as ?x"),
        ("SELECT *", "FROM STREAM, PARTITION BY, SEQ, WHERE or WITHIN"),
        ("PREFIX ex <http://x> SELECT *", "a prefix ends with ':': ex:"),
        ("SELECT * PREFIX ex: <http://x>", "PREFIX stands before SELECT"),
        ("SELECT * WHERE { SEQ (A) DEFINE GPM A ON S { } }", "no stream is read"),
        ("SELECT * FROM STREAM S <http://x> WHERE { }", "the query has no sequence"),
        ("SELECT * FROM STREAM S <http://x> { SEQ (A) }", "write WHERE before '{'"),
        ("SELECT * FROM <http://x> WHERE { SEQ (A) }", "write FROM STREAM S <http://…>"),
        ("SELECT * FROM STREAM <http://x> WHERE { SEQ (A) }", "a name for the stream"),
        (text(select="?h, ?v"), "variables stand side by side: SELECT ?a ?b"),
        (text(select="h"), "a variable begins with '?': ?h"),
        (
            text(select="REDUCED ?h"),
            "there is no REDUCED; leave it out",
        ),
        (
            text(select="count(?h)"),
            (
                "an expression stands in brackets and has a name: (COUNT(?x) AS ?y) goes over the "
                "values of a '+' step; --count (in Python count()) is the number of matches"
            ),
        ),
        (text(select="(COUNT(?h, ?v) AS ?n)"), "COUNT asks for a variable"),
        (text(select="(SUM(1) AS ?n)"), "SUM asks for a variable"),
        (text(select="(?q + 1 AS ?n)"), "no step binds ?q"),
        (text(select="(EXISTS { ?h :p 1 } AS ?n)"), "EXISTS asks an event, and SELECT has none"),
        (text(clauses="WITHIN 5"), "a unit of time such as MINUTES"),
        (text(clauses="WITHIN 5 minuts"), "did you mean 'MINUTES'?"),
        (text(clauses="WITHIN 999999 DAYS"), "the time is out of range"),
        (text(clauses="WITHIN 0 DAYS TUMBLING FROM 0"), "tumbling windows need a length"),
        (text(clauses="WITHIN 1 DAY TUMBLING FROM 'x'"), "this is no point in time"),
        (
            text(clauses="WITHIN 1 DAY TUMBLING FROM '2015-02-30T00:00:00Z'"),
            "this is no point in time",
        ),
        (text(clauses="PARTITION BY ?h"), "write PARTITION BY (?h)"),
        (text(clauses="FROM STREAM S <http://e/t>"), "stream 'S' is declared twice"),
        (text(after="WITHIN 5 SECONDS"), "WITHIN stands before WHERE"),
        (
            text(after="LIMIT 5"),
            "there is no LIMIT; --limit (in Python head()) is the number of matches to show",
        ),
        (
            text(select="(COUNT(*) AS ?n)"),
            (
                "an aggregate goes over all values of a variable in a '+' step: (COUNT(?x) AS ?y); "
                "--count (in Python count()) is the number of matches"
            ),
        ),
        (
            text(select="(STR(DISTINCT ?h) AS ?n)"),
            "STR is no aggregate, and has no DISTINCT",
        ),
        (text(after="}"), "'}' closes nothing"),
        (text(more="SEQ (A)"), "a query has one SEQ"),
        (text(more="DEFINE C ON S { }"), "write DEFINE GPM A ON S { … }"),
        (text(more="DEFINE GPM C ON T { }"), "unknown stream 'T'"),
        (text(more="DEFINE GPM C ON S, S { }"), "stream 'S' is named twice"),
        (
            text(more="DEFINE GPM Größe ON S { }"),
            "names are made of A to Z, a to z, 0 to 9 and '_'",
        ),
        (text(more="DEFINE GPM A ON S { }"), "graph pattern 'A' is defined twice"),
    ],
)
def test_what_is_wrong_with_the_clauses(query: str, message: str) -> None:
    assert message in told(query)


def test_misspelt_keywords_are_read_on() -> None:
    query = "SELEC * FORM STREM S <http://x> WERE { SEQU (A:B) DEFNE GPM A ON S { ?x a ?y } }"
    assert [line for line in told(query) if line.startswith("did you mean")] == [
        f"did you mean '{word}'?" for word in ("SELECT", "FROM", "STREAM", "WHERE", "SEQ", "DEFINE")
    ]


def test_exists_beside_another_step_stands_in_one_step_alone() -> None:
    own = "{ ?y :q ?b FILTER (?b > ?a || EXISTS { ?y :likes ?c }) }"
    query = f"""PREFIX : <http://x/>
SELECT * FROM STREAM S <http://x/s> WHERE {{
  SEQ (A ; B ; B) DEFINE GPM A ON S {{ ?x :p ?a }}
  DEFINE GPM B ON S {own}
}}"""
    assert complaint(query) == (
        "line 4, column 51: B stands in several steps, and its EXISTS beside a comparison with "
        "another step\n"
        f"    DEFINE GPM B ON S {own}\n"
        "                                                    ^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  help: define B once for each step, under other names"
    )
    parse(query.replace("B ; B", "B"))
    query = query.replace("?b > ?a || EXISTS { ?y :likes ?c }", "EXISTS { ?y :likes ?a }")
    assert (
        complaint(query)
        .splitlines()[0]
        .endswith("B stands in several steps, and its EXISTS has variables of another step")
    )
    parse(query.replace("B ; B", "B"))


def test_keywords_units_and_functions_are_words_of_ascii_letters() -> None:
    parse(text(a="?h :p ?v . FILTER(strlen(?v) > 3)", clauses="within 3 minutes"))
    assert complaint(text(clauses="wıthın 3 MINUTES"))
    assert complaint(text(clauses="WITHIN 3 mınutes"))
    wrong = text(a="?h :p ?v . FILTER(ſtrlen(?v) > 3)")
    assert told(wrong)[0] == "'ſtrlen' is not part of the language"
