# SPDX-License-Identifier: MIT
"""libheaptape-place.so: a plan's call sites are served from regions, all else from the program's allocator; no plan,
however damaged, changes what a program does.
"""

import os
import subprocess
from pathlib import Path

import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.features.place import plan
from heaptape.run import replay
from heaptape.tape.trace import open_trace

from tests.support import HEAPTAPE, OUT, RECORD, compile_c, succeed

HOME = Home(OUT)
LIBRARY = OUT / "lib" / "libheaptape-place.so"
HOST = Path(__file__).with_name("host.c")
OTHERS = ("placed_array", "placed_of_c11", "placed_as_before", "placed_in_a_page")


@pytest.fixture(scope="module")
def host(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("place") / "host"
    compile_c(path, HOST, "-O2", "-g", "-fno-ipa-icf", "-pthread", "-Wl,--build-id")
    return path


def plan_of(folder: Path, host: Path, *words: str) -> str:
    """A plan for the functions of the host that are named placed…, made from a recording of it."""
    tape = folder / "host.tape"
    succeed(RECORD, "--stacks", "--no-follow", "-o", tape, "--", host, *words)
    workload = replay.prepare(str(tape), HOME, folder, origins=True)
    with open_trace(tape) as trace:
        sites = plan.sites_of(trace, workload.with_suffix(".origins"))
    chosen = [number for number, site in sites.items() if site.name.startswith("placed")]
    found, left_out = plan.placed(sites, [chosen])
    assert not left_out
    assert sorted(set(plan.regions_in(sites, found)[0])) == sorted(chosen)
    return plan.write(plan.Plan(found, "host", {"peak_rss_bytes": 5}))


@pytest.fixture(scope="module")
def made(host) -> Path:
    path = host.parent / "plan.toml"
    path.write_text(plan_of(host.parent, host, "where"))
    return path


def run(host: Path, path: Path | str | None, *words: str, **more: str) -> subprocess.CompletedProcess:
    environment = dict(os.environ) | {"LD_PRELOAD": str(LIBRARY)} | ({"HEAPTAPE_PLACE": str(path)} if path else {})
    return subprocess.run([host, *words], env=environment | more, capture_output=True, text=True, timeout=300)


def test_sites_of_a_plan_are_served_apart_and_keep_the_rules_of_malloc(host, made):
    done = run(host, made, "where")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 0 6\ndone\n", "")


def test_a_wrapper_is_told_apart_by_its_callers(made):
    depths = {site.function.split()[0]: len(site.frames) for site in plan.read(made).sites}
    assert depths == {
        "placed": 2,
        "placed_zeroed": 1,
        "placed_aligned": 1,
        "placed_resized": 1,
        **dict.fromkeys(OTHERS, 1),
    }


def test_without_a_plan_the_library_does_nothing(host):
    done = run(host, None)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_the_command_runs_the_program_with_the_plan(host, made):
    done = succeed(HEAPTAPE, "run", "--place", made, "--", host, "where")
    assert (done.stdout, done.stderr) == ("1 0 6\ndone\n", "")


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (lambda text: text.replace("version = 1", "version = 2"), "line 2: of a version that is not known"),
        (lambda text: text.replace("region = 1", "region = 15", 1), "out of range"),
        (lambda text: text.replace("+0x", "-0x", 1), "a frame is not BUILDID+0xOFFSET"),
        (lambda text: text.replace("region", "colour", 1), "a key that is not known"),
        (lambda text: text.replace("[[site]]", "[site]", 1), "a table that is not known"),
        (lambda text: text + '[[site]]\nregion = 1\nframes = ["ab+0x', "a string does not end"),
        (lambda text: text + "[[site]]\n", "the site before has no region or no frames"),
        (lambda text: "version = 1\n", "no site"),
        (lambda text: text + "#" * (1 << 20), "is larger than 1 MiB"),
    ],
)
def test_a_damaged_plan_gives_one_line_and_the_program_runs_on(host, made, tmp_path, damage, line):
    path = tmp_path / "damaged.toml"
    path.write_text(damage(made.read_text()))
    done = run(host, path, "where")
    assert (done.returncode, done.stdout.endswith("done\n")) == (0, True)
    assert line in done.stderr
    assert done.stderr.startswith(f"heaptape: {path}: ")
    assert done.stderr.endswith(": nothing is placed\n")
    assert done.stderr.count("\n") == 1


def test_a_missing_plan_and_a_folder_are_reported(host, tmp_path):
    for path in (tmp_path / "none", tmp_path):
        assert run(host, path).stderr == f"heaptape: {path}: can't be read: nothing is placed\n"


def test_a_plan_of_another_build_is_reported_once_and_only_in_its_program(host, made, tmp_path):
    build = plan.read(made).sites[0].frames[0].partition("+")[0]
    path = tmp_path / "other.toml"
    path.write_text(made.read_text().replace(build, "00" * 20))
    done = run(host, path)
    count = len(plan.read(made).sites)
    expected = f"heaptape: {path}: {count} of {count} sites are of builds that are not loaded: "
    expected += "not placed unless they are loaded later\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", expected)
    assert run(Path("/bin/true"), path).stderr == ""


def test_a_full_address_space_is_reported_and_harms_nobody(host, made):
    words = ["sh", "-c", f"ulimit -v 100000; LD_PRELOAD={LIBRARY} HEAPTAPE_PLACE={made} exec /bin/echo fine"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.stdout == "fine\n"
    assert done.stderr == f"heaptape: {made}: no address space for regions: nothing is placed\n"


def test_sites_of_libraries_that_are_loaded_later_are_placed_and_leave_with_them(tmp_path):
    library = r"""
#include <stdlib.h>
__attribute__((noinline)) void *placed(size_t n) { void *p = malloc(n); __asm__ volatile("" : "+r"(p)); return p; }
"""
    program = r"""
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **words) {
  (void)count;
  for (int i = 0; i < 40; i++) {
    void *library = dlopen(words[1], RTLD_NOW);
    void *(*placed)(size_t) = (void *(*)(size_t))dlsym(library, "placed");
    void *first = placed(40), *second = placed(40), *other = malloc(40);
    if (i % 39 == 0)
      printf("%d%d ", (uintptr_t)first >> 22 == (uintptr_t)second >> 22,
             (uintptr_t)first >> 22 == (uintptr_t)other >> 22);
    free(first), free(second), free(other);
    if (dlclose(library)) return 1;
  }
  return puts("done") < 0;
}
"""
    (tmp_path / "library.c").write_text(library)
    (tmp_path / "program.c").write_text(program)
    shared, host = tmp_path / "libplaced.so", tmp_path / "host"
    succeed("gcc", "-O2", "-g", "-fPIC", "-shared", "-Wl,--build-id", tmp_path / "library.c", "-o", shared)
    succeed("gcc", "-O2", "-g", "-Wl,--build-id", tmp_path / "program.c", "-o", host)
    (tmp_path / "plan.toml").write_text(plan_of(tmp_path, host, str(shared)))
    done = run(host, tmp_path / "plan.toml", str(shared))
    assert (done.returncode, done.stdout) == (0, "10 10 done\n")
    assert done.stderr.endswith("not placed unless they are loaded later\n")


def test_operators_of_cpp_are_placed(tmp_path):
    source = r"""
#include <cstdio>
#include <new>
struct alignas(64) Wide { char bytes[64]; };
__attribute__((noinline)) static int *placed(int n) { int *p = new int[n]; __asm__ volatile("" : "+r"(p)); return p; }
__attribute__((noinline)) static Wide *placed_wide() { Wide *p = new Wide; __asm__ volatile("" : "+r"(p)); return p; }
int main() {
  for (int i = 1; i < 100; i++) {
    int *one = placed(i);
    Wide *two = placed_wide();
    if ((unsigned long)two % 64) return 1;
    one[i - 1] = i;
    if (i % 2) { delete[] one; delete two; }
  }
  try { placed(1 << 30)[0] = 1; return *(char *)::operator new(1UL << 50); }
  catch (const std::bad_alloc &) { std::puts("thrown"); }
}
"""
    (tmp_path / "host.cc").write_text(source)
    host = tmp_path / "host"
    succeed("g++", "-std=c++17", "-O2", "-g", "-Wl,--build-id", tmp_path / "host.cc", "-o", host)
    (tmp_path / "plan.toml").write_text(plan_of(tmp_path, host))
    assert len(plan.read(tmp_path / "plan.toml").sites) == 2
    done = run(host, tmp_path / "plan.toml")
    assert (done.returncode, done.stdout, done.stderr) == (0, "thrown\n", "")


def test_a_plan_reads_back(made):
    found = plan.read(made)
    assert plan.read(made) == found
    assert plan.write(found) == made.read_text()


def test_what_is_not_a_plan_is_refused(tmp_path):
    for text in ("version = 1\n", "x", '[[site]]\nregion = 1\nframes = ["x"]\n', "version = 7\nsite = []\n"):
        (tmp_path / "plan").write_text(text)
        with pytest.raises(HeaptapeError, match=str(tmp_path)):
            plan.read(tmp_path / "plan")
