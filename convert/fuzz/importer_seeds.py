# SPDX-License-Identifier: MIT
"""Seeds for the importers' fuzzer, from their samples: importer_seeds.py CORPUS fills CORPUS/fuzz_import/."""

import gzip
import sys
import tempfile
from pathlib import Path

import zstandard

from convert.test.formats.importer_samples import FORMAT_OF, sample

MORE = {
    "text": b"# heaptape-text 1\n0 0 malloc(24) = 0x10\n30+5 1 realloc(0x10, 9) = 0x20\n- 1 free(0x20)\n",
    "columns": b'op,size\nmalloc,24,0x10,,,,1.5,7\nrealloc,9,0x20,0x10,,,2\n"free",,0x20\nmemalign;8;16;;;64;4;\n',
    "android": b"7: malloc 0x10 24 1 2\n7: calloc 0x20 3 8 3 4\n9: realloc 0x30 0x10 5 5 6\n7: thread_done 0x0 7 8\n",
}


def fill(corpus: Path) -> None:
    """Writes each sample, after its format's name, plain and packed."""
    target = corpus / "fuzz_import"
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        samples = [(name, sample(file, Path(folder)).read_bytes()) for file, name in FORMAT_OF.items()]
    for number, (name, content) in enumerate([*MORE.items(), *samples]):
        for pack in (bytes, gzip.compress, zstandard.compress):
            (target / f"seed-{number}-{pack.__name__}").write_bytes(name.encode() + b"\n" + pack(content))


if __name__ == "__main__":
    fill(Path(sys.argv[1]))
