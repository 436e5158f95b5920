# SPDX-License-Identifier: MIT
"""Which folder of C sources includes which. Includes are read as text: each of our own is a path from the root."""

import re
from collections.abc import Iterator
from pathlib import Path

Arrows = dict[str, list[str]]

LEFT_OUT = {"test", "fuzz", "bench"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def allowed(table: Arrows, source: str, target: str) -> bool:
    """May a file of folder `source` use one of folder `target`?"""
    if source == target:
        return True
    return any(
        target == entry or (entry.endswith("/*") and target.startswith(entry[:-1])) for entry in table.get(source, [])
    )


def files(root: Path, table: Arrows) -> Iterator[Path]:
    """Sources and headers of the parts that the table names, without tests."""
    for part in sorted({folder.split("/")[0] for folder in table}):
        for path in sorted((root / part).rglob("*")):
            if path.suffix in (".c", ".h", ".cc", ".def") and not LEFT_OUT & set(path.relative_to(root).parts):
                yield path


def includes(path: Path) -> Iterator[tuple[int, str]]:
    """Line numbers and targets of the file's own includes."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if match := INCLUDE.match(line):
            yield number, match[1]


def offences(root: Path, table: Arrows) -> list[str]:
    found = []
    for path in files(root, table):
        name, folder = path.relative_to(root), str(path.parent.relative_to(root))
        if folder not in table:
            found.append(f"{name}:1: the folder {folder} is not in the table")
            continue
        for number, target in includes(path):
            if not allowed(table, folder, str(Path(target).parent)):
                found.append(f"{name}:{number}: {folder} may not include {target}")
    return found


def graph(root: Path, table: Arrows) -> dict[str, set[str]]:
    """File (without its suffix) -> files that it includes."""
    graph: dict[str, set[str]] = {}
    for path in files(root, table):
        own = str(path.relative_to(root).with_suffix(""))
        targets = {str(Path(target).with_suffix("")) for _, target in includes(path)}
        graph.setdefault(own, set()).update(targets - {own})
    return graph
