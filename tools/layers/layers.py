#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the code against the table of arrows in layers.toml: `make layers`. Prints each offence as FILE:LINE.

Three rules, for both C and Python: an include or import that the table does not allow is an offence; so is a folder
that is not in the table; and so is a cycle of files, where a file is a C source with its header, or a Python
module. Two more for C: a function of more than five parameters, tests included (c_parameters.py); and an arrow or a
cycle by symbols, of the objects below the folder that is the argument (c_symbols.py). A row of the table for what is
not there is an offence, too; with that folder, also one that nothing needs.
"""

import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import c_arrows
import c_parameters
import c_symbols
import python_arrows

TABLE = Path(__file__).resolve().parent / "layers.toml"
# A library loaded into Python; the C library's own calls (CDLL(None), for prctl) are the system's, not ours. One module
# may: the reader of traces, whose library has a contract of its own (core/reader/reader_library.h).
LIBRARY_USER = Path("analysis/heaptape/tape/library.py")
C_INTERNALS = re.compile(r"\bcffi\b|\bcdll\b|\b(?:Py|C)DLL\((?!None\))")


C_PARTS = {"allocators", "capture", "convert", "core", "observe", "replay", "tests", "workloads"}


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of nodes that lead to each other, directly or through other nodes; each sorted."""
    reached = {node: _reachable(graph, node) for node in graph}
    groups = {
        tuple(sorted(other for other in reached[node] if node in reached.get(other, ())))
        for node in graph
        if node in reached[node]
    }
    return [list(group) for group in sorted(groups)]


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """Nodes that can be reached from a node by one arrow or more."""
    found: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += graph.get(node, ())
    return found


def c_internals(root: Path) -> list[str]:
    """Python that loads one of our C libraries, but for LIBRARY_USER."""
    return [
        f"{path.relative_to(root)}:{number}: analysis/ reads artefacts, never C internals"
        for path in sorted((root / "analysis").rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if C_INTERNALS.search(line) and path.relative_to(root) != LIBRARY_USER
    ]


def in_cycles(graph: dict[str, set[str]]) -> list[str]:
    return ["a cycle of files: " + ", ".join(cycle) for cycle in cycles(graph)]


def unused(arrows: c_arrows.Arrows, graph: dict[str, set[str]], folder: Callable[[str], str]) -> list[str]:
    """Entries by which no file of the graph uses another."""
    used = {(folder(source), folder(target)) for source, targets in graph.items() for target in targets}
    return [
        f"layers.toml: {source} does not use {entry}"
        for source, entries in arrows.items()
        for entry in entries
        if not any(a == source != b and c_arrows.allowed({a: [entry]}, a, b) for a, b in used)
    ]


def by_symbols(root: Path, out: Path, table: dict[str, dict[str, list[str]]]) -> list[str]:
    uses = c_symbols.used(root, out, table["c"])
    back = {(source, target) for source, targets in table["back"].items() for target in targets}
    every, included = c_symbols.graph(uses), c_arrows.graph(root, table["c"])
    both = {file: every.get(file, set()) | included.get(file, set()) for file in every | included}
    return [
        *c_symbols.offences(uses, table["c"]),
        *in_cycles(c_symbols.graph(uses.keys() - back)),
        *unused(table["c"], both, lambda file: str(Path(file).parent)),
        *(
            f"layers.toml: {source} does not use {target}, or is not used by it"
            for source, target in sorted(back)
            if (source, target) not in uses or source not in _reachable(every, target)
        ),
    ]


def unused_in_python(root: Path, table: dict[str, dict[str, list[str]]]) -> list[str]:
    here = {path.parent.name for path in (root / "analysis/heaptape/features").glob("*/__init__.py")}  # not of C alone
    features = {
        f"features/{name}": [f"features/{other}" for other in others if other in here]
        for name, others in table["features"].items()
        if name in here
    }
    return unused(table["python"] | features, python_arrows.graph(root), python_arrows.sub_packages(root).__getitem__)


def offences(root: Path, table: dict[str, dict[str, list[str]]]) -> list[str]:
    found = (
        c_arrows.offences(root, table["c"])
        + python_arrows.offences(root, table["python"], table["features"])
        + c_internals(root)
    )
    found += c_parameters.offences(root, C_PARTS, table["parameters"]["imposed"])
    gone = [path for paths in table["parts"].values() for path in paths if not (root / path).exists()]
    found += [f"layers.toml: there is no {path}" for path in gone]
    for graph in (c_arrows.graph(root, table["c"]), python_arrows.graph(root)):
        found += in_cycles(graph)
    return found


def main() -> int:
    table = tomllib.loads(TABLE.read_text())
    root = Path(__file__).resolve().parents[2]
    problems = offences(root, table)
    for out in sys.argv[1:]:
        problems += by_symbols(root, Path(out), table) + unused_in_python(root, table)
    print(
        "\n".join(problems)
        if problems
        else "layers: the arrows are those of layers.toml; no cycle of files, no C function of too many parameters"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
