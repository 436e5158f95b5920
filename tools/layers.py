#!/usr/bin/env python3
"""Holds the code to the table of arrows in layers.toml: `make layers`. Prints each offence as FILE:LINE.

Three rules, for C and Python alike: an include or import that the table does not allow is an offence; so is a folder that the
table does not know; and so is a circle of files, where a file is a C source with its header, or a Python module.
"""

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

Arrows = dict[str, list[str]]

TABLE = Path(__file__).resolve().parent / "layers.toml"
LEFT_OUT = {"test", "bench", "hosts"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
# A library loaded into Python; the C library's own calls (CDLL(None), for prctl) are the system's, not ours.
C_INTERNALS = re.compile(r"\bcffi\b|\bcdll\b|\b[CP]yDLL\(|\bCDLL\((?!None\))")


def allowed(table: Arrows, source: str, target: str) -> bool:
    """May a file of folder `source` use one of folder `target`?"""
    if source == target:
        return True
    return any(
        target == entry or (entry.endswith("/*") and target.startswith(entry[:-1])) for entry in table.get(source, [])
    )


def c_files(root: Path, table: Arrows) -> Iterator[Path]:
    """Sources and headers of the parts that the table names, without tests."""
    for part in sorted({folder.split("/")[0] for folder in table}):
        for path in sorted((root / part).rglob("*")):
            if path.suffix in (".c", ".h", ".cc", ".def") and not LEFT_OUT & set(path.relative_to(root).parts):
                yield path


def c_includes(root: Path, path: Path) -> Iterator[tuple[int, str]]:
    """Line numbers and targets of the file's own includes."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if match := INCLUDE.match(line):
            yield number, match[1]


def c_offences(root: Path, table: Arrows) -> list[str]:
    found = []
    for path in c_files(root, table):
        name, folder = path.relative_to(root), str(path.parent.relative_to(root))
        if folder not in table:
            found.append(f"{name}:1: the table does not know the folder {folder}")
            continue
        for number, target in c_includes(root, path):
            if not allowed(table, folder, str(Path(target).parent)):
                found.append(f"{name}:{number}: {folder} may not include {target}")
    return found


def c_graph(root: Path, table: Arrows) -> dict[str, set[str]]:
    """File (without its suffix) -> files that it includes."""
    graph: dict[str, set[str]] = {}
    for path in c_files(root, table):
        own = str(path.relative_to(root).with_suffix(""))
        targets = {str(Path(target).with_suffix("")) for _, target in c_includes(root, path)}
        graph.setdefault(own, set()).update(targets - {own})
    return graph


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Strongly connected components of more than one node, each sorted (Tarjan, iterative)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: list[list[str]] = []
    for start in sorted(graph):
        if start in index:
            continue
        work: list[tuple[str, Iterator[str]]] = []

        def enter(node: str, work: list[tuple[str, Iterator[str]]] = work) -> None:
            index[node] = low[node] = len(index)
            stack.append(node)
            on_stack.add(node)
            work.append((node, iter(sorted(graph.get(node, ())))))

        enter(start)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in index:
                    enter(target)
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = [stack.pop()]
                    while component[-1] != node:
                        component.append(stack.pop())
                    on_stack -= set(component)
                    if len(component) > 1:
                        found.append(sorted(component))
    return found


def c_internals(root: Path) -> list[str]:
    """Python that loads one of our C libraries."""
    return [
        f"{path.relative_to(root)}:{number}: analysis/ reads artefacts, never C internals"
        for path in sorted((root / "analysis").rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if C_INTERNALS.search(line)
    ]


def circle_lines(found: Iterable[list[str]]) -> list[str]:
    return ["a circle of files: " + ", ".join(circle) for circle in found]


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    table = tomllib.loads(TABLE.read_text())
    problems = c_offences(root, table["c"]) + circle_lines(circles(c_graph(root, table["c"]))) + c_internals(root)
    print("\n".join(problems) if problems else "layers: every arrow is in tools/layers.toml, and there is no circle of files")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
