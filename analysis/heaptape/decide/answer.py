# SPDX-License-Identifier: MIT
"""The answer of a comparison, as data: a row per allocator, best first; which to use; what could change that; what to
type next. `heaptape replay` and `compare` print it (show/screen.py), the report draws it.

The sentences follow from the rows by one rule (verdict.py). Memory is exact for the replayed calls; its error against
the live program is that of replays (results/replay_errors.py). CPU time is predicted from counts (cpu.py): with the
program's data accesses it is a range, else an estimate without cache effects.
"""

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from heaptape.common import phrases
from heaptape.common.phrases import NOTHING, percent, size
from heaptape.common.tables import MIB, cut
from heaptape.decide.cpu import ESTIMATED, MILLISECONDS, Cpu, cpu_text, open_text, range_text
from heaptape.decide.verdict import BOTH, CPU, MEMORY, Candidate, CountsOf, Judge, Pick, decide
from heaptape.decide.worth import NO_REASON
from heaptape.results import replay_errors
from heaptape.results.comparing.compare import absolute, allocator_order, choose_baseline
from heaptape.results.fits import least_peaks, spread_notes
from heaptape.results.judged import disproof_of, unjudged
from heaptape.results.model import time_model
from heaptape.results.recorded_on import huge_pages_note, recorded_column, short_version
from heaptape.results.schema import Results, figures, unique_name
from heaptape.results.structs import Column, Workload

FEW_CALLS = 1000  # below this, an allocator's start-up is most of what is measured
MOST_NAMES, MOST_OF_A_NAME = 3, 24
FASTEST, AMONG_FASTEST, LEAST_MEMORY, BASELINE = "fastest", "fast", "lean", "baseline"  # marks, in every output


@dataclass(frozen=True)
class Row:
    """An allocator. `name`: as shown, with its version; `label`: as -a takes it. Changes are in percent of the
    baseline's, over several workloads the geometric mean; bytes and counts are None for several workloads. None: not
    measured. `worst`: for CPU time or peak memory (keys "cpu", "memory"), the workload with the largest increase, and
    the change there. `marks`: FASTEST, AMONG_FASTEST, LEAST_MEMORY, BASELINE.
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
    answer. `caveats`: what could change it, at most two. `mean_over_calls`: of memory, else over wall time. `next`:
    (what for, command), as in Screen.more.
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
    mean_over_calls: bool
    next: tuple[tuple[str, ...], ...]

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


def answer(files: Sequence[Results], baseline: str) -> Answer:
    """The answer of these results. `baseline`: one of their labels."""
    table = figures(files)
    values = absolute(table)
    names: dict[tuple, str] = {}
    workloads = {unique_name(file, names): file for file in files}
    one = next(iter(workloads.values())) if len(workloads) == 1 else None
    experiments = {label for file in files for label in file.experiment_labels}
    labels = [label for label in allocator_order(files) if label not in experiments or label == baseline]
    versions = _versions(files)
    made = [_row(label, baseline, values, list(workloads), versions) for label in labels]
    rows = [row for row in made if row is not None]
    by_mean = all(phrases.idles(file.workload.idle_percent) for file in files)
    cpu_of = {name: _cpu_ns(file) for name, file in workloads.items()}
    judge = Judge(_error_of(files), cpu_of, by_mean=by_mean)
    counts = time_model.counted(workloads, baseline)
    counts = {label: made for label, made in counts.items() if len(made) == len(workloads)}
    less = least_peaks(one) if one else {}
    means = {run.label: run.other_means for run in one.measured if run.other_means} if one else {}
    choices = [_candidate(row, counts, one is not None) for row in rows]
    choices = [replace(choice, least=less[choice.label][0]) if choice.label in less else choice for choice in choices]
    choices = [replace(choice, other_means=means.get(choice.label, {})) for choice in choices]
    rows = _with_cpu(rows, choices, baseline, judge)
    if left_out := _left_out_of_cpu(rows):
        rows = [_without_cpu(row) for row in rows]
        choices = [replace(choice, counts=None) for choice in choices]
    kept = [row.label for row in rows]
    disproofs = [f"{file.name}: {text}" if len(files) > 1 else text for file in files if (text := disproof_of(file))]
    judged = baseline in kept and len(rows) > 1 and not disproofs
    picks = decide(choices, baseline, BOTH, judge, kept) if judged else []
    rows = _marked(sorted(rows, key=_order), baseline, picks)
    use = {pick.aim: pick.label for pick in picks if not _is_open_in_ms(pick, rows)}
    cpu_ns = _cpu_ns(one) if one else None
    return Answer(
        " ".join([*disproofs, _about(one, workloads, cpu_ns)]),
        baseline,
        tuple(rows),
        len(workloads),
        cpu_ns,
        one is not None and _is_recorded_on(one, baseline),
        use,
        () if disproofs else tuple(_sentences(rows, baseline, [pick for pick in picks if pick.aim in use])),
        tuple([*left_out, *_caveats(files, rows, counts)][:2]),
        any(file.mean_over_calls for file in files),
        tuple(_next(files, one, baseline, rows)),
    )


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
    """label -> name as shown."""
    found = {}
    for file in files:
        for one in file.parsed.allocators or []:
            name, variant = one.name or "", one.variant or ""
            plain = variant in ("", "default")
            label = name if plain else f"{name}:{variant}"
            version = short_version(one.version)
            shown = f"{label} {version}" if plain and version and "@" not in name else label
            found[label] = shown
    return found


def _of_recording(file: Results) -> Column | None:
    """The first allocator that was linked into the program, or whose library has the file name of the recording's; it
    may be another version.
    """
    columns, about = file.parsed.allocators or [], file.workload
    if about.linked:
        return next((one for one in columns if one.name == about.linked), None)
    return next((one for one in columns if one.path and Path(one.path).name == about.allocator), None)


def _is_recorded_on(file: Results, baseline: str) -> bool:
    """True also where the recording's allocator is not among those compared."""
    recorded = recorded_column(file.workload, file.parsed.allocators)
    return recorded.name == baseline if recorded else _of_recording(file) is None


def _recorded_on(file: Results) -> str:
    """The allocator that the program was recorded on, with its version where that is known; empty: unknown."""
    about, column = file.workload, _of_recording(file)
    if column is None:
        return f"{about.linked or about.allocator or ''} {about.allocator_version or ''}".strip()
    known_here = column.build_id and column.build_id == about.allocator_build_id
    version = about.allocator_version or (short_version(column.version) if known_here else "")
    name = column.name or ""
    if not version and about.allocator_build_id and not known_here:
        name = f"another build of {about.linked or about.allocator}"
    return f"{name} {version}" if version and "@" not in name else name


def _recorded_elsewhere(file: Results) -> str:
    """Says that the recording's library is not among those compared, but another build of it is; else empty."""
    column = _of_recording(file)
    if column is None or recorded_column(file.workload, file.parsed.allocators):
        return ""
    here = f"{column.name} {short_version(column.version)}".strip()
    return f"{file.name}: {phrases.recorded_elsewhere(_recorded_on(file), here)}."


def _huge_pages(file: Results) -> str:
    """Where memory was replayed: `huge_pages_note`."""
    machine = file.parsed.machine
    replayed = any(run.pass_ == "memory" for run in file.measured)
    return (
        huge_pages_note(file.workload.transparent_huge_pages, machine.transparent_huge_pages)
        if machine and replayed
        else ""
    )


def _row(
    label: str,
    baseline: str,
    values: pd.DataFrame,
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
    return replace(Row(label, names.get(label, label), worst=worst), **keep)


def _candidate(row: Row, counts: Mapping[str, CountsOf], in_bytes: bool) -> Candidate:
    """`counts`: by label. Over several workloads, the memory is in percent of the baseline's."""
    if in_bytes:
        peak, mean = row.peak_bytes, row.mean_bytes
    else:
        peak, mean = (None if one is None else 100 + one for one in (row.peak_percent, row.mean_percent))
    return Candidate(row.label, peak, mean, counts.get(row.label), in_bytes=in_bytes)


def _with_cpu(
    rows: Sequence[Row],
    choices: Sequence[Candidate],
    baseline: str,
    judge: Judge,
) -> list[Row]:
    """The rows with their changes of CPU time, and with the workload in which that rises most."""
    base = next((choice for choice in choices if choice.label == baseline), None)
    out = []
    for row, choice in zip(rows, choices):
        cpu = judge.cpu(base, choice) if base and choice is not base else None
        worst = {}
        of_each = (base.counts if base else None) or {}
        if base and cpu and len(of_each) > 1:
            alone = {name: judge.cpu(replace(base, counts={name: made}), choice) for name, made in of_each.items()}
            known = {name: one.percent for name, one in alone.items() if one and not math.isnan(one.percent)}
            if len(known) == len(alone):
                worst["cpu"] = max(known.items(), key=lambda item: item[1])
        out.append(replace(row, cpu=cpu, worst={**row.worst, **worst}))
    return out


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


def _marked(rows: Sequence[Row], baseline: str, picks: Sequence[Pick]) -> list[Row]:
    """Rows with their marks: the fastest and the one with the least memory only where that is beyond the error, which
    decides the sentence, too.
    """
    marks: dict[str, list[str]] = {row.label: [] for row in rows}
    cpu = next((pick for pick in picks if pick.aim == CPU), None)
    if cpu and (cpu.label != baseline or _is_open_in_ms(cpu, rows)):
        best = cpu.label if cpu.label != baseline else str(cpu.best)
        for label in cpu.group if cpu.other_rivals else [best]:
            marks[label].append(AMONG_FASTEST if cpu.other_rivals else FASTEST)
    elif cpu and not any(row.cpu.gain > 0 for row in rows if row.cpu):
        marks[baseline].append(FASTEST)
    if baseline in marks:
        marks[baseline].append(BASELINE)
    memory = next((pick for pick in picks if pick.aim == MEMORY), None)
    if memory:
        sized = [row for row in rows if row.peak_percent is not None]
        least = min(sized, key=lambda row: (round(row.peak_percent or 0.0, 1), row.label != baseline))
        if memory.label != baseline or least.label == baseline:
            marks[least.label].append(LEAST_MEMORY)
    return [replace(row, marks=tuple(marks[row.label])) for row in rows]


def _is_open_in_ms(pick: Pick, rows: Sequence[Row]) -> bool:
    """Is the gain a reason to change only if the program, whose CPU time is not known, is short?"""
    return pick.open and any(row.label == pick.best and row.cpu and row.cpu.kind == MILLISECONDS for row in rows)


def _error_of(files: Sequence[Results]) -> Callable[[str, str, str], float]:
    """By how many percent a comparison of two labels' memory may be off."""
    replays = all(file.is_replay for file in files)

    def error(figure: str, a: str, b: str) -> float:
        known = replay_errors.errors_of([figure], [a, b]) if replays and a != b else {}
        return known.get(figure, 0.0)

    return error


def _fastest(timed: Sequence[Row]) -> Row:
    return max(timed, key=lambda row: row.cpu.gain if row.cpu else 0.0)


def _sentences(rows: Sequence[Row], baseline: str, picks: Sequence[Pick]) -> list[str]:
    if len(rows) < 2:
        return (
            [f"Only {rows[0].label} was measured: nothing to compare it with."] if rows else ["Nothing was measured."]
        )
    by_label, by_aim = {row.label: row for row in rows}, {pick.aim: pick for pick in picks}
    cpu, memory = by_aim.get(CPU), by_aim.get(MEMORY)
    if not picks:
        return _more(rows, baseline)
    if cpu and memory and cpu.label == memory.label != baseline and not cpu.other_rivals:
        row = by_label[cpu.label]
        return [f"Use {cpu.label}: CPU time {cpu_text(row.cpu) if row.cpu else ''}, {_memory_gain(row, memory)}."]
    more = [] if cpu else _more(rows, baseline)
    if all(pick.label == baseline for pick in picks):
        judged = NO_REASON.capitalize() if cpu else f"For memory {NO_REASON}"
        return [f"{judged}: {'; '.join(pick.why for pick in (cpu, memory) if pick)}.", *more]
    parts = []
    if cpu:
        parts.append(
            f"For CPU time {_for_cpu(cpu, by_label, baseline)}."
            if cpu.label != baseline
            else f"For CPU time {NO_REASON}: {cpu.why}."
        )
    if memory:
        parts.append(
            f"For memory {memory.label} ({_memory_gain(by_label[memory.label], memory, '')})."
            if memory.label != baseline
            else f"For memory {NO_REASON}: {memory.why}."
        )
    return [" ".join(parts), *more]


def _for_cpu(pick: Pick, rows: Mapping[str, Row], baseline: str) -> str:
    """The fastest and what it costs; where several may be it, all of them, and what decides."""
    changes = [cpu for label in pick.families if (cpu := rows[label].cpu)]
    if not pick.other_rivals:
        return f"{pick.label} ({cpu_text(changes[0])}){_price(rows[pick.label], rows[baseline])}"
    span = range_text(min(cpu.low for cpu in changes), max(cpu.high for cpu in changes))
    return (
        f"{phrases.any_of([cut(one, MOST_OF_A_NAME) for one in pick.families], MOST_NAMES)} ({span}): live runs decide"
    )


def _more(rows: Sequence[Row], baseline: str) -> list[str]:
    """What is known of CPU time where the change can't be judged: of an estimate in ms when it would be a reason, else
    what the counts of calls say.
    """
    open_ones = [row for row in rows if row.cpu and row.cpu.reason_below_ns]
    if open_ones:
        row = _fastest(open_ones)
        price = _price(row, next(one for one in rows if one.label == baseline))
        assert row.cpu
        return [f"For CPU time {row.label} ({cpu_text(row.cpu)}){price}, {open_text(row.cpu)}."]
    counted = [row for row in rows if row.instructions_percent is not None]
    if len(counted) < 2:
        return []
    best = min(counted, key=lambda row: row.instructions_percent or 0.0)
    if best.label == baseline:
        return [f"{baseline} needs the fewest instructions in malloc and free."]
    return [
        f"{best.label} needs the fewest instructions in malloc and free ({percent(best.instructions_percent or 0)})."
    ]


def _memory_gain(row: Row, pick: Pick, peak: str = "peak memory ") -> str:
    """The change that is the reason for it."""
    if pick.of_mean:
        return f"mean memory {percent(row.mean_percent or 0.0)}"
    return f"{peak}{percent(row.peak_percent or 0.0)}"


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


def _about(one: Results | None, workloads: Mapping[str, Results], cpu_ns: float | None) -> str:
    if one is None:
        every = [file.workload for file in workloads.values()]
        calls = sum(one.ops or 0 for one in every)
        recorded = sum((one.witness or {}).get("events") or one.ops or 0 for one in every)
        shown = ", ".join(list(workloads)[:4]) + (", …" if len(workloads) > 4 else "")
        made = phrases.calls_of(calls, {"events": recorded})
        return f"{len(workloads)} workloads ({shown}), {made}. Changes are geometric means."
    about = one.workload
    more = [f"peak live {size(about.ideal_rss_bytes)}"] if about.ideal_rss_bytes else []
    text = phrases.about_workload(one.name, about.ops, about.threads, more, about.witness)
    library = _recorded_on(one)
    recorded = f" Recorded on {library}" if library else " Recorded" * bool(cpu_ns)
    if recorded:
        text += recorded + (f": {phrases.seconds(cpu_ns)} CPU." if cpu_ns else ".")
    return " ".join(filter(None, [text, phrases.idle(about.idle_percent), control_calls(about), untold(about)]))


def untold(workload: Workload) -> str:
    """A sentence where a killed program left large objects of which it is not known what was touched; else empty."""
    found = (workload.witness or {}).get("untold_bytes_at_end")
    if not found:
        return ""
    return (
        f"It was killed: of {phrases.size(found)} in large objects that lived then it is not known what was touched: "
        "a replay guesses."
    )


def control_calls(workload: Workload) -> str:
    """A sentence about the calls by which the program sets its allocator up; empty: there are none."""
    controls = (workload.witness or {}).get("controls")
    if not controls:
        return ""
    return f"The program {controls['text']}: replayed on {controls['of']} alone."


def _caveats(files: Sequence[Results], rows: Sequence[Row], counts: Mapping[str, CountsOf]) -> list[str]:
    found = [
        f"{file.name}: {text}" if len(files) > 1 else text
        for file in files
        for text in [unjudged(file), bypassed(file.workload, _replayed_peak(file))]
        if text
    ]
    found += list(dict.fromkeys(text for file in files for text in [_recorded_elsewhere(file)] if text))
    found += list(dict.fromkeys(text for file in files for text in [_huge_pages(file)] if text))
    few = [file.name for file in files if 0 < (file.workload.ops or FEW_CALLS) < FEW_CALLS]
    found += [f"{', '.join(few)}: so few calls that start-up decides their instructions and time."] * bool(few)
    found += [note for file in files for note in spread_notes(file, f", {file.name}" * (len(files) > 1))]
    failed = list(dict.fromkeys(run.label for file in files for run in file.failures))
    found += [f"Failed, and so left out: {', '.join(failed)}."] * bool(failed)
    if any(one.of_bursts for made in counts.values() for repeats in made.values() for one in repeats):
        found.append("CPU time is that of the recorded bursts, not of the whole program.")
    kinds = {row.cpu.kind for row in rows if row.cpu}
    if kinds & {ESTIMATED, MILLISECONDS}:
        cpu = next(row.cpu for row in rows if row.cpu)
        moved = cpu.low - cpu.percent, cpu.high - cpu.percent
        found.append(phrases.without_cache_effects(*moved, "heaptape record --accesses", cpu.timed))
    elif not kinds and any(time_model.has_counts(file) and time_model.penalties_of(file) is None for file in files):
        found.append(
            "CPU time is left out, as the costs of the machine that replayed are not known (heaptape machine)."
        )
    elif not kinds and counts and len(rows) > 1:
        found.append("CPU time is left out: it is not known" + " for each of the workloads" * (len(files) > 1) + ".")
    return found


def _replayed_peak(file: Results) -> float | None:
    """Bytes, on the allocator that the program was recorded on; None: it was not replayed."""
    column = recorded_column(file.workload, file.parsed.allocators)
    label = file.workload.recorded_on or (column.name if column else None)
    peaks = [run.rss_anon_peak_bytes for run in file.measured if run.label == label and run.pass_ == "memory"]
    return max((peak for peak in peaks if peak), default=None)


def bypassed(workload: Workload, replayed: float | None) -> str:
    """A sentence where malloc's memory is less than half of the program's: the peak `replayed` in bytes on the
    allocator that the program was recorded on, so with what that retains, against the recorded peak of RssAnon. Empty
    where that is not so, or not known (None).
    """
    peak = max((row[1] for row in workload.recorded or []), default=0)
    if not peak or replayed is None or untold(workload) or peak - replayed < 4 * MIB or replayed >= peak / 2:
        return ""
    hint = ""
    if (workload.program or "").startswith("python"):
        hint = " For CPython record with PYTHONMALLOC=malloc."
    return (
        f"malloc's memory, replayed, is only {100 * replayed / peak:.0f} % of the program's peak memory: the rest "
        f"bypasses it.{hint}"
    )


def _next(files: Sequence[Results], one: Results | None, baseline: str, rows: Sequence[Row]) -> list[tuple[str, ...]]:
    paths = " ".join(dict.fromkeys(shlex.quote(file.path) for file in files if file.path and file.path != "-"))
    if not paths:
        return []
    paths += f" --baseline {shlex.quote(baseline)}" * (baseline != choose_baseline(files, None))
    tables = ("calls", "memory", "latency", "all") if one else ("workloads", "all")
    found = [
        ("more", *phrases.choice(f"heaptape compare {paths} --table", tables)),
        ("report", f"heaptape report {paths}"),
    ]
    program = one.workload.program if one else None
    if program and any(row.cpu for row in rows):
        found.append(("live", f"heaptape advise --live -- {shlex.quote(program)} …"))
    return found
