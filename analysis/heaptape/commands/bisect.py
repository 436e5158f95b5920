# SPDX-License-Identifier: MIT
"""`heaptape bisect`: which revision of an allocator made a workload worse."""

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from heaptape.commands import replaying
from heaptape.common import console
from heaptape.common.output import STANDARD_OUTPUT, check_writable, write_json

if TYPE_CHECKING:
    from heaptape.gate.bisect import Outcome, Search

SUMMARY = "which revision of an allocator made a workload worse"
DESCRIPTION = (
    "git bisect that judges by an exact figure: builds revisions of an allocator in a separate clone (your checkout "
    "is not touched), replays the workload on each, and names the first one for which the condition holds. "
    "Revisions that don't build are skipped and reported. Libraries and figures are kept: after an interrupt, the "
    "same command continues where it stopped."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", metavar="F", help="trace or workload")
    parser.add_argument("--repo", required=True, metavar="DIR", help="the allocator's git repository")
    parser.add_argument("--good", required=True, metavar="REV", help="a revision that is as it should be")
    parser.add_argument("--bad", required=True, metavar="REV", help="a later one that is not")
    parser.add_argument(
        "--build", required=True, metavar="CMD", help="shell command that builds a revision, in a clean work tree"
    )
    parser.add_argument("--lib", required=True, metavar="PATH", help="the library that CMD makes, in the work tree")
    parser.add_argument(
        "--if",
        required=True,
        dest="condition",
        metavar="CONDITION",
        help="what makes a revision bad: 'rss-peak>1.1*good', 'syscalls>5000', 'rss-mean>64 MiB' (good: the figure at "
        "the good revision); figures are rss-peak, rss-mean, vmsize-peak, faults, syscalls, instructions, misses; "
        "broken: a rule of malloc is broken",
    )
    parser.add_argument(
        "--cache", metavar="DIR", help="where clone, libraries and figures are kept (default ~/.cache/heaptape/bisect)"
    )
    parser.add_argument("-o", "--output", metavar="B.json", help="what was found and tried; - for standard output")


def run(arguments: argparse.Namespace) -> int:
    """Prints the first bad revision. Returns 1 if revisions that could not be tried leave several candidates for it."""
    from heaptape.gate.bisect import bisect
    from heaptape.run import replay

    search = _search(arguments)
    if arguments.output:
        check_writable(arguments.output)
    try:
        with replaying.work() as work:
            workload = replay.prepare(arguments.input, arguments.home, work.scratch)
            outcome = bisect(search, workload, arguments.home, console.note)
    except (KeyboardInterrupt, SystemExit):
        console.note("interrupted: the same command continues from here")
        raise
    if arguments.output:
        write_json(arguments.output, outcome.as_json())
    if arguments.output != STANDARD_OUTPUT:
        print("\n".join(_lines(outcome, search, arguments.input)))
    return 0 if len(outcome.first_bad) == 1 else 1


def _search(arguments: argparse.Namespace) -> "Search":
    import hashlib

    from heaptape.gate.bisect import Recipe, Search, condition_of
    from heaptape.run.recipes import cache_directory

    repository = Path(arguments.repo)
    folder = Path(arguments.cache) if arguments.cache else cache_directory().parent / "bisect"
    name = hashlib.sha256(str(repository.resolve()).encode()).hexdigest()[:12]
    recipe = Recipe(arguments.build, arguments.lib)
    condition = condition_of(arguments.condition)
    place = folder.resolve() / f"{repository.resolve().name}-{name}"
    return Search(repository, arguments.good, arguments.bad, recipe, condition, place)


def _lines(outcome: "Outcome", search: "Search", source: str) -> list[str]:
    from heaptape.gate.bisect import in_words

    figure, tried = search.condition.figure, len(outcome.tried)
    skipped = [f"Skipped: {outcome.subjects[one.revision]}: {one.why}" for one in outcome.skipped]
    count = f"{tried} of {outcome.revisions - 1} revisions between them tried"
    if len(outcome.first_bad) != 1:
        each = [f"  {outcome.subjects[name]}" for name in outcome.first_bad]
        return [f"The first bad revision is one of {len(each)}, as some could not be tried ({count}):", *each, *skipped]
    first = outcome.first_bad[0]
    after = next(one for one in (*outcome.tried, outcome.bad) if one.revision == first)
    before = outcome.before
    assert before.value is not None
    assert after.value is not None
    change = f" ({100 * (after.value / before.value - 1):+.1f} %)" if before.value else ""
    values = f"{in_words(figure, after.value)}, before: {in_words(figure, before.value)}{change}"
    lines = [f"First bad revision: {outcome.subjects[first]}", f"  {values}; {count}", *skipped]
    old, new = shlex.quote(before.library), shlex.quote(after.library)
    condition = search.condition.text.replace("good", "old")
    return [
        *lines,
        f"Next: heaptape minimise {shlex.quote(source)} --old {old} --new {new} --if {shlex.quote(condition)}",
    ]
