"""Sequences of graph patterns as automata of links.

`automaton` is the representation, `construct` builds one, `mermaid` draws it.
"""

from __future__ import annotations
