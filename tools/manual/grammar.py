"""The grammars as data: sections of rules, read from the `grammar.lark` of each language.

Lark's own grammar of its files reads them. A rule is a tree of parts (`Part`), in which keywords
are written out: the languages retype words by their keyword lists, so the terminal UNIT is one of
DAYS, HOURS and so on. Terminals that are regular expressions keep their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple, TypeAlias

from lark import Lark, Token, Tree

from cernis.languages.ceql.words import TERMINALS as CEQL_WORDS
from cernis.languages.conjunctive.words import TERMINALS as CONJUNCTIVE_WORDS
from cernis.languages.spaseq.words import TERMINALS as SPASEQ_WORDS
from cernis.languages.text.words import TERMINALS as SHARED_WORDS

_SECTION = re.compile(r"^// -{3,} ([\w ]+)$\n", re.MULTILINE)
_LITERAL = re.compile(r'^([A-Z_]+)(?:\.-?\d+)?: "(.+)"$', re.MULTILINE)
_RULE = re.compile(r"^[?!]*_?[a-z]\w*(?:\.\d+)?:", re.MULTILINE)
_MISTAKES = "// What no query holds"
"""Begins what a grammar has for mistakes only."""
_RETYPED = {"CHOICE": ("ANY", "STRATEGY", "LASTMAX")}
"""Terminals that the parser gives to tokens of others, by what stands around them."""
_CONTEXT = {"LINK": (",", ";", ":"), "OF": (">",), "A": ("a",)}
"""Terminals that are made of other tokens, and how they are written."""


@dataclass(frozen=True, slots=True)
class Word:
    """A keyword or a symbol, as it is written."""

    text: str


@dataclass(frozen=True, slots=True)
class Named:
    """Another rule, or a terminal that is a regular expression."""

    name: str


@dataclass(frozen=True, slots=True)
class Series:
    """Parts one after the other."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of several parts."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Maybe:
    """A part, or nothing."""

    part: Part


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part once or more, with another between two of them."""

    part: Part
    between: Part | None = None


Part: TypeAlias = Word | Named | Series | OneOf | Maybe | Repeat


class GrammarRule(NamedTuple):
    """A rule of a grammar."""

    name: str
    part: Part


class GrammarSection(NamedTuple):
    """A section of a grammar: its title, its text, and its rules."""

    title: str
    text: str
    rules: tuple[GrammarRule, ...]


class GrammarSource(NamedTuple):
    """A grammar: the page's name, its title, the package of its file, and its keywords."""

    name: str
    title: str
    package: str
    words: Mapping[str, str]


SOURCES = (
    GrammarSource("ceql", "The grammar of CEQL", "cernis.languages.ceql", CEQL_WORDS),
    GrammarSource(
        "conjunctive",
        "The grammar of conjunctive queries",
        "cernis.languages.conjunctive",
        CONJUNCTIVE_WORDS,
    ),
    GrammarSource("spaseq", "The grammar of SPAseQ", "cernis.languages.spaseq", SPASEQ_WORDS),
    GrammarSource("sql", "The grammar of row patterns", "cernis.languages.sql", {}),
    GrammarSource(
        "shared",
        "What CEQL and conjunctive queries share",
        "cernis.languages.text",
        SHARED_WORDS,
    ),
)


_HEADS = {
    "ceql": """\
[CEQL](../ceql.md) explains the language. `declarations`, `within`, `name` and the like are among
[what CEQL and conjunctive queries share](shared.md).
""",
    "conjunctive": """\
[Conjunctive queries](../conjunctive.md) explains the language. `declarations`, `within`, `name` and
the like are among [what it shares with CEQL](shared.md).
""",
    "spaseq": """\
[SPAseQ](../spaseq.md) explains the language. Its graph patterns are those of SPARQL 1.1.
""",
    "sql": """\
[SQL with MATCH_RECOGNIZE](../sql.md) explains the clause. These rules read what stands in
`PATTERN (…)`.
""",
    "shared": """\
The grammars of [CEQL](ceql.md) and of [conjunctive queries](conjunctive.md) use these rules.
""",
}
_LEGEND = """\
The parser reads this grammar, in the notation of [Lark](https://lark-parser.readthedocs.io). In the
diagrams, rounded boxes are written as they stand, in any case, and square ones are other rules or
lexemes. Signs before the name of a rule (`?`, `!`, `_`) are for the parser, and the diagrams leave
them out.
"""


def read_sections(source: GrammarSource) -> list[GrammarSection]:
    """Return the sections of a grammar; the first one has the rule that begins it."""
    text = files(source.package).joinpath("grammar.lark").read_text(encoding="utf-8")
    text = re.sub(r"\A(?://[^\n]*\n)+\n", "", text)  # the comment at the head is for developers
    reader = _GrammarReader(text, source.words)
    pieces = _SECTION.split(text)
    titled = [("queries", pieces[0]), *zip(pieces[1::2], pieces[2::2], strict=True)]
    pieces_of = {title: piece.partition(_MISTAKES)[0].strip("\n") for title, piece in titled}
    return [
        GrammarSection(title, piece, tuple(_join_twins(_read_rules(piece, reader))))
        for title, piece in pieces_of.items()
        if piece
    ]


def write_grammar_page(source: GrammarSource) -> str:
    """Return the page of a grammar: for each section its diagrams and its text."""
    parts = [f"# {source.title}\n\n<!-- written by make pages -->\n", _HEADS[source.name], _LEGEND]
    for section in read_sections(source):
        parts.append(f"## {section.title.capitalize()}\n")
        if section.rules:
            parts.append(f"![{section.title}]({name_diagram(source, section)})\n")
        parts.append(f"```text\n{section.text}\n```\n")
    return "\n".join(parts)


def name_diagram(source: GrammarSource, section: GrammarSection) -> str:
    """Return the name of the file of a section's diagrams."""
    return f"{source.name}-{section.title.replace(' ', '-')}.svg"


def _read_rules(text: str, reader: _GrammarReader) -> Iterator[tuple[str, Part]]:
    """Yield each rule of a text with the name that it has there."""
    kept = _keep_rules(text)
    tree = _lark_parser().parse(kept) if kept.strip() else Tree("start", [])
    for node in tree.children:
        if isinstance(node, Tree) and node.data == "rule":
            name, *_, body = node.children
            yield str(name).lstrip("?!"), reader.read(body)


def _join_twins(rules: Iterable[tuple[str, Part]]) -> Iterator[GrammarRule]:
    """Yield rules; `_x: x | y` and `x: …` are one rule, since readers see one name."""
    bodies = dict(rules)
    for name, body in bodies.items():
        if f"_{name}" in bodies:
            continue
        twin = name.lstrip("_")
        if twin != name and twin in bodies and isinstance(body, OneOf):
            parts = (bodies[twin] if one == Named(plain_name(twin)) else one for one in body.parts)
            yield GrammarRule(plain_name(name), OneOf(tuple(parts)))
        else:
            yield GrammarRule(plain_name(name), body)


def _keep_rules(text: str) -> str:
    """Return the rules of a text: without comments, terminals and statements."""
    lines, inside = [], False
    for line in text.replace("%extend ", "").splitlines():
        if _RULE.match(line):
            inside = True
        elif line[:1].strip():
            inside = False
        if inside and line.strip():
            lines.append(line)
    return "\n".join(lines) + "\n"


@cache
def _lark_parser() -> Lark:
    return Lark.open_from_package(
        "lark", "lark.lark", ("grammars",), parser="lalr", maybe_placeholders=False
    )


def plain_name(name: str) -> str:
    """Return the name of a rule or a terminal as readers see it.

    >>> plain_name("?_term_sum"), plain_name("_PARTITION")
    ('term sum', 'PARTITION')
    """
    return name.lstrip("?!_").replace("_", " ")


class _GrammarReader:
    """Reads the tree of a rule; knows how the terminals of the language are written."""

    def __init__(self, text: str, words: Mapping[str, str]) -> None:
        shared = files("cernis.languages.text").joinpath("grammar.lark").read_text("utf-8")
        self._literals = dict(_LITERAL.findall(shared)) | dict(_LITERAL.findall(text))
        self._words: dict[str, list[str]] = {}
        for word, terminal in words.items():
            self._words.setdefault(terminal, []).append(word)

    def read(self, node: Any) -> Part:
        """Return the part that a node stands for."""
        match node:
            case Tree(data="expansions", children=children):
                return OneOf(tuple(map(self.read, children)))
            case Tree(data="expansion", children=children):
                return _join_repeats([self.read(child) for child in children])
            case Tree(data="alias", children=[body, *_]):
                return self.read(body)
            case Tree(data="maybe", children=[body]):
                return Maybe(self.read(body))
            case Tree(data="expr", children=[body, Token(value=mark)]):
                part = self.read(body)
                if mark == "?":
                    return Maybe(part)
                return Repeat(part) if mark == "+" else Maybe(Repeat(part))
            case Tree(data="literal", children=[Token(value=text)]):
                return Word(text[1:-1])
            case Tree(data="name", children=[Token(value=name)]):
                return self._read_name(name)
        raise ValueError(f"unknown part of a grammar: {node}")

    def _read_name(self, name: str) -> Part:
        if not name.lstrip("_")[:1].isupper():
            return Named(plain_name(name))
        terminals = _RETYPED.get(name, (name,))
        words = [word for terminal in terminals for word in self._words.get(terminal, ())]
        if name in self._literals:
            words = [self._literals[name]]
        words = words or list(_CONTEXT.get(name, ()))
        if not words:
            return Named(plain_name(name))
        return Word(words[0]) if len(words) == 1 else OneOf(tuple(map(Word, words)))


def _join_repeats(parts: list[Part]) -> Part:
    """Return a series in which `x (, x)*` is a repetition with something between its rounds."""
    joined: list[Part] = []
    for part in parts:
        body, optional = part, False
        if isinstance(part, Maybe):
            body, optional = part.part, True
        if joined and isinstance(body, Repeat) and isinstance(body.part, Series):
            *between, last = body.part.parts
            if last == joined[-1] and between and optional:
                joined[-1] = Repeat(last, Series(tuple(between)) if between[1:] else between[0])
                continue
        joined.append(part)
    return joined[0] if len(joined) == 1 else Series(tuple(joined))
