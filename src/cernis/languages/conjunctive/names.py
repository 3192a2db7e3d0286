"""Resolve the names of a written query: relations, attributes, variables and their kinds.

All mistakes are collected. Without a schema, any relation and attribute is accepted that is
named; with one, relations, attributes, arities and the kinds of joined values are checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from cernis.errors import Span
from cernis.languages.conjunctive import query as q
from cernis.languages.conjunctive.tree import WrittenAtom, WrittenConjunctiveQuery
from cernis.languages.text.words import list_words
from cernis.pattern.check.kinds import class_of, class_of_literal
from cernis.pattern.mistakes import MistakeList
from cernis.pattern.predicate import Attribute, Literal
from cernis.pattern.suggest import did_you_mean
from cernis.pattern.write import write_name, write_value
from cernis.schema import Attributes, Kind, Schema

_EVERY_EVENT_HAS = ("type", "ts")
_ANONYMOUS = "_"
_LONGEST_LIST = 8


def resolve(
    written: WrittenConjunctiveQuery, schema: Schema | None, source: str, mistakes: MistakeList
) -> q.ConjunctiveQuery:
    """Return the query with its names resolved; note its mistakes."""
    names = _ConjunctiveNames(written, schema, mistakes)
    atoms = tuple(map(names.resolve_atom, written.atoms))
    names.check_body()
    names.check_kinds(atoms)
    for comparison in written.comparisons:
        names.check_comparison(comparison)
    names.check_head()
    return q.ConjunctiveQuery(
        head=tuple(variable.name for variable in written.head),
        atoms=atoms,
        comparisons=written.comparisons,
        within=written.within,
        declared=written.declared,
        name=written.name.text,
        source=source,
    )


class _ConjunctiveNames:
    def __init__(
        self, written: WrittenConjunctiveQuery, schema: Schema | None, mistakes: MistakeList
    ) -> None:
        self.written = written
        self.schemas = [one for one in (written.declared, schema) if one is not None]
        self.mistakes = mistakes
        self.relations: list[Attributes | None] = []
        """For each atom, the attributes of its relation; None where nothing is known."""
        self.data: dict[str, tuple[q.Atom, str | None]] = {}
        """Each variable of the data, with the atom that tells its class, and the class."""
        self.times = {atom.time.name for atom in written.atoms if atom.time is not None}

    # ----------------------------------------------------------------- relations

    def _find_relation(self, atom: WrittenAtom) -> Attributes | None:
        """Return the attributes of an atom's relation in order; None where they are not known."""
        for schema in self.schemas:
            streams = [
                stream
                for stream in schema.streams
                if atom.stream is None or stream.name == atom.stream.text
            ]
            if atom.stream is not None and not streams:
                known = [stream.name for stream in schema.streams]
                self._note_unknown(f"unknown stream '{atom.stream.text}'", atom.stream, known)
                return None
            relation = atom.relation.text
            found = [s.events[relation] for s in streams if relation in s.events]
            found += [s.attributes for s in streams if not s.events and s.attributes]
            if len({tuple(attributes.items()) for attributes in found}) > 1:
                return self._unite_relations(atom, found)
            if found:
                return found[0]
            if streams and all(stream.events for stream in streams):
                known = [name for stream in streams for name in stream.events]
                self._note_unknown(f"unknown relation '{relation}'", atom.relation, known)
                return None
        return None

    def _unite_relations(self, atom: WrittenAtom, found: list[Attributes]) -> Attributes:
        """Return the attributes of a relation that differs between streams."""
        if any(name is None for name, _ in atom.arguments):
            self.mistakes.note(
                f"{atom.relation.text} differs between streams",
                atom.span,
                suggestion=f"name the stream, or the arguments: {atom.relation.text}(a: x)",
            )
        kinds: dict[str, Kind] = {}
        for attributes in found:
            for name, kind in attributes.items():
                kinds[name] = kind if kinds.get(name, kind) is kind else Kind.OTHER
        return kinds

    def _note_unknown(self, message: str, name: object, known: Iterable[str]) -> None:
        text, span = cast("tuple[str, Span]", name)
        names = list(dict.fromkeys(known))
        shown = list_words(names) if 0 < len(names) <= _LONGEST_LIST else None
        self.mistakes.note(message, span, expected=shown, suggestion=did_you_mean(text, names))

    # --------------------------------------------------------------------- atoms

    def resolve_atom(self, written: WrittenAtom) -> q.Atom:
        before = len(self.mistakes.found)
        declared = self._find_relation(written)
        self.relations.append(declared)
        told = len(self.mistakes.found) > before
        arguments = self._name_arguments(written, declared, told)
        given: set[Attribute] = set()
        for attribute, term in arguments:
            if attribute in given:
                self.mistakes.note(f"attribute '{attribute.name}' is given twice", term.span)
            given.add(attribute)
        return q.Atom(
            written.relation.text,
            tuple(
                (attribute, term)
                for attribute, term in arguments
                if not (isinstance(term, q.ConjunctiveVariable) and term.name == _ANONYMOUS)
            ),
            None if written.stream is None else written.stream.text,
            None if written.time is None else written.time.name,
            span=written.span,
        )

    def _name_arguments(
        self, atom: WrittenAtom, declared: Attributes | None, told: bool
    ) -> list[tuple[Attribute, q.Argument]]:
        """Return the arguments with their attributes; note those that are not known."""
        positional = sum(1 for name, _ in atom.arguments if name is None)
        if positional and declared is None and not told:
            first = next(term for name, term in atom.arguments if name is None)
            shown = write_value(first) if isinstance(first, Literal) else first.name
            self.mistakes.note(
                f"the arguments of {atom.label} have no names",
                atom.span,
                suggestion=f"name them: {atom.relation.text}(a: {shown}), or declare the relation: "
                f"CREATE STREAM S {{ EVENT {atom.relation.text} {{ a:int }} }}",
            )
        elif positional and declared is not None and not told:
            self._check_arity(atom, positional, declared)
        columns = list(declared or ())
        found: list[tuple[Attribute, q.Argument]] = []
        by_name = False
        for index, (name, term) in enumerate(atom.arguments):
            if name is not None:
                by_name = True
                if declared is not None:
                    self._check_attribute(atom, name, declared)
                found.append((name, term))
            else:
                if by_name:
                    self.mistakes.note(
                        "an argument without a name stands after one with a name", term.span
                    )
                column = columns[index] if index < len(columns) else f"#{index}"
                found.append((Attribute.named(column, span=term.span), term))
        return found

    def _check_arity(self, atom: WrittenAtom, positional: int, declared: Attributes) -> None:
        mixed = positional < len(atom.arguments)
        if len(declared) == len(atom.arguments) or (mixed and positional <= len(declared)):
            return
        arguments = "argument" if len(declared) == 1 else "arguments"
        few = len(atom.arguments) < len(declared)
        self.mistakes.note(
            f"{atom.label} takes {len(declared)} {arguments}, not {len(atom.arguments)}",
            atom.span,
            expected=f"{atom.label}({', '.join(declared)})",
            suggestion="write _ for an argument that does not matter" if few else None,
        )

    def _check_attribute(self, atom: WrittenAtom, name: Attribute, declared: Attributes) -> None:
        prefixes = [".".join(name.path[:n]) for n in range(1, len(name.path))]
        if name.name in declared or name.name in _EVERY_EVENT_HAS:
            return
        if not any(declared.get(prefix) is Kind.OTHER for prefix in prefixes):
            spot = (name.name, name.span)
            self._note_unknown(f"{atom.label} has no attribute '{name.name}'", spot, declared)

    # ----------------------------------------------------------------- variables

    def check_body(self) -> None:
        if not self.written.atoms:
            none_at_all = not self.written.comparisons
            self.mistakes.note(
                "the body is empty" if none_at_all else "the body has no atom",
                self.written.head_span,
                expected="an atom such as T(x)",
            )

    def check_kinds(self, atoms: tuple[q.Atom, ...]) -> None:
        """Check that each variable and constant has one kind wherever it stands."""
        for written, atom, known in zip(self.written.atoms, atoms, self.relations, strict=True):
            declared: Mapping[str, Kind] = known or {}
            for attribute, term in atom.arguments:
                its = class_of(declared.get(attribute.name))
                if isinstance(term, Literal):
                    self._check_constant(attribute, its, term)
                else:
                    self._check_occurrence(term, its, atom)
            if atom.time is not None and atom.time == _ANONYMOUS:
                self.mistakes.note(
                    "'_' is not a timestamp", cast(q.ConjunctiveVariable, written.time).span
                )

    def _check_constant(self, attribute: Attribute, its: str | None, literal: Literal) -> None:
        other = class_of_literal(literal)
        times = its == "timestamp" and other == "string"
        if its is not None and its != other and not times:
            message = (
                f"type clash: {write_value(attribute)} is a {its}, "
                f"{write_value(literal)} is a {other}"
            )
            self.mistakes.note(message, literal.span)

    def _check_occurrence(
        self, variable: q.ConjunctiveVariable, its: str | None, atom: q.Atom
    ) -> None:
        name = variable.name
        if name in self.times:
            self.mistakes.note(
                f"'{name}' is a timestamp and an argument",
                variable.span,
                suggestion="use another name for one of them",
            )
            return
        where, known = self.data.setdefault(name, (atom, its))
        if known is None:
            self.data[name] = (atom, its)
        elif its is not None and its != known:
            message = f"type clash: {name} is a {known} in {where.short}, a {its} in {atom.short}"
            self.mistakes.note(message, variable.span)

    def check_head(self) -> None:
        seen: set[str] = set()
        for variable in self.written.head:
            name = variable.name
            if name in seen:
                self.mistakes.note(f"'{name}' stands twice in the head", variable.span)
            elif name == _ANONYMOUS:
                self.mistakes.note("'_' has no value that the head could give", variable.span)
            elif name not in self.data and name not in self.times and self.written.atoms:
                self.mistakes.note(
                    f"'{name}' is in the head and not in the body",
                    variable.span,
                    suggestion=did_you_mean(name, [*self.data, *self.times]),
                )
            seen.add(name)

    # --------------------------------------------------------------- comparisons

    def check_comparison(self, node: q.ConjunctiveComparison) -> None:
        sides = (node.left, node.right)
        unbound = [variable for side in sides for variable in self._find_unbound(side)]
        for variable in unbound:
            self.mistakes.note(
                f"'{variable.name}' is compared and not in any atom",
                variable.span,
                suggestion=did_you_mean(variable.name, [*self.data, *self.times]),
            )
        if not unbound:
            self._check_comparable(node)

    def _find_unbound(self, side: q.Side) -> list[q.ConjunctiveVariable]:
        match side:
            case q.ConjunctiveVariable():
                known = side.name in self.data or side.name in self.times
                return [] if known else [side]
            case q.Difference(left=left, right=right):
                return self._find_unbound(left) + self._find_unbound(right)
            case q.Computed(variables=variables):
                return [each for variable in variables for each in self._find_unbound(variable)]
            case _:
                return []

    def _check_comparable(self, node: q.ConjunctiveComparison) -> None:
        if isinstance(node.left, q.Computed) or isinstance(node.right, q.Computed):
            self._check_computed(node)
            return
        left, right = self._sort_of(node.left), self._sort_of(node.right)
        sorts = {left, right}
        if not all(sorts):
            return  # a difference of values without time, noted already
        if sorts == {"timestamp"}:
            return
        if sorts <= {"constant", "duration"}:
            self.mistakes.note("a comparison needs a variable", node.span)
        elif sorts == {"timestamp", "data"}:
            first, second = node.left, node.right
            if left == "data":
                first, second = second, first
            self.mistakes.note(
                f"'{_name_of(first)}' is a timestamp, '{_name_of(second)}' is not",
                node.span,
                suggestion="timestamps are compared with timestamps alone",
            )
        elif "timestamp" in sorts:
            time = node.left if left == "timestamp" else node.right
            self.mistakes.note(
                f"'{_name_of(time)}' is a timestamp, and compared with timestamps alone",
                node.span,
                suggestion=f"bound a difference: {_name_of(time)} - t0 < 5 SECONDS",
            )
        elif "difference" in sorts:
            self._check_bound(node)
        elif "duration" in sorts:
            self.mistakes.note(
                "a duration is compared with a difference of timestamps",
                node.span,
                suggestion="write t2 - t1 < 5 SECONDS",
            )
        else:
            self._check_alike(node)

    def _check_computed(self, node: q.ConjunctiveComparison) -> None:
        """Check a comparison with a function; its types are checked with the pattern."""
        sides = (node.left, node.right)
        if any(isinstance(side, q.Difference | q.Duration) for side in sides):
            self.mistakes.note(
                "a function is compared with a variable, a constant or a function", node.span
            )
        named = [side for side in sides if isinstance(side, q.ConjunctiveVariable)]
        computed = [side for side in sides if isinstance(side, q.Computed)]
        if not named and not any(side.variables for side in computed):
            self.mistakes.note("a comparison needs a variable", node.span)

    def _check_bound(self, node: q.ConjunctiveComparison) -> None:
        limit = node.right if isinstance(node.left, q.Difference) else node.left
        number = isinstance(limit, Literal) and class_of_literal(limit) == "number"
        if not number and not isinstance(limit, q.Duration):
            self.mistakes.note(
                "a difference of timestamps is compared with a number or a duration", node.span
            )

    def _check_alike(self, node: q.ConjunctiveComparison) -> None:
        """Check that two values of the data can be compared."""
        classes = [self._class_of(side) for side in (node.left, node.right)]
        literal = isinstance(node.left, Literal) or isinstance(node.right, Literal)
        if None in classes or classes[0] == classes[1]:
            return
        if literal and set(classes) == {"timestamp", "string"}:
            return
        texts = [
            f"{_write_side(side)} is a {its}"
            for side, its in zip((node.left, node.right), classes, strict=True)
        ]
        self.mistakes.note(f"type clash: {', '.join(texts)}", node.span)

    def _class_of(self, side: q.Side) -> str | None:
        if isinstance(side, Literal):
            return class_of_literal(side)
        return self.data[_name_of(side)][1]

    def _sort_of(self, side: q.Side) -> str:
        match side:
            case q.ConjunctiveVariable(name=name):
                return "timestamp" if name in self.times else "data"
            case Literal():
                return "constant"
            case q.Duration():
                return "duration"
            case q.Computed():
                return "data"
            case q.Difference(left=left, right=right):
                for variable in (left, right):
                    if variable.name not in self.times:
                        self.mistakes.note(
                            f"'{variable.name}' is not a timestamp",
                            variable.span,
                            suggestion="differences are taken of timestamps (@) alone",
                        )
                        return ""
                return "difference"


def _name_of(side: q.Side) -> str:
    return cast(q.ConjunctiveVariable, side).name


def _write_side(side: q.Side) -> str:
    return write_value(side) if isinstance(side, Literal) else write_name(_name_of(side))
