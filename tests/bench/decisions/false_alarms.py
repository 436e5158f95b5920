# SPDX-License-Identifier: MIT
"""Gates of an allocator against itself: how many raise an alarm, and which figures differ from run to run.

    .venv/bin/python -m tests.bench.decisions.false_alarms FOLDER [--gates N] [--workloads N] [--slice SPEC|none]
        [ALLOCATOR]...

Each gate takes the next N workloads of the corpus, cut to a slice that makes a gate short. FOLDER keeps the slices and
the results of each gate (gates.jsonl); a second start continues where the first ended. No times are measured, so other
work may run beside it. Exit status 1: there was an alarm.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from heaptape.common.home import default_home
from heaptape.gate import gate
from heaptape.gate.condition import DEFAULT, parse_tolerances
from heaptape.gate.gate import Pairing
from heaptape.run import registry

from tests.support import CONVERT, REPOSITORY, succeed

ALLOCATORS = ("glibc", "jemalloc", "tcmalloc", "mimalloc", "reference")
SLICE = "progress=0..20000"
HOME = default_home()


def tapes(folder: Path, cut: str) -> dict[str, Path]:
    """name -> recording of the corpus, cut to the slice."""
    found = gate.find([str(REPOSITORY / "workloads" / "corpus")])
    if cut == "none":
        return found
    (folder / cut).mkdir(parents=True, exist_ok=True)
    slices = {name: folder / cut / f"{name}.tape" for name in found}
    for name, tape in slices.items():
        if not tape.exists():
            succeed(CONVERT, "convert", "--slice", cut, found[name], tape)
    return slices


def in_turn(files: dict[str, Path], gate_number: int, count: int) -> dict[str, Path]:
    """That many of them, beginning where the previous gate ended."""
    names = list(files)
    wanted = {(gate_number * count + place) % len(names) for place in range(count)}
    return {names[place]: files[names[place]] for place in sorted(wanted)}


def one_gate(allocator: str, files: dict[str, Path], tolerate: str) -> list[dict]:
    """The comparisons of one gate, as docs/use/GATE.md defines them."""
    choice = registry.choose(allocator, registry.load(HOME))
    pairing = Pairing(choice, choice, parse_tolerances(tolerate))
    with tempfile.TemporaryDirectory(prefix="heaptape.") as scratch:
        results = gate.compare_all(files, pairing, HOME, Path(scratch))
    return [one.as_json(pairing.tolerances) for one in results]


def figures(rows: list[dict]) -> Iterator[dict]:
    """A row for each figure that was compared: do the first two runs, one of each side, differ, and by how much?"""
    for row in rows:
        for workload in row["workloads"]:
            for name, figure in workload["figures"].items():
                old, new = figure["old"][0], figure["new"][0]
                yield {
                    "allocator": row["allocator"],
                    "figure": name,
                    "workload": workload["name"],
                    "differs": old != new,
                    "percent": 100 * abs(new - old) / (min(old, new) or 1),
                    "noise": figure["verdict"] == "noise",
                    "worse": figure["verdict"] == "worse",
                }


def table(rows: list[dict]) -> pd.DataFrame:
    """A row for each allocator and figure: comparisons, those whose two runs differ, the largest difference and its
    workload, those that were run again and passed (noise), alarms.
    """
    made = []
    for (allocator, figure), part in pd.DataFrame(figures(rows)).groupby(["allocator", "figure"], sort=False):
        widest = part.loc[part["percent"].idxmax()]
        made.append(
            {
                "allocator": allocator,
                "figure": figure,
                "compared": len(part),
                "differ": int(part["differs"].sum()),
                "most, %": round(widest["percent"], 2),
                "in": widest["workload"] if widest["differs"] else "",
                "noise": int(part["noise"].sum()),
                "alarms": int(part["worse"].sum()),
            }
        )
    return pd.DataFrame(made)


def alarms(rows: list[dict]) -> list[str]:
    """A line for each workload of a gate that failed."""
    return [
        f"alarm: {row['allocator']}, gate {row['gate']}, {workload['name']}: {_why(workload)}"
        for row in rows
        for workload in row["workloads"]
        if workload["failed"]
    ]


def _why(workload: dict) -> str:
    figures = {name: one for name, one in workload["figures"].items() if one["verdict"] == "worse"}
    changes = [f"{name} {one['old']} {one['new']}" for name, one in figures.items()]
    return "; ".join(filter(None, [*changes, *workload["errors"], workload["broken"]["new"]]))


def measure(arguments: argparse.Namespace) -> list[dict]:
    """All gates: reads those that are kept, and measures those that are missing."""
    files = tapes(arguments.folder, arguments.slice)
    count = min(arguments.workloads or len(files), len(files))
    about = {"slice": arguments.slice, "tolerate": arguments.tolerate, "count": count}
    kept = arguments.folder / "gates.jsonl"
    rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    there = {(row["allocator"], row["gate"]) for row in rows if row["about"] == about}
    for number in range(arguments.gates):
        for allocator in arguments.allocators:
            if (allocator, number) in there:
                continue
            found = one_gate(allocator, in_turn(files, number, count), arguments.tolerate)
            rows.append({"about": about, "allocator": allocator, "gate": number, "workloads": found})
            with kept.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
            print(*alarms(rows[-1:]), f"{allocator}: gate {number + 1} of {arguments.gates}", sep="\n", flush=True)
    return [row for row in rows if row["about"] == about]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("allocators", nargs="*", default=ALLOCATORS, metavar="ALLOCATOR")
    parser.add_argument("--gates", type=int, default=20, help="of each allocator (default %(default)s)")
    parser.add_argument("--workloads", type=int, default=4, help="of each gate; 0: all (default %(default)s)")
    parser.add_argument("--slice", default=SLICE, help="as heaptape convert takes it (default %(default)s)")
    parser.add_argument("--tolerate", default=DEFAULT, help="as heaptape gate takes it (default %(default)s)")
    arguments = parser.parse_intermixed_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    rows = measure(arguments)
    failed = alarms(rows)
    print(table(rows).to_string(index=False), *failed, sep="\n")
    print(f"{len(rows)} gates, {len({line.rpartition(', ')[0] for line in failed})} with an alarm")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
