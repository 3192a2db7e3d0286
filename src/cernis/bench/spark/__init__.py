"""`cernis bench spark` and `cernis bench streaming`; each measures processes of its own from
outside."""

from __future__ import annotations
