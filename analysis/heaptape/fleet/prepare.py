# SPDX-License-Identifier: MIT
"""Makes the plan of a request, and brings its workloads and libraries into the store."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.common.processors import processors
from heaptape.common.scratch import scratch_folder
from heaptape.common.version import __version__
from heaptape.fleet.files import StoreError
from heaptape.fleet.machine import engine_hash
from heaptape.fleet.plan import Plan, PlanFile, PlannedChoice, PlannedWorkload, keep
from heaptape.fleet.store import Sha, Store, Workload, file_of_companion, file_of_workload
from heaptape.gate import corpus
from heaptape.run import loaded, registry, replay
from heaptape.run.registry import Choice, sha256_of
from heaptape.run.rounds import Settings


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """sources/SHA.json: the workload that the file of that hash was compiled to, and by which heaptape. `origins`: with
    the origins of its objects.
    """

    workload: Sha
    version: str
    origins: bool


def source_of(store: Store, sha256: str) -> Source | None:
    """The Source of a file of that hash, if it was brought into the store."""
    return store.get(f"sources/{sha256}.json", Source)


@dataclass
class Prepared:
    """`refused`: files that can't be replayed, one line each."""

    plan: Plan
    refused: list[str]


def prepare(
    wanted: PlanFile,
    store: Store,
    home: Home,
    timeout_s: float = 0,
    whole: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> Prepared:
    """The plan; it and all files that it needs are then in the store. Files already in the store are not made again.
    `tell`: called at once for each refused file. Raises StoreError, and HeaptapeError where nothing is left to replay.
    """
    choices = _choices(wanted, home)
    workloads, refused = _workloads(wanted, store, home, tell)
    if not workloads:
        raise HeaptapeError("no workload to replay")
    settings, _ = replay.with_sizes(Settings(passes=wanted.passes))
    plan = Plan(
        engine=engine_hash(home),
        version=__version__,
        baseline=wanted.baseline,
        seed=wanted.seed,
        repetitions=wanted.repetitions,
        timeout_s=timeout_s,
        whole=whole,
        passes=wanted.passes,
        caches=settings.caches,
        tlbs=settings.tlbs,
        choices=tuple(_planned_choice(choice, store) for choice in choices),
        workloads=tuple(_planned(workload, choices, store) for workload in workloads),
    )
    keep(plan, store)
    return Prepared(plan, refused)


def _choices(wanted: PlanFile, home: Home) -> list[Choice]:
    known = registry.load(home)
    choices = registry.choose_all(wanted.allocators, known)
    if wanted.baseline not in [choice.label for choice in choices]:
        choices = [registry.choose(wanted.baseline, known), *choices]
    return choices


def _planned_choice(choice: Choice, store: Store) -> PlannedChoice:
    sha256 = sha256_of(choice.path)
    if choice.preload:
        store.put_library(choice.path, sha256)
    counting = None if choice.counting is None else tuple(sorted(choice.counting.items()))
    environment = tuple(sorted(choice.environment.items()))
    made = PlannedChoice(choice.allocator, choice.variant, sha256, environment, counting)
    try:  # a plan that is written must be readable
        return msgspec.convert(msgspec.to_builtins(made), PlannedChoice)
    except msgspec.ValidationError as error:
        raise HeaptapeError(f"{choice.label}: can't be sent to others: {error}") from None


def _planned(workload: Workload, choices: Sequence[Choice], store: Store) -> PlannedWorkload:
    beside = [Path(path).resolve() for path in loaded.also_loaded(workload.about, choices)]
    hashes = tuple(sha256_of(path) for path in beside)
    for path, sha256 in zip(beside, hashes, strict=True):
        store.put_library(path, sha256)
    windows = replay.windows_of(Settings(), workload.about) is not None
    return PlannedWorkload(
        workload.sha256, workload.name, workload.ops, workload.need_bytes, windows, hashes, workload.companions
    )


def _workloads(
    wanted: PlanFile, store: Store, home: Home, tell: Callable[[str], None]
) -> tuple[list[Workload], list[str]]:
    """The workloads from the files and from the store, each once; and the files that are refused."""
    known = store.workloads()
    missing = [sha256 for sha256 in wanted.workloads if sha256 not in known]
    if missing:
        raise HeaptapeError(f"{store.url}: no workload {missing[0]}")
    found = {sha256: known[sha256] for sha256 in wanted.workloads}
    refused = []
    files = corpus.find(wanted.tapes)

    def bring(name: str) -> Workload | str:
        try:
            return _bring(name, files[name], wanted, store, home, known)
        except StoreError:  # not the file's fault: the next file would wait as long
            raise
        except HeaptapeError as error:
            return str(error) or f"{files[name]}: can't be compiled"

    with ThreadPoolExecutor(processors()) as pool:
        for made in pool.map(bring, files):
            if isinstance(made, str):
                refused.append(made)
                tell(made)
            else:
                found.setdefault(made.sha256, made)
    return list(found.values()), refused


def _bring(name: str, path: Path, wanted: PlanFile, store: Store, home: Home, known: dict[str, Workload]) -> Workload:
    """The workload of a file; it is in the store afterwards."""
    sha256, origins = sha256_of(path), "blame" in wanted.passes
    source = source_of(store, sha256)
    if source and source.version == __version__ and (source.origins or not origins):
        workload = known.get(source.workload)
        if workload and _is_stored(workload, store):
            return _weighed(workload, wanted.weights.get(name), store)
    with scratch_folder() as scratch:
        workload = _compiled(name, path, wanted, store, home, scratch)
    store.put(f"sources/{sha256}.json", Source(workload.sha256, __version__, origins))
    return workload


def _is_stored(workload: Workload, store: Store) -> bool:
    """Is the workload there, with the files beside it? A damaged file was set aside by the process that found it."""
    if store.files.size(file_of_workload(workload.sha256)) != workload.file_bytes:
        return False
    return all(store.files.size(file_of_companion(sha256)) for sha256 in workload.companions.values())


def _weighed(workload: Workload, weight: float | None, store: Store) -> Workload:
    if weight is None or weight == workload.weight:
        return workload
    changed = msgspec.structs.replace(workload, weight=weight)
    store.put_about_workload(changed)
    return changed


def _compiled(name: str, path: Path, wanted: PlanFile, store: Store, home: Home, scratch: Path) -> Workload:
    made = replay.prepare(str(path), home, scratch, "blame" in wanted.passes)
    about = replay.describe_workload(made, Path(name).name)
    companions = {"accesses": replay.accesses_of(made), "origins": replay.origins_of(made)}
    there = {kind: file for kind, file in companions.items() if file}
    if "accesses" in there and not replay.has_accesses(made):
        del there["accesses"]
    replayer = home.program("replay")
    engine = replay.Engine(replayer, made, Settings(), about["ops"], replay.baseline(replayer, made))
    program = about.get("program")
    workload = Workload(
        sha256=about["sha256"],
        name=about["name"],
        program=program if isinstance(program, str) else about["name"],
        ops=about["ops"],
        weight=wanted.weights.get(name, 1.0),
        source=path.name,
        file_bytes=made.stat().st_size,
        need_bytes=replay.need_bytes(engine),
        about=about,
        companions={kind: sha256_of(file) for kind, file in there.items()},
    )
    store.put_workload(workload, made, there)
    return workload
