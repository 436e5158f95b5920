# SPDX-License-Identifier: MIT
"""The counted certificate as a section of docs/methods/FIDELITY.md."""

from collections.abc import Iterable, Sequence

import numpy as np

from tests.bench.fidelity.counted_certificate import METRICS, summary

METHOD = """\
Short programs (`workloads/counted/`) run live under `heaptape-observe --simulate --data-only`, on every allocator, in
several layouts of memory. Each is recorded on glibc, natively and with its data accesses. Counts repeat exactly except
for servers and programs of several threads.

- **Instructions**: of the calls and of the start-up, less the same on glibc, in percent of the program's instructions.
  *Allocator's part*: without the dynamic linker's. **Page faults**: first touches of OS pages by data accesses.
  **System calls**: mmap, munmap, mremap, madvise, brk. **Misses**: of data, in virtual addresses.
- But for instructions, errors are in percent of the live change (median over layouts) where that is 2 % or more of
  the count on glibc and exceeds its spread (largest less smallest).
- **Pairs**: every two allocators of a program whose live difference is at least 2 % (instructions: 0.5 %). *Open*:
  the difference does not exceed its own spread. *Right*: of the decided pairs, the prediction has the live sign.
"""


def section(results: Sequence[dict]) -> list[str]:
    """Lines of Markdown, heading included; none without results."""
    if not results:
        return []
    return ["## Counted: without noise", "", METHOD, *_head(results), *_summary_table(results), "", *failures(results)]


def _head(results: Sequence[dict]) -> Iterable[str]:
    layouts = sorted(
        {len(data["settings"]["paddings_bytes"]) for data in results if "paddings_bytes" in data["settings"]}
    )
    commits = {(data.get("heaptape") or {}).get("commit") or "unknown" for data in results if data["live"]}
    commits |= {run["commit"] for data in results for run in data["live"] if run.get("commit")}
    with_accesses = sum(bool(data["settings"].get("accesses")) for data in results)
    yield (
        f"{len(results)} programs, {' or '.join(map(str, layouts))} layouts, {with_accesses} of the recordings "
        f"with data accesses; heaptape {', '.join(sorted(commits))}. A program that ran in one layout has no open "
        "pairs."
    )
    yield ""


def _summary_table(results: Sequence[dict]) -> Iterable[str]:
    yield "All; held-out programs:"
    yield ""
    yield "| change of | programs | changes | error: median | 90th percentile | worst | pairs, open | right | target |"
    yield "|---|---|---|---|---|---|---|---|---|"
    found = summary(results)
    for name, metric in METRICS.items():
        rows = found[(found["metric"] == name) & found["group"].isin(("all", "held-out"))].to_dict("records")
        cells = [
            [
                *(row["apps"], row["changes"], percent(row["median"]), percent(row["p90"])),
                f"{percent(row['worst'])}, {row['worst_at']}",
                f"{row['pairs']}, {row['pairs'] - row['decided']}",
                percent(row["right_percent"]),
            ]
            for row in rows
        ]
        yield from both(metric.title, cells, _target(name))


def both(name: str, cells: Sequence[Sequence], target: str) -> Iterable[str]:
    """A row of a table, `cells` being those of all programs, then those of held-out ones; nothing without any."""
    if cells:
        yield "| " + " | ".join([name, *("; ".join(map(str, column)) for column in zip(*cells)), target]) + " |"


def _target(name: str) -> str:
    metric = METRICS[name]
    parts = [f"{value} %" for value in (metric.median, metric.ninth) if value is not None]
    if metric.signs is not None:
        parts.append(f"right {metric.signs} %")
    return ", ".join(parts)


def failures(results: Sequence[dict]) -> Iterable[str]:
    """Lines of Markdown: what failed, and why."""
    for data in results:
        for label, why in data["failures"].items():
            yield f"- {data['app']['name']}, {label}: {why}".replace("\n", " ")


def percent(value: float) -> str:
    if np.isnan(value):
        return "–"
    return f"{value:.0f} %" if value >= 100 else f"{value:.1f} %" if value >= 1 else f"{value:.2f} %"
