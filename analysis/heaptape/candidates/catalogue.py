# SPDX-License-Identifier: MIT
"""The recipes of allocators/candidates.toml, and which one NAME[@VERSION] selects."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from heaptape.common.checked import checked, read_toml
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.run.installed import matches, version_key


class Release(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where one version is; empty values are taken from the recipe."""

    release: str = ""
    package: str = ""
    folder: str = ""
    note: str = ""


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table of the file; the file's head describes the keys."""

    registry: Literal["crates.io", "debian"]
    licence: str
    folder: str
    library: str
    versions: dict[str, Release]
    package: str = ""
    tools: tuple[str, ...] = ()
    flags: str = ""
    build: str = ""


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


def choose(text: str, recipes: dict[str, Recipe], release: str = "") -> Candidate:
    """The newest known version of NAME, or of the series VERSION. `release`: of the package, for an unknown version,
    which is built like the newest known one. Raises HeaptapeError that lists the known ones.
    """
    name, _, version = text.partition("@")
    if name not in recipes:
        raise HeaptapeError(f"no recipe for '{name}': there are {', '.join(recipes)}, and --from for other sources")
    recipe = recipes[name]
    known = sorted(recipe.versions, key=version_key)
    if release:
        if not version:
            raise HeaptapeError(f"{name} --release {release}: which version is it? {name}@VERSION")
        of_series = [one for one in known if matches(one, version.split(".")[0])] or known
        like = recipe.versions[of_series[-1]]
        return Candidate(name, version, recipe, msgspec.structs.replace(like, release=release, note=""))
    found = [one for one in known if one == version] or [one for one in known if matches(one, version)]
    if not found:
        raise HeaptapeError(f"{name} has no known version {version}: there are {', '.join(known)}")
    return Candidate(name, found[-1], recipe, recipe.versions[found[-1]])
