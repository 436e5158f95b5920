# SPDX-License-Identifier: MIT
"""Advice in at most LINES lines."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from heaptape.advise.choose import AIMS, BOTH, CPU, MEMORY, Judge, Pick, Row, between
from heaptape.common.tables import size
from heaptape.results.model.time_model import change_in_words, reasons
from heaptape.run.registry import Choice

LINES = 10
MOST_NAMES = 3
MOST_REASONS = 2
MOST_OF_A_REASON = 160
AIM = {MEMORY: "Memory", CPU: "CPU time"}


@dataclass(frozen=True)
class Advice:
    """All findings. `about`: the workload, in words. `today`: label of the allocator that the program runs on; `doubt`:
    why that is only assumed. `refused`: label -> why it is not advised. `sure`: a sentence on errors. `next_step`: what
    else can be done, or the result of live runs: a line or two.
    """

    about: str
    today: str
    rows: Sequence[Row]
    picks: Sequence[Pick]
    judge: Judge
    choices: Mapping[str, Choice]
    doubt: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)
    sure: str = ""
    next_step: Sequence[str] = ()

    def row(self, label: str) -> Row:
        return next(row for row in self.rows if row.label == label)


def lines(advice: Advice, c_library: str) -> list[str]:
    """At most LINES lines. `c_library`: path of the C library, to be preloaded for its allocator."""
    doubt = f" ({advice.doubt})" if advice.doubt else ""
    out = [f"{advice.about}; today: {advice.today}{doubt}."]
    shown: set[str] = set()
    for pick in advice.picks:
        out += _of_pick(advice, pick, shown, c_library)
        shown.add(pick.label)
    out += _between(advice)
    if advice.refused:
        out.append(f"Not advised: {_refused(advice.refused)}.")
    out += [advice.sure] if advice.sure else []
    return out + list(advice.next_step)


def environment(choice: Choice, today: str, c_library: str) -> dict[str, str]:
    """The variables to set: LD_PRELOAD and the allocator's own."""
    library = choice.preload or (c_library if today.partition(":")[0] != choice.allocator else "")
    return ({"LD_PRELOAD": library} if library else {}) | choice.environment


def _of_pick(advice: Advice, pick: Pick, shown: set[str], c_library: str) -> list[str]:
    """One line where today's stays or an earlier aim's lines say it already, else its benefit and how to set it."""
    aim = AIM[pick.aim]
    if pick.label == advice.today:
        return [f"{aim}: stay with {advice.today}: {pick.why}."]
    ties = f" As good, within the error: {_names(pick.ties)}." if pick.ties else ""
    if pick.label in shown:
        return [f"{aim}: {pick.label} as well.{ties}"]
    parts = {MEMORY: _memory(advice, pick.label), CPU: _cpu(advice, pick.label)}
    order = sorted(parts, key=lambda one: one != pick.aim)
    what = "; ".join(parts[one] for one in order if parts[one])
    settings = environment(advice.choices[pick.label], advice.today, c_library)
    line = " ".join(f"{name}={shlex.quote(value)}" for name, value in settings.items())
    return [f"{aim}: use {pick.label}: {what}.{ties}", f"  {line}"]


def _memory(advice: Advice, label: str) -> str:
    now, row = advice.row(advice.today), advice.row(label)
    sure = "" if advice.judge.memory_apart(row, now) else ", no sure difference"
    change = f"{_percent(row.peak_bytes, now.peak_bytes)}{sure}"
    mean = _percent(row.mean_bytes, now.mean_bytes)
    return f"peak RSS {size(row.peak_bytes)} instead of {size(now.peak_bytes)} ({change}), mean {mean}"


def _cpu(advice: Advice, label: str) -> str:
    change = advice.judge.change(advice.row(advice.today), advice.row(label))
    if change is None:
        return ""
    row = dict(change.row) | {"percent": change.percent, "low": change.low, "high": change.high}
    because = [", ".join(reasons(row)[:MOST_REASONS])]
    if math.isnan(change.row["percent"]) and advice.judge.cpu_ns and not math.isnan(change.percent):
        because.insert(0, f"of {advice.judge.cpu_ns / 1e9:.3g} s")
    said = ": ".join(one for one in because if one)
    return change_in_words(row) + (f" ({said})" if said else "")


def _between(advice: Advice) -> list[str]:
    """Candidates that are not picked and that no other candidate beats in both aims."""
    if {pick.aim for pick in advice.picks} != set(AIMS[BOTH]):
        return []
    named = {advice.today, *(label for pick in advice.picks for label in (pick.label, *pick.ties))}
    now = advice.row(advice.today)
    rows = [row for row in advice.rows if row.label not in advice.refused]
    front = [row for row in between(rows, now, advice.judge) if row.label not in named]
    found = [row for row in front if advice.judge.gains(row, now)][:MOST_NAMES]
    if not found:
        return []
    each = [
        f"{row.label} (peak RSS {_percent(row.peak_bytes, now.peak_bytes)}, {_cpu_short(advice, row)})" for row in found
    ]
    return [f"Between the two: {', '.join(each)}."]


def _cpu_short(advice: Advice, row: Row) -> str:
    change = advice.judge.change(advice.row(advice.today), row)
    if change is None:
        return "CPU time unknown"
    return f"CPU time {change.ns / 1e6:+.3g} ms" if math.isnan(change.percent) else f"CPU time {change.percent:+.1f} %"


def _refused(refused: Mapping[str, str]) -> str:
    """Labels grouped by reason; the first few reasons."""
    by_reason: dict[str, list[str]] = {}
    for label, why in refused.items():
        by_reason.setdefault(why[:MOST_OF_A_REASON], []).append(label)
    parts = [f"{_names(labels)}: {why}" for why, labels in by_reason.items()]
    more = f"; {len(parts) - MOST_NAMES} more reasons" if len(parts) > MOST_NAMES else ""
    return "; ".join(parts[:MOST_NAMES]) + more


def _names(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - MOST_NAMES} more" if len(labels) > MOST_NAMES else ""
    return ", ".join(labels[:MOST_NAMES]) + more


def _percent(value: float, base: float) -> str:
    return f"{100 * (value / base - 1):+.1f} %" if base > 0 else "unknown"
