"""Hypothesis profiles: `ci` repeats the same cases each time, `fuzz` looks for new ones."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

settings.register_profile(
    "ci", deadline=None, derandomize=True, database=None, suppress_health_check=_SLOW
)
settings.register_profile(
    "fuzz",
    deadline=None,
    max_examples=int(os.environ.get("CERNIS_FUZZ_N", "5000")),
    print_blob=True,
    suppress_health_check=_SLOW,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
