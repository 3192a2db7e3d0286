"""`Rule`: a query with a name; and how rules are read from texts, files and folders.

All mistakes of all rules are collected, so that a person mends them in one go. A folder that
changes while its rules run is read again by `revise_rules`: a rule that is broken is refused, and
stays what it was.

Cost: parsing, some milliseconds for each rule. The plan of a rule is made when it is first needed;
`plan_rules` makes all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from cernis.error_codes import find_kind
from cernis.errors import CernisError, Diagnostic, QueryError, WarningNote
from cernis.integers import count_noun
from cernis.languages.ceql.parse import find_time_zone
from cernis.languages.ceql.rules import ParsedRule, parse_rules
from cernis.pattern.functions import BUILTIN, FUNCTIONS, find_user_functions
from cernis.pattern.query import Pattern
from cernis.pattern.simple_tests import ConstantTest, NeededTests
from cernis.plan.equalities import choose_tests, find_needed, is_paced, why_whole
from cernis.plan.templates import Template, find_template
from cernis.run.query import Query
from cernis.run.requirements import list_columns
from cernis.run.rule_files import Stamp, list_rule_files

_SHOWN = 10
"""So many names are shown of rules that have something in common."""


_MOST_MISTAKES = 20
"""So many mistakes are shown of a rule set."""


class RuleSetError(CernisError):
    """The mistakes of a rule set, of all its rules; its text has the first of them."""

    def __init__(
        self, mistakes: Sequence[str], rules: Sequence[str] = (), codes: Sequence[str] = ()
    ) -> None:
        """`rules` are the names of those that are wrong, where the others can go on without them.

        `codes` are those of the mistakes; without them, the mistakes are ones of queries.
        """
        super().__init__("\n".join(shorten_mistakes(mistakes)))
        self.mistakes = tuple(mistakes)
        self.rules = tuple(rules)
        self.codes = tuple(codes) or tuple(
            find_kind((QueryError.__name__,), mistake).code for mistake in mistakes
        )

    @property
    def code(self) -> str:
        """The code of the first mistake."""
        return self.codes[0]


_CONSTANT = re.compile(r"'(?:[^']|'')*'|\b\d[\w.]*")


@dataclass(frozen=True, eq=False)
class Rule:
    """A query with a name, and the file that it stands in."""

    name: str
    query: Query[Any]
    origin: str = ""
    read_in: list[_ReadText] = field(default_factory=list, repr=False)
    """The text that it was read in last, which is known as long as one of its rules is in use."""

    @cached_property
    def text(self) -> str:
        """The query as text, by which rules are compared."""
        return str(self.query)

    @cached_property
    def shape(self) -> str:
        """The query as it is written, without its constants: rules of one shape may be a family."""
        return _CONSTANT.sub("?", self.query.pattern.source or self.text)

    @cached_property
    def whole(self) -> str:
        """Why its plan has it read every event; empty: it reads those that can move it."""
        return why_whole(self.query.plan)

    @cached_property
    def columns(self) -> frozenset[str]:
        """The columns that it reads before it finds a match; results read others later."""
        return list_columns(self.query.plan)

    @cached_property
    def is_paced(self) -> bool:
        """Whether it reads the events that can move it, and is told the times of all."""
        return is_paced(self.query.plan)

    @cached_property
    def needed(self) -> NeededTests | None:
        """The tests that find every event that can move it; None: any event may."""
        return find_needed(self.query.plan)

    @cached_property
    def equalities(self) -> frozenset[ConstantTest] | None:
        """Tests of which one holds for every event that can move it, where no event is known."""
        return None if self.needed is None else choose_tests(self.needed)

    @cached_property
    def types(self) -> tuple[ConstantTest, ...]:
        """Those of `equalities` that are types."""
        return tuple(test for test in self.equalities or () if test.attribute is None)

    @cached_property
    def template(self) -> Template | None:
        """The query that it may share with rules on other constants."""
        return find_template(self.query.pattern, lambda: self.query.plan)

    @property
    def known_template(self) -> Template:
        """The template of a rule that has one."""
        assert self.template is not None
        return self.template


def read_rules(source: Any) -> list[Rule]:
    """Read rules: a text, a file, a folder, texts in a list, or queries by name.

    All mistakes of all rules are raised together.
    """
    reader = _RuleReader()
    reader.read(source)
    mistakes = [mistake.text for mistake in reader.mistakes]
    if circle := describe_circle(reader.rules):
        mistakes.append(circle)
    if mistakes:
        raise RuleSetError(mistakes)
    if not reader.rules:
        raise CernisError("there are no rules")
    return reader.rules


def sift_rules(source: Any) -> tuple[list[Rule], list[str]]:
    """Read and plan rules; return those that can run, and what is wrong with the others.

    >>> rules, refused = sift_rules("RULE a AS SELECT * WHRE A RULE b AS SELECT * WHERE B")
    >>> [rule.name for rule in rules], refused[0].splitlines()[0]
    (['b'], "rule a: line 1, column 20: unexpected 'WHRE'")
    """
    reader = _RuleReader()
    reader.read(source)
    rules, refused = reader.rules, [mistake.text for mistake in reader.mistakes]
    if circle := describe_circle(rules):
        raise RuleSetError([*refused, circle])
    try:
        plan_rules(rules)
    except RuleSetError as error:
        rules = [rule for rule in rules if rule.name not in error.rules]
        refused += error.mistakes
    if not rules:
        raise RuleSetError(refused) if refused else CernisError("there are no rules")
    return rules, refused


def revise_rules(source: Any, before: Sequence[Rule]) -> tuple[list[Rule], list[str]]:
    """Read rules again, and return them with the mistakes of those that are refused.

    A rule that is broken now stays what it was before, and so do all rules of a file that cannot be
    read. Where no sound set is left, all rules stay.

    >>> [known] = read_rules("RULE a AS SELECT * WHERE A")
    >>> text = "RULE a AS SELECT * WHRE A RULE b AS SELECT * WHERE B"
    >>> rules, refused = revise_rules(text, [known])
    >>> [rule.name for rule in rules], rules[1] is known, refused[0].splitlines()[0]
    (['b', 'a'], True, "rule a: line 1, column 20: unexpected 'WHRE'")
    """
    reader = _RuleReader()
    try:
        reader.read(source)
    except CernisError as error:
        return [*before], [str(error)]
    refused = [mistake.text for mistake in reader.mistakes]
    names = {mistake.rule for mistake in reader.mistakes if mistake.rule is not None}
    files = {mistake.origin for mistake in reader.mistakes if mistake.rule is None}
    stay = [rule for rule in before if rule.name in names or rule.origin in files]
    known = {rule.name for rule in stay}
    rules = [*(rule for rule in reader.rules if rule.name not in known), *stay]
    rules.sort(key=lambda rule: rule.origin)  # as files are read
    if not rules:
        return [*before], [*refused, "there are no rules"]
    if circle := describe_circle(rules):
        return [*before], [*refused, circle]
    return rules, refused


def plan_rules(rules: Iterable[Rule]) -> None:
    """Plan all rules; raise the mistakes of all that cannot be planned together."""
    mistakes, names, codes = [], [], []
    for rule in rules:
        try:
            _ = rule.query.plan
        except CernisError as error:
            mistakes.append(describe_mistake(rule.name, rule.origin, error))
            names.append(rule.name)
            codes.append(error.code)
    if mistakes:
        raise RuleSetError(mistakes, names, codes)


def order_rules(patterns: Sequence[Pattern]) -> tuple[list[int], list[str]]:
    """Return the rules such that each comes after those that it reads, or the streams of a circle.

    >>> from cernis.languages.ceql.parse import parse
    >>> texts = ["SELECT * FROM D WHERE D", "INSERT INTO D SELECT A[x] AS x FROM S WHERE A"]
    >>> order_rules([parse(text) for text in texts])
    ([1, 0], [])
    """
    makers: dict[str, list[int]] = {}
    for number, pattern in enumerate(patterns):
        if pattern.into is not None:
            makers.setdefault(pattern.into, []).append(number)
    order: list[int] = []
    state: dict[int, str] = {}

    def visit(number: int, path: list[str]) -> list[str]:
        state[number] = "open"
        for stream in patterns[number].streams:
            for maker in makers.get(stream, ()):
                if state.get(maker) == "open":
                    return (
                        [*path[path.index(stream) :], stream] if stream in path else [*path, stream]
                    )
                if maker not in state and (circle := visit(maker, [*path, stream])):
                    return circle
        state[number] = "done"
        order.append(number)
        return []

    for number, pattern in enumerate(patterns):
        if number not in state and (
            circle := visit(number, [pattern.into] if pattern.into else [])
        ):
            return [], circle
    return order, []


def describe_circle(rules: Sequence[Rule]) -> str:
    """Return which streams rules make in a circle, in words; empty: none."""
    _, circle = order_rules([rule.query.pattern for rule in rules])
    return f"rules insert into streams in a circle: {' → '.join(circle)}" if circle else ""


def refuse_inserts(rules: Iterable[Rule]) -> None:
    """Raise an error for rules with INSERT INTO, which Spark does not run rule by rule."""
    mistakes = []
    for rule in rules:
        pattern = rule.query.pattern
        if pattern.into is not None:
            span = next(iter(pattern.spans.get("into", ())), None)
            message = f"INSERT INTO {pattern.into} needs rules that run together"
            help_ = "cernis.spark.recognize_rules(…, together=True)"
            error = QueryError([Diagnostic(message, span, suggestion=help_)], pattern.source)
            mistakes.append(describe_mistake(rule.name, rule.origin, error))
    if mistakes:
        raise RuleSetError(mistakes)


def shorten_names(names: Sequence[str]) -> str:
    """Return the first names, and how many there are more."""
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


def shorten_mistakes(mistakes: Sequence[str]) -> Iterator[str]:
    """Yield the first mistakes, and how many there are more.

    >>> [*shorten_mistakes([str(number) for number in range(22)])][-2:]
    ['19', 'and 2 more mistakes']
    """
    yield from mistakes[:_MOST_MISTAKES]
    if (more := len(mistakes) - _MOST_MISTAKES) > 0:
        yield f"and {count_noun(more, 'more mistake')}"


def name_warning(rule: Rule, warning: WarningNote) -> WarningNote:
    """Return a warning with the rule and the file that it is about."""
    named = WarningNote(describe_mistake(rule.name, rule.origin, warning))
    named.code = warning.code
    return named


def describe_mistake(name: str, origin: str, error: CernisError | str) -> str:
    """Return a mistake with the rule and the file that it is in."""
    where = f"{origin}: rule {name}" if origin else f"rule {name}"
    return f"{where}: {error}"


class _Mistake(NamedTuple):
    """What is wrong with a rule, or with a whole file."""

    text: str
    rule: str | None
    origin: str


class _ReadText:
    """The rules of a text without mistakes."""

    def __init__(self, rules: list[ParsedRule]) -> None:
        self.rules = rules


_rules: WeakValueDictionary[tuple[str, str, str], Rule] = WeakValueDictionary()
"""The rules that are in use, by name, text and file: a set that changes keeps the others' plans."""
_texts: WeakValueDictionary[tuple[str, str | None], _ReadText] = WeakValueDictionary()
"""The texts whose rules are in use, by the time zone in which they were parsed: a folder that
changes costs the files that changed."""


_files: WeakValueDictionary[tuple[str, Stamp, str | None, frozenset[str]], _ReadText] = (
    WeakValueDictionary()
)
"""The files with such texts, by what tells whether they or what they mean have changed."""


def _list_user_functions() -> frozenset[str]:
    return frozenset(FUNCTIONS.keys() - BUILTIN)


def _read_rules(text: str, functions: frozenset[str]) -> tuple[_ReadText, bool]:
    """Parse the rules of a text, if it is not one that is in use; return whether it is one now.

    What a text means may change with the values of parameters and the functions of users.
    """
    key, capitals = (text, find_time_zone()), text.upper()
    is_fixed = not any(name in capitals for name in ("$", *functions))
    known = _texts.get(key) if is_fixed else None
    if known is None:
        known = _ReadText(parse_rules(text))
        is_fixed = is_fixed and all(rule.mistake is None for rule in known.rules)
        if is_fixed:
            _texts[key] = known
    return known, is_fixed


class _RuleReader:
    """Reads rules from everywhere, and collects their mistakes."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self.mistakes: list[_Mistake] = []
        self._origins: dict[str, str] = {}
        self._functions = _list_user_functions()

    def read(self, source: Any) -> None:
        match source:
            case Rule():
                self._add(source.name, source.query, source.origin)
            case Path():
                self._read_path(source)
            case str():
                self._read_text(source, "")
            case Mapping():
                for name, query in source.items():
                    self._add(str(name), query, "")
            case Iterable():
                for each in source:
                    self.read(each)
            case _:
                kind = type(source).__name__
                raise CernisError(
                    f"rules are a text, a path, a list of these, or queries by name, not {kind}"
                )

    def _read_path(self, path: Path) -> None:
        if not path.is_dir():
            self._read_file(str(path))
            return
        files = list_rule_files(path)
        if not files:
            raise CernisError(f"{path}: no file of rules (.ceql)")
        for file in files:
            self._read_file(*file)

    def _read_file(self, path: str, stamp: Stamp | None = None) -> None:
        key = None if stamp is None else (path, stamp, find_time_zone(), self._functions)
        if key is not None and (known := _files.get(key)) is not None:
            self._add_all(known, path)
            return
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise CernisError(f"{path}: cannot be read: {error}") from error
        read, is_fixed = self._read_text(text, path)
        if read is not None and key is not None and is_fixed:
            _files[key] = read

    def _read_text(self, text: str, origin: str) -> tuple[_ReadText | None, bool]:
        """Add the rules of a text; return them, and whether they are known from now on."""
        try:
            read, is_fixed = _read_rules(text, self._functions)
        except CernisError as error:
            told = f"{origin}: {error}" if origin else str(error)
            self.mistakes.append(_Mistake(told, None, origin))
            return None, False
        self._add_all(read, origin)
        return read, is_fixed

    def _add_all(self, read: _ReadText, origin: str) -> None:
        for index, rule in enumerate(read.rules):
            where = f"{origin}, line {rule.line}" if origin else f"line {rule.line}"
            if rule.mistake is not None:
                self._refuse(rule.name, origin, rule.mistake)
            else:
                made = self._add(rule.name, rule.pattern, origin, where)
                if made is not None:  # one that was known has an equal pattern
                    read.rules[index] = rule._replace(pattern=made.query.pattern)
                    made.read_in[:] = [read]

    def _add(self, name: str, query: Any, origin: str, where: str = "") -> Rule | None:
        """Add a rule and return it; note what is wrong with it."""
        if name in self._origins:
            first = self._origins[name]
            origins = f": {first} and {where}" if first and where else ""
            self.mistakes.append(_Mistake(f"two rules are named {name!r}{origins}", name, origin))
            return None
        self._origins[name] = where
        text = query if isinstance(query, str) else getattr(query, "source", None)
        known = None if text is None else _rules.get((name, text, origin))
        if known is not None and (query == text or query == known.query.pattern):
            self.rules.append(known)
            return known
        try:
            made = query if isinstance(query, Query) else Query(query)
        except CernisError as error:
            self._refuse(name, origin, error)
            return None
        rule = Rule(name, made, origin)
        self.rules.append(rule)
        if text is not None and not made.unbound and not find_user_functions(text):
            _rules[name, text, origin] = rule
        return rule

    def _refuse(self, name: str, origin: str, error: CernisError) -> None:
        self.mistakes.append(_Mistake(describe_mistake(name, origin, error), name, origin))
