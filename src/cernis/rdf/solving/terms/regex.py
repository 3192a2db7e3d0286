"""The regular expressions of REGEX and REPLACE, as RE2 writes them."""

from __future__ import annotations

from collections.abc import Iterable

from cernis.events.evaluation.regex import regex_mistake


def translate_pattern(pattern: str, flags: str) -> str:
    r"""Return a pattern as RE2 writes it; raise ValueError if it is not a regular expression.

    >>> translate_pattern("a b", "ix"), translate_pattern("a.b", "q")
    ('(?i)ab', 'a\\.b')
    """
    unknown = sorted(set(flags) - set("ismxq"))
    if unknown:
        raise ValueError(f"unknown flag {unknown[0]!r}: there are i, s, m, x and q")
    if "q" in flags:
        pattern = "".join(c if c.isalnum() or ord(c) > 127 else "\\" + c for c in pattern)
    elif "x" in flags:
        pattern = "".join(_drop_blanks(pattern))
    switches = "".join(flag for flag in "ism" if flag in flags)
    expression = f"(?{switches}){pattern}" if switches else pattern
    wrong = regex_mistake(expression)
    if wrong is not None:
        raise ValueError(wrong)
    return expression


def _drop_blanks(pattern: str) -> Iterable[str]:
    """Yield a pattern by the `x` flag: without blanks, except in classes and after a backslash."""
    depth, escaped = 0, False
    for character in pattern:
        if escaped or depth or not character.isspace():
            yield character
        if not escaped:
            depth += (character == "[") - (character == "]" and depth > 0)
        escaped = character == "\\" and not escaped


def translate_replacement(text: str) -> str:
    r"""Return a replacement as RE2 writes it; in REPLACE $1 is a group and \$ a dollar.

    >>> translate_replacement(r"[$1\$]")
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
