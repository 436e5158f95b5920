# SPDX-License-Identifier: MIT
"""What runs of several passes say together: whether the bare and the time pass agree, and which system calls the
slowest calls made.
"""

from collections import Counter
from statistics import median


def agreement(runs: list[dict]) -> list[dict]:
    """One entry for each allocator and variant that has runs of both passes, in the runs' order.

    `bare_cycles`: median over the bare runs of their `cycles_total`. `predicted_cycles`: median over the time runs of
    `stream_cycles_predicted`. `difference_percent`: by how much bare is more than predicted. Calls shorter than about
    100 cycles overlap with the engine's own work in the bare pass and are fenced off in the time pass, so for them
    bare is less.
    """
    bare = _by_allocator(runs, "bare", "cycles_total")
    predicted = _by_allocator(runs, "time", "stream_cycles_predicted")
    entries = []
    for key in predicted:
        if key in bare and median(predicted[key]) > 0:
            difference = 100 * (median(bare[key]) / median(predicted[key]) - 1)
            entries.append(
                {
                    "allocator": key[0],
                    "variant": key[1],
                    "bare_cycles": median(bare[key]),
                    "predicted_cycles": median(predicted[key]),
                    "difference_percent": round(difference, 2),
                }
            )
    return entries


def _by_allocator(runs: list[dict], pass_: str, figure: str) -> dict[tuple[str, str], list[float]]:
    values: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        if run.get("pass") == pass_ and isinstance(run.get(figure), (int, float)):
            values.setdefault((run["allocator"], run["variant"]), []).append(run[figure])
    return values


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
