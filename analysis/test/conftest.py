"""What the tests of this folder share."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def out() -> Path:
    """The build directory."""
    return Path(os.environ.get("HEAPTAPE_OUT", ROOT / "out"))


@pytest.fixture(scope="session")
def write_random_trace(out):
    """Calls the C writer: (seed, events, path) -> what the C reader reads back, as CSV text."""
    program = out / "test-programs" / "write_random_trace"

    def write(seed, events, path):
        command = [program, str(seed), str(events), str(path)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    return write
