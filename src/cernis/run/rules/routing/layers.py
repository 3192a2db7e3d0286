"""When what is built of all rules is built anew, as rules come and go.

Indexes and encoders of thousands of rules take a tenth of a second to build. Where few rules have
changed, the large ones stay, without the rules that have left, and those that have come get small
ones of their own. So a change costs the rules that changed, and now and then all of them.
"""

from __future__ import annotations

SHARE = 8
"""All rules are built anew when more than one in so many has come or left since."""


def are_few(changed: int, built: int) -> bool:
    """Return whether what was built of some rules is used on, when some have come or left."""
    return SHARE * changed <= built
