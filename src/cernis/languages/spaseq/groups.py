"""Graph patterns and expressions: from the rules of the grammar to the algebra.

One method for each rule, called bottom-up without recursion and from left to right, so that
prefixes are known before they are used. Groups become the algebra of SPARQL 1.1, 18.2.2:

* the filters of a group apply to the whole group, those of an OPTIONAL's own group to the
  solutions of both sides;
* triple patterns with nothing or filters between them are one `BasicPattern`;
* a join is flat, and the empty pattern is left out of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

from cernis.errors import Span
from cernis.languages.spaseq import terms as t
from cernis.languages.spaseq.graphs import graph as g
from cernis.languages.spaseq.graphs.paths import (
    Statement,
    follow_path,
    join_patterns,
    join_statements,
)
from cernis.languages.spaseq.query import AGGREGATES
from cernis.languages.text.tokens import Token, span_of
from cernis.languages.text.tree import LanguageReader

_DATATYPES = {
    "INTEGER": t.XSD + "integer",
    "DECIMAL": t.XSD + "decimal",
    "DOUBLE": t.XSD + "double",
}

_ONE = range(1, 2)
_MANY = range(1, 256)
_OF_ONE = (
    "BOUND STR LANG DATATYPE ISIRI ISURI ISBLANK ISLITERAL ISNUMERIC STRLEN UCASE LCASE "
    "ISTRIPLE SUBJECT PREDICATE OBJECT ENCODE_FOR_URI ABS CEIL FLOOR ROUND YEAR MONTH DAY HOURS "
    "MINUTES SECONDS TIMEZONE TZ MD5 SHA1 SHA256 SHA384 SHA512"
)
_OF_TWO = "LANGMATCHES SAMETERM CONTAINS STRSTARTS STRENDS STRBEFORE STRAFTER STRDT STRLANG"
_ARGUMENTS = (
    dict.fromkeys(_OF_ONE.split(), _ONE)
    | dict.fromkeys(_OF_TWO.split(), range(2, 3))
    | dict.fromkeys(("IRI", "URI"), range(1, 3))
    | dict.fromkeys(("REGEX", "SUBSTR"), range(2, 4))
    | {
        "REPLACE": range(3, 5),
        "IF": range(3, 4),
        "TRIPLE": range(3, 4),
        "COALESCE": _MANY,
        "CONCAT": _MANY,
    }
)
"""How many arguments each function takes."""

_CASTS = (
    "integer", "decimal", "float", "double", "string", "boolean", "dateTime", "date",
    "dayTimeDuration",
)  # fmt: skip
_CAST_IRIS = {f"<{t.XSD}{name}>" for name in _CASTS}
_CAST_NAMES = [f"xsd:{name}" for name in _CASTS]
_SAME_FUNCTION = {"ISURI": "ISIRI", "URI": "IRI"}


class TripleForm(NamedTuple):
    """`<<( ?s :p ?o )>>`: a triple term with variables, or with such a term inside."""

    nodes: tuple[g.Node | TripleForm, ...]
    span: Span


class DescribedNode(NamedTuple):
    """A blank node or a collection with the triples that describe it."""

    node: g.Node
    triples: list[Statement]


ObjectNode = g.Node | DescribedNode | TripleForm
ValueCell = g.Term | TripleForm | None


class WrittenGroup(NamedTuple):
    """`{ … }`: its pattern, and the filters that apply to the whole of it."""

    pattern: g.GraphPattern
    condition: g.Expression | None

    @property
    def whole(self) -> g.GraphPattern:
        if self.condition is None:
            return self.pattern
        return g.FilterPattern(self.pattern, self.condition)


class _FilterElement(NamedTuple):
    condition: g.Expression


class _OptionalElement(NamedTuple):
    group: WrittenGroup


class _MinusElement(NamedTuple):
    group: WrittenGroup


class _BindElement(NamedTuple):
    variable: g.GraphVariable
    expression: g.Expression


def _translate_group(elements: Iterable[object]) -> WrittenGroup:
    """Translate the elements of a group, in their order, by SPARQL 1.1, 18.2.2.6."""
    pattern: g.GraphPattern = g.BasicPattern(())
    statements: list[Statement] = []
    conditions: list[g.Expression] = []
    for element in elements:
        if isinstance(element, list):
            statements += element
            continue
        if isinstance(element, _FilterElement):
            conditions.append(element.condition)
            continue
        pattern, statements = join_patterns(pattern, join_statements(statements)), []
        match element:
            case _OptionalElement(group):
                pattern = g.OptionalPattern(pattern, group.pattern, group.condition)
            case _MinusElement(group):
                pattern = g.MinusPattern(pattern, group.whole)
            case _BindElement(variable, expression):
                pattern = g.BindPattern(pattern, variable, expression)
            case _:
                pattern = join_patterns(pattern, cast(g.GraphPattern, element))
    pattern = join_patterns(pattern, join_statements(statements))
    return WrittenGroup(
        pattern, _flatten_chain(g.AndExpression, conditions) if conditions else None
    )


def _find_bound(element: object) -> list[str]:
    """Return the variables that an element of a group may bind."""
    match element:
        case list():
            return g.find_variables(join_statements(element))
        case _BindElement(variable, _):
            return [variable.name]
        case _OptionalElement(group):
            return g.find_variables(group.pattern)
        case _FilterElement() | _MinusElement():
            return []
    return g.find_variables(cast(g.GraphPattern, element))


def _flatten_chain(
    kind: type[g.AndExpression] | type[g.OrExpression], parts: Sequence[g.Expression]
) -> g.Expression:
    """Return one node for a chain of one operator, whatever its brackets."""
    flat: list[g.Expression] = []
    for part in parts:
        flat += part.parts if isinstance(part, kind) else (part,)
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


class GraphPatternReader(LanguageReader):
    """Reads the graph patterns of one text.

    `labels` are the labels of all blank nodes in the text, which nameless ones must not take.
    """

    def __init__(self, source: str, labels: Iterable[str]) -> None:
        super().__init__(source)
        self.base: str | None = None
        self.prefixes = dict(t.KNOWN_PREFIXES)
        self.labels = frozenset(labels)
        self.scope = ""
        """The graph pattern whose blank nodes are read; empty for CONSTRUCT."""
        self.nameless = 0

    # ---------------------------------------------------------------------- terms

    def base_iri(self, span: Span, parts: list[Token]) -> None:
        self.base = self._read_iri(parts[0])

    def prefix(self, span: Span, parts: list[Token]) -> None:
        self.prefixes[parts[0].value[:-1]] = self._read_iri(parts[1])

    def _read_iri(self, token: Token) -> str:
        """Return the IRI in angle brackets; note a wrong one and return a stand-in."""
        try:
            return t.read_iri(token.value, self.base)
        except t.TermError as error:
            suggestion = None
            if "BASE" in str(error):
                suggestion = "put BASE <http://…/> before everything, or write the whole IRI"
            self.mistakes.note(str(error), span_of(token), suggestion=suggestion)
            return "error:"

    def iri(self, span: Span, parts: list[Token]) -> g.Term:
        token = parts[0]
        if token.type == "IRI":
            return g.Term(f"<{self._read_iri(token)}>", span_of(token))
        prefix, _, local = token.value.partition(":")
        if prefix not in self.prefixes:
            self.mistakes.note(
                f"unknown prefix '{prefix}:'",
                span_of(token),
                suggestion=f"declare it before SELECT: PREFIX {prefix}: <http://…>",
                word=prefix,
                among=self.prefixes,
            )
            return g.Term("<error:>", span_of(token))
        return g.Term(f"<{self.prefixes[prefix]}{t.read_local_name(local)}>", span_of(token))

    def variable(self, span: Span, parts: list[Token]) -> g.GraphVariable:
        return g.GraphVariable(parts[0].value[1:], span_of(parts[0]))

    def string(self, span: Span, parts: list[Any]) -> g.Term:
        try:
            value = t.read_string(parts[0].value)
        except t.TermError as error:
            self.mistakes.note(
                str(error), span_of(parts[0]), suggestion=r"a backslash is written \\"
            )
            value = ""
        match parts[1:]:
            case [tag]:
                return g.Term(t.write_literal(value, language=tag.value[1:]), span)
            case [_carets, datatype]:
                return g.Term(t.write_literal(value, datatype=datatype.text[1:-1]), span)
            case _:
                return g.Term(t.write_literal(value), span)

    def unsigned(self, span: Span, parts: list[Token]) -> g.Term:
        token = parts[0]
        return g.Term(t.write_literal(token.value, datatype=_DATATYPES[token.type]), span_of(token))

    def signed(self, span: Span, parts: list[Token]) -> g.Term:
        number, sign = parts[-1], "".join(part.value for part in parts[:-1])
        text = t.write_literal(sign + number.value, datatype=_DATATYPES[number.type])
        return g.Term(text, span)

    def boolean(self, span: Span, parts: list[Token]) -> g.Term:
        value = parts[0].value.lower()
        return g.Term(t.write_literal(value, datatype=t.XSD + "boolean"), span_of(parts[0]))

    def type(self, span: Span, parts: list[Token]) -> g.Term:
        return g.Term(t.RDF_TYPE, span_of(parts[0]))

    # -------------------------------------------------------------------- triples

    def blank(self, span: Span, parts: list[Token]) -> g.GraphVariable:
        return g.GraphVariable(f"_:{self.scope}.{parts[0].value[2:]}", span_of(parts[0]))

    def anonymous(self, span: Span, parts: list[Any]) -> g.GraphVariable:
        return self._make_blank(span)

    def _make_blank(self, span: Span) -> g.GraphVariable:
        while f"b{self.nameless}" in self.labels:
            self.nameless += 1
        self.nameless += 1
        return g.GraphVariable(f"_:{self.scope}.b{self.nameless - 1}", span)

    def _make_unseen(self) -> g.GraphVariable:
        """Return a blank node that the text does not have."""
        return self._make_blank(Span(0, 0))

    def blank_with(self, span: Span, parts: list[Any]) -> DescribedNode:
        node = self._make_blank(span)
        return DescribedNode(node, self._make_triples(node, parts[0]))

    def collection(self, span: Span, parts: list[ObjectNode]) -> DescribedNode:
        """Return the first node of a list, with the triples of rdf:first and rdf:rest."""
        links: list[g.Node] = [self._make_blank(span) for _ in parts]
        links.append(g.Term(t.RDF_NIL, span))
        described: list[Statement] = []
        for link, rest, one in zip(links, links[1:], parts, strict=False):
            described += self._make_triples(link, [(g.Term(t.RDF_FIRST), [one])])
            described.append(g.Triple(link, g.Term(t.RDF_REST), rest))
        return DescribedNode(links[0], described)

    def triple_term(self, span: Span, parts: list[Any]) -> g.Term | TripleForm:
        """Return `<<( s p o )>>` in its canonical form, or the form of one with variables."""
        nodes = parts[1:4]
        if not isinstance(nodes[1], g.Node):
            self.mistakes.note("a triple term has no property paths", span)
            return g.Term("<error:>", span)
        if not all(isinstance(node, g.Term) for node in nodes):
            return TripleForm(tuple(nodes), span)
        return g.Term(f"<<( {' '.join(node.text for node in nodes)} )>>", span)

    def made_triple(self, span: Span, parts: list[g.Term | TripleForm]) -> g.Expression:
        """Return a triple term in an expression."""
        return self._make_call(parts[0])

    def _make_call(self, part: g.Node | TripleForm) -> g.Expression:
        if isinstance(part, g.GraphVariable) and part.hidden:
            self.mistakes.note("an expression has no blank nodes", part.span)
            return g.Term("<error:>", part.span)
        if not isinstance(part, TripleForm):
            return part
        return g.CallExpression("TRIPLE", tuple(map(self._make_call, part.nodes)), part.span)

    def _unfold(self, subject: g.Node, predicate: g.Path, form: TripleForm) -> g.GraphPattern:
        """Return the pattern of a triple whose object is a triple term with variables."""
        if not isinstance(predicate, g.Node):
            self.mistakes.note(
                "a triple term with variables stands after a predicate, not after a path",
                form.span,
                suggestion="name what the path leads to: ?x :p/:q ?y . ?y :says <<( ?s ?p ?o )>>",
            )
            predicate = g.Term("<error:>")
        variable = self._make_unseen()
        pattern: g.GraphPattern = g.BasicPattern((g.Triple(subject, predicate, variable),))
        waiting = [(variable, form)]
        while waiting:
            variable, one = waiting.pop(0)
            nodes: list[g.Node] = []
            for node in one.nodes:
                if isinstance(node, TripleForm):
                    inside = self._make_unseen()
                    waiting.append((inside, node))
                    node = inside
                nodes.append(node)
            pattern = g.UnfoldPattern(pattern, variable, g.Triple(*nodes))
        return pattern

    def verb(self, span: Span, parts: list[g.Path]) -> g.Path:
        predicate = parts[0]
        if isinstance(predicate, g.GraphVariable) and predicate.hidden:
            self.mistakes.note(
                "a predicate is no blank node", predicate.span, suggestion="use a variable"
            )
        elif isinstance(predicate, g.Term) and not predicate.text.startswith("<"):
            self.mistakes.note("a predicate is an IRI or a variable, not a literal", predicate.span)
        elif not isinstance(predicate, g.Node) and not self.scope:
            self.mistakes.note("CONSTRUCT makes triples, and no property paths", span)
        return predicate

    def path_choice(self, span: Span, parts: list[g.Path]) -> g.PathChoice:
        return g.PathChoice(tuple(parts))

    def path_chain(self, span: Span, parts: list[g.Path]) -> g.PathChain:
        return g.PathChain(tuple(parts))

    def inverse(self, span: Span, parts: list[Any]) -> g.InversePath:
        return g.InversePath(parts[1])

    not_inverse = inverse

    def repeated(self, span: Span, parts: list[Any]) -> g.RepeatedPath:
        return g.RepeatedPath(parts[0], parts[1].value)

    def path_not(self, span: Span, parts: list[g.Term | g.InversePath]) -> g.NegatedPath:
        backwards = tuple(part.path for part in parts if isinstance(part, g.InversePath))
        forwards = tuple(part for part in parts if isinstance(part, g.Term))
        return g.NegatedPath(forwards, cast(tuple[g.Term, ...], backwards))

    def objects(self, span: Span, parts: list[ObjectNode]) -> list[ObjectNode]:
        return parts

    def property(self, span: Span, parts: list[Any]) -> tuple[g.Path, list[ObjectNode]]:
        return parts[0], parts[1]

    def properties(self, span: Span, parts: list[Any]) -> list[Any]:
        return parts

    def _make_triples(
        self, subject: g.Node, properties: Iterable[tuple[g.Path, list[ObjectNode]]]
    ) -> list[Statement]:
        triples: list[Statement] = []
        for predicate, objects in properties:
            for one in objects:
                if isinstance(one, TripleForm):
                    triples.append(self._unfold(subject, predicate, one))
                    continue
                node, more = one if isinstance(one, DescribedNode) else (one, [])
                triples += [*follow_path(subject, predicate, node, self._make_unseen), *more]
        return triples

    def same_subject(self, span: Span, parts: list[Any]) -> list[Statement]:
        subject, properties = parts[0], parts[1] if len(parts) > 1 else ()
        if isinstance(subject, DescribedNode):
            return subject.triples + self._make_triples(subject.node, properties)
        if isinstance(subject, g.Term) and not subject.text.startswith("<"):
            self.mistakes.note("a subject is an IRI or a variable, not a literal", subject.span)
        return self._make_triples(subject, properties)

    def triples(self, span: Span, parts: list[list[Statement]]) -> list[Statement]:
        return [triple for part in parts for triple in part]

    # --------------------------------------------------------------------- groups

    def group(self, span: Span, parts: list[object]) -> WrittenGroup:
        known: set[str] = set()
        for part in parts:
            if isinstance(part, _BindElement) and part.variable.name in known:
                self.mistakes.note(
                    f"?{part.variable.name} is bound before: BIND names a new variable",
                    part.variable.span,
                )
            known.update(_find_bound(part))
        return _translate_group(parts)

    def bind(self, span: Span, parts: list[Any]) -> _BindElement:
        expression, token = parts
        return _BindElement(g.GraphVariable(token.value[1:], span_of(token)), expression)

    def removed(self, span: Span, parts: list[WrittenGroup]) -> _MinusElement:
        return _MinusElement(parts[0])

    def undefined(self, span: Span, parts: list[Token]) -> None:
        return None

    def values(self, span: Span, parts: list[g.ValuesPattern]) -> g.ValuesPattern:
        return parts[0]

    def column(self, span: Span, parts: list[Any]) -> g.ValuesPattern:
        name, *cells = parts
        return self._make_values([name], [[cell] for cell in cells], span)

    def columns(self, span: Span, parts: list[Any]) -> g.ValuesPattern:
        names = [part for part in parts if isinstance(part, Token)]
        return self._make_values(names, parts[len(names) :], span)

    def data_row(self, span: Span, parts: list[ValueCell]) -> list[ValueCell]:
        return parts

    def _make_values(
        self, names: list[Token], rows: list[list[ValueCell]], span: Span
    ) -> g.ValuesPattern:
        variables = tuple(g.GraphVariable(name.value[1:], span_of(name)) for name in names)
        if len({variable.name for variable in variables}) < len(variables):
            self.mistakes.note("VALUES names a variable twice", span)
            return g.ValuesPattern((), ())
        for cell in (cell for row in rows for cell in row if isinstance(cell, TripleForm)):
            self.mistakes.note("VALUES has terms, and no variables in them", cell.span)
            return g.ValuesPattern(variables, ())
        for row in rows:
            if len(row) != len(variables):
                self.mistakes.note(
                    f"VALUES has {len(variables)} variable{'s' * (len(variables) != 1)}, and a row "
                    f"of {len(row)}",
                    span,
                    suggestion="write UNDEF where a row has no value",
                )
                return g.ValuesPattern(variables, ())
        terms = cast(list[list[g.Term | None]], rows)
        return g.ValuesPattern(variables, tuple(dict.fromkeys(map(tuple, terms))))

    def exists(self, span: Span, parts: list[Any]) -> g.Expression:
        group = parts[-1]
        found = g.ExistsExpression(group.pattern, group.condition, span)
        return found if len(parts) == 1 else g.NotExpression(found)

    def filter(self, span: Span, parts: list[g.Expression]) -> _FilterElement:
        return _FilterElement(parts[0])

    def optional(self, span: Span, parts: list[WrittenGroup]) -> _OptionalElement:
        return _OptionalElement(parts[0])

    def union(self, span: Span, parts: list[WrittenGroup]) -> g.GraphPattern:
        return (
            parts[0].whole
            if len(parts) == 1
            else g.UnionPattern(tuple(part.whole for part in parts))
        )

    def background(self, span: Span, parts: list[Any]) -> g.BackgroundPattern:
        return g.BackgroundPattern(parts[0], parts[1].whole)

    # ---------------------------------------------------------------- expressions

    def any_of(self, span: Span, parts: list[g.Expression]) -> g.Expression:
        return _flatten_chain(g.OrExpression, parts)

    def all_of(self, span: Span, parts: list[g.Expression]) -> g.Expression:
        return _flatten_chain(g.AndExpression, parts)

    def compared(self, span: Span, parts: list[Any]) -> g.ComparisonExpression:
        left, op, right = parts
        return g.ComparisonExpression(op.value, left, right)

    def one_of(self, span: Span, parts: list[Any]) -> g.InExpression:
        value, *choices = parts
        negated = bool(choices) and isinstance(choices[0], Token)
        return g.InExpression(value, tuple(choices[1:] if negated else choices), negated)

    def sum(self, span: Span, parts: list[Any]) -> g.ArithmeticExpression:
        left, op, right = parts
        return g.ArithmeticExpression(op.value, left, right)

    product = sum

    def denied(self, span: Span, parts: list[Any]) -> g.NotExpression:
        return g.NotExpression(parts[1])

    def _join_sign(self, sign: Token, operand: g.Expression) -> g.Term | None:
        """Return the number with its sign, if the sign stands right before its digits."""
        if not isinstance(operand, g.Term) or operand.span is None:
            return None
        start = operand.span.start
        if start != sign.end_pos or self.source[start] not in "0123456789.":
            return None
        return g.Term(f'"{sign.value}{operand.text[1:]}', span_of(sign).to(operand.span))

    def minus(self, span: Span, parts: list[Any]) -> g.Expression:
        return self._join_sign(parts[0], parts[1]) or g.NegativeExpression(parts[1])

    def plus(self, span: Span, parts: list[Any]) -> g.Expression:
        # of other values than numbers it is an error, as `--` is; of numbers both change nothing
        return self._join_sign(parts[0], parts[1]) or g.NegativeExpression(
            g.NegativeExpression(parts[1])
        )

    def distinct(self, span: Span, parts: list[Any]) -> g.Expression:
        """Return `COUNT(DISTINCT ?x)`."""
        function, _, variable = parts
        name = function.value.upper()
        if name not in AGGREGATES:
            self.mistakes.note(
                f"{function.value} is no aggregate, and has no DISTINCT",
                span_of(function),
                word=name,
                among=AGGREGATES,
            )
        elif self.scope:
            self._refuse_aggregate(function)
        return g.CallExpression(f"{name} DISTINCT", (variable,), span)

    def _refuse_aggregate(self, function: Token) -> None:
        name = function.value.upper()
        self.mistakes.note(
            f"{name} goes over the rounds of a match, and a graph pattern sees one event",
            span_of(function),
            suggestion=f"{name} stands in SELECT: ({name}(?x) AS ?y)",
        )

    def call(self, span: Span, parts: list[Any]) -> g.Expression:
        function, *arguments = parts
        if isinstance(function, g.Term):
            return self._make_cast(function, tuple(arguments), span)
        name = function.value.upper()
        if name in AGGREGATES and not self.scope:
            if len(arguments) != 1 or not isinstance(arguments[0], g.GraphVariable):
                self.mistakes.note(f"{name} asks for a variable", span, expected=f"{name}(?x)")
                return g.Term('""', span)
            return g.CallExpression(name, tuple(arguments), span)
        if name in AGGREGATES:
            self._refuse_aggregate(function)
        elif name not in _ARGUMENTS:
            self.mistakes.note(
                f"unknown function '{function.value}'",
                span_of(function),
                word=name,
                among=_ARGUMENTS,
            )
        else:
            self._check_arguments(function.value, _ARGUMENTS[name], len(arguments), span)
            if (
                name == "BOUND"
                and len(arguments) == 1
                and not isinstance(arguments[0], g.GraphVariable)
            ):
                self.mistakes.note("BOUND asks for a variable", span, expected="BOUND(?x)")
        if name in ("IRI", "URI") and len(arguments) == 1 and self.base is not None:
            arguments.append(g.Term(f"<{self.base}>", span))
        return g.CallExpression(_SAME_FUNCTION.get(name, name), tuple(arguments), span)

    def _make_cast(
        self, function: g.Term, arguments: tuple[g.Expression, ...], span: Span
    ) -> g.CallExpression:
        if function.text in _CAST_IRIS:
            self._check_arguments(self._source_of(function), _ONE, len(arguments), span)
        elif function.text != "<error:>":
            self.mistakes.note(
                f"unknown function {self._source_of(function)}",
                function.span,
                word=self._source_of(function),
                among=_CAST_NAMES,
                suggestion=f"the casts are {', '.join(_CAST_NAMES)}",
            )
        return g.CallExpression(function.text, arguments, span)

    def _source_of(self, term: g.Term) -> str:
        return self.source[slice(*cast(Span, term.span))]

    def _check_arguments(self, name: str, takes: range, given: int, span: Span) -> None:
        if given in takes:
            return
        number = "1 or more" if takes is _MANY else " or ".join(map(str, takes))
        arguments = "argument" if number == "1" else "arguments"
        self.mistakes.note(f"{name} takes {number} {arguments}, not {given}", span)
