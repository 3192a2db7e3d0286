"""Write what was found into a file of expectations.

Only the text of the `expect` nodes changes: comments and the layout of everything else stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cernis.workbench.check_case import CaseOutcome, FoundMatches, write_match
from cernis.workbench.expectations import Expectation, ExpectationFile

_MOST_WRITTEN = 50


def write_found(file: ExpectationFile, outcomes: Sequence[CaseOutcome]) -> str:
    """Return the text of a file in which these cases expect what they found."""
    text = file.text
    for outcome in sorted(outcomes, key=lambda each: each.case.span, reverse=True):
        case = outcome.case
        begin, end = case.span
        indent = " " * case.indent
        if isinstance(case.expect, Mapping):
            parts = [
                f"\n{indent}{name}: {_write(expect, outcome.found[name], indent + '  ')}"
                for name, expect in case.expect.items()
                if name in outcome.found
            ]
            written = "".join(parts)
        else:
            written = _write(case.expect, outcome.found[""], indent)
        head = text[:begin].rstrip(" \n") if written.startswith("\n") else text[:begin]
        if not written.startswith("\n") and text[:begin].rstrip() != text[:begin].rstrip(" "):
            head = text[:begin].rstrip() + " "
        text = head + written + text[end:]
    return text


def _write(expect: Expectation, found: FoundMatches, indent: str) -> str:
    if not found.count:
        return "none"
    if (expect.matches is None and expect.count) or found.count > _MOST_WRITTEN:
        return str(found.count)
    fields = {name for one in expect.matches or () for name in one}
    lines = [f"\n{indent}- {write_match(_choose(one, fields))}" for one in found.matches]
    return "".join(lines)


def _choose(match: Mapping[str, Any], fields: set[str]) -> Mapping[str, Any]:
    """Return the fields that the case speaks of; without any, all but the times."""
    chosen = {name: value for name, value in match.items() if name in fields}
    return chosen or {n: v for n, v in match.items() if not n.endswith("_ts")}
