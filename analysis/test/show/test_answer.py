# SPDX-License-Identifier: MIT
"""The answer: which row is best, what the sentences say, and that they never contradict the rows. Exact figures come
first, and a figure that is too noisy is not a number, in every format.
"""

import json
import math
import re

import pytest
from heaptape.commands.comparison import print_named, write_long
from heaptape.common.tables import render_markdown, render_text
from heaptape.decide.answer import answer, bypassed
from heaptape.decide.cpu import Cpu, cpu_text, reason_below_ns
from heaptape.decide.worth import is_reason, measured, why_not
from heaptape.results.comparing.compare import relative
from heaptape.results.comparing.intervals import COUNTED_AGREES, too_noisy
from heaptape.results.comparing.summary import in_words
from heaptape.results.comparing.verdicts import paragraphs, verdicts
from heaptape.results.model.time_model import estimate
from heaptape.results.schema import Results, figures
from heaptape.results.structs import Workload
from heaptape.show.tables.kinds import Question
from heaptape.show.tables.latex import render_latex
from heaptape.show.tables.usual import NOISY, SUBJECTS, by_subject, comparison
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


def test_a_gain_below_its_error_or_the_floors_is_no_reason():
    assert is_reason(2.0)
    assert not is_reason(1.99)
    assert not is_reason(5.0, 5.0)
    assert is_reason(5.0, 4.9)
    assert not is_reason(50.0, 0.0, MIB - 1)
    assert is_reason(50.0, 0.0, MIB)
    assert not is_reason(float("nan"))
    assert [why_not(*one) for one in ((5.0,), (-1.0,), (1.0,), (1.98,), (3.0, 4.0), (9.0, 0.0, 10.0))] == [
        "", "no gain", "less than 2 %", "just under 2 %", "within the error of 4 %", "less than 1 MiB",
    ]  # fmt: skip


def test_a_measured_change_whose_range_holds_gain_and_loss_is_not_known():
    assert measured(-3.1, -4.0, -2.25) == "-3.1 % (-4.0 to -2.2)"
    assert measured(0.4, -1.9, 12.0) == "+0.4 % (-1.9 to +12)"
    assert measured(8.7, -27.0, 63.0) == "not known: -27 to +63 %"


def test_the_fastest_and_the_leanest_are_named_with_what_they_cost():
    found = answer([counted("p", {"glibc": (2e9, 100, 50), "fast": (2e8, 100, 60), "lean": (2e9, 100, 40)})], "glibc")
    assert [(row.label, row.marks) for row in found.rows] == [
        ("fast", ("fastest",)), ("lean", ("lean",)), ("glibc", ("baseline",)),
    ]  # fmt: skip
    assert found.use == {"cpu": "fast", "memory": "lean"}
    (sentence,) = found.sentences
    assert sentence.startswith("For CPU time fast (≈ -")
    assert sentence.endswith("for 10.0 MiB more peak memory. For memory lean (-20 %).")
    assert "without cache effects" in found.caveats[0]
    assert json.loads(json.dumps(found.as_json()))["rows"][1]["peak_percent"] == pytest.approx(-20)


def test_all_that_may_be_the_fastest_are_named_and_what_decides():
    costs = {"glibc": (2e9, 100, 50), "a": (2e8, 100, 60), "b": (4e8, 100, 60), "c": (1.9e9, 100, 60)}
    found = answer([counted("p", costs)], "glibc")
    assert re.match(r"For CPU time a or b \(-[0-9]+ to -[0-9.]+ %\): live runs decide\.", found.sentences[0])
    assert {row.label: row.marks for row in found.rows if row.cpu} == {
        "a": ("fast",), "b": ("fast",), "c": (),
    }  # fmt: skip


def test_no_reason_to_change_says_why():
    found = answer([counted("p", {"glibc": (2e9, 100, 50), "other": (1.99e9, 100, 49.8)})], "glibc")
    assert found.use == {"cpu": "glibc", "memory": "glibc"}
    assert found.sentences[0].startswith("No reason to change: the fastest, other, saves 0.3 % of CPU time")
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


def test_a_gain_in_milliseconds_is_a_reason_only_if_the_program_is_known_to_be_short():
    small = {"glibc": (2e9, 100, 50), "fast": (2e9 - 1e6, 100, 50)}
    found = answer([counted("p", small, cpu_ns=None)], "glibc")
    assert found.use["cpu"] == "glibc"
    assert re.search("the fastest, fast, saves 0.[1-9] ms of CPU time, within the error", found.sentences[0])
    large = {"glibc": (2e9, 100, 50), "fast": (2e8, 100, 60)}
    found = answer([counted("p", large, cpu_ns=None)], "glibc")
    assert (found.row("fast").marks, "cpu" in found.use) == (("fastest",), False)
    said = r"For CPU time fast \(≈ -[0-9]+ ms\), for 10.0 MiB more peak memory, a reason to change only if the program "
    assert re.match(said + r"takes less than [0-9.]+ s of it\.", found.sentences[1])


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


def test_memory_that_bypasses_malloc_is_what_the_replay_on_the_recorded_allocator_lacks():
    about = {"recorded": [[0, MIB, MIB], [10, 40 * MIB, 50 * MIB]], "program": "python3.11", "recorded_on": "glibc"}
    found = answer([counted("p", {"glibc": (2e9, 100, 10), "b": (2e9, 100, 35)}, **about)], "glibc")
    assert found.caveats[0] == (
        "malloc's memory, replayed, is only 25 % of the program's peak memory: the rest bypasses it. For CPython "
        "record with PYTHONMALLOC=malloc."
    )


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


@pytest.mark.parametrize(
    ("cpu", "text"),
    [
        (Cpu("estimated", -5.2, -9, 0, -1, -2, 0), "≈ -5 %"),
        (Cpu("estimated", 0.49, -9, 9, -1, -2, 0), "≈ 0 %"),
        (Cpu("range", -5, -8.2, -3.1, -1, -2, 0), "-8.2 to -3.1 %"),
        (Cpu("milliseconds", math.nan, math.nan, math.nan, -4.5, -9, 0), "≈ -4.5 ms"),
        (Cpu("milliseconds", math.nan, math.nan, math.nan, 0.04, -9, 9), "≈ 0 ms"),
        (Cpu("live", -5.1, -8, -3, -1, -2, 0), "-5.1 % (-8.0 to -3.0)"),
        (Cpu("live", -5.1, -8, 0.5, -1, -2, 0, chance=0.92, named=True),
         "-5.1 % (-8.0 to +0.5, faster with 92 % chance)"),
        (Cpu("live", -5.1, -8, 0.5, -1, -2, 0, chance=0.7), "-5.1 % (-8.0 to +0.5)"),
    ],
)  # fmt: skip
def test_a_change_of_cpu_time_is_said_so(cpu, text):
    assert cpu_text(cpu) == text


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


def test_what_is_counted_comes_before_what_a_clock_measured():
    titles = [table.title for table in comparison([results()], "glibc")]
    assert titles == [
        "Instructions per call (exact)", "Instructions (exact), % of glibc", "Memory, MiB", "Memory, % of glibc",
        "Time: cycles per call, mean", "Time, % of glibc",
    ]  # fmt: skip


def test_the_first_figure_of_a_table_of_times_is_the_exact_one():
    tables = {table.title: table for table in comparison([results()], "glibc")}
    time = tables["Time, % of glibc"]
    assert time.columns[:3] == ["allocator", "instructions (exact)", "Total"]
    assert [(row[0].text, row[1].text, row[1].exact) for row in time.rows] == [
        ("fewer", "92.6", True),
        ("clocked", "100,000.1", True),
    ]
    assert tables["Instructions per call (exact)"].columns == ["allocator", "Total, M", "malloc", "start-up, M"]


def test_exact_figures_are_bold_where_the_format_has_bold():
    tables = comparison([results()], "glibc")
    assert "| **92.6** |" in render_markdown(tables)
    assert r"& \textbf{92.6} &" in render_latex(tables)
    assert "**" not in render_text(tables, 100)


def test_counts_that_differ_by_more_than_they_may_are_not_called_exact():
    apart = int(1_000_000 * (1 + 2 * COUNTED_AGREES))
    tables = comparison([results(COUNTED | {"clocked": (1_000_000, apart)})], "glibc")
    assert tables[0].title == "Instructions per call"
    rows = {row[0].text: row[1] for row in tables[0].rows}
    assert [rows[name].exact for name in ("glibc", "clocked")] == [True, False]


def test_an_interval_that_spans_a_factor_of_two_is_not_a_number_and_has_a_reason():
    table = relative(figures([results()]), "glibc").set_index(["workload", "metric", "allocator"])
    reason = table.loc[("w", "total_cycles", "fewer"), "reason"]
    assert reason.startswith("too noisy: the 95 % interval of 3 repetitions spans a factor of ")
    assert "repeat more often" in reason
    assert table.loc[("w", "total_cycles", "clocked"), "reason"] == ""
    (time,) = [one for one in comparison([results()], "glibc") if one.title == "Time, % of glibc"]
    cell = {row[0].text: row[2] for row in time.rows}["fewer"]
    assert (cell.text, cell.value, cell.reason) == (NOISY, None, reason)
    assert any(note.startswith("too noisy (1 figure): the 95 % interval of 3 repetitions") for note in time.notes)


@pytest.mark.parametrize(
    ("low", "high", "noisy"), [(50, 99, False), (50, 100, True), (0, 10, True), (float("nan"), 10, False)]
)
def test_the_limit_is_a_factor_of_two(low, high, noisy):
    assert bool(too_noisy(low, high, 3)) is noisy


def test_json_has_null_and_the_reason(capsys):
    write_long([results()], "glibc", "json", "t")
    rows = json.loads(capsys.readouterr().out)["rows"]
    (row,) = [r for r in rows if (r["workload"], r["allocator"], r["metric"]) == ("w", "fewer", "total_cycles")]
    assert (row["percent"], row["low"], row["high"]) == (None, None, None)
    assert row["reason"].startswith(NOISY)
    (row,) = [r for r in rows if (r["workload"], r["allocator"], r["metric"]) == ("w", "fewer", "total_instructions")]
    assert (row["percent"], row["exact"], row["reason"]) == (pytest.approx(92.6), True, "")


@pytest.mark.parametrize("name", ["cycles", "verdict"])
def test_tables_by_name_have_no_number_either(name, capsys):
    question = Question([results()], "glibc")
    print_named(question, [name], "json")
    rows = json.loads(capsys.readouterr().out)["tables"][name]
    noisy = [row for row in rows if row["reason"]]
    assert noisy
    assert all(row["percent"] is None and row["low"] is None for row in noisy)
    print_named(question, [name], "text")
    assert NOISY in capsys.readouterr().out


def test_verdicts_give_the_exact_counts_first_and_withhold_the_noise():
    frame = verdicts(results(), "glibc")
    first = paragraphs(frame)[0]
    assert first.startswith("w: fewer needs 7.4 % fewer instructions in allocator calls (exact) than glibc; ")
    assert "cycles: too noisy to tell: the 95 % interval of 3 repetitions spans a factor of " in first
    assert frame.set_index(["a", "figure"]).loc[("fewer", "total_cycles"), "verdict"] == "too noisy"
    assert in_words(results())[0].startswith("fewer needs 7.4 % fewer instructions")


def test_tiny_exact_differences_are_not_claimed():
    text = paragraphs(verdicts(results(), "glibc"))[0]
    assert "peak memory: the same within 0.1 %" in text


def test_passes_left_out_are_named_under_the_tables(capsys):
    file = results({}, left_out={"instructions": "the Valgrind tool was not built"})
    print_named(Question([file], "glibc"), ["all"], "text")
    assert "Left out: instructions (the Valgrind tool was not built)." in capsys.readouterr().out


def test_a_prefix_of_the_workload_is_marked_as_one():
    file = results()
    for run in file.data["runs"]:
        if run["pass"] == "instructions":
            run["op_limit"] = 600
    assert "Of the first 600 of 1,000 ops." in comparison([file], "glibc")[0].notes[0]


def test_rows_are_named_by_the_allocators_version_where_their_name_has_none():
    described = [
        {"name": "glibc", "variant": "default", "version": "libc6 2.36-9+deb12u14", "path": "/lib/libc.so.6"},
        {"name": "jemalloc", "variant": "default", "version": "5.3.0-1"},
        {"name": "jemalloc", "variant": "decay-0", "version": "5.3.0-1"},
        {"name": "mimalloc@3.0.1", "variant": "default", "version": "3.0.1"},
        {"name": "plain", "variant": "", "version": "unknown"},
    ]
    labels = ("glibc", "jemalloc", "jemalloc:decay-0", "mimalloc@3.0.1", "plain")
    file = counted("p", dict.fromkeys(labels, (1e9, 100, 50)), allocator="libc.so.6")
    file.data["allocators"] = described
    found = answer([Results("p.json", file.data)], "glibc")
    names = ("glibc 2.36", "jemalloc 5.3.0", "jemalloc:decay-0", "mimalloc@3.0.1", "plain")
    assert {row.label: row.name for row in found.rows} == dict(zip(labels, names))
    assert found.recorded_on_baseline


@pytest.mark.parametrize(
    ("recorded", "name", "is_here"),
    [
        ({}, "glibc", True),
        ({"allocator_version": "2.41"}, "glibc 2.41", True),
        ({"allocator_version": "2.41", "allocator_build_id": "cd"}, "glibc 2.41", True),
        ({"allocator_version": "2.36", "allocator_build_id": "ab"}, "glibc 2.36", False),
        ({"allocator_build_id": "ef"}, "glibc 2.41", True),
        ({"allocator_build_id": "ab"}, "another build of libc.so.6", False),
    ],
)
def test_a_recordings_allocator_is_this_machines_only_if_it_is_the_same(recorded, name, is_here):
    """Results were made where glibc is 2.41, with the build id ef."""
    file = counted("p", dict.fromkeys(("glibc", "a"), (1e9, 100, 50)), allocator="libc.so.6", **recorded)
    here = {"name": "glibc", "variant": "default", "version": "libc6 2.41-1", "path": "/lib/libc.so.6"}
    file.data["allocators"] = [here | {"build_id": "ef"}]
    found = answer([Results("p.json", file.data)], "glibc")
    assert f"Recorded on {name}: " in found.about
    assert found.recorded_on_baseline == is_here
    said = f"p: recorded on {name}, which is not on this machine; the baseline is glibc 2.41."
    assert (said in found.caveats) == (not is_here)


def test_tables_of_several_workloads_are_in_their_order_by_subject_and_then_those_of_ratios():
    runs = {"glibc": (1e9, 100, 50), "a": (2e9, 100, 60)}
    one, two = (by_subject([counted(name, runs) for name in names], "glibc") for names in ("x", "xy"))
    assert [subject for subject, _ in one] == sorted((subject for subject, _ in one), key=SUBJECTS.index)
    absolute = [(subject, table.title) for subject, table in two if " — " in table.title]
    of_x = [(subject, title) for subject, title in absolute if title.endswith(" — x")]
    assert [title.replace(" — y", " — x") for _, title in absolute[len(of_x) :]] == [title for _, title in of_x]
    assert [subject for subject, _ in of_x] == sorted((subject for subject, _ in of_x), key=SUBJECTS.index)
    assert two[len(absolute) :] != []
    assert all(" — " not in table.title for _, table in two[len(absolute) :])
    assert two[-1][1].notes != two[0][1].notes
