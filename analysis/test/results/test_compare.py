# SPDX-License-Identifier: MIT
"""Comparison tables: figures worked out by hand, and what is missing stays missing."""

import math

import planted_runs
import pytest
from heaptape import compare
from heaptape.common.errors import HeaptapeError
from heaptape.results.schema import call_details, figures, results
from heaptape.show import tables
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples


def run(allocator, repeat=0, **keys):
    return {"allocator": allocator, "variant": "default", "repeat": repeat, "pass": "time"} | keys


def file_of(*runs, name="w", **workload):
    return planted_runs.file_of(runs, name, **workload)


SMALL = file_of(
    run("a", 0, cycles_total=100, calls={"malloc": {"count": 2, "mean": 10.0}, "free": {"count": 2, "mean": 40.0}}),
    run("a", 1, cycles_total=110, calls={"malloc": {"count": 2, "mean": 12.0}, "free": {"count": 2, "mean": 43.0}}),
    run("b", 0, cycles_total=50, calls={"malloc": {"count": 2, "mean": 20.0}}),
    run("b", 1, cycles_total=55, calls={"malloc": {"count": 2, "mean": 6.0}}),
    ideal_rss_bytes=1000,
)


def test_percentages_by_hand():
    rows = compare.relative(figures([SMALL]), "a").set_index(["workload", "metric"])
    total = rows.loc[("w", "total_cycles")]
    assert total["percent"] == pytest.approx(50)
    assert (total["low"], total["high"]) == pytest.approx((50, 50))
    assert total["supported"] is True
    malloc = rows.loc[("w", "calls/malloc")]
    assert malloc["percent"] == pytest.approx(100)  # geometric mean of 200 and 50
    assert malloc["supported"] is False
    assert ("w", "calls/free") not in rows.index


def test_one_repetition_supports_nothing():
    rows = compare.relative(figures([file_of(run("a", cycles_total=100), run("b", cycles_total=50))]), "a")
    assert rows["supported"].tolist() == [None, None, None]
    text = tables.render_text(
        tables.comparison([file_of(run("a", cycles_total=100), run("b", cycles_total=50))], "a"), 100
    )
    assert "50.0 ?" in text


def test_zero_is_not_missing_and_missing_is_not_zero():
    file = file_of(run("a", syscalls={"mmap": 0}), run("b", syscalls={"brk": 3}))
    values = compare.absolute(figures([file])).xs("w")
    assert values.at["a", "syscalls/mmap"] == 0
    assert math.isnan(values.at["b", "syscalls/mmap"])
    text = tables.render_text(tables.comparison([file], "a"), 100)
    assert [line.split() for line in text.splitlines() if line[:2] in ("a ", "b ")] == [
        ["a", "0", "–"],
        ["b", "–", "3"],
    ]


def test_memory_is_taken_from_the_memory_pass():
    memory = run("a", rss_anon_peak_bytes=5) | {"pass": "memory"}
    file = file_of(run("a", rss_anon_peak_bytes=9), memory)
    assert compare.absolute(figures([file])).at[("w", "a"), "peak_rss"] == 5


def test_two_files_of_one_workload_are_more_repetitions():
    one = file_of(run("a", cycles_total=100), sha256="x")
    two = file_of(run("a", cycles_total=200), sha256="x")
    other = file_of(run("a", cycles_total=200), sha256="y")
    assert compare.absolute(figures([one, two])).at[("w", "a"), "total_cycles"] == 150
    assert list(compare.absolute(figures([one, other])).index.get_level_values("workload")) == ["w", "w (2)"]


def test_failed_runs_count_for_nothing():
    file = file_of(run("a", cycles_total=100), run("a", 1, error="died"), run("b", error="died"))
    assert list(figures([file])["allocator"]) == ["a"]
    assert compare.allocator_order([file]) == ["a", "b"]


def test_baseline_is_the_one_wanted_or_glibc_or_the_first():
    file = file_of(run("x", cycles_total=1), run("glibc", cycles_total=1))
    assert compare.choose_baseline([file], None) == "glibc"
    assert compare.choose_baseline([SMALL], None) == "a"
    assert compare.choose_baseline([SMALL], "b") == "b"
    with pytest.raises(HeaptapeError, match="unknown baseline 'z': the results have a, b"):
        compare.choose_baseline([SMALL], "z")


def test_variants_are_separate_columns():
    file = file_of(run("a", cycles_total=1), run("a", cycles_total=2) | {"variant": "v"})
    assert compare.allocator_order([file]) == ["a", "a:v"]


@pytest.mark.parametrize(("count", "missing"), [(99, ["p99", "p999"]), (999, ["p999"]), (1000, [])])
def test_percentiles_of_few_calls_are_missing(count, missing):
    detail = {"count": count, "mean": 5.0, "p50": 4, "p99": 9, "p999": 20, "max": 30}
    row = call_details([file_of({"allocator": "a", "calls": {"malloc": detail}})]).iloc[0]
    assert [key for key in ("p50", "p99", "p999", "max") if math.isnan(row[key])] == missing


values = st.one_of(st.none(), st.integers(-5, 10**12), st.floats())
keys = st.sampled_from(["cycles_total", "rss_anon_peak_bytes", "vm_size_peak_bytes", "page_faults", "wall_ns"])
call_tables = st.dictionaries(
    st.sampled_from(["malloc", "free", "operator new"]),
    st.dictionaries(st.sampled_from(["mean", "count", "p50"]), values),
)
system_calls = st.dictionaries(st.sampled_from(["mmap", "brk"]), values)


@st.composite
def runs_of_anything(draw):
    about = {
        "allocator": draw(st.sampled_from(["a", "b"])),
        "variant": draw(st.sampled_from([None, "", "default", "v"])),
    }
    about |= {"repeat": draw(st.integers(0, 3)), "pass": draw(st.sampled_from(["time", "memory", "bare"]))}
    tables_ = {"calls": draw(st.one_of(st.none(), call_tables)), "syscalls": draw(st.one_of(st.none(), system_calls))}
    return about | draw(st.dictionaries(keys, values)) | tables_


@examples(120)
@given(st.lists(runs_of_anything(), min_size=1, max_size=8))
def test_whatever_keys_a_run_has_or_lacks_a_table_comes_out(runs):
    file = file_of(*runs)
    baseline = compare.choose_baseline([file], None)
    found = tables.comparison([file], baseline)
    tables.render_text(found, 100)
    tables.render_markdown(found)
    compare.long_table([file], baseline).to_json(orient="records")


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(("one", "other"), [(1.7e308, 5e-324), (5e-324, 1.7e308), (1.7e308, 1.7e308)])
def test_figures_whose_sums_and_ratios_overflow_are_compared(one, other):
    runs = [run("a", repeat, cycles_total=one) for repeat in (0, 1)]
    runs += [run("b", repeat, cycles_total=other) for repeat in (0, 1)]
    file = file_of(*runs)
    tables.render_text(tables.comparison([file], "a"), 100)
    (row,) = (
        compare.long_table([file], "a")
        .query("workload == 'w' and allocator == 'b' and metric == 'total_cycles'")
        .percent
    )
    assert row == pytest.approx(100) if one == other else (row > 1e300 if other > one else row < 1e-300)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("not json", "offset 0: not a results file"),
        ("[1]", "Expected `object`, got `array`"),
        ('{"advice": []}', "r.json: not a results file of 'heaptape replay'"),
        ('{"runs": 3}', "runs: Expected `array`, got `int`"),
        ('{"schema": 2, "runs": []}', "results of schema 2; this heaptape knows 1"),
        ('{"runs": [{"variant": "x"}]}', r"runs\[0\]: Object missing required field `allocator`"),
        (
            '{"runs": [{"allocator": "a", "timeline": [[1, 2, 3]]}]}',
            r"runs\[0\].timeline\[0\]: Expected `array` of length",
        ),
        (
            '{"runs": [{"allocator": "a", "timeline": [[1, 2, 3, NaN]]}]}',
            r"runs\[0\].timeline\[0\]\[3\]: Expected `float`",
        ),
        (
            '{"runs": [], "workload": {"recorded": [[1, "x"]]}}',
            r"workload.recorded\[0\]\[1\]: Expected `float`, got `str`",
        ),
    ],
)
def test_a_file_that_has_no_results_is_refused(text, what, tmp_path):
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(HeaptapeError, match=what):
        results(path)


def test_bare_figures_are_net_of_the_engines_own():
    """12 ns of wall time and 30 cycles of 3 GHz per op, medians of the runs, of 1,000 ops."""
    own = ((10, 30), (12, 27), (13, 33))
    runs = [
        run("a", repeat, wall_ns=wall, cpu_ns=50_000, ops=1000, cycles_hz=3e9)
        | {"pass": "bare", "engine_wall_ns_per_op": own[repeat][0], "engine_cycles_per_op": own[repeat][1]}
        for repeat, wall in enumerate((30_000, 32_000, 11_000))
    ]
    table = figures([file_of(*runs)]).groupby("metric")["value"].agg(list)
    assert table["bare_wall"] == [18_000, 20_000]  # the third run took no more than the engine alone
    assert table["bare_cpu"] == [40_000] * 3


@given(st.lists(st.tuples(st.floats(0.8, 1.2), st.floats(0.8, 1.2)), min_size=2, max_size=5))
def test_an_eightfold_difference_is_never_too_noisy(noise):
    runs = [
        run(name, repeat, wall_ns=of_all * pair[at]) | {"pass": "bare"}
        for repeat, pair in enumerate(noise)
        for at, (name, of_all) in enumerate((("a", 1e6), ("b", 8e6)))
    ]
    found = compare.relative(figures([file_of(*runs)]), "a").set_index("metric").loc[["bare_wall"]]
    assert set(found["reason"]) == {""}


def test_a_narrow_table_shows_figures_before_marks() -> None:
    cells = [
        tables.Cell("glibc"),
        tables.Cell("7.19 ms"),
        tables.Cell("216 KiB"),
        tables.Cell("fastest, baseline, lean"),
    ]
    table = tables.Table("", ["", "time", "memory", ""], [cells], kept=frozenset([3]))
    assert "7.19 ms  216 KiB" in tables.render_text([table], 30)
    assert "lean" not in tables.render_text([table], 30)
    assert "lean" in tables.render_text([table], 60)
