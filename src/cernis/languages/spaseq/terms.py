"""RDF terms of a query in the one form that terms are compared in.

The form is canonical N-Triples, as data is read in: a quote, a backslash and control characters
are escaped, nothing else; language tags are in small letters; xsd:string is left out. Linear
in the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

XSD = "http://www.w3.org/2001/XMLSchema#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDF_TYPE = f"<{RDF}type>"
RDF_FIRST, RDF_REST, RDF_NIL = f"<{RDF}first>", f"<{RDF}rest>", f"<{RDF}nil>"
KNOWN_PREFIXES: Mapping[str, str] = {
    "xsd": XSD,
    "rdf": RDF,
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
}
"""Prefixes that need no declaration."""

_PLAIN = re.compile(
    f'"([^"]*)"\\^\\^<{XSD}(?:integer|decimal|double|float|boolean|dateTime|date|time|duration)>'
)
_ESCAPED = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}
_TO_ESCAPE = re.compile('["\\\\\0-\x1f\x7f\ufffe\uffff]')
_UNESCAPED = {
    "t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\",
}  # fmt: skip
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.)|$)", re.DOTALL)
_FORBIDDEN_IN_IRI = re.compile('[\0- <>"{}|^`\\\\]|%(?![0-9A-Fa-f]{2})')
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_REFERENCE = re.compile(
    r"(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL
)


class TermError(ValueError):
    """The text of a term is wrong; the message says how."""


# --------------------------------------------------------------------- literals


def unescape(text: str) -> str:
    r"""Return a text without its escapes.

    >>> unescape(r"a\tb\u0041")
    'a\tbA'
    """
    return _ESCAPE.sub(_unescape_match, text) if "\\" in text else text


def _unescape_match(found: re.Match[str]) -> str:
    short, long, letter = found.groups()
    if letter is not None or (short is None and long is None):
        if letter not in _UNESCAPED:
            raise TermError(f"'{found[0]}' is not an escape")
        return _UNESCAPED[letter]
    code = int(short or long, 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise TermError(f"'{found[0]}' is not a character")
    return chr(code)


def read_string(written: str) -> str:
    r"""Return the value of a string in quotes, of which there may be three.

    >>> read_string(r"'it\'s'"), read_string("'''a'b'''")
    ("it's", "a'b")
    """
    quotes = 3 if len(written) >= 6 and written[:3] == written[0] * 3 else 1
    return unescape(written[quotes:-quotes])


def write_literal(value: str, *, language: str | None = None, datatype: str | None = None) -> str:
    r"""Write a literal; `datatype` is an IRI without brackets.

    >>> write_literal('say "a"\n'), write_literal("a", language="en-GB")
    ('"say \\"a\\"\\n"', '"a"@en-gb')
    >>> write_literal("5", datatype=XSD + "byte")
    '"5"^^<http://www.w3.org/2001/XMLSchema#byte>'
    """
    text = '"' + _TO_ESCAPE.sub(_escape_match, value) + '"'
    if language is not None:
        return f"{text}@{language.lower()}"
    return text if datatype in (None, XSD + "string") else f"{text}^^<{datatype}>"


def _escape_match(found: re.Match[str]) -> str:
    return _ESCAPED.get(found[0]) or f"\\u{ord(found[0]):04X}"


# ------------------------------------------------------------------------- IRIs


def read_iri(written: str, base: str | None) -> str:
    """Return the IRI in angle brackets, relative to `base`; without brackets.

    >>> read_iri("<../c?d>", "http://example.org/a/b/")
    'http://example.org/a/c?d'
    """
    return make_iri(unescape(written[1:-1]), base)


def make_iri(text: str, base: str | None) -> str:
    """Return the IRI with this text, relative to `base`."""
    wrong = _FORBIDDEN_IN_IRI.search(text)
    if wrong:
        raise TermError(f"an IRI holds no {wrong[0]!r}")
    if _SCHEME.match(text):
        return text
    if base is None:
        raise TermError("a relative IRI needs a BASE")
    return resolve_iri(text, base)


def resolve_iri(reference: str, base: str) -> str:
    """Resolve a reference without a scheme, by RFC 3986, 5.2.

    >>> [resolve_iri(r, "http://a/b/c/d;p?q") for r in ("g", "../../../g", "?y", "#s", "//g")]
    ['http://a/b/c/g', 'http://a/g', 'http://a/b/c/d;p?y', 'http://a/b/c/d;p?q#s', 'http://g']
    """
    scheme, authority, path, query, _ = _split_iri(base)
    _, own_authority, own_path, own_query, fragment = _split_iri(reference)
    if own_authority is not None:
        authority, path, query = own_authority, _remove_dots(own_path or ""), own_query
    elif not own_path:
        query = query if own_query is None else own_query
    else:
        if not own_path.startswith("/"):
            here = path or ("/" if authority is not None else "")
            own_path = here[: here.rfind("/") + 1] + own_path
        path, query = _remove_dots(own_path), own_query
    return "".join(
        (
            f"{scheme}:",
            "" if authority is None else f"//{authority}",
            path or "",
            "" if query is None else f"?{query}",
            "" if fragment is None else f"#{fragment}",
        )
    )


def _split_iri(iri: str) -> tuple[str | None, ...]:
    found = _REFERENCE.fullmatch(iri)
    return found.groups() if found else (None, None, iri, None, None)


def _remove_dots(path: str) -> str:
    kept: list[str] = []
    segments = path.split("/")
    for segment in segments:
        if segment == "..":
            if len(kept) > 1 or (kept and kept[0] != ""):
                kept.pop()
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/".join(kept)


def read_local_name(written: str) -> str:
    r"""Return the local part of a prefixed name without its escapes.

    >>> read_local_name(r"a\-b%20c")
    'a-b%20c'
    """
    return re.sub(r"\\(.)", r"\1", written)


def show_term(text: str) -> str:
    """Return a term as tables for people have it: numbers, truth values and times are bare.

    >>> show_term(f'"24.86"^^<{XSD}decimal>'), show_term('"24.86"'), show_term("<urn:a>")
    ('24.86', '"24.86"', '<urn:a>')
    """
    plain = _PLAIN.fullmatch(text)
    return plain[1] if plain else text
