"""Regular expressions as RE2 reads them: Arrow's kernels, which run LIKE and REGEX, are RE2's.

RE2 itself says whether an expression is right, so no other list of its syntax is kept. It refuses
expressions whose program would be too large, and matches in time linear in the text.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

_LONGEST = 80
_OPEN_QUOTE = re.compile(r"(?s)(?:[^\\]|\\[^Q]|\\Q.*?\\E)*+\\Q")


def regex_mistake(expression: str) -> str | None:
    r"""Return what RE2 finds wrong with a regular expression, or None.

    >>> regex_mistake("(?<name>a+)"), regex_mistake("a(?!b)"), regex_mistake("a)|(b")
    (None, 'invalid perl operator: (?!', 'unexpected ): a)|(b')
    """
    try:
        pc.match_substring_regex(pa.array([""]), expression)
    except UnicodeEncodeError:
        return "it has half a character (a lone surrogate)"
    except pa.ArrowInvalid as error:
        text = str(error).removeprefix("Invalid regular expression: ").partition("\n")[0]
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return None


def like_mistake(pattern: str) -> str | None:
    """Return what RE2 finds wrong with the regular expression of a LIKE, or None."""
    return regex_mistake(pattern) or regex_mistake(anchor(pattern))


def count_groups(expression: str) -> int:
    """Return how many groups a sound regular expression has; of more than nine, nine.

    >>> [count_groups(expression) for expression in ("a", "(a)", "(?<x>a)(?:b)(c)")]
    [0, 1, 2]
    """
    for number in range(1, 10):
        try:
            pc.replace_substring_regex(pa.array([""]), expression, rf"\{number}")
        except pa.ArrowInvalid:
            return number - 1
    return 9


def anchor(pattern: str) -> str:
    r"""Return the regular expression that matches the same strings, as wholes only.

    >>> print(anchor("a|b"), anchor(r"\Qa.b"))
    \A(?:a|b)\z \A(?:\Qa.b\E)\z
    """
    end = r"\E" if _OPEN_QUOTE.match(pattern) else ""
    return rf"\A(?:{pattern}{end})\z"
