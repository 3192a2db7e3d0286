"""Shared by all languages: tokens and trees of a text, and the explanation of its mistakes.

CEQL and conjunctive queries also share `grammar.lark` and its rules in `tree.py`: declarations,
names, constants and windows. SPAseQ has the lexemes of SPARQL, and none of these.
"""
