# SPDX-License-Identifier: MIT
"""A recording within a budget: each call is recorded or counted as missing, and the trace has the share of the time
that was recorded. When bursts occur is tested by budget_is_kept_under_any_load.c, with the test's own clock; here they
occur at any time.

Long: further programs; several seconds of CPU time, in which bursts have occurred on every machine so far.
"""

from collections import Counter
from pathlib import Path

import pytest

from capture.test.driven import Driven, calling
from tests.support import (
    CONVERT,
    HEAPTAPE_HERE,
    OUT,
    check,
    compile_c,
    counted_calls,
    info,
    published,
    record,
    succeed,
    system_library,
    workload,
)

COUNTER = OUT / "test-lib" / "libcount_calls.so"
NEVER = ("--budget", "0.0000001%")  # no burst is ever earned
AT_ONCE = ("--budget", "100%")  # a burst is earned after at most a second of CPU time


def recorded_or_missing(traces: list[Path]) -> dict[int, int]:
    """Events and missing calls, by process."""
    calls: Counter[int] = Counter()
    for trace in traces:
        about = info(trace)
        assert about["footer"]["in_flight"] == 0, trace
        calls[about["info"]["pid"]] += about["events"] + about["dropped"]
    return dict(calls)


def record_counted(folder: Path, *command: str | Path, options: tuple[str, ...]) -> list[Path]:
    """Records the command, and compares the traces with the count."""
    counts = folder / "counts"
    counts.mkdir()
    record(
        folder / "t.tape",
        *command,
        options=("--preload", COUNTER, *options),
        env={"COUNT_CALLS_DIR": str(counts), "PYTHONMALLOC": "malloc"},
    )
    traces = sorted(folder.glob("*.tape"))
    assert recorded_or_missing(traces) == {pid: calls.total() for pid, calls in counted_calls(counts).items()}
    for trace in traces:
        assert check(trace)["ok"], trace
    return traces


PROGRAMS: dict[str, list[str | Path]] = {
    "threads that free each other's objects": [workload("larson"), "--rounds=60000", "--quiet=1"],
    "resizes": [workload("growing_reallocs")],
    "aligned calls": [workload("alignment_storm")],
    "large objects": [workload("huge_objects")],
    "a short thread for each request": [workload("thread_per_request")],
    "forks": ["bash", "-c", "for i in 1 2 3 4 5; do (x=$(printf %s $i$i); unset script; echo $x); done"],
}


@pytest.mark.parametrize(
    "program", [*[*PROGRAMS][:2], *(pytest.param(name, marks=pytest.mark.long) for name in [*PROGRAMS][2:])]
)
def test_without_a_burst_each_call_is_counted_as_missing(tmp_path: Path, program: str) -> None:
    traces = record_counted(tmp_path, *PROGRAMS[program], options=NEVER)
    assert sum(info(trace)["events"] for trace in traces) == 0
    assert info(tmp_path / "t.tape")["footer"]["budget"]["bursts"] == 0


CPP = """
#include <memory>
#include <new>
#include <string>
#include <vector>
struct alignas(128) wide { char bytes[300]; };
int main() {
  for (int i = 0; i < 2000; i++) {
    std::vector<std::string> texts(5, std::string(40, 'x'));
    auto *aligned = new wide;
    delete aligned;
    delete[] new (std::nothrow) char[100 + i % 7];
    auto shared = std::make_shared<int>(i);
  }
}
"""


@pytest.fixture(scope="module")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(tmp_path_factory.mktemp("operators") / "program", CPP, compiler="c++")


@pytest.mark.parametrize("allocator", [None, "libjemalloc.so.2"])
def test_without_a_burst_an_operator_counts_once(tmp_path: Path, operators: Path, allocator: str | None) -> None:
    """As many calls as are recorded without a budget; calls made by an operator are not counted."""
    preload = ("--preload", str(system_library(allocator))) if allocator else ()
    record(tmp_path / "all.tape", operators, options=preload)
    record(tmp_path / "none.tape", operators, options=(*preload, *NEVER))
    assert info(tmp_path / "all.tape")["events"] > 5 * 2_000
    assert info(tmp_path / "none.tape")["dropped"] == info(tmp_path / "all.tape")["events"]


@pytest.mark.parametrize(("percent", "rounds"), [(5, 300_000), pytest.param(50, 3_000_000, marks=pytest.mark.long)])
def test_bursts_and_what_is_between_them_make_up_all_calls(tmp_path: Path, percent: int, rounds: int) -> None:
    program: list[str | Path] = [workload("larson"), f"--rounds={rounds}", "--quiet=1"]
    (trace,) = record_counted(tmp_path, *program, options=("--budget", f"{percent}%"))
    about = info(trace)
    assert about["dropped"] > 0
    budget = about["footer"]["budget"]
    assert budget["percent"] == pytest.approx(percent)
    assert 0 <= budget["recorded_ns"] <= budget["ns"]
    assert (budget["bursts"] > 0) == (about["events"] > 0)
    said = " ".join(succeed(CONVERT, "info", trace).stdout.split())
    assert f"{percent} % of the program's CPU time" in said
    assert "burst" in said


def test_the_start_is_whole_where_that_is_asked_for(tmp_path: Path) -> None:
    record(tmp_path / "t.tape", workload("larson"), "--rounds=20000", options=(*NEVER, "--budget-after", "1000"))
    about = info(tmp_path / "t.tape")
    assert about["dropped"] == 0
    assert about["footer"]["budget"]["bursts"] == 1
    assert about["footer"]["budget"]["recorded_ns"] == about["footer"]["budget"]["ns"] > 0
    assert check(tmp_path / "t.tape")["unseen_frees"] == 0


def test_status_shows_that_a_process_is_between_bursts_and_stop_takes_precedence(tmp_path: Path) -> None:
    driven = Driven(tmp_path / "t.tape", *NEVER, program=calling(10_000, 100))
    driven.work()
    pid = driven.program_pid()

    def state(verb: str) -> str:
        reply = published("ctl", succeed(HEAPTAPE_HERE, "ctl", str(pid), verb, "--json").stdout)
        return str(reply["processes"][0]["state"])

    assert [state(verb) for verb in ("status", "stop", "start")] == ["between bursts", "stopped", "between bursts"]
    driven.work()
    driven.end()
    assert info(tmp_path / "t.tape")["dropped"] >= 2 * 20_000


def test_files_rotate_within_a_budget_and_no_call_is_lost(tmp_path: Path) -> None:
    program: list[str | Path] = [workload("larson"), "--rounds=100000", "--quiet=1"]
    traces = record_counted(tmp_path, *program, options=(*AT_ONCE, "--budget-after", "0.2", "--rotate", "64K"))
    assert len(traces) > 1
    assert all("budget" in info(trace)["footer"] for trace in traces)


def test_a_signal_handler_that_allocates_between_bursts_is_counted(tmp_path: Path) -> None:
    """By a timer, so that it also interrupts calls; the program knows how many calls it has made."""
    source = """
static volatile long calls;
static void *volatile held;
static void count(int signal) { (void)signal; free(NULL); calls++; }
int main(void) {
  struct itimerval timer = {{0, 50}, {0, 50}};
  signal(SIGALRM, count); setitimer(ITIMER_REAL, &timer, NULL);
  long own = 0;
  for (int i = 0; i < 3000000; i++) { free(held = malloc(40)); own += 2; }
  timer.it_value.tv_usec = timer.it_interval.tv_usec = 0; setitimer(ITIMER_REAL, &timer, NULL);
  char text[40]; FILE *out = fopen("/dev/stdout", "w"); setvbuf(out, text, _IOFBF, sizeof text);
  fprintf(out, "%ld %ld\\n", own, calls); fflush(out); _Exit(0);
}"""
    program = compile_c(tmp_path / "program", source)
    done = record(tmp_path / "t.tape", program, options=NEVER)
    own, by_handler = map(int, done.stdout.split())
    assert by_handler > 0
    about = info(tmp_path / "t.tape")
    all_calls = about["dropped"] + about["events"]
    assert about["events"] <= 8, "of a handler that came while the thread found out that there is a pause"
    assert own + by_handler <= all_calls <= own + by_handler + 20, "what the C library takes at the start and end"
