# SPDX-License-Identifier: MIT
"""What happened in the slowest calls: the time pass has their durations, the memory pass the allocator's system calls
and the ops before them. Both have the recorded position, by which the two are joined here.
"""

from collections import Counter


def attach_syscalls(runs: list[dict]) -> None:
    """Adds `syscalls` to each of a time run's `slowest` calls: {kind: count} of the op at the same position in the
    allocator's memory pass; {}: none. Left out if no memory run has them (none made, system calls not counted, rows
    lost before that position).

    Exact if the memory pass kept the recorded order, which is its default, and the allocator does the same in both
    runs; with threads side by side in the time pass, another call may have made the system call.
    """
    rows_of: dict[tuple[str, str], tuple[dict[int, Counter], int | None]] = {}
    for run in runs:
        key = (run["allocator"], run["variant"])
        if run.get("pass") == "memory" and isinstance(run.get("syscall_rows"), list) and key not in rows_of:
            rows_of[key] = _by_position(run)
    for run in runs:
        known = rows_of.get((run["allocator"], run["variant"]))
        if known is None:
            continue
        rows, last = known
        for call in run.get("slowest", []):
            if "position" in call and (last is None or call["position"] < last):
                call["syscalls"] = dict(rows.get(call["position"], {}))


def _by_position(run: dict) -> tuple[dict[int, Counter], int | None]:
    """Rows by ops done, and the position from which on rows were lost, None if none were."""
    rows: dict[int, Counter] = {}
    for position, kind, *_ in run["syscall_rows"]:
        rows.setdefault(position, Counter())[kind] += 1
    lost = run.get("syscall_rows_lost", 0) > 0
    return rows, max(rows, default=0) if lost else None
