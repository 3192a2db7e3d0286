"""`cernis bench spaseq`: the experiments of the SPAseQ paper."""

from __future__ import annotations
