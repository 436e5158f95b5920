# SPDX-License-Identifier: MIT
"""The counted certificate as a section of docs/methods/FIDELITY.md, and as text for a terminal."""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from tests.bench.fidelity.certificate import BASELINE
from tests.bench.fidelity.counted_certificate import METRICS, changes, summary

METHOD = """\
Short programs (`workloads/counted/`) run live under the simulation of `heaptape-observe --simulate --data-only`, on
every allocator, in several layouts (lengths of the environment, addresses of libraries and mappings). Each is recorded
on glibc, natively and with its data accesses. Counts repeat exactly except for servers and programs of several threads.

- **Instructions**: those of the calls and of the start-up with each allocator, less the same on glibc; the error is in
  percent of the program's instructions. *Allocator's part*: without the dynamic linker's.
- **Page faults**: first touches of OS pages by data accesses. **Memory system calls**: mmap, munmap, mremap, madvise,
  brk, start-up included. **Misses**: of data, in virtual addresses. All predicted by the pass misses.
- For all but instructions, errors are in percent of the live change (median over layouts) where that is 2 % or more of
  the count on glibc and exceeds its spread (largest less smallest).
- **Pairs**: every two allocators of a program whose live difference is at least 2 % (instructions: 0.5 %). *Undecided*:
  the difference does not exceed its own spread. *Right*: of the decided pairs, the prediction has the live sign.
"""
SHOWN = (
    "instructions", "allocator_instructions", "page_faults", "memory_syscalls", "cache_32768", "cache_1048576",
    "tlb_1536",
)  # fmt: skip


def section(results: Sequence[dict], programs: bool = True) -> list[str]:
    """Lines of Markdown, heading included; none without results. programs: with the tables of each program."""
    if not results:
        return []
    tables = [
        "### Counted, every program and allocator",
        "",
        "Change against glibc in percent: live (range over layouts where it is wider than 0.1) / predicted.",
        "",
        *_change_tables(results),
    ]
    return [
        "## Counted: without noise",
        "",
        METHOD,
        *_head(results),
        *_summary_table(results),
        "",
        *(tables if programs else []),
        *failures(results),
    ]


def text(results: Sequence[dict]) -> str:
    table = summary(results)
    if table.empty:
        return "no counts\n"
    table = table.round({"median": 3, "p90": 3, "worst": 3, "right_percent": 1})
    return table.to_string(index=False) + "\n"


def one_line(data: dict) -> str:
    """An app's worst error in instructions, to be shown while others run."""
    table = changes([data])
    table = table[table["metric"] == "instructions"].dropna(subset=["error"])
    if table.empty:
        return f"{data['app']['name']}: no prediction"
    worst = table.loc[table["error"].abs().idxmax()]
    return f"{data['app']['name']}: instructions off by at most {worst['error']:+.2f} % ({worst['allocator']})"


def _head(results: Sequence[dict]) -> Iterable[str]:
    layouts = sorted(
        {len(data["settings"]["paddings_bytes"]) for data in results if "paddings_bytes" in data["settings"]}
    )
    commits = {(data.get("heaptape") or {}).get("commit") or "unknown" for data in results if data["live"]}
    commits |= {run["commit"] for data in results for run in data["live"] if run.get("commit")}
    with_accesses = sum(bool(data["settings"].get("accesses")) for data in results)
    yield (
        f"{len(results)} programs, {' or '.join(map(str, layouts))} layouts, {with_accesses} of the recordings "
        f"with data accesses; heaptape {', '.join(sorted(commits))}. A program that ran in one layout has no undecided "
        "pairs."
    )
    yield ""


def _summary_table(results: Sequence[dict]) -> Iterable[str]:
    yield (
        "| change of | programs | changes | error: median | 90th percentile | worst | "
        "| pairs | undecided | right | target |"
    )
    yield "|---|---|---:|---:|---:|---:|---|---:|---:|---:|---|"
    found = summary(results)
    for _, row in found[found["group"].isin(("all", "held-out"))].iterrows():
        first = row["group"] == "all"
        metric = METRICS[row["metric"]]
        cells = [metric.title if first else "", f"{row['group']}, {row['apps']}", str(row["changes"])]
        cells += [percent(row[column]) for column in ("median", "p90", "worst")]
        cells += [row["worst_at"], str(row["pairs"]), str(row["pairs"] - row["decided"])]
        cells += [percent(row["right_percent"]), _target(row["metric"]) if first else ""]
        yield "| " + " | ".join(cells) + " |"


def _target(name: str) -> str:
    metric = METRICS[name]
    parts = [f"{value} %" for value in (metric.median, metric.ninth) if value is not None]
    if metric.signs is not None:
        parts.append(f"right {metric.signs} %")
    return ", ".join(parts)


def _change_tables(results: Sequence[dict]) -> Iterable[str]:
    table = changes(results)
    for data in results:
        app = data["app"]
        rows = table[table["app"] == app["name"]]
        if rows.empty:
            continue
        metrics = [name for name in SHOWN if (rows["metric"] == name).any()]
        yield (
            f"**{app['name']}** ({app.get('set') or 'of neither half'}; {app.get('threads', '?')} threads, "
            f"{_instructions(data):,.0f} M instructions, {app.get('ops', 0):,} calls): {app.get('summary', '')}"
        )
        yield ""
        yield "| allocator | " + " | ".join(METRICS[name].title for name in metrics) + " |"
        yield "|---|" + "---:|" * len(metrics)
        for allocator, part in rows.groupby("allocator", sort=False):
            by_metric = part.set_index("metric")
            yield f"| {allocator} | " + " | ".join(_cell(by_metric, name) for name in metrics) + " |"
        yield ""


def _instructions(data: dict) -> float:
    runs = [run["counts"]["instructions"] for run in data["live"] if run["allocator"] == BASELINE]
    return float(np.median(runs)) / 1e6


def _cell(rows: pd.DataFrame, metric: str) -> str:
    if metric not in rows.index:
        return "–"
    row = rows.loc[metric]
    wide = row["high"] - row["low"] > 0.1
    spread = f" ({_signed(row['low'])} to {_signed(row['high'])})" if wide else ""
    return f"{_signed(row['live'])}{spread} / {_signed(row['predicted'])}"


def failures(results: Sequence[dict]) -> Iterable[str]:
    """Lines of Markdown: what failed, and why."""
    for data in results:
        for label, why in data["failures"].items():
            yield f"- {data['app']['name']}, {label}: {why}".replace("\n", " ")


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−") if abs(value) < 10 else f"{value:+.0f}".replace("-", "−")


def percent(value: float) -> str:
    if np.isnan(value):
        return "–"
    return f"{value:.0f} %" if value >= 100 else f"{value:.1f} %" if value >= 1 else f"{value:.2f} %"
