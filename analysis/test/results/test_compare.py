# SPDX-License-Identifier: MIT
"""Comparison tables of any figures and keys. By hand: compare_by_hand.examples."""

import planted_runs
import pytest
from heaptape import compare
from heaptape.common.errors import HeaptapeError
from heaptape.results.schema import figures, results
from heaptape.show import tables
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples


def run(allocator, repeat=0, **keys):
    return {"allocator": allocator, "variant": "default", "repeat": repeat, "pass": "time"} | keys


def file_of(*runs, name="w", **workload):
    return planted_runs.file_of(runs, name, **workload)


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


@given(st.lists(st.tuples(st.floats(0.8, 1.2), st.floats(0.8, 1.2)), min_size=2, max_size=5))
def test_an_eightfold_difference_is_never_too_noisy(noise):
    runs = [
        run(name, repeat, wall_ns=of_all * pair[at]) | {"pass": "bare"}
        for repeat, pair in enumerate(noise)
        for at, (name, of_all) in enumerate((("a", 1e6), ("b", 8e6)))
    ]
    found = compare.relative(figures([file_of(*runs)]), "a").set_index("metric").loc[["bare_wall"]]
    assert set(found["reason"]) == {""}
