# SPDX-License-Identifier: MIT
"""Where the command's other files are: in a checkout, or installed under a prefix. A wheel is the package with a prefix
in it.

| files | checkout | installed |
|---|---|---|
| C programs | out/libexec | PREFIX/libexec/heaptape |
| libraries | out/lib | PREFIX/lib/heaptape |
| synthetic patterns | out/workloads | PREFIX/libexec/heaptape/workloads |
| allocators.toml, recipes, corpus | their folders | PREFIX/share/heaptape, as in a checkout |
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from heaptape.common.errors import HeaptapeError

PACKAGE = Path(__file__).resolve().parent.parent
CHECKOUT = PACKAGE.parent.parent
IN_WHEEL = PACKAGE / "prefix"


def _shared() -> Path:
    if (CHECKOUT / "allocators" / "allocators.toml").is_file():
        return CHECKOUT
    return (IN_WHEEL if IN_WHEEL.is_dir() else CHECKOUT.parent) / "share" / "heaptape"


# Holds allocators/, workloads/ and tools/, as a checkout does.
SHARED = _shared()


@dataclass(frozen=True)
class Home:
    """The directory above bin/: `out` in a checkout, PREFIX when installed (a wheel's has no bin/)."""

    directory: Path

    def program(self, name: str) -> Path:
        """The C program heaptape-NAME. Raises HeaptapeError if it is not built."""
        for folder in ("libexec", "libexec/heaptape"):
            path = self.directory / folder / f"heaptape-{name}"
            if path.is_file():
                return path
        raise HeaptapeError(f"its program heaptape-{name} is missing from {self.directory / 'libexec'}: run 'make'")

    def command(self) -> list[str]:
        """The words that run `heaptape`, without its arguments."""
        path = self.directory / "bin" / "heaptape"
        return [str(path)] if path.is_file() else [sys.executable, "-m", "heaptape"]

    def library_directories(self) -> list[Path]:
        """Where our own allocators are searched for, before the system's directories."""
        return [self.directory / "lib", self.directory / "lib" / "heaptape"]

    def library(self, name: str) -> Path | None:
        """Our library of that file name. None: it is not built."""
        return next((file for folder in self.library_directories() if (file := folder / name).is_file()), None)

    def pattern_directories(self) -> list[Path]:
        return [self.directory / "workloads", self.directory / "libexec" / "heaptape" / "workloads"]

    def registry_file(self) -> Path:
        return _of_allocators("allocators.toml")

    def candidates_file(self) -> Path:
        return _of_allocators("candidates.toml")


def _of_allocators(name: str) -> Path:
    path = SHARED / "allocators" / name
    if not path.is_file():
        raise HeaptapeError(f"{path} is missing: the installation is not complete")
    return path


def cache_folder(name: str) -> Path:
    """$XDG_CACHE_HOME/heaptape/NAME, by default in ~/.cache. May be deleted at any time."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "heaptape" / name


def default_home() -> Home:
    """Home for `python -m heaptape` and for the library, which no launcher started."""
    if SHARED == CHECKOUT:
        return Home(CHECKOUT / "out")
    return Home(SHARED.parent.parent)
