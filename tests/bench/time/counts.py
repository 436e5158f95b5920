# SPDX-License-Identifier: MIT
"""`python -m tests.bench.time.counts FILE.csv`: the model of time against live runs that were kept as CSV.

Beside FILE.csv, with rows as `tests.bench.time.judge --csv` writes them, are FILE.counts.csv, the counts of the pass
misses, and FILE.machine.json, the costs on the machine of the live runs. So another model, or other costs, can be tried
against the same live runs without recording again.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from heaptape.results.model.counts import CALLS, FAULTS, INSTRUCTIONS
from heaptape.results.model.time_model import ALL, prediction
from heaptape.results.schema import Results

BASELINE = "glibc"
DECIDED_PERCENT = 2.0
PREDICTED = ["percent", "low", "high"]
WHOLE = ("page_faults", "syscalls")


def rows(file: Results) -> Iterator[dict[str, Any]]:
    """Two rows for each allocator, from its first repetition, for the program's part and for its own: program,
    allocator, part, instructions, page_faults, syscalls, misses of BYTES, sequential of BYTES, TLB of ENTRIES, and for
    its own part system calls by kind.
    """
    for run in [one for one in file.runs if not one.get("repeat")]:
        for part in ("program", "allocator"):
            of_part = run["misses"][part]
            row = {"program": file.workload["name"], "allocator": run["allocator"], "part": part}
            row |= {name: of_part[name] for name in ("instructions", *WHOLE)}
            for cache in of_part["caches"]:
                row[f"misses {cache['bytes']}"] = cache["misses"]
                row[f"sequential {cache['bytes']}"] = cache["sequential_misses"]
            row |= {f"TLB {tlb['entries']}": tlb["misses"] for tlb in of_part["tlbs"]}
            yield row | {f"call {name}": count for name, count in of_part.get("syscalls_by_kind", {}).items()}


def results(counts: pd.DataFrame, measured: dict[str, Any]) -> Iterator[Results]:
    """The results of each program, with the keys that the model reads. `counts`: of rows()."""
    for program, of_program in counts.groupby("program", sort=False):
        runs = [
            {"allocator": name, "repeat": 0, "pass": "misses", "misses": _misses(of_allocator)}
            for name, of_allocator in of_program.groupby("allocator", sort=False)
        ]
        content = {"schema": 1, "workload": {"name": program}, "runs": runs, "penalties": measured}
        yield Results(f"{program}.json", content)


def _misses(parts: pd.DataFrame) -> dict[str, Any]:
    own = parts.set_index("part").loc["allocator"]
    whole = parts.drop(columns=["program", "allocator", "part"]).sum()
    sizes, entries = (
        [int(name.split()[1]) for name in parts if name.startswith(prefix)] for prefix in ("misses ", "TLB ")
    )
    caches = [
        {"bytes": size, "misses": int(whole[f"misses {size}"]), "sequential_misses": int(whole[f"sequential {size}"])}
        for size in sizes
    ]
    kinds = {str(name).split()[1]: int(own[name]) for name in own.index if str(name).startswith("call ")}
    return {
        "program_instructions": int(whole["instructions"] - own["instructions"]),
        "allocator_instructions": int(own["instructions"]),
        "caches": caches,
        "tlbs": [{"entries": entry, "misses": int(whole[f"TLB {entry}"])} for entry in entries],
        "allocator": {"syscalls_by_kind": kinds},
        **{name: int(whole[name]) for name in WHOLE},
    }


def beside(file: Path) -> tuple[Path, Path]:
    return file.with_suffix(".counts.csv"), file.with_suffix(".machine.json")


def write(files: list[Results], measured: dict[str, Any], file: Path) -> None:
    counts, machine = beside(file)
    pd.DataFrame([row for one in files for row in rows(one)]).convert_dtypes().to_csv(counts, index=False)
    machine.write_text(json.dumps(measured, indent=1) + "\n")


def predicted(file: Path, baseline: str) -> pd.DataFrame:
    """One row per program and allocator: program, allocator, percent, low, high; from the files beside `file`."""
    counts, machine = beside(file)
    frame = prediction(list(results(pd.read_csv(counts), json.loads(machine.read_text()))), baseline)
    whole = frame[frame["part"] == ALL].rename(columns={"workload": "program"})
    return whole[["program", "allocator", *PREDICTED]].reset_index(drop=True)


def markdown(rows: pd.DataFrame) -> str:
    lines = ["| program | allocator | predicted, % | live, % | |", "|---|---|---|---|---|"]
    for row in rows.itertuples():
        predicted = f"{row.percent:+.1f} ({row.low:+.1f} to {row.high:+.1f})"
        lived = f"{row.live:+.1f} ({row.live_low:+.1f} to {row.live_high:+.1f})"
        lines.append(f"| {row.program} | {row.allocator} | {predicted} | {lived} | {row.verdict} |")
    return "\n".join(lines)


def with_verdicts(rows: pd.DataFrame) -> pd.DataFrame:
    """Adds decided (live interval beyond 0, middle at 2 % or more), outright (predicted interval beyond 0), verdict."""
    decided = (rows["live_low"] * rows["live_high"] > 0) & (rows["live"].abs() >= DECIDED_PERCENT)
    outright = rows["low"] * rows["high"] > 0
    right = np.sign(rows["percent"]) == np.sign(rows["live"])
    verdict = np.where(~decided, "undecided", np.where(right, "right", np.where(outright, "**wrong**", "wrong side")))
    return rows.assign(decided=decided, outright=outright, right=right, verdict=verdict)


def summary(rows: pd.DataFrame) -> str:
    """How many of the decided pairs are right, and how large their errors are."""
    decided = rows[rows["decided"]]
    off = ((decided["percent"] - decided["live"]) / decided["live"]).abs()
    holds = (decided["low"] <= decided["live"]) & (decided["live"] <= decided["high"])
    sure = decided[decided["outright"]]
    return (
        f"{len(rows)} pairs, {len(decided)} decided live: sign right in {decided['right'].sum()}; of the {len(sure)} "
        f"predicted outright in {sure['right'].sum()}. Size off by {100 * off.median():.0f} % at the median; "
        f"{holds.sum()} intervals hold the live middle."
    )


def again(file: Path, programs: list[str]) -> pd.DataFrame:
    """Rows of the file, predicted again; of all programs or of some."""
    lived = pd.read_csv(file).drop(columns=PREDICTED)
    found = lived.merge(predicted(file, BASELINE), on=["program", "allocator"])
    return found[found["program"].isin(programs)] if programs else found


def cache_effects(file: Path) -> str:
    """By how many points the live change is away from the prediction without misses, in 9 of 10 pairs of a program and
    an allocator that one would deploy (time_model.CACHE_EFFECTS_PERCENT).
    """
    counts, machine = beside(file)
    made = prediction(list(results(pd.read_csv(counts).fillna(0), json.loads(machine.read_text()))), BASELINE)
    made = made[made["part"].isin((INSTRUCTIONS, FAULTS, CALLS))]
    counted = made.groupby(["workload", "allocator"])["percent"].sum()
    lived = pd.read_csv(file).set_index(["program", "allocator"])["live"]
    moved = (lived - counted.rename_axis(["program", "allocator"])).dropna()
    moved = moved.drop(index=["reference"], level="allocator").drop(index=["planted"], level="program")
    low, high = moved.quantile(0.05), moved.quantile(0.95)
    away = f"{low:+.1f} to {high:+.1f} points from the prediction"
    return f"Without misses: live was {away} in 9 of 10 of {len(moved)} pairs."


def show(rows: pd.DataFrame, csv: Path | None) -> None:
    """Prints the table and the summary; the rows into `csv`, too."""
    found = with_verdicts(rows)
    if csv:
        found.round(2).to_csv(csv, index=False)
    print(markdown(found))
    print()
    print(summary(found))


def main() -> None:
    """Prints the table and the summary, of all programs or of some."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.time.counts", description=__doc__)
    parser.add_argument("file", type=Path, help="the rows, with counts and costs beside")
    parser.add_argument("programs", nargs="*", help="default: all")
    parser.add_argument("--csv", type=Path, help="also write the rows there")
    arguments = parser.parse_args()
    show(again(arguments.file, arguments.programs), arguments.csv)
    print(cache_effects(arguments.file))


if __name__ == "__main__":
    main()
