"""The oracle and random queries of conjunctive queries."""

from __future__ import annotations
