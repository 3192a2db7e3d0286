"""From formulas to automata.

`cea` is the automaton, `construct` builds one (a function per operator), `tidy`
cleans it up, `alphabet` turns the truth of atoms into symbols, `determinize` reads
symbols on the fly, `render` prints.
"""
