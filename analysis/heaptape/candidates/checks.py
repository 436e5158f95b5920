# SPDX-License-Identifier: MIT
"""Checks a candidate against the rules of malloc: the pass `verify` on a few workloads, one of them with alignments."""

from collections.abc import Callable
from pathlib import Path

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import SHARED, Home
from heaptape.common.scratch import scratch_folder
from heaptape.run import exact, replay, workloads
from heaptape.run.installed import Checked
from heaptape.run.registry import Choice

# Alignments of 16 bytes to 32 KiB; then one, three and 23 threads of real programs.
PATTERN = "alignment_storm"
CORPUS = ("gs.tape", "redis.tape", "mariadb.tape")
TIMEOUT_S = 600


def verify(choice: Choice, home: Home, tell: Callable[[str], None] = lambda what: None) -> tuple[Checked, ...]:
    """The result of each available workload. Raises HeaptapeError where there is none."""
    found = []
    with scratch_folder() as scratch:
        for name, source in _sources(home, scratch).items():
            tell(f"{choice.label}: verifying on {name}")
            workload = replay.prepare(str(source), home, scratch)
            found.append(Checked(name, _broken(choice, workload, home)))
    if not found:
        raise HeaptapeError("there is no workload to verify on: run 'make'")
    return tuple(found)


def _broken(choice: Choice, workload: Path, home: Home) -> str:
    """The rule that the candidate breaks, in words; empty: none."""
    bench = exact.Bench(workload, home, [choice], timeout_s=TIMEOUT_S)
    try:
        bench.run(choice, "verify")
    except HeaptapeError as error:
        # Names of scratch folders are of no use.
        text = str(error).removeprefix(f"{choice.label}, verify pass: ").removeprefix(f"{workload.name}: ")
        text = text.replace(f"{choice.path.parent}/", "")
        return text.partition("the allocator is at fault: ")[2] or text
    return ""


def _sources(home: Home, scratch: Path) -> dict[str, Path]:
    corpus = [SHARED / "workloads" / "corpus" / name for name in CORPUS]
    found = {}
    pattern = next((one for one in workloads.find(home) if one.name == PATTERN), None)
    if pattern:
        path = scratch / f"{PATTERN}.work"
        if workloads.write(pattern, path, []).returncode == 0:
            found[PATTERN] = path
    return found | {path.stem: path for path in corpus if path.is_file()}
