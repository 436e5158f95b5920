# SPDX-License-Identifier: MIT
"""Samples of data accesses (`heaptape record --accesses=sampled|faults`) as tables, by the objects that they hit."""

from collections.abc import Callable

import pandas as pd

from heaptape.profile.data import Profile
from heaptape.show.tables.usual import Cell, Table

ROWS = 12
LEVELS = {
    "l1": "L1",
    "line_buffer": "line buffer",
    "beyond_l1": "beyond L1",
    "l2": "L2",
    "l3": "L3",
    "memory": "memory",
    "remote": "remote",
    "other": "device",
    "page_fault": "page fault",
    "unknown": "not known",
}


def tables(found: Profile, site_name: Callable[[int], str]) -> list[Table]:
    """Tables by call site and by size; none where the trace has no samples. Loads and stores have separate rows, as
    they have separate periods. `site_name(node)`: the stack's name.
    """
    counts = found.data.get("access_samples")
    if counts is None:
        return []
    notes = [
        f"Sampled: {', '.join(_how_often(event) for event in counts['events'])}. {counts['in_objects']:,} samples are "
        f"in live objects, {counts['elsewhere']:,} are not. They are not counts of accesses or of misses."
    ]
    parts = [
        ("Sampled data accesses by site", "allocated in", found.access_samples("by_site"), site_name),
        ("Sampled data accesses by size", "request, bytes from", found.access_samples("by_size"), "{:,}".format),
    ]
    return [_table(title, group, rows, name, notes) for title, group, rows, name in parts]


def _how_often(event: dict) -> str:
    period = event["period"]
    return f"{event['event']} ({'each' if period == 1 else f'one of {period:,}'})"


def _table(title: str, group: str, samples: pd.DataFrame, name: Callable[[int], str], notes: list[str]) -> Table:
    counts = samples.pivot_table(
        index=["group", "operation"], columns="level", values="samples", aggfunc="sum", fill_value=0
    )
    levels = [level for level in LEVELS if level in counts.columns]
    whole = counts.sum(axis=1).sort_values(ascending=False, kind="stable")
    missed = samples[samples["tlb_missed"]].groupby(["group", "operation"])["samples"].sum()
    rows = [
        [
            Cell(name(key[0])),
            Cell(key[1]),
            Cell(f"{count:,}", count),
            Cell(f"{100 * count / whole.xs(key[1], level='operation').sum():.1f}"),
            *[Cell(f"{counts.loc[key, level]:,}", counts.loc[key, level]) for level in levels],
            Cell(f"{missed.get(key, 0):,}", missed.get(key, 0)),
        ]
        for key, count in whole.head(ROWS).items()
    ]
    columns = [group, "access", "samples", "% of that access", *[LEVELS[level] for level in levels], "TLB missed"]
    return Table(title, columns, rows, notes)
