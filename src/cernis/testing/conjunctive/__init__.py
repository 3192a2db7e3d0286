"""The oracle of conjunctive queries."""

from __future__ import annotations
