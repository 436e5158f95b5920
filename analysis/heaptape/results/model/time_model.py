# SPDX-License-Identifier: MIT
"""The predicted change of a program's CPU time under another allocator.

CPU time = instructions x time of one + misses x penalty, level by level + TLB misses + page faults + system calls. The
change in percent of the baseline's is a ratio of two sums that are linear in the penalties. So its least and its
greatest value are at corners of the box of their ranges, and the interval's ends are exact.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from heaptape.common.errors import HeaptapeError
from heaptape.results.cells import signed
from heaptape.results.comparing import summary
from heaptape.results.comparing.compare import ARITHMETIC, GEOMETRIC, choose_baseline, relative
from heaptape.results.model.counts import (
    HUGE_PAGES,
    METRICS,
    OF_CALLS,
    OF_START_UP,
    PARTS,
    START_UP,
    TIMED,
    Counts,
    Timed,
    bursts_in_words,
    counts,
)
from heaptape.results.model.penalties import Penalties, kept, penalties
from heaptape.results.schema import Results, unique_name

ALL = "all"
# Error of a replay's counts, in percent of the program's time, beyond the penalties' ranges: from start-up and calls
# that a trace lacks. In four programs under five allocators the instructions' median error was 0.5 %.
COUNT_ERROR_PERCENT = 0.5
# The live change less the prediction without cache and TLB misses, in points for each percent of the program's CPU time
# in malloc and free, plus CACHE_EFFECTS_FLOOR: 95 % range (docs/methods/TIME_MODEL.md, "Without accesses").
CACHE_EFFECTS = (-0.54, 0.25)
CACHE_EFFECTS_FLOOR = 10.0
# What calls save in bare replays, whose caches are warm, times this is what they save in life, on average; and the live
# change less that, as CACHE_EFFECTS ("Bare passes" there).
IN_LIFE = 1.4
TIMED_EFFECTS, TIMED_FLOOR = (-0.48, 0.45), 5.0
# A program takes at least this, to be executed and linked, and at least what its calls cost.
LEAST_PROGRAM_NS = 1e6
COLUMNS = [
    "workload", "allocator", "part", "percent", "low", "high", "ns", "ns_low", "ns_high", "counted", "repetitions",
    "missing", "of_bursts", "calls_ns", "timed",
]  # fmt: skip


class Change(NamedTuple):
    """Of a count: the baseline's, this one's, the change in percent (NaN: of nothing), and what it costs in ns."""

    before: float
    after: float
    percent: float
    ns: float


def penalties_of(file: Results) -> Penalties | None:
    """The penalties in the results; else those kept on this machine, if the results were made on the same processor
    model. None: neither. Raises HeaptapeError if they lack a figure.
    """
    measured = file.parsed.penalties
    if measured is None:
        measured = kept(file.parsed.machine.cpu if file.parsed.machine else None)
        return penalties(measured) if measured else None
    try:
        return penalties(measured) if measured else None
    except HeaptapeError as error:
        raise HeaptapeError(f"{file.path}: penalties: {error}") from None


def prediction(files: Sequence[Results], baseline: str, known: Penalties | None = None) -> pd.DataFrame:
    """The change of the program's CPU time against the baseline, whole and in parts.

    One row per (workload, allocator, part); part is "all" or one of counts.PARTS. Columns: workload, allocator, part,
    percent, low, high (of the baseline's CPU time; NaN where the program's own instructions were not counted), ns,
    ns_low, ns_high (change in ns), counted ({name: Change}, in rows of "all"), repetitions (of simulated misses; 0: it
    was not made), missing (what was not counted), of_bursts (percentages are of the CPU time of the recorded bursts,
    not of the whole program), calls_ns (without misses: what the baseline's calls took in bare passes where `timed`,
    else what their instructions cost; else NaN), timed (the change in ns is that of bare passes and of the start-up).
    Workloads without counts, without the baseline or without penalties are left out. So are
    workloads that stand for another (their counts are of a part of the program, with no known error), and allocators
    whose counts are of bursts if the baseline's are not.
    """
    names: dict[tuple, str] = {}
    named = {unique_name(file, names): file for file in files}
    found = counted(named, baseline, known)
    rows = []
    for name, base in found.get(baseline, {}).items():
        others = [label for label, made in found.items() if name in made and label != baseline]
        percents = _percents(named[name], baseline) if others else {}
        for label in others:
            mine = changes(base, found[label][name])
            mine[0]["counted"] = {
                count: change._replace(percent=percents.get((label, METRICS.get(count, "")), change.percent))
                for count, change in mine[0]["counted"].items()
            }
            rows += [{"workload": name, "allocator": label} | row for row in mine]
    return pd.DataFrame(rows, columns=COLUMNS)


def counted(
    files: Mapping[str, Results], baseline: str, known: Penalties | None = None
) -> dict[str, dict[str, Sequence[Counts]]]:
    """label -> workload -> counts of its repetitions, for what can be compared with the baseline, itself included (see
    `prediction`). `files`: by workload.
    """
    found: dict[str, dict[str, Sequence[Counts]]] = {}
    for name, file in files.items():
        here = known or penalties_of(file)
        made = counts(file, here) if here else {}
        base = made.get(baseline, [])
        for label, one in made.items():
            if base and (label == baseline or _comparable(base, one)):
                found.setdefault(label, {})[name] = one
    return found


def _percents(file: Results, baseline: str) -> dict[tuple[str, str], float]:
    """(allocator, metric) -> change in percent of counts that tables show, too: from `compare.relative`, as there."""
    table = file.figures()
    shown = relative(table[table["metric"].isin(METRICS.values())], baseline)
    own = shown[~shown["workload"].isin([GEOMETRIC, ARITHMETIC])]
    return {(row.allocator, row.metric): row.percent - 100 for row in own.itertuples()}


def _comparable(base: Sequence[Counts], other: Sequence[Counts]) -> bool:
    return len({one.of_bursts for one in (*base, *other)}) == 1


def changes(base: Sequence[Counts], other: Sequence[Counts]) -> list[dict]:
    """Rows of `prediction` for one allocator, without names. Repetitions are taken in pairs, and each pair's interval
    is part of the whole one.
    """
    pairs = list(zip(base, other))
    whole = all(one.whole and two.whole for one, two in pairs)
    single = [_of_pair(one, two, whole) for one, two in pairs]
    missing = list(dict.fromkeys(name for pair in pairs for one in pair for name in [*one.missing, *_unshared(*pair)]))
    rows = []
    for part in (ALL, *[part for part in PARTS if part in single[0]]):
        row = {"part": part, "repetitions": len(pairs) if whole else 0, "missing": ", ".join(missing)}
        for key, low, high in (("percent", "low", "high"), ("ns", "ns_low", "ns_high")):
            row[key] = float(np.mean([pair[part][key] for pair in single]))
            row[low] = min(pair[part][low] for pair in single)
            row[high] = max(pair[part][high] for pair in single)
        row["of_bursts"] = base[0].of_bursts
        row["timed"], row["calls_ns"] = False, _cost_of_calls(base[0])
        row["counted"] = _counted(pairs) if part == ALL else {}
        rows.append(row)
    if not whole and base[0].timed and other[0].timed:
        _by_bare_passes(rows, base[0].timed, other[0].timed)
    return rows


def _by_bare_passes(rows: Sequence[dict], before: Timed, after: Timed) -> None:
    """What was measured replaces what was counted, where its error is smaller than the range of that, and but for the
    start-up, which bare passes leave out.
    """
    start_up = next((row for row in rows if row["part"] == START_UP), {"ns": 0.0, "ns_low": 0.0, "ns_high": 0.0})
    error = math.hypot(before.error_ns, after.error_ns)
    if 2 * IN_LIFE * error > rows[0]["ns_high"] - rows[0]["ns_low"]:
        return
    for key, off in (("ns", 0.0), ("ns_low", -error), ("ns_high", error)):
        rows[0][key] = start_up[key] + IN_LIFE * (after.ns - before.ns + off)
    rows[0] |= {"timed": True, "calls_ns": before.calls_ns}
    percent = 100 * (after.calls_ns / before.calls_ns - 1) if before.calls_ns else math.nan
    rows[0]["counted"] = {TIMED: Change(before.calls_ns, after.calls_ns, percent, rows[0]["ns"]), **rows[0]["counted"]}


def calls_ns(counted: Counts) -> float:
    """What the calls took in bare passes; else what the instructions in malloc and free cost; NaN if the program's
    accesses were counted, or these were not.
    """
    return counted.timed.calls_ns if counted.timed else _cost_of_calls(counted)


def _cost_of_calls(counted: Counts) -> float:
    return math.prod(counted.named.get(OF_CALLS, (math.nan,)))


def cache_effects(calls: float, cpu_ns: float, timed: bool = False) -> tuple[float, float]:
    """By how many points cache effects move an estimate: 95 % range. `calls`: `calls_ns` of the baseline; `timed`: the
    estimate is by bare passes.
    """
    share = 0.0 if math.isnan(calls) else min(100 * calls / cpu_ns, 100.0)
    (low, high), floor = effects_of(timed)
    return low * (share + floor), high * (share + floor)


def effects_of(timed: bool) -> tuple[tuple[float, float], float]:
    """Points for each percent of CPU time in malloc and free and the floor, and the floor."""
    return (TIMED_EFFECTS, TIMED_FLOOR) if timed else (CACHE_EFFECTS, CACHE_EFFECTS_FLOOR)


def estimate(row: Mapping, cpu_ns: float | None) -> tuple[float, float, float]:
    """percent, low, high of a row of `prediction` without misses, of a program that took `cpu_ns` on the baseline: the
    range includes what cache effects did to other programs. NaN if the time is not known.
    """
    if not cpu_ns:
        return math.nan, math.nan, math.nan
    percent, low, high = (100 * row[key] / cpu_ns for key in ("ns", "ns_low", "ns_high"))
    down, up = cache_effects(row["calls_ns"], cpu_ns, row["timed"])
    return percent, min(low, percent + down), max(high, percent + up)


def _unshared(one: Counts, two: Counts) -> list[str]:
    """Parts of which only one of the two has some term."""
    names = [{(term.name, term.part) for term in counted.terms} for counted in (one, two)]
    return [part for part in PARTS if any(part == term_part for _, term_part in names[0] ^ names[1])]


def _counted(pairs: Sequence[tuple[Counts, Counts]]) -> dict[str, Change]:
    """The changes of what both counted, means over the repetitions."""
    names = [name for name in pairs[0][0].named if all(name in one.named for pair in pairs for one in pair)]
    found = {}
    for name in names:
        before = float(np.mean([one.named[name][0] for one, _ in pairs]))
        after = float(np.mean([two.named[name][0] for _, two in pairs]))
        percent = 100 * (after - before) / before if before > 0 else math.nan
        found[name] = Change(before, after, percent, (after - before) * pairs[0][0].named[name][1])
    return found


def _of_pair(base: Counts, other: Counts, whole: bool) -> dict[str, dict[str, float]]:
    """part -> percent, low, high, ns, ns_low, ns_high."""
    before, after = ({term.name: term for term in one.terms} for one in (base, other))
    # A term that only one of them has is not a change.
    terms = [before[name] for name in before if name in after]
    if not terms:
        raise HeaptapeError("the passes of these allocators counted nothing in common")
    n_before = np.array([term.count for term in terms])
    delta = np.array([after[term.name].count for term in terms]) - n_before
    box = np.array([(term.penalty.low, term.penalty.middle, term.penalty.high) for term in terms])
    ties = np.unique([term.tied or term.name for term in terms], return_inverse=True)[1]
    out = {}
    for part in (ALL, *PARTS):
        mask = np.array([part in (ALL, term.part) for term in terms])
        if not mask.any():
            continue
        mine = np.where(mask, delta, 0.0)
        low, high = ratio_bounds(mine, n_before, box, ties) if whole else (float("nan"), float("nan"))
        middle = 100 * float(mine @ box[:, 1] / (n_before @ box[:, 1])) if whole else float("nan")
        error = COUNT_ERROR_PERCENT if part == ALL else 0.0
        tied = np.array([np.bincount(ties, mine * each) for each in box.T])
        least, most = float(tied.min(axis=0).sum()), float(tied.max(axis=0).sum())
        out[part] = {"percent": middle, "low": low - error, "high": high + error}
        out[part] |= {"ns": float(mine @ box[:, 1]), "ns_low": least, "ns_high": most}
    return out


def ratio_bounds(
    delta: np.ndarray, base: np.ndarray, box: np.ndarray, ties: np.ndarray | None = None
) -> tuple[float, float]:
    """Least and greatest of 100 x (delta . t) / (base . t), where each t[i] is between box[i, 0] and box[i, 2].

    `delta`, `base`: one count per term; base . t has to be positive for each t. `ties`: a number for each term; all
    terms of one number are at the same end of their ranges, or all terms in the middle. Default: none are tied.
    """
    groups = np.arange(len(delta)) if ties is None else ties
    return -_greatest_ratio(-delta, base, box, groups), _greatest_ratio(delta, base, box, groups)


def _greatest_ratio(delta: np.ndarray, base: np.ndarray, box: np.ndarray, ties: np.ndarray) -> float:
    """Dinkelbach's method: the corner that is best against the ratio reached so far, until none is better. Exact, in a
    few steps, where trying all corners takes 2 to the power of the terms.
    """
    ratio = float(delta @ box[:, 1] / (base @ box[:, 1]))
    for _ in range(100):
        rise = np.bincount(ties, (delta - ratio * base) * (box[:, 2] - box[:, 0]))
        corner = np.where(rise[ties] > 0, box[:, 2], box[:, 0])
        better = float(delta @ corner / (base @ corner))
        if better <= ratio:
            break
        ratio = better
    return 100 * ratio


def has_counts(file: Results) -> bool:
    """Did any run count what the model adds up?"""
    return any(run.misses or run.instructions_total for run in file.measured)


REASONS = 3
LEAST_PERCENT = 0.05  # a change of a count that rounds to less is not named


def time_sentences(files: Sequence[Results], baseline: str) -> list[str]:
    """One sentence for each other allocator on how it would change the program's CPU time, with the workload's name if
    there are several; and if that can't be predicted although there are counts, the reason.
    """
    return sentences(prediction(files, baseline), files, baseline)


def sentences(predicted: pd.DataFrame, files: Sequence[Results], baseline: str) -> list[str]:
    """`time_sentences` for `files`. `predicted`: `time_model.prediction` of them."""
    whole = predicted[predicted["part"] == ALL]
    several = len(files) > 1
    out = [(f"{row['workload']}: " if several else "") + sentence(row, baseline) for row in whole.to_dict("records")]
    out += _of_bursts(files, several)
    missing = sorted({name for names in whole["missing"] for name in names.split(", ") if name})
    if missing:
        out.append(f"Not counted, and so not in these predictions: {', '.join(missing)}.{_how(missing)}")
    if any(has_counts(file) and penalties_of(file) is None for file in files):
        out.append(
            "The change of the program's CPU time is not predicted, as what a miss costs on that machine is not known: "
            "run `heaptape machine` there."
        )
    return out


def _of_bursts(files: Sequence[Results], several: bool) -> list[str]:
    """The part of the program whose misses were counted, if that is not all of it."""
    return [
        f"{f'{name}: ' if several else ''}Data accesses were recorded in {bursts}: misses "
        "and predicted CPU time are of these alone, and nothing is predicted for the rest of the program."
        for name, bursts in bursts_in_words(files).items()
    ]


def in_words(files: Results | Sequence[Results], baseline: str | None = None) -> list[str]:
    """The results as sentences: the predictions of the program's time, then `comparing.summary.in_words`. Raises what
    that raises.
    """
    listed = [files] if isinstance(files, Results) else list(files)
    return time_sentences(listed, choose_baseline(listed, baseline)) + summary.in_words(listed, baseline)


def sentence(row: dict, baseline: str) -> str:
    """One row of part "all" of `time_model.prediction`."""
    name = row["allocator"]
    because = ": " + ", ".join(reasons(row)) if reasons(row) else ""
    if math.isnan(row["percent"]):
        return f"{name} against {baseline}, estimated from counts: {_milliseconds(row)}{because}."
    low, high = row["low"], row["high"]
    if low <= 0 <= high:
        span = f"{signed(low, _rounded)} to {signed(high, _rounded)} % of {_whose(row)} CPU time"
        return f"{name} against {baseline}: no difference can be predicted, {span}{because}."
    direction = "slower" if low > 0 else "faster"
    what = "the recorded bursts of this program" if row["of_bursts"] else "this program"
    span = _span(row["percent"], low, high, "%")
    return f"{name} would make {what} {span} {direction} than {baseline}{because}."


def _whose(row: dict) -> str:
    return "the recorded bursts'" if row["of_bursts"] else "the program's"


def _milliseconds(row: dict) -> str:
    low, high = row["ns_low"] / 1e6, row["ns_high"] / 1e6
    if low <= 0 <= high:
        span = f"{signed(low, _rounded)} to {signed(high, _rounded)} ms"
        return f"no difference can be predicted, {span} of {_of_what(row)}CPU time"
    span = _span(row["ns"] / 1e6, low, high, "ms")
    return f"{span} {'more' if low > 0 else 'less'} {_of_what(row)}CPU time"


def _of_what(row: dict) -> str:
    return "the recorded bursts' " if row["of_bursts"] else ""


def reasons(row: Mapping) -> list[str]:
    """The counts that change: time first, where it was measured, then instructions, then for each part the count whose
    change costs most, the most expensive part first.
    """
    found: dict[str, tuple[int, float, str]] = {}
    first = (TIMED, "instructions")
    for name, change in row["counted"].items():
        part, cost = _part_of(name), -abs(change.ns)
        of_note = abs(change.percent) >= LEAST_PERCENT or name == HUGE_PAGES and change.after != change.before
        if of_note and (part not in found or found[part][1] > cost):
            found[part] = (first.index(part) if part in first else len(first), cost, _more_or_fewer(change, name))
    return [text for _, _, text in sorted(found.values())][:REASONS]


def _part_of(name: str) -> str:
    if name.endswith(OF_START_UP):
        return START_UP
    if name.startswith("instructions"):
        return "instructions"
    if "TLB" in name:
        return "TLB"
    return "caches" if "misses" in name else name


def _more_or_fewer(change: Change, name: str) -> str:
    """In percent; huge pages by number, as most allocators have none."""
    more = change.after - change.before
    how_many = f"{abs(more):,.0f}" if name == HUGE_PAGES else f"{_rounded(abs(change.percent))} %"
    return f"{how_many} {'more' if more > 0 else 'less' if name == TIMED else 'fewer'} {name}"


def _span(value: float, one: float, other: float, unit: str) -> str:
    """The value and two ends of one sign, without it: "6.1 ms (4.0 to 9.5)"."""
    low, high = sorted((abs(one), abs(other)))
    return f"{_rounded(abs(value))} {unit} ({_rounded(low)} to {_rounded(high)})"


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= 9.5 else f"{value:.1f}"


def _how(missing: Sequence[str]) -> str:
    if "cache and TLB misses" in missing:
        return " A trace of `heaptape record --accesses` and `heaptape replay --passes misses` have them."
    return ""
