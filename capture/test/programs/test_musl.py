# SPDX-License-Identifier: MIT
"""Programs linked against musl, with the same library: their calls are recorded as often as an independent library
counts them, alone and in trees of processes of both C libraries. (docs/PLATFORMS.md)
"""

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.recording.test_storms import assert_each_process_is_complete
from tests.support import CONVERT, OUT, RECORD, REPOSITORY, assert_clean, compile_c, counted_calls, info, run, succeed

pytestmark = pytest.mark.skipif(not shutil.which("musl-gcc"), reason="musl-tools is not installed")

LOADER = Path("/lib/ld-musl-x86_64.so.1")

# strdup, getline, fopen, opendir and setenv allocate inside libc; this must not count as an allocator's own calls.
LIBC_ALLOCATES = """
int main(void) {
  for (int i = 0; i < 100; i++) {
    char *line = NULL, *copy = strdup("a copy");
    size_t bytes = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (getline(&line, &bytes, file) > 0)
      ;
    fclose(file);
    free(line);
    setenv("COPY", copy, 1);
    free(copy);
    closedir(opendir("/"));
    free(calloc(3, 1000));
  }
  return 0;
}"""

# As C++ calls them; the names that a C++ library exports, in a library of that name.
OPERATORS = """
void *new(size_t) __asm__("_Znwm");
void delete(void *) __asm__("_ZdlPv");
"""
CPP_LIBRARY = f"""{OPERATORS}
void *new(size_t size) {{ return malloc(size); }}
void delete(void *object) {{ free(object); }}
"""
CPP_PROGRAM = f"""{OPERATORS}
int main(void) {{
  for (int i = 0; i < 1000; i++)
    delete(new(i));
  free(malloc(7));
  return 0;
}}"""

CALLS_DEEP = """
#define STEP __attribute__((noinline, noclone)) void
STEP inner(int n) { free(malloc(n)); __asm__ volatile("" ::: "memory"); }
STEP middle(int n) { volatile char room[300]; room[n] = 1; inner(n + 1); __asm__ volatile("" ::: "memory"); }
STEP outer(int n) { middle(n + 1); __asm__ volatile("" ::: "memory"); }
int main(void) { outer(1); return 0; }
"""

# Runs the rest of its arguments in a fork child, and ends as that does.
RUNS_ANOTHER = """
int main(int count, char **arguments) {
  int status;
  free(malloc(77));
  if (count == 1)
    return 5;
  if (fork() == 0) {
    free(malloc(78));
    execvp(arguments[1], arguments + 1);
    _exit(9);
  }
  wait(&status);
  return WEXITSTATUS(status);
}"""

LOADS_A_LIBRARY = """
int main(int count, char **arguments) {
  void *library = dlopen(arguments[count - 1], RTLD_NOW | 8); /* RTLD_DEEPBIND of glibc, which musl does not know */
  void (*work)(void) = library ? (void (*)(void))dlsym(library, "work") : NULL;
  if (!work)
    return 1;
  work();
  return dlclose(library);
}"""
SMALL_STACKS = """
static void *work(void *object) {
  for (int i = 0; i < 3000; i++)
    object = realloc(object, 100 + i % 300);
  free(object);
  return NULL;
}
int main(void) {
  pthread_t threads[40];
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
  for (int i = 0; i < 40; i++)
    if (pthread_create(&threads[i], &attributes, work, NULL) != 0)
      return 1;
  for (int i = 0; i < 40; i++)
    pthread_join(threads[i], NULL);
  return 0;
}"""
LOADED = "#include <stdlib.h>\nvoid work(void) { for (int i = 0; i < 500; i++) free(malloc(i)); }"


def musl(into: Path, source: str | Path, *options: str | Path) -> Path:
    return compile_c(into, source, "-O2", *options, compiler="musl-gcc")


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that counts, for musl."""
    into = tmp_path_factory.mktemp("musl") / "libcount.so"
    return musl(into, REPOSITORY / "tests/preload/count_calls.c", "-shared", "-fPIC")


@pytest.fixture(scope="module")
def every_call(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return musl(tmp_path_factory.mktemp("musl") / "every_call", REPOSITORY / "tests/programs/every_call.c")


def recorded(tmp_path: Path, *command: str | Path, options: tuple[str | Path, ...] = ()) -> Path:
    tape = tmp_path / "t.tape"
    done = run(RECORD, "--quiet", "--all-processes", "-o", tape, *options, "--", *command)
    assert (done.status, done.stderr) == (0, "")
    assert_clean(tape)
    return tape


@pytest.mark.parametrize("threads", [1, 4])
def test_calls_are_recorded_as_often_as_another_run_of_the_same_program_makes_them(
    tmp_path, counter, every_call, threads
):
    counts = tmp_path / "counts"
    counts.mkdir()
    succeed(every_call, str(threads), "1000", env={"LD_PRELOAD": str(counter), "COUNT_CALLS_DIR": str(counts)})
    about = info(recorded(tmp_path, every_call, str(threads), "1000"))
    assert about["calls"] == sum(counted_calls(counts).values(), Counter())
    assert about["footer"]["in_flight"] == 0
    assert about["footer"]["nested"] > 0, "musl's calloc and posix_memalign call others by the dynamic linker"


@pytest.mark.parametrize("stamp", ["tags", "every"])
def test_each_process_of_a_storm_is_recorded_completely(tmp_path, stamp):
    """Threads free each other's objects and fork, and some of the children are killed or end by abort."""
    program = musl(tmp_path / "fork_storm", REPOSITORY / "tests/programs/fork_storm.c")
    counts, threads = tmp_path / "counts", 4
    command = (RECORD, "--quiet", "--all-processes", "-o", tmp_path / "t.tape", "--stamp", stamp, "--", program, counts)
    assert run(*command, "3", str(threads), "5000", "2").status == 0
    assert_each_process_is_complete(tmp_path, threads)


def test_calls_that_libc_makes_are_recorded_as_the_program_s(tmp_path, counter, monkeypatch):
    program = musl(tmp_path / "program", LIBC_ALLOCATES)
    counts = tmp_path / "counts"
    counts.mkdir()
    monkeypatch.setenv("COUNT_CALLS_DIR", str(counts))
    about = info(recorded(tmp_path, program, options=("--preload", counter)))
    assert about["calls"] == sum(counted_calls(counts).values(), Counter())
    assert about["calls"]["malloc"] >= 300


def test_operators_are_recorded_as_such(tmp_path):
    library = musl(tmp_path / "libc++.so.1", CPP_LIBRARY, "-shared", "-fPIC", "-Wl,-soname,libc++.so.1")
    program = musl(tmp_path / "program", CPP_PROGRAM, library, f"-Wl,-rpath,{tmp_path}")
    calls = info(recorded(tmp_path, program))["calls"]
    assert calls == {"operator new": 1000, "operator delete": 1000, "malloc": 1, "free": 1}


def test_a_program_at_fixed_addresses_that_takes_the_address_of_free_replaces_nothing(tmp_path):
    """Its symbol table has an entry with an address for free, which is not a definition."""
    text = "#include <stdlib.h>\nvoid (*volatile f)(void *) = free;\nint main(void) { f(malloc(9)); return 0; }"
    program = musl(tmp_path / "program", text, "-no-pie", "-fno-pie")
    assert info(recorded(tmp_path, program))["calls"] == {"malloc": 1, "free": 1}


def test_what_a_library_calls_that_is_loaded_later_is_recorded(tmp_path):
    library = musl(tmp_path / "libwork.so", LOADED, "-shared", "-fPIC")
    program = musl(tmp_path / "program", LOADS_A_LIBRARY, "-ldl")
    assert info(recorded(tmp_path, program, library))["calls"]["malloc"] >= 500


def test_stacks_are_walked_by_unwind_tables(tmp_path):
    # musl-gcc leaves the tables' index out, which compilers of musl's own systems make.
    program = musl(tmp_path / "program", CALLS_DEEP, "-fomit-frame-pointer", "-Wl,--eh-frame-hdr")
    tape = recorded(tmp_path, program, options=("--stacks", "--unwind", "dwarf"))
    dumped = succeed(CONVERT, "dump", "--stacks", tape).stdout
    frames = [line.split()[1] for line in dumped.splitlines() if line.startswith("#   ")]
    assert frames[:4] == ["inner", "middle", "outer", "main"]


@pytest.mark.parametrize("options", [(), ("--stacks=256", "--latency", "--usable")])
def test_threads_with_the_smallest_stacks_live(tmp_path, options):
    tape = recorded(tmp_path, musl(tmp_path / "program", SMALL_STACKS), options=options)
    assert info(tape)["calls"]["realloc"] == 40 * 3000


def test_processes_of_both_libcs_start_one_another_and_all_are_recorded(tmp_path):
    of_musl, of_glibc = musl(tmp_path / "m", RUNS_ANOTHER), compile_c(tmp_path / "g", RUNS_ANOTHER)
    chain = (of_musl, of_glibc, of_musl, "/usr/bin/env", of_musl, of_glibc)
    done = run(RECORD, "--quiet", "--all-processes", "-o", tmp_path / "t.tape", "--", *chain)
    assert (done.status, done.stdout, done.stderr) == (5, "", "")
    allocators: Counter[str] = Counter()
    for tape in tmp_path.glob("*.tape"):
        assert_clean(tape)
        allocators[info(tape)["info"]["allocator"]] += 1
    # A process, the fork children that exec the next one, and the exec'ed images.
    assert allocators == {"ld-musl-x86_64.so.1": 3 + 3, "libc.so.6": 3 + 1}


def test_a_program_that_the_loader_is_asked_to_start_is_recorded(tmp_path, every_call):
    """/proc/PID/exe is the loader then, and malloc is in it."""
    about = info(recorded(tmp_path, LOADER, every_call, "2", "500"))
    assert about["calls"]["malloc"] > 100


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to change the root folder")
def test_a_program_in_a_root_without_glibc_is_recorded(tmp_path, every_call):
    root = tmp_path / "root"
    library = OUT / "lib" / "libheaptape.so"
    for folder in ("lib", "bin", str(library.parent)[1:]):
        (root / folder).mkdir(parents=True)
    shutil.copy(LOADER, root / str(LOADER)[1:])
    shutil.copy(library, root / str(library)[1:])
    shutil.copy(every_call, root / "bin")
    succeed(RECORD, "--all-processes", "-o", tmp_path / "t.tape", "--", "chroot", root, "/bin/every_call", "2", "500")
    tapes = {info(tape)["info"]["allocator"]: tape for tape in tmp_path.glob("*.tape")}
    assert_clean(tapes["ld-musl-x86_64.so.1"])
    assert info(tapes["ld-musl-x86_64.so.1"])["calls"]["malloc"] > 100


@pytest.mark.parametrize("options", [("--stacks", "--unwind", "libunwind"), ("--preload", OUT / "lib/libreference.so")])
def test_libraries_of_glibc_are_refused_for_a_program_of_musl(tmp_path, options):
    program = musl(tmp_path / "program", "int main(void) { return 0; }")
    done = run(RECORD, "-o", tmp_path / "t.tape", *options, "--", program)
    assert done.status == 1
    assert done.stderr.endswith(f"is linked against glibc, and {program} against musl: it can't be loaded there\n")
    assert done.stderr.count("\n") == 1
