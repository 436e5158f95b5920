# SPDX-License-Identifier: MIT
"""The answer: which row is best, what the sentences say, and that they never contradict the rows."""

import json

import pytest
from heaptape.results.comparing.worth import is_reason, why_not
from heaptape.results.schema import Results
from heaptape.show.answer import answer, bypassed, cpu_text, percent, short_version
from hypothesis import given
from hypothesis import strategies as st
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


def test_a_gain_below_its_error_or_the_floors_is_no_reason():
    assert is_reason(2.0)
    assert not is_reason(1.99)
    assert not is_reason(5.0, 5.0)
    assert is_reason(5.0, 4.9)
    assert not is_reason(50.0, 0.0, MIB - 1)
    assert is_reason(50.0, 0.0, MIB)
    assert not is_reason(float("nan"))
    assert [why_not(*one) for one in ((5.0,), (-1.0,), (1.0,), (3.0, 4.0), (9.0, 0.0, 10.0))] == [
        "", "no gain", "less than 2 %", "within the error of 4 %", "less than 1 MiB",
    ]  # fmt: skip


def test_the_fastest_and_the_leanest_are_named_with_what_they_cost():
    found = answer([counted("p", {"glibc": (2e9, 100, 50), "fast": (2e8, 100, 60), "lean": (2e9, 100, 40)})], "glibc")
    assert [(row.label, row.marks) for row in found.rows] == [
        ("fast", ("fastest",)), ("lean", ("least memory",)), ("glibc", ("baseline",)),
    ]  # fmt: skip
    assert found.use == {"cpu": "fast", "memory": "lean"}
    (sentence,) = found.sentences
    assert sentence.startswith("For CPU time fast (≈ -")
    assert sentence.endswith("for 10.0 MiB more peak memory. For memory lean (-20 %).")
    assert "without cache effects" in found.caveats[0]
    assert json.loads(json.dumps(found.as_json()))["rows"][1]["peak_percent"] == pytest.approx(-20)


def test_no_reason_to_change_says_why():
    found = answer([counted("p", {"glibc": (2e9, 100, 50), "other": (1.99e9, 100, 49.8)})], "glibc")
    assert found.use == {"cpu": "glibc", "memory": "glibc"}
    assert found.sentences[0].startswith("No reason to change: the fastest, other, gains 0.3 % CPU time")
    assert "saves 0.4 % of peak memory" in found.sentences[0]


def test_several_workloads_give_geometric_means_and_name_the_worst():
    one = counted("one", {"glibc": (1e9, 100, 100), "a": (1e9, 100, 50)})
    two = counted("two", {"glibc": (1e9, 100, 100), "a": (1e9, 100, 180)})
    found = answer([one, two], "glibc")
    row = found.row("a")
    assert row.peak_percent == pytest.approx(100 * ((0.5 * 1.8) ** 0.5 - 1))
    assert row.worst["memory"] == ("two", pytest.approx(80))
    assert row.peak_bytes is None


def test_a_program_whose_cpu_time_is_not_known_gets_milliseconds():
    found = answer([counted("p", {"glibc": (2e9, 100, 50), "fast": (2e8, 100, 50)}, cpu_ns=None)], "glibc")
    change = found.row("fast").cpu
    assert change.kind == "milliseconds"
    assert cpu_text(change).endswith(" ms")


def test_memory_that_bypasses_malloc_is_said_first():
    about = {"recorded": [[0, MIB, MIB], [10, 40 * MIB, 50 * MIB]], "program": "python3.11"}
    found = answer([counted("p", {"glibc": (2e9, 100, 50), "b": (2e9, 100, 50)}, **about)], "glibc")
    assert found.caveats[0] == (
        "malloc holds only 25 % of the program's peak memory: the rest bypasses it. For CPython record with "
        "PYTHONMALLOC=malloc."
    )
    assert bypassed({"ideal_rss_bytes": 30 * MIB, "recorded": [[0, 40 * MIB, 0]]}) == ""


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
        if "least memory" in row.marks:
            assert all(row.peak_percent <= other.peak_percent + 0.1 for other in found.rows)
    assert len(found.caveats) <= 2


def test_numbers_have_two_or_three_digits():
    assert [percent(one) for one in (8.52, -12.3, 0.04, 59.6)] == ["+8.5 %", "-12 %", "0 %", "+60 %"]
    assert [short_version(one) for one in ("libc6 2.36-9+deb12u14", "libmimalloc2.0 2.0.9+ds-2", "", None)] == [
        "2.36", "2.0.9", "", "",
    ]  # fmt: skip
