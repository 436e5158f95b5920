# SPDX-License-Identifier: MIT
"""The number of examples that property tests try."""

import os

from hypothesis import HealthCheck, settings

# `make test` tries a sixth, because they took a quarter of its time; other ways to run tests try all.
FEW = os.environ.get("HEAPTAPE_EXAMPLES") == "few"
FEWEST = 5
UNCHECKED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


def examples(most: int) -> settings:
    """Settings for that many examples; under `make test` a sixth of them. Examples have no deadline, because on a busy
    machine any may take long; and all may write into one folder.
    """
    count = max(most // 6, min(most, FEWEST)) if FEW else most
    return settings(max_examples=count, deadline=None, suppress_health_check=UNCHECKED)
