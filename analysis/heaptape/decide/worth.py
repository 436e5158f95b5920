# SPDX-License-Identifier: MIT
"""When a gain is a reason to change the allocator or its settings: the one rule of every command that names a winner.

A gain counts if it is at least LEAST_PERCENT, and larger than its error; a gain of memory also has to be at least
LEAST_BYTES. A change costs work and trust, so smaller gains are "no reason to change".
"""

import math

from heaptape.common.phrases import percent, signed
from heaptape.common.tables import significant

LEAST_PERCENT = 2.0
LEAST_BYTES = 1 << 20
LEAST_MEMORY = f"{LEAST_BYTES >> 20} MiB"
# So few calls for so little memory change nothing else of a program: 5 us is a call with system calls and page faults.
FEW_CALLS, FEW_BYTES, CALL_NS, NEGLIGIBLE_PERCENT = 1000, LEAST_BYTES, 5000.0, 0.5
LEAST_SAVING = f"{LEAST_PERCENT:g} % and {LEAST_MEMORY}"  # of memory
NO_REASON = "no reason to change"
WITHIN_ERROR = "within the error"


def is_reason(gain_percent: float, error_percent: float = 0.0, gain_bytes: float | None = None) -> bool:
    """Is the gain a reason to change? `gain_percent`: how much less is needed than today, in percent of today's;
    `error_percent`: how far that may be off, in the same percent; `gain_bytes`: the same of memory, else None. False
    for NaN.
    """
    enough = gain_percent >= LEAST_PERCENT and gain_percent > error_percent
    return bool(enough and (gain_bytes is None or gain_bytes >= LEAST_BYTES))


def most_percent(calls: int, live_bytes: float, cpu_ns: float | None) -> float:
    """What the calls take at most of a program's CPU time, in percent, where that is negligible whatever serves them;
    else NaN. `live_bytes`: their most; `cpu_ns`: the program's; None: not known.
    """
    most = 100 * calls * CALL_NS / cpu_ns if cpu_ns else math.inf
    return most if calls <= FEW_CALLS and live_bytes <= FEW_BYTES and most <= NEGLIGIBLE_PERCENT else math.nan


def why_not(gain_percent: float, error_percent: float = 0.0, gain_bytes: float | None = None) -> str:
    """Why `is_reason` says no, to follow the gain in a sentence; empty where it says yes."""
    if is_reason(gain_percent, error_percent, gain_bytes):
        return ""
    if not gain_percent > 0:
        return "no gain"
    if gain_percent <= error_percent:
        return f"{WITHIN_ERROR} of {significant(error_percent)} %"
    if gain_percent < LEAST_PERCENT:
        least = f"{LEAST_PERCENT:g} %"
        return f"just under {least}" if round(gain_percent, 1) >= LEAST_PERCENT else f"less than {least}"
    return f"less than {LEAST_MEMORY}"


def is_known(low: float, high: float) -> bool:
    """Is a measured change known, of which this is the range in percent? Not where it holds a gain and a loss that both
    matter.
    """
    return low >= -LEAST_PERCENT or high <= LEAST_PERCENT


def measured(change: float, low: float, high: float) -> str:
    """A measured change with its range, in percent: "-3.1 % (-4.0 to -2.2)"; "not known: -14 to +11 %"."""
    ends = f"{signed(low)} to {signed(high)}"
    return f"{percent(change)} ({ends})" if is_known(low, high) else f"not known: {ends} %"


def more_runs(option: str, runs: int) -> str:
    """What makes a change known that is not, after so many runs of each."""
    return f"To know it: {option} {4 * runs}, on a machine that does nothing else."
