# SPDX-License-Identifier: MIT
"""A comparison in plain words: it claims only what the repetitions support, and names what they don't support."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from heaptape.common.engine import TIMED
from heaptape.common.phrases import counted, names_of_workloads
from heaptape.common.tables import MIB
from heaptape.results import disturbance
from heaptape.results.comparing.compare import GEOMETRIC, absolute, allocator_order, choose_baseline
from heaptape.results.comparing.verdicts import paragraphs, verdicts
from heaptape.results.schema import Results, call_details, figures
from heaptape.results.structs import Machine

NOISY = 0.05


def in_words(files: Results | Sequence[Results], baseline: str | None = None) -> list[str]:
    """The results as sentences, each with its workload's name if there are several. `baseline`: by default glibc, else
    the first. Raises HeaptapeError if it is unknown.

    >>> import heaptape
    >>> print(heaptape.in_words(heaptape.results("small.json"))[0].split()[0])
    jemalloc
    """
    files = [files] if isinstance(files, Results) else list(files)
    chosen = choose_baseline(files, baseline)
    words = verdicts_in_words(files, chosen)
    out = list(words.overall)
    for file in files:
        prefix = f"{file.name}: " if len(files) > 1 else ""
        out += [prefix + sentence for sentence in sentences(file, chosen, words)]
    return out + words.notes


@dataclass(frozen=True)
class VerdictTexts:
    """Verdicts in words: on the workloads together, on each by its name, and notes on how they were decided."""

    overall: list[str]
    workloads: dict[str, list[str]]
    notes: list[str]


def verdicts_in_words(files: Sequence[Results], baseline: str) -> VerdictTexts:
    """What the repetitions support, decided over all comparisons of all files at once (`verdicts`)."""
    frame = verdicts(files, baseline)
    texts = paragraphs(frame)
    workloads: dict[str, list[str]] = {}
    pairs = list(frame.groupby(["workload", "a", "b"], sort=False).groups)  # in the order of their paragraphs
    for (workload, _, _), text in zip(pairs, texts):
        workloads.setdefault(str(workload), []).append(_first_up(text.removeprefix(f"{workload}: ")))
    return VerdictTexts(workloads.pop(GEOMETRIC, []), workloads, texts[len(pairs) :])


def sentences(file: Results, baseline: str, made: VerdictTexts | None = None) -> list[str]:
    """Sentences about one workload, the most important first. `made`: the verdicts, if they were made together with
    those on other workloads. A workload that was not run under the baseline is compared with its first allocator.
    """
    table = figures([file])
    if table.empty:
        return ["No run gave a figure."]
    order = allocator_order([file])
    here = baseline if baseline in order else order[0]
    found = made.workloads.get(file.name, []) if made else []
    out = found or verdicts_in_words([file], here).workloads.get(file.name, [])
    out = out + _overhead(absolute(table).xs(absolute(table).index[0][0]))
    return out + _calls(file, here) + _failures(file) + _noise(table)


def _first_up(text: str) -> str:
    """The text with a capital first letter, unless it begins with the name of an allocator."""
    return text[:1].upper() + text[1:] if text.startswith(("cycles", "instructions", "page", "peak", "mean")) else text


def _list(names: Iterable[str]) -> str:
    names = list(names)
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _overhead(values: pd.DataFrame) -> list[str]:
    if not {"peak_rss", "ideal_rss"} <= set(values.columns):
        return []
    known = values.dropna(subset=["peak_rss", "ideal_rss"])
    if known.empty:
        return []
    least, most = known["peak_rss"].idxmin(), known["peak_rss"].idxmax()
    ideal = known.at[least, "ideal_rss"]
    if ideal <= 0 or least == most:
        return []
    low, high = (known.at[label, "peak_rss"] for label in (least, most))
    return [
        f"The program's own live bytes peak at {ideal / MIB:,.1f} MiB. RSS peaks between {low / MIB:,.1f} MiB "
        f"({least}, {low / ideal:.2f} times that) and {high / MIB:,.1f} MiB ({most}, {high / ideal:.2f} times)."
    ]


def _calls(file: Results, baseline: str) -> list[str]:
    details = call_details([file])
    base = details[(details["allocator"] == baseline) & (details["count"] > 0)].dropna(subset=["count", "mean"])
    if base.empty:
        return []
    cost = (base["count"] * base["mean"]).sort_values(ascending=False)
    if cost.sum() <= 0:
        return []
    top = base.loc[cost.index[0]]
    percent = 100 * cost.iloc[0] / cost.sum()
    return [f"Under {baseline}, {percent:.0f} % of the cycles in allocator calls are spent in {top['call']}."]


def _failures(file: Results) -> list[str]:
    failures = pd.Series([f"{run.allocator} ({run.pass_ or '?'} pass)" for run in file.failures], dtype=str)
    return [
        f"{counted(count, 'run')} of {name} failed and {'is' if count == 1 else 'are'} left out."
        for name, count in failures.value_counts().items()
    ]


def _spread(table: pd.DataFrame) -> pd.Series:
    """By allocator: the standard deviation of total cycles over the repetitions, as a share of their mean."""
    groups = table[table["metric"] == "total_cycles"].groupby("allocator")["value"]
    return (groups.std() / groups.mean()).dropna()


def _noise(table: pd.DataFrame) -> list[str]:
    spread = _spread(table)
    if spread.empty:
        return []
    text = (
        f"Total cycles vary by {100 * spread.median():.1f} % from repetition to repetition (standard deviation, median "
        "of the allocators)"
    )
    noisy = spread[spread > NOISY]
    return [f"{text}; {_list(noisy.index)} by more than {100 * NOISY:.0f} %: unstable." if len(noisy) else f"{text}."]


def engine_cost(file: Results) -> float | None:
    """The engine's own cycles per op, with the null allocator: median over the runs. None if no run has them."""
    known = pd.Series([run.engine_cycles_per_op for run in file.measured], dtype=float).dropna()
    return None if known.empty else float(known.median())


def spread_of_cycles(file: Results) -> float | None:
    """The median of the allocators' `_spread`. None if nothing was repeated."""
    spread = _spread(figures([file]))
    return None if spread.empty else float(spread.median())


def is_timed(file: Results) -> bool:
    """Did a pass read a clock? Other work on the machine disturbs no other figures."""
    return any(run.pass_ in TIMED for run in file.measured)


def warnings(files: Sequence[Results]) -> list[str]:
    """Why to doubt the results, the worst first: what the recordings lack, errors of allocators, then the machine. Each
    reason stands once, with the workloads that it is true of.
    """
    lacks: dict[str, list[str]] = {}
    errors: dict[str, list[str]] = {}
    governed: dict[str, list[str]] = {}
    busy: dict[str, tuple[float, int]] = {}
    for file in files:
        machine = (is_timed(file) and file.parsed.machine) or Machine()
        load, cores = machine.load_before, machine.cores
        if load and cores and load[0] > cores / 2:
            busy[file.name] = max(busy.get(file.name, (0.0, 1)), (load[0], cores), key=lambda one: one[0] / one[1])
        if machine.governor not in (None, "performance"):
            text = f"the processor's frequency was governed by '{machine.governor}'."
            governed.setdefault(text, []).append(file.name)
        for doubt in disturbance.doubts(file.workload.witness):
            lacks.setdefault(f"{doubt}.", []).append(file.name)
        if len(allocator_order([file])) == 1:
            errors.setdefault("one allocator only, so there is nothing to compare.", []).append(file.name)
        for run in file.measured:
            if run.stderr:
                first = run.stderr.strip().splitlines()[0][:200]
                errors.setdefault(f"{run.allocator} wrote to standard error: {first}", []).append(file.name)
    machines = {}
    if busy:
        highest, of = max(busy.values(), key=lambda one: one[0] / one[1])
        upto = "up to " if len(busy) > 1 else ""
        machines[f"the machine was busy before the replay (load {upto}{highest:.1f} on {of} cores)."] = list(busy)
    found = {**lacks, **errors, **machines, **governed}
    return [f"{names_of_workloads(names)}: {text}" for text, names in found.items()]
