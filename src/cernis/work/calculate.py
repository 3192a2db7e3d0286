"""Attributes that Spark's workers calculate on columns: keys that Catalyst would compute otherwise.

Most functions of a key are Catalyst's own. The others (regular expressions, the mathematical
library, functions of users) cross to Python once more, before the shuffle, and have the bits of the
engine.

Cost contract: one pass in Arrow for each operation, and the columns that it reads travel twice.
Does not import Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from cernis.events.evaluation.attributes import read_calculated
from cernis.events.evaluation.evaluate import calculate_column
from cernis.pattern.functions import FUNCTIONS, find_user_functions

Path = tuple[str, ...]


class Calculator:
    """Gives a calculated attribute of columns; brings the functions of users that it calls."""

    def __init__(self, name: str, paths: Iterable[Path]) -> None:
        self.name, self.paths = name, tuple(paths)
        self.functions = find_user_functions(name)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        FUNCTIONS.update(self.functions)

    def calculate(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Return the attribute of each row."""
        value = read_calculated(self.name)
        assert value is not None
        known = dict(zip(self.paths, columns, strict=True))
        return calculate_column(value, known.get, len(columns[0]))

    def find_type(self, types: Sequence[pa.DataType]) -> pa.DataType | None:
        """Return the type of the attribute for columns of these types; None: it is always NULL.

        >>> Calculator("LENGTH(u)", [("u",)]).find_type([pa.string()])
        DataType(int64)
        """
        type_ = self.calculate([pa.array([], type_) for type_ in types]).type
        return None if pa.types.is_null(type_) else type_

    def make_function(self, type_: pa.DataType) -> Callable[..., pa.Array]:
        """Return the function that Spark calls with columns."""

        def calculate(*columns: pa.Array) -> pa.Array:
            return self.calculate(columns).cast(type_)

        return calculate
