"""`cernis bench spark` and `cernis bench streaming`: Spark in processes of its own."""

from __future__ import annotations
