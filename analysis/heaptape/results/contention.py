# SPDX-License-Identifier: MIT
"""Figures of the pass `contention`: how long threads waited inside calls, for which locks, in which calls."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pandas as pd

from heaptape.results.schema import Results, label_of, number, unique_name

TELLING_PERCENT = 1.0  # of the threads' time: from this on, a sentence mentions the waits
KEYS = ["workload", "allocator", "by", "name", "call"]
SUMS = ["waits", "slept", "wait_ns", "percent"]
WHOLE = ["voluntary_switches", "locks_taken", "locks_contended", "seeing_percent"]
UNKNOWN_LOCK = "other locks"
# The names of our own allocators' counters (allocators/reference/counters.def).
LOCKS_TAKEN, LOCKS_CONTENDED = "locks", "locks_contended"


def frame(files: Iterable[Results]) -> pd.DataFrame:
    """Means over the repetitions. One row for each workload, allocator and `by`: all (`name` empty), lock (`name`: the
    lock), call (`name`: the call) and size (`name`: the largest size of the class in bytes, or "more"; `call`: the
    call, which is empty in other rows).

    Columns: KEYS; wait (for locks: futex, yield, sleep); waits; slept (waits that the kernel did not refuse at once);
    wait_ns; percent (of the threads' time); max_ns (over all repetitions); for `all` also percent_low and percent_high
    (least and most of a repetition), voluntary_switches (context switches within calls), locks_taken and
    locks_contended (as our own allocators count them), seeing_percent (of the threads' time: the cost of the pass
    itself), call_ns (mean time of a call in the pass time); repetitions.
    """
    names: dict[tuple, str] = {}
    rows = [row for file in files for row in _file_rows(file, unique_name(file, names))]
    columns = [*KEYS, "wait", *SUMS, "max_ns", "percent_low", "percent_high", *WHOLE, "call_ns", "repetitions"]
    found = pd.DataFrame(rows, columns=[*KEYS, "repeat", "wait", *SUMS, "max_ns", *WHOLE, "call_ns", "repetitions"])
    if found.empty:
        return pd.DataFrame(columns=columns)
    grouped = found.groupby(KEYS, sort=False)
    means = grouped[SUMS].sum(min_count=1).div(grouped["repetitions"].first(), axis=0)
    about = grouped.agg({"wait": "first", "max_ns": "max", "call_ns": "first", "repetitions": "first"})
    whole = grouped[WHOLE].mean()
    ends = grouped["percent"].agg(percent_low="min", percent_high="max")
    out = means.join([about, whole, ends]).reset_index()
    out.loc[out["by"] != "all", ["percent_low", "percent_high"]] = math.nan
    return out[columns]


def _file_rows(file: Results, workload: str) -> Iterator[dict]:
    runs = [run for run in file.runs if isinstance(run.get("contention"), dict)]
    often: dict[str, int] = {}
    for run in runs:
        often[label_of(run)] = often.get(label_of(run), 0) + 1
    for run in runs:
        label = label_of(run)
        about = {"workload": workload, "allocator": label, "repetitions": often[label], "call": ""}
        about |= {"call_ns": _call_ns(file, label)}
        for row in _run_rows(run):
            yield about | row


def _run_rows(run: Mapping) -> Iterator[dict]:
    found = run["contention"]
    thread_ns = number(found.get("thread_ns")) or 0.0
    yield {"by": "all", "name": ""} | _sums(found, thread_ns) | _whole(run, thread_ns)
    for lock in found.get("locks") or []:
        yield {"by": "lock", "name": name_of(lock), "wait": lock.get("wait")} | _sums(lock, thread_ns)
    for call, waits in (found.get("calls") or {}).items():
        if not waits.get("count"):
            continue
        yield {"by": "call", "name": call} | _sums(waits, thread_ns)
        for size in waits.get("sizes") or []:
            last = size.get("up_to_bytes")
            name = "more" if last is None else f"{last:,}"
            yield {"by": "size", "call": call, "name": name} | _sums(size, thread_ns)


def _sums(waits: Mapping, thread_ns: float) -> dict:
    count, wait_ns = _figure(waits, "count"), _figure(waits, "time_ns")
    return {
        "waits": count,
        "slept": count - _figure(waits, "at_once"),
        "wait_ns": wait_ns,
        "percent": 100 * wait_ns / thread_ns if thread_ns > 0 else math.nan,
        "max_ns": _figure(waits, "max_ns"),
    }


def _figure(of: Mapping, key: str) -> float:
    """The figure; NaN if it is missing."""
    value = number(of.get(key))
    return math.nan if value is None else value


def _whole(run: Mapping, thread_ns: float) -> dict:
    found = run["contention"]
    counted = run.get("reference_stats") or {}
    seeing_ns = _figure(found, "count") * _figure(found, "trap_ns")
    return {
        "voluntary_switches": _figure(found, "voluntary_switches"),
        "locks_taken": _figure(counted, LOCKS_TAKEN),
        "locks_contended": _figure(counted, LOCKS_CONTENDED),
        "seeing_percent": 100 * seeing_ns / thread_ns if thread_ns > 0 else math.nan,
    }


def _call_ns(file: Results, label: str) -> float:
    """Mean time of a call in the allocator's time passes; NaN if it has none."""
    cycles, calls, hz = 0.0, 0.0, 0.0
    for run in file.runs:
        if run.get("pass") == "time" and label_of(run) == label and number(run.get("cycles_hz")):
            cycles += number(run.get("cycles_total")) or 0.0
            calls += sum(number(call.get("count")) or 0.0 for call in (run.get("calls") or {}).values())
            hz = float(run["cycles_hz"])
    return 1e9 * cycles / calls / hz if calls > 0 else math.nan


def name_of(lock: Mapping) -> str:
    """A lock's name: its symbol, else its place in its library, else its address; for waits without a lock, the call
    and where it was made.

    >>> name_of({"wait": "futex", "address": "0x1000", "object": "libc.so.6", "offset": 64})
    'libc.so.6+0x40'
    """
    if lock.get("address") is None:
        return UNKNOWN_LOCK
    place = f"heap {lock['address']}"
    if lock.get("object"):
        place = f"{lock['object']}+{lock.get('offset') or 0:#x}"
    if lock.get("symbol"):
        place = str(lock["symbol"])
        place += f"+{lock['symbol_offset']:#x}" if lock.get("symbol_offset") and lock.get("wait") == "futex" else ""
        place += f" {lock['address']}" if not lock.get("object") else ""
    return {"yield": "sched_yield in ", "sleep": "sleep in "}.get(str(lock.get("wait")), "") + place


def sentences(files: Sequence[Results]) -> list[str]:
    """`sentences_of` for each workload, with its name if there are several."""
    groups = frame(files).groupby("workload", sort=False)
    prefix = {workload: f"{workload}: " if len(files) > 1 else "" for workload in groups.groups}
    return [prefix[workload] + one for workload, here in groups for one in sentences_of(here)]


def sentences_of(here: pd.DataFrame) -> list[str]:
    """From a workload's rows of `frame`: under which allocators threads wait for TELLING_PERCENT of their time or more
    in every repetition, and for which lock; or that they do so under none.
    """
    whole = here[here["by"] == "all"].set_index("allocator")
    telling = whole[whole["percent_low"] >= TELLING_PERCENT].sort_values("percent", ascending=False)
    made = [_sentence(here, str(label), row) for label, row in telling.iterrows()]
    if made or whole["percent"].isna().all():
        return made
    if whole["waits"].max() == 0:
        return ["No thread waits inside calls, under any allocator."]
    most = whole["percent"].idxmax()
    often = " in every repetition" if whole.at[most, "repetitions"] > 1 else ""
    return [
        f"Under no allocator do threads wait inside calls for {TELLING_PERCENT:g} % of their time{often} (most under "
        f"{most}: {whole.at[most, 'percent']:.2f} %{_spread(whole.loc[most], 2)})."
    ]


def _spread(whole: pd.Series, digits: int) -> str:
    """The least and the most of the repetitions; empty if there is one."""
    if whole["repetitions"] < 2:
        return ""
    low, high = whole["percent_low"], whole["percent_high"]
    return f", {low:.{digits}f} to {high:.{digits}f} in {int(whole['repetitions'])} repetitions"


def _sentence(here: pd.DataFrame, label: str, whole: pd.Series) -> str:
    spread = _spread(whole, 1) and f"{_spread(whole, 1)},"
    mine = here[here["allocator"] == label]
    locks = mine[mine["by"] == "lock"].sort_values("wait_ns", ascending=False)
    calls = mine[mine["by"] == "call"].sort_values("wait_ns", ascending=False)
    first = locks.iloc[0]
    what = "lock" if first["wait"] == "futex" else "place"
    share = f"{100 * first['wait_ns'] / whole['wait_ns']:.0f} % of it for one {what} of {len(locks)}"
    return (
        f"Under {label}, {whole['percent']:.1f} % of thread time{spread} is spent in waits inside calls, most of it in "
        f"{calls.iloc[0]['name']}; {share if len(locks) > 1 else f'all of it for one {what}'}: {first['name']}."
    )
