# SPDX-License-Identifier: MIT
"""A profile in words and tables: what makes this workload hard for an allocator."""

from collections.abc import Callable

import pandas as pd

from heaptape import features
from heaptape.common.phrases import calls_of, count, counted, size
from heaptape.common.tables import MIB, Cell, Table, rounded
from heaptape.features.profile.data import Profile, large_share, remote_share, sizes_for_share, swing, young_share

ROWS = 12
FRAMES = 3  # of a site that are shown
FREQUENT = 0.1  # share of the requests
MADE_UP_LIFETIMES = (
    "Ages are made up: the recording does not say which of the objects of one size and call stack was freed."
)
OWN = ("sizes", "lifetimes", "threads", "reallocs", "sites")
# Of a feature: NAME of its table, `tables(found)`, `sentences(found)`, and for the page `part(found, tables)`.
PART = "profile_part"
NAMES = (*OWN, *features.having(PART))


def overview(found: Profile) -> str:
    """How much it allocates: calls, their rate, threads, bytes, and what was live at most."""
    ops, threads, seconds = found.data["ops"], found.data["threads"], (found.data.get("duration_ns") or 0) / 1e9
    rate = f" ({count(ops / seconds)}/s)" if seconds > 0 else ""
    made = size(found.data["allocated_bytes"])
    acted = f"{calls_of(ops, found.data.get('witness'))}{rate} of {counted(threads, 'thread')}"
    return f"{acted}, {made} requested in total, peak live {size(found.peak_live_bytes)}"


def hardness(found: Profile) -> list[str]:
    """Sentences, each on a measured figure and its consequence for an allocator; only those that apply."""
    variety = sizes_for_share(found, 0.9)
    fallen, peak = swing(found)
    young, remote, large = young_share(found), remote_share(found), large_share(found)
    reallocs = found.data["reallocs"]
    known = not found.lifetimes_are_made_up
    moved = reallocs["calls"] - reallocs["in_place"]
    sentences = [
        (
            found.acquired > 0,
            f"Sizes: 90 % of the requests fall into {counted(variety, 'range')}{_most_frequent(found)}.",
        ),
        (
            not known,
            f"Lifetimes: not known. {MADE_UP_LIFETIMES}",
        ),
        (
            known and young > 0.5,
            f"Lifetimes: {percent(young)} of the objects are freed before 64 KiB more are allocated: a cache of freed "
            "objects serves them.",
        ),
        (
            known and found.acquired > 0 and young < 0.2,
            f"Lifetimes: only {percent(young)} of the objects are freed before 64 KiB more are allocated: a cache "
            "of freed objects helps little.",
        ),
        (
            remote > 0.01,
            f"Threads: {percent(remote)} of the frees are by a thread other than the one that allocated.",
        ),
        (
            large > 0.2,
            f"Large objects: {percent(large)} of the bytes are in requests of 128 KiB or more, for which allocators "
            "make system calls.",
        ),
        (
            fallen > 0.3 and peak > MIB,
            f"Memory: live bytes fall by {percent(fallen)} from their peak of {size(peak)}: what an allocator can't "
            "return then is fragmentation.",
        ),
        (
            reallocs["calls"] > 0.02 * found.data["ops"],
            f"Reallocs: {reallocs['calls']:,}, of which {percent(moved / max(reallocs['calls'], 1))} moved the object "
            f"and copied {size(reallocs['copied_bytes'])} in all.",
        ),
        (
            found.acquired > found.released,
            f"Growth: {found.acquired - found.released:,} of {counted(found.acquired, 'object')} are never freed.",
        ),
    ]
    said = [sentence for holds, sentence in sentences if holds]
    grows = [sentence for sentence in said if sentence.startswith("Growth")]
    of_features = [sentence for feature in features.modules(PART) for sentence in feature.sentences(found)]
    return [sentence for sentence in said if sentence not in grows] + of_features + grows


def tables(found: Profile, names: Callable[[int], list[str]] = lambda node: []) -> list[Table]:
    """Tables of sizes, lifetimes, threads, reallocs and sites; only those that have rows.

    `names(node)`: the functions of a stack, innermost first, without the allocator's own; empty: not known.
    """
    return [table for named in tables_by_name(found, names).values() for table in named]


def tables_by_name(found: Profile, names: Callable[[int], list[str]] = lambda node: []) -> dict[str, list[Table]]:
    """NAMES -> the tables of that name that have rows."""
    own = ([_sizes(found)], [_lifetimes(found)], [_pairs(found)], [_chains(found)], _sites(found, names))
    made = [*own, *(feature.tables(found) for feature in features.modules(PART))]
    return {name: [table for table in tables if table.rows] for name, tables in zip(NAMES, made)}


def _most_frequent(found: Profile) -> str:
    """The sizes of at least a tenth of the requests, most frequent first."""
    counts = found.sizes.groupby("size_bytes")["calls"].sum().sort_values(ascending=False, kind="stable")
    top = counts[counts >= FREQUENT * counts.sum()].head(3)
    each = [f"{least:,} ({100 * calls / counts.sum():.0f} %)" for least, calls in top.items()]
    return f"; the most frequent begin at {', '.join(each)} bytes" if each else ""


def _sizes(found: Profile) -> Table:
    counts = found.sizes.groupby("size_bytes")[["calls", "bytes"]].sum()
    top = counts.sort_values("calls", ascending=False).head(ROWS).sort_index()
    rows = [
        [Cell(f"{size:,}"), *_count_and_share(row["calls"], counts["calls"]), *_bytes_and_share(row, counts)]
        for size, row in top.iterrows()
    ]
    columns = ["request, bytes from", "requests", "%", "MiB", "% of bytes"]
    return Table("Request sizes, the most frequent", columns, rows)


def _lifetimes(found: Profile) -> Table:
    ages = found.lifetimes_bytes.groupby("age")[["objects", "bytes"]].sum()
    rows, passed = [], 0
    for age, row in ages.iterrows():
        passed += row["objects"]
        cells = [*_count_and_share(row["objects"], ages["objects"]), Cell(percent(passed / max(found.acquired, 1)))]
        rows.append([Cell(_size(int(age))), *cells])
    columns = ["age, allocated meanwhile, from", "objects", "%", "of all objects, up to that age"]
    return Table("Lifetimes of the objects that were released", columns, rows, _doubts(found))


def _doubts(found: Profile) -> list[str]:
    return [MADE_UP_LIFETIMES] if found.lifetimes_are_made_up else []


def _pairs(found: Profile) -> Table:
    pairs = found.pairs
    if len(pairs) < 2:
        return Table("", [], [])
    rows = [
        [
            Cell(f"{row.acquirer} → {row.releaser}"),
            *_count_and_share(row.objects, pairs["objects"]),
            Cell(rounded(row.bytes / MIB), row.bytes),
        ]
        for row in pairs.head(ROWS).itertuples()
    ]
    left_out = found.data.get("pairs_left_out", 0)
    notes = [f"{left_out:,} objects are of further pairs of threads."] if left_out else []
    columns = ["allocating → freeing thread", "objects", "%", "MiB"]
    return Table("Releases by acquiring thread", columns, rows, notes)


def _chains(found: Profile) -> Table:
    rows = [
        [
            Cell(f"{row.reallocs}{'+' if row.reallocs == 64 else ''}"),
            Cell(f"{row.objects:,}", row.objects),
            Cell(rounded(row.last_bytes / row.first_bytes) if row.first_bytes else "–"),
        ]
        for row in found.chains.head(ROWS).itertuples()
    ]
    return Table("Reallocs of one object", ["reallocs", "objects", "grown by a factor of"], rows)


def _sites(found: Profile, names: Callable[[int], list[str]]) -> list[Table]:
    sites = found.sites
    sites = sites.assign(mean_age=sites["lifetime_bytes"] / (sites["objects"] - sites["live_objects"]).clip(lower=1))
    kinds = {
        "bytes": "Sites by bytes requested",
        "objects": "Sites by objects",
        "lifetime_bytes": "Sites by lifetime (the sum of their objects' ages)",
        "live_bytes": "Sites by bytes never freed",
    }
    tables = []
    for key, title in kinds.items():
        top = sites[sites[key] > 0].sort_values(key, ascending=False, kind="stable").head(ROWS)
        rows = [
            [
                Cell(_site_name(row.node, names)),
                Cell(rounded(row.bytes / MIB), row.bytes),
                Cell(f"{row.objects:,}", row.objects),
                Cell(rounded(row.peak_live_bytes / MIB), row.peak_live_bytes),
                Cell(rounded(row.live_bytes / MIB), row.live_bytes),
                Cell(rounded(row.mean_age / MIB), row.mean_age),
                Cell(percent(row.remote_objects / max(row.objects - row.live_objects, 1))),
            ]
            for row in top.itertuples()
        ]
        columns = ["allocated in", "MiB", "objects", "peak live MiB"]
        columns += ["live at end, MiB", "mean age, MiB", "freed remotely"]
        tables.append(Table(title, columns, rows, _doubts(found)))
    return tables


def _site_name(node: int, names: Callable[[int], list[str]]) -> str:
    return " < ".join(names(node)[:FRAMES]) or (f"stack {node}" if node else "no stack known")


def _count_and_share(count: float, of: pd.Series) -> list[Cell]:
    return [Cell(f"{count:,.0f}", count), Cell(f"{100 * count / max(of.sum(), 1):.1f}")]


def _bytes_and_share(row: pd.Series, of: pd.DataFrame) -> list[Cell]:
    share = 100 * row["bytes"] / max(of["bytes"].sum(), 1)
    return [Cell(rounded(row["bytes"] / MIB), row["bytes"]), Cell(f"{share:.1f}")]


def percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share < 0.995 or share == 1 else f"{100 * share:.2f} %"


def _size(size_bytes: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= factor:
            return f"{size_bytes // factor:,} {unit}"
    return f"{size_bytes} B"
