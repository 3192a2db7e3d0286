"""Functions that users register: vectorized Python, named in a query like any other.

`cernis.function(name, compute, returns=…, args=…)` adds a row to the table of functions. Query text
never defines or imports one: a name that nobody registered in this process is an unknown function.
Tasks of Spark receive the functions with the plan that calls them.

Cost contract: one call for each batch and each use in the query.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from cernis.errors import CernisError, RowError
from cernis.pattern.functions import BUILTIN, FUNCTIONS, Class, Function

TYPES: dict[str, tuple[Class, pa.DataType]] = {
    "int": ("number", pa.int64()),
    "double": ("number", pa.float64()),
    "string": ("string", pa.string()),
    "boolean": ("boolean", pa.bool_()),
    "timestamp": ("timestamp", pa.timestamp("us", "UTC")),
}
"""The types of arguments and results, each with its class and the type of its column."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def function(
    name: str,
    compute: Callable[..., Any],
    *,
    returns: str,
    args: Sequence[str] = (),
    version: str = "1",
    accepts: Iterable[str] = (),
) -> None:
    """Register a function under a name that queries may call, in any case.

    `compute` takes one Arrow array for each of `args` and returns one of the same length. With a
    parameter that is annotated as a NumPy array or a pandas Series, it takes these. It must be
    pure: the same arguments give the same values. The types are "int", "double", "string",
    "boolean" and "timestamp". A checkpoint notes the `version`; it is refused where another one is
    registered, unless that `accepts` the version noted.

    >>> import pyarrow.compute as pc
    >>> function("twice", lambda x: pc.multiply(x, 2), returns="int", args=("int",))
    >>> FUNCTIONS["TWICE"](21)
    42
    >>> forget_function("twice")
    """
    word = name.upper()
    if not _NAME.fullmatch(name) or word in BUILTIN or word in ("IF", "CASE"):
        what = "is one of the package" if word in BUILTIN else "is no name of a function"
        raise CernisError(f"{name!r} {what}; choose a name of letters, digits and underscores")
    unknown = [one for one in (*args, returns) if one not in TYPES]
    if unknown:
        raise CernisError(f"unknown type {unknown[0]!r}; the types are {', '.join(TYPES)}")
    if not callable(compute):
        raise CernisError(f"{name!r}: a function takes arrays, and {compute!r} cannot be called")
    vectorized = _Vectorized(word, compute, tuple(args), returns)
    FUNCTIONS[word] = Function(
        word,
        tuple(TYPES[one][0] for one in args),
        TYPES[returns][0],
        vectorized.compute_one,
        inspect.getdoc(compute) or "A function that was registered.",
        "",
        is_whole=returns == "int",
        version=version,
        accepts_versions=tuple(accepts),
        columns=vectorized,
    )


def forget_function(name: str) -> None:
    """Drop a function that was registered."""
    if name.upper() not in BUILTIN:
        FUNCTIONS.pop(name.upper(), None)


class _Vectorized:
    """A user's function on columns: checks what it gives, and names what it fails on."""

    def __init__(
        self, name: str, compute: Callable[..., Any], takes: tuple[str, ...], gives: str
    ) -> None:
        self.name, self.compute, self.takes, self.gives = name, compute, takes, gives
        annotations = [str(each) for each in _read_annotations(compute)]
        self.container = "arrow"
        if any("Series" in each for each in annotations):
            self.container = "pandas"
        elif any("ndarray" in each or "NDArray" in each for each in annotations):
            self.container = "numpy"

    def __call__(self, columns: Sequence[pa.Array], length: int) -> pa.Array:
        """Return its values for columns of the types that it takes."""
        types = [TYPES[one][1] for one in self.takes]
        arrays = [
            column.cast(type_, safe=False) for column, type_ in zip(columns, types, strict=True)
        ]
        try:
            return self._compute(arrays, length)
        except Exception as error:
            raise self._find_failure(arrays, length, error) from error

    def compute_one(self, *values: Any) -> Any:
        """Return its value for single arguments."""
        arrays = [
            pa.array([value], TYPES[one][1]) for value, one in zip(values, self.takes, strict=True)
        ]
        return self(arrays, 1)[0].as_py()

    def _compute(self, arrays: Sequence[pa.Array], length: int) -> pa.Array:
        given: list[Any] = list(arrays)
        if self.container != "arrow":
            given = [each.to_pandas() for each in arrays]
        if self.container == "numpy":
            given = [each.to_numpy() for each in given]
        found = self.compute(*given)
        type_ = TYPES[self.gives][1]
        if isinstance(found, pa.ChunkedArray):
            found = found.combine_chunks()
        if not isinstance(found, pa.Array):
            found = pa.array(
                np.asarray(found) if self.container != "arrow" else found,
                from_pandas=self.container == "pandas",
            )
        if len(found) != length:
            raise ValueError(f"it returned {len(found)} values for {length} rows")
        return found.cast(type_)

    def _find_failure(self, arrays: Sequence[pa.Array], length: int, error: Exception) -> RowError:
        """Return the error with the first row that fails alone."""
        for row in range(length):
            try:
                self._compute([each.slice(row, 1) for each in arrays], 1)
            except Exception as why:
                shown = ", ".join(repr(each[row].as_py()) for each in arrays)
                text = f"the function {self.name} failed on ({shown}): {type(why).__name__}: {why}"
                return RowError(text, row, length)
        text = f"the function {self.name} failed: {type(error).__name__}: {error}"
        return RowError(text, 0, length)


def _read_annotations(compute: Callable[..., Any]) -> list[Any]:
    try:
        parameters = inspect.signature(compute).parameters.values()
    except (TypeError, ValueError):
        return []
    return [each.annotation for each in parameters]
