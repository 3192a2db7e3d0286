"""`RowMatcher`: all of a clause that finds matches, in arrays and names, without the SQL library.

It travels to Spark's workers, which have no SQL library, together with the names of the columns
that hosts and matchers exchange.
"""

from __future__ import annotations

from dataclasses import dataclass

from cernis.engine.rows.search import Programs, Registers
from cernis.engine.rows.tables import RowTables, Skipping
from cernis.errors import Span

ROW = "@row"
"""The number of a row, in the order of partitions and ORDER BY; any unique number on Spark."""
RANK = "@rank"
"""The number of a row in its partition, from 1 on."""
PARTITION = "@partition"
"""The number of the first row of its partition."""
TIME, UNTIL = "@time", "@until"
MATCH = "@match"
"""The number of the row at which a match begins, or of a row without one."""
NUMBER = "@number"
"""MATCH_NUMBER(); NULL: no match has the row."""
PLACE = "@place"
"""The index of a row in its match."""
CLASSIFIER = "@classifier"
"""The variable that a row of a match is mapped to."""
EXCLUDED = "@excluded"
_READ = ("@mask", "@value", RANK, PARTITION, TIME, UNTIL)


def name_mask(number: int) -> str:
    return f"@mask{number}"


def name_value(number: int) -> str:
    return f"@value{number}"


def is_read(column: str) -> bool:
    """Return whether the matcher reads a column."""
    return column.startswith(_READ)


@dataclass(frozen=True)
class RowMatcher:
    """What finds the matches of a clause."""

    text: str
    """The statement, for messages."""
    variables: tuple[str, ...]
    tables: RowTables
    size: int
    """The number of transitions."""
    masks: tuple[bool, ...]
    """Per variable, whether the host computes a mask."""
    values: int
    """How many values conditions look at."""
    registers: Registers | None
    """None: no condition depends on the path."""
    programs: Programs | None
    condition_spans: tuple[Span, ...]
    """Per variable, its condition, or the pattern where it has none."""
    skipping: Skipping
    target: str
    """The variable of SKIP TO."""
    target_span: Span
    pattern_span: Span
    has_limits: bool
    """Whether WITHIN bounds matches."""
    shows_unmatched: bool
