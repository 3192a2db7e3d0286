"""`TermValues`: the values of all terms of a run, as arrays that expressions are evaluated on.

There is one record per term (`cernis.engine.graphs.expressions.FACT`), and for each function of one
term that a program uses a *term map*: an array from the term's code to the code of the function's
value. Values that are no terms are *made*: they are at the other end of the same array, under codes
from -2 down. No map has made values as arguments, so CONCAT(?x, "!") is not applied to its own
results.

Cost: a kernel reads each term once (`cernis.engine.graphs.lexical`), in half a microsecond with the
conversion from Python's text to bytes. A map costs one evaluation per term of the dictionary,
whether the function meets it or not: tens to hundreds of nanoseconds for the functions that have a
version for whole columns (STR, LANG, DATATYPE, the tests of kinds, STRLEN, REGEX), a few
microseconds per distinct argument for the others. Rows cost nothing. REGEX and REPLACE use RE2,
which takes time linear in the text; its \\d, \\w and \\s know ASCII only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cernis.engine.graphs import expressions as e
from cernis.engine.graphs.lexical import NO_TAG, STRING_TAG, slices
from cernis.languages.spaseq.terms import XSD, write_literal
from cernis.rdf.reading.tags import Tags
from cernis.rdf.reading.terms import Codes, Terms
from cernis.rdf.solving.terms import functions as f
from cernis.rdf.solving.terms.regex import translate_pattern, translate_replacement

_LANGUAGE_STRING = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"

_AT_ONCE = 1 << 20
"""Terms that are read at once: their texts fit into one Arrow array."""


class TermValues:
    """The values of all terms of a run, and the maps of functions.

    >>> terms = Terms()
    >>> values = TermValues(terms)
    >>> codes = terms.encode(['"5"^^<http://www.w3.org/2001/XMLSchema#integer>', '"a"@en'])
    >>> values.update().facts["number"][codes].tolist()
    [5.0, 0.0]
    >>> values.take_apart(values.apply(f.TermFunction("LANG", (None,)), codes))
    [TermParts(kind=3, text='', tag='...string'), TermParts(kind=3, text='en', tag='...string')]
    """

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.tags = Tags()
        self.era = 0
        """How often codes have changed."""
        self._known = 0
        self._made = 0
        self._used = 0
        self._facts = np.zeros(64, e.FACT)
        self._text = np.zeros(1024, np.uint8)
        self._interned: dict[str, int] = {}
        self._numbers: dict[f.TermFunction, int] = {}
        self._maps = np.full((0, 64), e.UNBOUND, np.int32)
        self.answers = e.new_answers()
        self.false, self.true = self.intern(
            [f.write_boolean(False), f.write_boolean(True)]
        ).tolist()

    # ------------------------------------------------------------- terms

    def update(self) -> e.Values:
        """Read the terms that are new and return the arrays."""
        while self._known < len(self.terms):
            first, last = self._known, min(len(self.terms), self._known + _AT_ONCE)
            codes = np.arange(first, last, dtype=np.int32)
            self._reserve(last, self._made)
            self._read(self.terms.texts(codes), codes)
            self._known = last
            for function, number in self._numbers.items():
                self._maps[number, first:last] = self.apply(function, codes)
        return e.Values(self._facts, self._text, self._maps, self.answers)

    def keep_terms(self, own: int, held: Iterable[Codes]) -> Codes:
        """Drop all terms but the first `own` and those that are held.

        Return the new code of each; all owners of codes must replace theirs.
        """
        live = np.zeros(len(self.terms), np.bool_)
        live[:own] = True
        for codes in held:
            live[codes[codes >= 0]] = True
        self._keep(live)
        return self.terms.keep(live)

    def _keep(self, live: NDArray[np.bool_]) -> None:
        """Drop the values of other terms and change codes, as `Terms.keep` does."""
        self.update()
        kept = np.flatnonzero(live).astype(np.int32)
        made = (-2 - np.arange(self._made)).astype(np.int32)
        codes = np.concatenate([kept, made])
        offsets, text = slices(self._text, self._facts, codes)
        facts, maps = self._facts[codes], self._maps[:, kept]
        facts["begin"] = offsets[:-1]
        self._text, self._used, self._known = text, len(text), len(kept)
        self._facts = np.zeros(2 * (len(codes) + 64), e.FACT)
        self._facts[: len(kept)] = facts[: len(kept)]
        self._facts[made] = facts[len(kept) :]
        self._maps = np.full((len(maps), len(self._facts)), e.UNBOUND, np.int32)
        self._maps[:, : len(kept)] = maps
        self.era += 1

    def _reserve(self, terms: int, made: int) -> None:
        """Make room for so many terms and made values."""
        size = len(self._facts)
        if terms + made + 1 > size:
            facts = np.zeros(max(2 * size, terms + made + 1), e.FACT)
            facts[: self._known] = self._facts[: self._known]
            facts[len(facts) - self._made - 1 :] = self._facts[size - self._made - 1 :]
            self._facts = facts
        room = self._maps.shape[1]
        if terms > room:
            maps = np.full((len(self._maps), max(2 * room, terms)), e.UNBOUND, np.int32)
            maps[:, :room] = self._maps
            self._maps = maps

    def _read(self, texts: pa.StringArray, codes: Codes) -> None:
        """Read terms into the facts of these codes."""
        need = self._used + texts.nbytes
        if need > len(self._text):
            text = np.zeros(max(2 * len(self._text), need), np.uint8)
            text[: self._used] = self._text[: self._used]
            self._text = text
        self._used, hard = self.tags.read(texts, codes, self._facts, self._text, self._used)
        self._read_hard(hard)

    def _read_hard(self, codes: Codes) -> None:
        """Read numbers with many digits, which the kernel does not round correctly."""
        texts = pc.utf8_ltrim(self.lexical(codes), characters="+")
        try:
            numbers = np.asarray(pc.cast(texts, pa.float64()))
        except pa.ArrowInvalid:  # some are beyond the largest float
            numbers = np.array([float(text) for text in texts.to_pylist()])
        with np.errstate(over="ignore"):
            coarse = numbers.astype(np.float32)
        is_float = self._facts["kind"][codes] == e.FLOAT
        self._facts["number"][codes] = np.where(is_float, coarse, numbers)

    # -------------------------------------------------------- made values

    def intern(self, texts: Sequence[str | None]) -> Codes:
        """Return the codes of made values in N-Triples form; -1 for None."""
        new = list(dict.fromkeys(t for t in texts if t is not None and t not in self._interned))
        if new:
            codes = self._add_made(np.zeros(len(new), e.FACT))
            self._read(pa.array(new, pa.string()), codes)
            self._interned.update(zip(new, codes.tolist(), strict=True))
        known = self._interned
        return np.array([e.UNBOUND if t is None else known[t] for t in texts], np.int32)

    def _add_made(self, facts: NDArray[np.void]) -> Codes:
        """Add made values and return their codes."""
        self._reserve(self._known, self._made + len(facts))
        codes = (-2 - np.arange(self._made, self._made + len(facts))).astype(np.int32)
        self._facts[codes] = facts
        self._made += len(facts)
        return codes

    def constant(self, text: str) -> int:
        """Return the code of a term that a query names."""
        code = self.terms.code(text)
        self.update()
        return code

    # ------------------------------------------------------------ reading

    def facts(self, codes: Codes) -> NDArray[np.void]:
        """Return the records of some codes, terms or made values."""
        return self._facts[codes]

    def kinds(self, codes: Codes) -> NDArray[np.int8]:
        found: NDArray[np.int8] = self._facts["kind"][codes]
        return found

    def tag_numbers(self, codes: Codes) -> NDArray[np.uint16]:
        found: NDArray[np.uint16] = self._facts["tag"][codes]
        return found

    def lexical(self, codes: Codes) -> pa.LargeStringArray:
        """Return lexical forms."""
        offsets, data = slices(self._text, self._facts, codes)
        return pa.LargeStringArray.from_buffers(
            len(codes), pa.py_buffer(offsets), pa.py_buffer(data)
        )

    def take_apart(self, codes: Codes) -> list[f.TermParts]:
        """Return the parts of terms or made values."""
        texts, names = self.lexical(codes).to_pylist(), self.tags.names
        kinds, tags = self.kinds(codes).tolist(), self.tag_numbers(codes).tolist()
        return [f.TermParts(k, x, names[t]) for k, x, t in zip(kinds, texts, tags, strict=True)]

    # --------------------------------------------------------------- maps

    def add_map(self, function: f.TermFunction) -> int:
        """Return the number of a function's map, which is updated from now on."""
        if function not in self._numbers:
            self.update()
            self._numbers[function] = len(self._maps)
            row = np.full((1, self._maps.shape[1]), e.UNBOUND, np.int32)
            self._maps = np.concatenate([self._maps, row])
            for first in range(0, self._known, _AT_ONCE):
                codes = np.arange(first, min(self._known, first + _AT_ONCE), dtype=np.int32)
                self._maps[-1, codes] = self.apply(function, codes)
        return self._numbers[function]

    def apply(self, function: f.TermFunction, codes: Codes) -> Codes:
        """Return a function's values for some codes; -1 for an error.

        Made values that only an inner function needs are dropped.
        """
        self._evaluate(function, codes[:0])  # constants are made now, and stay
        before, interned = self._made, len(self._interned)
        found = self._evaluate(function, codes)
        if len(self._interned) == interned and found.min(initial=0) >= -1 - before:
            self._made = before
        return found

    def _evaluate(self, function: f.TermFunction, codes: Codes) -> Codes:
        arguments = [
            codes
            if part is None
            else self._evaluate(part, codes)
            if isinstance(part, f.TermFunction)
            else self.intern([part])
            for part in function.arguments
        ]
        count = 1 if function.is_constant else len(codes)
        whole = _WHOLE.get(function.name)
        if whole is not None:
            rest = [self.take_apart(argument)[0] for argument in arguments[1:]]
            found = whole(self, arguments[0], *rest)
            return found if len(found) == count else np.repeat(found, count)
        return self._call_rows(function.name, [np.broadcast_to(a, count) for a in arguments])

    def _call_rows(self, name: str, columns: list[Codes]) -> Codes:
        """Return a function's values, called once for each distinct row of arguments."""
        first, inverse = _find_distinct([c for c in columns if c.strides != (0,)] or columns[:1])
        rows = zip(*(self.take_apart(column[first]) for column in columns), strict=True)
        evaluate = f.FUNCTIONS[name]
        texts = [
            evaluate(*row) if all(part.kind != e.NOTHING for part in row) else None for row in rows
        ]
        found = self.intern(texts)
        if f.find_cast(name):
            found[self._facts["kind"][found] >= e.ILL_TYPED] = e.UNBOUND
        return found[inverse]

    # ------------------------------------------------------------ columns

    @contextmanager
    def temporary(self) -> Iterator[None]:
        """Drop the values that are made inside; no term may become known there."""
        self.update()
        made, used, interned = self._made, self._used, len(self._interned)
        try:
            yield
        finally:
            while len(self._interned) > interned:
                self._interned.popitem()
            self._made, self._used = made, used

    def call(self, name: str, columns: list[Codes]) -> Codes:
        """Return a function's values for rows of arguments; -1 for an error."""
        whole = _WHOLE.get(name)
        if whole is None or not len(columns[0]):
            return self._call_rows(name, columns) if len(columns[0]) else columns[0]
        if len(columns) == 1:
            return whole(self, columns[0])
        found = np.full(len(columns[0]), e.UNBOUND, np.int32)
        first, inverse = _find_distinct(columns[1:])
        for number, row in enumerate(first.tolist()):
            mine = np.flatnonzero(inverse == number)
            rest = [self.take_apart(column[row : row + 1])[0] for column in columns[1:]]
            if all(part.kind == e.STRING for part in rest):
                with suppress(ValueError):  # a pattern that is none
                    found[mine] = whole(self, columns[0][mine], *rest)
        return found

    def intern_cells(self, cells: NDArray[np.void]) -> Codes:
        """Return the codes of values that programs have computed; -1 for errors."""
        words = cells.view(np.int64).reshape(len(cells), cells.itemsize // 8)
        _, first, inverse = np.unique(words, axis=0, return_index=True, return_inverse=True)
        few = cells[first]
        few["length"] = np.where(few["kind"] == e.NOTHING, -1, few["length"])
        offsets, data = slices(self._text, few, np.arange(len(few), dtype=np.int32))
        forms = pa.LargeStringArray.from_buffers(
            len(few), pa.py_buffer(offsets), pa.py_buffer(data)
        ).to_pylist()
        texts = [self._write_cell(*cell) for cell in zip(few, forms, strict=True)]
        return self.intern(texts)[inverse.reshape(-1)]

    def _write_cell(self, cell: np.void, form: str) -> str | None:
        if cell["kind"] == e.NOTHING:
            return None
        if cell["length"] >= 0:
            tag = int(cell["tag"])
            return f.write_term(f.TermParts(int(cell["kind"]), form, self.tags.names[tag]), tag)
        return f.write_computed(cell)

    def write_terms(self, codes: Codes) -> list[str | None]:
        """Return values in N-Triples form; None for errors."""
        tags = self.tag_numbers(codes).tolist()
        return [
            None if part.kind == e.NOTHING else f.write_term(part, tag)
            for part, tag in zip(self.take_apart(codes), tags, strict=True)
        ]


def _find_distinct(columns: list[Codes]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the index of each distinct row's first occurrence, and each row's index among them."""
    table = columns[0] if len(columns) == 1 else np.stack(columns, axis=1)
    _, first, inverse = np.unique(table, axis=0, return_index=True, return_inverse=True)
    return first, inverse.reshape(-1)


# ------------------------------------------------- functions of whole columns


def _answer(values: TermValues, answer: NDArray[np.bool_], known: NDArray[np.bool_]) -> Codes:
    found: Codes = np.where(answer, values.true, values.false).astype(np.int32)
    found[~known] = e.UNBOUND
    return found


def _is_kind(first: int, last: int) -> Callable[[TermValues, Codes], Codes]:
    def test(values: TermValues, codes: Codes) -> Codes:
        kinds = values.kinds(codes)
        return _answer(values, (first <= kinds) & (kinds <= last), kinds != e.NOTHING)

    return test


def _is_literal(values: TermValues, codes: Codes) -> Codes:
    known = values.kinds(codes) != e.NOTHING
    return _answer(values, values.tag_numbers(codes) != NO_TAG, known)


def _str(values: TermValues, codes: Codes) -> Codes:
    kinds = values.kinds(codes)
    is_triple = (kinds == e.OTHER) & (values.tag_numbers(codes) == NO_TAG)
    nothing = (kinds == e.NOTHING) | (kinds == e.BLANK) | is_triple
    found = np.where(nothing, e.UNBOUND, codes).astype(np.int32)
    changed = np.flatnonzero((found != e.UNBOUND) & (kinds != e.STRING))
    facts = values.facts(codes[changed])
    facts["kind"], facts["tag"], facts["scale"] = e.STRING, STRING_TAG, e.INEXACT
    found[changed] = values._add_made(facts)
    return found


def _of_tag(text_of: Callable[[str, bool], str]) -> Callable[[TermValues, Codes], Codes]:
    """Return a function of the datatype or language alone."""

    def apply(values: TermValues, codes: Codes) -> Codes:
        tags, inverse = np.unique(values.tag_numbers(codes), return_inverse=True)
        names, is_language = values.tags.names, values.tags.is_language
        texts = [
            None if tag == NO_TAG else text_of(names[tag], is_language[tag])
            for tag in tags.tolist()
        ]
        found: Codes = values.intern(texts)[inverse]
        return found

    return apply


def _find_strings(values: TermValues, codes: Codes) -> NDArray[np.intp]:
    """Return the indices of strings, with or without a language."""
    kinds = values.kinds(codes)
    return np.flatnonzero((kinds == e.STRING) | (kinds == e.TAGGED))


def _length(values: TermValues, codes: Codes) -> Codes:
    found = np.full(len(codes), e.UNBOUND, np.int32)
    strings = _find_strings(values, codes)
    lengths = np.asarray(pc.utf8_length(values.lexical(codes[strings])))
    distinct, inverse = np.unique(lengths, return_inverse=True)
    made = values.intern(
        [write_literal(str(n), datatype=XSD + "integer") for n in distinct.tolist()]
    )
    found[strings] = made[inverse]
    return found


def _regex(
    values: TermValues, codes: Codes, pattern: f.TermParts, flags: f.TermParts | None = None
) -> Codes:
    found = np.full(len(codes), e.UNBOUND, np.int32)
    strings = _find_strings(values, codes)
    expression = translate_pattern(pattern.text, flags.text if flags else "")
    answer = pc.match_substring_regex(values.lexical(codes[strings]), expression)
    found[strings] = np.where(np.asarray(answer), values.true, values.false)
    return found


def _replace(
    values: TermValues,
    codes: Codes,
    pattern: f.TermParts,
    by: f.TermParts,
    flags: f.TermParts | None = None,
) -> Codes:
    found = np.full(len(codes), e.UNBOUND, np.int32)
    strings = _find_strings(values, codes)
    expression = translate_pattern(pattern.text, flags.text if flags else "")
    texts = pc.replace_substring_regex(
        values.lexical(codes[strings]), expression, translate_replacement(by.text)
    )
    tags = values.tag_numbers(codes[strings]).tolist()
    languages = [values.tags.names[t] if values.tags.is_language[t] else "" for t in tags]
    found[strings] = values.intern(
        [
            write_literal(text) + (f"@{language}" if language else "")
            for text, language in zip(texts.to_pylist(), languages, strict=True)
        ]
    )
    return found


_WHOLE: dict[str, Callable[..., Codes]] = {
    "STR": _str,
    "LANG": _of_tag(lambda name, is_language: write_literal(name if is_language else "")),
    "DATATYPE": _of_tag(lambda name, is_language: f"<{_LANGUAGE_STRING if is_language else name}>"),
    "ISIRI": _is_kind(e.IRI, e.IRI),
    "ISURI": _is_kind(e.IRI, e.IRI),
    "ISBLANK": _is_kind(e.BLANK, e.BLANK),
    "ISNUMERIC": _is_kind(e.INTEGER, e.DOUBLE),
    "ISLITERAL": _is_literal,
    "STRLEN": _length,
    "REGEX": _regex,
    "REPLACE": _replace,
}
