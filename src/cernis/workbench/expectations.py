"""Files of expectations: `failed_logins.test.yaml` beside `failed_logins.ceql`.

A file names a query or rules, and has cases: events, and what is expected in them. It is read by
the node interface of PyYAML, as plain values (`plain_yaml`): every node knows its line, so that
each mistake is reported with file and line, and `--update` replaces the text of one node.
Aliases are refused: a few lines of them can stand for more values than fit in memory.

Cost: linear in the file, which has at most `LARGEST` bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from cernis.errors import CernisError
from cernis.pattern.suggest import find_closest
from cernis.workbench.plain_yaml import PlainLoader, read_key

LARGEST = 1 << 24
_LONGEST_NAME = 1000
SUFFIXES = (".test.yaml", ".test.yml")
_QUERY_SUFFIXES = (".ceql", ".cq", ".spaseq")
_LANGUAGES = ("ceql", "cq", "spaseq")
_SHARED = (
    "params", "tables", "background", "time", "type", "time_unit", "time_zone", "complete",
    "events",
)  # fmt: skip
_FILE_KEYS = ("query", "rules", "lang", *_SHARED, "cases")
_CASE_KEYS = ("name", *_SHARED, "expect")
_EXPECT_KEYS = ("count", "matches", "contains")


@dataclass(frozen=True)
class Expectation:
    """What is expected: how many matches, which ones, and which are among them."""

    count: int | None = None
    matches: tuple[Mapping[str, Any], ...] | None = None
    contains: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class ExpectedCase:
    """One case of a file; `lines` and `span` are those of its name and of its expectation."""

    name: str
    line: int
    settings: Mapping[str, Any]
    """Its own settings and those of the file: events, params, tables, time_zone and others."""
    expect: Expectation | Mapping[str, Expectation]
    """Of a query; of rules, by rule."""
    span: tuple[int, int]
    """Where the text of `expect` stands in the file."""
    indent: int


@dataclass(frozen=True)
class ExpectationFile:
    """The cases of a file, and the query or the rules that they are about."""

    path: Path
    text: str = field(repr=False)
    query: str | Path | None
    rules: str | Path | None
    lang: str
    cases: tuple[ExpectedCase, ...]

    @property
    def used(self) -> Iterator[Path]:
        """The files that decide the outcome, as far as the file names them."""
        yield self.path
        for source in (self.query, self.rules):
            if isinstance(source, Path):
                yield from sorted(source.rglob("*.ceql")) if source.is_dir() else (source,)
        for case in self.cases:
            for key in ("events", "tables", "background"):
                named = _list_values(case.settings.get(key))
                yield from (each for each in named if isinstance(each, Path))


def _list_values(given: Any) -> list[Any]:
    return [*given.values()] if isinstance(given, Mapping) else [given]


def find_files(paths: Sequence[Path]) -> list[Path]:
    """Return the files of expectations among paths and in folders, in order of their names."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(p for p in path.rglob("*") if p.name.endswith(SUFFIXES))
        elif path.is_file():
            found.append(path)
        else:
            raise CernisError(f"{path}: no such file")
    if not found:
        raise CernisError(f"{paths[0]}: no file of expectations (*.test.yaml)")
    return found


def read_file(path: Path) -> ExpectationFile:
    """Read a file of expectations; raise CernisError with file and line for its first mistake."""
    return _FileReader(path).read()


class _FileReader:
    """Reads one file; nodes are checked where they are read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                raw = file.read(LARGEST + 1)
            self.text = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise CernisError(f"{path}: not UTF-8 text at byte {error.start}") from None
        if len(raw) > LARGEST:
            raise CernisError(f"{path}: larger than {LARGEST >> 20} MiB")
        self.loader: Any = None

    def read(self) -> ExpectationFile:
        try:
            for event in yaml.parse(self.text, Loader=PlainLoader):
                if isinstance(event, yaml.events.AliasEvent):
                    raise CernisError(
                        f"{self.path}, line {event.start_mark.line + 1}: aliases are not read; "
                        "settings of the whole file stand before cases"
                    )
            self.loader = PlainLoader(self.text)
            root = self.loader.get_single_node()
            return self._read_root(root)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = 1 if mark is None else mark.line + 1
            raise CernisError(f"{self.path}, line {line}: {_describe(error)}") from None
        except yaml.reader.ReaderError as error:
            line = self.text.count("\n", 0, error.position) + 1
            raise CernisError(
                f"{self.path}, line {line}: a character that YAML does not allow: "
                f"{chr(error.character)!r}"
            ) from None
        except RecursionError:
            raise CernisError(f"{self.path}, line 1: nested too deeply") from None

    def _read_root(self, root: Node | None) -> ExpectationFile:
        if not isinstance(root, MappingNode):
            self._refuse(root, "expected settings and `cases:`")
        nodes = self._read_mapping(root, _FILE_KEYS)
        if "query" in nodes and "rules" in nodes:
            self._refuse(nodes["rules"], "`query` and `rules` do not go together")
        shared = self._read_settings(nodes)
        lang = self._read_text(nodes["lang"]) if "lang" in nodes else "ceql"
        if lang not in _LANGUAGES:
            self._refuse(nodes["lang"], f"no language {lang!r}; there are {', '.join(_LANGUAGES)}")
        rules = self._read_source(nodes["rules"]) if "rules" in nodes else None
        query = self._read_query(nodes["query"]) if "query" in nodes else None
        if query is None and rules is None:
            query = self._find_query(root)
        if "cases" not in nodes:
            self._refuse(root, "`cases` is missing")
        if not isinstance(nodes["cases"], SequenceNode) or not nodes["cases"].value:
            self._refuse(nodes["cases"], "`cases` is a list of cases")
        cases = [self._read_case(each, shared, rules is not None) for each in nodes["cases"].value]
        seen: dict[str, int] = {}
        for case in cases:
            if case.name in seen:
                first = seen[case.name]
                raise CernisError(
                    f"{self.path}, line {case.line}: two cases are named {case.name!r}; "
                    f"the other is in line {first}"
                )
            seen[case.name] = case.line
        if isinstance(query, Path):
            lang = {".cq": "cq", ".spaseq": "spaseq"}.get(query.suffix, lang)
        return ExpectationFile(self.path, self.text, query, rules, lang, tuple(cases))

    def _find_query(self, root: Node) -> Path:
        suffix = next(end for end in (*SUFFIXES, self.path.suffix) if self.path.name.endswith(end))
        stem = self.path.name.removesuffix(suffix)
        for end in _QUERY_SUFFIXES:
            if (path := self.path.with_name(stem + end)).is_file():
                return path
        return self._refuse(
            root, f"names no `query` and no `rules`, and no {stem}.ceql is beside it"
        )

    def _read_query(self, node: Node) -> str | Path:
        """Return the file of a query, or its text."""
        source = self._read_source(node)
        if isinstance(source, Path) and source.is_dir():
            self._refuse(node, f"{node.value} is a folder; `rules` names a folder of rules")
        if isinstance(source, Path) and source.suffix == ".sql":
            self._refuse(
                node, f"{node.value}: statements have no files of expectations; "
                f"queries in {', '.join(_LANGUAGES)} have"
            )  # fmt: skip
        return source

    def _read_source(self, node: Node) -> str | Path:
        """Return the file that is named, or a text."""
        text = self._read_text(node)
        path = self.path.parent / text
        is_text = any(letter.isspace() for letter in text.strip())
        if "\n" not in text and len(text) < _LONGEST_NAME and path.exists():
            return path
        if is_text:
            return text
        return self._refuse(node, f"{text}: no such file (a query as text contains spaces)")

    def _read_case(self, node: Node, shared: Mapping[str, Any], of_rules: bool) -> ExpectedCase:
        if not isinstance(node, MappingNode):
            self._refuse(node, "a case has `name`, `events` and `expect`")
        nodes = self._read_mapping(node, _CASE_KEYS)
        for key in ("name", "expect"):
            if key not in nodes:
                self._refuse(node, f"the case has no `{key}`")
        settings = {**shared, **self._read_settings(nodes)}
        if "params" in shared:
            settings["params"] = {**shared["params"], **settings["params"]}
        if "events" not in settings:
            self._refuse(node, "the case has no `events`")
        expect = self._read_expect(nodes["expect"], of_rules)
        key = next(key for key, _ in node.value if key.value == "expect")
        span = nodes["expect"].start_mark.index, _find_end(nodes["expect"])
        name = " ".join(self._read_text(nodes["name"]).split())
        line = nodes["name"].start_mark.line + 1
        return ExpectedCase(name, line, settings, expect, span, key.start_mark.column + 2)

    def _read_expect(self, node: Node, of_rules: bool) -> Expectation | Mapping[str, Expectation]:
        if not of_rules:
            return self._read_expectation(node)
        if not isinstance(node, MappingNode):
            self._refuse(node, "of rules, `expect` has an expectation for each rule by its name")
        return {name: self._read_expectation(each) for name, each in self._list_items(node)}

    def _read_expectation(self, node: Node) -> Expectation:
        if isinstance(node, SequenceNode):
            return Expectation(matches=self._read_matches(node))
        if isinstance(node, MappingNode):
            nodes = self._read_mapping(node, _EXPECT_KEYS)
            if not nodes:
                self._refuse(node, "expected count, matches or contains")
            count = None
            if "count" in nodes:
                count = self._read_count(nodes["count"])
            matches = self._read_matches(nodes["matches"]) if "matches" in nodes else None
            contains = self._read_matches(nodes["contains"]) if "contains" in nodes else ()
            return Expectation(count, matches, contains)
        if node.value == "none":
            return Expectation(count=0)
        return Expectation(count=self._read_count(node))

    def _read_count(self, node: Node) -> int:
        value = self._construct(node)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            self._refuse(node, "expected none, a number of matches, or a list of matches")
        return value

    def _read_matches(self, node: Node) -> tuple[Mapping[str, Any], ...]:
        if not isinstance(node, SequenceNode):
            self._refuse(node, "matches are a list")
        for each in node.value:
            if not isinstance(each, MappingNode) or not each.value:
                self._refuse(each, "a match is written as {variable: rows, …}")
        return tuple(self._construct(node))

    def _read_settings(self, nodes: Mapping[str, Node]) -> dict[str, Any]:
        settings: dict[str, Any] = {}
        for name in _SHARED:
            if name not in nodes:
                continue
            node = nodes[name]
            match name:
                case "events" | "background":
                    settings[name] = self._read_streams(node)
                case "tables":
                    settings[name] = self._read_named(node, "tables")
                case "params":
                    if not isinstance(node, MappingNode):
                        self._refuse(node, "`params` are values by name")
                    settings[name] = self._construct(node)
                case "complete":
                    settings[name] = self._construct(node)
                    if not isinstance(settings[name], bool):
                        self._refuse(node, "`complete` is true or false")
                case _:
                    settings[name] = self._construct(node)
                    is_absent = name == "type" and settings[name] is None
                    if not isinstance(settings[name], str) and not is_absent:
                        self._refuse(node, f"`{name}` is a text")
        return settings

    def _read_streams(self, node: Node) -> Any:
        return (
            self._read_named(node, "events")
            if isinstance(node, MappingNode)
            else self._read_rows(node)
        )

    def _read_named(self, node: Node, what: str) -> dict[str, Any]:
        if not isinstance(node, MappingNode):
            self._refuse(node, f"`{what}` are given by name")
        return {name: self._read_rows(each) for name, each in self._list_items(node)}

    def _read_rows(self, node: Node) -> Any:
        """Return rows that are written here, a text of CSV or RDF, or the path of a file."""
        if isinstance(node, SequenceNode):
            for each in node.value:
                if not isinstance(each, MappingNode):
                    self._refuse(each, "an event is written as {type: …, attribute: value, …}")
            return self._construct(node)
        text = self._read_text(node)
        if "\n" in text.strip():
            return text
        path = self.path.parent / text
        if not text.strip():
            self._refuse(node, "expected a list of rows ([] for none), CSV on lines, or a file")
        if len(text) >= _LONGEST_NAME or not path.exists():
            self._refuse(node, f"{text}: no such file")
        return path

    def _read_text(self, node: Node) -> str:
        if not isinstance(node, ScalarNode):
            self._refuse(node, "expected a text")
        return str(node.value)

    def _read_mapping(self, node: MappingNode, known: Sequence[str]) -> dict[str, Node]:
        for key, _ in node.value:
            name = read_key(key)
            if name not in known:
                meant = find_closest(name, list(known))
                help_ = f"; did you mean `{meant}`?" if meant else f"; there are {', '.join(known)}"
                self._refuse(key, f"unknown key `{name}`{help_}")
        return dict(self._list_items(node))

    def _list_items(self, node: MappingNode) -> Iterator[tuple[str, Node]]:
        """Yield the keys of a mapping, which differ, and the nodes of their values."""
        seen: set[str] = set()
        for key, value in node.value:
            name = read_key(key)
            if name in seen:
                self._refuse(key, f"`{name}` stands here twice")
            seen.add(name)
            yield name, value

    def _construct(self, node: Node) -> Any:
        return self.loader.construct_object(node, deep=True)

    def _refuse(self, node: Node | None, message: str) -> NoReturn:
        line = 1 if node is None else node.start_mark.line + 1
        raise CernisError(f"{self.path}, line {line}: {message}")


def _describe(error: yaml.MarkedYAMLError) -> str:
    """Return what is wrong, in a sentence of its own."""
    problem = str(error.problem)
    if "\\t" in problem:
        return f"{problem}; YAML is indented by spaces"
    return f"{error.context}, {problem}" if problem.startswith("but ") else problem


def _find_end(node: Node) -> int:
    """Return where a node's text ends; a block's own mark is that of the next token."""
    if isinstance(node, ScalarNode) or node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _find_end(last[1] if isinstance(last, tuple) else last)
