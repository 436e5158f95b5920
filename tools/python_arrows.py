"""Which sub-package of analysis/heaptape may import which, and whether any modules import each other in a circle.

Imports are read, not run, and lazy ones count: an import within a function is still a dependency. Imports of the
package itself (`import heaptape`) count as imports of the room `heaptape`, the public interface above all others.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "heaptape"
# Each sub-package -> those that it may import beside itself, from the bottom upwards. What stands directly in the
# package (the public interface, the entry points) may import every one, and is imported by none.
PYTHON_ARROWS: dict[str, tuple[str, ...]] = {
    "common": (),
    "formats": ("common",),
    "results": ("common", "formats"),
    "measure": ("common", "formats", "results"),
    "tables": ("common", "results"),
    "plots": ("common", "formats", "results"),
    "profile": ("common", "formats", "tables"),
    "export": ("common", "formats"),
    "report": ("common", "formats", "plots", "profile", "results", "tables"),
    "fidelity": ("common", "formats", "measure"),
    "cli": ("common", "export", "fidelity", "formats", "measure", "plots", "profile", "report", "results", "tables"),
}
# module -> those that it imports, with the line of each import
Imports = dict[str, list[tuple[str, int]]]


def offences(root: Path, allowed: dict[str, tuple[str, ...]]) -> list[str]:
    """Imports that `allowed` (sub-package -> others it may import) does not have, as FILE:LINE and what is wrong.
    `root`: the checkout; the package lies in analysis/heaptape.
    """
    found = []
    modules = _modules(root)
    for module, imports in _imports(modules).items():
        room = _room(module, modules)
        if room == PACKAGE:
            continue
        place = modules[module].relative_to(root)
        if room not in allowed:
            found.append(f"{place}:1: {room}/ is not in the table of arrows")
            continue
        for target, line in imports:
            other = _room(target, modules)
            if other != room and other not in allowed[room]:
                found.append(f"{place}:{line}: {room}/ may not import {target}")
    return found


def circles(root: Path) -> list[list[str]]:
    """Groups of modules that import each other, directly or through others, lazy imports included; each sorted."""
    graph = {
        module: {target for target, _ in imports if target != module}
        for module, imports in _imports(_modules(root)).items()
    }
    reached = {module: _reachable(graph, module) for module in graph}
    groups = {
        tuple(sorted(other for other in reached[module] if module in reached[other]))
        for module in graph
        if module in reached[module]
    }
    return [list(group) for group in sorted(groups)]


def _modules(root: Path) -> dict[str, Path]:
    """Dotted name -> file, of all modules of the package."""
    above = root / "analysis"
    found = {}
    for path in sorted((above / PACKAGE).rglob("*.py")):
        parts = path.relative_to(above).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _imports(modules: dict[str, Path]) -> Imports:
    return {module: sorted(set(_imports_of(module, path, modules))) for module, path in modules.items()}


def _imports_of(module: str, path: Path, modules: dict[str, Path]) -> Iterator[tuple[str, int]]:
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            whole = (f"{source}.{alias.name}" for alias in node.names)
            names = [name if name in modules else source for name in whole]
        else:
            continue
        for name in names:
            if name in modules:
                yield name, node.lineno


def _room(module: str, modules: dict[str, Path]) -> str:
    """The sub-package that a module lies in; PACKAGE for what lies directly in the package."""
    parts = module.split(".")
    if len(parts) == 1 or (len(parts) == 2 and modules[module].name != "__init__.py"):
        return PACKAGE
    return parts[1]


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """What can be reached from a module by one import or more."""
    found: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += graph[module]
    return found


if __name__ == "__main__":
    checkout = Path(__file__).resolve().parent.parent
    problems = offences(checkout, PYTHON_ARROWS)
    problems += ["circle of modules: " + " ".join(circle) for circle in circles(checkout)]
    print("\n".join(problems) if problems else "python arrows: imports run downwards only, in no circle")
    sys.exit(1 if problems else 0)
