# SPDX-License-Identifier: MIT
"""Live runs with two settings by turns: which of their figures answers for a replay's."""

import pandas as pd
from heaptape.run.live_command import judge


def test_a_live_mean_is_over_wall_time() -> None:
    """A burst holds the same with both; what is kept while it sleeps is a tenth with the second."""
    means = {"before": (50.0, 100.0), "after": (50.0, 10.0)}
    rows = pd.DataFrame(
        {"side": side, "round": n, "rss_anon_mean_bytes": cpu + n, "rss_anon_wall_mean_bytes": wall + n}
        for side, (cpu, wall) in means.items()
        for n in range(5)
    )
    found = judge(rows, ["rss-mean"], {})[0]
    assert (found["live"], found["verdict"]) == ("rss_anon_wall_mean_bytes", "held")
    assert found["ratio"] < 0.2
