"""A comparison in plain words: only what the repetitions support is said, and what they don't is said to be so."""

from collections.abc import Iterable, Sequence

import pandas as pd

from heaptape.compare import absolute, allocator_order, choose_baseline, relative
from heaptape.replay import doubts
from heaptape.results_file import Results, call_details, figures, number

MIB = 1 << 20
NOISY = 0.05


def in_words(files: Results | Sequence[Results], baseline: str | None = None) -> list[str]:
    """What the results say, as sentences, each with its workload's name where there are several. `baseline`: glibc if
    none is named, else the first. Raises HeaptapeError if it is unknown.

    >>> import heaptape
    >>> print(heaptape.in_words(heaptape.results("small.json"))[0][:46])
    Cycles spent in allocator calls, against glibc
    """
    files = [files] if isinstance(files, Results) else list(files)
    chosen = choose_baseline(files, baseline)
    out = []
    for file in files:
        order = allocator_order([file])
        here = chosen if chosen in order else order[0]
        prefix = f"{file.name}: " if len(files) > 1 else ""
        out += [prefix + sentence for sentence in sentences(file, here)]
    return out


def sentences(file: Results, baseline: str) -> list[str]:
    """Sentences about one workload, the most telling first."""
    table = figures([file])
    out: list[str] = []
    if table.empty:
        return ["No run gave a figure."]
    percents = relative(table, baseline)
    percents = percents[~percents["workload"].str.endswith(" mean")]
    values = absolute(table).xs(absolute(table).index[0][0])
    out += _difference(percents, "total_cycles", baseline, "Cycles spent in allocator calls")
    out += _difference(percents, "peak_rss", baseline, "Memory at the peak (RSS)")
    out += _overhead(values)
    out += _calls(file, baseline)
    out += _failures(file)
    out += _noise(table)
    return out


def _difference(percents: pd.DataFrame, metric: str, baseline: str, what: str) -> list[str]:
    rows = percents[percents["metric"] == metric].sort_values("percent")
    sure = rows[rows["supported"] == True]  # noqa: E712 (None is not False here)
    unsure = rows[rows["supported"] == False]  # noqa: E712
    once = rows[rows["supported"].isna()]
    phrases = [
        f"{r.allocator} {_change(r.percent)} (95 % interval {_change(r.low)} to {_change(r.high)})"
        for r in sure.itertuples()
    ]
    out = []
    if phrases:
        out.append(f"{what}, against {baseline}: {'; '.join(phrases)}.")
    if len(unsure):
        out.append(f"{what}: the repetitions do not tell {_list(unsure['allocator'])} from {baseline}.")
    if len(once):
        out.append(
            f"{what}: one repetition only of {_list(once['allocator'])}, so no interval, and nothing is claimed."
        )
    return out


def _change(percent: float) -> str:
    """As a change against the baseline, with a true minus sign."""
    return f"{percent - 100:+.1f} %".replace("-", "−")


def _list(names: Iterable[str]) -> str:
    """a, b and c."""
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
    return [f"Under {baseline}, {100 * cost.iloc[0] / cost.sum():.0f} % of those cycles are spent in {top['call']}."]


def _failures(file: Results) -> list[str]:
    failures = pd.Series([f"{run['allocator']} ({run.get('pass', '?')} pass)" for run in file.failures], dtype=str)
    return [
        f"{count} run{'s' * (count > 1)} of {name} failed and count for nothing."
        for name, count in failures.value_counts().items()
    ]


def _noise(table: pd.DataFrame) -> list[str]:
    groups = table[table["metric"] == "total_cycles"].groupby("allocator")["value"]
    spread = (groups.std() / groups.mean()).dropna()
    if spread.empty:
        return []
    text = (
        f"Total cycles vary by {100 * spread.median():.1f} % from repetition to repetition (standard deviation, median "
        "of the allocators)"
    )
    noisy = spread[spread > NOISY]
    return [f"{text}; {_list(noisy.index)} by more than {100 * NOISY:.0f} %: unstable." if len(noisy) else f"{text}."]


def engine_cost(file: Results) -> float | None:
    """The engine's own cycles per op, with the null allocator: median over the runs. None if no run says."""
    values = [number(run.get("engine_cycles_per_op")) for run in file.runs]
    known = pd.Series([v for v in values if v is not None], dtype=float)
    return None if known.empty else float(known.median())


def spread_of_cycles(file: Results) -> float | None:
    """Standard deviation of total cycles over the repetitions, as a share of their mean: the median of the allocators.
    None if nothing was repeated.
    """
    table = figures([file])
    groups = table[table["metric"] == "total_cycles"].groupby("allocator")["value"]
    spread = (groups.std() / groups.mean()).dropna()
    return None if spread.empty else float(spread.median())


def warnings(files: Sequence[Results]) -> list[str]:
    """Reasons to doubt the figures."""
    out = []
    for file in files:
        machine = file.data.get("machine") or {}
        load, cores = machine.get("load_before"), number(machine.get("cores"))
        if isinstance(load, list) and load and cores and number(load[0]) is not None and load[0] > cores / 2:
            out.append(
                f"{file.name}: the machine was busy before the replay (load {load[0]:.1f} on {cores:.0f} cores)."
            )
        if machine.get("governor") not in (None, "performance"):
            out.append(f"{file.name}: the processor's frequency was governed by '{machine['governor']}'.")
        out += [f"{file.name}: {doubt}." for doubt in doubts(file.workload)]
        if len(allocator_order([file])) == 1:
            out.append(f"{file.name}: one allocator only, so there is nothing to compare.")
        for run in file.runs:
            if run.get("stderr"):
                out.append(f"{file.name}: {run['allocator']} said: {str(run['stderr']).strip().splitlines()[0][:200]}")
    return list(dict.fromkeys(out))
