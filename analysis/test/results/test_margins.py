# SPDX-License-Identifier: MIT
"""Workloads that stand for another: every figure has its margin, and nothing is ranked within margins."""

import json

import pytest
from heaptape.commands import main
from heaptape.common.home import Home
from heaptape.common.tables import render_markdown, render_text
from heaptape.passes.fragmentation import FILLS, MEASURED
from heaptape.results import margins
from heaptape.results.comparing.compare import long_table, relative
from heaptape.results.comparing.summary import in_words
from heaptape.results.comparing.verdicts import verdicts
from heaptape.results.schema import Results, figures, results
from heaptape.show.tables.decision_tables import conclusion
from heaptape.show.tables.kinds import KINDS, Question
from heaptape.show.tables.usual import comparison
from hypothesis import assume, given
from hypothesis import strategies as st
from planted_runs import file_of, runs_of
from synthetic_results import encode_fragmentation, make_results

from tests.examples import examples

WEIGHT = 100  # of the only kept window
EXPECTED = {"instructions": 1.0, "rss-peak": 2.0}
MANIFEST = {
    "version": 2,
    "kind": "both",
    "whole": {"name": "server", "sha256": "0" * 64, "ops": 5_000_000, "threads": 4, "peak_live_bytes": 4 << 20},
    "ratio": 0.01,
    "segments": [[0, 100, 50_000, 2_000_000, 2_050_000, float(WEIGHT)]],
    "map": [[0, 0], [50_000, 5_000_000]],
    "errors": [{"allocator": "glibc", "figure": "rss-peak", "error_percent": -0.4, "expected_percent": 1.7}],
    "expected": EXPECTED,
}
# The ratio of two peaks, each within 2 % of the whole's.
OF_PEAKS = 100 * (1.02 / 0.98 - 1)


def distillate(peaks: dict, instructions: dict | None = None, **about: object) -> Results:
    faults = dict.fromkeys(peaks, (100, 100))
    runs = runs_of("memory", "rss_anon_peak_bytes", {name: (value, value) for name, value in peaks.items()})
    for run, fault in zip(runs, [value for values in faults.values() for value in values]):
        run["page_faults"] = fault + (run["allocator"] != "glibc")
    for name, value in (instructions or {}).items():
        counted = runs_of("instructions", "instructions_total", {name: (value, value)})
        windows = {"positions": [100, 50_000], "instructions": {"malloc": [value // WEIGHT]}}
        runs += [run | {"windows": windows} for run in counted]
    return file_of(runs, "cut", **(about or {"distilled": MANIFEST}))


def of_peaks(peaks: dict) -> dict:
    frame = verdicts(distillate(peaks), "glibc", figures=("peak_rss",))
    return frame.iloc[0].to_dict()


def test_every_figure_carries_its_margin() -> None:
    table = figures([distillate({"glibc": 100 << 20, "jemalloc": 90 << 20}, {"glibc": 10**9})])
    found = table.groupby("metric")["margin_percent"].first()
    assert found["peak_rss"] == 2.0
    assert found["total_instructions"] == 1.0
    assert found["page_faults"] == margins.NONE_KNOWN


def test_instructions_are_those_of_the_whole_by_the_windows_and_their_weights() -> None:
    windows = {"positions": [100, 50_000], "instructions": {"malloc": [30], "free": [12]}}
    runs = [run | {"windows": windows} for run in runs_of("instructions", "instructions_total", {"glibc": (50,)})]
    table = figures([file_of(runs, "cut", distilled=MANIFEST)])
    assert table[["metric", "value", "margin_percent"]].to_numpy().tolist() == [["total_instructions", 4200.0, 1.0]]


def test_instructions_of_a_kind_of_call_and_misses_are_those_of_the_whole() -> None:
    cache = "misses/all/cache_64"
    expected = {"instructions/free": 3.0, cache: 4.0}
    manifest = MANIFEST | {"version": 2, "expected": expected}
    manifest["whole"] = MANIFEST["whole"] | {"calls": {"malloc": 10, "free": 7}}
    windows = {"positions": [100, 50_000], "instructions": {"malloc": [30], "free": [14]}}
    calls = {"malloc": {"count": 1, "instructions_mean": 30.0}, "free": {"count": 1, "instructions_mean": 14.0}}
    level = {"bytes": 64, "ways": 1, "misses": 9}
    missed = {"positions": [0, 100, 50_000], "caches": [{"bytes": 64, "misses": [2, 3, 8]}], "tlbs": []}
    runs = [run | {"windows": windows, "calls": calls} for run in runs_of("instructions", "of", {"glibc": (50,)})]
    misses = {"caches": [level], "program": {"caches": [level]}, "windows": missed}
    runs += [run | {"misses": misses} for run in runs_of("misses", "of", {"glibc": (50,)})]
    table = figures([file_of(runs, "cut", distilled=manifest)]).set_index("metric")[["value", "margin_percent"]]
    assert table.loc["instructions/free"].tolist() == [200.0, 3.0]
    assert table.loc["instructions/malloc"].tolist() == [30.0, margins.NONE_KNOWN]
    assert table.loc[cache].tolist() == [503.0, 4.0]
    assert table.loc["misses/program/cache_64"].tolist() == [9.0, margins.NONE_KNOWN]


def test_a_manifest_may_have_null_for_what_it_lacks() -> None:
    plain, nulls = (distillate({"glibc": 70}, distilled=MANIFEST | more) for more in ({}, {"corrections": None}))
    assert figures([plain]).equals(figures([nulls]))


def test_an_infinite_result_is_not_an_estimate() -> None:
    correction = {"rss-peak": {"model": "factor", "value": 1e308}}
    table = figures([distillate({"glibc": 70}, distilled=MANIFEST | {"corrections": correction})]).set_index("metric")
    assert table.loc["peak_rss", "value"].tolist() == [70, 70]


@pytest.mark.parametrize("manifest", [MANIFEST, MANIFEST | {"version": 3}])
def test_what_cannot_be_estimated_is_the_runs_own_without_a_margin(manifest: dict) -> None:
    version = manifest["version"]
    runs = runs_of("instructions", "instructions_total", {"glibc": (50,)})
    runs += runs_of("memory", "rss_anon_peak_bytes", {"glibc": (70,)}) if version == 3 else []
    table = figures([file_of(runs, "cut", distilled=manifest)])
    assert set(table["value"]) == ({50.0, 70.0} if version == 3 else {50.0})
    assert (table["margin_percent"] == margins.NONE_KNOWN).all()


def test_the_ideal_is_that_of_the_whole() -> None:
    file = distillate({"glibc": 1000}, ideal_rss_bytes=7, distilled=MANIFEST)
    table = figures([file]).set_index("metric")
    assert table.at["ideal_rss", "value"] == 4 << 20
    assert table.at["ideal_rss", "margin_percent"] == 0


def test_figures_of_the_whole_itself_carry_none() -> None:
    plain = file_of(runs_of("memory", "rss_anon_peak_bytes", {"glibc": (5, 5), "jemalloc": (6, 6)}))
    assert (figures([plain])["margin_percent"] == 0).all()
    assert "±" not in render_text(comparison([plain], "glibc"), 200)
    assert not margins.sentences([plain])


@pytest.mark.parametrize("percent", [0.5, 2.0, OF_PEAKS - 0.01])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_difference_within_the_margin_of_a_ratio_is_not_ranked(percent: float, sign: int) -> None:
    ratio = (1 + percent / 100) ** sign
    peaks = {"glibc": 10**9, "jemalloc": round(10**9 * ratio)}
    assert of_peaks(peaks)["verdict"] == "within margin"
    row = relative(figures([distillate(peaks)]), "glibc").query("metric == 'peak_rss' and workload == 'cut'").iloc[0]
    assert row["supported"] is False
    assert row["low"] <= 100 <= row["high"]
    assert not row["exact"]


@pytest.mark.parametrize("percent", [4.2, 20.0])
def test_a_difference_beyond_the_margin_is_claimed_with_it(percent: float) -> None:
    row = of_peaks({"glibc": 10**9, "jemalloc": round(10**9 * (1 + percent / 100))})
    assert row["verdict"] == "more"
    assert row["margin_percent"] == 2.0
    assert row["low"] == pytest.approx((100 + percent) / (1 + OF_PEAKS / 100) - 100)
    assert not row["exact"]
    assert "(exact" not in row["sentence"]
    assert "±" in row["sentence"]


@examples(60)
@given(
    st.tuples(st.integers(10**9, 10**11), st.integers(10**9, 10**11)),
    st.tuples(st.floats(-1, 1) | st.sampled_from([-1, 1]), st.floats(-1, 1) | st.sampled_from([-1, 1])),
    st.floats(0.1, 99) | st.floats(100, 1000),
)
def test_the_truth_is_within_and_in_the_order_of_the_ranks(truths: tuple, errors: tuple, margin: float) -> None:
    """Whatever two figures of the whole are, and however far the estimates are off within the margin."""
    missed = 0.999 * margin / 100  # not all of it, as bytes are whole
    estimates = [round(truth * (1 + error * missed)) for truth, error in zip(truths, errors)]
    assume(min(estimates) > 10**6)
    for truth, estimate in zip(truths, estimates):
        low, high = margins.bounds(estimate, margin)
        assert low <= truth <= high
    manifest = MANIFEST | {"expected": {"rss-peak": margin}}
    file = distillate(dict(zip(["glibc", "jemalloc"], estimates)), distilled=manifest)
    row = relative(figures([file]), "glibc").query("metric == 'peak_rss' and workload == 'cut'").iloc[0]
    assert row["low"] <= 100 * truths[1] / truths[0] <= row["high"]
    verdict = verdicts(file, "glibc", figures=("peak_rss",)).iloc[0]
    assert row["supported"] == (verdict["verdict"] != "within margin")
    if row["supported"]:
        assert margin < margins.UNBOUNDED
        assert verdict["verdict"] == ("more" if truths[1] > truths[0] else "less")


@pytest.mark.parametrize("margin", [100.0, 106.0])
def test_a_comparison_says_that_a_margin_forbids_ranking(margin: float) -> None:
    file = distillate({"glibc": 1, "jemalloc": 10**12}, distilled=MANIFEST | {"expected": {"rss-peak": margin}})
    [sentence] = verdicts(file, "glibc", figures=("peak_rss",))["sentence"]
    assert f"a margin of {margin:.0f} % forbids ranking jemalloc and glibc" in sentence
    text = " ".join(render_text(comparison([file], "glibc"), 300).split())
    assert "nor at all by rss-peak (100 % or more)" in text
    assert "‡: a margin of 100 % or more forbids ranking" in text


def test_equal_figures_are_not_called_the_same() -> None:
    row = of_peaks({"glibc": 10**9, "jemalloc": 10**9})
    assert row["verdict"] == "within margin"
    assert "2.0 % each" in row["sentence"]


def test_a_figure_without_a_margin_gets_no_verdict_however_far_apart() -> None:
    frame = verdicts(distillate({"glibc": 10, "jemalloc": 10}), "glibc", figures=("page_faults",))
    assert list(frame["verdict"]) == ["no margin"]
    text = render_text(comparison([distillate({"glibc": 10, "jemalloc": 10})], "glibc"), 200)
    assert f"101 {margins.MARK}" in text
    assert f"101.0 {margins.MARK}" in text


def test_a_mean_over_workloads_is_widened_by_the_mean_of_what_they_are() -> None:
    whole = file_of(runs_of("memory", "rss_anon_peak_bytes", {"glibc": (100, 100), "jemalloc": (101, 101)}), "whole")
    files = [whole, distillate({"glibc": 1000, "jemalloc": 1010})]
    rows = relative(figures(files), "glibc").set_index(["workload", "metric"])["margin_percent"]
    assert rows["whole", "peak_rss"] == 0
    assert rows["cut", "peak_rss"] == 2.0
    low, high = margins.widened(100, 100, rows["geometric mean", "peak_rss"])
    assert high / low == pytest.approx(1 + OF_PEAKS / 100)
    assert rows["arithmetic mean", "peak_rss"] == 2.0
    frame = verdicts(files, "glibc", figures=("peak_rss",)).set_index("workload")["verdict"]
    assert dict(frame) == {"whole": "more", "cut": "within margin", "geometric mean": "within margin"}


def test_the_error_of_replaying_is_beside_the_margin() -> None:
    file = distillate({"glibc": 1000, "jemalloc": 1080})
    row = verdicts(file, "glibc", figures=("peak_rss",), error_of=lambda figure, a, b: 5.0).iloc[0]
    assert row["verdict"] == "within error"


@pytest.mark.parametrize("render", [render_text, render_markdown])
def test_tables_print_it_beside_each_figure_and_say_what_it_is(render) -> None:
    file = distillate({"glibc": 100 << 20, "jemalloc": 90 << 20}, {"glibc": 10**9, "jemalloc": 2 * 10**9})
    text = render(comparison([file], "glibc"))
    for figure in ("100 ±2.0 %", "90.0 ±2.0 %", "1,000 ±1.0 %", "2,000 ±1.0 %"):
        assert figure in text
    flat = " ".join(text.split())
    assert "cut is a distillate, 1.0 % of the 5,000,000 ops of server" in flat
    assert "instructions ±1.0 %, rss-peak ±2.0 %" in flat
    assert "(exact)" not in flat


@pytest.mark.parametrize("kind", ["overhead", "verdict"])
def test_each_table_of_estimated_figures_has_the_margin(kind: str) -> None:
    file = distillate({"glibc": 100 << 20, "jemalloc": 150 << 20}, ideal_rss_bytes=64 << 20, distilled=MANIFEST)
    question = Question([file], "glibc")
    frame = KINDS[kind].frame(question)
    assert any("margin_percent" in column for column in frame.columns)
    text = render_text(KINDS[kind].view(frame, question), 300)
    assert "±" in text or "(" in text


@pytest.mark.parametrize("kind", ["misses", "latency", "fragmentation"])
def test_tables_without_estimates_say_what_they_are_of(kind: str, tmp_path, capsys) -> None:
    data = make_results(repeats=1) | {"workload": {"name": "cut", "ops": 1000, "distilled": MANIFEST}}
    for run in data["runs"]:
        if run["pass"] == "memory":
            run["fragmentation"] = encode_fragmentation(
                [0], [dict.fromkeys([*MEASURED, *FILLS, "rss_anon_bytes"], 4096)]
            )
    counts = {"instructions": 7, "misses": 5}
    misses = {"all": counts, "program": counts, "allocator": counts, "caches": [{"bytes": 1, "misses": 5}]}
    data["runs"].append({"allocator": "glibc", "variant": "default", "pass": "misses", "repeat": 0, "misses": misses})
    (tmp_path / "r.json").write_text(json.dumps(data))
    assert main.run(["compare", str(tmp_path / "r.json"), "--table", kind], Home(tmp_path)) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "cut is a distillate" in text
    assert f"Figures with {margins.MARK} or no margin are of the distillate itself" in text


def test_overhead_is_off_by_as_many_bytes_as_its_peak() -> None:
    file = distillate({"glibc": 100 << 20, "jemalloc": 150 << 20}, distilled=MANIFEST, ideal_rss_bytes=1)
    text = render_text(comparison([file], "glibc"), 300)
    assert "96.0 ±2.1 %" in text


def test_sentences_begin_with_what_the_workload_is_and_claim_nothing_within_it() -> None:
    words = in_words(distillate({"glibc": 1000, "jemalloc": 1010}, {"glibc": 10**9, "jemalloc": 3 * 10**9}))
    text = " ".join(words)
    assert "is a distillate" in text
    assert "needs 200" in text
    assert "more RSS" not in text


@pytest.mark.parametrize(("ratio", "margin", "beyond"), [(0.8, 10.0, True), (0.83, 10.0, False), (0.01, 100.0, False)])
def test_tune_says_whether_a_change_is_beyond_both_margins(ratio: float, margin: float, beyond: bool) -> None:
    winner = {"settings": {"a": 1}, "environment": {"A": "1"}, "standing": "better", "ratios_again": {}}
    lines = conclusion(
        {
            "winner": winner | {"ratios": {"rss-peak": ratio}},
            "search": {"objectives": ["rss-peak"], "figures": ["rss-peak"]},
            "stand_ins": {"cut": {"kind": "distillate", "expected": {"rss-peak": margin}}},
            "error_percent": {"rss-peak": None},
            "points": [{"settings": {}, "figures": {"cut": {"rss-peak": 1}}, "again": []}],
        }
    )
    [line] = [line for line in lines if line.startswith("cut is a distillate")]
    assert (" the change is beyond" in line) == beyond


def test_machine_readable_forms_have_kind_and_margins(tmp_path, capsys) -> None:
    path = tmp_path / "cut.json"
    file = distillate({"glibc": 1000, "jemalloc": 1010}, distilled=MANIFEST, ideal_rss_bytes=64)
    path.write_text(json.dumps(file.data))
    assert results(path).workload.distilled.expected == EXPECTED
    home = Home(tmp_path)
    assert main.run(["compare", str(path), "--format", "json"], home) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["stand_ins"] == {"cut": {"kind": "distillate", "expected": EXPECTED}}
    row = next(r for r in data["rows"] if (r["allocator"], r["metric"]) == ("jemalloc", "peak_rss"))
    assert row["margin_percent"] == 2.0
    assert row["supported"] is False
    assert main.run(["compare", str(path), "--format", "csv"], home) == 0
    assert "is a distillate" in capsys.readouterr().err
    assert main.run(["compare", str(path), "--table", "overhead", "--format", "json"], home) == 0
    assert json.loads(capsys.readouterr().out)["tables"]["overhead"][0]["rss_bytes_margin_percent"] == 2.0


@pytest.mark.parametrize("expected", [{"rss-peak": -1}, {"rss-peak": "2"}, [2], {"rss-peak": None}])
def test_a_malformed_margin_is_refused_by_file(tmp_path, expected: object) -> None:
    path = tmp_path / "bad.json"
    data = distillate({"glibc": 1000}, distilled=MANIFEST | {"expected": expected}).data
    path.write_text(json.dumps(data))
    with pytest.raises(Exception, match="bad.json.*expected"):
        results(path)


def test_the_long_table_keeps_the_margin_of_each_figure() -> None:
    table = long_table([distillate({"glibc": 1000, "jemalloc": 1010})], "glibc")
    found = table[table["workload"] == "cut"].set_index(["allocator", "metric"])["margin_percent"]
    assert found["glibc", "peak_rss"] == 2.0
