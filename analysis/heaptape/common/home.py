"""Where the command's other files lie: in a checkout (out/libexec, out/lib) or installed (PREFIX/libexec/heaptape,
PREFIX/lib/heaptape).
"""

import os
from dataclasses import dataclass
from pathlib import Path

from heaptape.common.errors import HeaptapeError

PACKAGE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Home:
    """The directory above bin/: `out` in a checkout, PREFIX when installed."""

    directory: Path

    def program(self, name: str) -> Path:
        """The C program heaptape-NAME. Raises HeaptapeError if it is not built."""
        for folder in ("libexec", "libexec/heaptape"):
            path = self.directory / folder / f"heaptape-{name}"
            if path.is_file():
                return path
        raise HeaptapeError(f"its program heaptape-{name} is missing from {self.directory / 'libexec'}: run 'make'")

    def library_directories(self) -> list[Path]:
        """Where allocators of our own are found, before the system's directories."""
        return [self.directory / "lib", self.directory / "lib" / "heaptape"]

    def registry_file(self) -> Path:
        """allocators.toml."""
        return _of_allocators("allocators.toml")

    def candidates_file(self) -> Path:
        """candidates.toml."""
        return _of_allocators("candidates.toml")


def _of_allocators(name: str) -> Path:
    """A file of allocators/: beside the package when installed."""
    for path in (PACKAGE.parent / name, PACKAGE.parent.parent / "allocators" / name):
        if path.is_file():
            return path
    raise HeaptapeError(f"{name} is missing: the installation is not complete")


def cache_folder(name: str) -> Path:
    """$XDG_CACHE_HOME/heaptape/NAME, by default in ~/.cache. May be deleted at any time."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "heaptape" / name


def default_home() -> Home:
    """Home for `python -m heaptape` and for the library, which no launcher started."""
    checkout = PACKAGE.parent.parent / "out"
    return Home(checkout if checkout.is_dir() else PACKAGE.parent.parent.parent)
