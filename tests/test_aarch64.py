# SPDX-License-Identifier: MIT
"""heaptape on aarch64: its C tests hold there, recordings and replays work, and files are the same as on x86-64.

Run by `make test-aarch64`, on an x86-64 machine: compiled by a cross compiler, run by qemu (tools/emulate). qemu keeps
the memory order of the machine that it runs on, so these tests show nothing about aarch64's:
tests/test/weak_memory_orders_every_history.c does.
"""

import json
import os
from pathlib import Path

import pytest

from tests.support import CONVERT, OUT, REPOSITORY, Result, run, succeed
from tests.test_c_programs import LONG, SKIPPED, listed_programs

pytestmark = pytest.mark.aarch64

TIMEOUT_S = 900  # only bounds a hang
AARCH64 = Path(os.environ.get("HEAPTAPE_AARCH64", OUT / "aarch64"))
ROOT = AARCH64 / "root"

# Where qemu differs from a kernel, so that the claim can't be tested there.
EMULATOR_LACKS = {
    "capture/hosts/surroundings/chrooted_host_without_proc_is_recorded": "other users' ids: the namespace has one user",
    "capture/hosts/lives/host_survives_collector_killed": "robust futexes, which show that the recorder has died",
    "capture/hosts/interruptions/signal_handler_that_allocates_corrupts_no_record": "speed: not all signals' "
    "records have room, which is counted",
}

CHAIN = """
#include <stdlib.h>
void *volatile kept;
__attribute__((noinline)) void take(size_t n) { kept = malloc(n); free(kept); __asm__ volatile(""); }
__attribute__((noinline)) void middle(size_t n) { take(n); __asm__ volatile(""); }
__attribute__((noinline)) void outer(size_t n) { middle(n); __asm__ volatile(""); }
int main(void) { outer(1001); middle(1002); outer(1001); return 0; }
"""


def emulated(*command: str | Path, cwd: Path | None = None) -> Result:
    """Runs a program for aarch64."""
    return run(REPOSITORY / "tools" / "emulate", "aarch64", AARCH64, *command, cwd=cwd, timeout_s=TIMEOUT_S)


def emulated_well(*command: str | Path, cwd: Path | None = None) -> Result:
    done = emulated(*command, cwd=cwd)
    assert done.status == 0, done.stderr
    return done


def record(tape: Path, *command: str | Path, options: tuple[str, ...] = ()) -> Result:
    return emulated_well(AARCH64 / "libexec/heaptape-record", "-o", tape, *options, "--", *command)


def places() -> list:
    """The place of each C test below out/test/."""
    found = sorted(str(path.relative_to(OUT / "test")) for path in listed_programs())
    return [
        pytest.param(place, marks=[pytest.mark.long] if Path(place).name in LONG else [])
        for place in found
        if not place.startswith("observe/valgrind")
    ]


@pytest.mark.parametrize("place", places())
def test_c_test_holds(place: str, tmp_path: Path) -> None:
    if place in EMULATOR_LACKS:
        pytest.skip(f"qemu lacks {EMULATOR_LACKS[place]}")
    done = emulated(AARCH64 / "test" / place, cwd=tmp_path)
    output = (done.stdout + done.stderr).strip()
    if done.status == SKIPPED:
        pytest.skip(output or "it does not say why")
    assert done.status == 0, f"exit status {done.status}\n{output[-4000:]}"


@pytest.mark.parametrize("library", ["libheaptape.so", "libheaptape-attach.so"])
def test_library_needs_only_symbols_of_the_list(library: str) -> None:
    succeed("python3", REPOSITORY / "tools/host_symbols.py", AARCH64 / "lib" / library)


@pytest.fixture(scope="module")
def storm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of threads that release each other's objects, made on aarch64."""
    tape = tmp_path_factory.mktemp("storm") / "storm.tape"
    record(tape, AARCH64 / "workloads/remote_storm", "--rounds=20000", "--quiet=1")
    return tape


def test_recording_has_every_call_in_a_legal_order(storm: Path) -> None:
    assert "a legal history" in succeed(CONVERT, "check", storm).stdout
    about = json.loads(succeed(CONVERT, "info", "--json", storm).stdout)
    assert about["info"]["arch"] == "aarch64"
    assert about["info"]["clock"]["kind"] == "cntvct"
    assert about["info"]["clock"]["hz"] > 1e6
    assert about["dropped"] == 0


def test_both_processors_read_the_same(storm: Path, tmp_path: Path) -> None:
    """The dump, the workload to the byte, and the profile; of a trace from aarch64 and of one from x86-64."""
    native = tmp_path / "native.tape"
    succeed(OUT / "libexec/heaptape-record", "-o", native, "--", OUT / "workloads/malloc_pairs")
    convert = AARCH64 / "libexec/heaptape-convert"
    for tape in (storm, native):
        assert emulated_well(convert, "dump", tape).stdout == succeed(CONVERT, "dump", tape).stdout
        assert emulated_well(convert, "profile", tape).stdout == succeed(CONVERT, "profile", tape).stdout
        here, there = tmp_path / "here.work", tmp_path / "there.work"
        succeed(CONVERT, "compile", tape, "-o", here)
        emulated_well(convert, "compile", tape, "-o", there)
        assert here.read_bytes() == there.read_bytes()


def replay(work: Path, engine: Path, out: Path, *options: str | Path) -> dict:
    command = [engine / "libexec/heaptape-replay", "--pass", "verify", *options, "-o", out, work]
    if engine == AARCH64:
        emulated_well(*command)
    else:
        succeed(*command)
    return json.loads(out.read_text())


@pytest.mark.parametrize("library", ["", "libreference.so", "libmagazine.so", "libbucket.so", "libjemalloc.so.2"])
def test_replay_makes_the_calls_that_it_makes_on_x86(library: str, storm: Path, tmp_path: Path) -> None:
    work = tmp_path / "storm.work"
    succeed(CONVERT, "compile", storm, "-o", work)
    path = AARCH64 / "lib" / library
    if not path.exists():
        path = ROOT / "usr/lib/aarch64-linux-gnu" / library
    preload: tuple[str | Path, ...] = ("--preload", path) if library else ()
    there = replay(work, AARCH64, tmp_path / "there.json", *preload)
    here = replay(work, OUT, tmp_path / "here.json")
    for figures in (here, there):
        assert figures["ops"] > 100000
    assert there["ops"] == here["ops"]
    assert there["threads"] == here["threads"]


def functions_at(program: Path, addresses: list[int]) -> list[str]:
    """Which of the program's functions these return addresses are in, "" for none. The recorder doesn't know: it reads
    the process's map, which is qemu's, and there code is not executable. take calls malloc, and is at addresses[0].
    """
    table = succeed("aarch64-linux-gnu-nm", "--defined-only", "--print-size", program).stdout
    rows = [line.split() for line in table.splitlines()]
    ranges = {row[3]: (int(row[0], 16), int(row[1], 16)) for row in rows if len(row) == 4 and row[2] in "tT"}
    base = addresses[0] - ranges["take"][0] & ~0xFFF
    return [
        next((name for name, (at, size) in ranges.items() if at < address - base <= at + size), "")
        for address in addresses
    ]


def test_stack_is_the_functions_in_order(tmp_path: Path) -> None:
    source, program, tape = tmp_path / "chain.c", tmp_path / "chain", tmp_path / "chain.tape"
    source.write_text(CHAIN)
    succeed("aarch64-linux-gnu-gcc", f"--sysroot={ROOT}", "-O2", "-g", "-o", program, source)
    done = record(tape, program, options=("--stacks",))
    assert "stacks could not be taken" not in done.stderr
    stacks: dict[int, list[int]] = {}
    found: dict[int, list[str]] = {}
    for line in map(json.loads, succeed(CONVERT, "dump", "--stacks", "--format", "jsonl", tape).stdout.splitlines()):
        if "frames" in line:
            stacks[line["stack"]] = [int(frame["offset"], 16) for frame in line["frames"]]
        elif line.get("call") == "malloc":
            found[line["size_bytes"]] = functions_at(program, stacks[line["stack"]])
    assert found[1001] == ["take", "middle", "outer", "main", "", "", "_start"]
    assert found[1002] == ["take", "middle", "main", "", "", "_start"]


@pytest.mark.parametrize(
    ("options", "program", "reason"),
    [
        (("--unwind", "dwarf", "--stacks"), "chain", "--unwind dwarf is for x86-64"),
        (("--accesses",), "chain", "heaptape's Valgrind tool is for x86-64 only"),
        ((), "/bin/true", "a program for another kind of processor"),
    ],
)
def test_what_is_not_there_is_refused_in_one_line(options, program, reason, tmp_path: Path) -> None:
    program = AARCH64 / "workloads/malloc_pairs" if program == "chain" else program
    done = emulated(AARCH64 / "libexec/heaptape-record", "-o", tmp_path / "t.tape", *options, "--", program)
    assert done.status not in (0, None)
    assert reason in done.stderr
    assert done.stderr.strip().count("\n") == 0
