"""Sequences of graph patterns as automata of links."""

from __future__ import annotations
