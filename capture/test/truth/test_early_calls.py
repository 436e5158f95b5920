# SPDX-License-Identifier: MIT
"""Calls of the malloc API by resolvers of IFUNCs: the dynamic linker runs them while it relocates objects,
some before the library is relocated, others before the first thread's TLS has its values.
"""

from pathlib import Path

import pytest

from tests.support import RECORD, check, compile_c, info, run

ACQUIRES = """
static void *kept[64];
static int count;
void *operator_new(size_t) __asm__("_Znwm");
void operator_delete(void *) __asm__("_ZdlPv");
void acquire(void) {
  for (int i = 0; i < 10; i++) {
    char *zeros = calloc(3, 50);
    void *aligned = NULL;
    kept[count] = realloc(malloc(100 + i), 500);
    if (!kept[count] || !zeros || zeros[149] || posix_memalign(&aligned, 64, 100) || (size_t)aligned % 64) abort();
    memset(kept[count], 7, 500);
    free(zeros);
    free(aligned);
    free(NULL);
#ifdef CPP
    operator_delete(operator_new(30));
#endif
    count++;
  }
}
int release(void) {
  int released = 0;
  for (; count > 0; released++) {
    char *grown = realloc(kept[--count], 5000);
    if (!grown || grown[499] != 7 || malloc_usable_size(grown) < 5000) abort();
    free(grown);
  }
  return released;
}
"""
RESOLVES = """
void acquire(void);
static int one(void) { return 1; }
static void *resolve(void) { acquire(); return one; }
static int chosen(void) __attribute__((ifunc("resolve")));
static int (*volatile table[])(void) = {chosen};
int in_library(void) { return table[0](); }
"""
USES = """
int in_library(void), release(void);
void acquire(void);
static int two(void) { return 2; }
static void *resolve(void) { acquire(); return two; }
#ifdef IN_PROGRAM
static int in_program(void) __attribute__((ifunc("resolve")));
#else
#define in_program() two()
#endif
int main(void) {
  int sum = in_program() + in_library(), released = release();
  for (int i = 0; i < 1000; i++) free(malloc(777));
  printf("%d %d\\n", sum, released);
  return 3;
}
"""


def build(folder: Path, binding: str, *defines: str, cpp: bool = False, acquires: str = ACQUIRES) -> Path:
    flags = ("-w", "-O1", "-fno-plt", "-L", folder, f"-Wl,-z,{binding},-rpath,{folder}")
    library = ("-shared", "-fPIC")
    standard = ("-DCPP", "-Wl,--no-as-needed", "-l:libstdc++.so.6") if cpp else ()
    compile_c(folder / "libacquires.so", acquires, *library, *flags, *standard)
    compile_c(folder / "libresolves.so", RESOLVES, *library, *flags, "-lacquires")
    return compile_c(folder / "uses", USES, *flags, *defines, "-lresolves", "-lacquires", *standard)


@pytest.mark.parametrize("binding", ["now", "lazy"])
@pytest.mark.parametrize("where", ["library", "program"])
@pytest.mark.parametrize("cpp", [False, True])
def test_calls_before_the_librarys_relocation_are_served_and_counted(tmp_path, binding, where, cpp):
    program = build(tmp_path, binding, *(["-DIN_PROGRAM"] if where == "program" else []), cpp=cpp)
    objects = 20 if where == "program" else 10
    missing = 10 * (10 if cpp else 8)  # and their later end
    if where == "program":
        missing += 10 * (9 if cpp else 7)
    for options in ((), ("--stacks", "--usable")):
        bare = run(program)
        assert (bare.status, bare.stdout) == (3, f"3 {objects}\n")
        done = run(RECORD, "--quiet", *options, "-o", tmp_path / "t.tape", "--", program)
        assert (done.status, done.stdout) == (bare.status, bare.stdout), done.stderr
        assert check(tmp_path / "t.tape")["ok"]
        assert info(tmp_path / "t.tape")["dropped"] == missing
        assert info(tmp_path / "t.tape")["calls"]["malloc"] >= 1000


def test_calls_before_the_librarys_relocation_share_64_kib(tmp_path: Path) -> None:
    takes = """
    int taken;
    void acquire(void) { while (taken < 100 && malloc(1000)) taken++; }
    int release(void) { return taken; }
    """
    program = build(tmp_path, "now", acquires=takes)
    assert run(program).stdout == "3 100\n"
    done = run(RECORD, "--quiet", "-o", tmp_path / "t.tape", "--", program)
    assert (done.status, done.stdout) == (3, "3 63\n"), "of 1 KiB each with their heads"
    assert info(tmp_path / "t.tape")["dropped"] > 0
