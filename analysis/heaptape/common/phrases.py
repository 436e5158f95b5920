# SPDX-License-Identifier: MIT
"""Figures in words, and the sentences that several commands, the report and the advice have in common: each stands here
once, with slots for what differs. What a sentence may claim is decided elsewhere (decide/).
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from heaptape.common.tables import MIB, significant

NOTHING = 0.05  # percent: a smaller change is shown as none
NONE_FASTER, NONE_LEANER = "none is faster", "none needs less memory"
NONE_KNOWN_LEANER = "none is known to need less memory"
ONE_ARENA = re.compile(r"(arena_max=1|narenas:1)(?![0-9])")  # settings that make threads share a lock
NO_STACKS = "The recording has no call stacks: record with --stacks"


def size(value: float) -> str:
    """Bytes with three significant digits: "83.3 MiB"; below a KiB "512 bytes"."""
    for unit, name in ((1 << 30, "GiB"), (MIB, "MiB"), (1 << 10, "KiB")):
        if abs(value) >= unit:
            return f"{_three_digits(value / unit)} {name}"
    return counted(round(value), "byte")


def capacity(size_bytes: int) -> str:
    """Bytes of a cache or a class of sizes, exactly, in the largest unit of which they are a whole number."""
    for shift, name in ((20, "MiB"), (10, "KiB")):
        if size_bytes >> shift and size_bytes % (1 << shift) == 0:
            return f"{size_bytes >> shift:,} {name}"
    return f"{size_bytes:,} bytes"


def size_above(value: float) -> float:
    """The bytes rounded up to a number of which `size` shows all digits."""
    unit = next((unit for unit in (1 << 30, MIB, 1 << 10) if value >= unit), 1)
    step = unit * (1 if value >= 100 * unit else 0.1 if value >= 10 * unit else 0.01)
    return math.ceil(value / step) * step


def count(value: float) -> str:
    """A count: "113 M"."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{_three_digits(value / unit)} {name}"
    return f"{value:,.0f}"


def _three_digits(value: float) -> str:
    return f"{value:,.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2}f}"


def counted(number: int, noun: str, nouns: str = "") -> str:
    """ "1 thread", "2,000 threads". `nouns`: the plural, where it is not the noun with an s."""
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def seconds(ns: float) -> str:
    return f"{significant(ns / 1e9, 3)} s" if ns >= 1e9 else f"{significant(ns / 1e6, 3)} ms"


def percent(change: float) -> str:
    """A change in percent with two significant digits: "+8.5 %", "-12 %", "0 %"."""
    if math.isnan(change):
        return "–"
    return "0 %" if abs(change) < NOTHING else f"{signed(change)} %"


def signed(change: float) -> str:
    return f"{change:+,.{1 if abs(change) < 9.95 else 0}f}"


def any_of(names: Sequence[str], most: int) -> str:
    """ "a", "a or b", "a, b or c", "a, b, c or 2 more"."""
    more = [f"{len(names) - most} more"] if len(names) > most else []
    *first, last = [*names[:most], *more]
    return f"{', '.join(first)} or {last}" if first else last


def names_of_workloads(names: Iterable[str]) -> str:
    """ "a, b, c"; of more than three "a, b and 2 other workloads". Each name once."""
    once = list(dict.fromkeys(names))
    return ", ".join(once) if len(once) < 4 else f"{', '.join(once[:2])} and {len(once) - 2} other workloads"


def share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "0 %"


def change_of_size(before: float, after: float) -> str:
    """ "25.5 -> 24.1 MiB": the first unit is left out where it is the second's."""
    old, new = size(before), size(after)
    return f"{old.split()[0] if old.split()[1] == new.split()[1] else old} -> {new}"


def calls_of(calls: int, witness: Mapping | None) -> str:
    """ "1,620,442 calls"; where not all that were recorded are replayed (frees of objects never seen, failed calls),
    "90 of 100 calls". `witness`: of the recording.
    """
    recorded = (witness or {}).get("events")
    if isinstance(recorded, int) and recorded > calls:
        return f"{calls:,} of {counted(recorded, 'call')}"
    return counted(calls, "call")


def calls_replayed(calls: int, witness: Mapping | None) -> str:
    """ "90 calls"; where not all that were recorded are replayed, "90 replayed calls"."""
    return f"{calls:,} replayed calls" if " of " in calls_of(calls, witness) else counted(calls, "call")


def about_workload(
    name: str, calls: int | None, threads: int | None, more: Sequence[str], witness: Mapping | None = None
) -> str:
    """ "jq: 1,620,442 calls, 1 thread, ...", and whether calls must be missing."""
    parts = [calls_of(calls, witness)] if calls else []
    parts += [counted(threads, "thread")] if threads else []
    said = ", ".join([f"{name}: {parts[0]}", *parts[1:], *more]) + "." if parts else f"{name}."
    twice = [(witness or {}).get(key, 0) for key in ("double_frees", "overlapping_acquires")]
    if not any(twice):
        return said
    return f"{said} Calls are missing: {counted(twice[0], 'object')} released twice, {twice[1]:,} handed out twice."


def mean_name(over_calls: bool) -> str:
    """The name of means of memory; the usual ones are over wall time."""
    return "mean over calls" if over_calls else "mean memory"


MEAN_OF_ANY = "mean memory (over calls where there are no times)"  # of recordings with and without times


def mean_head(over_calls: bool) -> str:
    """The name as a column's head."""
    return "\n".join(mean_name(over_calls).rsplit(" ", 1))


# Figures by the names that options give them -> what answers call them.
FIGURES = {
    "rss-peak": "peak memory", "rss-peak-upper": "upper end of peak memory", "vmsize-peak": "address space",
    "instructions": "malloc instructions", "syscalls": "system calls", "faults": "page faults", "cpu": "CPU time",
}  # fmt: skip


def figure_name(option: str, over_calls: bool = False) -> str:
    """What an answer calls a figure. `over_calls`: as of `mean_name`."""
    return mean_name(over_calls) if option == "rss-mean" else FIGURES.get(option, option)


MOSTLY_PERCENT = 50


def idles(idle_percent: float | None) -> bool:
    """Does the program idle so much that its memory meanwhile counts as its peak does?"""
    return (idle_percent or 0.0) > MOSTLY_PERCENT


def idle(idle_percent: float | None) -> str:
    return f"It idles for {idle_percent:.0f} % of its time." if idles(idle_percent) else ""


def serialising(name: str, environment: Mapping[str, str]) -> list[str]:
    """A sentence where the settings make threads wait for each other."""
    found = ONE_ARENA.search(" ".join(environment.values()))
    return [f"{name} makes all threads share one arena, and so wait for each other."] if found else []


def negligible(calls: int, most_percent: float) -> str:
    """Why nothing can be faster: "its 7 calls take less than 0.1 % of its CPU time"."""
    return (
        f"its {counted(calls, 'call')} take less than {max(math.ceil(10 * most_percent) / 10, 0.1):g} % of its CPU time"
    )


def too_small_gain(which: str, name: str, gain: str, why: str) -> str:
    """Why the best is no reason to change: "the fastest, mimalloc, saves 1.2 % of CPU time, less than 2 %"."""
    return f"the {which}, {name}, saves {gain}, {why}"


def upgrade(name: str, instructions: float | None, peak: float) -> str:
    """What another C library brings that can't be preloaded; empty: nothing. Changes in percent; None: not counted."""
    calls = instructions or 0.0
    if min(calls, peak) > -NOTHING:
        return ""
    count = f"{percent(abs(calls)).removeprefix('+')} {'fewer' if calls < 0 else 'more'}"
    said = [f"malloc and free take {count} instructions"] * (abs(calls) >= NOTHING)
    said += [f"peak memory {percent(peak)}"] * (abs(peak) >= NOTHING)
    return f"Upgrade to {name}: {', '.join(said)}. No variable sets it."


def without_cache_effects(low: float, high: float, command: str, timed: bool = False) -> str:
    """`low`, `high`: by how many points they move the estimate; NaN: not known. `timed`: the estimate is by timed
    replays of the calls, else by what was counted in them.
    """
    source = "timed calls" if timed else "counts"
    moved = "" if math.isnan(low) else f", which move it by {low:+.0f} to {high:+.0f} points (95 % range)"
    return f"CPU time is estimated from {source} without cache effects{moved}. Smaller gains need them: {command}."


def choice(before: str, words: Sequence[str], after: str = "") -> tuple[str, str]:
    """A command of which one of these words is to be chosen: as it is shown, and as it can be typed, with the last."""
    return f"{before} {'|'.join(words)}{after}", f"{before} {words[-1]}{after}"


def illegal_history(name: str, kept: bool = True) -> str:
    """Of a recording; `kept`: as a file that can be checked."""
    return f"{name}: not a legal history" + ": heaptape check says why" * kept


def recorded_elsewhere(recorded: str, here: str) -> str:
    """Of a baseline that is not the library that the program was recorded on; the beginning of a sentence."""
    return f"recorded on {recorded}, which is not on this machine; the baseline is {here}"
