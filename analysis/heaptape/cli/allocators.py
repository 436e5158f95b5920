"""`heaptape allocators`: the registry, or one allocator's variants or tunables."""

import argparse
import json
import os
from typing import TYPE_CHECKING

from heaptape.cli import replaying
from heaptape.common.errors import HeaptapeError, UsageError
from heaptape.common.output import STANDARD_OUTPUT, write_text

if TYPE_CHECKING:
    from heaptape.measure import registry

SUMMARY = "the allocators known here, found or how to get them"
DESCRIPTION = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    parser.add_argument("--json", action="store_true", help="machine-readable")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--variants", metavar="NAME", help="the variants of one allocator and the settings behind them")
    shown.add_argument("--tunables", metavar="NAME", help="what may be set of one allocator: values, default, meaning")
    shown.add_argument(
        "--check-tunables",
        nargs="+",
        metavar=("NAME", "F"),
        help="replays the traces with each tunable at the ends of its search, and says what changes, in exact figures, "
        "and which tunables change nothing",
    )
    parser.add_argument("--format", default="text", choices=["text", "md"], help="of --check-tunables (default text)")


def run(arguments: argparse.Namespace) -> int:
    """Lists the registry, or one allocator's variants or tunables; or checks these."""
    from heaptape.measure import registry

    known = registry.load(arguments.home)
    if arguments.variants is not None:
        return _print_variants(_named(arguments.variants, known), arguments.json)
    if arguments.tunables is not None:
        return _print_tunables(_named(arguments.tunables, known), arguments.json)
    if arguments.check_tunables:
        return _check_tunables(arguments, known)
    if arguments.json:
        print(json.dumps({"allocators": [_allocator_object(a) for a in known.values()]}, indent=1))
        return 0
    width = max(len(name) for name in known)
    for allocator in known.values():
        where = f"{allocator.version}, {allocator.path}" if allocator.found else f"not found: {allocator.how_to_get}"
        print(f"{allocator.name:<{width}}  {where}")
        print(f"{'':<{width}}  {allocator.summary}")
        if allocator.variants:
            print(f"{'':<{width}}  variants: {', '.join(allocator.variants)}")
    return 0


def _named(name: str, known: dict[str, "registry.Allocator"]) -> "registry.Allocator":
    if name not in known:
        raise HeaptapeError(f"unknown allocator '{name}': known are {', '.join(known)}")
    return known[name]


def _print_tunables(allocator: "registry.Allocator", as_json: bool) -> int:
    tunables = allocator.tunables
    if as_json:
        import msgspec

        rows = [{"name": name} | msgspec.to_builtins(one) for name, one in tunables.space.items()] if tunables else []
        print(json.dumps({"allocator": allocator.name, "tunables": rows}, indent=1))
        return 0
    for name, one in tunables.space.items() if tunables else ():
        values = ", ".join(one.values) if one.range is None else f"{one.range[0]} to {one.range[1]}"
        default = f"default {one.default}" if one.default else "default by machine or program"
        print(f"{allocator.name}:{name}  {one.type}, {values}, {default}{'' if one.tuned else ', not tuned'}")
        print(f"    {one.meaning}")
        if one.is_number:
            print(f"    tune tries {', '.join(one.levels())}")
    return 0


def _check_tunables(arguments: argparse.Namespace, known: dict[str, "registry.Allocator"]) -> int:
    from heaptape.measure import replay
    from heaptape.tables.tunables_table import effects_table
    from heaptape.tables.usual import render_markdown, render_text
    from heaptape.tuning import effects

    name, *inputs = arguments.check_tunables
    if not inputs:
        raise UsageError("allocators --check-tunables: NAME and at least one trace")
    allocator = _named(name, known)
    if not allocator.found or allocator.tunables is None:
        why = "has no tunables" if allocator.found else f"is not installed: {allocator.how_to_get}"
        raise HeaptapeError(f"{name} {why}")
    with replaying.work() as work:
        workloads = {replaying.name_of(path): replay.prepare(path, arguments.home, work.scratch) for path in inputs}
        jobs = len(os.sched_getaffinity(0))
        found = effects.effects(allocator, workloads, arguments.home, jobs, work.progress.update)
    table = effects_table(name, found, effects.FIGURES, list(workloads), effects.silent(found))
    render = render_markdown if arguments.format == "md" else render_text
    write_text(STANDARD_OUTPUT, render([table]))
    return 0


def _print_variants(allocator: "registry.Allocator", as_json: bool) -> int:
    if as_json:
        import msgspec

        rows = [{"name": name} | msgspec.structs.asdict(variant) for name, variant in allocator.variants.items()]
        tunables = list(allocator.tunables.names) if allocator.tunables else []
        print(json.dumps({"allocator": allocator.name, "variants": rows, "tunables": tunables}, indent=1))
        return 0
    for setting, variant in allocator.variants.items():
        print(f"{allocator.name}:{setting}  {variant.summary}")
        for name, value in variant.environment.items():
            print(f"    {name}={value}")
    if allocator.tunables:
        print(f"tunables ({allocator.name}:NAME=VALUE or =FIRST..LAST/STEP): {', '.join(allocator.tunables.names)}")
    return 0


def _allocator_object(allocator: "registry.Allocator") -> dict:
    return {
        "name": allocator.name,
        "found": allocator.found,
        "path": str(allocator.path) if allocator.path else None,
        "version": allocator.version or None,
        "summary": allocator.summary,
        "variants": list(allocator.variants),
        "how_to_get": allocator.how_to_get,
    }
