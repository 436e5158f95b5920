# SPDX-License-Identifier: MIT
"""Memory over progress, as a run of a results file holds it."""

from collections.abc import Mapping

import pandas as pd


def timeline_frame(run: Mapping) -> pd.DataFrame:
    """run["timeline"] as columns position (ops), rss_anon_bytes, vm_size_bytes, live_bytes; empty if it is missing.

    >>> timeline_frame({"timeline": [[0, 4096, 8192, 100], [50, 12288, 16384, 9000]]})["rss_anon_bytes"].max()
    np.float64(12288.0)
    """
    columns = ["position", "rss_anon_bytes", "vm_size_bytes", "live_bytes"]
    return pd.DataFrame([row[:4] for row in run.get("timeline", [])], columns=columns, dtype=float)
