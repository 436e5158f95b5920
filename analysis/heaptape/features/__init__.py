# SPDX-License-Identifier: MIT
"""Features: a folder each, with all that the feature has: command, logic, tables, pages, tests. The core names none:
what it can be given, it finds by these names of modules, and a feature whose folder is deleted is gone.

`NAME_command`: the command NAME (commands/main.py says what is in it). `conversions`: formats that `heaptape convert`
writes beside the C program's. `report_tables`: `tables(file)`, for the page of `heaptape report`. `pass_table`: a table
of `heaptape compare` (passes/__init__.py). `plot_kinds`: a kind of `heaptape plot`: KIND, the PASS that it needs,
SUMMARY, `draw`. `profile_part`: a part of `heaptape profile` (profile/text.py). `report_section`: a section of that
page (show/pages/sections.py). `experiment_tables`: `tables(file, position)`, for `heaptape whatif`. `observed_table`:
`table(found)`, of what `heaptape observe` has done instead of observing.
Which feature uses which other: tools/layers/layers.toml.
"""

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

COMMAND = "_command"


def having(name: str) -> list[str]:
    """The features that have a module of that name, which may be a path within them."""
    return sorted(path.name for path in Path(__file__).parent.glob("*/") if (path / f"{name}.py").is_file())


def modules(name: str) -> Iterator[ModuleType]:
    """The module of that name of each feature that has one."""
    for path in sorted(Path(__file__).parent.glob(f"*/{name}.py")):
        yield importlib.import_module(f"{__name__}.{path.parent.name}.{path.stem}")


def named(name: str) -> ModuleType:
    """The feature of that name. Raises ImportError where there is none."""
    return importlib.import_module(f"{__name__}.{name}")


def commands() -> dict[str, ModuleType]:
    """Name -> module of each feature's commands."""
    return {module.__name__.rpartition(".")[2].removesuffix(COMMAND): module for module in modules(f"*{COMMAND}")}
