#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the symbols that libheaptape.so needs of other libraries against a list: tools/host_symbols.py LIBRARY [LIST].

The list (capture/host/allowed_symbols.txt) has one name per line; a line that begins with # is a comment; a name
followed by " ?" may be missing, because only some compilers or C libraries need it; a name followed by an architecture
(x86_64, aarch64) is only for libraries of that one. Prints each offence; exit 0 = none, 1 = some, 2 = usage.
"""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

# e_machine of ELF.
ARCHITECTURES = {62: "x86_64", 183: "aarch64"}

LIST = Path(__file__).resolve().parent.parent / "capture" / "host" / "allowed_symbols.txt"


class Allowed(NamedTuple):
    """Names of a list: those that the library may need, and those of them that it must need."""

    all: set[str]
    needed: set[str]


def architecture(library: Path) -> str:
    """The processor that a library is for; "": none that heaptape supports. OSError: it can't be read."""
    with library.open("rb") as file:
        return ARCHITECTURES.get(int.from_bytes(file.read(20)[18:], "little"), "")


def read_list(path: Path, architecture: str) -> Allowed:
    """A list's names for an architecture. ValueError, with file and line: not a name or comment, or a name twice."""
    allowed = Allowed(set(), set())
    seen = set()
    for number, line in enumerate(path.read_text().splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        name, *condition = words
        if condition not in ([], ["?"], *([known] for known in ARCHITECTURES.values())):
            raise ValueError(f"{path}:{number}: not one name: {line}")
        if name in seen:
            raise ValueError(f"{path}:{number}: {name} is there twice")
        seen.add(name)
        if condition in ([], ["?"], [architecture]):
            allowed.all.add(name)
            if condition != ["?"]:
                allowed.needed.add(name)
    return allowed


def undefined_symbols(library: Path) -> set[str]:
    """Names that the library's dynamic symbol table leaves undefined, without versions. OSError: nm cannot read it."""
    done = subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(done.stderr.strip() or f"nm cannot read {library}")
    return {line.split()[-1].partition("@")[0] for line in done.stdout.splitlines() if line.split()}


def offences(allowed: Allowed, undefined: set[str]) -> list[str]:
    """One line each: symbols that are needed and not listed, then those that are listed and no longer needed."""
    return [
        f"{name} is not in the list: it may not run inside a recorded program"
        for name in sorted(undefined - allowed.all)
    ] + [f"{name} is in the list and no longer needed" for name in sorted(allowed.needed - undefined)]


def main(arguments: list[str]) -> int:
    if len(arguments) not in (1, 2):
        print("usage: tools/host_symbols.py LIBRARY [LIST]", file=sys.stderr)
        return 2
    library, listed = Path(arguments[0]), Path(arguments[1]) if len(arguments) == 2 else LIST
    try:
        allowed = read_list(listed, architecture(library))
        found = offences(allowed, undefined_symbols(library))
    except (OSError, ValueError) as error:
        print(f"host_symbols: {error}", file=sys.stderr)
        return 1
    for line in found:
        print(f"{library}: {line}")
    if not found:
        print(f"host_symbols: {library} needs nothing that {listed.name} does not allow")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
