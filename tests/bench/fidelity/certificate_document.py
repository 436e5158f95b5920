# SPDX-License-Identifier: MIT
"""The certificate as a document (docs/methods/FIDELITY.md): every figure in it is made from raw results."""

import time
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from tests.bench.fidelity import counted_document, timed_document
from tests.bench.fidelity.certificate import FIGURES, errors, pairs, summary

SHOWN_HALVES = ("all", "held-out")
# The targets: median and 90th percentile in percent; for rankings the share that is right.
TARGETS = {
    "peak": (1, 3), "peak_part": (3, 8), "mean": (1, 3), "mean_part": (3, 8), "aligned_mean": (1, 3),
    "aligned_mean_part": (3, 8), "vm_size": (None, None), "cpu_change": (None, None),
}  # fmt: skip
RANKINGS = {
    "peak": (FIGURES["peak"], 95), "mean": (FIGURES["mean"], 95), "aligned_mean": (FIGURES["aligned_mean"], 95),
    "cpu": ("CPU time, by calls alone", None),
}  # fmt: skip
METHOD = """\
Each program runs live on every allocator (`LD_PRELOAD`), observed from outside: RssAnon and VmSize every 2 ms and
before each system call that may shrink them. It is recorded **once, on glibc**, and replayed on every allocator.

- **Prediction**: the replay's peak or mean, plus the program's own part: what the live run on glibc had above the glibc
  replay. So glibc's own error is 0, and summaries leave it out; pairs may contain glibc.
- **Mean over each run's own time**: over the processor time of the live run, and of the recording (commands print means
  over wall time). **Over the recording's time**: the program also runs live under the recorder, and both are compared
  at the same share of its calls.
- **Error**: predicted less live, in percent of live (median of the repetitions). *Allocator's part*: both less the
  program's own part.
- **Pairs**: every two allocators of a program, where the ranges of their live repetitions do not overlap (memory: and
  are 64 KiB apart). *Right*: the prediction has the sign of the live difference.
"""


def document(results: Sequence[dict], command: str, counts: Sequence[dict] = (), times: Sequence[dict] = ()) -> str:
    """The whole document. `results`: raw results (verify.py); `counts`, `times`: raw results of kind "counted"
    and "timed"; `command`: the command that writes the document.
    """
    sections = [*counted_document.section(counts), *timed_document.section(times)]
    if not results:
        return "\n".join(["# How far replays are from live programs", "", *sections]) + "\n"
    table, timed = errors(results), timed_document.short_rows(times)
    parts = [
        "# How far replays are from live programs",
        "",
        *_head(results, command),
        "## In short",
        "",
        *_summary_table(table, timed),
        "",
        *_ranking_table(results, timed),
        "",
        *_noise(table),
        "",
        "## How it is measured",
        "",
        METHOD,
        *sections,
        "## What failed",
        "",
        *_failures(results),
    ]
    return "\n".join(parts) + "\n"


def _head(results: Sequence[dict], command: str) -> Iterable[str]:
    machine = results[0]["machine"]
    days = sorted({time.strftime("%Y-%m-%d", time.gmtime(data["created_unix_s"])) for data in results})
    commits = sorted({(data.get("heaptape") or {}).get("commit") or "unknown" for data in results})
    loads = [data["machine"]["load_before"][0] for data in results if data.get("machine", {}).get("load_before")]
    minutes = sum(data.get("elapsed_s", 0) for data in results) / 60
    allocators: dict[str, str] = {}
    for data in results:
        for one in data.get("allocators", []):
            allocators[one["name"]] = one.get("version") or "built here"
    yield f"Written by `{command}` from the raw results in `docs/methods/fidelity/`; `make fidelity` repeats all runs."
    yield ""
    yield f"- {', '.join(days)}; heaptape {', '.join(commits)}; the runs took {minutes:.0f} minutes"
    yield (
        f"- {machine.get('cpu')}, {machine.get('cores')} processors, Linux {machine.get('kernel')}, "
        f"{machine.get('os')}, {machine.get('libc')}; transparent huge pages: {machine.get('transparent_huge_pages')}"
    )
    counts = sorted({run["repeat"] + 1 for data in results for run in data["live"] if "repeat" in run})
    if counts:
        yield f"- {counts[-1]} live runs of each program on each allocator at most, one recording of each program"
    if loads:
        yield (
            f"- load of the machine before each program: {min(loads):.1f} to {max(loads):.1f}"
            + (", so CPU times are noisy" if max(loads) > (machine.get("cores") or 1) else "")
        )
    yield f"- {', '.join(f'{name} {version}' for name, version in allocators.items())}"
    yield ""


def _summary_table(table: pd.DataFrame, timed: Sequence[dict]) -> Iterable[str]:
    """`timed`: rows of the predictions from counts, which replace the predictions by calls alone."""
    yield "Errors in percent, by size; every program on all allocators but the one recorded on. All; held-out programs:"
    yield ""
    yield "| figure | programs | pairs | median | 90th percentile | worst | target |"
    yield "|---|---|---|---|---|---|---|"
    for figure, name in FIGURES.items():
        if figure == "cpu_change" and timed:
            continue
        cells = []
        for half in SHOWN_HALVES:
            part = table[(table["figure"] == figure) & ((half == "all") | (table["set"] == half))]
            cells += [
                [part["app"].nunique(), row["count"], _amount(row["median"]), _amount(row["p90"]), _worst(row)]
                for row in summary(part).to_dict("records")
            ]
        about = f"{name} (of the mean)" if figure in ("mean_part", "aligned_mean_part") else name
        yield from counted_document.both(about, cells, " and ".join(f"{value} %" for value in TARGETS[figure] if value))
    cells = [[row["apps"], row["different"], _amount(row["median"]), _amount(row["p90"]), _worst(row)] for row in timed]
    yield from counted_document.both("change of CPU time", cells, "30 %")


def _worst(row: Mapping) -> str:
    return f"{_amount(row['worst'])}, {row['worst_at']}"


def _ranking_table(results: Sequence[dict], timed: Sequence[dict]) -> Iterable[str]:
    yield "Pairs of allocators in the same order live and replayed, of those whose live difference exceeds its noise:"
    yield ""
    yield "| figure | pairs beyond noise | right | error of the difference, median | target |"
    yield "|---|---|---|---|---|"
    for figure, (name, target) in RANKINGS.items():
        if figure == "cpu" and timed:
            continue
        found = pairs(results, figure)
        cells = []
        for half in SHOWN_HALVES:
            part = found[(half == "all") | (found["set"] == half)]
            clear = part[part["beyond_noise"]]
            if not clear.empty:
                off = 100 * (clear["predicted"] / clear["live"] - 1).abs().median()
                right = f"{100 * clear['right'].mean():.0f} %"
                cells.append([f"{len(clear)} of {len(part)}", right, f"{off:.0f} %"])
        yield from counted_document.both(name, cells, f"{target} %" if target else "")


def _noise(table: pd.DataFrame) -> Iterable[str]:
    """The spread of the live runs of one program on one allocator: no prediction can be more accurate."""
    parts = []
    for figure in ("peak", "mean", "aligned_mean"):
        part = table[(table["figure"] == figure) & table["noise"].notna()]
        if not part.empty:
            values = part["noise"]
            parts.append(f"{FIGURES[figure]} {_amount(values.median())} and {_amount(values.quantile(0.9))}")
    yield (
        "Live runs of the same program on the same allocator differ (largest less smallest, in percent, median and "
        f"90th percentile): {'; '.join(parts)}."
    )


def _failures(results: Sequence[dict]) -> Iterable[str]:
    rows = [(data["app"]["name"], label, why) for data in results for label, why in data["failures"].items()]
    if not rows:
        yield "Nothing: every program above ran on every allocator, and every replay ended."
        return
    yield "| program | allocator | why there are no figures |"
    yield "|---|---|---|"
    for app, label, why in rows:
        plain = why.replace("|", "\\|").replace("\n", " ")
        yield f"| {app} | {label} | {plain} |"


def _amount(value: float) -> str:
    if np.isnan(value):
        return "–"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 0.05 or value == 0 else f"{value:.2f}"
