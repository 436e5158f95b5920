# SPDX-License-Identifier: MIT
"""The trace's facts about a process from the kernel: memory over time, its exact end, its parents."""

import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from tests import support
from tests.support import CONVERT, HEAPTAPE, RECORD, Result, compile_c, info, run

# Memory that bypasses malloc, for a moment; samples are far apart.
SPIKE = """
import mmap
print(flush=True)
block = mmap.mmap(-1, 100 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, len(block), 4096): block[at] = 1
block.close()
"""
PEAK = """
import resource
block = bytearray(150 << 20)
del block
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, flush=True)
"""


def record(folder: Path, *command: str, options: tuple[str, ...] = (), status: int = 0) -> Result:
    """Records a program into t.tape."""
    return support.record(folder / "t.tape", *command, options=options, status=status)


def traces(folder: Path) -> dict[str, list[dict]]:
    """`info` of all traces by program name."""
    found: dict[str, list[dict]] = {}
    for path in folder.glob("*.tape"):
        summary = info(path)
        found.setdefault(summary["info"]["program"], []).append(summary)
    return found


def test_the_peak_is_exact_however_short(tmp_path: Path) -> None:
    done = record(tmp_path, "/usr/bin/python3", "-c", PEAK, options=("--sample-ms", "10000"))
    kernel = int(done.stdout) * 1024
    summary = info(tmp_path / "t.tape")
    assert summary["footer"]["final"]["peak_rss_bytes"] == summary["recorded"]["vm_hwm_bytes"]
    assert kernel <= summary["recorded"]["vm_hwm_bytes"] < kernel + (1 << 20)
    assert summary["recorded"]["minor_faults"] > 150 << 8


def test_a_peak_of_anonymous_memory_between_samples_is_bounded_by_the_kernels_maximum(tmp_path: Path) -> None:
    done = record(tmp_path, "/usr/bin/python3", "-c", SPIKE, options=("--sample-ms", "10000"))
    recorded = info(tmp_path / "t.tape")["recorded"]
    assert 100 << 20 < recorded["rss_anon_peak_bytes"] <= recorded["vm_hwm_bytes"]
    assert "Live bytes peak at" in " ".join(done.stderr.split())
    work = support.compile_trace(tmp_path / "t.tape")
    assert info(work)["recorded"]["rss_anon_peak_bytes"] == recorded["rss_anon_peak_bytes"]


LIBC_NAMES = """
void *__libc_malloc(size_t); void __libc_free(void *); void *__libc_realloc(void *, size_t);
void *__libc_calloc(size_t, size_t); void *__libc_memalign(size_t, size_t);
int main(void) {
  for (int i = 0; i < 100; i++) {
    free(__libc_malloc(100));
    void *volatile object = malloc(100);
    __libc_free(object);
    object = __libc_realloc(__libc_calloc(3, 100), 5000);
    free(object);
    free(__libc_memalign(64, 300));
  }
  return 0;
}
"""


def test_the_names_that_glibc_has_for_its_functions_are_recorded_as_they_are(tmp_path: Path) -> None:
    record(tmp_path, str(compile_c(tmp_path / "names", LIBC_NAMES)))
    found = info(tmp_path / "t.tape")
    assert found["calls"] == {"malloc": 200, "free": 400, "calloc": 100, "realloc": 100, "memalign": 100}
    assert run(CONVERT, "check", tmp_path / "t.tape").status == 0


OWN_MALLOC = LIBC_NAMES.replace(
    "int main",
    """
void *malloc(size_t size) { return __libc_malloc(size); }
void free(void *object) { __libc_free(object); }
int main""",
)


def test_a_malloc_of_the_program_that_calls_glibcs_by_that_name_is_recorded_once(tmp_path: Path) -> None:
    record(tmp_path, str(compile_c(tmp_path / "own", OWN_MALLOC)))
    assert run(CONVERT, "check", tmp_path / "t.tape").status == 0
    calls = info(tmp_path / "t.tape")["calls"]
    assert (calls["malloc"], calls["free"]) == (200, 400)


def test_an_allocator_that_is_made_of_glibcs_by_those_names_is_recorded(tmp_path: Path) -> None:
    """Where they led to our hooks, which call that allocator, its first call had no end."""
    names = {"malloc": "size_t a", "free": "void *a", "calloc": "size_t a, size_t b", "realloc": "void *a, size_t b"}
    made = "".join(
        f"void *__libc_{name}({takes});\nvoid *{name}({takes}) {{ return __libc_{name}(a{', b' * (',' in takes)}); }}\n"
        for name, takes in names.items()
    )
    library = compile_c(tmp_path / "made.so", "#include <stddef.h>\n" + made, "-w", "-shared", "-fPIC")
    program = compile_c(
        tmp_path / "calls", "#include <stdlib.h>\nint main(void) { free(realloc(malloc(9), 99)); }", "-O0"
    )
    record(tmp_path, str(program), options=("--preload", str(library)))
    assert info(tmp_path / "t.tape")["calls"] == {"malloc": 1, "realloc": 1, "free": 1}


def test_libraries_of_a_recording_are_those_that_were_not_preloaded(tmp_path: Path) -> None:
    linked, preloaded = ((tmp_path / f"lib{name}.so.1") for name in ("linked", "preloaded"))
    for library in (linked, preloaded):
        support.compile_c(library.with_suffix(".1.2"), "int x;", "-shared", "-fPIC", f"-Wl,-soname,{library.name}")
        library.symlink_to(library.with_suffix(".1.2"))
    source = "#include <stdlib.h>\nextern int x; int main(void) { free(malloc(9)); return x; }"
    program = support.compile_c(tmp_path / "program", source, linked, f"-Wl,-rpath,{tmp_path}")
    environment = {"LD_PRELOAD": str(preloaded)}
    done = run(RECORD, "-o", tmp_path / "t.tape", "--", program, env=environment)
    assert done.status == 0, done.stderr
    libraries = info(tmp_path / "t.tape")["info"]["libraries"]
    assert "liblinked.so.1.2" in libraries
    assert "libpreloaded.so.1.2" not in libraries


@pytest.mark.parametrize("reference", ["", "__attribute__((weak)) "])
def test_a_program_that_calls_mallocx_has_a_recording_that_lacks_calls(tmp_path: Path, reference: str) -> None:
    """As redis 8 does: objects of jemalloc's own functions are not in the history, but malloc_usable_size of them is.
    A weak reference only asks for jemalloc."""
    its = "#include <stdlib.h>\nvoid *mallocx(size_t bytes, int flags) { return (char *)malloc(bytes + 64) + flags; }"
    library = support.compile_c(tmp_path / "libx.so", its, "-shared", "-fPIC")
    source = f"""
        {reference}void *mallocx(size_t, int);
        int main(void) {{ free(malloc(9)); return mallocx && !mallocx(9, 16); }}"""
    program = support.compile_c(tmp_path / "program", source, library, f"-Wl,-rpath,{tmp_path}")
    record(tmp_path, str(program))
    assert ("calls" in info(tmp_path / "t.tape")["info"]["lacks"]) == (reference == "")


def test_the_peak_is_exact_where_the_recorder_was_started_by_a_larger_program(tmp_path: Path) -> None:
    large = bytearray(300 << 20)
    large[:: os.sysconf("SC_PAGE_SIZE")] = b"x" * len(large[:: os.sysconf("SC_PAGE_SIZE")])
    test_the_peak_is_exact_however_short(tmp_path)


def test_a_program_is_sampled_as_long_as_it_runs_and_by_the_period_that_is_set(tmp_path: Path) -> None:
    """The program ends when it has been sampled often enough; when samples are taken, and what they may cost, is tested
    by capture/test/recorder/sampling_keeps_to_its_period_and_its_budget.c."""
    trace = tmp_path / "t.tape"
    waits = [RECORD, "-o", trace, "--", "/usr/bin/python3", "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(waits, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as recorder:
        until = time.monotonic() + 120
        samples = 0
        while samples < 60:
            assert time.monotonic() < until, samples
            if run(HEAPTAPE, "ctl", str(recorder.pid), "flush").status == 0:
                samples = info(trace)["recorded"]["samples"]
    record(tmp_path, "/usr/bin/python3", "-c", "pass", options=("--sample-ms", "36000000"))
    assert info(trace)["recorded"]["samples"] <= 3, "at its begin and its end only"


def test_killed_is_reported_of_a_process_that_another_reaps(tmp_path: Path) -> None:
    record(tmp_path, "sh", "-c", "sleep 9 & kill -9 $!; wait $!; exec sleep 0")
    sleeps = [summary["footer"] for summary in traces(tmp_path)["sleep"]]
    assert sorted(footer["end"] for footer in sleeps) in (["exit", "killed"], ["exit"])
    for footer in sleeps:
        if footer["end"] == "killed":
            assert footer["signal"] == 9
        else:
            assert footer["exit_status"] == 0


def test_the_exit_status_is_in_the_trace(tmp_path: Path) -> None:
    record(tmp_path, "sh", "-c", "exit 42", status=42)
    assert info(tmp_path / "t.tape")["footer"]["exit_status"] == 42


def test_the_tree_shows_who_started_whom(tmp_path: Path) -> None:
    done = record(tmp_path, "sh", "-c", "(/bin/true; exec sh -c '/bin/true; exit 3'); exit 0")
    lines = [line for line in done.stderr.splitlines() if re.match(r" +\S+ \(\d+\): ", line)]
    depth = [(len(line) - len(line.lstrip())) // 2 for line in lines]
    assert depth[0] == 1
    assert all(later <= earlier + 1 for earlier, later in zip(depth, depth[1:], strict=False))
    assert max(depth) >= 3
    assert len(lines) == len(list(tmp_path.glob("*.tape")))


def test_the_list_of_eighty_processes_is_short(tmp_path: Path) -> None:
    done = record(tmp_path, "sh", "-c", "for i in $(seq 80); do /bin/true; done")
    assert len(list(tmp_path.glob("*.tape"))) > 80
    assert len(done.stderr.splitlines()) < 36
    assert " more, " in done.stderr


@pytest.mark.parametrize("way", ["fork", "spawn", "vfork", "daemon"])
def test_every_way_of_starting_a_process_is_followed(tmp_path: Path, way: str) -> None:
    """A grandchild that outlives its parents, has closed every descriptor and then allocates."""
    code = f"""
import os, subprocess, sys, time
way = {way!r}
late = "import os, time; os.closerange(0, 256); time.sleep(0.3); x = [bytes(5000)] * 9; os.chdir('/')"
program = [sys.executable, "-c", late]
if way == "spawn":
    os.posix_spawn(program[0], program, os.environ)
elif way == "vfork":
    subprocess.Popen(program, close_fds=False)
elif os.fork() == 0:
    os.setsid()
    if way == "daemon" and os.fork():
        os._exit(0)
    os.closerange(0, 256)
    time.sleep(0.3)
    x = [bytes(5000) for _ in range(100)]
    os._exit(5)
os._exit(4)
"""
    done = record(tmp_path, "/usr/bin/python3", "-c", code, status=4)
    paths = list(tmp_path.glob("*.tape"))
    assert len(paths) >= 2, done.stderr
    for path in paths:
        checked = run(CONVERT, "check", path, "--json")
        assert checked.status == 0, (path.name, checked.stdout)
        assert not json.loads(checked.stdout)["truncated"]
    ends = sorted(info(path)["footer"].get("exit_status", -1) for path in paths if path.name != "t.tape")
    assert ends[-1] == (0 if way in ("spawn", "vfork") else 5)


def test_no_follow_records_the_first_process_only(tmp_path: Path) -> None:
    record(tmp_path, "sh", "-c", "/bin/true; (exit 3); exit 6", options=("--no-follow",), status=6)
    assert [path.name for path in tmp_path.glob("*.tape")] == ["t.tape"]
