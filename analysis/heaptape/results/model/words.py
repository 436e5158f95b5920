# SPDX-License-Identifier: MIT
"""The prediction in sentences."""

import math
from collections.abc import Sequence

import pandas as pd

from heaptape.passes.misses import bursts_in_words
from heaptape.results.comparing import summary
from heaptape.results.comparing.compare import choose_baseline
from heaptape.results.margins import stand_in
from heaptape.results.model.time_model import ALL, has_counts, penalties_of, prediction
from heaptape.results.schema import Results

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
    stand_ins = [file.name for file in files if has_counts(file) and stand_in(file.workload)]
    if stand_ins:
        out.append(f"The change of the program's CPU time is not predicted from a part of it: {', '.join(stand_ins)}.")
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


def change_in_words(row: dict) -> str:
    """One row of part "all" of `time_model.prediction`, without names: `14 to 48 ms less CPU time`."""
    if math.isnan(row["percent"]):
        return _milliseconds(row)
    low, high = row["low"], row["high"]
    if low <= 0 <= high:
        return f"{_signed(low)} to {_signed(high)} % of {_whose(row)} CPU time, no difference can be predicted"
    return f"{_span(low, high)} % {'more' if low > 0 else 'less'} {_of_what(row)}CPU time"


def sentence(row: dict, baseline: str) -> str:
    """One row of part "all" of `time_model.prediction`."""
    name = row["allocator"]
    because = ": " + ", ".join(reasons(row)) if reasons(row) else ""
    if math.isnan(row["percent"]):
        return f"{name} against {baseline}, by what was counted: {_milliseconds(row)}{because}."
    low, high = row["low"], row["high"]
    if low <= 0 <= high:
        span = f"{_signed(low)} to {_signed(high)} % of {_whose(row)} CPU time"
        return f"{name} against {baseline}: no difference can be predicted, {span}{because}."
    direction = "slower" if low > 0 else "faster"
    what = "the recorded bursts of this program" if row["of_bursts"] else "this program"
    return f"{name} would make {what} {_span(low, high)} % {direction} than {baseline}{because}."


def _whose(row: dict) -> str:
    return "the recorded bursts'" if row["of_bursts"] else "the program's"


def _milliseconds(row: dict) -> str:
    low, high = row["ns_low"] / 1e6, row["ns_high"] / 1e6
    if low <= 0 <= high:
        return f"no difference can be predicted, {_signed(low)} to {_signed(high)} ms of {_of_what(row)}CPU time"
    return f"{_span(low, high)} ms {'more' if low > 0 else 'less'} {_of_what(row)}CPU time"


def _of_what(row: dict) -> str:
    return "the recorded bursts' " if row["of_bursts"] else ""


def reasons(row: dict) -> list[str]:
    """The counts that change: instructions first, then for each part the count whose change costs most, the most
    expensive part first.
    """
    found: dict[str, tuple[bool, float, str]] = {}
    for name, (before, after, ns) in row["counted"].items():
        part = _part_of(name)
        percent = 100 * (after - before) / before if before > 0 else math.nan
        if abs(percent) >= LEAST_PERCENT and (part not in found or found[part][1] > -abs(ns)):
            found[part] = (part != "instructions", -abs(ns), _more_or_fewer(percent, name))
    return [text for _, _, text in sorted(found.values())][:REASONS]


def _part_of(name: str) -> str:
    if name.startswith("instructions"):
        return "instructions"
    if "TLB" in name:
        return "TLB"
    return "caches" if "misses" in name else name


def _more_or_fewer(percent: float, name: str) -> str:
    return f"{_rounded(abs(percent))} % {'more' if percent > 0 else 'fewer'} {name}"


def _span(one: float, other: float) -> str:
    """Two ends of one sign, without it: 6 ± 2, or 0.4 to 9 if half the interval is more than half of its middle."""
    low, high = sorted((abs(one), abs(other)))
    middle, half = (low + high) / 2, (high - low) / 2
    if half > middle / 2:
        return f"{_rounded(low)} to {_rounded(high)}"
    return f"{_rounded(middle)} ± {_rounded(half)}"


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= 9.5 else f"{value:.1f}"


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else '-' if value < 0 else ''}{_rounded(abs(value))}"


def _how(missing: Sequence[str]) -> str:
    if "cache and TLB misses" in missing:
        return " A trace of `heaptape record --accesses` and `heaptape replay --passes misses` have them."
    return ""
