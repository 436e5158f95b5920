# SPDX-License-Identifier: MIT
"""Which C source uses which, by the symbols of its objects: a header may declare what another folder or file defines,
and an include does not show that.
"""

import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import c_arrows

Uses = dict[tuple[str, str], set[str]]

# Folders of objects below out/.
BUILDS = ("obj", "pic", "valgrind", "allocators/*/pic")
DEFINED, UNDEFINED = "TDBRVW", "U"


def used(root: Path, out: Path, table: c_arrows.Arrows) -> Uses:
    """(file, file), without suffixes -> symbols that the first needs and only the second defines. What several files
    define (main) is chosen when a program is linked, and what the C library has, too (malloc), is its own.
    """
    defines: dict[str, set[str]] = defaultdict(set)
    needs: dict[str, set[str]] = defaultdict(set)
    system = _of_the_c_library()
    for file, objects in _objects(root, out, table).items():
        listed = subprocess.run(["nm", "-A", *objects], capture_output=True, text=True, check=True).stdout
        for line in listed.splitlines():
            *_, kind, name = line.rsplit(maxsplit=2)
            if name in system:
                continue
            if kind in DEFINED:
                defines[name].add(file)
            elif kind in UNDEFINED:
                needs[file].add(name)
    found: Uses = defaultdict(set)
    for file, names in needs.items():
        for name in names:
            if len(defines[name]) == 1 and file not in defines[name]:
                found[file, min(defines[name])].add(name)
    return found


def offences(uses: Uses, table: c_arrows.Arrows) -> list[str]:
    between: Uses = defaultdict(set)
    for (source, target), names in uses.items():
        between[str(Path(source).parent), str(Path(target).parent)] |= names
    return [
        f"{source} may not use {target}: {', '.join(sorted(names)[:3])}"
        for (source, target), names in sorted(between.items())
        if not c_arrows.allowed(table, source, target)
    ]


def graph(uses: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """File -> files that it uses."""
    graph: dict[str, set[str]] = {}
    for source, target in uses:
        graph.setdefault(source, set()).add(target)
        graph.setdefault(target, set())
    return graph


def _of_the_c_library() -> set[str]:
    path = subprocess.run(["gcc", "-print-file-name=libc.so.6"], capture_output=True, text=True, check=True).stdout
    listed = subprocess.run(["nm", "-D", path.strip()], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].partition("@")[0] for line in listed.splitlines()}


def _objects(root: Path, out: Path, table: c_arrows.Arrows) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for folder in table:
        for build in BUILDS:
            for path in sorted(out.glob(f"{build}/{folder}/*.o")):
                file = f"{folder}/{path.stem}"
                if (root / file).with_suffix(".c").exists():  # else left from an earlier build
                    found.setdefault(file, []).append(str(path))
    return found
