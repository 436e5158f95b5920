# SPDX-License-Identifier: MIT
"""A program that overwrites a counter that it shares with the recorder costs that count, not the trace."""

from pathlib import Path

import pytest

from capture.test.programs.test_processes import BUSY
from tests.oracle.blocks import GAP
from tests.oracle.reader import open_trace
from tests.support import RECORD, check, compile_c, info, run

# Stores argv[2] into the counter argv[1] of each of its rings, or, for 4, of its process; skips ten calls before, which
# the recorder has read by then, and two after.
SCRIBBLE = """
#include "capture/wire/heaptape.h"
#include "capture/wire/ring.h"
#include "core/test/usual.h"
static void skip(int calls) {
  heaptape_pause();
  for (int i = 0; i < calls; i++) { void *volatile p = malloc(60); free(p); }
  heaptape_resume();
  for (int i = 0; i < 100; i++) { void *volatile p = malloc(77); free(p); }
}
int main(int argc, char **argv) {
  char line[4096];
  unsigned long at = 0;
  skip(5);
  FILE *file = fopen("/proc/self/maps", "r");
  while (!at && fgets(line, sizeof line, file))
    if (strstr(line, "/memfd:heaptape (")) at = strtoul(line, NULL, 16);
  fclose(file);
  struct bank *bank = (struct bank *)at;
  uint64_t value = strtoull(argv[2], NULL, 0);
  for (uint32_t i = 0; i < bank->used; i++) {
    struct ring *ring = &bank->rings[i];
    char *memory = (char *)bank + bank_header_bytes(BANK_RINGS_FIRST) + (uint64_t)i * RING_BYTES;
    while (((volatile uint64_t *)(memory + ring->tail))[1] || ring->stopped != ring->tail + 1) usleep(1000);
    if (atoi(argv[1]) == 4) {
      atomic_store(&bank->children, (uint32_t)value);
      break;
    }
    _Atomic uint64_t *counters[] = {&ring->dropped, &ring->skipped, &ring->nested, &bank->orphan};
    atomic_store(counters[atoi(argv[1])], value);
  }
  skip(1);
  return 0;
}
"""


@pytest.fixture(scope="module")
def scribble(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("scribble") / "scribble"
    return compile_c(program, SCRIBBLE, "-std=gnu11")


@pytest.mark.parametrize("value", [2**63 - 1, 2**63, 2**64 - 999, 2**60])
@pytest.mark.parametrize("counter", range(4))
def test_an_overwritten_counter_leaves_the_trace_readable(tmp_path, scribble, counter, value):
    trace = tmp_path / "t.tape"
    done = run(RECORD, "-o", trace, "--", scribble, str(counter), str(value))
    assert done.status == 0
    assert "has overwritten its rings" in done.stderr
    assert check(trace)["ok"]
    assert info(trace)["dropped"] <= 12
    assert info(trace)["calls"]["malloc"] >= 200
    if counter != 2:  # no call is missing
        with open_trace(trace) as opened:
            gaps = [opened.json_object(block) for block in opened.blocks if block.type == GAP]
        assert {"dropped": 0, "why": "the program has overwritten a count of missing calls"} in gaps


def test_children_that_no_process_can_have_are_not_counted(tmp_path: Path, scribble: Path) -> None:
    done = run(RECORD, "-o", tmp_path / "t.tape", "--", scribble, "4", str(2**32 - 1))
    assert done.status == 0
    assert "not recorded: scribble (4096 processes)" in done.stderr
    assert "more programs" not in done.stderr  # of which it is not known
    assert info(tmp_path / "t.tape")["dropped"] == 12


def test_a_counter_that_decreased_is_reported(tmp_path: Path, scribble: Path) -> None:
    trace = tmp_path / "t.tape"
    done = run(RECORD, "-o", trace, "--", scribble, "1", "0")
    assert "has overwritten its rings" in done.stderr
    assert check(trace)["ok"]
    assert info(trace)["dropped"] == 10


def test_a_small_recording_that_an_error_has_made_incomplete_is_not_deleted(tmp_path: Path, scribble: Path) -> None:
    done = run(RECORD, "-o", tmp_path / "t.tape", "--", "sh", "-c", f"{scribble} 0 {2**60}; {BUSY}")
    programs = {info(tape)["info"]["program"] for tape in tmp_path.glob("*.tape")}
    assert "has overwritten its rings" in done.stderr
    assert {"scribble"} < programs
    assert "sh" not in programs
