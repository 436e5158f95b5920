# SPDX-License-Identifier: MIT
"""Traces into the dataset of a store: each profiled once, many at a time; can be continued after a stop.

A worker profiles the traces of a batch one after the other, and writes its rows; so it has only one profile and the
rows of a batch in memory. A malformed trace is reported and left out.
"""

import contextlib
import functools
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from heaptape.common import process
from heaptape.common.errors import FormatError, HeaptapeError
from heaptape.common.home import Home
from heaptape.common.process import convert_output, scratch_folder
from heaptape.features.fleet import dataset
from heaptape.features.fleet.dispatch import Outcome
from heaptape.features.fleet.files import is_local, located
from heaptape.features.fleet.store import Store
from heaptape.profile.data import LIFETIMES, SITES
from heaptape.run.registry import sha256_of
from heaptape.run.replay import ROOM_BYTES
from heaptape.tape.stack_names import stack_names
from heaptape.tape.trace import Trace

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

# A batch is one task and one file for each partition: enough traces that starting it costs little compared with
# profiling them, and few enough that the loss of a worker costs only a few minutes.
BATCH_TRACES = 64
BATCH_BYTES = 256 << 20
LONGEST_STACK = 2000  # characters
ENDING = ".tape"


class Labels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Values that replace those in the traces; empty: the traces' own."""

    program: str = ""
    build_id: str = ""
    host_class: str = ""


class Batch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The traces of one task: paths, or URLs that fsspec supports. `run`: the same for all batches of one command."""

    tapes: tuple[str, ...]
    labels: Labels
    run: str

    @property
    def name(self) -> str:
        return f"{self.tapes[0]} and {len(self.tapes) - 1} others" if len(self.tapes) > 1 else self.tapes[0]

    @property
    def keys(self) -> list[str]:
        return list(self.tapes)

    @property
    def resources(self) -> dict[str, float]:
        """What it takes of a worker's (dispatch.Scheduler)."""
        return {"memory": ROOM_BYTES}


def tapes_of(words: Sequence[str]) -> list[str]:
    """The traces that `words` name: files, folders (all *.tape below), and patterns of URLs. Raises HeaptapeError where
    a word matches nothing.
    """
    found: dict[str, None] = {}
    for word in words:
        system, path = located(word)
        if system.isdir(path):
            here = [name for name in system.find(path) if name.endswith(ENDING)]
        else:
            is_pattern = any(sign in path for sign in "*?[") and not system.exists(path)
            here = system.glob(path) if is_pattern else [path]
        if not here:
            raise HeaptapeError(f"{word}: no {ENDING} there")
        found.update(dict.fromkeys(_named(system, name) for name in sorted(here)))
    return list(found)


def batches(tapes: Sequence[str], labels: Labels) -> list[Batch]:
    """Batches of at most BATCH_TRACES and, where sizes are known, BATCH_BYTES each, unless one trace is larger."""
    run = uuid.uuid4().hex
    made: list[Batch] = []
    here: list[str] = []
    bytes_ = 0
    for tape in tapes:
        size = Path(tape).stat().st_size if Path(tape).is_file() else 0
        if here and (len(here) == BATCH_TRACES or bytes_ + size > BATCH_BYTES):
            made.append(Batch(tuple(here), labels, run))
            here, bytes_ = [], 0
        here.append(tape)
        bytes_ += size
    return [*made, Batch(tuple(here), labels, run)] if here else made


def locally(store: Store, home: Home, workers: int, todo: Sequence[Batch]) -> Iterator[tuple[Batch, Outcome]]:
    """Each batch with its outcome, run by `workers` processes. Raises StoreError."""
    there = dataset.traces_in(store)
    outcomes = process.in_order(lambda number: ingest(store, todo[number], there, home), len(todo), workers)
    yield from zip(todo, outcomes, strict=True)


@functools.lru_cache(maxsize=1)
def stored_traces(store: Store, run: str) -> set[str]:
    """The traces there at a worker's first batch of a command; it gets no batch of traces that others wrote since."""
    return dataset.traces_in(store)


def ingest(store: Store, batch: Batch, there: set[str], home: Home) -> Outcome:
    """Ingests one batch without the traces that are `there`: `done` and `failed` are traces, as named in the batch.
    Raises StoreError.
    """
    outcome, rows = Outcome(), dict[str, dataset.Row]()
    for tape in batch.tapes:
        try:
            with _local_copy(tape) as path:
                trace = sha256_of(path)
                if trace not in there and trace not in rows:
                    rows[trace] = row_of(path, tape, trace, batch.labels, home)
                    outcome.done.append(tape)
        except (HeaptapeError, OSError) as error:
            outcome.failed[tape] = _line(tape, error)
    dataset.put(store, rows.values())
    return outcome


def row_of(path: Path, tape: str, trace: str, labels: Labels, home: Home) -> dataset.Row:
    """A trace's row. `tape`: its source. Raises HeaptapeError where it is malformed."""
    found = dataset.decoded(convert_output(home, "profile", str(path)))
    about = _about(path)
    program = labels.program or found.data.get("program") or ""
    arch = _text(about.info.get("arch"))
    values = {
        "trace": trace,
        "name": tape.rpartition("/")[2],
        "source": tape,
        "file_bytes": path.stat().st_size,
        "allocator": _text(about.info.get("allocator")),
        "arch": arch,
        "truncated": bool(found.data.get("witness", {}).get("truncated")),
        **dataset.of_profile(found),
    }
    lifetimes = {unit: found.array(f"lifetimes_{unit}", len(LIFETIMES)) for unit in ("bytes", "ns")}
    partition = (
        program,
        labels.build_id or about.build_id,
        labels.host_class or arch,
        _day(about.info.get("start_unix_ns")),
    )
    return dataset.Row(partition, values, lifetimes, _sites(path, found.data.get("sites", []), home))


@dataclass(frozen=True)
class _About:
    """Facts from a trace's head; empty for other formats."""

    info: dict = field(default_factory=dict)
    build_id: str = ""


def _about(path: Path) -> _About:
    try:
        with Trace(path) as trace:
            return _About(trace.info, _build_id(trace))
    except FormatError:  # it is of another format: heaptape-convert could read it
        return _About()


def _build_id(trace: Trace) -> str:
    """The program's build id."""
    for row in trace.module_rows():
        if row["name"] == trace.info.get("program"):
            return _text(row.get("build_id"))
    return ""


def _sites(path: Path, rows: Sequence[Sequence[int]], home: Home) -> list[tuple[str, Sequence[int]]]:
    """The functions of each stack, innermost first, and its figures."""
    if not rows:
        return []
    names = stack_names(path, home)
    width = len(SITES)
    return [("; ".join(names.callers(row[0]))[:LONGEST_STACK], row[1:width]) for row in rows]


@contextlib.contextmanager
def _local_copy(tape: str) -> Iterator[Path]:
    """A trace as a file of this machine: itself, or a copy that is removed at the end of the context."""
    if "://" not in tape:
        yield Path(tape)
        return
    system, path = located(tape)
    with scratch_folder() as scratch:
        copy = scratch / f"copy{ENDING}"
        system.get_file(path, str(copy))
        yield copy


def _named(system: "AbstractFileSystem", path: str) -> str:
    return path if is_local(system) else system.unstrip_protocol(path)


def _line(tape: str, error: Exception) -> str:
    what = (getattr(error, "strerror", None) or str(error)).strip()
    return what if tape in what else f"{tape}: {what}"


def _day(unix_ns: object) -> str:
    """The day in UTC; empty where it is not known."""
    if not isinstance(unix_ns, int) or not 0 < unix_ns < 1 << 62:
        return ""
    return datetime.fromtimestamp(unix_ns / 1e9, timezone.utc).date().isoformat()


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
