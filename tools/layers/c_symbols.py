# SPDX-License-Identifier: MIT
"""Which folder of C sources uses which, by the symbols of its objects: a header may declare what another folder
defines, and an include does not show that.
"""

import subprocess
from collections import defaultdict
from pathlib import Path

import c_arrows

BUILDS = ("obj", "pic")  # folders of objects below out/
DEFINED, UNDEFINED = "TDBRVW", "U"


def used(root: Path, out: Path, table: c_arrows.Arrows) -> dict[tuple[str, str], set[str]]:
    """(folder, folder) -> symbols that objects of the first need and only objects of the second define. What several
    folders define (main) is chosen when a program is linked, and what the C library has, too (malloc), is its own.
    """
    defines: dict[str, set[str]] = defaultdict(set)
    needs: dict[str, set[str]] = defaultdict(set)
    system = _of_the_c_library()
    for folder, objects in _objects(root, out, table).items():
        listed = subprocess.run(["nm", "-A", *objects], capture_output=True, text=True, check=True).stdout
        for line in listed.splitlines():
            *_, kind, name = line.rsplit(maxsplit=2)
            if name in system:
                continue
            if kind in DEFINED:
                defines[name].add(folder)
            elif kind in UNDEFINED:
                needs[folder].add(name)
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for folder, names in needs.items():
        for name in names:
            if len(defines[name]) == 1 and folder not in defines[name]:
                found[folder, min(defines[name])].add(name)
    return found


def offences(root: Path, out: Path, table: c_arrows.Arrows) -> list[str]:
    return [
        f"{source} may not use {target}: {', '.join(sorted(names)[:3])}"
        for (source, target), names in sorted(used(root, out, table).items())
        if not c_arrows.allowed(table, source, target)
    ]


def _of_the_c_library() -> set[str]:
    path = subprocess.run(["gcc", "-print-file-name=libc.so.6"], capture_output=True, text=True, check=True).stdout
    listed = subprocess.run(["nm", "-D", path.strip()], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].partition("@")[0] for line in listed.splitlines()}


def _objects(root: Path, out: Path, table: c_arrows.Arrows) -> dict[str, list[str]]:
    return {
        folder: objects
        for folder in table
        if (
            objects := [
                str(path)
                for build in BUILDS
                for path in sorted((out / build / folder).glob("*.o"))
                if (root / folder / path.name).with_suffix(".c").exists()  # else left from an earlier build
            ]
        )
    }
