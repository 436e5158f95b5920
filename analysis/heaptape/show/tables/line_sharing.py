# SPDX-License-Identifier: MIT
"""Cache lines that threads share: results and profiles in, DataFrames out; and the table of `heaptape compare`.

A cache line of 64 bytes with live objects of two threads moves back and forth between their processors when both
write to it, although they share no data: false sharing. The pass counts the layout, not the writes, which no recording
has: core/sharing/line_sharing.h defines the counts and their format.
"""

from collections.abc import Iterable, Mapping

import pandas as pd

from heaptape.results.schema import Results, label_of
from heaptape.show.tables.usual import Cell, Table, by_workload, in_unit

PROGRESS = ["position", "shared_lines", "object_pairs", "live_lines", "shared_lines_peak"]
SIZES = ["up_to_bytes", "objects", "shared_objects", "pairs"]
THREADS = ["first", "second", "pairs", "mean_pairs"]


def counts_of(source: Mapping) -> Mapping | None:
    """The "line_sharing" object of a run or of a profile's data; None: it has none."""
    found = source.get("line_sharing")
    return found if isinstance(found, Mapping) else None


def progress(counts: Mapping) -> pd.DataFrame:
    """Rows over progress: position (ops done); at that position shared_lines, object_pairs (of different
    threads, on one line) and live_lines (lines with any live object); shared_lines_peak since the row before.
    """
    return pd.DataFrame(counts.get("progress", []), columns=PROGRESS, dtype="int64")


def sizes(counts: Mapping) -> pd.DataFrame:
    """Objects by requested size: up_to_bytes (the class's largest; missing: above all classes), objects,
    shared_objects (that ever shared a line with another thread's), pairs (once for each object of the pair).
    """
    frame = pd.DataFrame(counts.get("sizes", []), columns=SIZES)
    return frame.astype({"up_to_bytes": "Int64", "objects": "int64", "shared_objects": "int64", "pairs": "int64"})


def thread_pairs(counts: Mapping) -> pd.DataFrame:
    """Pairs of threads, first < second: pairs (of their objects that came to share a line), mean_pairs (that share one
    at an op, on average). Most pairs first; `threads_left_out` pairs of objects are of further threads.
    """
    frame = pd.DataFrame(counts.get("threads", []), columns=THREADS)
    return frame.astype({"first": "int64", "second": "int64", "pairs": "int64", "mean_pairs": float})


def thread_matrix(counts: Mapping, threads: int = 24) -> pd.DataFrame:
    """mean_pairs as a symmetric matrix of the `threads` threads that share most, by thread number."""
    rows = thread_pairs(counts)
    both = pd.concat([rows, rows.rename(columns={"first": "second", "second": "first"})])
    most = both.groupby("first")["pairs"].sum().sort_values(ascending=False, kind="stable").index[:threads]
    chosen = both[both["first"].isin(most) & both["second"].isin(most)]
    shown = sorted(most)
    matrix = chosen.pivot_table(index="first", columns="second", values="mean_pairs", aggfunc="sum", fill_value=0.0)
    return matrix.reindex(index=shown, columns=shown, fill_value=0.0)


def summary(files: Iterable[Results]) -> pd.DataFrame:
    """One row per workload and allocator, means over repetitions of the sharing pass.

    Columns: workload, allocator; shared_lines_mean, shared_lines_peak (lines); shared_percent (of the lines with live
    objects, means over progress); object_pairs_mean; shared_objects_percent (of all objects: shared a line at any
    time); pairs (formed in all); used_percent (of these pairs: both objects were released by the threads that acquired
    them, so each stayed its thread's to the end). Percentages of 0 are missing.
    """
    rows = [
        {"workload": file.name, "allocator": label_of(run)} | _figures(counts)
        for file in files
        for run in file.runs
        if (counts := counts_of(run)) is not None
    ]
    columns = ["workload", "allocator", *_figures({})]
    frame = pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(_figures({}), float))
    return frame.groupby(["workload", "allocator"], sort=False, as_index=False).mean()


def first_runs(file: Results) -> dict[str, Mapping]:
    """Allocator's label -> the "line_sharing" object of its first run that has one."""
    found: dict[str, Mapping] = {}
    for run in file.runs:
        counts = counts_of(run)
        if counts is not None:
            found.setdefault(label_of(run), counts)
    return found


def table(frame: pd.DataFrame) -> list[Table]:
    """`summary` as tables for people, one per workload."""
    columns = {
        "shared_lines_mean": "lines shared, mean",
        "shared_lines_peak": "peak",
        "shared_percent": "% of lines in use",
        "shared_objects_percent": "% of objects ever shared",
        "pairs": "pairs of objects",
        "used_percent": "% of them used by both to the end",
    }
    tables = []
    for _, rows, suffix in by_workload(frame):
        cells = [[Cell(row["allocator"]), *map(in_unit, row[list(columns)])] for _, row in rows.iterrows()]
        tables.append(Table(f"Cache lines that threads share{suffix}", ["allocator", *columns.values()], cells, NOTES))
    return tables


NOTES = [
    "A line of 64 bytes is shared while objects of two threads are live on it: if both write, it moves between their "
    "caches. An object belongs to the thread that acquired it; means are over the progress of the recorded order.",
    "Used by both to the end: each object of the pair was released by the thread that acquired it.",
]


def profile_table(counts: Mapping) -> Table:
    """A recording's own sharing, by size: for `heaptape profile`."""
    rows = [
        [
            Cell(f"{row.up_to_bytes:,}" if pd.notna(row.up_to_bytes) else "more"),
            Cell(f"{row.objects:,}", row.objects),
            Cell(f"{row.shared_objects:,}", row.shared_objects),
            Cell(f"{100 * row.shared_objects / max(row.objects, 1):.2f}"),
            Cell(f"{row.pairs:,}", row.pairs),
        ]
        for row in sizes(counts).itertuples()
        if row.shared_objects
    ]
    figures = _figures(counts)
    notes = [
        f"{figures['shared_lines_mean']:,.1f} lines are shared on average "
        f"({figures['shared_percent']:.2f} % of those in use), {figures['shared_lines_peak']:,.0f} at the peak.",
        *NOTES[:1],
    ]
    sampled = counts.get("sampled", 1)
    notes += [f"Estimated from one OS page of {sampled}."] if sampled > 1 else []
    columns = ["request, bytes up to", "objects", "shared a line", "%", "pairs"]
    return Table("Cache lines that threads share, as recorded", columns, rows, notes)


def _figures(counts: Mapping) -> dict[str, float]:
    def level(name: str, key: str) -> float:
        return float(counts.get(name, {}).get(key, 0))

    def percent(part: float, whole: float) -> float:
        return 100 * part / whole if whole else float("nan")

    return {
        "shared_lines_mean": level("shared_lines", "mean"),
        "shared_lines_peak": level("shared_lines", "peak"),
        "shared_percent": percent(level("shared_lines", "mean"), level("live_lines", "mean")),
        "object_pairs_mean": level("object_pairs", "mean"),
        "shared_objects_percent": percent(counts.get("shared_objects", 0), counts.get("objects", 0)),
        "pairs": float(counts.get("pairs", 0)),
        "used_percent": percent(counts.get("used_pairs", 0), counts.get("pairs", 0)),
    }
