"""The corpus of SPAseQ: queries with their streams and the answers worked out by hand.

Every executor must give these answers. The cases stand in `corpus/spaseq/*.toml`, one file per
topic, and name nothing of the engine, so that any implementation can read them:

* `query`: SPAseQ. `:` is `http://example.org/`, there and in all terms; it need not be declared.
* `streams`: an event a line, `stream time triples`, in order of time. Times are seconds; triples
  are in a small part of Turtle.
* `background`: the triples of each graph, by its name.
* `matches`: one a line, `start..end events … bindings …`: `1..3 S.0 S.2 ?a=:x ?l=(:y :z)`.
* `graphs`: for CONSTRUCT, the triples of each match.

`Case.check` compares an answer with these. `Case.files` and `Case.knowledge` are what an
executor reads, as N-Quads and N-Triples.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from typing import Any, Protocol

from cernis.languages.spaseq import parse
from cernis.languages.spaseq.graphs.graph import find_template_variables
from cernis.languages.spaseq.query import SelectedVariable, SpaseqQuery
from cernis.testing.spaseq.oracle import SpaseqMatch, find_matches
from tools.cases.corpus import read_case_files

Triple = tuple[str, str, str]
Event = tuple[int, Sequence[Triple]]

EXAMPLE = "http://example.org/"
SECOND = 1_000_000_000
_XSD = "http://www.w3.org/2001/XMLSchema#"
_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_GENERATED = "<http://www.w3.org/ns/prov#generatedAtTime>"
_WORD = r'"(?:[^"\\]|\\.)*"(?:@[\w-]+|\^\^\S+)?|[^\s"()]+'
_TURTLE = re.compile(rf"<<\(|\)>>|[.;,](?=\s|$)|{_WORD}")
_MATCH = re.compile(r"(-?\d+)\.\.(-?\d+)((?:\s+\w+\.\d+)+)(.*)")
_BINDING = re.compile(rf"\?(\w+)=(?:\(([^)]*)\)|({_WORD}))")
_LABEL = re.compile(r"_:[\w-]+[.]")


class ReportedMatch(Protocol):
    """A match as an executor reports it."""

    @property
    def start_ts(self) -> Any: ...
    @property
    def end_ts(self) -> Any: ...
    @property
    def events(self) -> Sequence[Sequence[Any]]: ...
    @property
    def bindings(self) -> Mapping[str, str | Sequence[str]]: ...


def comparable_match(match: ReportedMatch) -> SpaseqMatch:
    """Return a match in comparable form; blank nodes by their labels alone."""
    events = tuple((str(stream), int(number)) for stream, number in match.events)
    return SpaseqMatch(match.start_ts, match.end_ts, events, _sort_bindings(match.bindings))


def _sort_bindings(
    bindings: Mapping[str, str | Sequence[str]],
) -> tuple[tuple[str, str | tuple[str, ...]], ...]:
    bound = {
        name: _drop_scope(value) if isinstance(value, str) else tuple(map(_drop_scope, value))
        for name, value in bindings.items()
    }
    return tuple(sorted(bound.items()))


@dataclass(frozen=True)
class SpaseqCase:
    """A query, its streams, and its expected answer."""

    topic: str
    name: str
    query: str
    streams: Mapping[str, Sequence[Event]]
    matches: tuple[SpaseqMatch, ...]
    background: Mapping[str, Sequence[Triple]] = field(default_factory=dict)
    graphs: tuple[frozenset[Triple], ...] | None = None
    note: str = ""

    @cached_property
    def parsed(self) -> SpaseqQuery:
        return parse(self.query)

    def oracle(self) -> set[SpaseqMatch]:
        """Return the matches by the definition."""
        query = _as_select(self.parsed)
        streams = {
            name: [(time * SECOND, triples) for time, triples in events]
            for name, events in self.streams.items()
        }
        begin = query.tumbling_from
        assert not isinstance(begin, str), "times of the corpus are numbers"
        origin = None if begin is None else begin * SECOND
        known = {f"<{name}>": triples for name, triples in self.background.items()}
        return {
            one._replace(
                start=one.start // SECOND,
                end=one.end // SECOND,
                bindings=_sort_bindings(dict(one.bindings)),
            )
            for one in find_matches(query, streams, known, origin)
        }

    def files(self) -> dict[str, bytes]:
        """Return each stream as N-Quads; times count seconds."""
        return {name: write_stream(name, events) for name, events in self.streams.items()}

    def knowledge(self) -> dict[str, bytes]:
        """Return each background graph as N-Triples, by its name."""
        return {name: write_background(triples) for name, triples in self.background.items()}

    def check(self, got: Iterable[SpaseqMatch]) -> None:
        """Raise unless these are the matches."""
        given = Counter(one._replace(hidden=()) for one in got)
        wanted = Counter(self.matches)
        lines = [
            f"{title} {_describe_match(one)}"
            for title, matches in (("missing", wanted - given), ("surplus", given - wanted))
            for one in sorted(matches.elements(), key=str)
        ]
        if lines:
            head = f"{self.topic}: {self.name}\n{self.query}\n"
            raise AssertionError("\n".join([head, *self._events(), *lines]))

    def _events(self) -> Iterator[str]:
        for name, events in self.streams.items():
            for number, (time, triples) in enumerate(events):
                yield f"{name}.{number} at {time}: {' . '.join(map(' '.join, triples))}"


def _as_select(query: SpaseqQuery) -> SpaseqQuery:
    """Turn CONSTRUCT into the SELECT of its template's variables, which tell matches apart."""
    if query.construct is None:
        return query
    named = dict.fromkeys(one.name for one in find_template_variables(query.construct))
    chosen = tuple(SelectedVariable(name, name) for name in named)
    return replace(query, construct=None, select=chosen)


def _describe_match(match: SpaseqMatch) -> str:
    events = " ".join(f"{stream}.{number}" for stream, number in match.events)
    bound = " ".join(f"?{name}={value}" for name, value in match.bindings)
    return f"{match.start}..{match.end} {events} {bound}"


# ---------------------------------------------------------------- as RDF text


def write_stream(name: str, events: Sequence[Event]) -> bytes:
    """Write a stream as N-Quads: a graph for each event, its time in the default graph.

    >>> print(write_stream("S", [(5, [("<urn:a>", "<urn:p>", '"x"')])]).decode().splitlines()[1])
    <urn:a> <urn:p> "x" <http://example.org/S/0/event> .
    """
    lines = []
    for number, (time, triples) in enumerate(events):
        graph = f"<{EXAMPLE}{name}/{number}/event>"
        lines.append(f'{graph} {_GENERATED} "{time}"^^<{_XSD}integer> .')
        lines += [f"{_write_triple(triple)} {graph} ." for triple in triples]
    return "".join(f"{line}\n" for line in lines).encode()


def write_background(triples: Sequence[Triple]) -> bytes:
    """Write a graph as N-Triples."""
    return "".join(f"{_write_triple(triple)} .\n" for triple in triples).encode()


def _write_triple(triple: Triple) -> str:
    return " ".join(map(_drop_scope, triple))


def _drop_scope(term: str) -> str:
    """Return a blank node without the name of its file.

    >>> _drop_scope("_:f0.b"), _drop_scope("_:S1.b"), _drop_scope("_:b")
    ('_:b', '_:b', '_:b')
    """
    return _LABEL.sub("_:", term) if term.startswith("_:") else term


# -------------------------------------------------------------------- reading


@cache
def read_cases() -> tuple[SpaseqCase, ...]:
    """Return every case of the corpus, by topic.

    >>> len(read_cases()) > 60
    True
    """
    keys = {one.name for one in fields(SpaseqCase)} - {"topic"}
    entries = read_case_files("corpus/spaseq", keys)
    return tuple(_read_case(topic, entry) for topic, entry in entries)


def _read_case(topic: str, entry: Mapping[str, Any]) -> SpaseqCase:
    query = f"PREFIX : <{EXAMPLE}>\n{entry['query'].strip()}"
    names = [name for name, _ in parse(query).streams]
    return SpaseqCase(
        topic=topic,
        name=entry["name"],
        query=query,
        streams=_read_streams(names, entry["streams"]),
        matches=tuple(map(_read_match, entry["matches"])),
        background={
            name: read_triples(text, "kb") for name, text in entry.get("background", {}).items()
        },
        graphs=tuple(frozenset(read_triples(text, "")) for text in entry["graphs"])
        if "graphs" in entry
        else None,
        note=entry.get("note", ""),
    )


def _read_streams(names: Iterable[str], text: str) -> dict[str, list[Event]]:
    streams: dict[str, list[Event]] = {name: [] for name in names}
    for line in text.strip().splitlines():
        name, time, graph = line.split(None, 2)
        streams[name].append((int(time), read_triples(graph, name)))
    return streams


def read_triples(text: str, scope: str) -> list[Triple]:
    """Read triples of a small part of Turtle; `scope` tells blank nodes of several files apart.

    >>> [" ".join(triple) for triple in read_triples(":a :p :b , 5 ; a :C .", "")][1]
    '<http://example.org/a> <http://example.org/p> "5"^^<http://www.w3.org/2001/XMLSchema#integer>'
    """
    read: list[Triple] = []
    nodes: list[str] = []
    for word in (*_TURTLE.findall(text), "."):
        if word in (".", ";", ","):
            if len(nodes) == 3:
                read.append((nodes[0], nodes[1], nodes[2]))
            elif nodes:
                raise ValueError(f"not triples: {text}")
            nodes = nodes[: {".": 0, ";": 1, ",": 2}[word]]
        elif word == ")>>":
            nodes[-4:] = [f"{' '.join(nodes[-4:])} )>>"]
        else:
            nodes.append(_read_term(word, scope))
    return read


def _read_term(word: str, scope: str = "") -> str:
    """Return a term in N-Triples form.

    >>> _read_term(":a"), _read_term('"a"@en'), _read_term("_:b", "S")
    ('<http://example.org/a>', '"a"@en', '_:S.b')
    """
    if word == "a":
        return _TYPE
    if word.startswith(":"):
        return f"<{EXAMPLE}{word[1:]}>"
    if word.startswith("_:"):
        return f"_:{scope}.{word[2:]}" if scope else word
    if word in ("true", "false"):
        return f'"{word}"^^<{_XSD}boolean>'
    if re.fullmatch(r"[+-]?\d+", word):
        return f'"{word}"^^<{_XSD}integer>'
    if re.fullmatch(r"[+-]?\d*\.\d+", word):
        return f'"{word}"^^<{_XSD}decimal>'
    if "^^xsd:" in word:
        value, _, kind = word.partition("^^xsd:")
        return f"{value}^^<{_XSD}{kind}>"
    return word


def _read_match(text: str) -> SpaseqMatch:
    """Read a line of `matches`.

    >>> _read_match("1..3 S.0 ?l=(:a :b)").bindings
    (('l', ('<http://example.org/a>', '<http://example.org/b>')),)
    """
    parts = _MATCH.fullmatch(text)
    if not parts or _BINDING.sub("", parts[4]).strip():
        raise ValueError(f"not a match: {text}")
    events = [one.rpartition(".") for one in parts[3].split()]
    bound = {
        name: _read_term(word)
        if word
        else tuple(_read_term(one) for one in re.findall(_WORD, several))
        for name, several, word in _BINDING.findall(parts[4])
    }
    return SpaseqMatch(
        int(parts[1]),
        int(parts[2]),
        tuple((stream, int(number)) for stream, _, number in events),
        tuple(sorted(bound.items())),
    )
