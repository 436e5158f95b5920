"""Where the command's other files lie: in a checkout (out/libexec, out/lib) or installed (PREFIX/libexec/heaptape,
PREFIX/lib/heaptape).
"""

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
        """allocators.toml: beside the package when installed, in allocators/ in a checkout."""
        for path in (PACKAGE.parent / "allocators.toml", PACKAGE.parent.parent / "allocators" / "allocators.toml"):
            if path.is_file():
                return path
        raise HeaptapeError("allocators.toml is missing: the installation is not complete")


def default_home() -> Home:
    """Home for `python -m heaptape` and for the library, which no launcher told."""
    checkout = PACKAGE.parent.parent / "out"
    return Home(checkout if checkout.is_dir() else PACKAGE.parent.parent.parent)
