# SPDX-License-Identifier: MIT
"""C++ operators are recorded as what the program calls, whoever provides them, and an operator's own calls are not.

Long: further allocators.
"""

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.support import (
    CONVERT,
    OUT,
    RECORD,
    REPLAY,
    assert_clean,
    check,
    compile_c,
    counted_calls,
    info,
    made_once,
    need,
    succeed,
)

SOURCES = Path(__file__).parent
COUNTER = OUT / "test-lib" / "libcount_calls.so"
LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
ALLOCATORS = [
    "libjemalloc.so.2",
    *(
        pytest.param(name, marks=pytest.mark.long)
        for name in ("libtcmalloc_minimal.so.4", "libtbbmalloc_proxy.so.2", "libmimalloc.so.2")
    ),
]
FORMS_OF_NEW = [f"operator new{array}" for array in ("", "[]")]
ROUNDS = 50
PLAIN = ("operator new", "operator new[]", "operator delete", "operator delete[]")
# One round of every_operator.cc.
EACH_ROUND = Counter(
    {
        "operator new": 2,
        "operator new[]": 2,
        "operator new(align)": 2,
        "operator new[](align)": 2,
        **{f"{new}({how})": 1 for new in FORMS_OF_NEW for how in ("nothrow", "align,nothrow")},
        **{
            f"operator delete{array}{how}": 1
            for array in ("", "[]")
            for how in ("", "(nothrow)", "(align)", "(align,nothrow)", "(size)", "(size,align)")
        },
    }
)


def build(*arguments: str | Path) -> None:
    succeed(need("g++"), "-O1", "-fno-builtin", *arguments)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cpp")


@pytest.fixture(scope="module")
def every_object(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The object file of every_operator.cc; compiled once for all tests."""
    return made_once(
        tmp_path_factory, "every_operator.o", lambda path: build("-c", SOURCES / "every_operator.cc", "-o", path)
    )


@pytest.fixture(scope="module")
def every_operator(every_object: Path, folder: Path) -> Path:
    build("-o", folder / "every_operator", every_object)
    return folder / "every_operator"


def allocator(name: str) -> Path:
    if not (LIBRARIES / name).exists():
        pytest.skip(f"no {name} here")
    return LIBRARIES / name


def operators_of(trace: Path) -> Counter[str]:
    return Counter({name: n for name, n in info(trace)["calls"].items() if name.startswith("operator")})


def counted(folder: Path) -> Counter[str]:
    """The operators that libcount_calls.so has counted."""
    calls = sum(counted_calls(folder).values(), Counter[str]())
    return Counter({name: n for name, n in calls.items() if name.startswith("operator")})


def of_rounds(tmp_path: Path, *command: str | Path, preload: Path | None = None) -> Counter[str]:
    """The operators of ROUNDS rounds, without those that the program or an allocator calls as it begins."""
    record(tmp_path / "t.tape", *command, str(ROUNDS + 1), preload=preload)
    record(tmp_path / "one.tape", *command, "1", preload=preload)
    return operators_of(tmp_path / "t.tape") - operators_of(tmp_path / "one.tape")


def times(counts: Counter[str], factor: int) -> Counter[str]:
    return Counter({name: n * factor for name, n in counts.items()})


def record(trace: Path, *command: str | Path, preload: Path | None = None) -> str:
    options = ("--preload", str(preload)) if preload else ()
    done = succeed(RECORD, "-o", trace, *options, "--", *command)
    assert_clean(trace)
    return done.stdout


def test_every_form_is_recorded_once_and_no_malloc_with_it(every_operator: Path, tmp_path: Path) -> None:
    assert of_rounds(tmp_path, every_operator) == times(EACH_ROUND, ROUNDS)
    plain = [info(tmp_path / name)["calls"].get("malloc") for name in ("one.tape", "t.tape")]
    assert plain[0] == plain[1]
    assert info(tmp_path / "t.tape")["footer"]["nested"] == 0


@pytest.mark.parametrize("name", ALLOCATORS)
def test_an_allocators_own_operators_are_recorded(name: str, every_operator: Path, tmp_path: Path) -> None:
    assert of_rounds(tmp_path, every_operator, preload=allocator(name)) == times(EACH_ROUND, ROUNDS)
    assert info(tmp_path / "t.tape")["info"]["allocator"].startswith(name.split(".so")[0])


@pytest.mark.parametrize("name", ALLOCATORS)
def test_operators_of_a_program_linked_with_its_allocator_are_recorded(name, every_object, tmp_path):
    program = tmp_path / "program"
    build("-o", program, every_object, "-Wl,--no-as-needed", allocator(name))
    assert of_rounds(tmp_path, program) == times(EACH_ROUND, ROUNDS)
    assert info(tmp_path / "t.tape")["info"]["allocator"].startswith(name.split(".so")[0])


@pytest.mark.parametrize("name", [None, *ALLOCATORS[:3]])
def test_operators_that_throw_are_recorded_as_failed(name: str | None, every_operator: Path, tmp_path: Path) -> None:
    """mimalloc's, which is written in C, ends the program instead."""
    said = record(tmp_path / "t.tape", every_operator, str(ROUNDS), "fail", preload=allocator(name) if name else None)
    assert said == f"{4 * ROUNDS + 1} caught, {4 * ROUNDS} refused\n"
    texts = succeed(CONVERT, "dump", tmp_path / "t.tape").stdout
    assert texts.count("= NULL") == 8 * ROUNDS + 1
    for form in ("", "_array"):
        for how in ("", "_nothrow", "_aligned", "_aligned_nothrow"):
            failed = re.findall(rf"^\d+ \d+ new{form}{how}\([^)]*\) = NULL$", texts, re.MULTILINE)
            assert len(failed) == ROUNDS + (form + how == "_array")
    assert texts.count("malloc(77)") == 3


def test_the_counting_library_sees_the_same_operators(every_operator: Path, tmp_path: Path) -> None:
    """It does not go through libheaptape.so, so it sees the standard library's operators as the program calls them."""
    (tmp_path / "counts").mkdir()
    environment = {"COUNT_CALLS_DIR": str(tmp_path / "counts"), "LD_PRELOAD": str(COUNTER)}
    succeed(every_operator, str(ROUNDS), env=environment)
    assert counted(tmp_path / "counts") == times(EACH_ROUND, ROUNDS)


def test_a_program_that_replaces_an_operator_is_recorded_by_what_that_calls(folder: Path, tmp_path: Path) -> None:
    """new[] is ours then, but the standard library's calls the program's new: it must not be recorded as well."""
    build("-o", folder / "own", SOURCES / "uses_new.cc", SOURCES / "own_operators.cc")
    record(tmp_path / "t.tape", folder / "own")
    assert operators_of(tmp_path / "t.tape") == Counter()
    assert info(tmp_path / "t.tape")["calls"]["malloc"] >= 200


def test_a_standard_library_in_the_executable_is_recorded_by_what_its_operators_call(tmp_path: Path) -> None:
    build("-static-libstdc++", "-static-libgcc", "-o", tmp_path / "own", SOURCES / "uses_new.cc")
    record(tmp_path / "t.tape", tmp_path / "own")
    assert operators_of(tmp_path / "t.tape") == Counter()
    assert info(tmp_path / "t.tape")["calls"]["malloc"] >= 200


# A library with operators of its own, whose new calls the new-handler.
GIVES_BACK = """
#include <cstdlib>
#include <new>
void *operator new(size_t bytes) {
  for (;;) {
    void *object = bytes > 1 << 30 ? nullptr : malloc(bytes);
    if (object) return object;
    std::new_handler handler = std::get_new_handler();
    if (!handler) throw std::bad_alloc();
    handler();
  }
}
static void *reserve;
static void give_back() { free(reserve); std::set_new_handler(nullptr); }
void fail() {
  reserve = malloc(777);
  std::set_new_handler(give_back);
  try { operator new((size_t)1 << 40); } catch (std::bad_alloc &) { free(malloc(778)); }
}
"""


def test_what_a_handler_in_a_library_with_operators_of_its_own_releases_is_not_recorded(tmp_path: Path) -> None:
    library = compile_c(tmp_path / "library.so", GIVES_BACK, "-O1", "-shared", "-fPIC", compiler="g++")
    fails = compile_c(tmp_path / "fails", "void fail(); int main() { fail(); }", library, compiler="g++")
    succeed(RECORD, "-o", tmp_path / "t.tape", "--", fails)
    dumped = succeed(CONVERT, "dump", tmp_path / "t.tape").stdout
    kept, known = (re.findall(rf" malloc\({size}\) = (\w+)", dumped)[0] for size in (777, 778))
    assert f"free({known})" in dumped
    assert kept == known or f"free({kept})" not in dumped


def test_operators_replaced_in_a_library_are_recorded(folder: Path, tmp_path: Path) -> None:
    library = folder / "libown.so"
    build("-shared", "-fPIC", "-o", library, SOURCES / "own_operators.cc")
    build("-o", folder / "uses_own", SOURCES / "uses_new.cc", library)
    record(tmp_path / "t.tape", folder / "uses_own")
    calls = info(tmp_path / "t.tape")["calls"]
    assert operators_of(tmp_path / "t.tape") == dict.fromkeys(PLAIN, 100)
    assert calls.get("malloc", 0) < 10


@pytest.mark.parametrize("own", [False, True])
def test_operators_that_come_with_dlopen_are_recorded(own: bool, folder: Path, tmp_path: Path) -> None:
    """Into the library's own scope, where our names are found first and the real operators only by its handle."""
    library = folder / f"libuses_new_{own}.so"
    sources = [SOURCES / "uses_new.cc"]
    if own:
        build("-shared", "-fPIC", "-o", folder / "libown.so", SOURCES / "own_operators.cc")
        sources.append(folder / "libown.so")
    build("-shared", "-fPIC", "-o", library, *sources)
    compile_c(folder / "loads", SOURCES / "loads_a_library.c")
    record(tmp_path / "t.tape", folder / "loads", library)
    assert operators_of(tmp_path / "t.tape") == dict.fromkeys(PLAIN, 100)


# A library whose operators have memory of their own and end the program for any other.
POOL = """
#include <cstdlib>
#include <new>
static char pool[1 << 20];
static size_t used;
void *operator new(size_t bytes) { return pool + (used += (bytes + 31) & ~(size_t)15) - ((bytes + 31) & ~(size_t)15); }
void operator delete(void *object) noexcept { if ((size_t)((char *)object - pool) >= sizeof pool) abort(); }
void operator delete(void *object, size_t) noexcept { operator delete(object); }
"""
KEEPS = """
#include <new>
static void *kept;
extern "C" void turn() { if (kept) operator delete(kept), kept = nullptr; else kept = operator new(777); }
"""
TURNS = """
int main(int argc, char **argv) {
  void (*turn[2])(void);
  for (int i = 0; i < 2; i++) {
    turn[i] = (void (*)(void))dlsym(dlopen(argv[1 + i], RTLD_NOW), "turn");
    turn[i]();
    dlclose(dlopen("libm.so.6", RTLD_NOW)), dlclose(dlopen(argv[3], RTLD_NOW));
  }
  for (int i = 0; i < 2; i++) turn[i]();
  return 0;
}
"""


def test_operators_stay_as_long_as_they_are_loaded(folder: Path, tmp_path: Path) -> None:
    libraries = []
    for name, source in (("pool", POOL + KEEPS), ("plain", KEEPS), ("closed", "")):
        libraries.append(compile_c(folder / f"lib{name}.so", source, "-O1", "-shared", "-fPIC", compiler="g++"))
    program = compile_c(folder / "turns", TURNS)
    record(tmp_path / "t.tape", program, *libraries)
    assert operators_of(tmp_path / "t.tape") == {"operator new": 2, "operator delete": 2}


def test_what_the_dynamic_linker_frees_for_us_is_recorded(folder: Path, tmp_path: Path) -> None:
    """At the first operator new of a C program we search the library that has it, which is being loaded: then the
    dynamic linker makes its lists of libraries again, and the program may get their old place.
    """
    inner, outer = folder / "libnews.so", folder / "libneeds_news.so"
    build("-shared", "-fPIC", "-o", inner, SOURCES / "news_when_it_is_loaded.cc")
    succeed("gcc", "-shared", "-o", outer, "-Wl,--no-as-needed", inner)
    compile_c(folder / "loads", SOURCES / "loads_a_library.c")
    for library in (inner, outer):
        record(tmp_path / "t.tape", folder / "loads", library)
        assert check(tmp_path / "t.tape")["ok"]


def test_a_c_program_gets_no_cpp_library(tmp_path: Path) -> None:
    said = record(tmp_path / "t.tape", "cat", "/proc/self/maps")
    assert "libheaptape.so" in said
    assert not any(name in said for name in ("libstdc++", "libc++", "libgcc"))


def test_a_program_with_a_malloc_of_its_own_is_left_alone(folder: Path, tmp_path: Path) -> None:
    """Its operators take memory from a malloc that is not recorded; alone they would be half of the history."""
    compile_c(folder / "bump.o", SOURCES.parent / "bump.c", "-fPIC", "-c")
    build("-o", folder / "own_malloc", SOURCES / "uses_new.cc", folder / "bump.o")
    record(tmp_path / "t.tape", folder / "own_malloc")
    assert operators_of(tmp_path / "t.tape") == Counter()


@pytest.mark.parametrize("name", ALLOCATORS[:3])
def test_a_replay_calls_the_allocators_own_operators(name: str, every_operator: Path, tmp_path: Path) -> None:
    """mimalloc has 16 of the 20; the engine folds the others."""
    library = allocator(name)
    record(tmp_path / "t.tape", every_operator, str(ROUNDS))
    succeed(CONVERT, "compile", tmp_path / "t.tape", "-o", tmp_path / "t.work")
    (tmp_path / "counts").mkdir()
    preloads = ("--preload", COUNTER, "--preload", library, "--env", f"COUNT_CALLS_DIR={tmp_path / 'counts'}")
    succeed(REPLAY, "--pass", "bare", *preloads, "-o", tmp_path / "r.json", tmp_path / "t.work")
    replayed = counted(tmp_path / "counts")
    by_its_start = Counter({"operator new": 2} if "tcmalloc" in name else {})
    assert replayed == times(EACH_ROUND, ROUNDS) + by_its_start
