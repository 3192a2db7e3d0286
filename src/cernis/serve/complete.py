"""Complete a word: keywords, event types, attributes of the loaded data, variables, functions.

The word before the cursor decides what fits, and what stands before it decides the order: inside
brackets attributes come first, after FROM streams. No parse is needed, so half a query is no
obstacle.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from cernis.languages.ceql import words as ceql_words
from cernis.languages.conjunctive import words as conjunctive_words
from cernis.languages.spaseq import words as spaseq_words
from cernis.languages.text import words as text_words
from cernis.pattern.functions import FUNCTIONS
from cernis.pattern.write import write_name
from cernis.serve.check import KnownData, count_units

_TERMINALS: Mapping[str, Mapping[str, str]] = {
    "ceql": ceql_words.TERMINALS,
    "cq": conjunctive_words.TERMINALS,
    "spaseq": spaseq_words.TERMINALS,
}
_SQL = re.findall(
    r"\w+",
    """
    AFTER ALL AND AS ASC BETWEEN BY CASE CAST CROSS DEFINE DESC DISTINCT ELSE EMPTY END EXISTS
    FALSE FINAL FROM GROUP HAVING IN INNER INTERVAL INTO IS JOIN LAST LEFT LIKE LIMIT MATCH
    MATCHES MATCH_RECOGNIZE MEASURES NEXT NOT NULL OMIT ON ONE OR ORDER OUTER PARTITION PAST
    PATTERN PER PERMUTE RIGHT ROW ROWS RUNNING SELECT SHOW SKIP SUBSET THEN TO TRUE UNION
    UNMATCHED USING VALUES WHEN WHERE WITH WITHIN
    """,
)
"""The words of SQL that a statement with MATCH_RECOGNIZE has most; the library knows the rest."""
_KEYWORDS: Mapping[str, Sequence[str]] = {
    **{name: sorted(own) for name, own in _TERMINALS.items()},
    "sql": _SQL,
}
_FUNCTIONS: Mapping[str, Sequence[str]] = {
    "ceql": ("COUNT", "SUM", "AVG", "MIN", "MAX", "FIRST", "LAST", "PREV"),
    "cq": (),
    "sql": (
        *("COUNT", "SUM", "AVG", "MIN", "MAX", "FIRST", "LAST", "PREV", "NEXT"),
        *("CLASSIFIER", "MATCH_NUMBER", "COALESCE", "ABS"),
    ),
    "spaseq": ("REGEX", "STR", "BOUND", "CONTAINS", "STRSTARTS", "STRENDS", "LANG", "DATATYPE"),
}
_ORDER = {
    "bracket": ("attribute", "function", "keyword"),
    "from": ("stream", "keyword"),
    "formula": ("type", "variable", "keyword", "function", "stream", "attribute"),
}
_SOFT: Mapping[str, Collection[str]] = {
    "ceql": ceql_words.SOFT,
    "cq": text_words.SOFT,
    "spaseq": (),
    "sql": ("FIRST", "LAST", "NEXT", "ROW", "ROWS", "MATCH", "PATTERN", "PAST", "SKIP", "SHOW"),
}
_MOST = 200
_WORD = re.compile(r"[?\w.]*\Z")
_VARIABLES = {
    "ceql": re.compile(r"\b(?:AS|IN)\s+([A-Za-z_]\w*)", re.IGNORECASE),
    "cq": re.compile(r"[(,:]\s*([A-Za-z_]\w*)\s*(?=[,)])"),
    "spaseq": re.compile(r"(\?[A-Za-z_]\w*)"),
    "sql": re.compile(r"\b([A-Za-z_]\w*)\s+AS\b", re.IGNORECASE),
}
_PATTERNS = re.compile(r"\bGPM\s+([A-Za-z_]\w*)", re.IGNORECASE)


def list_keywords() -> dict[str, dict[str, list[str]]]:
    """Return the keywords of each language: those that always are, and those that may be names.

    >>> list_keywords()["cq"]["always"]
    ['FALSE', 'NULL', 'TRUE', 'WITHIN']
    """
    return {
        language: {
            "always": [word for word in words if not _is_soft(language, word)],
            "soft": [word for word in words if _is_soft(language, word)],
        }
        for language, words in _KEYWORDS.items()
    }


def _is_soft(language: str, word: str) -> bool:
    return _TERMINALS.get(language, {}).get(word, word) in _SOFT[language]


class Completion(NamedTuple):
    """A word that may stand here."""

    label: str
    kind: str
    detail: str = ""


def complete(
    language: str, text: str, line: int, column: int, known: KnownData | None
) -> dict[str, Any]:
    """Return the words that may replace the one before the cursor, and where it begins."""
    lines = text.split("\n")
    current = lines[line - 1] if 0 < line <= len(lines) else ""
    units = current.encode("utf-16-le", "surrogatepass")[: 2 * max(0, column - 1)]
    before = units.decode("utf-16-le", "replace")
    found = _WORD.search(before)
    word = found[0] if found else ""
    whole = "\n".join([*lines[: line - 1], before])
    context = _find_context(whole[: len(whole) - len(word)])
    kinds = _ORDER[context]
    fitting = [
        one
        for one in dict.fromkeys(_list_words(language, text, known))
        if one.kind in kinds and one.label.lower().startswith(word.lower()) and one.label != word
    ]
    fitting.sort(key=lambda one: (kinds.index(one.kind), one.label.lower()))
    return {
        "from_column": count_units(before[: len(before) - len(word)]) + 1,
        "options": [one._asdict() for one in fitting[:_MOST]],
    }


def _find_context(before: str) -> str:
    """Return where the cursor stands: in brackets, after FROM, or elsewhere."""
    if before.rfind("[") > before.rfind("]"):
        return "bracket"
    last = re.findall(r"\b(FROM|WHERE|SELECT|ON)\b", before, re.IGNORECASE)
    return "from" if last and last[-1].upper() == "FROM" else "formula"


def _list_words(language: str, text: str, known: KnownData | None) -> Iterator[Completion]:
    for word in _KEYWORDS.get(language, ()):
        if word not in _FUNCTIONS[language]:
            yield Completion(word, "keyword")
    for word in _FUNCTIONS.get(language, ()):
        yield Completion(word, "function")
    if language in ("ceql", "cq"):  # those of the package, and what this process registered
        for function in FUNCTIONS.values():
            yield Completion(function.name, "function", function.signature)
    if (pattern := _VARIABLES.get(language)) is not None:
        for name in pattern.findall(text):
            yield Completion(name, "variable")
    if language == "spaseq":
        for name in _PATTERNS.findall(text):
            yield Completion(name, "type", "graph pattern")
    if known is None:
        return
    for stream in known.schema.streams:
        yield Completion(stream.name, "stream")
        for type_ in known.types.get(stream.name, ()):
            yield Completion(_quote(type_), "type", stream.name)
        for name, kind in stream.attributes.items():
            yield Completion(_quote(name), "attribute", kind.value)


def _quote(name: str) -> str:
    """Return a name as a query writes it; each part of a nested one by itself."""
    return ".".join(map(write_name, name.split(".")))
