# SPDX-License-Identifier: MIT
"""Installs a candidate atomically: sources, build, checks, record."""

import dataclasses
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from heaptape.allocators import c_libraries, installed, registry
from heaptape.allocators.installed import Installed, Record, Source
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home, cache_folder
from heaptape.common.process import build_error, locked, run_script, scratch_folder
from heaptape.features.candidates import build
from heaptape.features.candidates.sources import Plan
from heaptape.run import machine

BUILDING = ".building-"


@dataclass(frozen=True)
class Wishes:
    """`folder`: where candidates are put; `verify`: check them against the rules of malloc; `rebuild`: build again a
    candidate that is there; `tell`: called with a line at each step.
    """

    folder: Path
    verify: bool = True
    rebuild: bool = False
    tell: Callable[[str], None] = lambda line: None


def install(plan: Plan, home: Home, wishes: Wishes) -> tuple[Installed, bool]:
    """The candidate, and whether it was built now. If it raises HeaptapeError, an earlier candidate stays."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.+-]*@[A-Za-z0-9][\w.+-]*", plan.label):
        raise HeaptapeError(f"'{plan.label}' is not a name: letters, digits, '.', '+', '-' and '_', NAME@VERSION")
    there = [one for one in installed.find_all(wishes.folder) if one.record.label == plan.label]
    if there and not wishes.rebuild:
        return there[0], False
    lacking = build.missing([*plan.tools, "readelf"])
    if lacking:
        raise HeaptapeError(f"{plan.label} {lacking}")
    try:
        with _room(wishes.folder) as room:
            result = room / "result"
            result.mkdir()
            record = _make(plan, room, result, home, wishes)
            installed.write(result, record)
            return Installed(record, _put(result, wishes.folder / plan.label, room)), True
    except OSError as error:
        where = error.filename or wishes.folder
        raise HeaptapeError(f"{plan.label}: {where}: {error.strerror or error}") from error


def _make(plan: Plan, room: Path, result: Path, home: Home, wishes: Wishes) -> Record:
    """Builds the library into the folder `result`, and returns its record."""
    sources = room / "sources"
    sources.mkdir()
    wishes.tell(f"{plan.label}: fetching the sources")
    source, folder = plan.bring(sources, cache_folder("sources"))
    flags = " ".join(filter(None, (plan.flags, os.environ.get("CFLAGS", "")))) if plan.build else ""
    if plan.build:
        wishes.tell(f"{plan.label}: building")
        _build(plan, folder, flags, result / "build.log", wishes.folder)
    made = build.library(folder, plan.library)
    library = result / made.name
    shutil.copyfile(made, library)
    library.chmod(0o755)
    for path in made.parent.glob(plan.beside) if plan.beside else ():
        if path != made and path.is_file():
            shutil.copy(path, result)
    for licence in build.licences(folder):
        shutil.copyfile(licence, result / "-".join(licence.relative_to(folder).parts))
    record = _record(plan, source, library, flags, home)
    choice = registry.Choice(plan.label, registry.DEFAULT_VARIANT, library, str(library), {})
    if plan.name == registry.GLIBC:
        on = c_libraries.find(result)
        c_libraries.check_runs(on, home.program("replay"))
        choice = dataclasses.replace(choice, path=on.library, preload="", c_library=on)
    if not wishes.verify:
        return record
    return msgspec.structs.replace(record, verified=build.verify(choice, home, wishes.tell))


def _build(plan: Plan, folder: Path, flags: str, log: Path, kept: Path) -> None:
    status = run_script(f"set -e\n{plan.build}", folder, log, build.surroundings(plan.version, flags, folder))
    if status:
        error, stays = build_error(log), kept / f"{plan.label}.log"
        log.replace(stays)
        raise HeaptapeError(f"{plan.label}: its build ended with {status}: {error} ({stays})")
    (kept / f"{plan.label}.log").unlink(missing_ok=True)


def _record(plan: Plan, source: Source, library: Path, flags: str, home: Home) -> Record:
    known = registry.load(home).get(plan.name)
    about = machine.describe()
    thp, libc = about["transparent_huge_pages"], about["libc"]
    build_id, lacks = build.check_library(library)
    return Record(
        schema=installed.SCHEMA,
        name=plan.name,
        version=plan.version,
        library=library.name,
        build_id=build_id,
        library_sha256=registry.sha256_of(library),
        source=source,
        licence=plan.licence,
        compiler=build.compilers(plan.tools or ("cc",)) if plan.build else (),
        flags=flags,
        build=plan.build,
        tunables=tuple(known.tunables.names) if known and known.tunables else (),
        transparent_huge_pages=str(thp) if thp else None,
        kernel=str(about["kernel"]),
        libc=str(libc) if libc else None,
        installed_unix_s=int(os.environ.get("SOURCE_DATE_EPOCH", time.time())),
        lacks=lacks,
    )


@contextmanager
def _room(folder: Path) -> Iterator[Path]:
    """A temporary folder beside the result's place. It is locked, so that a later process recognises and removes the
    folders that a killed process left.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(f"{BUILDING}*/"):
        with suppress(OSError), locked(left):  # else its process is alive
            shutil.rmtree(left, ignore_errors=True)
    with scratch_folder(folder, BUILDING) as room, locked(room):
        yield room


def _put(result: Path, place: Path, room: Path) -> Path:
    """Moves the finished folder to its place; an earlier one is moved to the room, which is removed."""
    if place.exists():
        place.rename(room / "before")
    result.rename(place)
    return place
