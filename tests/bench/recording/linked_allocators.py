# SPDX-License-Identifier: MIT
"""Cost of recording to a program whose allocator is linked into it, beside the same program and allocator as a library:
python -m tests.bench.recording.linked_allocators [PAIRS]. Needs libjemalloc-dev; takes a minute.

Bare and recorded runs alternate. CPU time is the program's own, as in host_cpu.py; a figure is the median over the
pairs of the difference, per event.
"""

import sys
import tempfile
from pathlib import Path

from tests.bench.recording.host_cpu import Subject, measure
from tests.support import compile_c

LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
LOOP = """
#include <stdlib.h>
#include <string.h>
enum { OBJECTS = 1024, ROUNDS = 10000 };
static void *objects[OBJECTS];
int main(void) {
  for (int round = 0; round < ROUNDS; round++)
    for (int i = 0; i < OBJECTS; i++) {
      free(objects[i]);
      objects[i] = malloc((size_t)(i * 7 + round) % 500);
    }
  return 0;
}
"""
LINKED: dict[str, tuple[str | Path, ...]] = {
    "library": (LIBRARIES / "libjemalloc.so.2",),
    "executable": (LIBRARIES / "libjemalloc_pic.a", "-lstdc++", "-lm", "-pthread"),
}


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    print("| jemalloc in the | host CPU ns per event | bytes per event |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for place, linked in LINKED.items():
            program = compile_c(folder / f"in_{place}", LOOP, "-O1", *linked)
            cost = measure(Subject(program.name, (str(program),), pairs), folder)
            print(f"| {place} | {cost.median_ns:.1f} | {cost.bytes_per_event:.2f} |")


if __name__ == "__main__":
    main()
