"""The meaning of queries as a program: the oracle that every runtime is tested against."""

from __future__ import annotations
