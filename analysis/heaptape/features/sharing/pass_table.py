# SPDX-License-Identifier: MIT
"""Cache lines that threads share: results and profiles in, DataFrames out; and the table of `heaptape compare`.

A cache line of 64 bytes with live objects of two threads moves back and forth between their processors when both
write to it, although they share no data: false sharing. The pass counts the layout, not the writes, which no recording
has: core/sharing/line_sharing.h defines the counts and their format.
"""

from collections.abc import Iterable

import pandas as pd

from heaptape.common.tables import Cell, Table
from heaptape.passes import PassTable
from heaptape.results.cells import by_workload, in_unit
from heaptape.results.schema import Results
from heaptape.results.structs import Level, LineSharing

PROGRESS = ["position", "shared_lines", "object_pairs", "live_lines", "shared_lines_peak"]
SIZES = ["up_to_bytes", "objects", "shared_objects", "pairs"]
FIGURES = (
    "shared_lines_mean", "shared_lines_peak", "shared_percent", "object_pairs_mean", "shared_objects_percent", "pairs",
    "used_percent",
)  # fmt: skip
THREADS = ["first", "second", "pairs", "mean_pairs"]


def progress(counts: LineSharing) -> pd.DataFrame:
    """Rows over progress: position (ops done); at that position shared_lines, object_pairs (of different
    threads, on one line) and live_lines (lines with any live object); shared_lines_peak since the row before.
    """
    return pd.DataFrame(counts.progress or [], columns=PROGRESS, dtype="int64")


def sizes(counts: LineSharing) -> pd.DataFrame:
    """Objects by requested size: up_to_bytes (the class's largest; missing: above all classes), objects,
    shared_objects (that ever shared a line with another thread's), pairs (once for each object of the pair).
    """
    frame = pd.DataFrame(counts.sizes or [], columns=SIZES)
    return frame.astype({"up_to_bytes": "Int64", "objects": "int64", "shared_objects": "int64", "pairs": "int64"})


def thread_pairs(counts: LineSharing) -> pd.DataFrame:
    """Pairs of threads, first < second: pairs (of their objects that came to share a line), mean_pairs (that share one
    at an op, on average). Most pairs first; `threads_left_out` pairs of objects are of further threads.
    """
    frame = pd.DataFrame(counts.threads or [], columns=THREADS)
    return frame.astype({"first": "int64", "second": "int64", "pairs": "int64", "mean_pairs": float})


def thread_matrix(counts: LineSharing, threads: int = 24) -> pd.DataFrame:
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
        {"workload": file.name, "allocator": run.label} | _figures(run.line_sharing)
        for file in files
        for run in file.measured
        if run.line_sharing
    ]
    columns = ["workload", "allocator", *FIGURES]
    frame = pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(FIGURES, float))
    return frame.groupby(["workload", "allocator"], sort=False, as_index=False).mean()


def tables(frame: pd.DataFrame) -> list[Table]:
    """`summary` as tables for people, one per workload."""
    columns = {
        "shared_lines_mean": "lines shared, mean",
        "shared_lines_peak": "peak",
        "shared_percent": "% of lines in use",
        "shared_objects_percent": "% of objects ever shared",
        "pairs": "pairs of objects",
        "used_percent": "% of them used by both to the end",
    }
    out = []
    for _, rows, suffix in by_workload(frame):
        cells = [[Cell(row["allocator"]), *map(in_unit, row[list(columns)])] for _, row in rows.iterrows()]
        out.append(Table(f"Cache lines that threads share{suffix}", ["allocator", *columns.values()], cells, NOTES))
    return out


NOTES = [
    "A line of 64 bytes is shared while objects of two threads are live on it: if both write, it moves between their "
    "caches. An object belongs to the thread that acquired it; means are over the progress of the recorded order.",
    "Used by both to the end: each object of the pair was released by the thread that acquired it.",
]


def profile_table(counts: LineSharing) -> Table:
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
    sampled = counts.sampled or 1
    notes += [f"Estimated from one OS page of {sampled}."] if sampled > 1 else []
    columns = ["request, bytes up to", "objects", "shared a line", "%", "pairs"]
    return Table("Cache lines that threads share, as recorded", columns, rows, notes)


def shared_percent(counts: LineSharing) -> float:
    """Of the cache lines with live objects, those that threads share, on average; 0 if there are none."""
    return _figures(counts)["shared_percent"] if counts.live_lines and counts.live_lines.mean else 0.0


def _figures(counts: LineSharing) -> dict[str, float]:
    shared, live, pairs = (level or Level() for level in (counts.shared_lines, counts.live_lines, counts.object_pairs))

    def percent(part: float | None, whole: float | None) -> float:
        return 100 * (part or 0) / whole if whole else float("nan")

    values = (
        shared.mean or 0.0,
        shared.peak or 0.0,
        percent(shared.mean, live.mean),
        pairs.mean or 0.0,
        percent(counts.shared_objects, counts.objects),
        float(counts.pairs or 0),
        percent(counts.used_pairs, counts.pairs),
    )
    return dict(zip(FIGURES, values, strict=True))


TABLE = PassTable(
    lambda files, _: summary(files),
    lambda frame, _: tables(frame),
    lambda files, _: tables(summary(files)),
    report=lambda file: tables(summary([file])),
)
