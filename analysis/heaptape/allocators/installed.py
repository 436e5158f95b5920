# SPDX-License-Identifier: MIT
"""Installed candidates: allocator libraries that `heaptape allocators install` has put into a folder, NAME@VERSION
each, with a record of their origin and build; a wheel is such a folder. Finds and removes them; candidates/ makes them.
"""

import importlib.util
import json
import os
import re
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from heaptape.common.checked import checked
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import cache_folder

SCHEMA = 1
RECORD = "record.json"


class Source(msgspec.Struct, frozen=True):
    """Where the sources came from: `origin` is the registry, or "folder" or "archive" for the user's own. `sha256`: of
    the archive, or of the names and contents of the folder's files.
    """

    origin: str
    package: str
    release: str
    sha256: str
    note: str = ""


class Checked(msgspec.Struct, frozen=True):
    """The result of `--verify` on one workload. `broken` is empty if the allocator kept the rules of malloc."""

    workload: str
    broken: str = ""


class Record(msgspec.Struct, frozen=True):
    """record.json. `library`: the file in its folder; `flags` and `build`: how it was compiled, empty if it came
    compiled; `compiler`: first lines of the compilers' version output; `tunables`: their names;
    `transparent_huge_pages`, `kernel` and `libc`: of the machine that built it; `verified`: None if it was not
    verified; `lacks`: functions that it does not have, so that it is not replayed on workloads that call them.
    """

    schema: int
    name: str
    version: str
    library: str
    build_id: str
    library_sha256: str
    source: Source
    licence: str
    compiler: tuple[str, ...]
    flags: str
    build: str
    tunables: tuple[str, ...]
    transparent_huge_pages: str | None
    kernel: str
    libc: str | None
    installed_unix_s: int
    verified: tuple[Checked, ...] | None = None
    lacks: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def broken(self) -> list[Checked]:
        return [one for one in self.verified or () if one.broken]

    @property
    def verdict(self) -> str:
        found = [f"has no {name}" for name in self.lacks]
        if self.verified is None:
            found.append("not verified")
        elif not self.broken:
            found.append(f"keeps the rules of malloc on {len(self.verified)} workloads")
        else:
            found += [f"breaks a rule on {one.workload}: {one.broken}" for one in self.broken]
        return "; ".join(found)


@dataclass(frozen=True)
class Installed:
    record: Record
    folder: Path

    @property
    def path(self) -> Path:
        return self.folder / self.record.library


def root() -> Path:
    """The default folder of candidates."""
    return cache_folder("allocators")


def of_wheel() -> list[Installed]:
    """Those of the wheel heaptape-allocators, which `pip install 'heaptape[allocators]'` brings."""
    wheel = importlib.util.find_spec("heaptape_allocators")
    folders = wheel.submodule_search_locations if wheel else None
    return _found(Path(folders[0])) if folders else []


def find_all(folder: Path) -> list[Installed]:
    """The candidates by name, then version, the oldest first. Raises HeaptapeError, naming the file, for a damaged
    record, and for what another user can change: its library is loaded with this user's rights.
    """
    found = _found(folder)
    for one in found:
        for path in (one.folder, one.folder / RECORD, one.path):
            about = path.stat()
            if about.st_uid not in (os.geteuid(), 0) or about.st_mode & stat.S_IWOTH:
                raise HeaptapeError(f"{path}: another user can change it, so it is not loaded: install it again")
    return found


def _found(folder: Path) -> list[Installed]:
    records = sorted(folder.glob(f"*@*/{RECORD}"))
    return sorted((Installed(_read(path), path.parent) for path in records), key=lambda one: order(one.record))


def newest(name: str, version: str, known: Sequence[Installed]) -> Installed | None:
    """The newest of the candidates with that name and version, or series of versions (3: 3.3.2; empty: any). None:
    there is none.
    """
    matching = [one for one in known if one.record.name == name and matches(one.record.version, version)]
    exact = [one for one in matching if one.record.version == version]
    return max(exact or matching, key=lambda one: order(one.record), default=None)


def matches(version: str, wanted: str) -> bool:
    """Is `version` the wanted version, or in the wanted series?"""
    return not wanted or version == wanted or version.startswith(f"{wanted}.")


def order(record: Record) -> tuple:
    """Sorts by name and version."""
    return record.name, version_key(record.version)


def version_key(version: str) -> tuple:
    """Sorts versions by their numbers, then by their text."""
    return tuple(int(number) for number in re.findall(r"\d+", version)), version


def remove(label: str, folder: Path) -> Path:
    """Removes NAME@VERSION, and returns where it was. Raises HeaptapeError, which lists the installed ones."""
    there = {one.record.label: one for one in find_all(folder)}
    if label not in there:
        raise HeaptapeError(f"{label} is not installed in {folder}: there are {', '.join(there) or 'none'}")
    # Renamed in one step, so that an interrupted removal leaves no incomplete candidate under its name.
    with tempfile.TemporaryDirectory(prefix=".removed-", dir=folder) as gone:
        there[label].folder.rename(Path(gone) / label)
    return there[label].folder


def write(folder: Path, record: Record) -> None:
    (folder / RECORD).write_text(json.dumps(msgspec.to_builtins(record), indent=1) + "\n")


def _read(path: Path) -> Record:
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise HeaptapeError(f"{path}: {error}") from None
    record = checked(path, data, Record)
    if record.schema != SCHEMA:
        raise HeaptapeError(f"{path}: schema {record.schema}, known is {SCHEMA}: install it again")
    library = path.parent / record.library
    if Path(record.library).name != record.library or not library.is_file():
        raise HeaptapeError(f"{path}: its library {record.library} is not beside it: install it again")
    return record
