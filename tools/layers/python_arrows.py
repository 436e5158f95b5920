# SPDX-License-Identifier: MIT
"""Which sub-package of analysis/heaptape imports which: each folder is one, also within another.

Imports are read, not run, and lazy ones count: an import within a function is still a dependency. Imports of the
package itself (`import heaptape`) count as imports of the sub-package `heaptape`, the public interface above all
other sub-packages.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "heaptape"
# module -> those that it imports, with the line of each import
Imports = dict[str, list[tuple[str, int]]]


def offences(root: Path, core: dict[str, list[str]], features: dict[str, list[str]]) -> list[str]:
    """Imports that the tables [python] (`core`: sub-package -> others it may import) and [features] of layers.toml do
    not have, as FILE:LINE and what is wrong. `root`: the checkout; the package is in analysis/heaptape.
    """
    found = []
    modules = _modules(root)
    used = dict.fromkeys(path.name for path in (root / "analysis" / PACKAGE / "features").glob("*/")) | features
    allowed = core | {
        f"features/{name}": [*core, *(f"features/{o}" for o in others or ())] for name, others in used.items()
    }
    for module, imports in _imports(modules).items():
        own = _sub_package(module, modules)
        if own == PACKAGE:
            continue
        place = modules[module].relative_to(root)
        if own not in allowed:
            found.append(f"{place}:1: {own}/ is not in the table of arrows")
            continue
        for target, line in imports:
            other = _sub_package(target, modules)
            if other != own and other not in allowed[own]:
                found.append(f"{place}:{line}: {own}/ may not import {target}")
    return found


def graph(root: Path) -> dict[str, set[str]]:
    """Module -> modules that it imports, lazily or not."""
    return {
        module: {target for target, _ in imports if target != module}
        for module, imports in _imports(_modules(root)).items()
    }


def sub_packages(root: Path) -> dict[str, str]:
    """Module -> its sub-package."""
    modules = _modules(root)
    return {module: _sub_package(module, modules) for module in modules}


def _modules(root: Path) -> dict[str, Path]:
    """Dotted name -> file, of all modules of the package."""
    above = root / "analysis"
    found = {}
    for path in sorted((above / PACKAGE).rglob("*.py")):
        if "test" in path.relative_to(above).parts:
            continue
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


def _sub_package(module: str, modules: dict[str, Path]) -> str:
    """The folder below the package that contains a module; PACKAGE for a module directly in the package."""
    parts = module.split(".")
    folder = parts if modules[module].name == "__init__.py" else parts[:-1]
    return "/".join(folder[1:]) or PACKAGE
