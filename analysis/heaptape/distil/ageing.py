# SPDX-License-Identifier: MIT
"""Heaps that age: RSS that grows while live bytes do not, as objects are replaced by others many times.

The calls that cause such growth are left out of a distillate, so its RSS is that of a younger heap than the whole's.
"""

from collections.abc import Mapping

import pandas as pd

SAME_LIVE = 0.95  # share of the most live bytes, from which on live bytes count as the same
AGES_PERCENT = 10  # growth from which on a heap counts as ageing
FEWEST_FAMILIES = 2  # on which it has to grow this much: a single allocator may release late, or keep caches


def growth_percent(timeline: pd.DataFrame) -> float:
    """By how many percent RSS per live byte rose, from where live bytes are first at their most to its highest at the
    same live bytes (SAME_LIVE). `timeline`: of results.timeline; 0 where it has no live bytes.
    """
    full = timeline[timeline["live_bytes"] >= SAME_LIVE * timeline["live_bytes"].max()]
    per_byte = full["rss_anon_bytes"] / full["live_bytes"]
    if not len(full) or not per_byte.iloc[0] > 0:
        return 0.0
    return float(100 * (per_byte.max() / per_byte.iloc[0] - 1))


def ages(growth: Mapping[str, float], families: Mapping[str, str]) -> bool:
    """Does the heap age, by the growth on each allocator (by label; `families`: label -> allocator)?"""
    return len({families[label] for label, percent in growth.items() if percent >= AGES_PERCENT}) >= FEWEST_FAMILIES
