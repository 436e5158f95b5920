"""`heaptape allocators`: the registry, or one allocator's variants."""

import argparse
import json
from typing import TYPE_CHECKING

from heaptape.common.errors import HeaptapeError

if TYPE_CHECKING:
    from heaptape.measure import registry

SUMMARY = "the allocators known here, found or how to get them"
DESCRIPTION = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.add_argument("--variants", metavar="NAME", help="the variants of one allocator and the settings behind them")


def run(arguments: argparse.Namespace) -> int:
    """Lists the registry, or one allocator's variants."""
    from heaptape.measure import registry

    known = registry.load(arguments.home)
    if arguments.variants is not None:
        if arguments.variants not in known:
            raise HeaptapeError(f"unknown allocator '{arguments.variants}': known are {', '.join(known)}")
        return _print_variants(known[arguments.variants], arguments.json)
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


def _print_variants(allocator: "registry.Allocator", as_json: bool) -> int:
    variants = allocator.variants.values()
    if as_json:
        rows = [{"name": v.name, "summary": v.summary, "environment": v.environment} for v in variants]
        tunables = list(allocator.tunables.names) if allocator.tunables else []
        print(json.dumps({"allocator": allocator.name, "variants": rows, "tunables": tunables}, indent=1))
        return 0
    for variant in variants:
        print(f"{allocator.name}:{variant.name}  {variant.summary}")
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
