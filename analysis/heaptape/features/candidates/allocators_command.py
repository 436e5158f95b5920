# SPDX-License-Identifier: MIT
"""`heaptape allocators`: the registry, one allocator's variants or tunables; installs and removes candidates."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from heaptape.commands import replaying
from heaptape.commands.outcome import add_format_option
from heaptape.common import console
from heaptape.common.console import WorkProgress, printable
from heaptape.common.errors import HeaptapeError, UsageError
from heaptape.common.home import Home
from heaptape.common.output import STANDARD_OUTPUT, print_json, write_text
from heaptape.common.process import processors
from heaptape.common.tables import listing

if TYPE_CHECKING:
    from heaptape.allocators import registry
    from heaptape.allocators.installed import Installed
    from heaptape.features.candidates.sources import Plan, Recipe

SUMMARY = "the allocators known here, where they are or how to get them; install versions of them"
GROUP = "Allocators"
TAKES_A_COMMAND = ()
DESCRIPTION = (
    "Without an action: lists the registry and the installed candidates. install: builds NAME, NAME@VERSION or the "
    "newest of a series (mimalloc@2) from crates.io, Debian or PyPI, or from what --from names, verifies it, "
    "and keeps it in $XDG_CACHE_HOME/heaptape/allocators; from then on `replay -a NAME@VERSION` takes it. list: what "
    "is installed, and which versions can be. remove: removes NAME@VERSION. Archives stay in "
    "$XDG_CACHE_HOME/heaptape/sources, so that installing again needs no network. --of PID, or -- CMD (which is not "
    "started): the allocator that a process or program really uses, and the settings that it reads."
)
ACTIONS = ("list", "install", "remove")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=ACTIONS)
    parser.add_argument("names", nargs="*", metavar="NAME[@VERSION]")
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.add_argument("--of", type=int, metavar="PID", help="which allocator this process uses")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--variants", metavar="NAME", help="the variants of one allocator and the settings behind them")
    shown.add_argument("--tunables", metavar="NAME", help="what may be set of one allocator: values, default, meaning")
    shown.add_argument(
        "--check-tunables",
        nargs="+",
        metavar=("NAME", "F"),
        help="replay the traces with each tunable at the ends of its search range, and print what changes, in exact "
        "figures, and which tunables change nothing",
    )
    add_format_option(parser, words="; of --check-tunables")
    parser.add_argument("--into", metavar="DIR", help="keep candidates in this folder instead of the cache's")
    install = parser.add_argument_group("install")
    install.add_argument("--no-verify", action="store_true", help="don't check that it keeps the rules of malloc")
    install.add_argument("--rebuild", action="store_true", help="build it again if it is there")
    install.add_argument(
        "--from", dest="place", metavar="DIR|ARCHIVE", help="other sources: a checkout (copied), or a tar archive"
    )
    install.add_argument("--build", metavar="CMD", help="with --from: the shell command that builds them")
    install.add_argument("--lib", metavar="PATH", help="with --from: the library that CMD makes, in the sources")
    install.add_argument(
        "--name", default="", metavar="NAME[@VERSION]", help="with --from: its name (default: DIR's name)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Lists the registry, or one allocator's variants or tunables; checks tunables; installs or removes candidates."""
    from heaptape.allocators import installed, registry

    _check(arguments)
    folder = Path(arguments.into).absolute() if arguments.into else installed.root()
    if arguments.action == "install":
        return _install(arguments, folder)
    if arguments.action == "remove":
        for name in arguments.names:
            print(printable(f"removed: {installed.remove(name, folder)}"))
        return 0
    if arguments.of is not None or arguments.own_options:
        return _print_in_use(arguments)
    there = installed.find_all(folder) + ([] if arguments.into else installed.of_wheel())
    if arguments.action == "list":
        return _list(there, arguments.home, arguments.json)
    known = registry.load(arguments.home)
    if arguments.variants is not None:
        return _print_variants(registry.named(arguments.variants, known), arguments.json)
    if arguments.tunables is not None:
        return _print_tunables(registry.named(arguments.tunables, known), arguments.json)
    if arguments.check_tunables:
        return _check_tunables(arguments, known)
    if arguments.json:
        objects = [_allocator_object(a) for a in known.values()]
        print_json({"allocators": objects, "installed": [_installed_object(i) for i in there]})
        return 0
    _print_registry(known)
    _print_installed(there)
    return 0


def _check(arguments: argparse.Namespace) -> None:
    """Raises UsageError for options that exclude each other or are incomplete."""
    action, names, own = arguments.action, arguments.names, arguments.place
    if (arguments.of is not None) + bool(arguments.own_options) + bool(action) > 1:
        raise UsageError("allocators: an action, --of PID, or -- CMD")
    if arguments.format != "text" and not arguments.check_tunables:
        raise UsageError("allocators: --format belongs to --check-tunables")
    if action == "remove" and not names:
        raise UsageError("allocators remove: which one? 'heaptape allocators list' lists them")
    if action == "install" and not names and not own:
        raise UsageError("allocators install: which one? 'heaptape allocators list' lists them")
    if action == "list" and names:
        raise UsageError("allocators list: takes no name")
    if action != "install" and (own or arguments.build or arguments.lib or arguments.name):
        raise UsageError("allocators: --from, --build, --lib and --name belong to 'install'")
    if own and names:
        raise UsageError("allocators install --from: its name is given by --name")
    if own and not arguments.lib:
        raise UsageError("allocators install --from: --lib says which library it is")
    if not own and (arguments.build or arguments.lib or arguments.name):
        raise UsageError("allocators install: --build, --lib and --name belong to --from")


def _install(arguments: argparse.Namespace, folder: Path) -> int:
    """Installs each of them. Raises HeaptapeError with all failures at the end."""
    from heaptape.features.candidates.install import Wishes, install

    failed: list[str] = []
    for plan in _plans(arguments):
        with WorkProgress() as progress:
            wishes = Wishes(folder, not arguments.no_verify, arguments.rebuild, progress.update)
            try:
                one, new = install(plan, arguments.home, wishes)
            except HeaptapeError as error:
                failed.append(str(error))
                continue
        done = "installed" if new else "is installed already"
        print(printable(f"{one.record.label}: {done}, {one.record.verdict}"))
        print(printable(f"  {one.path}"), flush=True)
        for broken in one.record.broken:
            console.warning(f"{one.record.label} breaks a rule of malloc on {broken.workload}: {broken.broken}")
    for why in failed:
        console.error(why)
    return 1 if failed else 0


def _plans(arguments: argparse.Namespace) -> "list[Plan]":
    """The plans of all names, made before the first is built."""
    from heaptape.features.candidates import sources

    if arguments.place:
        return [sources.of_own(Path(arguments.place), arguments.name, arguments.build or "", arguments.lib)]
    recipes = sources.load(arguments.home)
    return [sources.of_recipe(sources.choose(name, recipes)) for name in arguments.names]


def _list(there: "list[Installed]", home: Home, as_json: bool) -> int:
    from heaptape.features.candidates import sources

    recipes = sources.load(home)
    if as_json:
        candidates = [_recipe_object(name, recipe, home) for name, recipe in recipes.items()]
        print_json({"installed": [_installed_object(one) for one in there], "candidates": candidates})
        return 0
    _print_installed(there)
    print("can be installed:")
    entries = {}
    for name, recipe in recipes.items():
        about = _recipe_object(name, recipe, home)
        entries[name] = [f"{', '.join(recipe.versions)}  ({about['source']})", *filter(None, [about["missing"]])]
    write_text(STANDARD_OUTPUT, listing(entries))
    return 0


def _print_registry(known: "dict[str, registry.Allocator]") -> None:
    entries = {}
    for allocator in known.values():
        found = ", ".join(str(one) for one in (allocator.version, allocator.path) if one)
        by_name = "; for study, replayed where it is named" if allocator.by_name else ""
        entries[allocator.name] = [
            found if allocator.found else f"not found: {allocator.how_to_get}",
            f"{allocator.summary}{by_name}",
            *[f"variants: {', '.join(allocator.variants)}"] * bool(allocator.variants),
        ]
    write_text(STANDARD_OUTPUT, listing(entries))


def _print_installed(there: "list[Installed]") -> None:
    entries = {}
    for one in there:
        source = one.record.source
        came = " ".join(filter(None, (source.package, source.release)))
        made = f"; {one.record.compiler[0]}" if one.record.compiler else ""
        noted = f" ({source.note})" if source.note else ""
        entries[one.record.label] = [str(one.path), f"{came}{noted}{made}", one.record.verdict]
    write_text(STANDARD_OUTPUT, listing(entries))


def _print_tunables(allocator: "registry.Allocator", as_json: bool) -> int:
    tunables = allocator.tunables
    if as_json:
        import msgspec

        rows = [{"name": name} | msgspec.to_builtins(one) for name, one in tunables.space.items()] if tunables else []
        print_json({"allocator": allocator.name, "tunables": rows})
        return 0
    entries = {}
    for name, one in tunables.space.items() if tunables else ():
        values = ", ".join(one.values) if one.range is None else f"{one.range[0]} to {one.range[1]}"
        default = f"default {one.default}" if one.default else "default by machine or program"
        tuned = "" if one.tuned else ", not tuned"
        tried = [f"tune tries {', '.join(one.levels())}"] * one.is_number
        entries[f"{allocator.name}:{name}"] = [f"{one.type}, {values}, {default}{tuned}", one.meaning, *tried]
    write_text(STANDARD_OUTPUT, listing(entries))
    return 0


def _check_tunables(arguments: argparse.Namespace, known: dict[str, "registry.Allocator"]) -> int:
    from heaptape.allocators import registry
    from heaptape.features.tune import trials
    from heaptape.features.tune.tables import effects_table
    from heaptape.run import replay
    from heaptape.show.tables.latex import render

    name, *inputs = arguments.check_tunables
    if not inputs:
        raise UsageError("allocators --check-tunables: NAME and at least one trace")
    allocator = registry.named(name, known)
    if not allocator.found or allocator.tunables is None:
        why = "has no tunables" if allocator.found else f"is not installed: {allocator.how_to_get}"
        raise HeaptapeError(f"{name} {why}")
    with replaying.work() as work:
        workloads = {replaying.name_of(path): replay.prepare(path, arguments.home, work.scratch) for path in inputs}
        jobs = processors()
        found = trials.effects(allocator, workloads, arguments.home, jobs, work.progress.update)
    table = effects_table(name, found, trials.FIGURES, list(workloads), trials.silent(found))
    write_text(STANDARD_OUTPUT, render([table], arguments.format))
    return 0


def _print_in_use(arguments: argparse.Namespace) -> int:
    from heaptape.allocators import registry
    from heaptape.features.candidates import in_use

    known = registry.load(arguments.home)
    by_pid = arguments.of is not None
    found = in_use.of_process(arguments.of, known) if by_pid else in_use.of_command(arguments.own_options, known)
    if arguments.json:
        path = str(found.object) if found.object else None
        about = {"program": found.program, "allocator": found.allocator or None, "version": found.version or None}
        print_json(about | {"path": path, "how": found.how, "settings": dict(found.settings)})
        return 0
    name = found.allocator or "an allocator that is not in the registry"
    version = f" ({found.version})" if found.version else ""
    where = {
        "library": f", {found.object}",
        "linked": ", linked into the executable",
        "static": ", a static executable",
    }
    if found.object is None:
        print(printable(f"{found.program}: none of its libraries defines malloc"))
        return 0
    print(printable(f"{found.program}: {name}{version}{where[found.how]}"))
    for variable, value in found.settings.items():
        print(printable(f"  {variable}={value}"))
    if found.how == "static":
        print("  Static: LD_PRELOAD has no effect; heaptape record runs it under Valgrind.")
    return 0


def _print_variants(allocator: "registry.Allocator", as_json: bool) -> int:
    if as_json:
        import msgspec

        rows = [{"name": name} | msgspec.structs.asdict(variant) for name, variant in allocator.variants.items()]
        tunables = list(allocator.tunables.names) if allocator.tunables else []
        found = {"allocator": allocator.name, "variants": rows, "tunables": tunables}
        print_json(found | {"other_variants": list(allocator.other_variants)})
        return 0
    name, entries = allocator.name, {}
    for setting, variant in allocator.variants.items():
        entries[f"{name}:{setting}"] = [
            variant.summary,
            *(f"{key}={set_}" for key, set_ in variant.environment.items()),
        ]
    for setting, variant in allocator.other_variants.items():
        entries[f"{name}:{setting}"] = [f"not of this version: {variant.summary}"]
    if allocator.tunables:
        entries["tunables"] = [f"{name}:NAME=VALUE or =FIRST..LAST/STEP: {', '.join(allocator.tunables.names)}"]
    write_text(STANDARD_OUTPUT, listing(entries))
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


def _installed_object(one: "Installed") -> dict:
    import msgspec

    return {"path": str(one.path), "verdict": one.record.verdict} | msgspec.to_builtins(one.record)


def _recipe_object(name: str, recipe: "Recipe", home: "Home") -> dict:
    from heaptape.allocators.c_libraries import LIBRARY, too_old
    from heaptape.features.candidates import build

    old = ""
    if recipe.library.endswith(LIBRARY):
        old = too_old([version for version in recipe.versions if version[0].isdigit()], home.program("replay"))
    packages = [recipe.package, *(release.package for release in recipe.versions.values())]
    return {
        "name": name,
        "source": f"{recipe.registry}: {', '.join(filter(None, dict.fromkeys(packages)))}",
        "licence": recipe.licence,
        "versions": list(recipe.versions),
        "missing": build.missing(recipe.tools) or old,
    }
