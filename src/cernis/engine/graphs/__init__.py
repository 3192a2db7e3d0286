"""Graph patterns over the triples of events: `search` joins them, `expressions` is the stack
machine of their FILTERs, `lexical` reads the lexical forms of literals.
"""

from __future__ import annotations
