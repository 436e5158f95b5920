# SPDX-License-Identifier: MIT
"""Results files (R.json): reads them, and turns their runs into one long table of figures.

Only the keys of the results schema are needed, and each of them may be missing: a table published elsewhere can be
written as results and compared. A missing figure stays missing; it never becomes zero.
"""

import gc
import json
import statistics
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
import pandas as pd

from heaptape.common import console
from heaptape.common.checked import checked
from heaptape.common.errors import HeaptapeError
from heaptape.common.output import file_bytes
from heaptape.results.latency import latency
from heaptape.results.memory_map import CompactMap, decode, without_gaps
from heaptape.results.structs import (
    SYSTEM_CALLS,
    WALL_TIME,
    ResultsFile,
    Run,
    Workload,
    label,
    number,
    timeline_frame,
    timeline_of,
)
from heaptape.tape.embedded import is_page, unpack

if TYPE_CHECKING:
    from collections.abc import Callable

_Decoded = TypeVar("_Decoded")
ANY = ""  # in place of a pass: any other whose runs have the figure
MEMORY_PASSES = ("memory", ANY)
# metric -> (key in a run, unit, passes that measure it best first)
RUN_METRICS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "total_instructions": ("instructions_total", "instructions", ("instructions",)),
    "string_instructions": ("string_instructions", "instructions", ("instructions",)),
    "string_bytes": ("string_bytes", "bytes", ("instructions",)),
    "startup_instructions": ("startup_instructions", "instructions", ("instructions",)),
    "total_cycles": ("cycles_total", "cycles", ("time",)),
    "peak_rss": ("rss_anon_peak_bytes", "bytes", MEMORY_PASSES),
    "mean_rss": ("rss_anon_mean_bytes", "bytes", MEMORY_PASSES),
    "vm_size": ("vm_size_peak_bytes", "bytes", MEMORY_PASSES),
    "page_faults": ("page_faults", "faults", MEMORY_PASSES),
    "bare_wall": ("wall_ns", "ns", ("bare",)),
    "bare_cpu": ("cpu_ns", "ns", ("bare",)),
}
# metric -> key in a memory run's "held"
# Figures of the workload, the same for all allocators.
OF_WORKLOAD = ("ideal_rss", "achievable_rss")
HELD_METRICS = {"held_rss": "rss_anon_bytes", "purged_rss": "purged_rss_anon_bytes"}


class Results:
    """One results file. `parsed`: the JSON as types; `data`: the same as it stands in the file, decoded when asked for;
    `measured`: the runs that are not failures.
    """

    def __init__(self, path: str, content: dict | bytes | ResultsFile) -> None:
        """`content`: the JSON object, or its text; or what was made of it."""
        self.path, self._content = path, content

    @cached_property
    def data(self) -> dict:
        if isinstance(self._content, dict):
            return self._content
        if isinstance(self._content, ResultsFile):
            return dict(msgspec.to_builtins(self._content))
        with _no_collection():
            return json.loads(self._content)

    @cached_property
    def parsed(self) -> ResultsFile:
        """Raises HeaptapeError if the data has not the shape of results."""
        if isinstance(self._content, ResultsFile):
            return self._content
        if isinstance(self._content, bytes):
            try:
                return msgspec.json.decode(self._content, type=ResultsFile)
            except (msgspec.MsgspecError, UnicodeError, RecursionError):
                pass  # what is wrong is said below, in the words for data of any source; and JSON may have NaN
        if isinstance(self.data, dict) and "runs" not in self.data:
            raise HeaptapeError(f"{self.path}: not a results file of 'heaptape replay' (no runs)")
        return checked(self.path, self.data, ResultsFile)

    @property
    def measured(self) -> list[Run]:
        return [run for run in self.parsed.runs if run.error is None]

    @property
    def is_replay(self) -> bool:
        """Were these results made by replaying? A table published elsewhere does not have our errors."""
        return self.parsed.heaptape is not None

    @property
    def failures(self) -> list[Run]:
        """Runs that failed: they have an `error`."""
        return [run for run in self.parsed.runs if run.error is not None]

    @property
    def workload(self) -> Workload:
        return self.parsed.workload or Workload()

    @property
    def mean_over_calls(self) -> bool:
        """Is a mean of memory over calls, as the workload has no times, not over wall time?"""
        return any(run.rss_anon_mean_bytes is not None and run.mean_over != WALL_TIME for run in self.measured)

    @property
    def name(self) -> str:
        """The workload's name, or the file's if it has none."""
        return console.printable(str(self.workload.name or Path(self.path).stem))

    @property
    def labels(self) -> list[str]:
        """Allocators in the order in which they were chosen (or first ran, if the file does not have that order)."""
        chosen = [label(one.name, one.variant) for one in self.parsed.allocators or []]
        return list(dict.fromkeys(chosen + [run.label for run in self.parsed.runs]))

    @cached_property
    def _figures(self) -> pd.DataFrame:
        """The figures, without the names of workload and round."""
        rows = [
            (run.label, str(run.repeat or 0), metric, unit, value) for metric, unit, run, value in _file_figures(self)
        ]
        return pd.DataFrame(rows, columns=["allocator", "repeat", "metric", "unit", "value"]).astype({"value": float})

    @cached_property
    def _means(self) -> dict[str, dict[str, float]]:
        means = self._figures.groupby(["allocator", "metric"], sort=False)["value"].mean()
        return {str(name): one.droplevel(0).to_dict() for name, one in means.groupby(level=0, sort=False)}

    def means(self, label: str) -> dict[str, float]:
        """metric of `figures` -> the allocator's mean over the repetitions."""
        return self._means.get(label, {})

    def figures(self) -> pd.DataFrame:
        """Every figure of every run, one per row: `figures`."""
        return figures([self])

    def calls(self) -> pd.DataFrame:
        """Latency per allocator and call type, in cycles: `call_details`."""
        return call_details([self])

    def timelines(self) -> "dict[str, pd.DataFrame]":
        """Memory over progress with its exact peak, of each allocator's first memory pass: position (ops),
        rss_anon_bytes, vm_size_bytes, live_bytes. Allocators without one are left out.
        """
        return {name: timeline_frame(timeline_of(run)) for name, run in self.first_runs("timeline").items()}

    def memory_maps(self) -> "dict[str, CompactMap]":
        """Fullness of each region of the address space over progress, of each allocator's first memory pass. Raises
        HeaptapeError for a malformed one.
        """
        return self.decoded(
            "memory_map", lambda run: without_gaps(decode(run.memory_map, run.label)) if run.memory_map else None
        )

    @property
    def experiment_labels(self) -> set[str]:
        """Labels of runs that `heaptape whatif` made of rewritten workloads."""
        return {label for one in self.parsed.whatif or [] for label in one.labels.values()}

    def first_runs(self, key: str) -> dict[str, Run]:
        """By allocator, in order: its first run that has something under that key."""
        found = {run.label: run for run in reversed(self.measured) if getattr(run, key)}
        return {name: found[name] for name in self.labels if name in found}

    def decoded(self, key: str, decode: "Callable[[Run], _Decoded | None]") -> "dict[str, _Decoded]":
        """By allocator, in order: what `decode` makes of its first run that has something under that key, if anything.
        A HeaptapeError that it raises names the file, too.
        """
        try:
            made = {name: decode(run) for name, run in self.first_runs(key).items()}
        except HeaptapeError as error:
            raise HeaptapeError(f"{self.path}: {error}") from error
        return {name: one for name, one in made.items() if one is not None}


def results(path: str | Path) -> Results:
    """Reads the results of one workload: a results file, or a report that holds them; `-` is standard input.

    Raises HeaptapeError (naming the file) if it is neither, or a report of several workloads (`all_results` reads
    those), OSError if it can't be read.

    >>> import heaptape
    >>> result = heaptape.results("small.json")
    >>> result.name, result.labels[:2], len(result.figures()) > 100
    ('small', ['glibc', 'jemalloc'], True)
    >>> timeline = result.timelines()["glibc"]
    >>> list(timeline.columns), int(timeline["position"].iloc[-1])
    (['position', 'rss_anon_bytes', 'vm_size_bytes', 'live_bytes'], 1000000)
    """
    found = all_results(path)
    if len(found) > 1:
        names = ", ".join(file.name for file in found)
        raise HeaptapeError(f"{path}: holds the results of {len(found)} workloads ({names}): use heaptape.all_results")
    return found[0]


def all_results(path: str | Path) -> list[Results]:
    """Reads a results file, or all results that a report holds, in its order. Raises like `results`."""
    text = sys.stdin.buffer.read() if path == "-" else file_bytes(path)
    contents: Iterable[dict | bytes] = [text]
    if is_page(text):
        with _no_collection():
            contents = list(unpack(str(path), text))
    found = [Results(str(path), content) for content in contents]
    try:
        for one in found:
            _ = one.parsed  # refuses what are no results
    except (ValueError, RecursionError) as error:
        where = f"offset {error.pos}: " if isinstance(error, json.JSONDecodeError) else ""
        raise HeaptapeError(f"{path}: {where}not a results file (no JSON)") from error
    return found


@contextmanager
def _no_collection() -> Iterator[None]:
    """Disables the search for cycles, of which JSON has none: it would take two thirds of the reading time."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def figures(files: Iterable[Results]) -> pd.DataFrame:
    """Every figure of every run, one per row.

    Columns: workload, allocator (label), round (file and repetition: figures of one round were measured next to one
    another), metric, unit, value (float). Metrics: those of RUN_METRICS, "calls/NAME" (mean cycles per
    call), "instructions/NAME" (mean instructions per call), "pmu/NAME" (processor's counters per op, less the
    engine's), "syscalls/NAME" and "syscall_bytes/NAME", those of `Run.figures`, "ideal_rss" (the workload's, the same
    for all).
    A metric is taken from the pass that measures it best. Two files of one workload (name and hash)
    count as more repetitions of it.
    """
    names: dict[tuple, str] = {}
    parts = [
        file._figures.assign(workload=unique_name(file, names), round=f"{at}:" + file._figures["repeat"])
        for at, file in enumerate(files)
    ]
    columns = ["workload", "allocator", "round", "metric", "unit", "value"]
    parts = [part for part in parts if len(part)] or parts[:1]
    if not parts:
        return pd.DataFrame(columns=columns).astype({"value": float})
    return pd.concat(parts, ignore_index=True)[columns]


def latencies(files: Iterable[Results], classes: bool = True) -> pd.DataFrame:
    """`results.latency` of all runs of the files."""
    names: dict[tuple, str] = {}
    return latency(((unique_name(file, names), run) for file in files for run in file.measured), classes)


def call_details(files: Iterable[Results]) -> pd.DataFrame:
    """`latencies` by call type, of all sizes together."""
    return latencies(files, classes=False).drop(columns="up_to_bytes")


def _file_figures(file: Results) -> Iterator[tuple[str, str, Run, float | None]]:
    own = _engines_own(file)
    for metric, (key, unit, passes) in RUN_METRICS.items():
        for run in _runs_of_pass(file, passes, key):
            value = number(getattr(run, key))
            if metric in own and value is not None and run.ops:
                value -= own[metric] * run.ops
                if value <= 0:  # no more than the engine itself
                    continue
            yield metric, unit, run, value
    for run in _runs_of_pass(file, ("time",), "calls"):
        for call, detail in (run.calls or {}).items():
            mean = number(detail.mean)
            if mean is not None and detail.count != 0:
                yield f"calls/{call}", "cycles", run, mean
    for run in _runs_of_pass(file, MEMORY_PASSES, "held"):
        for metric, key in HELD_METRICS.items():
            value = number(getattr(run.held, key))
            if value is not None:
                yield metric, "bytes", run, value
    for run in _runs_of_pass(file, ("bare",), "counters"):
        yield from _counters(run)
    for run in file.measured:
        if run.pass_ == "instructions":
            for call, detail in (run.calls or {}).items():
                mean = number(detail.instructions_mean)
                if mean is not None:
                    yield f"instructions/{call}", "instructions", run, mean
        for metric, unit, value in run.figures():
            yield metric, unit, run, value
    for key, unit in (("syscalls", "calls"), ("syscall_bytes", "bytes")):
        for run in _runs_of_pass(file, MEMORY_PASSES, key):
            for name in SYSTEM_CALLS:
                value = number(getattr(run, key).get(name))
                if value is not None:
                    yield f"{key}/{name}", unit, run, value
    for metric, value in zip(OF_WORKLOAD, (file.workload.ideal_rss_bytes, file.workload.achievable_bytes)):
        bound = number(value)
        if bound is not None:
            for run in {run.label: run for run in file.measured}.values():
                yield metric, "bytes", run, bound


def _engines_own(file: Results) -> dict[str, float]:
    """metric -> what the engine itself takes per op, in ns: medians over the bare runs, with the null allocator."""
    runs = [run for run in file.measured if run.pass_ == "bare"]
    found = {
        "bare_wall": [number(run.engine_wall_ns_per_op) for run in runs],
        "bare_cpu": [_ns(run.engine_cycles_per_op, run.cycles_hz) for run in runs],
    }
    known = {metric: [value for value in values if value is not None] for metric, values in found.items()}
    return {metric: statistics.median(values) for metric, values in known.items() if values}


def _ns(cycles: float | None, cycles_hz: float | None) -> float | None:
    return number(1e9 * cycles / cycles_hz) if cycles is not None and cycles_hz else None


def _counters(run: Run) -> Iterator[tuple[str, str, Run, float]]:
    """The processor's counters per op, less the engine's own (with the null allocator)."""
    own = run.engine_counters_per_op or {}
    for name, count in (run.counters or {}).items():
        value, engine = number(count), number(own.get(name))
        if name != "task_clock_ns" and run.ops and value is not None and engine is not None:
            yield f"pmu/{name}", "events per op", run, max(value / run.ops - engine, 0.0)


def _runs_of_pass(file: Results, passes: tuple[str, ...], key: str) -> list[Run]:
    """Runs that have the key, of the first pass that has such a run. A run without a pass counts for any pass."""
    having = [run for run in file.measured if _has(run, key)]
    for wanted in passes:
        first = next((run.pass_ for run in having if run.pass_), None) if wanted == ANY else wanted
        found = [run for run in having if run.pass_ in (None, "", first)]
        if found:
            return found
    return []


def _has(run: Run, key: str) -> bool:
    value = getattr(run, key)
    return number(value) is not None if isinstance(value, float | int) else value is not None


def unique_name(file: Results, names: dict[tuple, str]) -> str:
    """The workload's name, followed by a number if another workload of this comparison has the same name."""
    identity = (file.name, file.workload.sha256 or None)
    if identity not in names:
        same = sum(1 for known in names if known[0] == file.name)
        names[identity] = file.name if same == 0 else f"{file.name} ({same + 1})"
    return names[identity]
