# SPDX-License-Identifier: MIT
"""Live runs with two settings by turns: which of their figures answers for a replay's."""

import pandas as pd
from heaptape.run.live_command import judge


def test_a_program_that_idles_is_judged_by_its_mean_over_wall_time() -> None:
    """A burst holds the same with both; what is kept while it sleeps is a tenth with the second."""
    means = {"before": (50.0, 100.0), "after": (50.0, 10.0)}
    rows = pd.DataFrame(
        {"side": side, "round": n, "rss_anon_mean_bytes": cpu + n, "rss_anon_wall_mean_bytes": wall + n}
        for side, (cpu, wall) in means.items()
        for n in range(5)
    )
    over_cpu, over_wall = (judge(rows, ["rss-mean"], {}, wall_time=wall)[0] for wall in (False, True))
    assert (over_cpu["live"], over_cpu["ratio"], over_cpu["verdict"]) == ("rss_anon_mean_bytes", 1, "did not hold")
    assert (over_wall["live"], over_wall["verdict"]) == ("rss_anon_wall_mean_bytes", "held")
    assert over_wall["ratio"] < 0.2
