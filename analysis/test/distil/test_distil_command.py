# SPDX-License-Identifier: MIT
"""`heaptape distil` on planted histories: what it keeps, which error it reports, what it refuses. Long: histories
without a rare phase, and the same twice.
"""

import json
import re

import pytest
from heaptape.distil import measured

from analysis.test.distil.planted_histories import drifting, stationary, with_rare_phase
from tests.support import call_heaptape, check, compile_trace, import_text, info, published

ALLOCATORS = [word for name in ("glibc", "reference", "magazine") for word in ("-a", name)]


def distil(source, tape, *options):
    result = call_heaptape("distil", source, "-o", tape, *ALLOCATORS, *options)
    assert result.status == 0, result.stderr
    return result


@pytest.fixture(
    scope="module",
    params=[with_rare_phase, *(pytest.param(one, marks=pytest.mark.long) for one in (stationary, drifting))],
    ids=lambda make: make.__name__,
)
def planted(request, tmp_path_factory):
    """A workload, its distillate, and the command's JSON output."""
    folder = tmp_path_factory.mktemp(request.param.__name__)
    workload = request.param(folder)
    output = published("distil", distil(workload, folder / "d.tape", "--ratio", "0.2", "--json").stdout)
    return workload, folder / "d.tape", output


def test_a_distillate_is_a_legal_history_of_no_more_ops_than_asked_for(planted):
    _, tape, output = planted
    assert check(tape)["ok"]
    assert check(tape)["events"] == output["ops"] <= 0.2 * output["whole_ops"]


def test_its_trace_has_the_errors_of_each_allocator_and_figure(planted):
    _, tape, output = planted
    manifest = info(tape)["distilled"]
    assert manifest["expected"] == pytest.approx(output["distilled"]["expected"], rel=1e-4)
    assert [row["error_percent"] for row in manifest["errors"]] == pytest.approx(
        [row["error_percent"] for row in output["distilled"]["errors"]], rel=1e-4
    )
    assert {(row["allocator"], row["figure"]) for row in manifest["errors"]} == {
        (allocator, figure)
        for allocator in ("glibc", "reference", "magazine")
        for figure in ("instructions", "instructions/malloc", "instructions/free", "rss-peak", "rss-mean")
    }
    for row in manifest["errors"]:
        assert abs(row["error_percent"]) <= 2 * max(row["expected_percent"], 1)
        assert row.get("sampling_percent", 0) <= manifest["sampling"].get(row["figure"], 0)
    # Half of a 95 % interval: one of the 15 may be beyond it.
    beyond = [row for row in manifest["errors"] if abs(row["error_percent"]) > max(row["expected_percent"], 1)]
    assert len(beyond) <= 1, beyond
    assert set(manifest["sampling"]) == {"instructions", "instructions/malloc", "instructions/free"}


def test_the_peak_of_live_bytes_is_kept(planted):
    workload, tape, _ = planted
    assert info(compile_trace(tape))["peak_live_bytes"] == info(workload)["peak_live_bytes"]


def test_what_makes_the_memory_is_kept(planted):
    """Also the phase of 0.5 % of the ops, whose survivors hold nearly empty OS pages to the end."""
    _, _, output = planted
    for row in output["distilled"]["errors"]:
        assert row["figure"].startswith("instructions") or abs(row["error_percent"]) < 10, row


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return stationary(tmp_path_factory.mktemp("small"), turns=1000)


@pytest.mark.long
def test_the_same_command_makes_the_same_file(small, tmp_path):
    for name in ("one.tape", "two.tape"):
        result = distil(small, tmp_path / name, "--ops", "100", "--kind", "time")
    assert (tmp_path / "one.tape").read_bytes() == (tmp_path / "two.tape").read_bytes()
    assert len(result.stdout.splitlines()) <= 24
    assert "100 ops can't be kept" in result.stderr


def test_a_size_that_can_not_be_reached_is_refused_before_anything_is_replayed(small, tmp_path, monkeypatch):
    monkeypatch.setattr(measured, "whole", None)
    result = call_heaptape("distil", small, "-o", tmp_path / "d.tape", *ALLOCATORS, "--ops", "10")
    assert result.status == 1
    assert re.search(r"can't be distilled to 10 of its [0-9,]+ ops: the objects at the peak need ", result.stderr)
    assert not (tmp_path / "d.tape").exists()


def test_an_error_that_can_not_be_kept_is_said(small, tmp_path):
    result = distil(small, tmp_path / "d.tape", "--error", "0.000001", "--kind", "memory")
    assert "an error of 1e-06 % can't be kept" in result.stderr


def test_of_memory_alone_instructions_are_not_reported(small, tmp_path):
    output = json.loads(distil(small, tmp_path / "d.tape", "--kind", "memory", "--json").stdout)
    assert sorted(output["distilled"]["expected"]) == ["rss-mean", "rss-peak"]


def test_a_distillate_and_a_history_without_calls_are_refused(planted, tmp_path):
    _, tape, _ = planted
    for source, says in ((tape, "is a distillate itself"), (import_text(tmp_path, ""), "no calls")):
        result = call_heaptape("distil", source, "-o", tmp_path / "none.tape", *ALLOCATORS)
        assert result.status == 1
        assert says in result.stderr
        assert not (tmp_path / "none.tape").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--ratio", "0"], "--ratio: a share"),
        (["--ratio", "1.5"], "--ratio: a share"),
        (["--ops", "0"], "--ops: a number"),
        (["--error", "-1"], "--error: percent"),
        (["--seed", "-1"], "--seed"),
        (["-a", "glibc", "-a", "glibc:no-tcache", "-a", "reference"], "at least three allocators"),
    ],
)
def test_wrong_usage_is_refused(tmp_path, options, says):
    result = call_heaptape("distil", tmp_path / "none.tape", "-o", tmp_path / "d.tape", *options)
    assert result.status == 2
    assert says in result.stderr
