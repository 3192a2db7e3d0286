"""Cut texts into tokens and parse them, with the terminals and the tables that Lark builds.

A rule that is recognized calls the method of a reader that has its name: there is no tree. Lark's
own loop makes a node of each rule, in several calls that find its location and its children, and a
transformer walks the tree: two thirds of the time that it took to read a rule set. A chain of rules
that each stand for one other, as levels of precedence do, is one step here.

Linear in the text. Without recursion, so that the depth of a text costs no stack. The tables are
prepared state by state, when a text first comes there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from lark import Lark
from lark.grammar import Rule, Terminal
from lark.lexer import BasicLexer
from lark.parsers.lalr_analysis import Shift

from cernis.errors import Span
from cernis.languages.text.tokens import Token

END = "$END"
"""The terminal after the last token."""

_new_span = tuple.__new__


class Lexer:
    """Cuts texts; `retype` gives words of a terminal another one."""

    def __init__(self, lark: Lark, retype: Mapping[str, Callable[[str], str]]) -> None:
        ordered = BasicLexer(lark.lexer_conf)
        self._pattern = re.compile(
            "|".join(f"(?P<{one.name}>{one.pattern.to_regexp()})" for one in ordered.terminals),
            ordered.g_regex_flags,
        )
        self._ignored = ordered.ignore_types
        self._retype = retype

    def cut(self, text: str, most: int | None = None) -> list[Token]:
        """Return the tokens of a text; only the first of them, if there are more than `most`."""
        ignored, retype = self._ignored, self._retype
        known: dict[tuple[str, str], str] = {}
        tokens: list[Token] = []
        for found in self._pattern.finditer(text):
            kind: str = found.lastgroup  # type: ignore[assignment]  # one of them has matched
            if kind in ignored:
                continue
            word = found[0]
            if kind in retype:
                key = kind, word
                if (changed := known.get(key)) is None:
                    changed = known[key] = retype[kind](word)
                kind = changed
            begin, end = found.span()
            tokens.append(Token(kind, word, begin, end))
            if len(tokens) == most:
                break
        return tokens


class _Reduction(NamedTuple):
    """A rule of the grammar, and what is made of its parts."""

    size: int
    """The number of symbols on its right side."""
    origin: str
    method: str
    """The method of a reader that reads it; empty: its parts become those of the rule around it."""
    takes: tuple[tuple[int, bool, int], ...] | None
    """The parts that count: the index, whether it is a list of parts, and how many absent ones
    stand before it. None: all of them."""
    absent: int
    """How many absent parts stand at the end."""
    passes_on: bool
    """Whether one part alone is passed on as it is."""
    inside: str
    """The one rule that it stands for; empty: it is no such link of a chain."""


class Parser:
    """Runs the tables of a grammar."""

    def __init__(self, lark: Lark) -> None:
        self._configurations = {
            start: lark.parse_interactive(start=start).parser_state.parse_conf
            for start in lark.options.start
        }
        self._states = next(iter(self._configurations.values())).states
        self._has_absent = lark.options.maybe_placeholders
        self._actions: dict[int, dict[str, int | _Reduction]] = {}
        self._reductions: dict[int, _Reduction] = {}
        self._settled: dict[tuple[int, str, str], tuple[int, bool]] = {}

    def run(
        self,
        start: str,
        tokens: Sequence[Token],
        reader: object,
        recover: Callable[[int], None],
    ) -> Any:
        """Return what the reader makes of a text that is a `start`.

        `recover` is called with the index of a token that may not stand where it does. It gives
        the token another terminal, or raises an error.
        """
        first, last = self._start(start)
        prepared, settled = self._actions, self._settled
        methods: dict[str, Any] = {}
        states = [first]
        values: list[Any] = []
        begins: list[int] = []  # where each value begins in the text; -1: it has no token
        ends: list[int] = []
        for number, token in enumerate([*tokens, Token(END, "", -1, -1)]):
            kind = token.type
            while True:
                state = states[-1]
                actions = prepared.get(state) or self._prepare(state)
                action: Any = actions.get(kind)
                if action.__class__ is int:
                    states.append(action)
                    values.append(token)
                    begins.append(token.start_pos)
                    ends.append(token.end_pos)
                    break
                if action is None:
                    recover(number)
                    kind = token.type
                    continue
                size, origin, method, takes, absent, passes_on, _ = action
                begin = end = -1
                parts: list[Any] = []
                if size == 1:
                    del states[-1]
                    parts = [values.pop()]
                    begin, end = begins.pop(), ends.pop()
                elif size:
                    del states[-size:]
                    parts = values[-size:]
                    del values[-size:]
                    begin = next((one for one in begins[-size:] if one >= 0), -1)
                    end = max(ends[-size:])
                    del begins[-size:], ends[-size:]
                if takes is not None:
                    parts = _take_parts(parts, takes, absent)
                value: Any = parts
                if method and not (passes_on and len(parts) == 1):
                    read = methods.get(method)
                    if read is None:
                        read = methods[method] = getattr(reader, method, _keep)
                    value = read(_new_span(Span, (begin, end) if begin >= 0 else (0, 0)), parts)
                elif method:
                    value = parts[0]
                state = states[-1]
                step = settled.get((state, origin, kind))
                if step is None:
                    step = self._settle(state, origin, kind)
                state, wraps = step
                if state == last and kind == END:
                    return value
                states.append(state)
                values.append([value] if wraps else value)
                begins.append(begin)
                ends.append(end)
        raise AssertionError("the end of a text is an action, or a mistake")

    def _start(self, start: str) -> tuple[int, int]:
        """Return the state in which a text begins, and the one in which it is whole."""
        configuration = self._configurations[start]
        return configuration.start_state, configuration.end_state

    def _prepare(self, state: int) -> dict[str, int | _Reduction]:
        """Return the actions of a state by terminal: the state after a token, or a rule."""
        self._actions[state] = found = {
            name: to if action is Shift else self._reduce(to)
            for name, (action, to) in self._states[state].items()
        }
        return found

    def _reduce(self, rule: Rule) -> _Reduction:
        reduction = self._reductions.get(id(rule))
        if reduction is None:
            reduction = self._reductions[id(rule)] = _read_rule(rule, self._has_absent)
        return reduction

    def _settle(self, state: int, origin: str, kind: str) -> tuple[int, bool]:
        """Return the state at the end of a chain of rules, and whether the value became a list.

        The chain begins with a rule that was recognized in a state, before a terminal.
        """
        after, wraps = self._states[state][origin][1], False
        while True:
            action = (self._actions.get(after) or self._prepare(after)).get(kind)
            if not isinstance(action, _Reduction) or not action.inside:
                break
            wraps = wraps or (action.method == "" and not action.inside.startswith("_"))
            after = self._states[state][action.origin][1]
        self._settled[state, origin, kind] = after, wraps
        return after, wraps

    def find_accepted(self, start: str, tokens: Iterable[Token]) -> set[str]:
        """Return the terminals that may follow the first tokens of a text."""
        first, last = self._start(start)
        states = [first]
        for token in tokens:
            self._follow(states, token.type, last)
        names = {name for name in self._states[states[-1]] if name.isupper()}
        return {name for name in names if self._follow([*states], name, last)}

    def _follow(self, states: list[int], kind: str, last: int) -> bool:
        """Change the states by a terminal; return whether it may follow."""
        while True:
            state = states[-1]
            action = (self._actions.get(state) or self._prepare(state)).get(kind)
            if not isinstance(action, _Reduction):
                states += [] if action is None else [action]
                return action is not None
            del states[len(states) - action.size :]
            states.append(self._states[states[-1]][action.origin][1])
            if states[-1] == last and kind == END:
                return True


def _read_rule(rule: Rule, has_absent: bool) -> _Reduction:
    """Return what is made of the parts of a rule, by the options of its grammar."""
    options, origin = rule.options, str(rule.origin.name)
    is_absent = options.empty_indices if has_absent else ()
    absent, takes = 0, []
    symbols = iter(enumerate(rule.expansion))
    for gap in is_absent or (False,) * len(rule.expansion):
        if gap:
            absent += 1
            continue
        index, symbol = next(symbols)
        if options.keep_all_tokens or not (isinstance(symbol, Terminal) and symbol.filter_out):
            is_list = not symbol.is_term and symbol.name.startswith("_")
            takes.append((index, is_list, absent))
            absent = 0
    is_whole = not any(is_absent) and len(takes) == len(rule.expansion)
    is_whole = is_whole and not any(is_list for _, is_list, _ in takes)
    is_inline = origin.startswith("_")
    passes_on = options.expand1 and not rule.alias
    inside = ""
    if len(rule.expansion) == 1 and not rule.expansion[0].is_term and not rule.alias:
        name = str(rule.expansion[0].name)
        is_link = is_inline or (passes_on and not name.startswith("_"))
        inside = name if is_link and not any(is_absent) else ""
    return _Reduction(
        len(rule.expansion),
        origin,
        "" if is_inline else str(rule.alias or origin),
        None if is_whole else tuple(takes),
        absent,
        passes_on,
        inside,
    )


def _take_parts(
    parts: list[Any], takes: tuple[tuple[int, bool, int], ...], absent: int
) -> list[Any]:
    """Return the parts that count, with None for each that is absent."""
    found: list[Any] = []
    for index, is_list, before in takes:
        if before:
            found += (None,) * before
        if not is_list:
            found.append(parts[index])
        elif found:
            found += parts[index]
        else:  # which no other rule has: a list of many is not copied for each of them
            found = parts[index]
    if absent:
        found += (None,) * absent
    return found


def _keep(span: Span, parts: list[Any]) -> list[Any]:
    """Read a rule for which a reader has no method."""
    return parts
