# SPDX-License-Identifier: MIT
"""The instructions pass: our Valgrind tool counts what was planted, and what callgrind counts, instruction by
instruction, wherever heaptape runs.
"""

import functools
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from heaptape.tape import calls

from tests.support import REPOSITORY, compile_trace, import_text, refused, succeed, workload

from ..engine import COUNTED, ENGINE, PLANTED, TOOL, engine, install, make, replay

needs_tool = pytest.mark.skipif(not TOOL.exists(), reason="the Valgrind tool was not built: no headers of Valgrind's")
needs_valgrind = pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")


def count(path, *arguments, **plants):
    return replay("--pass", "instructions", *arguments, path, **plants)


count_once = functools.cache(count)


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    path = tmp_path_factory.mktemp("instructions") / "single.work"
    return path, make(path, ops=1500, threads=1, live_objects=300)


@pytest.fixture(scope="module")
def threads(tmp_path_factory):
    path = tmp_path_factory.mktemp("instructions") / "threads.work"
    return path, make(path, ops=5000, threads=5, live_objects=200, remote_percent=30)


@needs_tool
def test_planted_instructions_are_counted_exactly(single):
    path, made = single
    some, more = (count(path, "--preload", PLANTED, LOOPS=loops)["calls"] for loops in (1000, 3000))
    for name, number in made["calls"].items():
        assert some[name]["count"] == number
        extra = more[name]["instructions_total"] - some[name]["instructions_total"]
        per_loop, rest = divmod(extra, 2000 * number)
        assert rest == 0
        assert per_loop in ((1, 2, 3, 4) if name in ("malloc", "operator new") else (0,)), name


@needs_tool
def test_planted_startup_is_counted_exactly_and_is_no_calls(single):
    """Executed by the constructor, before the first op."""
    few, many = (count(single[0], "--preload", PLANTED, STARTUP_LOOPS=10000 + extra) for extra in (0, 1000))
    more = many["startup_instructions"] - few["startup_instructions"]
    assert more % 1000 == 0
    assert 1000 <= more <= 4000
    assert many["startup_process_instructions"] - few["startup_process_instructions"] == more
    assert few["startup_instructions"] < few["startup_process_instructions"]
    assert few["calls"] == many["calls"]
    assert few["startup_syscalls"] == many["startup_syscalls"]


@needs_tool
def test_system_calls_of_the_start_up_are_those_of_loading(single):
    """One library more is opened, read and mapped: what ops do later is not counted."""
    plain, loaded = (count(single[0], *preload)["startup_syscalls"] for preload in ((), ("--preload", PLANTED)))
    assert loaded["mmap"] - plain["mmap"] >= 4
    assert loaded["other"] > plain["other"]
    assert count(single[0], "--op-limit", "1", "--order", "window")["startup_syscalls"] == plain


@needs_tool
def test_glibcs_startup_is_nothing_but_the_calls_made_before_the_first_op(single):
    """glibc has no constructor; no library that the engine needs allocates when it is loaded."""
    run = count_once(single[0])
    assert run["startup_instructions"] == 0
    assert run["startup_process_instructions"] > 10000


@needs_tool
def test_instructions_of_each_call_are_the_same_twice(single):
    path, _ = single
    first, second = (counting(path) for counting in (count_once, count))
    assert first["calls"] == second["calls"]
    assert first["instructions_total"] == sum(call["instructions_total"] for call in first["calls"].values())


# In place of Valgrind's launcher (install): callgrind's counts below the engine's callers, by their names.
CALLGRIND = """#!{python}
import itertools, json, os, re, subprocess, sys
options = list(itertools.takewhile(lambda word: word.startswith("--"), sys.argv[1:]))
program = sys.argv[1 + len(options):]
output = next(word for word in options if word.startswith("--out-file=")).partition("=")[2]
del os.environ["VALGRIND_LIB"]
subprocess.run(
    ["valgrind", "--tool=callgrind", "--callgrind-out-file=" + output, "--toggle-collect=heaptape_calls_*",
     "--compress-strings=no", "--compress-pos=no", "--log-file=/dev/null", *program],
    check=True, close_fds=False,
)
counts, caller, below = {{}}, None, False
for line in open(output):
    if line.startswith("fn="):
        caller = re.match("fn=heaptape_calls_([a-z_0-9]*)", line)
    elif below and caller:  # the line behind "calls=": the instructions of all that is below the call
        counts[caller[1]] = counts.get(caller[1], 0) + int(line.split()[1])
    below = line.startswith("calls=")
kinds = {kinds}
rows = [{{"kind": kinds[name], "instructions": count}} for name, count in counts.items()]
json.dump({{"kinds": rows}}, open(output, "w"))
"""


@needs_valgrind
@needs_tool
@pytest.mark.parametrize(
    ("which", "order"), [pytest.param("single", (), marks=pytest.mark.long), ("threads", ("--order", "recorded"))]
)
def test_the_tool_counts_what_callgrind_counts(which, order, request, tmp_path):
    """With threads, too, if they take turns. Callgrind has one instruction more for each element of a string
    instruction: of one byte where glibc's calloc clears memory, of eight where a call makes a thread's cache.
    """
    path, _ = request.getfixturevalue(which)
    defined = (REPOSITORY / "core/trace/calls.def").read_text()
    kinds = {ident: int(number) for number, ident in re.findall(r"^CALL\((\d+), (\w+),", defined, re.M)}
    program = install(tmp_path, CALLGRIND.format(python=sys.executable, kinds=kinds))
    theirs = json.loads(succeed(program, "--pass", "instructions", *order, path).stdout)["calls"]
    ours = count_once(path, *order)["calls"]
    assert set(ours) == set(theirs)
    for name, call in theirs.items():
        assert call["count"] == ours[name]["count"]
        elements = call["instructions_total"] - ours[name]["instructions_total"]
        eights, rest = divmod(ours[name]["string_bytes"] - elements, 7)
        assert (rest, elements >= eights >= 0) == (0, True), name


@needs_tool
def test_a_large_calloc_is_one_string_instruction_of_its_bytes(tmp_path):
    """glibc clears an object that was used before with one rep stosb, of all that the chunk has."""
    calls, size = 40, 100_000
    lines = "".join(f"{n} 0 calloc(1, {size}) = 0x5000\n{n} 0 free(0x5000)\n" for n in range(calls))
    work = compile_trace(import_text(tmp_path, lines))
    calloc = count(work)["calls"]["calloc"]
    assert calloc["count"] == calls
    assert calls - 1 <= calloc["string_instructions"] <= calls + 1  # the first object is new memory; a thread's cache
    assert calloc["string_bytes"] == pytest.approx((calls - 1) * size, rel=0.03)
    assert calloc["instructions_mean"] < 1000


@needs_tool
def test_threads_are_counted_too(threads):
    path, made = threads
    run = count_once(path)
    assert {name: call["count"] for name, call in run["calls"].items()} == made["calls"]
    assert all(call["instructions_mean"] > 5 for name, call in run["calls"].items() if name != "free")


@needs_tool
def test_a_prefix_is_reported_as_one(single):
    path, made = single
    run = count(path, "--op-limit", 1000, "--order", "window")
    assert run["op_limit"] == 1000
    assert 900 <= run["ops"] <= 1064
    assert sum(call["count"] for call in run["calls"].values()) == run["ops"]


def test_recorded_order_has_no_prefix(single):
    result = engine("--pass", "instructions", single[0], "--op-limit", 10, "--order", "recorded")
    assert result.returncode == 2


def test_a_tool_that_was_not_built_is_one_clear_error(single, threads, tmp_path):
    program = install(tmp_path)
    message = "instructions can't be counted here: heaptape's Valgrind tool was not built"
    refused(program, "--pass", "instructions", single[0], says=message)


@needs_tool
@pytest.mark.parametrize("version", [None, "3.24.0"])
def test_the_systems_valgrind_is_not_needed(single, tmp_path, version):
    """There is none, or one of another version, which ends the run if it is started."""
    elsewhere = tmp_path / "bin"
    elsewhere.mkdir()
    for name in ("valgrind", "valgrind.bin") if version else ():
        (elsewhere / name).write_text(
            f"#!/bin/sh\n[ $# = 1 ] && [ $1 = --version ] && echo valgrind-{version}\nexit 1\n"
        )
        (elsewhere / name).chmod(0o755)
    command = [ENGINE, "--pass", "instructions", single[0]]
    hidden = f'mount --bind {elsewhere} /usr/libexec/valgrind && exec env -u VALGRIND_LIB PATH={elsewhere} "$@"'
    isolated = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", hidden, "sh"]
    if (
        subprocess.run([*isolated[:4], "true"], capture_output=True).returncode
        or not Path("/usr/libexec/valgrind").is_dir()
    ):
        isolated = ["env", "-u", "VALGRIND_LIB", f"PATH={elsewhere}"]
    assert json.loads(succeed(*isolated, *command).stdout)["calls"] == count_once(single[0])["calls"]


@needs_tool
@pytest.mark.parametrize("counted", [{}, {"malloc": 1000, "free": 0}], ids=["nothing", "nothing for one kind of call"])
def test_a_count_of_0_for_calls_that_were_made_is_one_clear_error(single, tmp_path, counted):
    path, made = single
    kinds = [
        {"kind": number, "instructions": counted.get(name, 10)}
        for number, (name, *_) in (calls.CALLS.items() if counted else ())
    ]
    program = install(tmp_path, COUNTED.format(result=json.dumps({"kinds": kinds})))
    message = f"0 instructions counted for {made['ops']} ops: the pass has no figure"
    refused(program, "--pass", "instructions", path, says=message)


@needs_tool
def test_more_threads_at_a_time_than_valgrinds_own_500_are_counted(tmp_path):
    path, threads, turns = tmp_path / "many.work", 600, 2
    options = (f"--threads={threads}", "--generations=1", f"--turns={turns}", "--objects=1", "--quiet=1")
    succeed(workload("many_threads"), *options, f"--work={path}")
    calls = count(path)["calls"]
    assert {name: calls[name]["count"] for name in ("malloc", "free")} == dict.fromkeys(
        ("malloc", "free"), threads * turns
    )


@needs_tool
@pytest.mark.parametrize("library", ["libjemalloc.so.2", pytest.param("libmimalloc.so.2", marks=pytest.mark.long)])
def test_without_recorded_times_an_allocator_that_reads_the_clock_executes_the_same_twice(threads, library):
    """Both give memory back by time: the clock advances evenly with the ops."""
    first, second = (count(threads[0], "--order", "recorded", "--preload", library) for _ in range(2))
    assert first["clock"] == "steps"
    assert first["calls"] == second["calls"]
    assert first["startup_instructions"] == second["startup_instructions"]
