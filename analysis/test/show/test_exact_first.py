# SPDX-License-Identifier: MIT
"""Exact figures come first, and a figure that is too noisy is not a number, in every format."""

import json

import pytest
from heaptape.commands.comparison import print_long, print_named
from heaptape.common.tables import render_markdown, render_text
from heaptape.results.comparing.compare import relative
from heaptape.results.comparing.intervals import COUNTED_AGREES, too_noisy
from heaptape.results.comparing.summary import in_words
from heaptape.results.comparing.verdicts import paragraphs, verdicts
from heaptape.results.schema import Results, figures
from heaptape.show.tables.kinds import Question
from heaptape.show.tables.latex import render_latex
from heaptape.show.tables.usual import NOISY, comparison
from planted_runs import runs_of

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
    print_long([results()], "glibc", "json", "t")
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
    assert "RSS at its peak: the same within 0.1 %" in text


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
