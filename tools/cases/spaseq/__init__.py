"""Cases for SPAseQ: a corpus, and random queries over graph streams."""

from __future__ import annotations
