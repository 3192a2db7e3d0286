"""The oracle, the corpus and random queries of SPAseQ."""

from __future__ import annotations
