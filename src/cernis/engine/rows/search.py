"""`search_rows`: the preferred match where conditions look at other rows of the match.

Such conditions depend on the path: the rows mapped to each variable so far. What they need of it is
a fixed number of *registers*: the rows of FIRST and LAST, counts, sums, least and greatest values.
A depth-first search tries the edges in the order of preference. It remembers the configurations
(row, state, registers) from which it has failed, and does not enter one of them twice; equal
registers have equal futures. The pass backward of `match` prunes what not even the conditions on
single rows allow.

Conditions are programs of a stack machine over numbers, where NaN is NULL and truth is SQL's.
The values of rows in them were computed by the host.

Cost contract: O(edges · registers) for each configuration. Their number is linear in the rows where
registers depend on the start and the last rows alone, and exponential at worst: every edge that is
tried counts against a budget. The memory of failures is bounded; when it is full it is forgotten.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.automata.rows.construct import AT_END
from cernis.compiled import kernel
from cernis.engine.rows.match import find_anchors, find_earliest, grow, skip_match
from cernis.engine.rows.tables import (
    BUDGET,
    FOUND,
    NO_MATCH,
    OPEN,
    UNDECIDED,
    Flags,
    FoundRows,
    Numbers,
    PartitionedRows,
    RowTables,
    Skipping,
)

Floats = NDArray[np.float64]

(
    LAST_ROW, FIRST_ROW_OF, LAST_VARIABLE, FIRST_VARIABLE, MATCH_NUMBER, COUNT, SUM, LEAST,
    GREATEST,
) = range(9)  # fmt: skip
"""The kinds of registers."""

(
    CONSTANT, CURRENT, VALUE_AT, REGISTER, ADD, SUBTRACT, MULTIPLY, DIVIDE, MODULO, NEGATE, EQUAL,
    LESS, LESS_EQUAL, AND, OR, NOT, IS_NULL, ABSOLUTE, COALESCE, LESSER, GREATER, LEAST_KNOWN,
    GREATEST_KNOWN, CHOOSE, QUOTIENT, SUBTRACT_DATES, FLOOR, CEIL, SQUARE_ROOT,
) = range(29)  # fmt: skip
"""The operations of programs."""

DAY = 86_400_000_000.0
"""The microseconds of a day: times are microseconds, and dates are times."""
_REMEMBERED = 1 << 20
DEEPEST = 64
"""The values on the stack of a program."""


class Registers(NamedTuple):
    """What a path is remembered by: groups of registers, each of a kind."""

    kind: Numbers
    base: Numbers
    """The first register of each group."""
    depth: Numbers
    """The number of rows after the first, or before the last."""
    column: Numbers
    """The value that is counted or summed; negative: rows are counted."""
    variables: Flags
    """Per group and variable, whether its rows matter."""
    initial: Floats
    """The registers of an empty path."""


class Programs(NamedTuple):
    """The conditions of all variables, one after the other."""

    first: Numbers
    """Per variable, its first operation; one more at the end."""
    operation: Numbers
    argument: Numbers
    column: Numbers
    constant: Floats
    """A number; of VALUE_AT the column for a row that there is not, or -1; of REGISTER and of
    calculations the power of ten that makes the value whole, or 0."""


class PathConditions(NamedTuple):
    """Conditions on paths."""

    registers: Registers
    programs: Programs
    values: Floats
    """Per row, the values that conditions look at."""


def search_rows(
    tables: RowTables,
    rows: PartitionedRows,
    skipping: Skipping,
    conditions: PathConditions,
    budget: int,
) -> tuple[FoundRows, int]:
    """Return the matches of all partitions, and how many edges were tried."""
    longest = int(np.diff(rows.bounds).max(initial=0))
    earliest = np.empty((longest + 1, len(tables.first) - 1), np.int32)
    stack = np.zeros((longest + 2, 2), np.int64)
    paths = np.empty((longest + 2, len(conditions.registers.initial)), np.float64)
    stops = rows.bounds[1:].copy()
    found = _search_partitions(
        tables, rows, skipping, conditions, (earliest, stack, paths, stops), np.int64(budget)
    )
    starts, lengths, labels, nexts, status, tried = found
    return FoundRows(starts, lengths, labels, nexts, stops, int(status)), int(tried)


def start_path(conditions: PathConditions, number: int) -> Floats:
    """Return the registers of an empty path, of the match with a number."""
    path = conditions.registers.initial.copy()
    begin_path(conditions.registers, path, number)
    return path


def extend_path(conditions: PathConditions, path: Floats, row: int, variable: int) -> Floats | None:
    """Return the registers of a path and one more row; None: the row does not fit the variable."""
    longer = path.copy()
    note_row(conditions, longer, row, variable)
    fits = is_true(conditions, longer, row, variable)
    return longer if fits else None


@kernel
def _search_partitions(tables, rows, skipping, conditions, scratch, budget):
    earliest, stack, paths, stops = scratch
    starts = np.empty(1024, np.int64)
    lengths = np.empty(1024, np.int64)
    nexts = np.empty(1024, np.int64)
    labels = np.empty(1024, np.int64)
    met = np.zeros(len(earliest), np.bool_)
    width = paths.shape[1] + 3
    keys = np.empty((1024, width), np.int64)
    filled = np.zeros(2048, np.int64)
    found = used = remembered = tried = 0
    key = np.empty(width, np.int64)
    for part in range(len(rows.bounds) - 1):
        begin, end = rows.bounds[part], rows.bounds[part + 1]
        flags = rows.flags[part]
        find_earliest(tables, rows.holds, (begin, end, flags), earliest)
        filled[:] = 0
        remembered = 0
        undecided = False
        met[: end - begin] = False
        entry = at = rows.firsts[part]
        matches = rows.numbers[part]
        while True:
            if at >= rows.untils[part] or met[at - begin]:
                if entry == rows.lasts[part]:
                    break
                entry += 1
                at = entry
                continue
            met[at - begin] = True
            if found == len(starts):
                starts, lengths, nexts = grow(starts), grow(lengths), grow(nexts)
            starts[found] = at
            lengths[found] = NO_MATCH
            nexts[found] = at + 1
            limit = rows.limits[at]
            depth = 0
            stack[0, 0], stack[0, 1] = 0, tables.first[0]
            begin_path(conditions.registers, paths[0], matches + 1)
            if earliest[at - begin, 0] > limit - begin:
                depth = -1
            while depth >= 0:
                state, edge = stack[depth]
                row = at + depth
                if edge == tables.first[state + 1]:
                    if remembered == _REMEMBERED:
                        filled[:] = 0
                        remembered = 0
                    if remembered == len(keys):
                        keys, filled = _widen(keys, remembered)
                    write_key(key, row, state, limit, paths[depth])
                    slot = find_key(keys, filled, key)
                    if filled[slot] == 0:
                        keys[remembered] = key
                        remembered += 1
                        filled[slot] = remembered
                    depth -= 1
                    if depth >= 0:
                        stack[depth, 1] += 1
                    continue
                tried += 1
                if tried > budget:
                    return (
                        starts[:found], lengths[:found], labels[:used], nexts[:found], BUDGET, tried
                    )  # fmt: skip
                missing = tables.anchors[edge] & ~find_anchors((begin, end, row, limit, flags))
                is_open = row == end and flags & OPEN and limit > end
                if is_open and missing & ~AT_END == 0 and (missing or tables.variable[edge] >= 0):
                    undecided = True
                    break
                if missing == 0:
                    variable = tables.variable[edge]
                    if variable < 0:
                        break
                    target = tables.target[edge]
                    if (
                        row < min(limit, end)
                        and rows.holds[row, variable]
                        and earliest[row - begin + 1, target] <= limit - begin
                    ):
                        paths[depth + 1, :] = paths[depth]
                        note_row(conditions, paths[depth + 1], row, variable)
                        if is_true(conditions, paths[depth + 1], row, variable):
                            write_key(key, row + 1, target, limit, paths[depth + 1])
                            if filled[find_key(keys, filled, key)] == 0:
                                depth += 1
                                stack[depth, 0] = target
                                stack[depth, 1] = tables.first[target]
                                continue
                stack[depth, 1] += 1
            if undecided:
                lengths[found] = UNDECIDED
                found += 1
                break
            if depth < 0:
                found += 1
                at += 1
                continue
            while used + depth > len(labels):
                labels = grow(labels)
            for index in range(depth):
                edge = stack[index, 1]
                labels[used + index] = 2 * tables.variable[edge] + tables.excluded[edge]
            lengths[found] = depth
            found += 1
            matches += 1
            following = skip_match(at, labels[used : used + depth], skipping)
            nexts[found - 1] = following
            used += depth
            status = -following
            if following < 0 and rows.firsts[part] == rows.lasts[part]:
                return starts[:found], lengths[:found], labels[:used], nexts[:found], status, tried
            at = following if following >= 0 else rows.untils[part]
        stops[part] = at
    return starts[:found], lengths[:found], labels[:used], nexts[:found], FOUND, tried


# ------------------------------------------------------------------- failures


@kernel
def write_key(key, row, state, limit, path):
    """Write a configuration as integers."""
    key[0], key[1], key[2] = row, state, limit
    key[3:] = path.view(np.int64)


@kernel
def find_key(keys, filled, key):
    """Return the slot of a configuration in the table, or the free one for it."""
    mixed = np.uint64(0)
    for part in key:
        mixed = (mixed ^ np.uint64(part)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    mask = np.uint64(len(filled) - 1)
    slot = np.int64(mixed & mask)
    while filled[slot] > 0:
        known = keys[filled[slot] - 1]
        same = True
        for i in range(len(key)):
            if known[i] != key[i]:
                same = False
                break
        if same:
            break
        slot = (slot + 1) & np.int64(mask)
    return slot


@kernel
def _widen(keys, number):
    """Return a table with twice the room."""
    larger = np.empty((2 * len(keys), keys.shape[1]), np.int64)
    larger[:number] = keys[:number]
    filled = np.zeros(4 * len(keys), np.int64)
    for i in range(number):
        filled[find_key(larger, filled, larger[i])] = i + 1
    return larger, filled


# ------------------------------------------------------------------ registers


@kernel
def begin_path(registers, path, number):
    """Write the registers of an empty path, of the match with a number."""
    path[:] = registers.initial
    for group in range(len(registers.kind)):
        if registers.kind[group] == MATCH_NUMBER:
            path[registers.base[group]] = number


@kernel
def note_row(conditions, path, row, variable):
    """Bring the registers of a path up to date with a row."""
    registers = conditions.registers
    for group in range(len(registers.kind)):
        if not registers.variables[group, variable]:
            continue
        kind, base, depth = registers.kind[group], registers.base[group], registers.depth[group]
        column = registers.column[group]
        value = conditions.values[row, column] if column >= 0 else 1.0
        if kind in (LAST_ROW, LAST_VARIABLE):
            for index in range(base + depth, base, -1):
                path[index] = path[index - 1]
            path[base] = row if kind == LAST_ROW else variable
        elif kind in (FIRST_ROW_OF, FIRST_VARIABLE):
            if path[base] == depth:
                path[base + 1] = row if kind == FIRST_ROW_OF else variable
            if path[base] <= depth:
                path[base] += 1
        elif kind == MATCH_NUMBER:
            continue
        elif not np.isnan(value):
            before = path[base]
            if kind == COUNT:
                path[base] = before + 1
            elif np.isnan(before):
                path[base] = value
            elif kind == SUM:
                path[base] = before + value
            elif kind == LEAST:
                path[base] = min(before, value)
            else:
                path[base] = max(before, value)


# ------------------------------------------------------------------- programs


@kernel
def is_true(conditions, path, row, variable):
    """Return whether the condition of a variable is true of a path that ends with a row."""
    programs, values = conditions.programs, conditions.values
    if programs.first[variable] == programs.first[variable + 1]:
        return True
    stack = np.empty(DEEPEST, np.float64)
    top = -1
    for at in range(programs.first[variable], programs.first[variable + 1]):
        operation, argument = programs.operation[at], programs.argument[at]
        if operation == CONSTANT:
            top += 1
            stack[top] = programs.constant[at]
        elif operation == CURRENT:
            top += 1
            stack[top] = values[row, programs.column[at]]
        elif operation == VALUE_AT:
            top += 1
            other = path[argument]
            column = programs.column[at]
            if np.isnan(other):
                missing = np.int64(programs.constant[at])
                stack[top] = np.nan if missing < 0 else values[row, missing]
            else:
                stack[top] = values[np.int64(other), column]
        elif operation == REGISTER:
            top += 1
            stack[top] = round_to(path[argument], programs.constant[at])
        elif operation in (NEGATE, NOT, IS_NULL, ABSOLUTE, FLOOR, CEIL, SQUARE_ROOT):
            stack[top] = change(operation, stack[top])
        elif operation == CHOOSE:
            top -= 2
            stack[top] = stack[top + 1] if stack[top] == 1.0 else stack[top + 2]
        else:
            top -= 1
            value = combine(operation, stack[top], stack[top + 1])
            stack[top] = round_to(value, programs.constant[at])
    return stack[0] == 1.0


@kernel
def round_to(value, power):
    """Return a number with the digits of a decimal, given the power of ten that makes it whole."""
    return value if power == 0.0 else np.rint(value * power) / power


@kernel
def change(operation, value):
    """Return the value of an operation with one argument."""
    if operation == NEGATE:
        return -value
    if operation == NOT:
        return 1.0 - value
    if operation == ABSOLUTE:
        return abs(value)
    if operation == FLOOR:
        return np.floor(value)
    if operation == CEIL:
        return np.ceil(value)
    if operation == SQUARE_ROOT:
        return np.sqrt(value) if value >= 0.0 else np.nan
    return 1.0 if np.isnan(value) else 0.0


@kernel
def combine(operation, left, right):
    """Return the value of an operation with two arguments."""
    if operation == AND:
        if left == 0.0 or right == 0.0:
            return 0.0
        return left * right
    if operation == OR:
        if left == 1.0 or right == 1.0:
            return 1.0
        return left + right
    if operation == COALESCE:
        return right if np.isnan(left) else left
    if operation == LEAST_KNOWN:
        return np.fmin(left, right)
    if operation == GREATEST_KNOWN:
        return np.fmax(left, right)
    if np.isnan(left) or np.isnan(right):
        return np.nan
    if operation == ADD:
        return left + right
    if operation == SUBTRACT:
        return left - right
    if operation == SUBTRACT_DATES:
        return (left - right) / DAY
    if operation == MULTIPLY:
        return left * right
    if operation == DIVIDE:
        if right == 0.0:
            return np.nan if left == 0.0 else np.copysign(np.inf, left)
        return left / right
    if operation == QUOTIENT:
        return np.nan if right == 0.0 else np.trunc(left / right)
    if operation == MODULO:
        return np.nan if right == 0.0 else np.fmod(left, right)
    if operation == LESSER:
        return min(left, right)
    if operation == GREATER:
        return max(left, right)
    if operation == EQUAL:
        return 1.0 if left == right else 0.0
    if operation == LESS:
        return 1.0 if left < right else 0.0
    return 1.0 if left <= right else 0.0
