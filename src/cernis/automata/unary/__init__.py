"""Patterns whose filters look at one event at a time, as complex event automata.

`cea` is the automaton, `construct` builds one (a function per operator), `tidy` cleans it up,
`alphabet` turns the truth of atoms into symbols, `runs` are sets of states that carry guards along,
`determinize` reads symbols on the fly, `mermaid` draws.
"""

from __future__ import annotations
