"""What a checkout needs and a user does not: the generator of the manual, cases for tests."""

from __future__ import annotations
