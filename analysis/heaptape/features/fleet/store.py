# SPDX-License-Identifier: MIT
"""The store: workloads and libraries by hash, results by cell, failures, machines, who runs what (docs/use/FLEET.md).

Every file that is read is checked for the type of its content, and for bytes that changed since they were written. A
damaged file is set aside under damaged/, reported, and counts as missing.
"""

import hashlib
import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import msgspec

from heaptape.common.errors import HeaptapeError
from heaptape.features.fleet.files import Files, StoreError
from heaptape.results.structs import label
from heaptape.run.passes import BY_NAME, PASSES

if TYPE_CHECKING:
    import pandas as pd


Sha = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
ShaOrNone = Annotated[str, msgspec.Meta(pattern=r"\A([0-9a-f]{64})?\Z")]
# Not LD_PRELOAD and the like: the hashes of libraries determine which ones run.
Variable = Annotated[str, msgspec.Meta(pattern=r"\A(?!LD_)[A-Za-z_][A-Za-z0-9_]{0,127}\Z")]
Value = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00-\x1f]{0,4096}\Z")]
Name = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00-\x1f/]{1,255}\Z")]
Pass = Annotated[str, msgspec.Meta(pattern=rf"\A({'|'.join(PASSES)})\Z")]
Order = Annotated[str, msgspec.Meta(pattern=r"\A(recorded|causal|window|random=[0-9]{1,20})\Z")]
Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
Natural = Annotated[int, msgspec.Meta(ge=0)]
Sizes = Annotated[str, msgspec.Meta(pattern=r"\A[0-9:,]{0,255}\Z")]

NO_ALLOCATOR_PRELOADED = "glibc"  # its library is the C library that the engine runs on


class Cell(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"pass_": "pass"}):
    """`library`: sha256 of the allocator's library, for glibc of the C library. `environment`: the allocator's
    settings, sorted. `repetition`: 0 for passes that only count. `engine`: sha256 of the programs that replay.

    `beside`: libraries that are loaded with every allocator of the comparison. `companion`: sha256
    of the file beside the workload that the pass needs. `caches`, `tlbs`: those that the pass simulates.
    `company`: for a timed cell the hash of all choices and passes in its block, with which it was measured alternately.
    """

    workload: Sha
    allocator: Name
    library: Sha
    environment: tuple[tuple[Variable, Value], ...] = ()
    pass_: Pass
    order: Order
    repetition: Count = 0
    engine: Sha
    version: Annotated[str, msgspec.Meta(max_length=64)]
    beside: tuple[Sha, ...] = ()
    companion: ShaOrNone = ""
    caches: Sizes = ""
    tlbs: Sizes = ""
    company: ShaOrNone = ""

    @property
    def key(self) -> str:
        """sha256 of the specification as canonical JSON."""
        return digest(msgspec.to_builtins(self))

    @property
    def label(self) -> str:
        settings = " ".join(f"{name}={value}" for name, value in self.environment)
        return f"{self.allocator}:{settings}" if settings else self.allocator


def is_exact(pass_: str) -> bool:
    """Does the pass only count, so that its result is the same each time, whatever runs beside it?"""
    return BY_NAME[pass_].exact


def digest(value: object) -> str:
    """sha256 of canonical JSON: sorted keys, no white space, ASCII."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


VERSION = 1
ABOUT = "store.json"
HEARTBEAT_S = 20.0  # interval at which a worker reports that it is alive
READERS = 16  # files that are read at a time: access to a store may be slow
LONGEST_ASIDE = 200  # of the name of a damaged file; file systems allow 255 bytes
SEAL = b'{"sha256":"'
COLUMNS = [
    *("workload", "name", "program", "weight", "allocator", "library", "label", "environment", "pass_", "order"),
    *("repetition", "machine", "block", "figure", "unit", "value"),
]

T = TypeVar("T")


class Workload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Facts about a workload, known without reading it. `about`: as in results. `companions`: the files that some
    passes need beside it (accesses, origins) -> sha256. `source`: what it was made from, not a path. `weight`: how much
    of the fleet it represents. `need_bytes`: memory that a replay of it may take.
    """

    sha256: Sha
    name: str
    program: str
    ops: int
    weight: float
    source: str
    file_bytes: int
    need_bytes: int
    about: dict
    companions: dict[Name, Sha] = {}


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A cell that was run. `result`: the engine's run, as in results files. `machine`: its id; its file is
    machines/ID.json. `block`: for timed cells, the same for all that were measured alternately. `seconds`: wall time of
    the run. `whole`: the result has its curves (time lines, maps, histograms), too. `unix_s`: when it was run; 0: not
    known.
    """

    cell: Cell
    result: dict
    machine: str
    block: str | None
    seconds: float
    whole: bool = False
    unix_s: float = 0.0


class Failure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`final`: the allocator is at fault, and another run would fail in the same way."""

    label: str
    pass_: str
    workload: str
    reason: str
    machine: str
    unix_s: float
    final: bool = False


class Running(msgspec.Struct, forbid_unknown_fields=True):
    """A worker's last report. `unix_s`: its time. `cells`: those in progress, in words."""

    worker: str
    machine: str
    since_unix_s: float
    unix_s: float
    done: Natural
    failed: Natural
    busy_s: float
    cells: list[str]


class Failed(msgspec.Struct, forbid_unknown_fields=True, rename={"pass_": "pass"}):
    """A cell that was tried and has no result. `final`: its allocator is at fault, so it is not tried again."""

    cell: str
    workload: str
    label: str
    pass_: str
    reason: str
    machine: str
    attempts: Natural
    final: bool


class FleetStatus(msgspec.Struct, forbid_unknown_fields=True):
    """`heaptape fleet status --json`. `left`: neither done nor finally failed. `silent`: workers without a recent
    report. `left_s`: remaining time of one worker, null if no cell of a pass is done yet; `ready_in_s`: with the
    workers that run now, null without any. `damaged`: files that were set aside.
    """

    schema: Literal[1]
    store: str
    plans: Natural
    cells: Natural
    done: Natural
    left: Natural
    failed: list[Failed]
    running: list[Running]
    silent: list[Running]
    left_s: float | None
    ready_in_s: float | None
    damaged: Natural


class About(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    id: str


class Store:
    """`tell`: called with one line for each damaged file, and before waiting for the store. Methods raise StoreError
    where the store can't be read or written within the waiting time.
    """

    def __init__(self, files: Files, about: About, tell: Callable[[str], None]) -> None:
        self.files, self.id, self.tell = files, about.id, tell

    @property
    def url(self) -> str:
        return self.files.url

    # Cells

    def cell_keys(self) -> set[str]:
        return {key for name in self.files.names("cells") if (key := _key_of(name))}

    def cell(self, key: str) -> Record | None:
        """The record of a cell; None if it is not there, or damaged."""
        record = self.get(_of_cell(key), Record)
        if record is None or record.cell.key == key:
            return record
        self.set_aside(_of_cell(key), "is another cell's")
        return None

    def put_cell(self, record: Record) -> None:
        """Writes a record atomically, replacing any other."""
        self.put(_of_cell(record.cell.key), record)

    def add_cell(self, record: Record) -> bool:
        """Writes a record only where there is none. False: another worker's is there, whatever the clocks show."""
        name, data = _of_cell(record.cell.key), sealed(msgspec.to_builtins(record))
        return self.files.create(name, data) or self.files.read(name) == data  # an answer may have been lost

    def records(self, keys: Iterable[str] | None = None) -> Iterator[Record]:
        """The records of those keys that are there, or all records; in the order of the keys."""
        wanted = sorted(self.cell_keys()) if keys is None else list(keys)
        with ThreadPoolExecutor(READERS) as pool:
            for start in range(0, len(wanted), 16 * READERS):
                for record in pool.map(self.cell, wanted[start : start + 16 * READERS]):
                    if record:
                        yield record

    # Workloads and libraries

    def workloads(self) -> dict[str, Workload]:
        """All workloads, by sha256."""
        names = [name for name in self.files.names("workloads") if name.endswith(".json")]
        found = (self.get(name, Workload) for name in names)
        return {workload.sha256: workload for workload in found if workload}

    def put_workload(self, workload: Workload, path: Path, companions: Mapping[str, Path]) -> None:
        """Writes its file and the files beside it, then the facts about it: so a listed workload is complete."""
        self.files.upload(path, file_of_workload(workload.sha256))
        for kind, companion in companions.items():
            self.files.upload(companion, file_of_companion(workload.companions[kind]))
        self.put_about_workload(workload)

    def put_about_workload(self, workload: Workload) -> None:
        """Writes the facts about it."""
        self.put(f"workloads/{workload.sha256}.json", workload)

    def put_library(self, path: Path, sha256: str) -> None:
        self.files.upload(path, file_of_library(sha256))

    # Machines, failures, and workers

    def put_machine(self, machine: str, about: dict) -> None:
        name = f"machines/{machine}.json"
        if self.files.size(name) is None:
            self.put(name, about)

    def machines(self) -> dict[str, dict]:
        names = [name for name in self.files.names("machines") if name.endswith(".json")]
        found = {Path(name).stem: self.get(name, dict) for name in names}
        return {machine: about for machine, about in found.items() if about is not None}

    def put_failure(self, key: str, failure: Failure) -> None:
        folder = f"failures/{key}"
        number = sum(1 for name in self.files.names(folder))
        self.put(f"{folder}/{number}-{failure.machine}-{uuid.uuid4().hex[:8]}.json", failure)

    def failures(self) -> dict[str, list[Failure]]:
        """Failures by cell, in their order; also of cells that were done afterwards."""
        found: dict[str, list[Failure]] = {}
        for name in self.files.names("failures"):
            failure = self.get(name, Failure)
            if failure and name.count("/") == 2:
                found.setdefault(name.split("/")[1], []).append(failure)
        return {key: sorted(of_cell, key=lambda one: one.unix_s) for key, of_cell in found.items()}

    def put_running(self, running: Running) -> None:
        self.put(f"running/{running.worker}.json", running)

    def remove_running(self, worker: str) -> None:
        self.files.remove(f"running/{worker}.json")

    def running(self) -> list[Running]:
        """The last state that each worker reported, including workers that vanished. `unix_s` is of the store's clock,
        as the workers' may differ.
        """
        found = [(self.get(name, Running), self.files.modified_s(name)) for name in self.files.names("running")]
        return [msgspec.structs.replace(one, unix_s=time_s) for one, time_s in found if one and time_s is not None]

    def put(self, name: str, value: object) -> None:
        """Writes a sealed file atomically."""
        self.files.write(name, sealed(msgspec.to_builtins(value)))

    def get(self, name: str, kind: type[T]) -> T | None:
        """Reads a sealed file; None if it is not there, or damaged."""
        data = self.files.read(name)
        if data is None:
            return None
        try:
            return msgspec.convert(unsealed(data), kind)
        except (ValueError, RecursionError) as error:  # msgspec.ValidationError is a ValueError
            self.set_aside(name, str(error))
            return None

    # Figures

    def results(self) -> "pd.DataFrame":
        """Every figure of every cell, one per row: COLUMNS. `figure`, `unit`, `value`: from
        results.schema.figures (its metrics), as the cell's own pass measured them. `workload`: sha256; `allocator`:
        its name; `library`: its sha256; `label`: with the variant, as in results; `environment`: NAME=VALUE, sorted,
        separated by spaces.
        """
        import pandas as pd

        from heaptape.results.schema import Results, figures

        workloads, records = self.workloads(), list(self.records())
        files = [Results("", _as_results(record, workloads)) for record in records]
        found = figures(files)
        number = [int(round_.partition(":")[0]) for round_ in found["round"]]
        about = pd.DataFrame(
            [_columns(record, workloads) for record in records], columns=COLUMNS[: COLUMNS.index("figure")]
        )
        frame = about.iloc[number].reset_index(drop=True)
        return frame.assign(figure=found["metric"], unit=found["unit"], value=found["value"])[COLUMNS]

    def set_aside(self, name: str, why: str) -> None:
        short = name.replace("/", "_")[-LONGEST_ASIDE:].lstrip(".=%")
        aside = f"damaged/{short}.{uuid.uuid4().hex[:8]}"
        self.tell(f"{self.url}: {name}: {why}: set aside as {aside}, and counts as missing")
        try:
            self.files.move(name, aside)
        except StoreError as error:
            self.tell(str(error))


def open_store(
    url: str,
    create: bool = False,
    patience_s: float = 0,
    tell: Callable[[str], None] = lambda line: None,
    sleep: Callable[[float], None] = time.sleep,
) -> Store:
    """The store at a URL. Raises HeaptapeError where there is none (unless `create`), or one of another version."""
    files = Files(url, patience_s, tell, sleep)
    data = files.read(ABOUT)
    if data is None:
        if not create:
            raise HeaptapeError(f"{url}: no store")
        if files.is_empty(ABOUT):
            files.create(ABOUT, sealed(msgspec.to_builtins(About(VERSION, uuid.uuid4().hex))))
        data = files.read(ABOUT)  # possibly that of another process that was first
        if data is None:
            raise HeaptapeError(f"{url}: no store, and not empty either")
    try:
        about = msgspec.convert(unsealed(data or b""), About)
    except ValueError as error:
        raise HeaptapeError(f"{url}/{ABOUT}: {error}") from None
    if about.version != VERSION:
        raise HeaptapeError(f"{url}: a store of version {about.version}, and this heaptape reads {VERSION}")
    return Store(files, about, tell)


def sealed(value: object) -> bytes:
    """An object as JSON whose first key is the sha256 of all bytes after that key."""
    body = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()[1:] + b"\n"
    return SEAL + hashlib.sha256(body).hexdigest().encode() + b'",' + body


def unsealed(data: bytes) -> dict:
    """The object that was given to `sealed`. Raises ValueError where a byte differs."""
    seal, body = data[len(SEAL) : len(SEAL) + 64], data[len(SEAL) + 66 :]
    if not data.startswith(SEAL) or data[len(SEAL) + 64 : len(SEAL) + 66] != b'",':
        raise ValueError("not a file of a store")
    if hashlib.sha256(body).hexdigest().encode() != seal:
        raise ValueError("half written or changed since")
    return json.loads(b"{" + body)


def file_of_workload(sha256: str) -> str:
    return f"workloads/{sha256}.work"


def file_of_companion(sha256: str) -> str:
    return f"workloads/{sha256}.beside"


def file_of_library(sha256: str) -> str:
    return f"libraries/{sha256}.so"


def _of_cell(key: str) -> str:
    return f"cells/{key[:2]}/{key}.json"


def _key_of(name: str) -> str | None:
    key = Path(name).stem
    return key if name == _of_cell(key) and len(key) == 64 else None


def _as_results(record: Record, workloads: Mapping[str, Workload]) -> dict:
    workload = workloads.get(record.cell.workload)
    about = workload.about | {"name": workload.name} if workload else {"name": record.cell.workload}
    return {
        "schema": 1,
        "workload": about | {"sha256": record.cell.workload},
        "runs": [record.result | {"allocator": record.cell.allocator}],
    }


def _columns(record: Record, workloads: Mapping[str, Workload]) -> tuple:
    cell, workload = record.cell, workloads.get(record.cell.workload)
    return (
        cell.workload,
        workload.name if workload else cell.workload,
        workload.program if workload else "",
        workload.weight if workload else 1.0,
        cell.allocator,
        cell.library,
        label(cell.allocator, record.result.get("variant")),
        " ".join(f"{name}={value}" for name, value in cell.environment),
        cell.pass_,
        cell.order,
        cell.repetition,
        record.machine,
        record.block,
    )
