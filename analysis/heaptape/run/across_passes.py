# SPDX-License-Identifier: MIT
"""What runs of several passes say together: whether the bare and the time pass agree, and which system calls the
slowest calls made.
"""

from collections import Counter
from collections.abc import Sequence
from statistics import median

from heaptape.results.structs import Run


def agreement(runs: Sequence[Run]) -> list[dict]:
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


def _by_allocator(runs: Sequence[Run], pass_: str, figure: str) -> dict[tuple[str, str], list[float]]:
    values: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        if run.pass_ == pass_ and (value := getattr(run, figure)) is not None:
            values.setdefault((run.allocator, run.variant or ""), []).append(value)
    return values


def attach_syscalls(raw: list[dict], runs: Sequence[Run]) -> None:
    """Adds `syscalls` to each of a time run's `slowest` calls, in `raw`, the same runs as they will be written: {kind:
    count} of the op at the same position in the allocator's memory pass; {}: none. Left out if no memory run has them
    (none made, system calls not counted, rows lost before that position).

    Exact if the memory pass kept the recorded order, which is its default, and the allocator does the same in both
    runs; with threads side by side in the time pass, another call may have made the system call.
    """
    rows_of: dict[str, tuple[dict[int, Counter], int | None]] = {}
    for run in runs:
        if run.pass_ == "memory" and run.syscall_rows is not None and run.label not in rows_of:
            rows_of[run.label] = _by_position(run.syscall_rows, run.syscall_rows_lost or 0)
    for run, written in zip(runs, raw, strict=True):
        if run.label not in rows_of:
            continue
        rows, last = rows_of[run.label]
        for number, call in enumerate(run.slowest or []):
            if call.position is not None and (last is None or call.position < last):
                written["slowest"][number]["syscalls"] = dict(rows.get(call.position, {}))


def _by_position(found: Sequence[tuple[int, str, int]], lost: int) -> tuple[dict[int, Counter], int | None]:
    """Rows by ops done, and the position from which on rows were lost, None if none were."""
    rows: dict[int, Counter] = {}
    for position, kind, _ in found:
        rows.setdefault(position, Counter())[kind] += 1
    return rows, max(rows, default=0) if lost else None
