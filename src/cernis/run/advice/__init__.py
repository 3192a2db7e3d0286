"""Warnings about the events of a run: what makes an answer empty or odd without an error.

One file for each kind of check. They look at numbers that a run has anyway (the truths of atoms
that have occurred, the first and the last time, the rows left out), so a run costs no more. The
warnings about a query are in `cernis.pattern.advice`.
"""
