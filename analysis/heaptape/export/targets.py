# SPDX-License-Identifier: MIT
"""`heaptape convert` to the formats that are written in Python: their list, and the conversion.

Imported for the list alone, too, where NumPy is not installed (packaging/reference), so the writers are imported where
they are used.
"""

import argparse
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.common.output import whole_path

if TYPE_CHECKING:
    from heaptape.tape.trace import Trace

SUFFIXES = {".parquet": "parquet", ".h5": "hdf5", ".hdf5": "hdf5", ".pb.gz": "pprof", ".folded": "folded"}


def _writers(home: Home) -> "dict[str, Callable[[Trace, Path], None]]":
    from heaptape.export.stacks import write_folded, write_pprof
    from heaptape.export.tables import write_parquet
    from heaptape.export.timeline import write_timeline

    return {
        "parquet": write_parquet,
        "hdf5": _write_hdf5,
        "pprof": lambda trace, path: write_pprof(trace, path, home),
        "folded": lambda trace, path: write_folded(trace, path, "alloc_space", home),
        "folded-objects": lambda trace, path: write_folded(trace, path, "alloc_objects", home),
        "folded-leaks": lambda trace, path: write_folded(trace, path, "inuse_space", home),
        "chrome": write_timeline,
    }


def _write_hdf5(trace: "Trace", path: Path) -> None:
    try:
        from heaptape.export.hdf5 import write_hdf5
    except ImportError as error:
        raise HeaptapeError("hdf5: its Python package is missing: pip install 'heaptape[export]'") from error
    write_hdf5(trace, path)


DESCRIPTIONS = {
    "parquet": "Parquet, a folder of files partitioned by thread",
    "hdf5": "HDF5",
    "pprof": "pprof's protobuf: bytes and objects by call stack",
    "folded": "folded stacks, by bytes requested",
    "folded-objects": "folded stacks, by calls",
    "folded-leaks": "folded stacks, by bytes never freed",
    "chrome": "a time line as JSON, for Perfetto and chrome://tracing",
}
NAMES = tuple(DESCRIPTIONS)


def wanted(arguments: Sequence[str]) -> bool:
    """Does `heaptape convert ARGUMENTS` write one of these formats? By --to, else by the name of OUT."""
    for word, value in zip(arguments, [*arguments[1:], ""]):
        if word == "--to" or word.startswith("--to="):
            return (value if word == "--to" else word[5:]) in NAMES
    return len(arguments) > 1 and arguments[-1].endswith(tuple(SUFFIXES))


def convert(arguments: Sequence[str], home: Home) -> int:
    """Runs the command. For options and input that it does not handle (--slice, foreign input), heaptape-convert runs
    first.
    """
    from heaptape.tape.trace import open_trace

    parser = argparse.ArgumentParser(prog="heaptape convert", add_help=False)
    parser.add_argument("--to")
    known, rest = parser.parse_known_args(arguments)
    *before, out = rest
    name = known.to or next(SUFFIXES[s] for s in SUFFIXES if out.endswith(s))
    if not before:
        raise HeaptapeError("convert needs IN and OUT")
    with tempfile.NamedTemporaryFile(suffix=".tape") as temporary:
        source = before[-1]
        if len(before) > 1 or not _is_tape(source):
            done = subprocess.run([home.program("convert"), "convert", *before, temporary.name], check=False)
            if done.returncode != 0:
                raise HeaptapeError("")  # heaptape-convert has reported why
            source = temporary.name
        with open_trace(source) as trace, whole_path(Path(out)) as path:
            _writer(name, home)(trace, path)
    return 0


def _writer(name: str, home: Home) -> "Callable[[Trace, Path], None]":
    try:
        return _writers(home)[name]
    except ImportError as error:
        raise HeaptapeError(f"{name}: the Python package {error.name} is not installed") from error


def _is_tape(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return file.read(8) == b"HEAPTAPE"
    except OSError:
        return False
