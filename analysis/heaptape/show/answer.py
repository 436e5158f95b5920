# SPDX-License-Identifier: MIT
"""The answer of a comparison, as data: a row per allocator, best first; which to use; what could change that; what to
type next. `heaptape replay` and `compare` print it (show/screen.py), the report draws it.

The sentences follow from the rows by one rule (results/comparing/worth.py). Memory is exact for the replayed calls; its
error against the live program is that of replays (results/replay_errors.py). CPU time is predicted from counts
(results/model): with the program's data accesses it is a range, else an estimate without cache effects.
"""

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from heaptape.common import phrases
from heaptape.common.phrases import NONE_FASTER, NONE_LEANER, NOTHING, percent, signed, size
from heaptape.common.tables import MIB
from heaptape.results import replay_errors
from heaptape.results.comparing.compare import absolute, allocator_order
from heaptape.results.comparing.worth import LEAST_PERCENT, NO_REASON, WITHIN_ERROR, is_reason, why_not
from heaptape.results.model import time_model
from heaptape.results.schema import Results, figures, unique_name
from heaptape.results.structs import Workload

NOISY_FACTOR = 2.0  # a range of CPU time that spans this factor is not a figure
FEW_CALLS = 1000  # below this, an allocator's start-up is most of what is measured
FASTEST, LEAST_MEMORY, BASELINE = "fastest", "least memory", "baseline"
ESTIMATED, RANGE, MILLISECONDS, LIVE = "estimated", "range", "milliseconds", "live"


@dataclass(frozen=True)
class Cpu:
    """The change of the program's CPU time: percent of the baseline's, and ms, with their ends. `kind`: ESTIMATED
    (without cache effects, but the ends of the percentage include what they did to other programs), RANGE (the truth is
    expected between the ends), LIVE (of live runs, with its 95 % interval), or MILLISECONDS (without cache effects, and
    the program's CPU time is not known, so percent, low and high are NaN; a reason to change only if that time is below
    `reason_below_ns`).
    """

    kind: str
    percent: float
    low: float
    high: float
    ms: float
    ms_low: float
    ms_high: float
    reason_below_ns: float = 0.0

    @property
    def gain(self) -> float:
        """Less CPU time, in percent; in ms where percent is not known."""
        return -(self.ms if self.kind == MILLISECONDS else self.percent)

    @property
    def error(self) -> float:
        """By how much the gain may be smaller, in percent."""
        return self.high - self.percent

    @property
    def is_reason(self) -> bool:
        """Is it known to be a reason to change?"""
        return self.kind != MILLISECONDS and is_reason(self.gain, self.error)

    @property
    def may_be_reason(self) -> bool:
        """Could it be a reason to change, by the lower end, or by what the program takes?"""
        return self.reason_below_ns > 0 if self.kind == MILLISECONDS else self.low <= -LEAST_PERCENT

    @property
    def is_figure(self) -> bool:
        return self.kind != RANGE or 100 + self.high < NOISY_FACTOR * (100 + self.low)


@dataclass(frozen=True)
class Row:
    """An allocator. `name`: as shown, with its version; `label`: as -a takes it. Changes are in percent of the
    baseline's, over several workloads the geometric mean; bytes and counts are None for several workloads. None: not
    measured. `worst`: for CPU time or peak memory (keys "cpu", "memory"), the workload with the largest increase, and
    the change there. `marks`: FASTEST, LEAST_MEMORY, BASELINE.
    """

    label: str
    name: str
    cpu: Cpu | None = None
    peak_bytes: float | None = None
    peak_percent: float | None = None
    mean_bytes: float | None = None
    mean_percent: float | None = None
    instructions: float | None = None
    instructions_percent: float | None = None
    cycles: float | None = None
    cycles_percent: float | None = None
    worst: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """`about`: what was measured. `rows`: best first, the baseline among them. `cpu_ns`: CPU time of the recorded
    program, None where that is not known; `recorded_on_baseline`: it ran on the baseline. `use`: aim ("cpu", "memory")
    -> label to use; the baseline's: no reason to change; an aim that can't be judged is missing. `sentences`: the
    answer. `caveats`: what could change it, at most two. `next`: (what for, command).
    """

    about: str
    baseline: str
    rows: tuple[Row, ...]
    workloads: int
    cpu_ns: float | None
    recorded_on_baseline: bool
    use: Mapping[str, str]
    sentences: tuple[str, ...]
    caveats: tuple[str, ...]
    next: tuple[tuple[str, str], ...]

    @property
    def has_figures(self) -> bool:
        return any(
            value is not None
            for row in self.rows
            for value in (row.cpu, row.peak_percent, row.instructions_percent, row.cycles_percent)
        )

    def row(self, label: str) -> Row:
        return next(row for row in self.rows if row.label == label)

    def as_json(self) -> dict:
        """For --json and for the report: plain values, NaN as None."""
        plain = _plain(asdict(self))
        assert isinstance(plain, dict)
        return plain


def answer(files: Sequence[Results], baseline: str, predicted: pd.DataFrame | None = None) -> Answer:
    """The answer of these results. `baseline`: one of their labels. `predicted`: their `time_model.prediction`, if the
    caller has it.
    """
    table = figures(files)
    values = absolute(table)
    names: dict[tuple, str] = {}
    workloads = {unique_name(file, names): file for file in files}
    predicted = time_model.prediction(files, baseline) if predicted is None else predicted
    one = next(iter(workloads.values())) if len(workloads) == 1 else None
    cpu_ns = _cpu_ns(one) if one else None
    cpu = _cpu_changes(predicted, {name: _cpu_ns(file) for name, file in workloads.items()})
    experiments = {label for file in files for label in file.experiment_labels}
    labels = [label for label in allocator_order(files) if label not in experiments or label == baseline]
    versions = _versions(files)
    made = [_row(label, baseline, values, cpu, list(workloads), versions) for label in labels]
    rows = [row for row in made if row is not None]
    left_out = _left_out_of_cpu(rows)
    if left_out:
        rows = [_without_cpu(row) for row in rows]
    errors = _memory_errors(table, labels, baseline, files)
    use = _use(rows, baseline, errors)
    rows = _marked(sorted(rows, key=_order), baseline, use)
    return Answer(
        _about(one, workloads, versions, cpu_ns),
        baseline,
        tuple(rows),
        len(workloads),
        cpu_ns,
        one is not None and versions.get(str(one.workload.allocator)) in (None, versions.get(baseline)),
        use,
        tuple(_sentences(rows, baseline, use, errors)),
        tuple([*left_out, *_caveats(files, rows, predicted)][:2]),
        tuple(_next(files, one, rows)),
    )


def cpu_text(cpu: Cpu) -> str:
    """ "≈ -5 %", "-8 to -3 %", "≈ -4.5 ms"; of live runs "-5.1 % (-8.0 to -3.0)"."""
    if cpu.kind == LIVE:
        return f"{percent(cpu.percent)} ({range_text(cpu).removesuffix(' %')})"
    if cpu.kind == MILLISECONDS:
        return f"≈ {signed(cpu.ms)} ms" if abs(cpu.ms) >= NOTHING else "≈ 0 ms"
    if cpu.kind == ESTIMATED:
        return f"≈ {cpu.percent:+.0f} %" if abs(cpu.percent) >= 0.5 else "≈ 0 %"
    return range_text(cpu)


def open_text(cpu: Cpu) -> str:
    """When a change in ms is a reason to change."""
    return f"a reason to change only if the program takes less than {phrases.seconds(cpu.reason_below_ns)} of it"


def range_text(cpu: Cpu) -> str:
    """ "-8 to -3 %"."""
    low, high = (percent(end).removesuffix(" %") for end in (cpu.low, cpu.high))
    return f"{low} to {high} %"


def short_version(version: str | None) -> str:
    """The upstream version of a package's: "libc6 2.36-9+deb12u14" -> "2.36"."""
    word = (version or "").split()[-1:]
    found = re.match(r"[0-9]+(\.[0-9]+){0,2}", word[0]) if word else None
    return found[0] if found else ""


def _plain(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value


def _cpu_ns(file: Results) -> float | None:
    value = file.workload.cpu_ns
    return float(value) if value and value > 0 else None


def _versions(files: Sequence[Results]) -> dict[str, str]:
    """label -> name as shown, and library's file name -> the same of the allocator without settings."""
    found = {}
    for file in files:
        for one in file.parsed.allocators or []:
            name, variant = one.name or "", one.variant or ""
            plain = variant in ("", "default")
            label = name if plain else f"{name}:{variant}"
            version = short_version(one.version)
            shown = f"{label} {version}" if plain and version and "@" not in name else label
            found[label] = shown
            if plain and one.path:
                found[Path(one.path).name] = shown
    return found


def _cpu_changes(predicted: pd.DataFrame, cpu_ns: Mapping[str, float | None]) -> dict[tuple[str, str], Cpu]:
    """(workload, label) -> change."""
    found = {}
    for row in predicted[predicted["part"] == time_model.ALL].to_dict("records"):
        ends = [row[key] for key in ("percent", "low", "high")]
        kind, total = RANGE, cpu_ns.get(row["workload"])
        if math.isnan(row["percent"]):
            kind = ESTIMATED if total else MILLISECONDS
            ends = list(time_model.estimate(row, total))
        ends += [row[key] / 1e6 for key in ("ns", "ns_low", "ns_high")]
        ends.append(time_model.reason_below_ns(row) if kind == MILLISECONDS else 0.0)
        found[row["workload"], row["allocator"]] = Cpu(kind, *ends)
    return found


def _row(
    label: str,
    baseline: str,
    values: pd.DataFrame,
    cpu: Mapping[tuple[str, str], Cpu],
    workloads: Sequence[str],
    names: Mapping[str, str],
) -> Row | None:
    """None: the allocator has no figure, or lacks workloads that the baseline has."""
    here = [(name, label) for name in workloads if (name, label) in values.index]
    if not here or len(here) < sum((name, baseline) in values.index for name in workloads):
        return None
    keep: dict[str, Any] = {}
    worst: dict[str, tuple[str, float]] = {}
    single = len(workloads) == 1
    kinds = {"peak": "peak_rss", "mean": "mean_rss", "instructions": "total_instructions", "cycles": "total_cycles"}
    for key, metric in kinds.items():
        if metric not in values.columns:
            continue
        ratios = {}
        for name, _ in here:
            value = values.at[(name, label), metric]
            base = values.at[(name, baseline), metric] if (name, baseline) in values.index else math.nan
            if single and pd.notna(value):
                keep[key if key in ("instructions", "cycles") else f"{key}_bytes"] = float(value)
            if value > 0 and base > 0:
                ratios[name] = float(value / base)
        if ratios:
            keep[f"{key}_percent"] = 100 * (math.prod(ratios.values()) ** (1 / len(ratios)) - 1)
        if key == "peak" and not single and ratios:
            name = max(ratios, key=lambda one: ratios[one])
            worst["memory"] = (name, 100 * (ratios[name] - 1))
    changes = {name: cpu[name, label] for name, _ in here if (name, label) in cpu}
    complete = changes and (single or len(changes) == len(here))
    if complete and not single and all(not math.isnan(one.percent) for one in changes.values()):
        name = max(changes, key=lambda one: changes[one].percent)
        worst["cpu"] = (name, changes[name].percent)
    mean = _mean_cpu(list(changes.values())) if complete else None
    return replace(Row(label, names.get(label, label), mean, worst=worst), **keep)


def _mean_cpu(changes: Sequence[Cpu]) -> Cpu | None:
    """The geometric mean of the changes; of one it is itself. None where some are not known in percent."""
    if len(changes) == 1:
        return changes[0]
    if any(math.isnan(one.percent) for one in changes):
        return None
    ends = [
        100 * (math.prod(max(1 + getattr(one, key) / 100, 1e-6) for one in changes) ** (1 / len(changes)) - 1)
        for key in ("percent", "low", "high")
    ]
    kind = ESTIMATED if any(one.kind == ESTIMATED for one in changes) else RANGE
    ms = [sum(getattr(one, key) for one in changes) for key in ("ms", "ms_low", "ms_high")]
    return Cpu(kind, *ends, *ms)


def _without_cpu(row: Row) -> Row:
    return replace(row, cpu=None, worst={key: value for key, value in row.worst.items() if key != "cpu"})


def _left_out_of_cpu(rows: Sequence[Row]) -> list[str]:
    known = [row for row in rows if row.cpu]
    wide = [row for row in known if row.cpu and not row.cpu.is_figure]
    if len(wide) * 2 <= len(known):
        return []
    return ["CPU time is left out: its ranges span a factor of two. A live check decides: heaptape advise --live."]


def _order(row: Row) -> tuple[float, float, float]:
    speed = 0.0
    if row.cpu:
        speed = -row.cpu.gain
    return speed, row.instructions_percent or 0.0 if row.cpu is None else 0.0, row.peak_percent or 0.0


def _marked(rows: Sequence[Row], baseline: str, use: Mapping[str, str]) -> list[Row]:
    """Rows with their marks: the fastest and the one with the least memory only where that is beyond the error, which
    decides the sentence, too.
    """
    marks: dict[str, list[str]] = {row.label: [] for row in rows}
    timed = [row for row in rows if row.cpu]
    if timed:
        best = min(timed, key=lambda row: -row.cpu.gain if row.cpu else 0.0)
        if best.cpu and (best.cpu.is_reason or best.cpu.reason_below_ns > 0):
            marks[best.label].append(FASTEST)
        elif best.cpu and best.cpu.gain <= 0 and baseline in marks:
            marks[baseline].append(FASTEST)
    if baseline in marks:
        marks[baseline].append(BASELINE)
    if lean := use.get("memory"):
        sized = [row for row in rows if row.peak_percent is not None]
        least = min(sized, key=lambda row: (round(row.peak_percent or 0.0, 1), row.label != baseline))
        if lean != baseline or least.label == baseline:
            marks[least.label].append(LEAST_MEMORY)
    return [replace(row, marks=tuple(marks[row.label])) for row in rows]


def _memory_errors(
    table: pd.DataFrame, labels: Sequence[str], baseline: str, files: Sequence[Results]
) -> dict[str, float]:
    """label -> by how many percent its peak may be off beside the baseline's."""
    replays = all(file.is_replay for file in files)
    found = {}
    for label in labels:
        known = replay_errors.errors_of(["peak_rss"], [label, baseline]) if replays and label != baseline else {}
        found[label] = known.get("peak_rss", 0.0)
    return found


def _saves(row: Row, other: Row) -> tuple[float, float | None]:
    """By how many percent and bytes (None: of several workloads) the peak of `row` is below that of `other`."""
    if row.peak_percent is None or other.peak_percent is None:
        return math.nan, None
    ratio = (100 + row.peak_percent) / (100 + other.peak_percent)
    known = row.peak_bytes is not None and other.peak_bytes is not None
    return 100 * (1 - ratio), (other.peak_bytes or 0.0) - (row.peak_bytes or 0.0) if known else None


def _fastest(timed: Sequence[Row]) -> Row:
    return max(timed, key=lambda row: row.cpu.gain if row.cpu else 0.0)


def _use(rows: Sequence[Row], baseline: str, errors: Mapping[str, float]) -> dict[str, str]:
    base = next((row for row in rows if row.label == baseline), None)
    others = [row for row in rows if row.label != baseline]
    use: dict[str, str] = {}
    if base is None or not others:
        return use
    timed = [row for row in others if row.cpu]
    if timed:
        fastest = _fastest(timed)
        if fastest.cpu and not fastest.cpu.reason_below_ns:
            use["cpu"] = fastest.label if fastest.cpu.is_reason else baseline
    sized = [row for row in others if row.peak_percent is not None]
    if sized and base.peak_percent is not None:
        lean = min(sized, key=lambda row: row.peak_percent or 0.0)

        def gains(row: Row, other: Row) -> bool:
            saved, saved_bytes = _saves(row, other)
            return is_reason(saved, max(errors[row.label], errors[other.label]), saved_bytes)

        use["memory"] = lean.label if gains(lean, base) else baseline
        chosen = next((row for row in others if row.label == use.get("cpu")), None)
        # The allocator that is chosen for CPU time does for memory, too, where another one would gain nothing over it.
        if use["memory"] != baseline and chosen and gains(chosen, base) and not gains(lean, chosen):
            use["memory"] = chosen.label
    return use


def _sentences(rows: Sequence[Row], baseline: str, use: Mapping[str, str], errors: Mapping[str, float]) -> list[str]:
    by_label = {row.label: row for row in rows}
    if len(rows) < 2:
        return (
            [f"Only {rows[0].label} was measured: nothing to compare it with."] if rows else ["Nothing was measured."]
        )
    cpu, memory = use.get("cpu"), use.get("memory")
    if cpu is not None and cpu == memory and cpu != baseline:
        return [f"Use {cpu}: CPU time {_cpu_words(by_label[cpu])}, {_memory_words(by_label[cpu])}."]
    if not use:
        return _more(cpu, rows, baseline)
    if {cpu, memory} <= {baseline, None}:
        why = [_why_cpu(rows, baseline)] * (cpu is not None) + [_why_memory(rows, baseline, errors)] * (
            memory is not None
        )
        text = "; ".join(one for one in why if one)
        judged = NO_REASON.capitalize() if cpu is not None else f"For memory {NO_REASON}"
        return [f"{judged}{': ' + text if text else ''}.", *_more(cpu, rows, baseline)]
    parts = []
    if cpu is not None:
        parts.append(
            f"For CPU time {cpu} ({_cpu_words(by_label[cpu])}){_price(by_label[cpu], by_label[baseline])}."
            if cpu != baseline
            else f"For CPU time {NO_REASON}: {_why_cpu(rows, baseline)}."
        )
    if memory is not None:
        parts.append(
            f"For memory {memory} ({percent(by_label[memory].peak_percent or 0.0)})."
            if memory != baseline
            else f"For memory {NO_REASON}: {_why_memory(rows, baseline, errors)}."
        )
    return [" ".join(parts), *_more(cpu, rows, baseline)]


def _more(cpu: str | None, rows: Sequence[Row], baseline: str) -> list[str]:
    """What is known of CPU time where the change can't be judged: of an estimate in ms when it would be a reason, else
    what the counts of calls say.
    """
    open_ones = [row for row in rows if row.cpu and row.cpu.reason_below_ns]
    if cpu is None and open_ones:
        row = _fastest(open_ones)
        price = _price(row, next(one for one in rows if one.label == baseline))
        assert row.cpu
        return [f"For CPU time {row.label} ({cpu_text(row.cpu)}){price}, {open_text(row.cpu)}."]
    counted = [row for row in rows if row.instructions_percent is not None]
    if cpu is not None or len(counted) < 2:
        return []
    best = min(counted, key=lambda row: row.instructions_percent or 0.0)
    if best.label == baseline:
        return [f"{baseline} needs the fewest instructions in malloc and free."]
    return [
        f"{best.label} needs the fewest instructions in malloc and free ({percent(best.instructions_percent or 0)})."
    ]


def _cpu_words(row: Row) -> str:
    return cpu_text(row.cpu) if row.cpu else ""


def _memory_words(row: Row) -> str:
    return f"peak memory {percent(row.peak_percent or 0.0)}"


def _price(row: Row, base: Row) -> str:
    """What else the choice for CPU time costs or saves."""
    if row.peak_percent is None:
        return ""
    if row.peak_bytes is not None and base.peak_bytes is not None:
        more = row.peak_bytes - base.peak_bytes
        if abs(row.peak_percent) < NOTHING:
            return ", at the same peak memory"
        return f", for {size(abs(more))} {'more' if more > 0 else 'less'} peak memory"
    return f", with {_memory_words(row)}"


def _why_cpu(rows: Sequence[Row], baseline: str) -> str:
    others = [row for row in rows if row.label != baseline and row.cpu]
    if not others:
        return ""
    best = _fastest(others)
    assert best.cpu
    if best.cpu.gain < NOTHING:
        return NONE_FASTER
    if best.cpu.kind == MILLISECONDS:
        return phrases.too_small_gain("fastest", best.label, f"{best.cpu.gain:.1f} ms of CPU time", WITHIN_ERROR)
    if best.cpu.kind == ESTIMATED and best.cpu.gain >= LEAST_PERCENT and not best.cpu.is_reason:
        decides = "a live check or data accesses decide"
        return f"whether {best.label} is faster is not known ({range_text(best.cpu)}: {decides})"
    why = why_not(best.cpu.gain, best.cpu.error)
    return phrases.too_small_gain("fastest", best.label, f"{best.cpu.gain:.1f} % of CPU time", why)


def _why_memory(rows: Sequence[Row], baseline: str, errors: Mapping[str, float]) -> str:
    base = next(row for row in rows if row.label == baseline)
    others = [row for row in rows if row.label != baseline and row.peak_percent is not None]
    if not others:
        return ""
    best = min(others, key=lambda row: row.peak_percent or 0.0)
    saved, saved_bytes = _saves(best, base)
    if not saved > NOTHING:
        return NONE_LEANER
    reason = why_not(saved, errors[best.label], saved_bytes)
    return phrases.too_small_gain("leanest", best.label, f"{saved:.1f} % of peak memory", reason)


def _about(
    one: Results | None, workloads: Mapping[str, Results], names: Mapping[str, str], cpu_ns: float | None
) -> str:
    if one is None:
        calls = sum(file.workload.ops or 0 for file in workloads.values())
        shown = ", ".join(list(workloads)[:4]) + (", …" if len(workloads) > 4 else "")
        return f"{len(workloads)} workloads ({shown}), {calls:,} calls. Changes are geometric means."
    about = one.workload
    more = [f"peak live {size(about.ideal_rss_bytes)}"] if about.ideal_rss_bytes else []
    text = phrases.about_workload(one.name, about.ops, about.threads, more)
    library = about.allocator
    recorded = f" Recorded on {names.get(str(library), library)}" if library else " Recorded" * bool(cpu_ns)
    if recorded:
        text += recorded + (f": {phrases.seconds(cpu_ns)} CPU." if cpu_ns else ".")
    return text


def _caveats(files: Sequence[Results], rows: Sequence[Row], predicted: pd.DataFrame) -> list[str]:
    found = [
        f"{file.name}: {text}" if len(files) > 1 else text
        for file in files
        for text in [bypassed(file.workload)]
        if text
    ]
    few = [file.name for file in files if 0 < (file.workload.ops or FEW_CALLS) < FEW_CALLS]
    found += [f"{', '.join(few)}: so few calls that start-up decides their instructions and time."] * bool(few)
    failed = list(dict.fromkeys(run.label for file in files for run in file.failures))
    found += [f"Failed, and so left out: {', '.join(failed)}."] * bool(failed)
    bursts = bool(len(predicted)) and bool(predicted["of_bursts"].any())
    if bursts:
        found.append("CPU time is that of the recorded bursts, not of the whole program.")
    kinds = {row.cpu.kind for row in rows if row.cpu}
    if kinds & {ESTIMATED, MILLISECONDS}:
        cpu = next(row.cpu for row in rows if row.cpu)
        moved = cpu.low - cpu.percent, cpu.high - cpu.percent
        found.append(phrases.without_cache_effects(*moved, "heaptape record --accesses"))
    elif not kinds and any(time_model.has_counts(file) and time_model.penalties_of(file) is None for file in files):
        found.append(
            "CPU time is left out, as the costs of the machine that replayed are not known (heaptape machine)."
        )
    elif not kinds and len(predicted):
        found.append("CPU time is left out: it is not known for each of the workloads.")
    return found


def bypassed(workload: Workload) -> str:
    """A sentence where malloc holds less than half of the program's memory: peak live bytes against the recorded
    peak of RssAnon. Empty where that is not so, or not known.
    """
    live = workload.ideal_rss_bytes or 0
    peak = max((row[1] for row in workload.recorded or []), default=0)
    if not peak or peak - live < 4 * MIB or live >= peak / 2:  # as memory_bypass_text of core/trace/summary.c
        return ""
    hint = ""
    if (workload.program or "").startswith("python"):
        hint = " For CPython record with PYTHONMALLOC=malloc."
    return f"malloc holds only {100 * live / peak:.0f} % of the program's peak memory: the rest bypasses it.{hint}"


def _next(files: Sequence[Results], one: Results | None, rows: Sequence[Row]) -> list[tuple[str, str]]:
    paths = " ".join(dict.fromkeys(shlex.quote(file.path) for file in files if file.path and file.path != "-"))
    if not paths:
        return []
    found = [("more", f"heaptape compare {paths} --table {'calls|memory|latency|all' if one else 'workloads|all'}")]
    found.append(("report", f"heaptape report {paths}"))
    program = one.workload.program if one else None
    if program and any(row.cpu for row in rows):
        found.append(("live", f"heaptape advise --live -- {program} …"))
    return found
