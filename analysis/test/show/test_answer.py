# SPDX-License-Identifier: MIT
"""The answer, whatever the figures: sentences never contradict the rows. Examples are in answer.examples."""

from heaptape.decide.answer import answer, bypassed
from heaptape.decide.cpu import Cpu, reason_below_ns
from heaptape.results.model.time_model import estimate
from heaptape.results.schema import Results
from heaptape.results.structs import Workload
from hypothesis import given
from hypothesis import strategies as st
from planted_runs import runs_of
from results.planted import measurement

MIB = 1 << 20


def counted(name, allocators, cpu_ns=1e9, **about):
    """allocators: label -> (instructions, page faults, peak MiB)."""
    runs = []
    for allocator, (instructions, faults, peak) in allocators.items():
        runs.append({"allocator": allocator, "pass": "instructions", "instructions_total": instructions})
        memory = {"rss_anon_peak_bytes": int(peak * MIB), "rss_anon_mean_bytes": int(peak * MIB / 2)}
        runs.append({"allocator": allocator, "pass": "memory", "page_faults": faults, "syscalls": {}} | memory)
    about = {"name": name, "ops": 1000, "threads": 1, "ideal_rss_bytes": 10 * MIB, "cpu_ns": cpu_ns, **about}
    content = {"schema": 1, "workload": about, "runs": runs, "penalties": measurement(), "heaptape": {"version": "1"}}
    return Results(f"{name}.json", content)


@given(st.floats(1e6, 1e9), st.floats(-1, 1.5), st.floats(0, 1), st.floats(1, 1e3))
def test_the_limit_below_which_milliseconds_are_a_reason_is_that_of_percent(calls, gain, error, longer):
    row = {
        "timed": False,
        "calls_ns": calls,
        "ns": -gain * calls,
        "ns_low": -gain * calls,
        "ns_high": -gain * (1 - error) * calls,
    }
    cpu_ns = calls * longer
    judged = Cpu("estimated", *estimate(row, cpu_ns), 0, 0, 0)
    below = reason_below_ns(row)
    if abs(below / cpu_ns - 1) > 1e-6:
        assert judged.is_reason == (cpu_ns < below)


@given(st.integers(1, 400), st.integers(0, 400), st.integers(1, 400))
def test_what_the_allocator_retains_does_not_bypass_malloc(recorded, replayed, live):
    about = Workload(ideal_rss_bytes=live * MIB, recorded=[[0, recorded * MIB, 0]])
    assert bypassed(about, None) == ""
    assert bool(bypassed(about, float(replayed * MIB))) == (recorded - replayed >= 4 and 2 * replayed < recorded)


@given(st.lists(st.tuples(st.integers(1, 10**9), st.integers(0, 10**5), st.integers(1, 500)), min_size=2, max_size=4))
def test_the_sentences_never_contradict_the_rows(figures):
    found = answer([counted("p", dict(zip("abcd", figures)))], "a")
    text = " ".join(found.sentences)
    base = found.row("a")
    for label in set(found.use.values()) - {"a"}:
        assert label in text
    if memory := found.use.get("memory"):
        row = found.row(memory)
        assert memory == "a" or row.peak_bytes <= base.peak_bytes - MIB
    if set(found.use.values()) == {"a"}:
        assert text.startswith("No reason to change")
    for row in found.rows:
        if "fastest" in row.marks and row.label != "a":
            assert found.use["cpu"] == row.label
        if "lean" in row.marks:
            assert all(row.peak_percent <= other.peak_percent + 0.1 for other in found.rows)
    assert len(found.caveats) <= 2


# Per allocator: instructions of each of two runs; cycles of each of three.
COUNTED = {"glibc": (1000, 1000), "fewer": (926, 926), "clocked": (1_000_000, 1_000_002)}
TIMED = {"glibc": (100, 100, 101), "fewer": (100, 300, 900), "clocked": (50, 50, 51)}


def results(counted=None, **settings) -> Results:
    runs = []
    for name, instructions in (COUNTED if counted is None else counted).items():
        for repeat, total in enumerate(instructions):
            calls = {"malloc": {"count": 10, "instructions_total": total, "instructions_mean": total / 10}}
            about = {"allocator": name, "pass": "instructions", "repeat": repeat}
            runs.append(about | {"calls": calls, "instructions_total": total, "startup_instructions": 7})
    runs += runs_of("time", "cycles_total", TIMED)
    runs += runs_of("memory", "rss_anon_peak_bytes", dict.fromkeys(TIMED, (5000, 5000)))
    data = {"schema": 1, "workload": {"name": "w", "ops": 1000}, "settings": settings, "runs": runs}
    return Results("w.json", data)
