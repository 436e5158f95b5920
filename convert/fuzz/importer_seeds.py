# SPDX-License-Identifier: MIT
"""Seeds for the importers' fuzzers, from their samples: importer_seeds.py CORPUS fills CORPUS/fuzz_import*/."""

import gzip
import sys
import tempfile
from pathlib import Path

import zstandard

from convert.test.importer_samples import BINARY, DATA, TEXT, sample

# In the order of fuzz_import.c, whose first byte chooses.
LINE_FORMATS = ["text", "android", "mtrace", "rep", "kdump", "lttng", "valgrind", "memray", "ltrace"]
OWN_TARGET = ["heaptrack", *BINARY]
MORE = {
    "text": b"# heaptape-text 1\n0 0 malloc(24) = 0x10\n30+5 1 realloc(0x10, 9) = 0x20\n- 1 free(0x20)\n",
    "android": b"7: malloc 0x10 24 1 2\n7: calloc 0x20 3 8 3 4\n9: realloc 0x30 0x10 5 5 6\n7: thread_done 0x0 7 8\n",
}


def fill(corpus: Path) -> None:
    """Writes each seed into the folder of its target."""
    seeds: list[tuple[str, bytes]] = list(MORE.items())
    seeds += [(name, (DATA / file).read_bytes()) for file, name in TEXT.items()]
    with tempfile.TemporaryDirectory() as folder:
        seeds += [(name, sample(f"sample.{name}", Path(folder)).read_bytes()) for name in BINARY]
    for number, (name, content) in enumerate(seeds):
        own = name in OWN_TARGET
        target = corpus / (f"fuzz_import_{name}" if own else "fuzz_import")
        target.mkdir(parents=True, exist_ok=True)
        chooser = b"" if own else bytes([LINE_FORMATS.index(name)])
        (target / f"seed-{number}").write_bytes(chooser + content)
        if own:
            (target / f"seed-{number}.gz").write_bytes(gzip.compress(content, mtime=0))
            (target / f"seed-{number}.zst").write_bytes(zstandard.compress(content))


if __name__ == "__main__":
    fill(Path(sys.argv[1]))
