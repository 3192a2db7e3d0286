"""`RuleConditions`: of the events that an index finds for a rule, those that pass all simple tests.

The router finds the events of a rule by one of its conditions, and most of these events fail
another one: `Channel = 'Security' AND EventID = 1 AND CommandLine ILIKE '%mimikatz%'`. Here the
other simple tests are asked as well (`plan.equalities`), for all rules together. Each kind of tests
is looked up once for the events that some rule still asks about: those that equal constants or lie
in ranges first, then the texts. So a rule reads the same events, whichever of its conditions the
index has. Thousands of ranges may hold for an event: each is compared with the events that ask it.

The tests of a rule are a *branching program*: each test has the test that follows if it holds, and
the one that follows if it does not. A kernel walks it for each event and rule, over the tests that
hold for the event, which are stamped with its number.

Cost contract: per batch a look-up of each kind of tests, over the events that ask it; per event and
rule that the index finds, the tests up to the one that decides. Turned down: a call of Arrow for
each condition of a rule, which costs tens of microseconds for one event as for thousands.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cernis.encoding.ranges import read_numbers
from cernis.engine.branches import FAIL, PASS, BranchingPrograms
from cernis.events.batch import Bools, EventBatch, Int64s
from cernis.pattern.simple_tests import ConstantTest, Form, NeededTests, TestUnion
from cernis.run.rules.routing.constants import TestIndex, TestTable, find_column, is_indexed

_UNASKED = PASS
"""A rule that any single test finds has no program."""


class _Truths(NamedTuple):
    """What is known of the tests of some events."""

    may_hold: Bools
    """The tests that were not looked up: they count as if they held."""
    events: list[Int64s]
    tests: list[Int64s]
    """Which tests hold for which events."""


class ProgramTable:
    """The programs of rules, which grow when rules come."""

    def __init__(self) -> None:
        self.tests = TestTable()
        self._known: dict[int, tuple[NeededTests, int]] = {}
        """The first test of each program, by the identity of what it is written from."""
        self._code: tuple[list[int], list[int], list[int]] = ([], [], [])
        self._arrays = BranchingPrograms(*(np.empty(0, np.int64) for _ in range(3)))
        self._begins = np.empty(0, np.int64)
        self._asks = np.zeros((0, 0), np.bool_)
        self._asked_of: list[TestIndex] = []
        self._index_of = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._known)

    def begin(self, needed: NeededTests) -> int:
        """Return the first test of the program of a rule, which is written if it is new."""
        if (known := self._known.get(id(needed))) is not None:
            return known[1]
        size = len(self._code[0])
        first = self._write(needed, PASS, FAIL)
        if first < 0:  # no event can pass, or all do: `x IN {}`
            for array in self._code:
                del array[size:]
            return first
        self._known[id(needed)] = needed, first
        return first

    def _write(self, needed: NeededTests | ConstantTest, then: int, otherwise: int) -> int:
        """Add the program of tests, from the last to the first; return where it begins."""
        if isinstance(needed, ConstantTest):
            step = (self.tests.number(needed), then, otherwise)
            for array, value in zip(self._code, step, strict=True):
                array.append(value)
            return len(self._code[0]) - 1
        is_any = isinstance(needed, frozenset | TestUnion)
        parts = needed if isinstance(needed, frozenset) else needed.parts
        first = otherwise if is_any else then
        for part in reversed([*parts]):
            first = self._write(part, *((then, first) if is_any else (first, otherwise)))
        return first

    @property
    def programs(self) -> BranchingPrograms:
        """All programs as arrays."""
        known = len(self._arrays.test)
        if known < len(self._code[0]):
            pairs = zip(self._arrays, self._code, strict=True)
            self._arrays = BranchingPrograms(*(np.append(a, b[known:]) for a, b in pairs))
        return self._arrays

    def list_asking(self, begins: Int64s) -> Bools:
        """Return which indexes of tests the programs ask that begin with some tests."""
        test, indexes = self.programs.test, self.tests.indexes
        if len(self._asks) != len(self._known) or self._asked_of is not indexes:
            self._asked_of = indexes
            self._begins = np.array([begin for _, begin in self._known.values()], np.int64)
            index_of = np.empty(self.tests.size, np.int64)
            for row, (_, _, numbers) in enumerate(indexes):
                index_of[numbers] = row
            self._index_of = index_of[test]
            self._asks = np.zeros((len(self._known), len(indexes)), np.bool_)
            lengths = np.diff(self._begins, prepend=-1)
            self._asks[np.repeat(np.arange(len(lengths)), lengths), self._index_of] = True
        return self._asks[np.searchsorted(self._begins, begins)]

    def list_asked(self, begins: Int64s, index: int) -> tuple[Int64s, Int64s]:
        """Return the tests of an index that each program asks, and how many each one does."""
        steps = np.flatnonzero(self._index_of == index)
        number = np.searchsorted(self._begins, begins)
        first = np.searchsorted(steps, np.append(-1, self._begins)[number], side="right")
        counts = np.searchsorted(steps, begins, side="right") - first
        before = np.cumsum(counts) - counts
        at = np.repeat(first - before, counts) + np.arange(counts.sum())
        return self.programs.test[steps[at]], counts


class RuleConditions:
    """The programs of rules, by target and owner as a router has them."""

    def __init__(
        self,
        wanted: Mapping[int, Mapping[int | None, NeededTests]],
        table: ProgramTable,
        type_column: str,
    ) -> None:
        self._table, self._type_column = table, type_column
        self._entries: dict[int, Int64s] = {}
        """The first test of each rule: by target, at its owner."""
        for target, rules in wanted.items():
            own = np.full(max(owner or 0 for owner in rules) + 1, _UNASKED, np.int64)
            for owner, needed in rules.items():
                if not isinstance(needed, frozenset):
                    own[owner or 0] = table.begin(needed)
            self._entries[target] = own

    def narrow(
        self, batch: EventBatch, found: Mapping[int, tuple[Int64s, Int64s | None]]
    ) -> dict[int, Bools]:
        """Return which of the events that targets may read pass the tests of their rules.

        Targets have the indices of events and the owners of these. Targets without a program are
        left out.
        """
        asked: dict[int, Int64s] = {}
        for target, (at, owners) in found.items():
            entries = self._entries[target]
            own = np.full(len(at), entries[0]) if owners is None else entries[owners]
            if (own != _UNASKED).any():
                asked[target] = own
        if not asked:
            return {}
        entries = np.concatenate([*asked.values()])
        at = np.concatenate([found[target][0] for target in asked])
        passed = entries == _UNASKED
        open_ = np.flatnonzero(entries >= 0)
        open_ = open_[np.argsort(at[open_], kind="stable")]
        passed[self._find_passing(batch, at, entries, open_)] = True
        cuts = np.cumsum([len(own) for own in asked.values()])[:-1]
        return dict(zip(asked, np.split(passed, cuts), strict=True))

    def _find_passing(self, batch: EventBatch, at: Int64s, entries: Int64s, left: Int64s) -> Int64s:
        """Return those of the pairs that are `left` which pass all tests; they are by event."""
        which = np.zeros(len(batch), np.int16) if batch.which is None else batch.which
        parts = range(len(batch.parts))
        several = [left[which[at[left]] == part] for part in parts] if len(parts) > 1 else [left]
        kept = []
        for (_, table), own in zip(batch.parts, several, strict=True):
            truths = _Truths(np.ones(self._table.tests.size, np.bool_), [], [])
            for is_text in (False, True):
                if len(own):
                    self._look_up(table, batch.index, (at[own], entries[own]), truths, is_text)
                    own = own[self._walk(at[own], entries[own], truths)]
            kept.append(own)
        return np.concatenate(kept)

    def _look_up(
        self,
        table: pa.Table,
        index: Int64s | None,
        pairs: tuple[Int64s, Int64s],
        truths: _Truths,
        is_text: bool,
    ) -> None:
        """Find the tests that hold for the events of pairs: those of texts, or the others."""
        indices, begins = pairs
        asks = self._table.list_asking(begins)
        for number, (kind, constants, tests) in enumerate(self._table.tests.indexes):
            if (kind.form is Form.PART) is not is_text:
                continue
            asking = indices[asks[:, number]]
            column = find_column(table, kind, self._type_column) if len(asking) else None
            if not len(asking) or (column is not None and not is_indexed(column, kind)):
                continue
            truths.may_hold[tests] = False
            if column is None:
                continue
            events = asking[np.flatnonzero(np.diff(asking, prepend=-1))]
            values = column.take(pa.array(events if index is None else index[events]))
            if constants.ranges is None:
                found, which = constants.find(values)
                truths.events.append(events[found])
                truths.tests.append(tests[which])
            else:
                asked, counts = self._table.list_asked(begins[asks[:, number]], number)
                own = np.repeat(asking, counts)
                numbers = read_numbers(values)[np.searchsorted(events, own)]
                held = constants.ranges.holds(numbers, np.searchsorted(tests, asked))
                truths.events.append(own[held])
                truths.tests.append(asked[held])

    def _walk(self, indices: Int64s, begins: Int64s, truths: _Truths) -> Bools:
        """Return which pairs pass, by what is known."""
        nothing = np.empty(0, np.int64)
        events, tests = (np.concatenate([nothing, *each]) for each in truths[1:])
        order = np.argsort(events, kind="stable")
        hits = (events[order], tests[order])
        return self._table.programs.find_passing((indices, begins), hits, truths.may_hold)
