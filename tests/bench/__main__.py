# SPDX-License-Identifier: MIT
"""`make bench`: measures the project's targets and prints a Markdown table. About 20 minutes on two cores.

`python -m tests.bench [PART ...]`: only recording, reading, reference_allocator.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench import reading, recording, reference_allocator
from tests.bench.harness import heading
from tests.support import REPOSITORY

PARTS = {"recording": recording, "reading": reading, "reference_allocator": reference_allocator}


def main() -> None:
    """Prints the table."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in lines if "model name" in line), "unknown")
    described = ["git", "describe", "--always", "--dirty"]
    commit = subprocess.run(described, cwd=REPOSITORY, capture_output=True, text=True, check=False).stdout.strip()
    print(f"Machine: {model}, {os.cpu_count()} CPUs, Linux {os.uname().release}. Commit {commit}.\n")
    heading("measure", "value", "target", "")
    for name in sys.argv[1:] or PARTS:
        with tempfile.TemporaryDirectory(prefix="heaptape-bench-") as folder:
            PARTS[name].print_rows(Path(folder))


if __name__ == "__main__":
    main()
