"""What is known of every term of a run: the arrays that expressions are evaluated on.

`TermValues` keeps one record per term (`cernis.engine.graphs.expressions.FACT`) in step with a
growing dictionary of terms, and the *term maps*: for each function of one term that a program uses,
an array from the term's code to the code of the function's value. Values that functions make are
kept at the other end of the same array, under codes from -2 down; they are not terms, and no map is
ever made for them, so that CONCAT(?x, "!") does not breed.

Cost: a term is read once, by a kernel (`cernis.engine.graphs.lexical`): half a microsecond together
with the way from Python's text to bytes. A map costs one evaluation per term of the dictionary,
whether it occurs where the function looks or not: some tens to hundreds of nanoseconds for the
functions that have a version for whole columns (STR, LANG, DATATYPE, the tests of kinds, STRLEN,
REGEX), a few microseconds per distinct argument for the others. Rows cost nothing. REGEX and
REPLACE use RE2, which takes time linear in the text whatever the pattern is; its \\d, \\w and \\s
know ASCII only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cernis.encoding.regex import regex_mistake
from cernis.engine.graphs import expressions as e
from cernis.engine.graphs.lexical import (
    NO_TAG,
    STRING_TAG,
    TagTable,
    fill_slots,
    read_terms,
    slices,
)
from cernis.errors import DataError
from cernis.rdf.reading.terms import Codes, Terms
from cernis.rdf.solving.functions import PLAIN, XSD, Applied, Piece, boolean, cast_to, quoted

__all__ = ["Tags", "TermValues", "regular"]

_LANGUAGE_STRING = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"

_KINDS = {
    "string": e.STRING,
    "boolean": e.BOOLEAN,
    "decimal": e.DECIMAL,
    "float": e.FLOAT,
    "double": e.DOUBLE,
    "dateTime": e.INSTANT,
    "date": e.DATE,
    "dayTimeDuration": e.DURATION,
}
_LEAST = -(2**63 - 1)
_INTEGERS: dict[str, tuple[int, int]] = {
    "integer": (_LEAST, 2**63 - 1),
    "long": (_LEAST, 2**63 - 1),
    "int": (-(2**31), 2**31 - 1),
    "short": (-(2**15), 2**15 - 1),
    "byte": (-(2**7), 2**7 - 1),
    "nonNegativeInteger": (0, 2**63 - 1),
    "positiveInteger": (1, 2**63 - 1),
    "nonPositiveInteger": (_LEAST, 0),
    "negativeInteger": (_LEAST, -1),
    "unsignedLong": (0, 2**63 - 1),
    "unsignedInt": (0, 2**32 - 1),
    "unsignedShort": (0, 2**16 - 1),
    "unsignedByte": (0, 2**8 - 1),
}

_MOST_TAGS = 2**16 - 1


class Tags:
    """Every datatype and language met so far.

    >>> tags = Tags()
    >>> tags.add("@en"), tags.add("@EN"), tags.names[tags.add("^^<http://x/t>")]
    (2, 2, 'http://x/t')
    """

    def __init__(self) -> None:
        self.names = ["", XSD + "string"]
        """Per tag, the IRI of the datatype or the language."""
        self.is_language = [False, False]
        self._suffixes: dict[str, tuple[int, int, int, int]] = {}
        self._numbers: dict[tuple[str, bool], int] = {(XSD + "string", False): STRING_TAG}
        self._table: TagTable | None = None
        self.add("")
        self.add(f"^^<{XSD}string>")

    def add(self, suffix: str) -> int:
        """The tag of what stands after a literal's closing quote."""
        if suffix in self._suffixes:
            return self._suffixes[suffix][0]
        is_language = suffix.startswith("@")
        name = suffix[1:].lower() if is_language else suffix[3:-1] or XSD + "string"
        tag = self._numbers.setdefault((name, is_language), len(self.names))
        if tag == len(self.names):
            if tag > _MOST_TAGS:
                raise DataError(f"the data has more than {_MOST_TAGS} datatypes and languages")
            self.names.append(name)
            self.is_language.append(is_language)
        local = name.removeprefix(XSD) if name.startswith(XSD) and not is_language else ""
        kind = e.TAGGED if is_language else _KINDS.get(local, e.OTHER)
        least, most = _INTEGERS.get(local, (0, 0))
        if local in _INTEGERS:
            kind = e.INTEGER
        self._suffixes[suffix] = tag, kind, least, most
        self._table = None
        return tag

    def table(self) -> TagTable:
        if self._table is None:
            self._table = _table(self._suffixes)
        return self._table


def _table(suffixes: dict[str, tuple[int, int, int, int]]) -> TagTable:
    encoded = [suffix.encode() for suffix in suffixes]
    lengths = np.array([len(suffix) for suffix in encoded], np.int32)
    begin = np.zeros(len(encoded), np.int64)
    np.cumsum(lengths[:-1], out=begin[1:])
    text = np.frombuffer(b"".join(encoded) or b"\0", np.uint8)
    tag, kind, least, most = (list(column) for column in zip(*suffixes.values(), strict=True))
    size = 1 << (2 * len(encoded)).bit_length()
    slots = np.full(size, -1, np.int32)
    fill_slots(slots, begin, lengths, text)
    return TagTable(
        slots,
        begin,
        lengths,
        text,
        np.array(tag, np.uint16),
        np.array(kind, np.int8),
        np.array(least, np.int64),
        np.array(most, np.int64),
    )


# -------------------------------------------------------------------- values

_AT_ONCE = 1 << 20
"""Terms that are read at once: their texts fit into one Arrow array."""


class TermValues:
    """The values of all terms of a run, and the maps of the functions that are asked of them.

    >>> terms = Terms()
    >>> values = TermValues(terms)
    >>> codes = terms.encode(['"5"^^<http://www.w3.org/2001/XMLSchema#integer>', '"a"@en'])
    >>> values.current().facts["number"][codes].tolist()
    [5.0, 0.0]
    >>> values.pieces(values.apply(Applied("LANG", (None,)), codes))
    [Piece(kind=3, text='', tag='...string'), Piece(kind=3, text='en', tag='...string')]
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
        self._numbers: dict[Applied, int] = {}
        self._maps = np.full((0, 64), e.UNBOUND, np.int32)
        self.false, self.true = self.made([boolean(False), boolean(True)]).tolist()

    # ------------------------------------------------------------ in step

    def current(self) -> e.Values:
        """The arrays, with all terms that there are now."""
        while self._known < len(self.terms):
            first, last = self._known, min(len(self.terms), self._known + _AT_ONCE)
            codes = np.arange(first, last, dtype=np.int32)
            self._reserve(last, self._made)
            self._read(self.terms.texts(codes), codes)
            self._known = last
            for applied, number in self._numbers.items():
                self._maps[number, first:last] = self.apply(applied, codes)
        return e.Values(self._facts, self._text, self._maps)

    def keep(self, live: NDArray[np.bool_]) -> None:
        """Follows `Terms.keep`: what is known of other terms is let go of, and codes change."""
        self.current()
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
        """Room for so many terms and made values."""
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
        """Reads terms into the facts of these codes."""
        _, offsets, data = texts.buffers()
        first = np.frombuffer(offsets, np.int32)[texts.offset :][: len(texts) + 1]
        raw = np.frombuffer(data or b"\0", np.uint8)
        need = self._used + int(first[-1] - first[0])
        if need > len(self._text):
            text = np.zeros(max(2 * len(self._text), need), np.uint8)
            text[: self._used] = self._text[: self._used]
            self._text = text
        hard = np.empty(len(codes), np.int32)
        used = np.array([self._used, 0, 0], np.int64)
        while True:
            done = read_terms(
                raw, first, codes, self._facts, self._text, used, self.tags.table(), hard
            )
            if done == len(codes):
                break
            self.tags.add(texts[done].as_py().rpartition('"')[2])
        self._used = int(used[0])
        self._read_hard(hard[: used[1]])

    def _read_hard(self, codes: Codes) -> None:
        """Numbers with so many digits that rounding them right takes care."""
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

    def made(self, texts: Sequence[str | None]) -> Codes:
        """Codes for values in N-Triples form that are no terms of the run; -1 for None."""
        new = list(dict.fromkeys(t for t in texts if t is not None and t not in self._interned))
        if new:
            codes = self._make(np.zeros(len(new), e.FACT))
            self._read(pa.array(new, pa.string()), codes)
            self._interned.update(zip(new, codes.tolist(), strict=True))
        known = self._interned
        return np.array([e.UNBOUND if t is None else known[t] for t in texts], np.int32)

    def _make(self, facts: NDArray[np.void]) -> Codes:
        """Codes for some more made values."""
        self._reserve(self._known, self._made + len(facts))
        codes = (-2 - np.arange(self._made, self._made + len(facts))).astype(np.int32)
        self._facts[codes] = facts
        self._made += len(facts)
        return codes

    def constant(self, text: str) -> int:
        """The code of a term that a query names."""
        code = self.terms.code(text)
        self.current()
        return code

    # ------------------------------------------------------------ reading

    def facts(self, codes: Codes) -> NDArray[np.void]:
        """The records of some codes, terms or made values."""
        return self._facts[codes]

    def kinds(self, codes: Codes) -> NDArray[np.int8]:
        found: NDArray[np.int8] = self._facts["kind"][codes]
        return found

    def tags_of(self, codes: Codes) -> NDArray[np.uint16]:
        found: NDArray[np.uint16] = self._facts["tag"][codes]
        return found

    def lexical(self, codes: Codes) -> pa.LargeStringArray:
        """Lexical forms."""
        offsets, data = slices(self._text, self._facts, codes)
        return pa.LargeStringArray.from_buffers(
            len(codes), pa.py_buffer(offsets), pa.py_buffer(data)
        )

    def pieces(self, codes: Codes) -> list[Piece]:
        """Terms or made values taken apart."""
        texts, names = self.lexical(codes).to_pylist(), self.tags.names
        kinds, tags = self.kinds(codes).tolist(), self.tags_of(codes).tolist()
        return [Piece(k, x, names[t]) for k, x, t in zip(kinds, texts, tags, strict=True)]

    # --------------------------------------------------------------- maps

    def map_of(self, applied: Applied) -> int:
        """The number of a function's map, which is kept from now on."""
        if applied not in self._numbers:
            self.current()
            self._numbers[applied] = len(self._maps)
            row = np.full((1, self._maps.shape[1]), e.UNBOUND, np.int32)
            self._maps = np.concatenate([self._maps, row])
            for first in range(0, self._known, _AT_ONCE):
                codes = np.arange(first, min(self._known, first + _AT_ONCE), dtype=np.int32)
                found = self.apply(applied, codes)
                self._maps[-1, codes] = found
        return self._numbers[applied]

    def apply(self, applied: Applied, codes: Codes) -> Codes:
        """A function's values for some codes; -1 where it is an error.

        Made values that only an inner function needed are forgotten again.
        """
        self._evaluate(applied, codes[:0])  # constants are made now, and stay
        before, interned = self._made, len(self._interned)
        found = self._evaluate(applied, codes)
        if len(self._interned) == interned and found.min(initial=0) >= -1 - before:
            self._made = before
        return found

    def _evaluate(self, applied: Applied, codes: Codes) -> Codes:
        arguments = [
            codes
            if part is None
            else self._evaluate(part, codes)
            if isinstance(part, Applied)
            else np.full(1, self._constant_of(part), np.int32)
            for part in applied.arguments
        ]
        count = 1 if applied.is_constant else len(codes)
        whole = _WHOLE.get(applied.name)
        if whole is not None:
            rest = [self.pieces(argument)[0] for argument in arguments[1:]]
            found = whole(self, arguments[0], *rest)
            return found if len(found) == count else np.repeat(found, count)
        columns = [np.broadcast_to(argument, count) for argument in arguments]
        first, place = _first_of_each([c for c in columns if c.strides != (0,)] or columns[:1])
        rows = zip(*(self.pieces(column[first]) for column in columns), strict=True)
        function = PLAIN[applied.name]
        texts = [
            None if any(piece.kind == e.NOTHING for piece in row) else function(*row)
            for row in rows
        ]
        found = self.made(texts)
        if cast_to(applied.name):
            found[self._facts["kind"][found] >= e.ILL_TYPED] = e.UNBOUND
        return found[place]

    def _constant_of(self, text: str) -> int:
        return int(self.made([text])[0])


def _first_of_each(columns: list[Codes]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where each distinct row stands first, and for each row which of these it is."""
    table = columns[0] if len(columns) == 1 else np.stack(columns, axis=1)
    _, first, place = np.unique(table, axis=0, return_index=True, return_inverse=True)
    return first, place.reshape(-1)


# ------------------------------------------------- functions of whole columns


def _test(
    values: TermValues, codes: Codes, answer: NDArray[np.bool_], known: NDArray[np.bool_]
) -> Codes:
    found: Codes = np.where(answer, values.true, values.false).astype(np.int32)
    found[~known] = e.UNBOUND
    return found


def _is_kind(first: int, last: int) -> Callable[[TermValues, Codes], Codes]:
    def test(values: TermValues, codes: Codes) -> Codes:
        kinds = values.kinds(codes)
        return _test(values, codes, (first <= kinds) & (kinds <= last), kinds != e.NOTHING)

    return test


def _is_literal(values: TermValues, codes: Codes) -> Codes:
    known = values.kinds(codes) != e.NOTHING
    return _test(values, codes, values.tags_of(codes) != NO_TAG, known)


def _str(values: TermValues, codes: Codes) -> Codes:
    kinds = values.kinds(codes)
    found = np.where((kinds == e.NOTHING) | (kinds == e.BLANK), e.UNBOUND, codes).astype(np.int32)
    changed = np.flatnonzero((found != e.UNBOUND) & (kinds != e.STRING))
    facts = values.facts(codes[changed])
    facts["kind"], facts["tag"], facts["scale"] = e.STRING, STRING_TAG, e.INEXACT
    found[changed] = values._make(facts)
    return found


def _by_tag(values: TermValues, codes: Codes, text_of: Callable[[str, bool], str | None]) -> Codes:
    """A function of the datatype or language alone."""
    tags, place = np.unique(values.tags_of(codes), return_inverse=True)
    names, is_language = values.tags.names, values.tags.is_language
    texts = [
        None if tag == NO_TAG else text_of(names[tag], is_language[tag]) for tag in tags.tolist()
    ]
    found: Codes = values.made(texts)[place]
    return found


def _lang(values: TermValues, codes: Codes) -> Codes:
    return _by_tag(values, codes, lambda name, is_language: quoted(name if is_language else ""))


def _datatype(values: TermValues, codes: Codes) -> Codes:
    return _by_tag(
        values, codes, lambda name, is_language: f"<{_LANGUAGE_STRING if is_language else name}>"
    )


def _strings(values: TermValues, codes: Codes) -> NDArray[np.intp]:
    """Where strings stand, with or without a language."""
    kinds = values.kinds(codes)
    return np.flatnonzero((kinds == e.STRING) | (kinds == e.TAGGED))


def _length(values: TermValues, codes: Codes) -> Codes:
    found = np.full(len(codes), e.UNBOUND, np.int32)
    places = _strings(values, codes)
    lengths = np.asarray(pc.utf8_length(values.lexical(codes[places])))
    distinct, place = np.unique(lengths, return_inverse=True)
    made = values.made([quoted(str(n), XSD + "integer") for n in distinct.tolist()])
    found[places] = made[place]
    return found


def _regex(values: TermValues, codes: Codes, pattern: Piece, flags: Piece | None = None) -> Codes:
    found = np.full(len(codes), e.UNBOUND, np.int32)
    places = _strings(values, codes)
    expression = regular(pattern.text, flags.text if flags else "")
    answer = pc.match_substring_regex(values.lexical(codes[places]), expression)
    found[places] = np.where(np.asarray(answer), values.true, values.false)
    return found


def _replace(
    values: TermValues, codes: Codes, pattern: Piece, by: Piece, flags: Piece | None = None
) -> Codes:
    found = np.full(len(codes), e.UNBOUND, np.int32)
    places = _strings(values, codes)
    expression = regular(pattern.text, flags.text if flags else "")
    texts = pc.replace_substring_regex(
        values.lexical(codes[places]), expression, replacement_for_re2(by.text)
    )
    tags = values.tags_of(codes[places]).tolist()
    languages = [values.tags.names[t] if values.tags.is_language[t] else "" for t in tags]
    found[places] = values.made(
        [
            quoted(text) + (f"@{language}" if language else "")
            for text, language in zip(texts.to_pylist(), languages, strict=True)
        ]
    )
    return found


_WHOLE: dict[str, Callable[..., Codes]] = {
    "STR": _str,
    "LANG": _lang,
    "DATATYPE": _datatype,
    "ISIRI": _is_kind(e.IRI, e.IRI),
    "ISURI": _is_kind(e.IRI, e.IRI),
    "ISBLANK": _is_kind(e.BLANK, e.BLANK),
    "ISNUMERIC": _is_kind(e.INTEGER, e.DOUBLE),
    "ISLITERAL": _is_literal,
    "STRLEN": _length,
    "REGEX": _regex,
    "REPLACE": _replace,
}


# ------------------------------------------------------- regular expressions


def regular(pattern: str, flags: str) -> str:
    r"""A pattern as RE2 takes it; ValueError says what is wrong with it.

    >>> regular("a b", "ix"), regular("a.b", "q")
    ('(?i)ab', 'a\\.b')
    """
    unknown = sorted(set(flags) - set("ismxq"))
    if unknown:
        raise ValueError(f"unknown flag {unknown[0]!r}: there are i, s, m, x and q")
    if "q" in flags:
        pattern = "".join(c if c.isalnum() or ord(c) > 127 else "\\" + c for c in pattern)
    elif "x" in flags:
        pattern = "".join(_without_blanks(pattern))
    switches = "".join(flag for flag in "ism" if flag in flags)
    expression = f"(?{switches}){pattern}" if switches else pattern
    wrong = regex_mistake(expression)
    if wrong is not None:
        raise ValueError(wrong)
    return expression


def _without_blanks(pattern: str) -> Iterable[str]:
    """The `x` flag: blanks count only in character classes and after a backslash."""
    depth, escaped = 0, False
    for character in pattern:
        if escaped or depth or not character.isspace():
            yield character
        if not escaped:
            depth += (character == "[") - (character == "]" and depth > 0)
        escaped = character == "\\" and not escaped


def replacement_for_re2(text: str) -> str:
    r"""The replacement of REPLACE, in which $1 is a group and \$ a dollar, as RE2 writes it.

    >>> replacement_for_re2(r"[$1\$]")
    '[\\1$]'
    """
    written, at = [], 0
    while at < len(text):
        character, following = text[at], text[at + 1 : at + 2]
        if character == "$" and following.isdigit():
            written.append("\\" + following)
            at += 2
        elif character == "\\" and following in ("\\", "$"):
            written.append("\\\\" if following == "\\" else "$")
            at += 2
        else:
            written.append("\\\\" if character == "\\" else character)
            at += 1
    return "".join(written)
