# SPDX-License-Identifier: MIT
"""The optional columns are correct: how long a call took, how much of an object can be used."""

from pathlib import Path

import pandas as pd
import pytest
from heaptape.tape.trace import open_trace

from tests.support import CONVERT, OUT, compile_c, info, record, succeed

SOURCES = Path(__file__).parents[1] / "stacks"
JEMALLOC = Path("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("columns")
    flags = ["-O2", "-g"]
    compile_c(path / "columns", SOURCES / "columns.c", *flags, "-rdynamic")
    compile_c(path / "libslow.so", SOURCES / "slow.c", *flags, "-fPIC", "-shared", "-ldl")
    return path


def events(path: Path) -> pd.DataFrame:
    with open_trace(path) as trace:
        return pd.concat(trace.frames(), ignore_index=True)


def test_the_latency_of_a_call_is_between_what_is_seen_inside_and_outside_of_it(folder, tmp_path):
    """The program reads the counter around each call, the allocator around its work within malloc: one malloc
    sleeps there for 30 ms. All three count the same cycles, so each span is within the next on a busy machine, too."""
    options = ["--latency", "--preload", folder / "libslow.so"]
    said = record(tmp_path / "a.tape", folder / "columns", "slow", options=options).stdout
    frame = events(tmp_path / "a.tape")
    pairs = [tuple(map(int, line.split())) for line in said.splitlines()]
    assert [request for request, *_ in pairs] == [100] * 100 + [4242] + [100] * 99
    mallocs = frame.index[(frame["call"] == "malloc") & frame["request_bytes"].isin((100, 4242))][-len(pairs) :]
    for index, (request, malloc_cycles, inner_cycles, free_cycles) in zip(mallocs, pairs, strict=True):
        malloc, free = frame.loc[index], frame.loc[index + 1]
        assert malloc["request_bytes"] == request
        assert inner_cycles <= malloc["latency"] <= malloc_cycles
        assert free["call"] == "free"
        assert free["released_address"] == malloc["acquired_address"]
        assert 0 <= free["latency"] <= free_cycles
    slowest = frame.loc[mallocs, "latency"].astype("int64").idxmax()
    assert frame.loc[slowest, "request_bytes"] == 4242


INTERRUPTED = """
#if defined(LIBRARY)
void *malloc(size_t bytes) {
  void *(*real)(size_t) = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc"), *object = real(bytes);
  if (bytes == 4242) raise(SIGUSR1);
  return object;
}
#else
static void handler(int signal) { free(malloc(777)); }
int main(void) {
  signal(SIGUSR1, handler);
  for (int i = 0; i < 10; i++) free(malloc(4242));
  return 0;
}
#endif
"""


def test_calls_of_a_handler_that_interrupts_another_call_have_no_latency(tmp_path):
    library = compile_c(tmp_path / "libraises.so", INTERRUPTED, "-DLIBRARY", "-w", "-shared", "-fPIC")
    program = compile_c(tmp_path / "interrupted", INTERRUPTED, "-w")
    record(tmp_path / "a.tape", program, options=["--latency", "--preload", library])
    frame = events(tmp_path / "a.tape")
    known = {size: set(frame[frame["request_bytes"] == size]["latency"].notna()) for size in (777, 4242)}
    assert known == {777: {False}, 4242: {True}}


@pytest.mark.parametrize("allocator", [None, JEMALLOC], ids=["glibc", "jemalloc"])
def test_usable_sizes_are_those_of_malloc_usable_size(allocator, folder, tmp_path):
    if allocator and not allocator.exists():
        pytest.skip(f"no {allocator.name} here")
    options = ["--usable", *(["--preload", allocator] if allocator else [])]
    done = record(tmp_path / "a.tape", folder / "columns", options=options)
    expected = dict(tuple(map(int, line.split())) for line in done.stdout.splitlines())
    frame = events(tmp_path / "a.tape")
    known = frame[frame["acquired_address"].notna()]
    assert known["usable_bytes"].notna().all()
    assert (known["usable_bytes"] >= known["request_bytes"]).all()
    found = dict(zip(known["request_bytes"], known["usable_bytes"], strict=True))
    assert len(expected) == 1500
    assert {size: found[size] for size in expected} == expected
    failed = frame[frame["failed"]]
    assert len(failed) == 1
    assert failed["usable_bytes"].isna().all()
    assert not frame["latency"].notna().any()
    # A query of ours is not an event of the program.
    assert (frame["call"] == "malloc_usable_size").sum() == 1500


def test_what_was_not_asked_for_is_not_there(folder, tmp_path):
    record(tmp_path / "a.tape", folder / "columns")
    frame = events(tmp_path / "a.tape")
    assert not frame[["latency", "usable_bytes", "stack"]].notna().any().any()
    assert "usable_size" in info(tmp_path / "a.tape")["info"]["lacks"]
    record(tmp_path / "b.tape", folder / "columns", options=["--usable", "--stacks", "--latency"])
    summary = info(tmp_path / "b.tape")
    assert "usable_size" not in summary["info"]["lacks"]
    assert summary["columns"] == ["latency", "usable", "stacks"]
    assert summary["stack_nodes"] > 5


def test_latency_needs_a_clock_with_a_rate(folder, tmp_path):
    done = record(tmp_path / "a.tape", folder / "columns", options=["--latency", "--clock", "counter"], status=1)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "clock" in done.stderr


def test_an_allocator_that_looks_at_its_own_stack_is_recorded_with_stacks(folder, tmp_path):
    options = ["--stacks", "--latency", "--usable", "--preload", folder / "libslow.so"]
    record(tmp_path / "a.tape", folder / "columns", options=options)
    frame = events(tmp_path / "a.tape")
    assert frame["stack"].notna().sum() >= 1500


def test_what_dump_prints_reads_back(folder, tmp_path):
    record(tmp_path / "a.tape", folder / "columns", options=["--stacks", "--latency", "--usable"])
    text = succeed(CONVERT, "dump", "--stacks", tmp_path / "a.tape").stdout
    assert "# stack " in text
    assert "#   main at " in text
    (tmp_path / "a.txt").write_text(text)
    succeed(CONVERT, "convert", tmp_path / "a.txt", tmp_path / "b.tape")
    before, after = events(tmp_path / "a.tape"), events(tmp_path / "b.tape")
    assert before["usable_bytes"].equals(after["usable_bytes"])
    assert before["latency"].notna().equals(after["latency"].notna())


def test_the_library_needs_no_unwinder():
    done = succeed("ldd", OUT / "lib" / "libheaptape.so")
    assert "unwind" not in done.stdout
    assert "libgcc" not in done.stdout


THREADS = """
static void *work(void *name) {
  pthread_setname_np(pthread_self(), name);
  for (int i = 0; i < 100000; i++) /* far more than a ring holds: the recorder has met the thread before it ends */
    free(malloc(100));
  return NULL;
}
int main(void) {
  pthread_t threads[2];
  char *names[] = {"reader", "writer \\xff"};
  for (int i = 0; i < 2; i++)
    pthread_create(&threads[i], NULL, work, names[i]);
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  return 0;
}
"""


def test_names_of_threads_are_recorded_where_asked_for(tmp_path):
    program = compile_c(tmp_path / "namer", THREADS, "-pthread")
    record(tmp_path / "a.tape", program, options=["--describe"])
    names = info(tmp_path / "a.tape")["thread_names"]
    assert names.pop("0", "namer") == "namer"
    assert sorted(names.values()) == ["reader", "writer ?"]
    record(tmp_path / "b.tape", program)
    assert "thread_names" not in info(tmp_path / "b.tape")
