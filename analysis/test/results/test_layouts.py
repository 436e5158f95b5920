# SPDX-License-Identifier: MIT
"""The fit over layouts finds the penalty that was planted."""

import numpy as np
import pytest
from heaptape.results.model.penalties import penalties
from results.planted import measurement, misses

from tests.bench.time.layout_fit import predicted_ns, slope


def simulated(last_level: int) -> dict:
    one = misses(caches=(9000, 8000, last_level))
    return {"instructions": 1_000_000, "caches": one["caches"], "tlbs": one["tlbs"]}


def test_a_planted_penalty_is_the_slope():
    counts = [1000, 2000, 3500, 4000]
    found = predicted_ns([simulated(count) for count in counts], penalties(measurement()))
    measured = [5e6 + 25 * count for count in counts]
    # The step from a hit in 32 MiB to memory is planted as 10 to 140 ns.
    assert slope(found["low"], measured).value == pytest.approx(2.5)
    assert slope(found["high"], measured).value == pytest.approx(25 / 140)
    assert slope(found["middle"], measured).correlation == pytest.approx(1)


def test_noise_widens_the_interval_around_the_truth():
    source = np.random.default_rng(3)
    x = np.linspace(0, 1e6, 40)
    quiet, noisy = (slope(x, 2 * x + source.normal(0, deviation, 40)) for deviation in (1e3, 1e5))
    assert quiet.low < 2 < quiet.high
    assert noisy.high - noisy.low > 20 * (quiet.high - quiet.low)


def test_layouts_that_do_not_differ_have_no_slope():
    with pytest.raises(ValueError, match="differ"):
        slope([1, 1, 1], [1, 2, 3])
