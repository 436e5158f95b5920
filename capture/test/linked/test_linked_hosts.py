# SPDX-License-Identifier: MIT
"""Programs that are linked against us: their own malloc, RTLD_DEEPBIND, the libraries that the recorder uses."""

import struct
from pathlib import Path

import pytest

from tests.support import CONVERT, RECORD, check, compile_c, info, proved, record, run

OWN_MALLOC = """
static char arena[1 << 20];
static size_t used;
void *malloc(size_t bytes) {
  bytes = (bytes + 31) & ~(size_t)15;
  if (used + bytes > sizeof arena)
    return NULL;
  size_t *block = (size_t *)(arena + used);
  used += bytes + 16;
  block[0] = bytes;
  return block + 2;
}
void free(void *block) { (void)block; }
void *calloc(size_t count, size_t bytes) {
  void *block = malloc(count * bytes);
  return block ? memset(block, 0, count * bytes) : NULL;
}
void *realloc(void *old, size_t bytes) {
  void *block = malloc(bytes);
  size_t old_bytes = old ? ((size_t *)old)[-2] : 0;
  return old && block ? memcpy(block, old, old_bytes < bytes ? old_bytes : bytes) : block;
}
int main(void) {
  for (int i = 0; i < 100; i++)
    free(malloc(10));
  puts("own");
  return 5;
}
"""

DEEP_LIBRARY = """
char *make(int bytes) { return memset(malloc(bytes), 1, bytes); }
void drop(char *block) { free(block); }
"""

DEEP_PROGRAM = """
int main(int argc, char **argv) {
  void *library = dlopen(argv[argc - 1], RTLD_NOW | RTLD_DEEPBIND);
  char *(*make)(int) = dlsym(library, "make");
  void (*drop)(char *) = dlsym(library, "drop");
  for (int i = 0; i < 1000; i++) {
    free(make(777));
    drop(malloc(777));
    drop(realloc(make(10), 777));
  }
  puts(dlopen("libm.so.6", RTLD_LAZY) && !dlopen("./no-such.so", RTLD_NOW | RTLD_DEEPBIND) ? "deep" : dlerror());
  return 0;
}
"""

BY_ADDRESS = """
int main(int argc, char **argv) {
  void *(*take)(size_t) = argc > 1 ? dlsym(dlopen("libc.so.6", RTLD_LAZY), "malloc") : malloc;
  for (int i = 0; i < 20; i++)
    free(take(777));
  return 0;
}
"""

OUR_LIBRARIES = """
#include "core/test/usual.h"
#include <execinfo.h>
#include <zstd.h>
int main(void) {
  static char text[100000], packed[110000], again[100000];
  void *frames[20];
  for (size_t i = 0; i < sizeof text; i++)
    text[i] = (char)(i * i >> 7);
  for (int i = 0; i < 20; i++) {
    size_t bytes = ZSTD_compress(packed, sizeof packed, text, sizeof text, 5);
    if (ZSTD_decompress(again, sizeof again, packed, bytes) != sizeof text)
      return 1;
    free(malloc(100));
  }
  printf("%d frames\\n", backtrace(frames, 20) > 0);
  return 0;
}
"""


def test_a_program_whose_own_malloc_cannot_be_redirected_is_reported(tmp_path: Path) -> None:
    program = compile_c(tmp_path / "own", OWN_MALLOC, "-O1")
    trace = tmp_path / "t.tape"
    done = run(RECORD, "-o", trace, "--", program)
    assert done.status == 5
    assert done.stdout == "own\n"
    assert "free is too short; so no function of that allocator is recorded" in done.stderr
    assert "defines malloc itself" in done.stderr
    assert "calls" in info(trace)["info"]["lacks"]
    assert check(trace)["ok"]


def test_calls_that_others_show_to_be_missing_are_told_at_the_end(tmp_path: Path) -> None:
    """The C library's malloc by its address. Nothing known is the reason, so the history stays illegal."""
    program = compile_c(tmp_path / "p", BY_ADDRESS)
    assert "missing" not in record(tmp_path / "all.tape", program).stderr
    told = " ".join(record(tmp_path / "t.tape", program, "by address").stderr.split())
    assert "t.tape: at least 20 calls missing: objects were released that were not handed out" in told
    assert not check(tmp_path / "t.tape")["ok"]


def test_calls_that_an_allocators_library_makes_of_its_own_functions_are_not_recorded(tmp_path: Path) -> None:
    """Nor are those of what else is in that library."""
    library = """
    void *__libc_malloc(size_t);
    void __libc_free(void *);
    void *malloc(size_t bytes) { return __libc_malloc(bytes); }
    void free(void *object) { __libc_free(object); }
    void work(void) { for (int i = 0; i < 20; i++) free(malloc(555)); }
    """
    uses = "#include <stdlib.h>\nvoid work(void); int main(void) { work(); free(malloc(777)); }"
    built = compile_c(tmp_path / "libmore.so", library, "-w", "-O1", "-shared", "-fPIC")
    program = compile_c(tmp_path / "uses", uses, "-O1", str(built))
    record(tmp_path / "t.tape", program)
    dumped = run(CONVERT, "dump", tmp_path / "t.tape").stdout
    assert (dumped.count(" malloc(555)"), dumped.count(" malloc(777)")) == (0, 1)


@pytest.mark.parametrize("linking", ["-Wl,-z,lazy", "-Wl,-z,relro,-z,now"])
def test_a_deeply_bound_library_is_recorded_too(tmp_path: Path, linking: str) -> None:
    library = compile_c(tmp_path / "libdeep.so", DEEP_LIBRARY, "-O1", "-shared", "-fPIC", linking)
    program = compile_c(tmp_path / "deep", DEEP_PROGRAM, "-O1")
    trace = tmp_path / "t.tape"
    assert record(trace, program, library).stdout == "deep\n"
    proved(trace, "unseen_frees")
    dump = run(CONVERT, "dump", trace).stdout
    assert dump.count("(777)") == 2000
    assert dump.count(", 777)") == 1000


def test_a_program_that_compresses_with_zstd_and_unwinds_by_itself_is_recorded(tmp_path: Path) -> None:
    program = compile_c(tmp_path / "ours", OUR_LIBRARIES, "-O1", "-lzstd")
    trace = tmp_path / "t.tape"
    for options in ((), ("--stacks",)):
        assert record(trace, program, options=options).stdout == "1 frames\n"
        proved(trace, "dropped")


def name_code(program: Path, file_bytes: int) -> None:
    """Makes the program's file that large, sparsely, and all that is beyond its end before into code."""
    with program.open("r+b") as file:
        content = file.read()
        begin, size, count = struct.unpack_from("<Q14xHH", content, 32)
        at = next(
            begin + size * i
            for i in range(count)
            if struct.unpack_from("<I", content, begin + size * i)[0] == 0x6474E551
        )
        page = (len(content) + 4095) // 4096 * 4096
        bytes_ = file_bytes - page
        file.seek(at)  # that of the stack's rights, which follows those of what is loaded
        file.write(struct.pack("<IIQQQQQQ", 1, 5, page, 1 << 32, 1 << 32, bytes_, bytes_, 4096))
        file.truncate(file_bytes)


@pytest.mark.parametrize("mib", [1, 600])
def test_more_code_than_any_program_has_is_not_searched(tmp_path: Path, mib: int) -> None:
    program = compile_c(tmp_path / "own", OWN_MALLOC)
    name_code(program, mib << 20)
    done = record(tmp_path / "t.tape", program, status=5)
    assert done.stdout == "own\n"
    assert ("malloc is among more than 512 MiB of code" in done.stderr) == (mib == 600), done.stderr
    assert (info(tmp_path / "t.tape")["events"] >= 200) == (mib == 1)
