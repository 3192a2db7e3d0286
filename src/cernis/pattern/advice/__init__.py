"""Warnings about a query that is right, and probably does not say what is meant.

One file for each kind of check: a function from a `Pattern` to `Diagnostic`s that have a code. A
check speaks only where it is certain, whatever the events: a sensible query has no warning. The
warnings about events are in `cernis.run.advice`. Linear in the pattern, except for `truth`, which
bounds the cases that it takes apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from cernis.errors import Diagnostic
from cernis.pattern.advice.idle_guards import find_idle_guards
from cernis.pattern.advice.limit_per_end import find_idle_limit
from cernis.pattern.advice.negation import find_misplaced_not
from cernis.pattern.advice.truth import find_settled_conditions
from cernis.pattern.advice.wildcards import find_wildcards
from cernis.pattern.query import Pattern

CHECKS: tuple[Callable[[Pattern], Iterator[Diagnostic]], ...] = (
    find_misplaced_not,
    find_idle_guards,
    find_settled_conditions,
    find_wildcards,
    find_idle_limit,
)

_MOST = 8
"""The most warnings of one check: a hostile query costs a bounded time."""


def find_warnings(pattern: Pattern) -> tuple[Diagnostic, ...]:
    """Return the warnings about a pattern, in the order of the text.

    >>> from cernis.languages.ceql import parse
    >>> [one.code for one in find_warnings(parse("SELECT * WHERE A ; NOT B ; C"))]
    ['not-between']
    """
    found = dict.fromkeys(one for check in CHECKS for one in islice(check(pattern), _MOST))
    return tuple(sorted(found, key=lambda one: (one.span is None, one.span)))
