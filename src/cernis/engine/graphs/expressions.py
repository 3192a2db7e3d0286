"""Expressions of filters over rows of term codes: a small stack machine with SPARQL's values.

A *program* is an array of steps (operation, two arguments); `holds` runs it for one row and
answers TRUE, FALSE or ERROR, by SPARQL 1.1's operator table (section 17), three-valued logic
and effective boolean value. It sees two rows of codes, the solution at hand (`row`) and what was
bound before (`kept`); code -1 is unbound. Whatever is a function of one term (STR, REGEX, casts)
is looked up in `maps`, which are filled once per distinct term and not here. Conditions with
functions of several terms are looked up in `answers`; those that are not there yet are noted as
missing, for Python to answer before the program runs again.

A term's kind and value are one record of 32 bytes (`FACT`), so that a term costs one cache line.
The codes of terms count up from 0; values that functions made have codes from -2 down, at the
other end of the same array, and the last record (code -1) is an error: unbound variables need no
test. The cells of the stack are such records too, so every operation works on values and texts,
never on codes.

Numbers. An integer or decimal is `exact` × 10^-`scale` with an int64: sums, differences, products
and comparisons of decimals are exact while they fit into 18 digits (0.1 + 0.2 = 0.3 holds). A
decimal that is longer has scale INEXACT and counts as its float64: two long decimals that differ
after the 16th digit are equal here. A quotient has 18 digits after the point, cut, where they
fit. Integers outside of int64 are no numbers here (comparing them is an error, unless they are
the same term), and sums that leave int64 are errors. dateTimes and durations are seconds in the
same form, so compared exactly. Floats are promoted and rounded to float32, doubles to float64.

Cost: a few nanoseconds per step; no allocation, no Python. Texts are compared as UTF-8 bytes,
whose order is the order of code points.

Turned down: one array for each property of a term, as columns usually are. A comparison needs
kind, number and exact value of terms at random indices: three cache misses instead of one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cernis.compiled import borrowing, inner

FALSE, TRUE, ERROR = range(3)
"""What a program answers."""

(
    NOTHING,
    IRI,
    BLANK,
    STRING,
    TAGGED,
    BOOLEAN,
    INTEGER,
    DECIMAL,
    FLOAT,
    DOUBLE,
    INSTANT,
    LOCAL_INSTANT,
    DATE,
    LOCAL_DATE,
    DURATION,
    ILL_TYPED,
    OTHER,
) = range(17)
"""Kinds of values. NOTHING: unbound, or an error. TAGGED: with a language. LOCAL: without a time
zone. ILL_TYPED: a boolean or number that is none, like "x"^^xsd:integer; OTHER: a literal of a
datatype that is not known here, or outside of what can be represented."""

FACT = np.dtype(
    [
        ("number", np.float64),
        ("exact", np.int64),
        ("begin", np.int64),
        ("length", np.int32),
        ("tag", np.uint16),
        ("kind", np.int8),
        ("scale", np.int8),
    ]
)
"""`begin` and `length`: the lexical form in the text, -1 for a number that was computed; `tag`:
which datatype or language; `exact`: also 0 or 1 for booleans."""

INEXACT = -1
MOST_DIGITS = 18
UNBOUND = -1
MOST_MISSING = 1024
"""The most answers that are asked for at once."""

(
    ROW,
    KEPT,
    CONSTANT,
    MAPPED_ROW,
    MAPPED_KEPT,
    BOUND_ROW,
    BOUND_KEPT,
    EQUAL,
    DIFFERENT,
    LESS,
    LESS_EQUAL,
    GREATER,
    GREATER_EQUAL,
    ADD,
    SUBTRACT,
    MULTIPLY,
    DIVIDE,
    NEGATE,
    ABSOLUTE,
    CEILING,
    FLOOR,
    ROUND,
    AND,
    OR,
    NOT,
    SKIP_IF_FALSE,
    SKIP_IF_TRUE,
    SAME_TERM,
    CONTAINS,
    STARTS,
    ENDS,
    IN_NOTHING,
    CHOOSE,
    OTHERWISE,
    ASK,
) = range(35)
"""Operations. ROW, KEPT: push what stands in column a. CONSTANT: push the value of code a.
MAPPED_*: push what map a says of column b. SKIP_*: leave out the next a steps if that is what the
top is. IN_NOTHING: `x IN ()`. CHOOSE: IF. OTHERWISE: COALESCE of two.
ASK: push the answer to question a."""

EFFECT = {
    **dict.fromkeys((ROW, KEPT, CONSTANT, MAPPED_ROW, MAPPED_KEPT, BOUND_ROW, BOUND_KEPT), 1),
    ASK: 1,
    **dict.fromkeys(range(EQUAL, NEGATE), -1),
    **dict.fromkeys((AND, OR, SAME_TERM, CONTAINS, STARTS, ENDS, OTHERWISE), -1),
    CHOOSE: -2,
}
"""By how much an operation changes the height of the stack, where it does."""

LARGEST = np.int64(2**63 - 1)
TEN_TO = np.array([10**k for k in range(19)], np.int64)
_NONE = np.int32(-(2**31))
_FOURTEEN_HOURS = 14 * 3600
_LESS, _SAME, _MORE, _UNORDERED, _INCOMPARABLE = -1, 0, 1, 2, 3


class KnownAnswers(NamedTuple):
    """The conditions that Python answers, by the codes of their variables."""

    questions: NDArray[np.int32]
    """Per question: its condition, and for each variable its column in the row and in what was
    kept; -1: it has none."""
    table: NDArray[np.int32]
    """A hash table: the condition + 1, the answer, the codes."""
    missing: NDArray[np.int32]
    """Conditions and codes without an answer."""
    counters: NDArray[np.int64]
    """How many are missing."""


def new_answers(variables: int = 1, size: int = 1, questions: int = 0) -> KnownAnswers:
    """Return answers to conditions with so many variables; `size` is a power of two."""
    return KnownAnswers(
        np.full((questions, 1 + 2 * variables), -1, np.int32),
        np.zeros((size, 2 + variables), np.int32),
        np.zeros((MOST_MISSING, 1 + variables), np.int32),
        np.zeros(1, np.int64),
    )


class Values(NamedTuple):
    """The facts of every term: see the module's head."""

    facts: NDArray[np.void]
    text: NDArray[np.uint8]
    maps: NDArray[np.int32]
    """Per function and code of a term, the code of its value; -1 is an error."""
    answers: KnownAnswers


def new_stack(depth: int) -> NDArray[np.void]:
    """Scratch for programs that stack up to `depth` values."""
    return np.zeros(max(depth, 1), FACT)


# ------------------------------------------------------------------- numbers


@inner
def _round_to_float32(number):
    return np.float64(np.float32(number))


@inner
def _compare_exact(a, a_scale, b, b_scale):
    """-1, 0 or 1 for a × 10^-a_scale against b × 10^-b_scale; never overflows."""
    if a_scale != b_scale:
        high_a, high_b = a // TEN_TO[a_scale], b // TEN_TO[b_scale]
        if high_a != high_b:
            return _LESS if high_a < high_b else _MORE
        a = (a - high_a * TEN_TO[a_scale]) * TEN_TO[MOST_DIGITS - a_scale]
        b = (b - high_b * TEN_TO[b_scale]) * TEN_TO[MOST_DIGITS - b_scale]
    if a < b:
        return _LESS
    return _MORE if a > b else _SAME


@inner
def _compare_numbers(a, b):
    kind = max(a["kind"], b["kind"])
    if kind <= DECIMAL and a["scale"] >= 0 and b["scale"] >= 0:
        return _compare_exact(a["exact"], a["scale"], b["exact"], b["scale"])
    x, y = a["number"], b["number"]
    if kind == FLOAT:
        x, y = _round_to_float32(x), _round_to_float32(y)
    if x < y:
        return _LESS
    if x > y:
        return _MORE
    return _SAME if x == y else _UNORDERED


@inner
def _is_number(kind):
    return INTEGER <= kind <= DOUBLE


@inner
def _set_number(cell, kind, number):
    cell["kind"] = kind
    cell["number"] = _round_to_float32(number) if kind == FLOAT else number
    cell["scale"] = INEXACT
    cell["length"] = -1


@inner
def _set_exact(cell, kind, exact, scale):
    while scale > 0 and exact % 10 == 0:
        exact //= 10
        scale -= 1
    cell["kind"] = kind
    cell["exact"] = exact
    cell["scale"] = scale
    cell["number"] = exact / TEN_TO[scale]
    cell["length"] = -1


@inner
def _add_exactly(cell, a, a_scale, b, b_scale, kind):
    """cell = a + b; False if it does not fit."""
    scale = max(a_scale, b_scale)
    up_a, up_b = TEN_TO[scale - a_scale], TEN_TO[scale - b_scale]
    if abs(a) > LARGEST // up_a or abs(b) > LARGEST // up_b:
        return False
    a, b = a * up_a, b * up_b
    if (b > 0 and a > LARGEST - b) or (b < 0 and a < -LARGEST - b):
        return False
    _set_exact(cell, kind, a + b, scale)
    return True


@inner
def _multiply_exactly(cell, a, a_scale, b, b_scale, kind):
    if a_scale + b_scale > MOST_DIGITS or (a != 0 and abs(b) > LARGEST // abs(a)):
        return False
    _set_exact(cell, kind, a * b, a_scale + b_scale)
    return True


@inner
def _divide_exactly(cell, a, a_scale, b, b_scale):
    """Long division, up to 18 digits after the point."""
    negative = (a < 0) != (b < 0)
    a, b = abs(a), abs(b)
    quotient, rest, scale = a // b, a % b, np.int64(a_scale) - b_scale
    while scale < 0 or (rest != 0 and scale < MOST_DIGITS):
        if rest > LARGEST // 10 or quotient > (LARGEST - 9) // 10:
            return False
        quotient = quotient * 10 + rest * 10 // b
        rest = rest * 10 % b
        scale += 1
    _set_exact(cell, DECIMAL, -quotient if negative else quotient, scale)
    return True


@inner
def _calculate(operation, a, b):
    """a = a operation b, for numbers, and for instants and durations."""
    kind = max(a["kind"], b["kind"])
    if not (_is_number(a["kind"]) and _is_number(b["kind"])):
        _calculate_time(operation, a, b)
        return
    x, y = a["number"], b["number"]
    if kind <= DECIMAL:
        result = DECIMAL if operation == DIVIDE else kind
        if operation == DIVIDE and y == 0:
            a["kind"] = NOTHING
            return
        if a["scale"] >= 0 and b["scale"] >= 0:
            p, p_scale, q, q_scale = a["exact"], a["scale"], b["exact"], b["scale"]
            if operation == ADD:
                done = _add_exactly(a, p, p_scale, q, q_scale, result)
            elif operation == SUBTRACT:
                done = _add_exactly(a, p, p_scale, -q, q_scale, result)
            elif operation == MULTIPLY:
                done = _multiply_exactly(a, p, p_scale, q, q_scale, result)
            else:
                done = _divide_exactly(a, p, p_scale, q, q_scale)
            if done:
                return
        if result == INTEGER:
            a["kind"] = NOTHING
            return
        kind = result
    elif kind == FLOAT:
        x, y = _round_to_float32(x), _round_to_float32(y)
    if operation == ADD:
        number = x + y
    elif operation == SUBTRACT:
        number = x - y
    elif operation == MULTIPLY:
        number = x * y
    elif y != 0:
        number = x / y
    elif x == 0 or x != x or y != y:
        number = np.nan
    else:
        number = np.inf * np.copysign(1.0, x) * np.copysign(1.0, y)
    _set_number(a, kind, number)


@inner
def _calculate_time(operation, a, b):
    """Instants and durations, as XPath adds them up: an extension that SPARQL allows."""
    one, other = a["kind"], b["kind"]
    result = NOTHING
    if operation == SUBTRACT and one == other and INSTANT <= one <= LOCAL_DATE:
        result = DURATION
    elif operation in (ADD, SUBTRACT) and other == DURATION and one in (INSTANT, LOCAL_INSTANT):
        result = one
    elif operation in (ADD, SUBTRACT) and other == DURATION and one == DURATION:
        result = DURATION
    elif operation == ADD and one == DURATION and other in (INSTANT, LOCAL_INSTANT):
        result = other
    a["kind"] = result
    if result == NOTHING:
        return
    sign = 1 if operation == ADD else -1
    if not _add_exactly(a, a["exact"], a["scale"], sign * b["exact"], b["scale"], result):
        a["kind"] = NOTHING


@inner
def _round_exactly(operation, exact, scale):
    """The whole number that an exact number is rounded to."""
    unit = TEN_TO[scale]
    if operation == CEILING:
        return -(-exact // unit)
    whole = exact // unit
    if operation == ROUND and (exact - whole * unit) * 2 >= unit:
        whole += 1
    return whole


@inner
def _change(operation, a):
    """a = operation(a), for one number."""
    kind = a["kind"]
    if not _is_number(kind) and not (kind == DURATION and operation == NEGATE):
        a["kind"] = NOTHING
        return
    if a["scale"] >= 0 and kind not in (FLOAT, DOUBLE):
        exact, scale = a["exact"], a["scale"]
        if operation == NEGATE:
            exact = -exact
        elif operation == ABSOLUTE:
            exact = abs(exact)
        else:
            exact, scale = _round_exactly(operation, exact, scale), np.int8(0)
        _set_exact(a, kind, exact, scale)
        return
    x = a["number"]
    if operation == NEGATE:
        x = -x
    elif operation == ABSOLUTE:
        x = abs(x)
    elif operation == CEILING:
        x = np.ceil(x)
    else:
        whole = np.floor(x)
        x = whole + 1 if operation == ROUND and x - whole >= 0.5 else whole
    _set_number(a, kind, x)


# --------------------------------------------------------------------- texts


@inner
def _compare_texts(a, b, text):
    if a["begin"] == b["begin"] and a["length"] == b["length"]:
        return _SAME
    for k in range(min(a["length"], b["length"])):
        x, y = text[a["begin"] + k], text[b["begin"] + k]
        if x != y:
            return _LESS if x < y else _MORE
    if a["length"] == b["length"]:
        return _SAME
    return _LESS if a["length"] < b["length"] else _MORE


@inner
def _same_text(a, b, text):
    return a["length"] == b["length"] and _compare_texts(a, b, text) == _SAME


@inner
def _stands_at(a, b, text, at):
    """Return whether the text of b stands in the text of a at that offset."""
    k = 0
    while k < b["length"] and text[a["begin"] + at + k] == text[b["begin"] + k]:
        k += 1
    return k == b["length"]


@inner
def _search(operation, a, b, text):
    """CONTAINS, STRSTARTS and STRENDS, for compatible strings."""
    if a["kind"] not in (STRING, TAGGED) or b["kind"] not in (STRING, TAGGED):
        return ERROR
    if b["kind"] == TAGGED and (a["kind"] != TAGGED or a["tag"] != b["tag"]):
        return ERROR
    last = a["length"] - b["length"]
    if last < 0:
        return FALSE
    if operation == STARTS:
        return TRUE if _stands_at(a, b, text, 0) else FALSE
    if operation == ENDS:
        return TRUE if _stands_at(a, b, text, last) else FALSE
    for at in range(last + 1):
        if _stands_at(a, b, text, at):
            return TRUE
    return FALSE


# --------------------------------------------------------------- comparisons


@inner
def _same_term(a, b, text):
    """Return whether two terms (no computed numbers) are the same."""
    return a["kind"] == b["kind"] and a["tag"] == b["tag"] and _same_text(a, b, text)


@inner
def _compare_mixed(a, b):
    """An instant without a time zone against one that has one: by more than 14 hours, or not."""
    for sign in (-1, 1):
        shifted = a["exact"] // TEN_TO[a["scale"]] + sign * _FOURTEEN_HOURS
        rest = a["exact"] - a["exact"] // TEN_TO[a["scale"]] * TEN_TO[a["scale"]]
        whole = b["exact"] // TEN_TO[b["scale"]]
        order = _compare_exact(shifted, 0, whole, 0)
        if order == _SAME:
            beyond = b["exact"] - whole * TEN_TO[b["scale"]]
            order = _compare_exact(rest, a["scale"], beyond, b["scale"])
        if order == -sign:
            return order
    return _INCOMPARABLE


@inner
def _compare_zones(a, b):
    """The order of two instants, or of two days, of which only one has a time zone."""
    one, other = a["kind"], b["kind"]
    if (one, other) in ((LOCAL_INSTANT, INSTANT), (LOCAL_DATE, DATE)):
        return _compare_mixed(a, b)
    if (one, other) in ((INSTANT, LOCAL_INSTANT), (DATE, LOCAL_DATE)):
        order = _compare_mixed(b, a)
        return order if order == _INCOMPARABLE else -order
    return _INCOMPARABLE


@inner
def _equal(a, b, text):
    """a = b: known kinds by value, unknown ones only if they are the same term.

    A time without a zone may be equal to one with a zone if it is within 14 hours: nobody knows.
    """
    one, other = a["kind"], b["kind"]
    if one == NOTHING or other == NOTHING:
        return ERROR
    if _is_number(one) and _is_number(other):
        return TRUE if _compare_numbers(a, b) == _SAME else FALSE
    if one >= ILL_TYPED or other >= ILL_TYPED:
        if one >= ILL_TYPED and other >= ILL_TYPED:
            return TRUE if _same_term(a, b, text) else ERROR
        least = min(one, other)
        return FALSE if least in (IRI, BLANK, TAGGED) else ERROR
    if one != other:
        are_days = min(one, other) == DATE and max(one, other) == LOCAL_DATE
        if are_days or (min(one, other) == INSTANT and max(one, other) == LOCAL_INSTANT):
            return ERROR if _compare_zones(a, b) == _INCOMPARABLE else FALSE
        return FALSE
    if one == BOOLEAN:
        return TRUE if a["exact"] == b["exact"] else FALSE
    if one >= INSTANT:
        order = _compare_exact(a["exact"], a["scale"], b["exact"], b["scale"])
        return TRUE if order == _SAME else FALSE
    if one == TAGGED and a["tag"] != b["tag"]:
        return FALSE
    return TRUE if _same_text(a, b, text) else FALSE


@inner
def _compare(a, b, text):
    """The order of two values, where they have one."""
    one, other = a["kind"], b["kind"]
    if _is_number(one) and _is_number(other):
        return _compare_numbers(a, b)
    if one == other:
        if one == STRING or (one == TAGGED and a["tag"] == b["tag"]):
            return _compare_texts(a, b, text)
        if one == BOOLEAN or INSTANT <= one <= DURATION:
            return _compare_exact(a["exact"], a["scale"], b["exact"], b["scale"])
        return _INCOMPARABLE
    return _compare_zones(a, b)


@inner
def _stands(operation, a, b, text):
    """a operation b."""
    if operation == EQUAL:
        return _equal(a, b, text)
    if operation == DIFFERENT:
        found = _equal(a, b, text)
        return found if found == ERROR else TRUE - found
    order = _compare(a, b, text)
    if order == _INCOMPARABLE:
        return ERROR
    if order == _UNORDERED:
        return FALSE
    if operation == LESS:
        return TRUE if order == _LESS else FALSE
    if operation == LESS_EQUAL:
        return TRUE if order != _MORE else FALSE
    if operation == GREATER:
        return TRUE if order == _MORE else FALSE
    return TRUE if order != _LESS else FALSE


@inner
def _truth(a):
    """The effective boolean value."""
    kind = a["kind"]
    if kind == BOOLEAN:
        return TRUE if a["exact"] != 0 else FALSE
    if kind == STRING:
        return TRUE if a["length"] > 0 else FALSE
    if _is_number(kind):
        x = a["number"]
        return TRUE if x != 0 and x == x else FALSE
    return FALSE if kind == ILL_TYPED else ERROR


@inner
def _set_truth(cell, answer):
    cell["kind"] = NOTHING if answer == ERROR else BOOLEAN
    cell["exact"] = answer
    cell["scale"] = 0
    cell["length"] = -1


# ------------------------------------------------------------------ programs


@inner
def _code(steps, at, values, row, kept):
    """The code that a step pushes, if it pushes one."""
    operation, a = steps[at, 0], steps[at, 1]
    if operation == ROW:
        return row[a]
    if operation == CONSTANT:
        return a
    if operation == KEPT:
        return kept[a]
    return _NONE


@inner
def _argument(question, k, row, kept):
    """The code of a variable of a question, taken from the row, or else from what was kept."""
    of_row, of_kept = question[1 + 2 * k], question[2 + 2 * k]
    code = row[of_row] if of_row >= 0 else np.int32(UNBOUND)
    if code < 0 and of_kept >= 0:
        code = kept[of_kept]
    return code


@inner
def find_answer(table, key):
    """Return the index of a key (condition and codes) in the table, or the free one for it."""
    last = len(table) - 1
    at = np.int64(0)
    for k in range(len(key)):
        at = ((at ^ (np.int64(key[k]) + 1)) & 0x7FFFFFFF) * 2654435761
        at ^= at >> 29
    at &= last
    while table[at, 0] != 0:
        same = table[at, 0] == key[0] + 1
        for k in range(1, len(key)):
            same = same and table[at, k + 1] == key[k]
        if same:
            return at
        at = (at + 1) & last
    return at


@inner
def _ask(answers, number, row, kept):
    """The answer to a question; without one it is noted as missing, and an error for now."""
    question, n = answers.questions[number], answers.counters[0]
    # the last row of `missing` is scratch
    key = answers.missing[n]
    key[0] = question[0]
    for k in range(len(key) - 1):
        key[k + 1] = _argument(question, k, row, kept)
    at = find_answer(answers.table, key)
    if answers.table[at, 0] != 0:
        return answers.table[at, 1]
    if n < len(answers.missing) - 1:
        answers.counters[0] = n + 1
    return np.int32(ERROR)


@borrowing
def _add_answers(table, keys, found):
    for i in range(len(keys)):
        at = find_answer(table, keys[i])
        table[at, 0] = keys[i, 0] + 1
        table[at, 1] = TRUE if found[i] else FALSE
        for k in range(1, keys.shape[1]):
            table[at, k + 1] = keys[i, k]


def add_answers(
    table: NDArray[np.int32], keys: NDArray[np.int32], found: NDArray[np.bool_]
) -> None:
    """Add answers to the table, which has room for them."""
    _add_answers(table, keys, found)


@inner
def holds(
    steps: NDArray[np.int32],
    values: Values,
    row: NDArray[np.int32],
    kept: NDArray[np.int32],
    stack: NDArray[np.void],
) -> int:
    """What a program says of a row and of what was kept: TRUE, FALSE or ERROR."""
    facts, text = values.facts, values.text
    if len(steps) == 3 and EQUAL <= steps[2, 0] <= GREATER_EQUAL:
        one, other = _code(steps, 0, values, row, kept), _code(steps, 1, values, row, kept)
        if one != _NONE and other != _NONE:
            found: int = _stands(steps[2, 0], facts[one], facts[other], text)
            return found
    top = -1
    at = 0
    while at < len(steps):
        operation, a = steps[at, 0], steps[at, 1]
        at += 1
        if operation <= BOUND_KEPT:
            top += 1
            if operation == ROW:
                stack[top] = facts[row[a]]
            elif operation == KEPT:
                stack[top] = facts[kept[a]]
            elif operation == CONSTANT:
                stack[top] = facts[a]
            elif operation <= MAPPED_KEPT:
                b = steps[at - 1, 2]
                code = row[b] if operation == MAPPED_ROW else kept[b]
                stack[top] = facts[values.maps[a, code] if code >= 0 else UNBOUND]
            else:
                code = row[a] if operation == BOUND_ROW else kept[a]
                _set_truth(stack[top], TRUE if code >= 0 else FALSE)
        elif operation <= GREATER_EQUAL:
            top -= 1
            _set_truth(stack[top], _stands(operation, stack[top], stack[top + 1], text))
        elif operation <= DIVIDE:
            top -= 1
            _calculate(operation, stack[top], stack[top + 1])
        elif operation <= ROUND:
            _change(operation, stack[top])
        elif operation <= OR:
            top -= 1
            one, other = _truth(stack[top]), _truth(stack[top + 1])
            decisive = FALSE if operation == AND else TRUE
            if one == decisive or other == decisive:
                one = decisive
            elif other == ERROR:
                one = ERROR
            _set_truth(stack[top], one)
        elif operation <= SKIP_IF_TRUE:
            answer = _truth(stack[top])
            if operation == NOT:
                _set_truth(stack[top], answer if answer == ERROR else TRUE - answer)
            elif answer == (TRUE if operation == SKIP_IF_TRUE else FALSE):
                _set_truth(stack[top], answer)
                at += a
        elif operation == SAME_TERM:
            top -= 1
            answer = TRUE if _same_term(stack[top], stack[top + 1], text) else FALSE
            if NOTHING in (stack[top]["kind"], stack[top + 1]["kind"]):
                answer = ERROR
            _set_truth(stack[top], answer)
        elif operation <= ENDS:
            top -= 1
            _set_truth(stack[top], _search(operation, stack[top], stack[top + 1], text))
        elif operation == IN_NOTHING:
            _set_truth(stack[top], ERROR if stack[top]["kind"] == NOTHING else FALSE)
        elif operation == CHOOSE:
            top -= 2
            answer = _truth(stack[top])
            if answer == ERROR:
                stack[top]["kind"] = NOTHING
            else:
                stack[top] = stack[top + 1 if answer == TRUE else top + 2]
        elif operation == OTHERWISE:
            top -= 1
            if stack[top]["kind"] == NOTHING:
                stack[top] = stack[top + 1]
        else:
            top += 1
            _set_truth(stack[top], _ask(values.answers, a, row, kept))
    result: int = _truth(stack[0])
    return result


@borrowing
def _keep(steps, values, codes, stack, mask):
    for k in range(len(codes)):
        mask[k] = holds(steps, values, codes[k], codes[k], stack) == TRUE


def keep(
    steps: NDArray[np.int32], values: Values, codes: NDArray[np.int32], stack: NDArray[np.void]
) -> NDArray[np.bool_]:
    """For each row of a table, whether the program holds; errors do not."""
    mask = np.empty(len(codes), np.bool_)
    _keep(steps, values, codes, stack, mask)
    return mask


@borrowing
def _evaluate(steps, values, codes, stack, out):
    for k in range(len(codes)):
        found = holds(steps, values, codes[k], codes[k], stack)
        if len(steps) == 3 and EQUAL <= steps[2, 0] <= GREATER_EQUAL:
            _set_truth(out[k], found)
        else:
            out[k] = stack[0]


def evaluate(
    steps: NDArray[np.int32],
    values: Values,
    codes: NDArray[np.int32],
    stack: NDArray[np.void],
    out: NDArray[np.void],
) -> None:
    """Write the value of a program for each row of a table; the kind of an error is NOTHING."""
    _evaluate(steps, values, codes, stack, out)
