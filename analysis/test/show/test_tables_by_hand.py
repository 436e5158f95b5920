# SPDX-License-Identifier: MIT
"""Each table of a comparison, in each format. Numbers worked out by hand are in tables_by_hand.examples."""

import json

import pytest
from heaptape.commands.compare import run as compare
from heaptape.commands.comparison import METRICS, TABLES
from heaptape.commands.main import make_parser
from heaptape.common.errors import HeaptapeError, UsageError
from heaptape.common.tables import render_markdown, render_text
from heaptape.results import replay_errors as fidelity
from heaptape.results.latency import percentile
from heaptape.results.schema import Results
from heaptape.show.tables.kinds import KINDS, Question
from heaptape.show.tables.latex import escape, render_latex
from heaptape.show.tables.usual import comparison
from hypothesis import given
from hypothesis import strategies as st
from synthetic_results import make_results, write


def results_of(name, ideal, allocators):
    """allocators: name -> (total cycles, malloc, calloc, realloc, free) per repetition, and peak RSS."""
    runs = []
    for allocator, (times, rss) in allocators.items():
        for repeat, (total, *means) in enumerate(times):
            calls = {c: {"count": 10, "mean": m} for c, m in zip(("malloc", "calloc", "realloc", "free"), means)}
            about = {"allocator": allocator, "repeat": repeat}
            runs.append(about | {"pass": "time", "cycles_total": total, "calls": calls})
            runs.append(about | {"pass": "memory", "rss_anon_peak_bytes": rss, "vm_size_peak_bytes": 3 * rss})
    return Results(f"{name}.json", {"workload": {"name": name, "ideal_rss_bytes": ideal}, "runs": runs})


OF_A, OF_B = [(100, 10, 20, 30, 40), (200, 12, 22, 34, 44)], [(50, 5, 20, 60, 40), (100, 6, 22, 68, 44)]
ONE = results_of("one", 1000, {"a": (OF_A, 1500), "b": (OF_B, 1250)})
TWO = results_of("two", 4000, {"a": ([(80, 8, 1, 1, 8)] * 2, 5000), "b": ([(160, 8, 2, 1, 4)] * 2, 6000)})


@given(st.lists(st.integers(0, 1 << 30), min_size=1, max_size=60), st.sampled_from([0.5, 0.9, 0.99]))
def test_percentiles_of_a_histogram_are_within_a_bucket(values, share):
    def lower(value):
        width = 1 if value < 64 else 1 << (value.bit_length() - 6)
        return value // width * width

    counts = {}
    for value in values:
        counts[lower(value)] = counts.get(lower(value), 0) + 1
    exact = sorted(values)[min(int(share * len(values)), len(values) - 1)]
    found = percentile([[bound, n] for bound, n in sorted(counts.items())], share)
    assert abs(found - exact) <= exact / 32


def test_percentiles_agree_with_the_engines(small_results):
    """The engine's own p50 and p99 against ours from its histograms, except where a bucket may reach below the
    counter's overhead: results have such buckets as one, at 0.
    """
    data = json.loads(small_results.read_text())
    checked = 0
    for run in data["runs"]:
        for detail in (run.get("calls") or {}).values() if run["pass"] == "time" else ():
            overhead = run["counter_overhead_cycles"]
            for key, share in (("p50", 0.5), ("p99", 0.99)):
                if "histogram" in detail and detail[key] > overhead / 8:
                    assert percentile(detail["histogram"], share, overhead) == pytest.approx(
                        detail[key], rel=0.02, abs=1
                    )
                    checked += 1
    assert checked >= 4


def test_every_table_of_the_help_exists_and_every_one_is_in_the_help():
    assert set(TABLES) == {*KINDS, *METRICS, "workloads"}


@pytest.mark.parametrize("name", [name for name in KINDS if name not in ("sweep", "corners")])
def test_each_table_comes_out_of_whatever_results_there_are(name):
    for file in (ONE, Results("f.json", {"runs": [{"allocator": "a", "calls": {}}]})):
        question = Question([file], "a")
        frame = KINDS[name].frame(question)
        tables = KINDS[name].view(frame, question)
        assert not any("nan" in cell.text for table in tables for row in table.rows for cell in row)
        for render in (render_text, render_markdown, render_latex):
            render(tables)
        frame.to_json(orient="records")


def test_markdown_and_latex_have_as_many_cells_in_every_row():
    for table in comparison([ONE, TWO], "a"):
        rows = [line for line in render_latex([table]).splitlines() if line.endswith(r"\\")]
        assert {line.count("&") for line in rows} == {len(table.columns) - 1}
        rows = [line for line in render_markdown([table]).splitlines() if line.startswith("|")]
        assert {line.count("|") for line in rows} == {len(table.columns) + 1}
        assert rows[1].startswith("|---|---:|")


@given(st.text())
def test_nothing_in_a_name_is_a_command_to_latex(text):
    safe = escape(text)
    for command in (
        r"\textbackslash{}", r"\textasciitilde{}", r"\textasciicircum{}", r"\textless{}", r"\textgreater{}",
        r"\textbar{}", r"\dots{}", r"$\pm$", r"$-$", r"$\times$", r"$\mu$", r"$\le$", r"$\ge$", r"\{", r"\}", r"\$",
        r"\&", r"\#", r"\%", r"\_", "-{}-",
    ):  # fmt: skip
        safe = safe.replace(command, "")
    assert not set(safe) & set("\\{}$&#%_~^\n")


def test_tables_on_the_command_line(capsys, tmp_path):
    path = str(write(tmp_path / "r.json", make_results(repeats=2)))

    def output(*arguments):
        assert compare(make_parser().parse_args(["compare", path, *arguments])) == 0
        return capsys.readouterr().out

    found = json.loads(output("--table", "overhead", "--table", "cycles", "--verdict", "--format", "json"))
    assert list(found["tables"]) == ["overhead", "cycles", "verdict"]
    assert found["interval"] == "t"
    text = output("--table", "all", "--format", "latex")
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") > 2
    assert output("--table", "syscalls", "--format", "csv").startswith("workload,allocator,metric,unit,value,")
    assert "jemalloc" in output("--table", "overhead", "--format", "md")


@pytest.mark.parametrize(
    ("arguments", "error", "line"),
    [
        (
            ("--table", "cycles", "--verdict", "--format", "csv"),
            UsageError,
            "compare --format csv: one table at a time",
        ),
        (("--table", "corners"), UsageError, "compare --table corners: of which four"),
        (("--tunable", "n"), UsageError, "compare --tunable: needs --sweep"),
        (("--ministat", "--verdict"), UsageError, "compare --ministat: prints no tables"),
        (("--sweep",), HeaptapeError, "no tunable was swept: needs at least two runs"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, error, line, tmp_path):
    path = str(write(tmp_path / "r.json", make_results(repeats=1)))
    with pytest.raises(error, match=line):
        compare(make_parser().parse_args(["compare", path, *arguments]))


def test_verdicts_of_memory_follow_the_counts_whatever_the_error_of_replays(monkeypatch):
    """RSS of b is 83.3 % of a's: reported, although replays may be off by 20 %, which is shown beside it."""
    monkeypatch.setattr(fidelity, "errors_of", lambda figures, labels: {"peak_rss": 20.0} if "b" in labels else {})
    for heaptape in ({}, None):
        file = Results("one.json", ONE.data | ({} if heaptape is None else {"heaptape": heaptape}))
        frame = KINDS["verdict"].frame(Question([file], "a")).set_index("figure")
        assert frame.loc["peak_rss", "verdict"] == "less"
