# SPDX-License-Identifier: MIT
"""Data from files, checked against msgspec structs. Data that do not fit raise an error that names file and place."""

import sys
from pathlib import Path
from typing import TypeVar

import msgspec

from heaptape.common.errors import HeaptapeError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

T = TypeVar("T")


def checked(path: str | Path, data: object, kind: type[T]) -> T:
    """The data as type `kind`. Raises HeaptapeError, `PATH: runs[3].timeline: Expected ...`, if they do not fit it."""
    try:
        return msgspec.convert(data, kind)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:  # half of a surrogate pair is not text
        what, _, place = str(error).partition(" - at `$")
        where = f"{place[:-1].lstrip('.')}: " if place else ""
        raise HeaptapeError(f"{path}: {where}{what}") from None


def read_toml(path: Path) -> dict:
    """The contents of a TOML file. Raises HeaptapeError, which names the file, if it can't be read."""
    try:
        return tomllib.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise HeaptapeError(f"{path}: {error}") from None


def read_named(path: Path, kind: type[T]) -> T:
    """A TOML file as a struct that also has the file's `name` (without its ending) and `path`. Raises HeaptapeError."""
    table = read_toml(path)
    for key in ("name", "path"):
        if key in table:
            raise HeaptapeError(f"{path}: Object contains unknown field `{key}`")
    return checked(path, table | {"name": path.stem, "path": path}, kind)
