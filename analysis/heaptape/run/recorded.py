# SPDX-License-Identifier: MIT
"""The allocator that a program was recorded on, with the settings of its environment."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from heaptape.allocators import installed
from heaptape.allocators.elf_files import build_id
from heaptape.allocators.registry import DEFAULT_VARIANT, Allocator, Choice, choose, files_of, named
from heaptape.results.recorded_on import is_other
from heaptape.results.structs import workload_of


def recorded_on(info: Mapping, registry: Mapping[str, Allocator]) -> Choice | None:
    """The allocator that the recording names as its own, with its settings: that very library, an installed candidate,
    or a library that only the linker knows. `info`: of the trace or workload. None: it names none, or a library that is
    not here.
    """
    here = of_same_name(info, registry)
    name = here.name if here and not _is_other(info, here) else _candidate(info)
    settings = info.get("settings") or {}
    if not name:
        path = None if settings else _file_of(info)  # which of them it reads is not known, and a file may state any
        return replace(choose(str(path), dict(registry)), as_recorded=True) if path else None
    return replace(_with(choose(name, dict(registry)), named(name, dict(registry)), settings), as_recorded=True)


def of_same_name(info: Mapping, registry: Mapping[str, Allocator]) -> Allocator | None:
    """The allocator here whose library has the name of the recording's, or which was linked into the program, of any
    version.
    """
    if linked := info.get("linked"):
        there = registry.get(linked)
        return there if there and there.path else None
    library = info.get("allocator")
    for allocator in registry.values():
        if (
            library
            and allocator.path
            and library in (allocator.library, *allocator.also, allocator.path.name, allocator.path.resolve().name)
        ):
            return allocator
    return None


def _is_other(info: Mapping, here: Allocator) -> bool:
    return is_other(workload_of(info), here.version, build_id(here.path) if here.path else "")


def _candidate(info: Mapping) -> str | None:
    recorded_id, linked = info.get("allocator_build_id"), (info.get("linked"), info.get("allocator_version"))
    known = [one.record for one in installed.find_all(installed.root()) + installed.of_wheel()] if recorded_id else []
    same = (one.label for one in known if one.build_id == recorded_id or (one.name, one.version) == linked)
    return next(same, None)


def _file_of(info: Mapping) -> Path | None:
    """The library of the recording's name and build id where the dynamic linker searches; without a build id none."""
    library, recorded_id = info.get("allocator"), info.get("allocator_build_id")
    if not library or not recorded_id or "/" in library:
        return None
    return next((path for path in files_of([library], [])[library] if build_id(path) == recorded_id), None)


def _with(choice: Choice, allocator: Allocator, environment: Mapping[str, str]) -> Choice:
    settings = allocator.settings_in(environment)
    if not settings:
        return choice
    variant = next((name for name, one in allocator.variants.items() if one.environment == settings), None)
    text = " ".join(f"{name}={value}" for name, value in settings.items())
    counting = settings | choice.counting if choice.counting is not None else None
    return replace(choice, variant=variant or text, environment=settings, counting=counting)


def as_recorded(names: Iterable[str], choices: Sequence[Choice], recorded: Choice | None) -> list[Choice]:
    """The choices; the one of the recorded allocator has the recorded settings, unless `names` has it with others
    (NAME:default: with none).
    """
    plain = {name.removesuffix(f":{DEFAULT_VARIANT}") for name in names if name.endswith(f":{DEFAULT_VARIANT}")}
    found: dict[str, Choice] = {}
    for choice in choices:
        is_it = recorded is not None and (
            choice.label == recorded.label
            or (choice.allocator, choice.variant) == (recorded.allocator, DEFAULT_VARIANT)
            and choice.allocator not in plain
        )
        one = recorded if recorded and is_it else choice
        found[one.label] = one
    return list(found.values())
