# SPDX-License-Identifier: MIT
"""The store: workloads and libraries by hash, results by cell, failures, machines, plans (docs/use/FLEET.md).

Every file that is read is checked for the type of its content, and for bytes that changed since they were written. A
damaged file is set aside under damaged/, reported, and counts as missing.
"""

import hashlib
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec

from heaptape.common.engine import BY_NAME, PASSES
from heaptape.common.errors import HeaptapeError
from heaptape.features.fleet.files import Files, StoreError
from heaptape.results.structs import label

if TYPE_CHECKING:
    import pandas as pd


Sha = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
ShaOrNone = Annotated[str, msgspec.Meta(pattern=r"\A([0-9a-f]{64})?\Z")]
# Not LD_PRELOAD and the like: the hashes of libraries determine which ones run.
Variable = Annotated[str, msgspec.Meta(pattern=r"\A(?!LD_)[A-Za-z_][A-Za-z0-9_]{0,127}\Z")]
Value = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00-\x1f]{0,4096}\Z")]
Name = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00-\x1f/]{1,255}\Z")]
Variant = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00-\x1f]{1,4096}\Z")]
Pass = Annotated[str, msgspec.Meta(pattern=rf"\A({'|'.join(PASSES)})\Z")]
Order = Annotated[str, msgspec.Meta(pattern=r"\A(recorded|causal|window|random=[0-9]{1,20})\Z")]
Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
Sizes = Annotated[str, msgspec.Meta(pattern=r"\A[0-9:,]{0,255}\Z")]

VERSION = 2
ABOUT = "store.json"
READERS = 16  # files that are read at a time: access to a store may be slow
SEAL = b'{"sha256":"'
COLUMNS = [
    *("workload", "name", "program", "weight", "allocator", "library", "label", "environment", "pass_", "order"),
    *("repetition", "machine", "block", "figure", "unit", "value"),
]

T = TypeVar("T")


class Cell(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"pass_": "pass"}):
    """One replay. `variant`: the name of its settings in tables, which is not in its key. `library`: sha256 of the
    allocator's library, for glibc of the C library. `environment`: the settings, sorted. `repetition`: 0 for passes
    that only count. `engine`: engine_hash. `beside`: libraries that are loaded with every allocator of the comparison.
    `companion`: sha256 of the file beside the workload that the pass needs. `caches`, `tlbs`: those that it simulates.
    """

    workload: Sha
    allocator: Name
    variant: Variant = "default"
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

    @property
    def key(self) -> str:
        return digest({name: value for name, value in msgspec.to_builtins(self).items() if name != "variant"})

    @property
    def label(self) -> str:
        return label(self.allocator, self.variant)


class Task(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A worker's unit of work, with one result: an exact cell; or a block, the timed cells of one repetition of a
    workload, in the order in which they run. `name`: the workload's. `need_bytes`: memory that a replay may take.
    `whole`: its curves (time lines, maps, histograms) are kept, too.
    """

    cells: tuple[Cell, ...]
    name: str
    need_bytes: int
    whole: bool
    timeout_s: float

    @property
    def is_block(self) -> bool:
        """Does it measure time, and so need the machine alone?"""
        return not is_exact(self.cells[0].pass_)

    @property
    def key(self) -> str:
        return key_of(self.cells)


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A task that was run. `results`: of each cell the engine's run, as in results files; one with an "error" is of an
    allocator at fault. `machine`: its file is machines/ID.json. `seconds`: wall time. `unix_s`: when it was run.
    """

    cells: tuple[Cell, ...]
    results: tuple[dict, ...]
    machine: str
    seconds: float
    whole: bool
    unix_s: float

    @property
    def key(self) -> str:
        return key_of(self.cells)

    @property
    def runs(self) -> list[tuple[Cell, dict]]:
        return list(zip(self.cells, self.results))

    @property
    def errors(self) -> list[tuple[Cell, str]]:
        return [(cell, run["error"]) for cell, run in self.runs if "error" in run]


class Workload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Facts about a workload, known without reading it. `about`: as in results. `companions`: the files that some
    passes need beside it (accesses, origins) -> sha256. `source`: what it was made from, not a path. `weight`: how much
    of the fleet it represents. `profile`: FEATURES of its recording; empty where it was a workload already.
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
    profile: dict[str, int | float] = {}


class Failure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why the last of `attempts` at a task failed, though no allocator was at fault."""

    reason: str
    machine: str
    attempts: int
    unix_s: float


class About(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int


def is_exact(pass_: str) -> bool:
    """Does the pass only count, so that its result is the same each time, whatever runs beside it?"""
    return BY_NAME[pass_].exact


def digest(value: object) -> str:
    """sha256 of canonical JSON: sorted keys, no white space, ASCII."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def key_of(cells: Iterable[Cell]) -> str:
    """The key of a task: it says all that decides its result, but not the order within a block."""
    return digest(sorted(cell.key for cell in cells))


class Store:
    """`tell`: called with one line for each damaged file. Methods raise StoreError."""

    def __init__(self, files: Files, tell: Callable[[str], None]) -> None:
        self.files, self.tell = files, tell

    @property
    def url(self) -> str:
        return self.files.url

    def keys(self) -> set[str]:
        """The keys of all records."""
        return {key for name in self.files.names("cells") if name == _of_cell(key := Path(name).stem)}

    def record(self, key: str) -> Record | None:
        """The record of a task; None if it is not there, or damaged."""
        record = self.get(_of_cell(key), Record)
        if record is None or (record.key == key and len(record.cells) == len(record.results)):
            return record
        self.set_aside(_of_cell(key), "is another cell's")
        return None

    def put_record(self, record: Record) -> None:
        self.put(_of_cell(record.key), record)

    def records(self, keys: Iterable[str] | None = None) -> Iterator[Record]:
        """The records of those keys that are there, or all records; in the order of the keys."""
        wanted = sorted(self.keys()) if keys is None else list(keys)
        with ThreadPoolExecutor(READERS) as pool:
            for start in range(0, len(wanted), 16 * READERS):
                yield from filter(None, pool.map(self.record, wanted[start : start + 16 * READERS]))

    def workloads(self) -> dict[str, Workload]:
        """All workloads, by sha256."""
        return {one.sha256: one for one in self._all("workloads", Workload).values()}

    def put_workload(self, workload: Workload, path: Path, companions: Mapping[str, Path]) -> None:
        """Writes its file and the files beside it, then the facts about it: so a listed workload is complete."""
        self.files.upload(path, file_of_workload(workload.sha256))
        for kind, companion in companions.items():
            self.files.upload(companion, file_of_companion(workload.companions[kind]))
        self.put(f"workloads/{workload.sha256}.json", workload)

    def machines(self) -> dict[str, dict]:
        return self._all("machines", dict)

    def failures(self) -> dict[str, Failure]:
        """Failures by the task's key, also of tasks that were done afterwards."""
        return self._all("failures", Failure)

    def put_failure(self, key: str, reason: str, machine: str, unix_s: float) -> None:
        before = self.get(f"failures/{key}.json", Failure)
        self.put(f"failures/{key}.json", Failure(reason, machine, 1 + (before.attempts if before else 0), unix_s))

    def put(self, name: str, value: object) -> None:
        self.files.write(name, sealed(msgspec.to_builtins(value)))

    def get(self, name: str, kind: type[T]) -> T | None:
        """Reads a sealed file; None if it is not there, or damaged."""
        data = self.files.read(name)
        if data is None:
            return None
        try:
            return msgspec.convert(unsealed(data), kind)
        except (ValueError, msgspec.MsgspecError, RecursionError) as error:
            self.set_aside(name, str(error))
            return None

    def set_aside(self, name: str, why: str) -> None:
        aside = f"damaged/{name.replace('/', '_')[-200:]}.{uuid.uuid4().hex[:8]}"
        self.tell(f"{self.url}: {name}: {why}: set aside as {aside}, and counts as missing")
        try:
            self.files.move(name, aside)
        except StoreError as error:
            self.tell(str(error))

    def results(self) -> "pd.DataFrame":
        """Every figure of every cell, one per row: COLUMNS. `figure`, `unit`, `value`: the metrics of
        results.schema.figures, as the cell's own pass measured them. `workload`, `library`: sha256; `environment`:
        NAME=VALUE, sorted, separated by spaces; `block`: the key of a timed cell's task.
        """
        import pandas as pd

        from heaptape.results.schema import Results, figures

        workloads = self.workloads()
        runs = [(record, cell, run) for record in self.records() for cell, run in record.runs if "error" not in run]
        found = figures([Results("", _as_results(cell, run, workloads)) for _, cell, run in runs])
        about = pd.DataFrame([_columns(*one, workloads) for one in runs], columns=COLUMNS[: COLUMNS.index("figure")])
        frame = about.iloc[[int(round_.partition(":")[0]) for round_ in found["round"]]].reset_index(drop=True)
        return frame.assign(figure=found["metric"], unit=found["unit"], value=found["value"])[COLUMNS]

    def _all(self, folder: str, kind: type[T]) -> dict[str, T]:
        names = [name for name in self.files.names(folder) if name.endswith(".json")]
        found = {Path(name).stem: self.get(name, kind) for name in names}
        return {name: one for name, one in found.items() if one is not None}


def open_store(url: str, create: bool = False, tell: Callable[[str], None] = lambda line: None) -> Store:
    """The store at a URL. Raises HeaptapeError where there is none (unless `create`), or one of another version."""
    files = Files(url)
    data = files.read(ABOUT)
    if data is None and not create:
        raise HeaptapeError(f"{url}: no store")
    if data is None and not files.is_empty():
        raise HeaptapeError(f"{url}: no store, and not empty either")
    if data is None:
        data = sealed(msgspec.to_builtins(About(VERSION)))
        files.write(ABOUT, data)
    try:
        version = msgspec.convert(unsealed(data), About).version
    except ValueError as error:
        raise HeaptapeError(f"{url}/{ABOUT}: {error}") from None
    if version != VERSION:
        raise HeaptapeError(f"{url}: a store of version {version}, and this heaptape reads {VERSION}")
    return Store(files, tell)


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


def _as_results(cell: Cell, run: dict, workloads: Mapping[str, Workload]) -> dict:
    workload = workloads.get(cell.workload)
    about = workload.about | {"name": workload.name} if workload else {"name": cell.workload}
    return {"schema": 1, "workload": about | {"sha256": cell.workload}, "runs": [run | {"allocator": cell.allocator}]}


def _columns(record: Record, cell: Cell, run: dict, workloads: Mapping[str, Workload]) -> tuple:
    workload = workloads.get(cell.workload)
    named = (workload.name, workload.program, workload.weight) if workload else (cell.workload, "", 1.0)
    environment = " ".join(f"{name}={value}" for name, value in cell.environment)
    return (
        *(cell.workload, *named, cell.allocator, cell.library, label(cell.allocator, run.get("variant")), environment),
        *(cell.pass_, cell.order, cell.repetition, record.machine, None if is_exact(cell.pass_) else record.key),
    )
