# SPDX-License-Identifier: MIT
"""The pass `contention`: how long threads waited inside calls, for which locks, in which calls; its tables."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pandas as pd

from heaptape.common.tables import MISSING, Cell, Table, rounded
from heaptape.passes import PassTable
from heaptape.results.cells import by_workload, in_unit
from heaptape.results.schema import Results, unique_name
from heaptape.results.structs import Contention, LockWaits, Waits

TELLING_PERCENT = 1.0  # of the threads' time: from this on, a sentence mentions the waits
KEYS = ["workload", "allocator", "by", "name", "call"]
SUMS = ["waits", "slept", "wait_ns", "percent"]
WHOLE = ["voluntary_switches", "locks_taken", "locks_contended", "seeing_percent"]
UNKNOWN_LOCK = "other locks"
# The names of our own allocators' counters (allocators/reference/counters.def).
LOCKS_TAKEN, LOCKS_CONTENDED = "locks", "locks_contended"
LOCKS_SHOWN = 5  # of each allocator
CALLS_SHOWN = 5
NOTES = [
    "Waits that threads begin within a call: for a lock (futex), or by sched_yield and sleeping. Slept: without waits "
    "that the kernel refused, as the lock had just been released. From–to: least and most of the repetitions. "
    "Switches: voluntary context switches within calls; those beyond slept are waits in the kernel (page faults, the "
    "lock of the address space). Locks: those that threads waited for.",
    "Waits of threads that spin without a system call are not seen: that time is in the calls themselves (ns per call, "
    "of the pass time), and our own allocators count contended acquisitions.",
]


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
    often = Counter(run.label for run in file.measured if run.contention)
    for run in file.measured:
        if run.contention:
            about = {"workload": workload, "allocator": run.label, "repetitions": often[run.label], "call": ""}
            about |= {"call_ns": _call_ns(file, run.label)}
            for row in _run_rows(run.contention, run.reference_stats or {}):
                yield about | row


def _run_rows(found: Contention, counted: Mapping) -> Iterator[dict]:
    thread_ns = found.thread_ns or 0.0
    seeing_ns = _known(found.count) * _known(found.trap_ns)
    yield (
        {"by": "all", "name": ""}
        | _sums(found, thread_ns)
        | {
            "voluntary_switches": _known(found.voluntary_switches),
            "locks_taken": _known(counted.get(LOCKS_TAKEN)),
            "locks_contended": _known(counted.get(LOCKS_CONTENDED)),
            "seeing_percent": 100 * seeing_ns / thread_ns if thread_ns > 0 else math.nan,
        }
    )
    for lock in found.locks or []:
        yield {"by": "lock", "name": name_of(lock), "wait": lock.wait} | _sums(lock, thread_ns)
    for call, waits in (found.calls or {}).items():
        if not waits.count:
            continue
        yield {"by": "call", "name": call} | _sums(waits, thread_ns)
        for size in waits.sizes or []:
            name = "more" if size.up_to_bytes is None else f"{size.up_to_bytes:,}"
            yield {"by": "size", "call": call, "name": name} | _sums(size, thread_ns)


def _sums(waits: Waits, thread_ns: float) -> dict:
    count, wait_ns = _known(waits.count), _known(waits.time_ns)
    return {
        "waits": count,
        "slept": count - _known(waits.at_once),
        "wait_ns": wait_ns,
        "percent": 100 * wait_ns / thread_ns if thread_ns > 0 else math.nan,
        "max_ns": _known(waits.max_ns),
    }


def _known(value: float | None) -> float:
    """The figure; NaN if it is missing."""
    return math.nan if value is None else float(value)


def _call_ns(file: Results, label: str) -> float:
    """Mean time of a call in the allocator's time passes; NaN if it has none."""
    cycles, calls, hz = 0.0, 0.0, 0.0
    for run in file.measured:
        if run.pass_ == "time" and run.label == label and run.cycles_hz:
            cycles += run.cycles_total or 0.0
            calls += sum(call.count or 0.0 for call in (run.calls or {}).values())
            hz = run.cycles_hz
    return 1e9 * cycles / calls / hz if calls > 0 else math.nan


def name_of(lock: LockWaits) -> str:
    """A lock's name: its symbol, else its place in its library, else its address; for waits without a lock, the call
    and where it was made.

    >>> name_of(LockWaits(wait="futex", address="0x1000", object="libc.so.6", offset=64))
    'libc.so.6+0x40'
    """
    if lock.address is None:
        return UNKNOWN_LOCK
    place = f"heap {lock.address}"
    if lock.object:
        place = f"{lock.object}+{lock.offset or 0:#x}"
    if lock.symbol:
        place = lock.symbol
        place += f"+{lock.symbol_offset:#x}" if lock.symbol_offset and lock.wait == "futex" else ""
        place += f" {lock.address}" if not lock.object else ""
    return {"yield": "sched_yield in ", "sleep": "sleep in "}.get(str(lock.wait), "") + place


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


def tables(found: pd.DataFrame) -> list[Table]:
    """From `frame`, per workload: allocators, their locks with most waiting, their calls. Empty if no run
    had the pass.
    """
    return [table for _, here, suffix in by_workload(found) for table in (_whole(here, suffix), *_parts(here, suffix))]


def usual(files: Sequence[Results]) -> list[Table]:
    """Only the first table of each workload."""
    return [_whole(here, suffix) for _, here, suffix in by_workload(frame(files))]


def words(files: Sequence[Results]) -> list[Table]:
    """Only the sentences; no table if there are none."""
    made = sentences(files)
    return [Table("Waits inside calls, in words", [], [], made)] if made else []


def _whole(here: pd.DataFrame, suffix: str) -> Table:
    whole = here[here["by"] == "all"]
    locks = here[here["by"] == "lock"]["allocator"].value_counts()
    counted, timed = bool(whole["locks_taken"].notna().any()), bool(whole["call_ns"].notna().any())
    columns = ["allocator", "waits", "slept", "ms", "% of thread time", "from–to", "switches"]
    columns += ["locks taken", "contended"] * counted + ["ns per call"] * timed + ["locks"]
    rows = []
    for row in whole.to_dict("records"):
        cells = [Cell(row["allocator"]), _number(row["waits"]), _number(row["slept"]), _number(row["wait_ns"], 1e6)]
        cells += [_number(row["percent"]), _ends(row), _number(row["voluntary_switches"])]
        cells += [_number(row[key]) for key in ("locks_taken", "locks_contended")] * counted
        cells += [_number(row["call_ns"])] * timed
        rows.append([*cells, _number(int(locks.get(row["allocator"], 0)))])
    seeing = whole["seeing_percent"].max()
    cost = f" Seeing them took up to {rounded(seeing)} % of thread time." if seeing > 0 else ""
    often = int(whole["repetitions"].max())
    means = f" Means of {often} repetitions." if often > 1 else ""
    notes = [f"{NOTES[0]}{cost}{means}", *NOTES[1:]]
    return Table(f"Waits inside calls{suffix}", columns, rows, [*sentences_of(here), *notes])


def _ends(row: dict) -> Cell:
    once = row["repetitions"] < 2 or pd.isna(row["percent"])
    return Cell(MISSING if once else f"{rounded(row['percent_low'])}–{rounded(row['percent_high'])}")


def _parts(here: pd.DataFrame, suffix: str) -> list[Table]:
    columns = ["waits", "slept", "ms", "longest, ms"]
    locks, calls = [], []
    for label in dict.fromkeys(here["allocator"]):
        mine = here[here["allocator"] == label].sort_values("wait_ns", ascending=False, kind="stable")
        locks += [_part(row, [row["name"]]) for row in _records(mine, "lock", LOCKS_SHOWN)]
        for row in _records(mine, "call", CALLS_SHOWN):
            calls.append(_part(row, [row["name"], "all"]))
            sizes = mine[mine["call"] == row["name"]]
            calls += [_part(size, [row["name"], size["name"]]) for size in _records(sizes, "size", CALLS_SHOWN)]
    out = []
    if locks:
        note = f"For each allocator the {LOCKS_SHOWN} with most waiting; a lock without a symbol is named by its place."
        out.append(Table(f"Locks waited for{suffix}", ["allocator", "lock", *columns], locks, [note], 2))
    if calls:
        note = f"For each allocator the {CALLS_SHOWN} calls with most waiting, and as many size classes of each."
        table = Table(f"Calls that wait{suffix}", ["allocator", "call", "bytes up to", *columns], calls, [note], 3)
        out.append(table)
    return out


def _records(rows: pd.DataFrame, by: str, most: int) -> list[dict]:
    return rows[rows["by"] == by].head(most).to_dict("records")


def _part(row: dict, names: list[str]) -> list[Cell]:
    cells = [_number(row[key]) for key in ("waits", "slept")]
    cells += [_number(row[key], 1e6) for key in ("wait_ns", "max_ns")]
    return [Cell(row["allocator"]), *map(Cell, names), *cells]


def _number(value: float, unit: float = 1.0) -> Cell:
    whole = unit == 1.0 and value is not None and float(value).is_integer()
    return Cell(f"{value:,.0f}", value) if whole else in_unit(value, unit)


TABLE = PassTable(
    lambda files, _: frame(files),
    lambda found, _: tables(found),
    lambda files, _: usual(files),
    report=lambda file: [*tables(frame([file])), Table("Contention, in words", [], [], sentences([file]))],
    words=words,
)
