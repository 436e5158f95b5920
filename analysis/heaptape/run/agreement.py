# SPDX-License-Identifier: MIT
"""Do the passes agree? The bare pass times whole streams; the time pass sums single calls, and adds the cost of
touching and of the engine. They measure in different ways, so their difference shows how far either can be trusted.
"""

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
