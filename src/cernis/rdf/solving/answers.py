"""Conditions on two steps with functions of several terms: answered once for each row of values.

The step kernel decides conditions on two steps, and it cannot call Python. `FILTER (CONCAT(?a, ?b)
= ?c)` with `?a` of an earlier step is a *question* there: the kernel looks its codes up in a hash
table (`KnownAnswers` of `cernis.engine.graphs.expressions`). If an answer is missing, the kernel
notes the codes, undoes the timestamp and returns; `AnsweredConditions.fill` answers all that are
missing at once, as columns of a table, and the kernel reads the timestamp again.

Cost: some hundred microseconds for a timestamp that meets new values, and some microseconds for
each distinct row of values; a look-up for all others. The table is emptied between batches when it
is large, and when the codes of terms have changed.

Turned down: to check these conditions when matches are listed. Under `;` they decide which row is
the first that fits.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cernis.engine.graphs import expressions as e
from cernis.languages.spaseq.graphs import graph as g
from cernis.rdf.solving.columns import ProgramColumn, has_exists, is_hard, keep_rows, plan_program
from cernis.rdf.solving.terms.programs import Program
from cernis.rdf.solving.terms.values import TermValues

_FIRST, _MANY = 1 << 10, 1 << 20


class AnsweredConditions:
    """The conditions of a query that programs ask Python for, and the answers so far."""

    def __init__(self, values: TermValues, source: str) -> None:
        self.values, self.source = values, source
        self._conditions: list[tuple[ProgramColumn, int]] = []
        """The plan of each condition, and the number of its variables."""
        self._questions: list[list[int]] = []
        self._known = self._era = 0

    @staticmethod
    def takes(condition: g.Expression) -> bool:
        """Whether no program alone decides a condition."""
        return is_hard(condition) and not has_exists(condition)

    def add(
        self, condition: g.Expression, row: Mapping[str, int], kept: Mapping[str, int]
    ) -> Program:
        """Return the program that asks for a condition; `row` and `kept` map variables to columns.

        All are added before the first answer.
        """
        names = tuple(dict.fromkeys(variable.name for variable in g.find_mentions(condition)))
        number = len(self._conditions)
        plan = plan_program(condition, names, self.values, self.source)
        self._conditions.append((plan, len(names)))
        columns = [column for name in names for column in (row.get(name, -1), kept.get(name, -1))]
        self._questions.append([number, *columns])
        self._clear(_FIRST)
        return Program(np.array([(e.ASK, number, 0)], np.int32), 1)

    def _clear(self, size: int) -> None:
        most = max(variables for _, variables in self._conditions)
        fresh = e.new_answers(most, size, len(self._questions))
        for number, question in enumerate(self._questions):
            fresh.questions[number, : len(question)] = question
        self.values.answers = fresh
        self._known, self._era = 0, self.values.era

    def begin(self) -> None:
        """Begin a batch: drop answers that are many, or about other codes."""
        if self._questions and (self._known > _MANY or self._era != self.values.era):
            self._clear(_FIRST)

    def fill(self) -> e.Values:
        """Answer what is missing; return the values with the answers."""
        answers = self.values.answers
        keys = np.unique(answers.missing[: answers.counters[0]], axis=0)
        found = np.zeros(len(keys), np.bool_)
        for number in np.unique(keys[:, 0]).tolist():
            plan, variables = self._conditions[number]
            asked = keys[:, 0] == number
            codes = np.ascontiguousarray(keys[asked, 1 : 1 + variables])
            found[asked] = keep_rows(plan, codes, self.values)
        answers.counters[0] = 0
        if 2 * (self._known + len(keys)) > len(answers.table):
            self._grow(self._known + len(keys))
        e.add_answers(self.values.answers.table, keys, found)
        self._known += len(keys)
        return self.values.update()

    def _grow(self, room: int) -> None:
        """Make a table with room for at least four times as many answers."""
        old, size = self.values.answers, _FIRST
        while size < 4 * room:
            size *= 2
        filled = old.table[old.table[:, 0] != 0]
        table = np.zeros((size, old.table.shape[1]), np.int32)
        keys = np.ascontiguousarray(np.delete(filled, 1, axis=1))
        keys[:, 0] -= 1
        e.add_answers(table, keys, filled[:, 1] == e.TRUE)
        self.values.answers = old._replace(table=table)
