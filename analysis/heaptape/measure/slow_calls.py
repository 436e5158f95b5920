# SPDX-License-Identifier: MIT
"""What happened in the slowest calls: the time pass knows how long they took, the memory pass which system calls the
allocator made, and after how many ops. Both know the recorded position, so the two are put together here.
"""

from collections import Counter


def tell_system_calls(runs: list[dict]) -> None:
    """Gives each of a time run's `slowest` calls `syscalls`: {kind: count} the allocator made in the op at the same
    position in its memory pass; {}: none. Left out where no memory run says (none made, system calls not counted, rows
    lost before that position).

    Exact where the memory pass kept the recorded order, as it does unless told otherwise, and the allocator does the
    same in both runs; threads that run side by side in the time pass may let another call meet the system call.
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
    """Rows by ops done; the position from which on rows were lost, None if none were."""
    rows: dict[int, Counter] = {}
    for position, kind, *_ in run["syscall_rows"]:
        rows.setdefault(position, Counter())[kind] += 1
    lost = run.get("syscall_rows_lost", 0) > 0
    return rows, max(rows, default=0) if lost else None
