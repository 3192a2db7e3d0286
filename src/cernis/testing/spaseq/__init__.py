"""The oracle of SPAseQ."""

from __future__ import annotations
