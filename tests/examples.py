# SPDX-License-Identifier: MIT
"""How many examples the tests of properties try."""

import os

from hypothesis import HealthCheck, settings

# `make test` tries a sixth, as a quarter of its time went into them; whatever else runs tests tries all.
FEW = os.environ.get("HEAPTAPE_EXAMPLES") == "few"
FEWEST = 5
UNCHECKED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


def examples(most: int) -> settings:
    """So many; of `make test` a sixth. None is timed, as on a busy machine any may take long; and all may write into
    one folder.
    """
    count = max(most // 6, min(most, FEWEST)) if FEW else most
    return settings(max_examples=count, deadline=None, suppress_health_check=UNCHECKED)
