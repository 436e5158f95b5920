# SPDX-License-Identifier: MIT
"""Cost of recording allocators in the executable, in instructions: python -m tests.bench.recording.linked_instructions.
Counted by single steps (capture/bench/linked_paths.c), recorded less bare; repeats exactly. Takes ten seconds.
"""

import tempfile
from pathlib import Path

from tests.bench.harness import heading, row
from tests.support import REPOSITORY, compile_c, record, succeed

LIBRARIES = {"jemalloc": "libjemalloc.a", "tcmalloc": "libtcmalloc_minimal.a"}
FOLDER = Path("/usr/lib/x86_64-linux-gnu")


def counts(text: str) -> dict[str, float]:
    return {loop: float(count) for loop, count in (line.split(":") for line in text.splitlines())}


def over_bare(library: str) -> dict[str, float]:
    """Loop -> instructions per round of a program with that static library."""
    with tempfile.TemporaryDirectory() as name:
        options = ("-O2", "-no-pie", f"-I{REPOSITORY}", FOLDER / library, "-lstdc++", "-lm", "-pthread")
        program = compile_c(Path(name) / "paths", REPOSITORY / "capture/bench/linked_paths.c", *options)
        bare = counts(succeed(program).stdout)
        recorded = counts(record(Path(name) / "t.tape", program, "recorded").stdout)
    return {loop: recorded[loop] - count for loop, count in bare.items()}


def main() -> None:
    found = [over_bare(library) for library in LIBRARIES.values()]
    heading("instructions per round", *LIBRARIES)
    for loop in found[0]:
        row(loop, *(f"{table[loop]:.0f}" for table in found))


if __name__ == "__main__":
    main()
