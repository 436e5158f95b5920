# SPDX-License-Identifier: MIT
"""Cost of recording to the program in instructions, counted by callgrind:
python -m tests.bench.recording.host_instructions. Needs Valgrind; takes a minute. The loops' counts repeat exactly, on
a busy machine too; the programs' differ by a few percent, as threads interleave differently.

First table: each way through a hook (capture/bench/host_paths.c), recorded less bare. A loop is counted in batches of
two lengths, and of each length the median is taken, which contains no tick and no wrap of the ring; the difference is
the instructions of the additional rounds. Second table: whole programs, all instructions less those of a bare run, per
event; then, of a program that allocates nothing, in total. Under Valgrind threads run one at a time, about 50 times
slower, so ticks are more frequent by the same factor.
"""

import re
import subprocess
import tempfile
from pathlib import Path
from statistics import median

from tests.bench.harness import heading, row
from tests.support import OUT, RECORD, info, succeed, workload

PATHS = OUT / "bench" / "host_paths"
VARIANTS: dict[str, tuple[str, ...]] = {
    "default": (),
    "between bursts": ("--budget", "0.0000001%"),
    "--stamp every": ("--stamp", "every"),
    "--usable": ("--usable",),
    "--latency": ("--latency",),
    "--stacks=64": ("--stacks=64",),
    "... --unwind libunwind": ("--stacks=64", "--unwind", "libunwind"),
}
# Every free of xmalloc is remote; cfrac has one thread; larson's threads take over each other's objects.
PROGRAMS = {
    "cfrac": (workload("cfrac"), "--steps=40000", "--quiet=1"),
    "larson": (workload("larson"), "--rounds=4000", "--quiet=1"),
    "xmalloc": (workload("xmalloc"), "--batches=100", "--quiet=1"),
}
HEADING = re.compile(r"^desc: Trigger: Client Request: (.*):(\d+)$", re.MULTILINE)
TOTAL = re.compile(r"^totals: (\d+)", re.MULTILINE)


def callgrind(folder: Path, *options: str) -> list[str | Path]:
    """The start of a command that counts a program's instructions, into folder/count*."""
    return ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={folder}/count", *options]


def recorder(folder: Path, options: tuple[str, ...] | None) -> list[str | Path]:
    """The start of a command that records a program into folder/*.tape; options None: no recording."""
    return [] if options is None else [RECORD, "-o", folder / "t.tape", *options, "--"]


def per_round(folder: Path) -> dict[str, float]:
    """Loop -> instructions per round, from the dumps in folder."""
    found: dict[str, dict[int, list[int]]] = {}
    for path in sorted(folder.glob("count.*"), key=lambda path: int(path.suffix[1:])):
        text = path.read_text()
        named, total = HEADING.search(text), TOTAL.search(text)
        if not named or not total:
            continue
        found.setdefault(named[1], {}).setdefault(int(named[2]), []).append(int(total[1]))
    return {loop: slope({rounds: median(of) for rounds, of in counts.items()}) for loop, counts in found.items()}


def slope(counts: dict[int, float]) -> float:
    """Instructions per round: of the only length, or between two lengths."""
    few, many = min(counts), max(counts)
    return counts[few] / few if few == many else (counts[many] - counts[few]) / (many - few)


def loops(options: tuple[str, ...] | None) -> dict[str, float]:
    """Loop -> instructions per round, bare (options: None) or recorded."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        succeed(*recorder(folder, options), *callgrind(folder, "--collect-atstart=no"), PATHS)
        return per_round(folder)


def whole(program: tuple[str | Path, ...], options: tuple[str, ...] | None) -> tuple[int, int]:
    """Figures of one run: instructions, and events recorded (bare: 0)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        succeed(*recorder(folder, options), *callgrind(folder), *program)
        total = TOTAL.search((folder / "count").read_text())
        assert total
        return int(total[1]), max((info(tape)["events"] for tape in folder.glob("*.tape")), default=0)


def main() -> None:
    subprocess.run(["make", "-s", str(PATHS.relative_to(Path.cwd()))], check=True)
    bare = loops(None)
    recorded = [loops(options) for options in VARIANTS.values()]
    heading("instructions per round", "bare", *(f"{name}, over bare" for name in VARIANTS))
    for loop, count in bare.items():
        row(loop, f"{count:.0f}", *(f"{table[loop] - count:.0f}" for table in recorded))
    print()
    stamps = ("default", "--stamp every")
    heading("instructions per event over bare", *stamps)
    for name, program in PROGRAMS.items():
        without, _ = whole(program, None)
        runs = [whole(program, VARIANTS[stamp]) for stamp in stamps]
        row(name, *(f"{(count - without) / events:.1f}" for count, events in runs))
    start, bare_start = (whole(("/bin/true",), options)[0] for options in ((), None))
    print(f"\nstart-up of /bin/true: {start:,} instructions, {bare_start:,} bare")


if __name__ == "__main__":
    main()
