"""`ConstantIndex`: which of many constants the values of a column equal, have in them, or lie in.

All constants of a kind that rules compare an attribute with are one hash table (`encoding.lookup`),
all texts that they look for in it one automaton (`encoding.literals`), and all ranges one tree
(`encoding.ranges`).

Cost contract: one look-up for each value, however many constants there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cernis.encoding.literals import LiteralSearch, fold_text
from cernis.encoding.lookup import Lookup
from cernis.encoding.ranges import RangeSearch
from cernis.events.batch import Int64s
from cernis.events.evaluation.attributes import attribute
from cernis.events.source import kind_of
from cernis.pattern.simple_tests import Constant, ConstantTest, Form, Interval
from cernis.run.rules.routing.layers import are_few
from cernis.schema import Kind

_KINDS: dict[Kind, tuple[type[Constant], ...]] = {
    Kind.INT: (int, float),
    Kind.FLOAT: (int, float),
    Kind.STRING: (str,),
    Kind.BOOL: (bool,),
}
"""The constants that values of a kind can equal."""


class IndexKind(NamedTuple):
    """What the constants of an index have in common."""

    attribute: str | None
    type: type[Constant]
    form: Form

    @staticmethod
    def of(test: ConstantTest) -> IndexKind:
        kind = float if isinstance(test.value, Interval) else type(test.value)
        return IndexKind(test.attribute, kind, test.form)


class ConstantIndex:
    """Finds the constants of one kind that the values of a column have."""

    def __init__(self, form: Form, constants: Sequence[Constant]) -> None:
        self.constants = constants
        self._form = form
        self._search: LiteralSearch | RangeSearch | Lookup
        if form is Form.PART:
            self._search = LiteralSearch([str(each) for each in constants])
        elif form is Form.RANGE:
            self._search = RangeSearch([each for each in constants if isinstance(each, Interval)])
        else:
            self._search = Lookup([pa.chunked_array([pa.array(constants)])])

    def find(self, column: pa.ChunkedArray) -> tuple[Int64s, Int64s]:
        """Return rows, ascending, and the number of a constant of each; some rows have several."""
        if not isinstance(self._search, Lookup):
            return self._search.find(column)
        numbers = self._search.find([fold_text(column) if self._form is Form.FOLDED else column])
        rows = np.flatnonzero(numbers >= 0)
        return rows, numbers[rows]

    def count(self, column: pa.ChunkedArray) -> Int64s:
        """Return how many values have each constant."""
        if self.ranges is not None:
            return self.ranges.count(column)
        return np.bincount(self.find(column)[1], minlength=len(self.constants))

    @property
    def ranges(self) -> RangeSearch | None:
        """The ranges, if the constants are some."""
        return self._search if isinstance(self._search, RangeSearch) else None


TestIndex = tuple[IndexKind, ConstantIndex, Int64s]
"""A kind, an index of constants, and the numbers of their tests."""


class TestTable:
    """Tests that rules may be found by, with a number each, and indexes of their constants.

    It grows when rules come: the tests that are new have small indexes of their own, until there
    are many of them.
    """

    __test__ = False

    def __init__(self) -> None:
        self.size = 0
        self._kinds: dict[IndexKind, dict[Constant, int]] = {}
        self._recent: dict[IndexKind, dict[Constant, int]] = {}
        """The tests that came after those of the large indexes."""
        self._large: list[TestIndex] = []
        self._indexes: list[TestIndex] = []
        self._settled = self._indexed = 0

    def number(self, test: ConstantTest) -> int:
        """Return the number of a test, which is added if it is new."""
        kind = IndexKind.of(test)
        known = self._kinds.setdefault(kind, {})
        if (number := known.get(test.value)) is None:
            number = known[test.value] = self.size
            self._recent.setdefault(kind, {})[test.value] = number
            self.size += 1
        return number

    @property
    def indexes(self) -> list[TestIndex]:
        """Kinds, an index of constants of each, and the numbers of their tests.

        It is another list when there are new tests.
        """
        if self._indexed < self.size:
            self._indexed = self.size
            if not are_few(self.size - self._settled, self._settled):
                self._large, self._settled = _index_tests(self._kinds), self.size
                self._recent = {}
            self._indexes = [*self._large, *_index_tests(self._recent)]
        return self._indexes


def _index_tests(kinds: Mapping[IndexKind, Mapping[Constant, int]]) -> list[TestIndex]:
    return [
        (kind, ConstantIndex(kind.form, [*known]), np.array([*known.values()], np.int64))
        for kind, known in kinds.items()
    ]


def find_column(table: pa.Table, kind: IndexKind, type_column: str) -> pa.ChunkedArray | None:
    """Return the column of an index; None: no value in it equals any of the constants."""
    column = attribute(table, tuple((kind.attribute or type_column).split(".")))
    if column is None or kind.attribute is None:
        return column
    types = _KINDS.get(kind_of(column.type))
    is_other = types is not None and kind.type not in types
    return None if is_other or pa.types.is_null(column.type) else column


def is_indexed(column: pa.ChunkedArray, kind: IndexKind) -> bool:
    """Return whether values equal constants as these are; not times, which text may denote."""
    types = _KINDS.get(kind_of(column.type))
    if types is None or (kind.attribute is None and types != (str,)):
        return False
    # 0.1 is the decimal 0.1, and the float beside it
    return not (pa.types.is_decimal(column.type) and kind.type is float)
