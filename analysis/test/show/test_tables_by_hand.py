# SPDX-License-Identifier: MIT
"""Each table of a comparison, with numbers worked out by hand, and in each format."""

import json
import math

import pytest
from heaptape.commands.compare import run as compare
from heaptape.commands.comparison import METRICS, TABLES
from heaptape.commands.main import make_parser
from heaptape.common.errors import HeaptapeError, UsageError
from heaptape.common.tables import Cell, Table, render_markdown, render_text
from heaptape.passes import latency
from heaptape.results import replay_errors as fidelity
from heaptape.results.comparing.compare import GEOMETRIC, absolute, long_table, relative
from heaptape.results.comparing.variants import Corners
from heaptape.results.latency import percentile
from heaptape.results.schema import Results, figures, latencies
from heaptape.show.tables import corner_tables as table_frames
from heaptape.show.tables import published
from heaptape.show.tables.corner_tables import overhead_tables
from heaptape.show.tables.kinds import KINDS, Question
from heaptape.show.tables.latex import escape, render_latex
from heaptape.show.tables.usual import comparison
from hypothesis import given
from hypothesis import strategies as st
from planted_runs import cycles_and_rss
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


ONE = results_of(
    "one",
    1000,
    {
        "a": ([(100, 10, 20, 30, 40), (200, 12, 22, 34, 44)], 1500),
        "b": ([(50, 5, 20, 60, 40), (100, 6, 22, 68, 44)], 1250),
    },
)
TWO = results_of("two", 4000, {"a": ([(80, 8, 1, 1, 8)] * 2, 5000), "b": ([(160, 8, 2, 1, 4)] * 2, 6000)})


METRICS_BY_HAND = ["total_cycles", "calls/malloc", "calls/calloc", "calls/realloc", "calls/free", "peak_rss"]


def test_means_over_repetitions_by_hand():
    """One: (100 + 200) / 2 and so on; two: the same in both repetitions."""
    frame = absolute(figures([ONE, TWO]))[METRICS_BY_HAND]
    assert frame.loc[("one", "a")].tolist() == [150, 11, 21, 32, 42, 1500]
    assert frame.loc[("one", "b")].tolist() == [75, 5.5, 21, 64, 42, 1250]
    assert frame.loc[("two", "a")].tolist() == [80, 8, 1, 1, 8, 5000]
    assert frame.loc[("two", "b")].tolist() == [160, 8, 2, 1, 4, 6000]


def test_percent_of_the_baseline_and_both_means_by_hand():
    """Total: 50 % and 200 %, so 100 % geometrically, 125 % arithmetically; RSS: 83.3 and 120 %: 100, 101.7 %."""
    cells = relative(figures([ONE, TWO]), "a").set_index(["workload", "metric"])["percent"].to_dict()
    expected = {
        "one": (50, 50, 100, 200, 100, 250 / 3),
        "two": (200, 100, 200, 100, 50, 120),
        "geometric mean": (100, 50 * math.sqrt(2), 100 * math.sqrt(2), 100 * math.sqrt(2), 50 * math.sqrt(2), 100),
        "arithmetic mean": (125, 75, 150, 150, 75, 610 / 6),
    }
    for workload, percents in expected.items():
        assert [cells[workload, metric] for metric in METRICS_BY_HAND] == pytest.approx(percents), workload


def test_rss_overhead_of_any_allocators_by_hand():
    """One: OH 500 and 250: 50 % of a's, 50 and 25 % of ideal. Two: 1000 and 2000: 200 %, 25 and 50 %."""
    frame = table_frames.rss_overhead([ONE, TWO], {"a": "a", "b": "b"})
    rows = {(r["workload"], r["variant"]): r for r in frame.to_dict("records")}
    assert (rows["one", "b"]["overhead_bytes"], rows["two", "b"]["overhead_bytes"]) == (250, 2000)
    assert (rows["one", "b"]["overhead_percent"], rows["two", "b"]["overhead_percent"]) == (50, 200)
    assert [rows[w, v]["overhead_percent_of_ideal"] for w in ("one", "two") for v in "ab"] == [50, 25, 25, 50]
    assert rows["arithmetic mean", "b"]["overhead_percent"] == 125
    assert rows["geometric mean", "b"]["overhead_percent"] == pytest.approx(100)
    assert rows["arithmetic mean", "b"]["rss_percent"] == pytest.approx((250 / 3 + 120) / 2)
    (table,) = overhead_tables(frame, {"a": "a", "b": "b"})
    assert table.columns == [
        "workload", "Ideal", "RSS a", "RSS b", "OH a", "OH b", "OH b %", "OH a % of ideal", "OH b % of ideal",
    ]  # fmt: skip


def test_an_overhead_below_ideal_has_no_share():
    frame = table_frames.rss_overhead([results_of("w", 2000, {"a": ([], 0)})], {"a": "a"})
    assert frame.empty
    low = results_of("w", 2000, {"a": ([(1, 1, 1, 1, 1)], 1500), "b": ([(1, 1, 1, 1, 1)], 3000)})
    row = table_frames.rss_overhead([low], {"a": "a", "b": "b"}).iloc[1]
    assert math.isnan(row["overhead_percent"])
    assert row["rss_percent"] == 200


def test_system_calls_and_bytes_by_hand():
    about = {"allocator": "a", "pass": "memory", "vm_size_peak_bytes": 9, "rss_anon_peak_bytes": 5}
    runs = [
        about | {"repeat": 0, "syscalls": {"mmap": 69, "munmap": 11, "brk": 0}, "syscall_bytes": {"mmap": 4096}},
        about | {"repeat": 1, "syscalls": {"mmap": 71, "munmap": 11, "brk": 0}, "syscall_bytes": {"mmap": 8192}},
    ]
    frame = absolute(figures([Results("w.json", {"workload": {"name": "w"}, "runs": runs})]))
    calls = ["syscalls/mmap", "syscalls/munmap", "syscalls/brk", "syscall_bytes/mmap", "vm_size", "peak_rss"]
    assert frame.loc[("w", "a"), calls].tolist() == [70, 11, 0, 6144, 9, 5]
    assert "syscalls/madvise" not in frame


def timed(repeat, sizes, **keys):
    return {"allocator": "a", "pass": "time", "repeat": repeat, "calls": {"malloc": {"sizes": sizes} | keys}}


def test_latency_by_hand():
    """100 calls of 10 cycles, 800 of 20, 99 of 30 and one of 5000: the 500th is 20, the 900th 30, the 999th 5000. The
    mean is that of the repetitions' means: 10, 20, 40."""
    histogram = [[10, 100], [20, 800], [30, 99], [5000, 1]]
    sizes = [{"up_to_bytes": 16, "count": 9, "mean": 3.0, "histogram": [[3, 9]], "max": 4}]
    sizes.append({"up_to_bytes": None, "count": 5, "mean": 7.0, "histogram": [[7, 5]], "max": 7})
    runs = [timed(i, sizes, count=1000, mean=10.0 * i, histogram=histogram, max=5000 + i) for i in (1, 2, 4)]
    frame = latencies([Results("w.json", {"workload": {"name": "w"}, "runs": runs})]).set_index("up_to_bytes")
    whole = frame.loc[frame.index.isna()].iloc[0]
    assert [whole[key] for key in ("count", "p50", "p90", "p99", "max")] == [1000, 20, 30, 30, 5004]
    assert whole["mean"] == pytest.approx((10 + 20 + 40) / 3)
    # The bucket of 5000 is 128 wide: 4096 / 32.
    assert whole["p999"] == 5000 + 63
    small = frame.loc[16.0]
    assert small["p50"] == 3
    assert math.isnan(small["p90"]), "of nine calls the 90th percentile is the largest"
    assert frame.loc[math.inf, "p50"] == 7
    (table,) = latency.tables(frame.reset_index())
    assert [row[0].text for row in table.rows] == ["all sizes", "up to 16 bytes", "larger"]


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


def corners_of(name, neither, a, b, both):
    return cycles_and_rss({"n": [neither], "a": [a], "b": [b], "ab": [both]}, name=name)


def test_the_corner_matrix_and_both_means_by_hand():
    files = [corners_of("one", 200, 180, 160, 150), corners_of("two", 100, 50, 200, 120)]
    corners = Corners("n", "a", "b", "ab")
    cells = table_frames.corner_matrix(files, corners).set_index(["workload", "column"])["value"]
    expected = {
        "one": (90, 80, 250 / 3, 93.75, 800 / 9),
        "two": (50, 200, 240, 60, 400),
        "arithmetic mean": (70, 140, (250 / 3 + 240) / 2, 76.875, (800 / 9 + 400) / 2),
        "geometric mean": (math.sqrt(4500), math.sqrt(16000), math.sqrt(20000), 75, math.sqrt(320000 / 9)),
    }
    for workload, values in expected.items():
        found = [cells[workload, column] for column in ("A+", "B+", "A:B+", "B:A+", "B/A")]
        assert found == pytest.approx(values), workload


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


def test_latex_by_hand():
    table = Table("100 % of a_b", ["allocator", "x"], [[Cell("r:n=1"), Cell("~1 ±2", 1.0)]], ["A & B"])
    assert render_latex([table]).splitlines()[1:] == [
        r"\begin{table}[htbp]",
        r"\centering",
        r"\caption{100 \% of a\_b}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"allocator & x \\",
        r"\midrule",
        r"r:n=1 & \textasciitilde{}1 $\pm$2 \\",
        r"\bottomrule",
        r"\end{tabular}}",
        r"\par\smallskip{\footnotesize A \& B\par}",
        r"\end{table}",
    ]


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


def test_the_published_table_is_the_figures_and_their_shares_of_the_baseline():
    found = published.frame([ONE, TWO], "a").set_index(["workload", "allocator"])
    assert found.loc[("one", "b"), ["Total", "malloc", "RSS"]].tolist() == [75, 5.5, 1250]
    assert found.loc[("two", "b"), ["Total %", "malloc %", "RSS %"]].tolist() == pytest.approx([200, 100, 120])
    assert found.loc[(GEOMETRIC, "b"), "Total %"] == pytest.approx(100)
    assert (GEOMETRIC, "a") not in found.index
    values, shares = published.tables(found.reset_index(), "a")
    assert [row[1].text for row in values.rows] == ["a", "b"] * 2
    assert [(row[0].text, row[2].text) for row in shares.rows] == [
        ("one", "50 %"),
        ("two", "200 %"),
        (GEOMETRIC, "100 %"),
    ]


def test_the_published_tables_and_the_corners_leave_out_no_call():
    """Of 1,000 calls: 10 and more keep their names; two rarer ones are one, their mean weighed by their counts."""
    counts = {"malloc": 500, "free": 1, "operator new": 489, "operator new[]": 1, "operator delete[]": 3, "calloc": 6}
    means = {"malloc": 10, "free": 30, "operator new": 7, "operator new[]": 40, "operator delete[]": 20, "calloc": 9}
    runs = [
        {"allocator": name, "repeat": 0, "pass": "time", "cycles_total": 100 * factor}
        | {"calls": {call: {"count": counts[call], "mean": factor * mean} for call, mean in means.items()}}
        for name, factor in (("a", 1), ("b", 2))
    ]
    file = Results("c++.json", {"workload": {"name": "c++"}, "runs": runs})
    found = published.frame([file], "a").set_index(["workload", "allocator"])
    values, others, shares, of_others = published.tables(found.reset_index(), "a")
    assert values.columns[2:] == shares.columns[2:] == ["Total", "malloc", "calloc", "free"]
    assert others.columns[2:] == of_others.columns[2:] == ["operator\nnew", "other"]
    assert [cell.text for cell in values.rows[1][3:] + others.rows[1][2:]] == ["20.0", "18.0", "60.0", "14.0", "50.0"]
    assert [cell.text for cell in shares.rows[0][3:] + of_others.rows[0][2:]] == ["200 %"] * 5
    matrices = table_frames.corner_tables([file], Corners("a", "b", "a", "b"))
    assert [table.title.partition(",")[0] for table in matrices] == [
        "Total cycles", "malloc", "calloc", "free", "operator new", "other"
    ]  # fmt: skip


def test_the_published_tables_have_instructions_where_no_cycles_were_measured():
    calls = {"malloc": {"count": 600, "instructions_mean": 50}, "operator new": {"count": 400, "instructions_mean": 60}}
    run = {"allocator": "a", "repeat": 0, "pass": "instructions", "instructions_total": 54_000_000, "calls": calls}
    file = Results("c++.json", {"workload": {"name": "c++"}, "runs": [run]})
    question = Question([file], "a")
    kind = KINDS["published"]
    values, others = kind.view(kind.frame(question), question)[:2]
    assert values.title == "Total in million instructions, instructions per call, RSS (peak memory) in MiB"
    assert values.columns[2:] + others.columns[2:] == ["Total", "malloc", "operator\nnew"]
    assert [cell.text for cell in values.rows[0][2:] + others.rows[0][2:]] == ["54.0", "50.0", "60.0"]


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


def test_calls_below_one_percent_share_a_column_weighted_by_their_counts():
    """calloc 6 times, realloc 4 times of 5,000: (6 x 100 + 4 x 50) / 10 = 80; b: (6 x 200 + 4 x 0.5) / 10 = 120.2."""
    counts = {"malloc": 2500, "free": 2490, "calloc": 6, "realloc": 4}

    def runs(allocator, calloc, realloc):
        means = {"malloc": 10, "free": 5, "calloc": calloc, "realloc": realloc}
        about = {"allocator": allocator, "repeat": 0}
        timed = {call: {"count": counts[call], "mean": mean} for call, mean in means.items()}
        counted = {call: {"count": counts[call], "instructions_mean": mean} for call, mean in means.items()}
        yield about | {"pass": "time", "cycles_total": 1, "calls": timed}
        yield about | {"pass": "instructions", "instructions_total": 1, "calls": counted}

    file = Results("w.json", {"workload": {"name": "w"}, "runs": [*runs("a", 100, 50), *runs("b", 200, 0.5)]})
    tables = {table.title: table for table in comparison([file], "a")}
    for title in ("Instructions per call", "Time: cycles per call, mean"):
        table = tables[title]
        assert table.columns[-3:] == ["malloc", "free", "other"]
        assert [row[-1].value for row in table.rows] == pytest.approx([80, 120.2])
        assert any("other: calloc, realloc, each less than 1 % of all calls." in note for note in table.notes)
    for title in ("Instructions, % of a", "Time, % of a"):
        assert tables[title].columns[-3:] == ["malloc", "free", "other"]
        assert tables[title].rows[0][-1].value == pytest.approx(100 * 120.2 / 80)
    assert {f"calls/{call}" for call in counts} <= set(long_table([file], "a")["metric"]), (
        "other programs read them all"
    )
    counts |= {"calloc": 600, "malloc": 1900}
    one_alone = Results("w.json", {"workload": {"name": "w"}, "runs": [*runs("a", 100, 50)]})
    assert "realloc" in comparison([one_alone], "a")[0].columns


def test_the_smallest_limit_is_the_allocators_peak_and_the_programs_own_rounded_up():
    """Recorded on a: of the peak of 90 MiB, 90 - 50 are the program's own. 1/512 more are
    page tables, and 1/8 MiB is the kernel's: (40 + 80) x 513/512 + 1/8 = 120.36 MiB.
    """
    mib = 1 << 20
    recorded = {"recorded": [[0, 5 * mib, 0], [7, 90 * mib, 0], [9, 60 * mib, 0]], "recorded_on": "a"}

    def memory_table(about):
        runs = [
            {"allocator": name, "repeat": 0, "pass": "memory", "rss_anon_peak_bytes": peak * mib}
            for name, peak in (("a", 50), ("b", 80))
        ]
        file = Results("r.json", {"workload": {"name": "w"} | about, "runs": runs})
        return next(one for one in comparison([file], "a") if one.title.startswith("Memory, MiB"))

    found = memory_table(recorded)
    at = found.columns.index("fits in")
    assert [[row[0].text, row[at].text] for row in found.rows] == [["a", "90.4"], ["b", "121"]]
    for unknown in (
        memory_table({"recorded": recorded["recorded"]}),
        memory_table({**recorded, "recorded_on": "c"}),
        memory_table({"recorded_on": "a"}),
    ):
        assert "fits in" not in unknown.columns
