# SPDX-License-Identifier: MIT
"""A glibc that is not this system's: a folder in which a package was unpacked, or that `make` or `make install` of
glibc has filled. It can't be preloaded: programs run on it if its own dynamic linker starts them.
"""

import os
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from heaptape.allocators.installed import version_key
from heaptape.common.errors import HeaptapeError

LIBRARY = "libc.so.6"
LOADERS = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}
BUILT_LOADER = "elf"  # the folder of it where glibc was built
ELF, ELF_BYTES = b"\x7fELF", 64  # an ELF file's beginning, and how long its header is
VERSION = re.compile(rb"GNU C Library [^\n]{0,200}?version (\d+\.\d+[\w.]*)")


@dataclass(frozen=True)
class CLibrary:
    """`library`: its malloc's file; `folders`: where its linker finds its libraries; `version`: empty if unknown."""

    library: Path
    loader: Path
    folders: tuple[Path, ...]
    version: str


def find(folder: Path) -> CLibrary:
    """The glibc in a folder. Raises HeaptapeError in one line: there is none, or one that can't run here."""
    machine = os.uname().machine
    name = LOADERS.get(machine)
    if name is None:
        raise HeaptapeError(f"{folder}: the name of glibc's dynamic linker on {machine} is not known")
    if not folder.is_dir():
        raise HeaptapeError(f"{folder}: no such folder")
    root = folder.resolve()
    places = [root / part for part in ("", "lib", "lib64", f"lib/{machine}-linux-gnu")]
    places += [root / "usr" / part for part in ("lib", "lib64", f"lib/{machine}-linux-gnu")]
    for place in places:
        found = [path for path in (place / name, place / BUILT_LOADER / name) if path.is_file()]
        if found and (place / LIBRARY).is_file():
            return _found(folder, place, found[0])
    raise HeaptapeError(f"{folder}: no glibc for {machine} in it: no {LIBRARY} beside {name} or {BUILT_LOADER}/{name}")


def own_loader() -> Path | None:
    """The dynamic linker of this process; None: it is not glibc's."""
    name = LOADERS.get(os.uname().machine)
    mapped = (line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines())
    return next((Path(path) for path in mapped if name and path.endswith("/" + name)), None)


@cache
def tunables(loader: Path) -> frozenset[str] | None:
    """Names of malloc's tunables that this dynamic linker lists, by itself; None: it can't list them (before 2.33)."""
    try:
        listed = subprocess.run(
            [loader, "--list-tunables"], capture_output=True, errors="replace", check=False, env={}, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    names = frozenset(re.findall(r"^glibc\.malloc\.(\w+):", listed.stdout, re.MULTILINE))
    return names if listed.returncode == 0 and names else None


def check_runs(one: CLibrary, program: Path) -> None:
    """Raises HeaptapeError if it is too old for the program."""
    if why := too_old([one.version] if one.version else [], program):
        raise HeaptapeError(why)


def too_old(versions: Iterable[str], program: Path) -> str:
    """Says which of these versions of glibc the program can't run on; empty: none."""
    needed = max(map(int, re.findall(rb"GLIBC_2\.([0-9]+)\0", program.read_bytes())), default=0)
    old = [version for version in versions if version_key(version) < version_key(f"2.{needed}")]
    is_are = "are" if len(old) > 1 else "is"
    return f"glibc {', '.join(old)} {is_are} too old: {program.name} here needs 2.{needed} or newer" if old else ""


def _found(folder: Path, place: Path, loader: Path) -> CLibrary:
    library = place / LIBRARY
    of_parts = {path.parent for path in place.glob("*/lib*.so.[0-9]*")} if loader.parent != place else set()
    if any(re.search("[ :;]", str(path)) for path in (library, *of_parts)):
        raise HeaptapeError(f"{folder}: the dynamic linker takes no path with a space, a colon or a semicolon")
    own = _processor(Path("/proc/self/exe").read_bytes())
    for file in (loader, library):
        try:
            data = file.read_bytes()
        except OSError as error:
            raise HeaptapeError(f"{folder}: can't read its {file.name}: {error.strerror}") from None
        if not data.startswith(ELF) or len(data) < ELF_BYTES:
            raise HeaptapeError(f"{folder}: its {file.name} is no ELF file")
        if _processor(data) != own:
            raise HeaptapeError(f"{folder}: its {file.name} is of another processor than this {os.uname().machine}")
    version = VERSION.search(data)
    return CLibrary(library, loader, (place, *sorted(of_parts)), version[1].decode().rstrip(".") if version else "")


def _processor(data: bytes) -> tuple[bytes, bytes]:
    """Of an ELF file: word length and byte order, and the instruction set."""
    return data[4:6], data[18:20]
