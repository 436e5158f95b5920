"""What the Python subcommands do: read files, call the library, print. Each returns the exit status."""

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from heaptape.common.errors import HeaptapeError, UsageError
from heaptape.common.home import Home
from heaptape.common.output import STANDARD_OUTPUT, check_writable, write_text

if TYPE_CHECKING:
    from heaptape.formats.stack_names import StackNames
    from heaptape.profile.data import Profile
    from heaptape.results.schema import Results


def ctl(arguments: argparse.Namespace, home: Home) -> int:
    """`heaptape ctl`."""
    from heaptape.measure.ctl import command, told

    reply = command(arguments.verb, arguments.pid)
    write_text(STANDARD_OUTPUT, (json.dumps(reply) if arguments.json else told(reply)) + "\n")
    return 0


def profile(arguments: argparse.Namespace, home: Home) -> int:
    """`heaptape profile`."""
    from heaptape.profile import data as library
    from heaptape.profile.text import hardness, tables
    from heaptape.tables.usual import render_markdown, render_text

    check_writable(arguments.output)
    found = library.profile(arguments.input, home)
    if arguments.format == "json":
        write_text(arguments.output, json.dumps(found.data, separators=(",", ":")) + "\n")
        return 0
    if arguments.format in ("html", "svg"):
        write_text(arguments.output, _drawn_profile(arguments, found, home))
        return 0
    told = "\n".join(f"- {sentence}" for sentence in hardness(found))
    render = render_text if arguments.format == "text" else render_markdown
    names = _names_of_stacks(arguments.input, found, home)
    shown = tables(found, names.callers if names else lambda node: [])
    write_text(arguments.output, f"{found.name}: {found.data['ops']:,} ops\n\n{told}\n\n{render(shown)}")
    return 0


def _drawn_profile(arguments: argparse.Namespace, found: "Profile", home: Home) -> str:
    from heaptape.profile import flame_graph
    from heaptape.report import profile_page as profile_report

    names = _names_of_stacks(arguments.input, found, home)
    if arguments.format == "html":
        return profile_report.make(found, names, arguments.weight)
    if names is None and not found.sites.empty:
        raise HeaptapeError("standard input: the names of its functions would need a second reading; give it as a file")
    return flame_graph.of_profile(found, names.stack if names else lambda node: [], arguments.weight)


def _names_of_stacks(path: str, found: "Profile", home: Home) -> "StackNames | None":
    """What the functions of its stacks are called; None where there are none, or standard input is used up."""
    if found.sites.empty or path == "-":
        return None
    from heaptape.formats.stack_names import stack_names

    return stack_names(path, home)


def replay(arguments: argparse.Namespace, home: Home) -> int:
    """Replays into all allocators, writes R.json, prints the comparison. 1 if a run failed."""
    from heaptape.common.progress import WorkProgress
    from heaptape.measure import registry, replay
    from heaptape.results.doubts import doubts

    settings = _replay_settings(arguments)
    choices = registry.choose_all(arguments.allocator or [], registry.load(home))
    name = "standard input" if arguments.input == "-" else Path(arguments.input).name.split(".")[0]
    output = arguments.output or f"{name.replace(' ', '-')}.results.json"
    check_writable(output)
    labels = [choice.label for choice in choices]
    if arguments.baseline is not None and arguments.baseline not in labels:
        raise HeaptapeError(f"unknown baseline '{arguments.baseline}': replayed are {', '.join(labels)}")
    failures = []
    with tempfile.TemporaryDirectory(prefix="heaptape.") as scratch:
        workload = replay.prepare(arguments.input, home, Path(scratch))
        about = replay.describe_workload(workload, name)
        for doubt in doubts(about):
            print(f"heaptape: {arguments.input}: {doubt}", file=sys.stderr)
        with WorkProgress() as progress:

            def on_progress(run: "rounds.Run | None", share: float) -> None:  # noqa: F821
                progress.update(f"{run.choice.label}, {run.pass_} pass" if run else "done", share)

            def on_failure(run: "rounds.Run", error: str) -> None:  # noqa: F821
                failures.append(run)
                progress.message(
                    f"heaptape: {run.choice.label}, {run.pass_} pass, repetition {run.repeat + 1}: {error}"
                )

            data = replay.replay(workload, about, choices, settings, home, on_progress, on_failure)
    _give_results(output, data, arguments.baseline)
    stop_rule = data["settings"].get("until_ci")
    if stop_rule:
        done = "reached" if stop_rule["reached"] else "not reached"
        often, widest = data["settings"]["repeats"]["time"], stop_rule["widest_percent"]
        rule = f"intervals within {stop_rule['percent']:g} %"
        print(f"heaptape: {rule}: {done} after {often} repetitions (widest {widest} %)", file=sys.stderr)
    if failures:
        print(f"heaptape: {len(failures)} of {len(data['runs'])} runs failed", file=sys.stderr)
    return 1 if failures else 0


def compare(arguments: argparse.Namespace, home: Home) -> int:
    """Prints the tables of results files."""
    from heaptape.cli.compare import compare as command

    return command(arguments)


def report(arguments: argparse.Namespace, home: Home) -> int:
    """Writes the HTML report, or a notebook."""
    from heaptape.common.progress import WorkProgress
    from heaptape.results.compare import choose_baseline

    output = arguments.output or ("report.ipynb" if arguments.notebook else "report.html")
    check_writable(output)
    if arguments.notebook:
        from heaptape.report.notebook import notebook

        page = notebook(arguments.results, arguments.baseline, output)
    else:
        from heaptape.report.page import make

        files = _read_all(arguments.results)
        with WorkProgress() as progress:
            page = make(files, choose_baseline(files, arguments.baseline), progress.update, arguments.whole)
    write_text(output, page)
    if output != STANDARD_OUTPUT:
        print(f"{output}: {len(page.encode()) / (1 << 20):.1f} MiB")
    return 0


def allocators(arguments: argparse.Namespace, home: Home) -> int:
    """Lists the registry, or one allocator's variants."""
    from heaptape.measure import registry

    known = registry.load(home)
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


def workloads(arguments: argparse.Namespace, home: Home) -> int:
    """Lists, installs, records or runs what is in workloads/."""
    from heaptape.measure import suites
    from heaptape.measure import workloads as library

    action, names = arguments.action, arguments.names
    if action is None:
        return library.list_all(arguments.json, home)
    if not names and not (action == "capture" and arguments.all_apps):
        raise UsageError(f"workloads {action}: which one? 'heaptape workloads' lists them")
    if action == "write":
        if len(names) > 1:
            raise UsageError("workloads write: one at a time")
        return library.write(names[0], arguments.output, arguments.own_options, home)
    if action == "setup":
        return library.set_up(names, home)
    form = "json" if arguments.json else "table" if arguments.table else "text"
    wish = library.Wish(arguments.output, _record_options(arguments), arguments.all, arguments.discard, form)
    if action == "capture":
        return library.record(names, arguments.all_apps, wish, home)
    if len(names) > 1:
        raise UsageError("workloads run: one at a time")
    suite = next((suite for suite in suites.find() if suite.name == names[0]), None)
    if suite:
        if arguments.repeats is not None and arguments.repeats < 1:
            raise UsageError("workloads run -n: at least one repetition")
        folder = Path(arguments.output or suite.name)
        wishes = {"allocators": arguments.allocator or (), "repeats": arguments.repeats, "only": arguments.only or ()}
        return suites.run_and_report(suite, folder, home, **wishes)
    return library.run(names[0], wish, home)


def _record_options(arguments: argparse.Namespace) -> tuple[str, ...]:
    options = [f"--{name}" for name in ("latency", "usable", "describe") if getattr(arguments, name)]
    if arguments.stacks is not None:
        options.append(f"--stacks={arguments.stacks}" if arguments.stacks else "--stacks")
    for name in ("preload", "max-size"):
        value = getattr(arguments, name.replace("-", "_"))
        options += [f"--{name}", value] if value is not None else []
    return tuple(options)


def _is_order(text: str) -> bool:
    mode, equals, value = text.partition("=")
    number = re.fullmatch(r"[0-9]+(\.[0-9]+)?", value) is not None
    match mode:
        case "" | "recorded" | "causal":
            return not equals
        case "window":
            return not equals or (value.isdigit() and int(value) > 0)
        case "paced":
            return not equals or (number and 1e-6 <= float(value) <= 1e6)
        case "random":
            return value.isdigit() and int(value) < 1 << 64
    return False


def _replay_settings(arguments: argparse.Namespace) -> "rounds.Settings":  # noqa: F821
    from heaptape.measure import rounds

    passes = ("verify",) if arguments.verify else tuple(dict.fromkeys(p for p in arguments.passes.split(",") if p))
    unknown = [p for p in passes if p not in rounds.PASSES]
    if unknown or not passes:
        named = f"unknown pass '{unknown[0]}'" if unknown else "no pass"
        raise UsageError(f"replay --passes: {named}: there are {', '.join(rounds.PASSES)}")
    if arguments.repeats < 1:
        raise UsageError("replay -n: at least one repetition")
    if not 0 <= arguments.until_ci < 1000:
        raise UsageError("replay --until-ci: a percentage")
    if arguments.until_ci and "time" not in passes:
        raise UsageError("replay --until-ci: is about cycles, so the time pass is needed")
    if not _is_order(arguments.order):
        raise UsageError(
            f"replay --order: '{arguments.order}' is none of recorded, causal, window[=N], paced[=SPEED], random=SEED"
        )
    policy, equals, bound = arguments.touch.partition("=")
    if policy not in rounds.TOUCH_POLICIES or (equals and (policy not in ("recorded", "lines") or not bound.isdigit())):
        names = ", ".join(rounds.TOUCH_POLICIES)
        raise UsageError(f"replay --touch: '{arguments.touch}' is none of {names}, recorded=N, lines=N")
    if not 0 <= arguments.disturb <= 1 << 20:
        raise UsageError("replay --disturb: between 0 and 1048576 lines")
    seed = arguments.seed if arguments.seed is not None else int.from_bytes(os.urandom(4), "little")
    return rounds.Settings(
        arguments.repeats,
        arguments.order,
        arguments.touch,
        passes,
        seed,
        arguments.timeout,
        arguments.until_ci,
        max(arguments.max_repeats, arguments.repeats),
        arguments.baseline,
        arguments.aslr,
        arguments.as_malloc,
        arguments.threads_to_cores,
        arguments.clock == "real",
        arguments.disturb,
    )


def _read_all(paths: Sequence[str]) -> "list[Results]":
    from heaptape.results.schema import all_results

    return [file for path in paths for file in all_results(path)]


def _give_results(output: str, data: dict, baseline: str | None) -> None:
    """Writes R.json first: a reader of the tables may go away. If that fails, the tables at least are not lost."""
    text = json.dumps(data, separators=(",", ":")) + "\n"
    if output == STANDARD_OUTPUT:
        write_text(output, text)
        return
    try:
        write_text(output, text)
    finally:
        _print_replay_tables(output, data, baseline)
    print(f"results in {output}")


def _print_replay_tables(path: str, data: dict, baseline: str | None) -> None:
    from heaptape.results.compare import choose_baseline
    from heaptape.results.schema import Results
    from heaptape.tables.usual import rounded

    workload = data["workload"]
    file = Results(path, data)
    threads = f"{workload['threads']} thread{'s' * (workload['threads'] != 1)}"
    ideal = rounded(workload["ideal_rss_bytes"] / (1 << 20))
    print(f"{workload['name']}: {workload['ops']:,} ops, {threads}, ideal RSS {ideal} MiB\n")
    for run in file.runs:
        if run["pass"] == "verify":
            _print_verified(run)
    if any(run["pass"] != "verify" for run in file.runs):
        from heaptape.cli.compare import print_comparison

        print_comparison([Results(path, data | {"runs": file.runs})], choose_baseline([file], baseline), "text")


def _print_verified(run: dict) -> None:
    from heaptape.results.schema import label_of

    done = run["verified"]
    partly = f", {done['partly_stamped_objects']:,} of them in part" if done["partly_stamped_objects"] else ""
    refused = f", {run['failed_calls']:,} requests refused" if run["failed_calls"] else ""
    print(
        f"{label_of(run)}: keeps its promises: {run['ops']:,} ops, {done['objects']:,} objects of "
        f"{done['bytes'] / (1 << 20):,.1f} MiB stamped and checked{partly}{refused}"
    )


def _print_variants(allocator: "registry.Allocator", as_json: bool) -> int:  # noqa: F821
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


def _allocator_object(allocator: "registry.Allocator") -> dict:  # noqa: F821
    return {
        "name": allocator.name,
        "found": allocator.found,
        "path": str(allocator.path) if allocator.path else None,
        "version": allocator.version or None,
        "summary": allocator.summary,
        "variants": list(allocator.variants),
        "how_to_get": allocator.how_to_get,
    }
