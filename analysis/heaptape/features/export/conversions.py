# SPDX-License-Identifier: MIT
"""`heaptape convert` to the formats that are written in Python: their list, the conversion, and the time line.

The time line is for Perfetto (ui.perfetto.dev) and chrome://tracing: live bytes, the process's memory, marks, and each
thread's time of activity. Chrome's trace event format, JSON; times in microseconds. Memory is O(points).
"""

import argparse
import json
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.common.output import whole_path
from heaptape.common.phrases import illegal_history

if TYPE_CHECKING:
    import numpy as np

    from heaptape.tape.trace import Trace

POINTS = 2000  # of the curve of live bytes
COUNTERS = ("rss_anon_bytes", "rss_file_bytes", "vm_size_bytes")


def _change(trace: "Trace", points: int) -> "tuple[np.ndarray, np.ndarray, dict[int, tuple[int, int]]]":
    """Ends of equal spans of time in ns, bytes requested less bytes released in each, and each thread's first and last
    time. A release's bytes are the request of the last acquire of its address, in file order.
    """
    import numpy as np

    from heaptape.tape.trace import first_stamps, times_ns

    end_ns = int(times_ns(trace, np.array([trace.last_stamp], np.uint64))[0]) + 1
    change = np.zeros(points)
    active: dict[int, tuple[int, int]] = {}
    size: dict[int, float] = {}
    for batch in trace.events():
        time = times_ns(trace, first_stamps(batch))
        thread = int(batch.column("thread")[0].as_py())
        first, last = active.get(thread, (int(time[0]), 0))
        active[thread] = first, max(last, int(time[-1]))
        got = batch.column("acquired_address").is_valid().to_numpy(zero_copy_only=False)
        request = batch.column("request_bytes").fill_null(0).to_numpy(zero_copy_only=False).astype(float)
        place = np.minimum(time * points // end_ns, points - 1)
        np.add.at(change, place[got], request[got])
        lost = batch.column("releases").to_numpy(zero_copy_only=False)
        freed = np.zeros(len(time))
        acquired = batch.column("acquired_address").to_pylist()
        released = batch.column("released_address").to_pylist()
        for i in np.flatnonzero(got | lost).tolist():
            if lost[i]:
                freed[i] = size.pop(released[i], 0)
            if got[i]:
                size[acquired[i]] = request[i]
        np.add.at(change, place[lost], -freed[lost])
    return (np.arange(points) + 1) * (end_ns / points), change, active


def write_timeline(trace: "Trace", path: Path) -> None:
    """Writes the JSON. Raises OSError."""
    import numpy as np

    from heaptape.tape.trace import times_ns

    ends_ns, change, active = _change(trace, POINTS)
    pid = int(trace.info.get("pid") or 1)
    name = trace.info.get("program") or "recording"
    out: list[dict] = [{"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}]
    for at, live in zip(ends_ns, np.cumsum(change)):
        out.append({"ph": "C", "pid": pid, "ts": at / 1e3, "name": "live bytes", "args": {"bytes": int(max(live, 0))}})
    samples = trace.samples()
    for i, at in enumerate(times_ns(trace, samples["stamp"].to_numpy(np.uint64)) if len(samples) else ()):
        for counter in COUNTERS:
            if counter in samples:
                value = int(samples[counter].iloc[i])
                out.append({"ph": "C", "pid": pid, "ts": at / 1e3, "name": counter, "args": {"bytes": value}})
    marks = trace.marks()
    for i, at in enumerate(times_ns(trace, marks["stamp"].to_numpy(np.uint64)) if len(marks) else ()):
        mark = marks.iloc[i]
        out.append({"ph": "i", "pid": pid, "tid": int(mark["thread"]), "ts": at / 1e3, "s": "p", "name": mark["text"]})
    names = trace.thread_names()
    for thread, (first, last) in sorted(active.items()):
        label = names.get(thread, f"thread {thread}")
        out.append({"ph": "M", "pid": pid, "tid": thread, "name": "thread_name", "args": {"name": label}})
        span = max(last - first, 1) / 1e3
        out.append({"ph": "X", "pid": pid, "tid": thread, "ts": first / 1e3, "dur": span, "name": "allocates"})
    path.write_text(json.dumps({"traceEvents": out, "displayTimeUnit": "ns"}))


SUFFIXES = {".parquet": "parquet", ".h5": "hdf5", ".hdf5": "hdf5", ".pb.gz": "pprof", ".folded": "folded"}


def _writers(home: Home) -> "dict[str, Callable[[Trace, Path], None]]":
    from heaptape.features.export.conversions import write_timeline
    from heaptape.features.export.stacks import write_folded, write_pprof
    from heaptape.features.export.tables import write_parquet

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
        import h5py  # noqa: F401
    except ImportError as error:
        raise HeaptapeError("hdf5: Python package h5py is not installed (pip install 'heaptape[export]')") from error
    from heaptape.features.export.tables import write_hdf5

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
    from heaptape.common.console import warning
    from heaptape.tape.trace import open_trace

    parser = argparse.ArgumentParser(prog="heaptape convert", add_help=False)
    parser.add_argument("--to")
    known, rest = parser.parse_known_args(arguments)
    *before, out = rest
    name = known.to or next(SUFFIXES[s] for s in SUFFIXES if out.endswith(s))
    if not before:
        raise HeaptapeError("convert needs IN and OUT")
    program = str(home.program("convert"))
    with tempfile.NamedTemporaryFile(suffix=".tape") as temporary:
        source = before[-1]
        if len(before) > 1 or not _is_tape(source):
            status = subprocess.run([program, "convert", *before, temporary.name], check=False).returncode
            if status != 0 and not _is_tape(temporary.name):
                raise HeaptapeError("")  # heaptape-convert has reported why
            source = temporary.name
        else:
            status = subprocess.run([program, "check", source], stdout=subprocess.DEVNULL, check=False).returncode
            if status != 0:
                warning(illegal_history(source))
        with open_trace(source) as trace, whole_path(Path(out)) as path:
            _writer(name, home)(trace, path)
    return status


def _writer(name: str, home: Home) -> "Callable[[Trace, Path], None]":
    try:
        return _writers(home)[name]
    except ImportError as error:
        what = f"{name}: Python package {error.name} is not installed (pip install 'heaptape[events]')"
        raise HeaptapeError(what) from error


def _is_tape(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return file.read(8) == b"HEAPTAPE"
    except OSError:
        return False
