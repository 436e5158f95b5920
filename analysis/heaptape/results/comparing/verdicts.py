# SPDX-License-Identifier: MIT
"""Verdicts: what the repetitions support about two allocators, in words, and nothing more.

A difference is claimed only if it survives Holm's adjustment for all the comparisons made at once (Holm, A simple
sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6:65, 1979), and, where the error of
replaying is known, if the whole interval is beyond that. Figures that are the same in every repetition (memory in the
recorded order) are compared directly: they have no interval, and are not counted as comparisons, as chance has no part
in them.

Effect sizes: how large a difference is beside the noise of single repetitions, and how often it would be seen.

An interval shows how well a mean is known, and narrows with every repetition; an effect size doesn't.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy

from heaptape.results.cells import typeset
from heaptape.results.comparing.compare import GEOMETRIC, allocator_order, choose_baseline
from heaptape.results.comparing.intervals import (
    LEVEL,
    LogRatio,
    Method,
    is_exact,
    log_ratio,
    mean_of,
    steadied,
    too_noisy,
)
from heaptape.results.schema import Results
from heaptape.results.schema import figures as figures_of


def hedges_g(differences: np.ndarray) -> float:
    """Mean of paired differences in their standard deviations (Cohen's d_z), corrected for its bias in small samples.

    d_z: Lakens, Calculating and reporting effect sizes, Frontiers in Psychology 4:863 (2013); the correction, exact:
    Hedges, Distribution theory for Glass's estimator of effect size, Journal of Educational Statistics 6:107 (1981).
    `differences`: one per pair, of any unit. NaN where there are fewer than two or all are 0; infinite where all are
    the same.
    """
    values = np.asarray(differences, float)
    if len(values) < 2 or not values.any():
        return float("nan")
    spread = values.std(ddof=1)
    if spread <= 1e-12 * abs(values.mean()):
        return float(np.copysign(np.inf, values.mean()))
    return float(correction(len(values) - 1) * values.mean() / spread)


def hedges_g_unpaired(one: np.ndarray, two: np.ndarray) -> float:
    """Difference of the means (two - one) in pooled standard deviations, corrected for its bias (Hedges 1981)."""
    a, b = np.asarray(one, float), np.asarray(two, float)
    freedom = len(a) + len(b) - 2
    if min(len(a), len(b)) < 2:
        return float("nan")
    spread = np.sqrt(((len(a) - 1) * a.var(ddof=1) + (len(b) - 1) * b.var(ddof=1)) / freedom)
    difference = b.mean() - a.mean()
    if spread == 0:
        return float("nan") if difference == 0 else float(np.copysign(np.inf, difference))
    return float(correction(freedom) * difference / spread)


def correction(freedom: int) -> float:
    """Hedges' J: the factor that removes the bias of a standardised mean difference. `freedom`: degrees of freedom."""
    if freedom < 2:
        return float("nan")  # two values have no unbiased estimate
    log_ratio = scipy.special.gammaln(freedom / 2) - scipy.special.gammaln((freedom - 1) / 2)
    return float(np.exp(log_ratio) / np.sqrt(freedom / 2))


def cliffs_delta(one: np.ndarray, two: np.ndarray) -> float:
    """P(a value of `two` is larger than one of `one`) minus P(it is smaller), over all pairs: -1 to 1.

    Cliff, Dominance statistics: ordinal analyses to answer ordinal questions, Psychological Bulletin 114:494 (1993).
    NaN where either is empty.
    """
    a, b = np.asarray(one, float), np.asarray(two, float)
    if not len(a) or not len(b):
        return float("nan")
    return float(np.sign(b[:, None] - a[None, :]).mean())


COLUMNS = (
    "workload", "figure", "a", "b", "percent", "low", "high", "effect", "cliffs_delta", "repetitions", "exact",
    "p_value", "p_adjusted", "comparisons", "verdict", "reason", "sentence",
)  # fmt: skip
# Exactly counted figures first: they decide where repetitions are few.
DEFAULT_FIGURES = ("total_instructions", "page_faults", "peak_rss", "mean_rss", "total_cycles")
# (figure, a, b) -> percent
ErrorOf = Callable[[str, str, str], float]
ALIKE = 0.1  # percent: a smaller exact difference is in the table, but not claimed in words
WIDE = 10.0  # percent: of a wider half interval the ends are shown, as it isn't symmetric


@dataclass(frozen=True)
class Wording:
    """`name`, and "a VERB 5 % MORE|LESS WHAT than b"."""

    name: str
    verb: str
    what: str
    less: str = "less"


WORDINGS = {
    "total_instructions": Wording("instructions", "needs", "instructions in allocator calls", "fewer"),
    "string_instructions": Wording("string instructions", "executes", "string instructions", "fewer"),
    "string_bytes": Wording("bytes of string instructions", "moves", "bytes by string instructions", "fewer"),
    "startup_instructions": Wording("instructions at start-up", "needs", "instructions to start up", "fewer"),
    "total_cycles": Wording("cycles", "spends", "cycles in allocator calls", "fewer"),
    "peak_rss": Wording("peak memory", "uses", "peak memory"),
    "mean_rss": Wording("mean memory", "uses", "mean memory"),
    "vm_size": Wording("virtual memory", "maps", "virtual memory at its peak"),
    "bare_wall": Wording("time of the whole replay", "takes", "time for the whole replay"),
    "bare_cpu": Wording("CPU time of the whole replay", "takes", "CPU time for the whole replay"),
    "page_faults": Wording("page faults", "causes", "page faults", "fewer"),
    "held_rss": Wording("RSS when all is freed", "keeps", "RSS when all is freed"),
    "purged_rss": Wording("RSS after a purge", "keeps", "RSS after a purge"),
}


@dataclass(frozen=True)
class _Comparison:
    workload: str
    figure: str
    a: str
    b: str
    ratio: LogRatio
    exact: bool
    effect: float = math.nan
    delta: float = math.nan


def verdicts(
    results: Results | Sequence[Results],
    baseline: str | None = None,
    figures: Sequence[str] = DEFAULT_FIGURES,
    method: Method = "t",
    error_of: ErrorOf = lambda figure, a, b: 0.0,
) -> pd.DataFrame:
    """Every allocator `a` compared with the baseline `b`, per workload and figure.

    `figures`: metrics of `schema.figures`. `error_of`: by how many percent a replay may be off for reasons that
    repetitions don't show; a difference not beyond it is withheld.

    Columns: workload; figure; a, b (labels); percent: by how much a needs more than b (negative: less), low, high: its
    95 % interval (NaN if exact, or one repetition); effect: Hedges' g (`effects.hedges_g`) of the paired log ratios;
    NaN if exact;
    cliffs_delta: of the repetitions (1: every one of a's is larger); repetitions; exact; p_value and p_adjusted
    (Holm); comparisons: how many were adjusted for; verdict: "more", "less", "same" (exactly), "not shown", "single
    repetition", "too noisy" (not shown, and the interval spans a factor of two or more) or "within error"; reason:
    why percent should not be shown as a number (its interval spans a factor of two or more; the direction may still be
    claimed), else empty; sentence. If there are several workloads, rows of "geometric mean" come
    last: of these workloads, not of all possible ones. A figure that either allocator lacks, or that is 0, has no row.
    Raises HeaptapeError if the baseline is unknown.
    """
    files = [results] if isinstance(results, Results) else list(results)
    baseline = choose_baseline(files, baseline)
    pairs = [(label, baseline) for label in allocator_order(files) if label != baseline]
    found = list(_comparisons(figures_of(files), pairs, figures))
    uncertain = [c for c in found if not c.exact and not math.isnan(c.ratio.variance)]
    raw = [c.ratio.p_value(method) for c in uncertain]
    adjusted = {id(c): pair for c, pair in zip(uncertain, zip(raw, holm(raw)))}
    rows = [_row(c, *adjusted.get(id(c), (math.nan, math.nan)), len(uncertain), method, error_of) for c in found]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def holm(p_values: Sequence[float]) -> list[float]:
    """p values adjusted for their number, in the same order."""
    values = np.asarray(p_values, float)
    order = np.argsort(values, kind="stable")
    stepped = values[order] * np.arange(len(values), 0, -1)
    adjusted = np.empty(len(values))
    adjusted[order] = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return [float(p) for p in adjusted]


def paragraphs(frame: pd.DataFrame) -> list[str]:
    """`verdicts` as text: one sentence per workload and pair, then how the decisions were made."""
    out = []
    for (workload, a, b), rows in frame.groupby(["workload", "a", "b"], sort=False):
        about = (
            f"Geometric mean of the {frame['workload'].nunique() - 1} workloads" if workload == GEOMETRIC else workload
        )
        out.append(f"{about}: {_relation(rows, a, b)}.")
    if frame["exact"].any():
        out.append("Exact: the same in every repetition (instructions: within 0.01 %), so there is no interval.")
    if (frame["reason"] != "").any():
        out.append(
            "Too noisy: the interval spans a factor of two or more, so there is no figure. Repeat more often "
            "(replay -n, --until-ci) or on a quieter machine."
        )
    comparisons = int(frame["comparisons"].max()) if len(frame) else 0
    if comparisons > 1:
        out.append(
            f"{comparisons} comparisons were made at once: a difference is claimed only if it is significant after "
            "Holm's adjustment for their number. Each interval alone has 95 %."
        )
    return out


def _relation(rows: pd.DataFrame, a: str, b: str) -> str:
    """The differences that are claimed, then the other figures."""
    claims, others, alike = [], [], []
    for row in rows.to_dict("records"):
        words = wording(row["figure"])
        if row["exact"] and abs(row["percent"]) < ALIKE:
            alike.append(words.name)
        elif row["verdict"] in ("more", "less"):
            claims.append(_claim(row, words) + (" (exact)" if row["exact"] else ""))
        else:
            others.append(f"{words.name}: {_no_claim(row, f'{a} and {b}', math.nan)}")
    if alike:
        same = " and ".join([", ".join(alike[:-1]), alike[-1]]) if len(alike) > 1 else alike[0]
        others.insert(0, f"{same}: the same within {ALIKE:g} %")
    joined = " and ".join([", ".join(claims[:-1]), claims[-1]]) if len(claims) > 1 else "".join(claims)
    return "; ".join(([f"{a} {joined} than {b}"] if claims else []) + others)


def _comparisons(table: pd.DataFrame, pairs: list[tuple[str, str]], figures: Sequence[str]) -> Iterable[_Comparison]:
    wanted = table[table["metric"].isin(figures)]
    series = {
        key: steadied(group.set_index("round")["value"], key[1])
        for key, group in wanted.groupby(["workload", "metric", "allocator"], sort=False)
    }
    workloads = list(dict.fromkeys(wanted["workload"]))
    per_pair: dict[tuple[str, str, str], list[_Comparison]] = {}
    for workload, (a, b), figure in itertools.product(workloads, pairs, figures):
        base, other = series.get((workload, figure, b)), series.get((workload, figure, a))
        if base is None or other is None:
            continue
        ratio = log_ratio(base, other)
        if ratio is not None:
            exact = is_exact(base) and is_exact(other)
            effect = math.nan if exact else _effect(ratio)
            delta = cliffs_delta(base.to_numpy(), other.to_numpy())
            one = _Comparison(workload, figure, a, b, ratio, exact, effect, delta)
            per_pair.setdefault((figure, a, b), []).append(one)
            yield one
    if len(workloads) > 1:
        for (figure, a, b), found in per_pair.items():
            if len(found) > 1:
                mean = mean_of([c.ratio for c in found])
                yield _Comparison(GEOMETRIC, figure, a, b, mean, all(c.exact for c in found))


def _effect(ratio: LogRatio) -> float:
    if len(ratio.parts) == 1:
        return hedges_g(ratio.parts[0][1])
    return hedges_g_unpaired(ratio.parts[0][1], ratio.parts[1][1]) if ratio.parts else math.nan


def _row(c: _Comparison, p_value: float, p_adjusted: float, count: int, method: Method, error_of: ErrorOf) -> dict:
    least, most = (c.ratio.ratio, c.ratio.ratio) if c.exact else c.ratio.interval(method=method)
    low, high = 100 * least - 100, 100 * most - 100
    error = abs(error_of(c.figure, c.a, c.b))
    row = {"workload": c.workload, "figure": c.figure, "a": c.a, "b": c.b, "percent": 100 * math.expm1(c.ratio.mean)}
    row |= {"low": low, "high": high, "effect": c.effect, "cliffs_delta": c.delta, "repetitions": c.ratio.repetitions}
    row |= {"exact": c.exact, "p_value": p_value, "p_adjusted": p_adjusted, "comparisons": count}
    row["verdict"] = _verdict(row, error)
    row["reason"] = too_noisy(least, most, c.ratio.repetitions, c.ratio.apart)
    if row["reason"] and row["verdict"] in ("not shown", "within error"):
        row["verdict"] = "too noisy"
    if row["exact"]:
        row |= {"low": math.nan, "high": math.nan}
    return row | {"sentence": _sentence(row, error)}


def _verdict(row: dict, error: float) -> str:
    """`row`: with the ends of the interval; of an exact ratio, too."""
    if row["exact"] and row["percent"] == 0:
        return "same"
    if math.isnan(row["low"]):
        return "single repetition"
    if not (row["exact"] or row["p_adjusted"] <= 1 - LEVEL):
        return "not shown"
    nearest = min(abs(row["low"]), abs(row["high"])) if row["low"] * row["high"] > 0 else 0.0
    if nearest <= error:
        return "within error" if error > 0 else "not shown"
    return "more" if row["percent"] > 0 else "less"


def wording(figure: str) -> Wording:
    kind, _, call = figure.partition("/")
    if kind == "calls":
        return Wording(f"cycles per {call}", "spends", f"cycles per {call}", "fewer")
    if kind == "syscalls":
        return Wording(f"{call} calls", "makes", f"{call} calls", "fewer")
    if kind == "instructions":
        return Wording(f"instructions per {call}", "executes", f"instructions per {call}", "fewer")
    return WORDINGS.get(figure) or Wording(figure, "needs", figure.replace("_", " "))


def _sentence(row: dict, error: float) -> str:
    words, a, b = wording(row["figure"]), row["a"], row["b"]
    on = "" if row["workload"] != GEOMETRIC else " (geometric mean over the workloads)"
    if row["verdict"] in ("more", "less"):
        exactly = " (exact: the same in every repetition)" if row["exact"] else ""
        return f"{a} {_claim(row, words)} than {b}{on}{exactly}."
    name = words.name[0].upper() + words.name[1:]
    return f"{name}{on}: {_no_claim(row, f'{a} and {b}', error)}."


def _claim(row: dict, words: Wording) -> str:
    direction = "more" if row["verdict"] == "more" else words.less
    if row["reason"]:
        return f"{words.verb} {direction} {words.what} (too noisy to say how many)"
    return f"{words.verb} {_amount(row)} {direction} {words.what}"


def _amount(row: dict) -> str:
    """12.1 ± 0.8 %; 250 % (95 % interval 120 to 430 %) if it is wide; 12.1 % if it is exact."""
    percent = abs(row["percent"])
    if row["exact"]:
        return f"{_digits(percent)} %"
    half = (row["high"] - row["low"]) / 2
    ends = sorted(abs(row[key]) for key in ("low", "high"))
    if half > WIDE:
        return f"{_digits(percent)} % (95 % interval {_digits(ends[0])} to {_digits(ends[1])} %)"
    return f"{percent:,.{_decimals(half)}f} ± {half:,.{_decimals(half)}f} %"


def _decimals(half: float) -> int:
    """As many decimals as the half interval needs to have a digit that isn't 0; at least one.

    >>> _decimals(0.06), _decimals(0.03), _decimals(0.001)
    (1, 2, 3)
    """
    return 1 if half >= 0.05 else 2 if half >= 0.005 else 3


def _digits(percent: float) -> str:
    return f"{percent:,.0f}" if percent >= 100 else f"{percent:,.1f}" if percent >= 0.05 else f"{percent:,.2g}"


def _no_claim(row: dict, pair: str, error: float) -> str:
    count = row["repetitions"]
    alone = f"{typeset(row['percent'])} %, 95 % interval {typeset(row['low'])} to {typeset(row['high'])} %"
    match row["verdict"]:
        case "same":
            return f"{pair} are the same in every repetition"
        case "too noisy":
            what = row["reason"].partition(";")[0].removeprefix("too noisy: ")
            return f"too noisy to tell: {what}"
        case "single repetition":
            return f"only one repetition of {pair}, so there is no verdict"
        case "within error":
            least = "" if math.isnan(error) else f", {error:g} %"
            shown = f"{typeset(row['percent'])} %" if row["exact"] else alone
            return f"{pair} may differ by no more than the error of replaying{least} ({shown}), so there is no verdict"
    alone_enough = not math.isnan(row["p_value"]) and row["p_value"] <= 1 - LEVEL
    among = f" as one of {row['comparisons']} comparisons" if alone_enough and row["comparisons"] > 1 else ""
    return f"no difference shown with {count} repetitions{among} ({alone})"
