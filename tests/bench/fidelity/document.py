# SPDX-License-Identifier: MIT
"""The certificate as a document (docs/methods/FIDELITY.md): every figure in it is made from raw results."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
from heaptape.results.comparing.race import DIFFERENT, EFFECT_PERCENT, SAME, UNDECIDED

from tests.bench.fidelity import judged, live_rounds
from tests.bench.fidelity.judged import BASELINE, HALVES, METRICS, NOT_RUN, halves, sizes
from tests.bench.fidelity.looks import FIRST_LOOK, LEVEL_OF_ONE, LOOKS

# Figures of memory: name, targets for the median and the 90th percentile of errors.
FIGURES = {
    "peak": ("peak RssAnon", "1 % and 3 %"),
    "peak_part": ("its allocator-caused part", "3 % and 8 %"),
    "mean": ("RssAnon, mean over each run's own time", "1 % and 3 %"),
    "mean_part": ("its allocator-caused part (of the mean)", "3 % and 8 %"),
    "aligned_mean": ("RssAnon, mean over the recording's time", "1 % and 3 %"),
    "aligned_mean_part": ("its allocator-caused part (of the mean)", "3 % and 8 %"),
    "vm_size": ("peak VmSize", ""),
}
RANKED = ("peak", "mean", "aligned_mean")
# If other programs and the hypervisor took more of all processors' time (median of rounds), the machine was not quiet.
QUIET_PERCENT = 5.0
METHOD = """\
Each program runs live on every allocator, observed from outside: RssAnon and VmSize every 2 ms and before each system
call that may shrink them. It is recorded **once, on glibc**, and replayed on every allocator.

- **Prediction**: the replay's peak or mean, plus the program's own part: what the live run on glibc had above the glibc
  replay. So glibc's own error is 0 and left out; pairs may contain glibc.
- **Mean over each run's own time**: over the processor time of the live run, and of the recording (commands print means
  over wall time). **Over the recording's time**: of live runs under the recorder, at the same share of calls.
- **Error**: predicted less live, in percent of live (median of the repetitions). *Allocator-caused part*: both less the
  program's own part.
- **Pairs**: every two allocators of a program whose live repetitions do not overlap (memory: and are 64 KiB apart).
  *Right*: the prediction has the sign of the live difference.
"""
COUNTED = """\
Short programs (`workloads/counted/`) run live under `heaptape-observe --simulate --data-only`, on every allocator, in
several layouts of memory, recorded on glibc, natively and with data accesses. Counts repeat exactly except for servers
and programs of several threads.

- **Instructions**: of the calls and of the start-up, less the same on glibc, in percent of the program's instructions.
  *Allocator's part*: without the dynamic linker's. **Page faults**: first touches of OS pages by data accesses.
  **System calls**: mmap, munmap, mremap, madvise, brk. **Misses**: of data, in virtual addresses.
- Other errors are in percent of the live change (median over layouts) where that is 2 % or more of the count on glibc
  and exceeds its spread (largest less smallest).
- **Pairs**: every two allocators of a program whose live difference is at least 2 % (instructions: 0.5 %). *Open*:
  it does not exceed its own spread. *Right*: of the decided pairs, the prediction has the live sign.
"""
TIMED = f"""\
The [model of time](TIME_MODEL.md) predicts the change of CPU time from a recording on glibc with data accesses. Then
the program runs live, in rounds: glibc and each allocator that is not decided yet, in random order, with random
addresses.

- **Live**: the change against glibc: the mean of the log ratios within rounds, the fifth at each end left out, tested
  {LOOKS} times at most, first after {FIRST_LOOK} rounds; all intervals of a pair together hold the truth in 95 % (one:
  {100 * LEVEL_OF_ONE:.4g} %).
- **Different**: the interval is narrower than the change, which is {EFFECT_PERCENT:g} % or more.
  **{SAME.capitalize()}**: the interval leaves out all such changes. Else **undecided**: no prediction is judged by it.
- **Right**: of different pairs, the predicted middle has the live sign. *Outright*: the predicted interval leaves
  out 0. *Size off*: predicted less live, in percent of the live change. *Contradicted*: {SAME} live,
  but the whole predicted interval is beyond that.
"""


def document(results: Sequence[dict], command: str) -> str:
    """The whole document. `results`: raw results of any kinds; `command`: the command that writes the document."""
    memory, counts, times = (
        [data for data in results if data["kind"] == kind] for kind in ("fidelity", "counted", "timed")
    )
    lines = ["# How far replays are from live programs", ""]
    if memory:
        table = judged.memory_errors(memory)
        lines += [*_head(memory, command), "## In short", "", *_errors(table, times), "", *_rankings(memory), ""]
        lines += [_noise(table), "", "## How it is measured", "", METHOD]
    lines += [*_counted(counts), *_timed(times), "## What failed", ""]
    failed = [
        f"- {data['app']['name']}, {label}: {why}".replace("\n", " ")
        for data in results
        for label, why in data["failures"].items()
    ]
    nothing = "Nothing: every program above ran on every allocator, and every replay ended."
    return "\n".join([*lines, *(failed or [nothing])]) + "\n"


def table(*columns: str) -> list[str]:
    """The head of a table of Markdown."""
    return [line(*columns), "|" + "---|" * len(columns)]


def line(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def both(name: str, cells: Sequence[Sequence], target: str) -> Iterator[str]:
    """A row of a table, `cells` being those of HALVES, once if they are the same; nothing without any."""
    if cells:
        yield line(name, *("; ".join(dict.fromkeys(map(str, column))) for column in zip(*cells)), target)


def amount(value: float) -> str:
    """Of percent."""
    if np.isnan(value):
        return "–"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def _size_cells(part: Mapping) -> list[str]:
    return [amount(part["median"]), amount(part["p90"]), f"{amount(part['worst'])}, {part['worst_at']}"]


def _days(times: Iterable[float]) -> str:
    return ", ".join(sorted({time.strftime("%Y-%m-%d", time.gmtime(one)) for one in times}))


def _head(results: Sequence[dict], command: str) -> Iterator[str]:
    machine = results[0]["machine"]
    commits = sorted({(data.get("heaptape") or {}).get("commit") or "unknown" for data in results})
    loads = [data["machine"]["load_before"][0] for data in results]
    minutes = sum(data.get("elapsed_s", 0) for data in results) / 60
    versions = {one["name"]: one.get("version") or "built here" for data in results for one in data["allocators"]}
    repeats = [run["repeat"] + 1 for data in results for run in data["live"] if "repeat" in run]
    days = _days(data["created_unix_s"] for data in results)
    yield f"Written by `{command}` from the raw results in `docs/methods/fidelity/`; `make fidelity` repeats all runs."
    yield ""
    yield f"- {days}; heaptape {', '.join(commits)}; the runs took {minutes:.0f} minutes"
    yield (
        f"- {machine.get('cpu')}, {machine.get('cores')} processors, Linux {machine.get('kernel')}, "
        f"{machine.get('os')}, {machine.get('libc')}; transparent huge pages: {machine.get('transparent_huge_pages')}"
    )
    yield f"- {max(repeats)} live runs of each program on each allocator at most, one recording of each program"
    yield f"- load of the machine before each program: {min(loads):.1f} to {max(loads):.1f}"
    yield f"- {', '.join(f'{name} {version}' for name, version in versions.items())}"
    yield ""


def _errors(found: pd.DataFrame, times: Sequence[dict]) -> Iterator[str]:
    yield "Errors in percent, by size; every program on all allocators but the one recorded on. All; held-out programs,"
    yield "where they differ:"
    yield ""
    yield from table("figure", "programs", "pairs", "median", "90th percentile", "worst", "target")
    for figure, (name, target) in FIGURES.items():
        part = found[(found["figure"] == figure) & (found["allocator"] != BASELINE)]
        cells = [[one["apps"], one["count"], *_size_cells(one)] for one in map(sizes, halves(part)) if one["count"]]
        yield from both(name, cells, target)
    pairs = _that_ran(times)
    cells = [[one["apps"], one["count"], *_size_cells(one)] for one in map(sizes, halves(pairs)) if one["count"]]
    yield from both("change of CPU time", cells, "30 %")


def _rankings(results: Sequence[dict]) -> Iterator[str]:
    yield "Pairs of allocators in the same order live and replayed, of those whose live difference exceeds its noise:"
    yield ""
    yield from table("figure", "pairs beyond noise", "right, %", "error of the difference, %: median", "target")
    for figure in RANKED:
        cells = []
        for part in halves(judged.memory_pairs(results, figure)):
            clear = part[part["beyond"]]
            if not clear.empty:
                off = 100 * (clear["predicted"] / clear["live"] - 1).abs().median()
                cells.append([f"{len(clear)} of {len(part)}", f"{100 * clear['right'].mean():.0f}", f"{off:.0f}"])
        yield from both(FIGURES[figure][0], cells, "95 %")


def _noise(found: pd.DataFrame) -> str:
    """The spread of the live runs of one program on one allocator: no prediction can be more accurate."""
    parts = []
    for figure in RANKED:
        values = found[found["figure"] == figure]["noise"].dropna()
        if not values.empty:
            parts.append(f"{FIGURES[figure][0]} {amount(values.median())} and {amount(values.quantile(0.9))}")
    return (
        "Live runs of the same program on the same allocator differ (largest less smallest, in percent, median and "
        f"90th percentile): {'; '.join(parts)}."
    )


def _counted(results: Sequence[dict]) -> Iterator[str]:
    if not results:
        return
    yield from ("## Counted: without noise", "", COUNTED)
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
    yield from ("", "All; held-out programs, where they differ:", "")
    yield from table("change of", "programs", "changes", "error, %: median", "90th percentile", "worst", "pairs, open",
                     "right, %", "target")  # fmt: skip
    errors, pairs = judged.counted_errors(results), judged.counted_pairs(results)
    for name, metric in METRICS.items():
        cells = []
        of_metric = (halves(one[one["metric"] == name]) for one in (errors, pairs))
        for part, ranked in zip(*of_metric):
            if not part.empty:
                one, decided = sizes(part), ranked[ranked["decided"]]
                right = amount(100 * decided["right"].mean())
                counts = f"{len(ranked)}, {len(ranked) - len(decided)}"
                cells.append([one["apps"], one["count"], *_size_cells(one), counts, right])
        yield from both(metric.title, cells, metric.target)
    yield ""


def _timed(results: Sequence[dict]) -> Iterator[str]:
    if not results:
        return
    yield from ("## CPU time: live pairs against counts", "", TIMED)
    sittings = [sitting for data in results for sitting in data["sittings"]]
    ran = [data for data in results if data["live"]]
    if ran:
        spent = [live_rounds.spent_s(data) for data in results]
        commits = sorted({sitting["commit"] or "unknown" for sitting in sittings})
        minutes = sum(sitting["elapsed_s"] for sitting in sittings) / 60
        yield (
            f"{len(ran)} of {len(results)} programs ran live, for {min(spent):.0f} to {max(spent):.0f} s of CPU time "
            f"each; {_days(one['created_unix_s'] for one in sittings)}, heaptape {', '.join(commits)}, "
            f"{minutes:.0f} minutes."
        )
        yield _states(ran)
    else:
        predicted = sum(bool(data["predicted"]) for data in results)
        yield f"Programs that are predicted: {predicted}; none ran live yet."
    yield ""
    found = _that_ran(results)
    if found.empty:
        return
    for half, part in zip(HALVES, halves(found)):
        if part.empty:
            continue
        different, same = part[part["verdict"] == DIFFERENT], part["verdict"].eq(SAME).sum()
        sure, right = different[different["outright"]], different["right"]
        median, ninth, worst = _size_cells(sizes(different))
        yield (
            f"- {half} {part['app'].nunique()} programs, {len(part)} pairs: {len(different)} different, {same} {SAME}, "
            f"{part['verdict'].eq(UNDECIDED).sum()} undecided; right {right.sum()} ({amount(100 * right.mean())} %), "
            f"outright {sure['right'].sum()} of {len(sure)}; size off {median} % (median), {ninth} (90th percentile), "
            f"{worst} (worst); live change in the interval: {part['holds'].sum()} of {len(different) + same}; "
            f"contradicted: {part['contradicted'].sum()} of {same}"
        )
    yield "- target: 20 different, right 90 %, size off 30 % at the median"
    yield ""


def _that_ran(results: Sequence[dict]) -> pd.DataFrame:
    found = judged.timed_pairs(results)
    return found[found["verdict"] != NOT_RUN] if len(found) else pd.DataFrame(columns=["app", "set", "error"])


def _states(results: Sequence[dict]) -> str:
    """What share of all processors' time other programs and the hypervisor took."""
    known = {}
    for data in results:
        noises = [one["noise"] for one in data["live"] if one["noise"]]
        shares = [noise["other_load_percent"] + noise["steal_percent"] for noise in noises]
        if shares:
            known[data["app"]["name"]] = float(np.median(shares))
    loud = [f"{name} ({share:.0f} %)" for name, share in known.items() if share > QUIET_PERCENT]
    loads = [sitting["load_before"][0] for data in results for sitting in data["sittings"]]
    spread = f"{min(known.values()):.1f} to {max(known.values()):.1f} %" if known else "an unknown share"
    return (
        f"Other programs and the hypervisor took {spread} of all processors' time (median over a program's rounds); "
        f"load before: {min(loads):.1f} to {max(loads):.1f}."
        + (f" **The machine was not quiet** (more than {QUIET_PERCENT:g} %) under {', '.join(loud)}." if loud else "")
    )
