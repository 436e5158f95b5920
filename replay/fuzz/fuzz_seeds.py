# SPDX-License-Identifier: MIT
"""Seeds of fuzz_origins: valid origins files. `python -m replay.fuzz.fuzz_seeds FOLDER` writes them there."""

import sys
from pathlib import Path

from replay.test.passes.origins_file import NOTHING_BORN, origins

BORN = (0, NOTHING_BORN, 1, 2, NOTHING_BORN, 1)


def fill(folder: Path) -> None:
    """Writes them into folder/fuzz_origins/."""
    seeds = folder / "fuzz_origins"
    seeds.mkdir(parents=True, exist_ok=True)
    workload = seeds / "whole"
    workload.write_bytes(bytes(256))  # its checksum is read; the target corrects it
    files = {
        "empty": origins(workload, ()),
        "sites": origins(workload, BORN, (0, 1, 1)),
        "marks": origins(workload, BORN[:5], (0, 1, 2), (0, 3, 3, 5)),
        "text": origins(workload, BORN, (0, 1, 1), (2,), b'{"sites": [{"frames": [-1, 7, "a"]}, 3, {}], "marks": [{}], '
                        b'"functions": ["a", {}], "frames": [{}], "lacks": 1}'),
    }  # fmt: skip
    workload.unlink()
    for name, content in files.items():
        (seeds / name).write_bytes(content)


if __name__ == "__main__":
    fill(Path(sys.argv[1]))
