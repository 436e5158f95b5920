# SPDX-License-Identifier: MIT
"""What the program has defined or can ask for is as without us: names of the C library that it defines itself, dlerror,
and what the loader finds for a library that it opens.
"""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support import CONVERT, RECORD, Result, check, compile_c, proved, run, succeed

MANY_CALLS = """
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static void *work(void *unused) {
  for (int i = 0; i < 1000; i++)
    free(malloc(777));
  return unused;
}
int main(void) {
  pthread_t thread;
  work(NULL);
  pthread_create(&thread, NULL, work, NULL);
  pthread_join(thread, NULL);
  puts("done");
  return 7;
}
"""
DEFINITIONS = {
    "syscall": 'long syscall(const char *name, int n) { printf("%s\\n", name); return n; }',
    "prctl": "int prctl(void *unused) { abort(); }",
    "dlsym": "void *dlsym(void *handle, const char *name) { return NULL; }",
    "dladdr": "int dladdr(const void *address, void *info) { return 0; }",
    "dl_iterate_phdr": "int dl_iterate_phdr(void *visit, void *context) { abort(); }",
    "mmap": "void *mmap(void *a, size_t n, int p, int f, int fd, long o) { errno = EPERM; return (void *)-1; }",
    "madvise": "int madvise(void *a, size_t n, int advice) { abort(); }",
    "setsockopt": "int setsockopt(int fd, int l, int o, const void *v, unsigned n) { abort(); }",
    "sysconf": "long sysconf(int name) { free(malloc(1)); return 12345; }",
    "strings": """
size_t strlen(const char *s) { free(malloc(10)); size_t n = 0; while (s[n]) n++; return n; }
void *memcpy(void *d, const void *s, size_t n) { free(malloc(10)); char *x = d; const char *y = s;
  while (n--) *x++ = *y++; return d; }""",
}
ERRORS = """
#ifdef __cplusplus
#define OPERATORS() do { int *volatile number = new int; delete number; } while (0)
#else
#define OPERATORS() free(malloc(4))
#endif
static void say(void) { const char *error = dlerror(); puts(error ? error : "none"); }
int main(int argc, char **argv) {
  say();
  dlsym(RTLD_DEFAULT, "no_such_symbol");
  OPERATORS();
  say();
  void *handle = dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND);
  say();
  dlsym(handle, "neither");
  OPERATORS();
  say();
  dlclose(handle);
  say();
  return 0;
}
"""
PLUGIN = """
static void *early;
__attribute__((constructor)) static void begin(void) { early = malloc(5000); }
void plugin_release(void *object) { free(object); }
void *plugin_acquire(void) { return malloc(777); }
void plugin_end(void) { free(realloc(early, 20000)); }
"""
OPENS = """
int main(int argc, char **argv) {
  void *handle = argc > 2 ? dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW) : dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND);
  if (!handle)
    return puts(dlerror()), 3;
  void (*release)(void *) = (void (*)(void *))dlsym(handle, "plugin_release");
  void *(*acquire)(void) = (void *(*)(void))dlsym(handle, "plugin_acquire");
  for (int i = 0; i < 1000; i++) {
    release(argc > 2 ? acquire() : malloc(778));
    if (argc <= 2)
      free(acquire());
  }
  ((void (*)(void))dlsym(handle, "plugin_end"))();
  return 0;
}
"""
MISSING = "are in another name space (dlmopen), are missing"


def same_recorded(trace: Path, *command: str | Path, options: tuple[str | Path, ...] = ()) -> Result:
    bare = run(*command)
    done = run(RECORD, "--quiet", *options, "-o", trace, "--", *command)
    assert (done.status, done.stdout) == (bare.status, bare.stdout), done.stderr
    return done


def count(trace: Path, call: str, size_bytes: int) -> int:
    lines = map(json.loads, run(CONVERT, "dump", "--format", "jsonl", trace).stdout.splitlines())
    return sum(line.get("call") == call and line.get("size_bytes") == size_bytes for line in lines)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_program_that_exports_functions_of_the_c_librarys_names_is_recorded(name: str, tmp_path: Path) -> None:
    program = compile_c(tmp_path / "p", MANY_CALLS + DEFINITIONS[name], "-w", "-O1", "-rdynamic", "-pthread")
    trace = tmp_path / "t.tape"
    same_recorded(trace, program)
    assert check(trace)["ok"]
    assert count(trace, "malloc", 777) == 2000


@pytest.mark.parametrize("compiler", ["cc", "c++"])
def test_what_dlerror_returns_is_the_programs_own(compiler: str, tmp_path: Path) -> None:
    plugin = compile_c(tmp_path / "libplugin.so", PLUGIN, "-shared", "-fPIC")
    program = compile_c(tmp_path / "errors", ERRORS, compiler=compiler)
    for options in ((), ("--stacks",)):
        same_recorded(tmp_path / "t.tape", program, plugin, options=options)


@pytest.mark.parametrize("path", ["./libplugin.so", "$ORIGIN/libplugin.so", "libplugin.so"])
def test_a_deeply_bound_library_is_found_as_the_loader_does_and_recorded_from_its_constructor_on(path, tmp_path):
    compile_c(tmp_path / "libplugin.so", PLUGIN, "-O1", "-shared", "-fPIC")
    program = compile_c(tmp_path / "opens", OPENS, "-O1", "-Wl,-rpath,$ORIGIN")
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        same_recorded(tmp_path / "t.tape", program, path)
    finally:
        os.chdir(here)
    proved(tmp_path / "t.tape", "unseen_frees", "overlapping_acquires", "dropped")
    trace = tmp_path / "t.tape"
    assert [count(trace, "malloc", size) for size in (777, 778, 5000)] == [1000, 1000, 1]
    assert count(trace, "realloc", 20000) == 1


def test_calls_of_an_object_in_another_name_space_are_said_to_be_missing(tmp_path: Path) -> None:
    plugin = compile_c(tmp_path / "libplugin.so", PLUGIN, "-O1", "-shared", "-fPIC")
    program = compile_c(tmp_path / "opens", OPENS, "-O1")
    done = same_recorded(tmp_path / "t.tape", program, plugin, "other")
    assert MISSING in done.stderr
    assert check(tmp_path / "t.tape")["dropped"] == 1


ALLOCATOR = """
static char room[1 << 26] __attribute__((aligned(16)));
static size_t used;
void *malloc(size_t n) { size_t *at = (size_t *)(room + used); used += (n + 31) & ~(size_t)15;
  at[0] = n; return at + 2; }
static int ours(char *p) { return p >= room && p < room + sizeof room; }
void free(void *p) { if (p && !ours(p)) __builtin_trap(); }
void *calloc(size_t n, size_t m) { return malloc(n * m); }
void *realloc(void *p, size_t n) { void *q = malloc(n); if (p && !ours(p)) __builtin_trap();
  if (p) memcpy(q, p, ((size_t *)p)[-2] < n ? ((size_t *)p)[-2] : n); return q; }
"""
OPENS_WITH_ALLOCATOR = OPENS.replace("release(argc > 2 ? acquire() : malloc(778));", "release(acquire());").replace(
    "free(acquire());", "free(malloc(778));"
)


def test_a_deeply_bound_library_keeps_another_malloc_than_the_programs(tmp_path: Path) -> None:
    """An allocator is preloaded, so the library's calls go to the C library, as without us; it ends where it is given
    an object of another.
    """
    allocator = compile_c(tmp_path / "liballocator.so", ALLOCATOR, "-O1", "-shared", "-fPIC")
    plugin = compile_c(tmp_path / "libplugin.so", PLUGIN, "-O1", "-shared", "-fPIC")
    program = compile_c(tmp_path / "opens", OPENS_WITH_ALLOCATOR, "-O1")
    done = same_recorded(tmp_path / "t.tape", program, plugin, options=("--preload", allocator))
    assert MISSING in done.stderr
    assert count(tmp_path / "t.tape", "malloc", 778) == 1000
    assert count(tmp_path / "t.tape", "malloc", 777) == 0


def test_a_program_with_a_sanitizer_runs_finds_its_error_and_is_recorded(tmp_path: Path) -> None:
    assert_sanitized_is_recorded(tmp_path, "cc")


def assert_sanitized_is_recorded(tmp_path: Path, compiler: str) -> None:
    for sanitizer in ("address", "thread"):
        flags = ("-g", "-pthread", f"-fsanitize={sanitizer}")
        program = compile_c(tmp_path / "sane", MANY_CALLS, *flags, compiler=compiler)
        trace = tmp_path / "t.tape"
        same_recorded(trace, program)
        assert check(trace)["ok"]
        assert count(trace, "malloc", 777) == 2000, (sanitizer, compiler)
        if sanitizer == "address":
            wrong = MANY_CALLS.replace('puts("done")', 'free(unused_object()), puts("done")').replace(
                "int main", "static void *unused_object(void) { return (char *)malloc(9) + 1; }\nint main"
            )
            done = same_recorded(trace, compile_c(tmp_path / "wrong", wrong, "-w", *flags, compiler=compiler))
            assert "attempting free on address which was not malloc" in done.stderr


GREEDY = MANY_CALLS.replace("work(NULL);", "memset(malloc(32 << 20), 1, 32 << 20);").replace(
    "#include <errno.h>", "#include <string.h>"
)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="the library to link is gcc's")
def test_a_sanitizer_linked_into_the_program_is_recorded_or_said_to_bypass_the_recorder(tmp_path: Path) -> None:
    """Then no memory is said to be retained, or to bypass malloc."""
    flags = ("-pthread", "-fsanitize=address", "-static-libasan")
    program = compile_c(tmp_path / "greedy", GREEDY, *flags, compiler="gcc")
    bare = run(program, env={"ASAN_OPTIONS": "detect_leaks=0"})
    done = run(RECORD, "-o", tmp_path / "t.tape", "--", program, env={"ASAN_OPTIONS": "detect_leaks=0"})
    assert (done.status, done.stdout) == (bare.status, bare.stdout)
    shown = succeed(CONVERT, "info", tmp_path / "t.tape").stdout.replace("\n", " ")
    if check(tmp_path / "t.tape")["lacks_calls"]:
        assert "its calls are not recorded" in done.stderr
        assert "no call was recorded: those of the program's allocator bypassed the recorder." in shown
    else:
        assert count(tmp_path / "t.tape", "malloc", 777) == 1000
    assert "peak memory: the rest" not in done.stderr + shown


CAPTURES = """
import os, signal, subprocess
os.kill(os.getppid(), signal.SIGKILL)
while os.getppid() == PARENT:
    pass
print(repr(subprocess.run(["/bin/ls", "/nowhere"], capture_output=True, text=True).stderr), flush=True)
"""


def test_no_line_of_ours_is_in_what_a_program_captures_after_the_recorder_was_killed(tmp_path: Path) -> None:
    program = CAPTURES.replace("import os", "import os; PARENT = os.getppid(); import os", 1)
    bare = run("/bin/ls", "/nowhere").stderr
    with (tmp_path / "out").open("w+") as out:
        recorder = subprocess.Popen(
            [RECORD, "--quiet", "-o", tmp_path / "t.tape", "--", "/usr/bin/python3", "-c", program],
            stdout=out,
            stderr=subprocess.DEVNULL,
        )
        assert recorder.wait(timeout=60) == -signal.SIGKILL
        for _ in range(600):
            if (tmp_path / "out").read_text():
                break
            time.sleep(0.1)
        assert (tmp_path / "out").read_text() == repr(bare) + "\n"
