# SPDX-License-Identifier: MIT
"""The program's CPU time is that of the recording, less what recording its calls and its large objects cost."""

from pathlib import Path

import pytest
from heaptape.tape.trace import open_trace, recorded_cpu_ns, without_recording
from hypothesis import given
from hypothesis import strategies as st

from tests.support import compile_c, record

NS = st.integers(1, 10**15)
CALLS = 300_000


@given(NS, NS)
def test_what_recording_cost_is_taken_off_and_never_more_than_half(cpu_ns: int, cost_ns: int) -> None:
    left = without_recording(cpu_ns, cost_ns)
    assert left == (cpu_ns - cost_ns if 2 * cost_ns <= cpu_ns else cpu_ns / 2)
    assert without_recording(0, cost_ns) is None


@pytest.mark.parametrize(("options", "more"), [((), 0), (("--stacks",), 1)])
def test_the_cost_of_a_recording_is_that_of_its_options_times_its_calls(tmp_path, options, more):
    """The program spends far more time than that, so that the half is not reached."""
    work = "for (volatile int k = 0; k < 300; k++) ;"
    body = f"for (int i = 0; i < {CALLS // 2}; i++) {{ free(malloc(9)); {work} }}"
    program = compile_c(tmp_path / "program", f"#include <stdlib.h>\nint main(void) {{ {body} }}", "-fno-builtin")
    record(tmp_path / "F.tape", program, options=options)
    with open_trace(tmp_path / "F.tape") as trace:
        final, call_ns, calls = trace.footer["final"], trace.info["call_ns"], trace.event_count
    assert calls >= CALLS
    assert (call_ns > 10) == bool(more)
    expected = final["user_ns"] + final["system_ns"] - call_ns * calls
    assert recorded_cpu_ns(tmp_path / "F.tape") == pytest.approx(expected)
    assert expected > (final["user_ns"] + final["system_ns"]) / 2


@pytest.mark.parametrize("least", [0, 8192])
def test_the_time_in_which_large_objects_are_recorded_is_not_the_program_s(tmp_path: Path, least: int) -> None:
    """20,000 objects of 9,000 bytes; their touched OS pages are read, or none is."""
    body = "for (int i = 0; i < 20000; i++) { char *volatile p = malloc(9000); p[0] = 1; free(p); }"
    program = compile_c(tmp_path / "program", f"#include <stdlib.h>\nint main(void) {{ {body} }}", "-fno-builtin")
    record(tmp_path / "F.tape", program, options=("--touch-min", str(least)))
    with open_trace(tmp_path / "F.tape") as trace:
        final, sampled = trace.footer["final"], trace.samples()["reading_ns"].astype(float)
        cost = trace.info["call_ns"] * trace.event_count
    reading, whole = final.get("reading_ns", 0), final["user_ns"] + final["system_ns"]
    assert (reading > 20_000 * 50) == (least > 0)  # a system call each
    assert (sampled <= reading).all()
    assert reading < whole
    assert recorded_cpu_ns(tmp_path / "F.tape") == pytest.approx(without_recording(whole - reading, cost))
