# SPDX-License-Identifier: MIT
"""`python -m tests.bench.time.cache_effects`: how far predictions without accesses are from live programs.

Makes the Xeon's rows of docs/measurements/data/cache_effects.csv again, from the committed raw results: the change
predicted without misses, the live one, and `share`, the instructions of malloc and free in percent of the program's CPU
time, both on glibc. Rows of the EPYC, whose counts are not committed, stay; their share is that of the program on the
Xeon. Prints the coverage of the 95 % range for programs that it was not learned on: each program left out in turn, and
halves of the programs at random.
"""

import numpy as np
import pandas as pd
from heaptape.results.comparing.sequential import DIFFERENT
from heaptape.results.model.penalties import Penalties, penalties
from heaptape.results.model.time_model import CACHE_EFFECTS_FLOOR

from tests.bench.fidelity import timed_certificate
from tests.bench.fidelity.certificate import BASELINE
from tests.bench.time.bounds import RAW, by_app
from tests.support import REPOSITORY

DATA = REPOSITORY / "docs" / "measurements" / "data" / "cache_effects.csv"
HALVES = 500
COLUMNS = ["machine", "program", "allocator", "share", "percent", "live", "decided"]


def cost_ns(misses: dict, costs: Penalties) -> float:
    """What the model adds up without accesses."""
    calls = misses["allocator"]["syscalls_by_kind"]
    return (
        misses["allocator_instructions"] * costs.allocator_instruction.middle
        + misses["page_faults"] * costs.page_fault.middle
        + sum(calls.get(name, 0) * penalty.middle for name, penalty in costs.system_calls.items())
    )


def of_raw_results() -> pd.DataFrame:
    """The rows of the programs whose raw results are committed; our own allocators are left out."""
    raw = by_app(RAW / "timed")
    rows = []
    for pair in timed_certificate.pairs(list(raw.values())).to_dict("records"):
        data = raw[pair["app"]]
        costs = penalties(data["penalties"])
        runs = {run["allocator"]: run["misses"] for run in data["replays"] if "misses" in run}
        if pair["allocator"] not in runs or pair["allocator"] == "reference":
            continue
        base = runs[BASELINE]
        cpu_ns = float(np.median([one["cpu_ns"][BASELINE] for one in data["live"] if BASELINE in one["cpu_ns"]]))
        share = 100 * base["allocator_instructions"] * costs.allocator_instruction.middle / cpu_ns
        change = 100 * (cost_ns(runs[pair["allocator"]], costs) - cost_ns(base, costs)) / cpu_ns
        decided = pair["verdict"] == DIFFERENT
        rows.append(["xeon", pair["app"], pair["allocator"], share, change, pair["live"], decided])
    return pd.DataFrame(rows, columns=COLUMNS)


def scaled(rows: pd.DataFrame) -> pd.Series:
    return (rows["live"] - rows["percent"]) / (rows["share"] + CACHE_EFFECTS_FLOOR)


def inside(rows: pd.DataFrame, learned_on: set) -> pd.Series:
    """Of the decided pairs of other programs: is the live change in the range?"""
    low, high = scaled(rows[rows["program"].isin(learned_on)]).quantile([0.025, 0.975])
    judged = rows[~rows["program"].isin(learned_on) & rows["decided"]]
    return scaled(judged).between(low, high)


def main() -> None:
    kept = pd.read_csv(DATA)
    rows = pd.concat([kept[kept["machine"] != "xeon"], of_raw_results()])
    rows = rows.sort_values(["machine", "program", "allocator"]).round(2)
    rows.to_csv(DATA, index=False)
    programs = np.array(sorted(rows["program"].unique()))
    single = pd.concat([inside(rows, set(programs) - {one}) for one in programs])
    draws = np.random.default_rng(0)
    halves = [inside(rows, set(draws.permutation(programs)[: len(programs) // 2])).mean() for _ in range(HALVES)]
    low, high = scaled(rows).quantile([0.025, 0.975])
    print(f"{len(rows)} pairs of {len(programs)} programs: {low:.2f} to {high:.2f} of share + {CACHE_EFFECTS_FLOOR:g}")
    print(f"left out in turn: {single.sum()} of {len(single)} decided pairs inside; halves: {np.mean(halves):.0%}")


if __name__ == "__main__":
    main()
