# SPDX-License-Identifier: MIT
"""Sources of a candidate: from a registry, or from an archive or a folder of the user.

Archives are not trusted: nothing is unpacked outside the folder, and only a bounded amount. Without tarfile's filters,
as these came with Python 3.11.4 and Debian 12 has 3.11.2.

The recipes of allocators/candidates.toml, and which one NAME[@VERSION] selects.
"""

import contextlib
import hashlib
import os
import shutil
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from lzma import LZMAError
from pathlib import Path, PurePosixPath
from typing import IO, Literal

import msgspec

from heaptape.allocators.installed import Source, matches, version_key
from heaptape.allocators.registry import sha256_of
from heaptape.common.checked import checked, read_toml
from heaptape.common.errors import HeaptapeError, unknown
from heaptape.common.home import Home
from heaptape.features.candidates import crates, downloads


class Release(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where one version is; empty values are taken from the recipe."""

    release: str = ""
    package: str = ""
    folder: str = ""
    suite: str = ""
    note: str = ""


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table of the file; the file's head describes the keys."""

    registry: Literal["crates.io", "debian", "pypi"]
    licence: str
    folder: str
    library: str
    versions: dict[str, Release]
    package: str = ""
    tools: tuple[str, ...] = ()
    flags: str = ""
    build: str = ""
    beside: str = ""


@dataclass(frozen=True)
class Candidate:
    name: str
    version: str
    recipe: Recipe
    release: Release

    @property
    def package(self) -> str:
        return self.release.package or self.recipe.package

    @property
    def folder(self) -> str:
        return self.release.folder or self.recipe.folder

    @property
    def library(self) -> str:
        return self.recipe.library.replace("{machine}", os.uname().machine)


def load(home: Home) -> dict[str, Recipe]:
    """The recipes in the file's order. Raises HeaptapeError that names the file and the place."""
    return read(home.candidates_file())


def read(file: Path) -> dict[str, Recipe]:
    return {name: checked(f"{file}: {name}", table, Recipe) for name, table in read_toml(file).items()}


def choose(text: str, recipes: dict[str, Recipe]) -> Candidate:
    """The newest known version of NAME, or of the series VERSION. Raises HeaptapeError that lists the known ones."""
    name, _, version = text.partition("@")
    if name not in recipes:
        raise unknown("recipe", name, recipes, more=", and --from for other sources")
    recipe = recipes[name]
    known = sorted(recipe.versions, key=version_key)
    found = [one for one in known if one == version] or [one for one in known if matches(one, version)]
    if not found:
        raise HeaptapeError(f"{name} has no known version {version}: there are {', '.join(known)}")
    return Candidate(name, found[-1], recipe, recipe.versions[found[-1]])


# LLVM's runtime package is the largest of the known sources: about 100 MB, 1,000 files.
MOST_BYTES = 2 << 30
MOST_FILES = 100_000


def unpack(name: str, archive: IO[bytes], into: Path) -> None:
    """Unpacks a tar archive, compressed or not, from a stream. `name`: for errors. Links that lead out of the folder
    and devices are left out. Raises HeaptapeError where it is not a tar archive, has a path that leads out of the
    folder, or is too large.
    """
    root = into.resolve()
    total = 0
    try:
        with tarfile.open(fileobj=archive, mode="r|*") as tar:
            for count, member in enumerate(tar):
                total += member.size
                if total > MOST_BYTES or count >= MOST_FILES:
                    raise HeaptapeError(f"{name}: has more than {MOST_BYTES >> 30} GiB or {MOST_FILES:,} files")
                _extract(name, tar, member, root)
    except (tarfile.TarError, EOFError, LZMAError, zlib.error, ValueError) as error:
        raise HeaptapeError(f"{name}: can't be unpacked: {error}") from None


def _extract(name: str, tar: tarfile.TarFile, member: tarfile.TarInfo, root: Path) -> None:
    path = _inside(name, member.name, root)
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if member.isfile() and (data := tar.extractfile(member)):
        path.unlink(missing_ok=True)
        with path.open("xb") as file:
            shutil.copyfileobj(data, file)
        path.chmod(0o755 if member.mode & 0o100 else 0o644)
    elif member.islnk() and (there := _inside(name, member.linkname, root)).is_file():
        shutil.copyfile(there, path, follow_symlinks=False)
    elif member.issym() and (path.parent / member.linkname).resolve().is_relative_to(root):
        path.unlink(missing_ok=True)
        path.symlink_to(member.linkname)


def _inside(name: str, text: str, root: Path) -> Path:
    """A member's path below the folder, with links followed."""
    pure = PurePosixPath(text)
    if not pure.parts:
        return root
    path = root / pure
    if pure.is_absolute() or ".." in pure.parts or not path.parent.resolve().is_relative_to(root):
        raise HeaptapeError(f"{name}: its path {text!r} leads out of the folder")
    return path


def top(folder: Path) -> Path:
    """The archive's single top folder, or the folder it was unpacked to if there are several entries."""
    found = list(folder.iterdir())
    return found[0] if len(found) == 1 and found[0].is_dir() else folder


@dataclass(frozen=True)
class Plan:
    """What is to be installed under NAME@VERSION, and how: `bring(folder, kept)` puts the sources into the folder and
    returns what they are and where in it the build runs; archives of registries are in `kept`. `beside`: which files of
    the library's folder are kept with it.
    """

    name: str
    version: str
    bring: Callable[[Path, Path], tuple[Source, Path]]
    build: str
    library: str
    tools: tuple[str, ...] = ()
    flags: str = ""
    licence: str = ""
    beside: str = ""

    @property
    def label(self) -> str:
        return f"{self.name}@{self.version}"


def of_recipe(candidate: Candidate) -> Plan:
    recipe = candidate.recipe

    def bring(folder: Path, kept: Path) -> tuple[Source, Path]:
        package, release, note = candidate.package, candidate.release.release, candidate.release.note
        if candidate.release.suite:
            series = candidate.version if candidate.version[0].isdigit() else ""
            kept_there = kept / "debian"
            archive, source = downloads.fetch_of_suite(package, candidate.release.suite, series, kept_there)
            note = note or f"of Debian's {candidate.release.suite}"
            _unpack_package(archive, folder)
            found = folder
        elif recipe.registry == "debian":
            archive, source = downloads.fetch(downloads.DEBIAN, package, release, kept / "debian")
            _unpack_package(archive, folder)
            found = folder
        elif recipe.registry == "pypi":
            archive, source = downloads.fetch(downloads.PYPI, package, release, kept / "pypi")
            _unpack_wheel(archive, candidate.folder, folder)
            found = folder
        else:
            archive, source = crates.fetch(package, release, kept / "crates.io")
            _unpack_archive(archive, folder)
            found = top(folder)
        built = found / candidate.folder
        if not built.is_dir():
            raise HeaptapeError(f"{archive}: has no folder {candidate.folder}")
        return Source(source.origin, source.package, source.release, source.sha256, note), built

    tools = (*recipe.tools, "dpkg-deb") if recipe.registry == "debian" else recipe.tools
    about = (tools, recipe.flags, recipe.licence, recipe.beside)
    return Plan(candidate.name, candidate.version, bring, recipe.build, candidate.library, *about)


def of_own(place: Path, name: str, build: str, library: str) -> Plan:
    """The plan for a folder or an archive of the user. `name`: NAME[@VERSION]; by default the place's name and the
    first digits of the sources' hash. Raises HeaptapeError.
    """
    if not place.exists():
        raise HeaptapeError(f"{place}: no such folder or archive")
    digest = _hash_of_folder(place) if place.is_dir() else sha256_of(place)
    called, _, version = name.partition("@")
    called = called or place.resolve().name.split(".")[0]

    def bring(folder: Path, kept: Path) -> tuple[Source, Path]:
        if place.is_dir():
            # A copy, so that the build's files are not in the checkout.
            shutil.copytree(place, folder / "source", symlinks=True)
            return Source("folder", place.resolve().name, "", digest), folder / "source"
        _unpack_archive(place, folder)
        return Source("archive", place.name, "", digest), top(folder)

    return Plan(called, version or digest[:12], bring, build, library)


def _unpack_archive(archive: Path, folder: Path) -> None:
    with archive.open("rb") as file:
        unpack(str(archive), file, folder)


def _unpack_package(archive: Path, folder: Path) -> None:
    command = ["dpkg-deb", "--fsys-tarfile", str(archive)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        with contextlib.closing(process.stdout):
            unpack(str(archive), process.stdout, folder)
        why = process.stderr.read().decode(errors="replace").strip()
    if process.returncode != 0 and why:
        raise HeaptapeError(f"{archive}: {why.splitlines()[-1]}")


def _unpack_wheel(archive: Path, part: str, folder: Path) -> None:
    """Only that folder of it: a wheel's compiler has 17,000 files."""
    try:
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(folder, [name for name in wheel.namelist() if name.startswith(f"{part}/")])
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise HeaptapeError(f"{archive}: can't be unpacked: {error}") from None


def _hash_of_folder(folder: Path) -> str:
    """Hash of the names and contents of its files, except git's own."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if ".git" in relative.parts or path.is_symlink() or not path.is_file():
            continue
        digest.update(f"{relative}\0{sha256_of(path)}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()
