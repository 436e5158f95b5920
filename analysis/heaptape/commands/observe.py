# SPDX-License-Identifier: MIT
"""`heaptape observe`: measures a live program from outside. heaptape-observe does it; this module chooses the allocator
and prints the tables.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heaptape.commands import replaying
from heaptape.commands.outcome import FORMATS, Parser
from heaptape.common import console
from heaptape.common.errors import HeaptapeError, UsageError
from heaptape.common.home import Home
from heaptape.common.output import check_writable, write_text
from heaptape.common.process import scratch_folder

if TYPE_CHECKING:
    from heaptape.common.tables import Cell, Table

SUMMARY = "run a program and report its memory and time, or its simulated cache misses"
SYNOPSIS = "[OPTION...] -- CMD [ARGUMENT...]"
DETAILS = [
    "Runs CMD and reports what it took: memory, processor time and page faults of each program that it starts; with "
    "--simulate, instructions and misses of caches and TLBs, separately for the allocator and the program itself. "
    "Exits with CMD's status.",
]
# Rows as core/command/cli.h describes them: those of this module, before heaptape-observe's, whose --output is another.
OPTIONS: list[dict[str, Any]] = [
    {
        "flags": ["-a", "--allocator"],
        "value": "NAME[:VARIANT]|LIB.so",
        "help": "run it on that allocator, named as for 'heaptape replay'",
        "default": "the one it has",
    },
    {
        "flags": ["--format"],
        "value": "text|md|csv|latex|json",
        "choices": [*FORMATS, "json"],
        "help": "tables, or with json everything, as heaptape-observe writes it",
        "default": "text",
    },
    {"flags": ["--json"], "value": None, "help": "the same as --format json"},
    {
        "flags": ["-o", "--output"],
        "value": "FILE",
        "help": "where the result goes; - for standard output, which is CMD's too",
        "default": "standard error",
    },
]


def described(home: Home) -> dict[str, Any]:
    """Describes the command in the form of core/command/cli.h: our options, then those of heaptape-observe."""
    done = subprocess.run([home.program("observe"), "--describe-options"], stdout=subprocess.PIPE, check=True)
    described: dict[str, Any] = json.loads(done.stdout)
    (command,) = described["commands"]
    rest = [option for option in command["options"] if "--output" not in option["flags"]]
    empty = {"value_optional": False, "choices": None, "repeats": False, "default": None, "group": "options"}
    command |= {"called": "heaptape observe", "synopsis": [SYNOPSIS], "details": DETAILS}
    command["options"] = [empty | option for option in OPTIONS] + rest
    return described


def _help(home: Home) -> str:
    (command,) = described(home)["commands"]
    lines = [f"usage: heaptape observe {SYNOPSIS}", ""]
    for paragraph in command["details"]:
        lines += [*textwrap.wrap(paragraph, 100), ""]
    for group in dict.fromkeys(option["group"] for option in command["options"]):
        lines.append(f"{group}:")
        for option in (option for option in command["options"] if option["group"] == group):
            text = option["help"] + (f" (default {option['default']})" if option["default"] else "")
            term = f"  {', '.join(option['flags'])} {option['value'] or ''}".rstrip()
            wrapped = [" " * 23 + line for line in textwrap.wrap(text, 77)]
            lines += [term.ljust(23) + wrapped[0].lstrip(), *wrapped[1:]] if len(term) < 22 else [term, *wrapped]
        lines.append("")
    return "\n".join(lines)


def run(arguments: Sequence[str], home: Home) -> int:
    """Runs the command, writes the result. Returns the command's status; 2 for wrong usage."""

    split = list(arguments).index("--") if "--" in arguments else len(arguments)
    options, command = list(arguments[:split]), list(arguments[split + 1 :])
    program = str(home.program("observe"))
    if {"-h", "--help", "--help-all"} & set(options):
        print(_help(home), end="")
        return 0
    if "--describe-options" in options:
        print(json.dumps(described(home), indent=1))
        return 0
    own, others = _parser().parse_known_args(options)
    if not command:
        raise UsageError("observe: which command? heaptape observe [OPTION...] -- CMD [ARGUMENT...]")
    if own.output:
        check_writable(own.output)
    environment, prefix = dict(os.environ), []
    if own.allocator:
        from heaptape.allocators import registry
        from heaptape.run.environment import without_allocator
        from heaptape.run.live import settings_of

        replaying.say_left_out()
        others_of = without_allocator(environment)
        settings = settings_of(registry.choose(own.allocator, registry.load(home)), others_of)
        if "--simulate" in others:
            # Not for the observer or Valgrind, only for the program that runs under it.
            gone = [word for name in environment if name not in others_of for word in ("-u", name)]
            prefix = ["env", *gone, *(f"{name}={value}" for name, value in settings.items())]
        else:
            environment = others_of | settings
    with scratch_folder() as scratch:
        output = scratch / "observed.json"
        status = _observe([program, *console.words(), *others, "-o", str(output), "--", *prefix, *command], environment)
        if not output.exists():
            if status == 0:
                raise HeaptapeError("heaptape-observe left no result")
            return status
        found = _read(output)
    text = json.dumps({"schema": 1} | found, indent=1) + "\n" if own.format == "json" else _shown(found, own.format)
    if own.output:
        write_text(own.output, text)
    else:
        sys.stderr.write(text)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="heaptape observe", add_help=False, allow_abbrev=False)
    parser.add_argument("-a", "--allocator")
    parser.add_argument("--format", choices=[*FORMATS, "json"], default="text")
    parser.add_argument("--json", action="store_const", const="json", dest="format")
    parser.add_argument("-o", "--output")
    return parser


def _observe(command: Sequence[str], environment: dict[str, str]) -> int:
    """Returns its exit status. Signals from the terminal are for CMD and the observer."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        # The child's own disposition must not be "ignored".
        process = subprocess.Popen(command, env=environment, preexec_fn=lambda: signal.signal(signal.SIGINT, before))
        status = process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    return 128 - status if status < 0 else status


def _read(output: Path) -> dict:
    """The result. Other processes of a simulated command, which have separate files, are under "children"."""
    try:
        found = json.loads(output.read_bytes())
        children = [json.loads(path.read_bytes()) for path in sorted(output.parent.glob(f"{output.name}.*"))]
    except (OSError, ValueError) as error:
        raise HeaptapeError(f"the observer's result can't be read: {error}") from error
    return found | ({"children": children} if children else {})


def _shown(found: dict, form: str) -> str:
    from heaptape.features import modules
    from heaptape.show.tables.latex import render

    if "programs" in found:
        return render([_programs_table(found)] if _real(found["programs"]) else [], form)
    made = (found, *found.get("children", []))
    return render([module.table(one) for one in made for module in modules("observed_table")], form)


def _programs_table(found: dict) -> "Table":
    from heaptape.common.tables import MIB, Cell, Table

    keys = {
        "cpu_ns": ("CPU, ms", 1e6),
        "rss_anon_peak_bytes": ("peak memory, MiB", MIB),
        "vm_size_peak_bytes": ("VmSize, MiB", MIB),
        "page_faults": ("page faults", 1),
    }
    shown = {key: about for key, about in keys.items() if any(key in one for one in found["programs"])}
    rows = []
    for one in _real(found["programs"]):
        calls = ", ".join(f"{name} {count:,}" for name, count in (one.get("syscalls") or {}).items() if count)
        cells = [cell(one.get(key), divisor) for key, (_, divisor) in shown.items()]
        rows.append([Cell(f"{one['name']} ({one['pid']})"), *cells, Cell(calls)])
    lost = found.get("programs_lost")
    notes = [f"{lost} more programs were not followed."] if lost else []
    names = [name for name, _ in shown.values()]
    return Table("Programs observed", ["program", *names, "memory system calls"], rows, notes)


def _real(programs: list[dict]) -> list[dict]:
    """The programs without the observer's own fork, which is the only one where the command could not be started."""
    return [one for one in programs if one["name"] != "heaptape-observ"]


def cell(value: float | None, divisor: float) -> "Cell":
    from heaptape.common.tables import MISSING, Cell, rounded

    if value is None:
        return Cell(MISSING)
    return Cell(f"{value:,}" if divisor == 1 else rounded(value / divisor), value)
