# SPDX-License-Identifier: MIT
"""Workloads from a profile: legal, similar to it, the same for the same seed, and marked synthetic everywhere."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from heaptape.synth.distributions import distributions, spread
from heaptape.tape.workload_format import read_workload
from hypothesis import given
from hypothesis import strategies as st

from replay.test.engine import make
from tests.examples import examples
from tests.support import CONVERT, HEAPTAPE_HERE, REPOSITORY, assert_clean, call_heaptape, info, refused, succeed

CORPUS = REPOSITORY / "workloads" / "corpus"


def profile_of(tape: Path, folder: Path) -> dict:
    path = folder / f"{tape.stem}.json"
    assert call_heaptape("profile", tape, "--format", "json", "-o", path).status == 0
    return json.loads(path.read_text())


def drawn(profile: dict, folder: Path, *options: object) -> Path:
    """Draws a trace, each into a separate file."""
    source, tape = folder / "profile.json", folder / f"synthetic-{len(list(folder.iterdir()))}.tape"
    source.write_text(json.dumps(profile))
    made = call_heaptape("synth", source, "-o", tape, *map(str, options))
    assert made.status == 0, made.stderr
    return tape


@pytest.fixture(scope="module", params=["qemu-virtio", "gs"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, Path, dict]:
    """A recording's profile, the trace drawn from it, and that trace's profile."""
    folder = tmp_path_factory.mktemp("synth")
    profile = profile_of(CORPUS / f"{request.param}.tape", folder)
    tape = drawn(profile, folder)
    return profile, tape, profile_of(tape, folder)


def test_it_is_a_legal_history_of_as_many_calls(pair: tuple[dict, Path, dict]) -> None:
    profile, tape, again = pair
    assert_clean(tape)
    assert again["ops"] == pytest.approx(profile["ops"], rel=0.01)


def test_calls_and_sizes_are_those_of_the_profile(pair: tuple[dict, Path, dict]) -> None:
    profile, _, again = pair
    for call, rows in profile["sizes"].items():
        of = {size: count for size, count, _ in again["sizes"][call]}
        apart = sum(abs(of.get(size, 0) - count) for size, count, _ in rows)
        assert apart <= 0.05 * sum(count for _, count, _ in rows) + len(rows), call


def test_the_live_curve_is_that_of_the_profile(pair: tuple[dict, Path, dict]) -> None:
    """At the ends of parts of 4,096 births: a short recording has few of them, and between them the curve may swing."""
    profile, _, again = pair
    highest = max(row[6] for row in profile["windows"])
    places = [row[0] / profile["ops"] for row in profile["windows"]]
    live = np.interp(places, [row[0] / again["ops"] for row in again["windows"]], [row[6] for row in again["windows"]])
    off = np.abs(live - [row[6] for row in profile["windows"]]) / highest
    assert np.median(off) < (0.05 if profile["ops"] > 100_000 else 0.2)
    assert again["witness"]["peak_live_bytes"] == pytest.approx(profile["witness"]["peak_live_bytes"], rel=0.1)
    assert again["witness"]["live_at_end"] == pytest.approx(profile["witness"]["live_at_end"], rel=0.02, abs=50)


def test_lifetimes_are_those_of_the_profile(pair: tuple[dict, Path, dict]) -> None:
    """By octaves of bytes allocated meanwhile: an age is drawn within its octave, and live counts shift some."""
    profile, _, again = pair

    def shares(of: dict) -> np.ndarray:
        counts = np.zeros(64)
        for _, age, objects, _ in of["lifetimes_bytes"]:
            counts[age.bit_length()] += objects
        return counts.cumsum() / counts.sum()

    assert np.abs(shares(profile) - shares(again)).max() < 0.15


def test_threads_that_free_what_others_acquired_do_so_as_often(tmp_path: Path) -> None:
    whole = tmp_path / "whole.work"
    make(whole, ops=20_000, threads=5, live_objects=100, remote_percent=40)
    tape = tmp_path / "whole.tape"
    succeed(CONVERT, "reduce", whole, "-o", tape)
    profile = profile_of(tape, tmp_path)
    again = profile_of(drawn(profile, tmp_path), tmp_path)

    def remote(of: dict) -> float:
        return sum(row[2] for row in of["thread_pairs"] if row[0] != row[1]) / sum(row[2] for row in of["thread_pairs"])

    assert again["threads"] == profile["threads"]
    assert remote(again) == pytest.approx(remote(profile), abs=0.05)


def test_reallocs_grow_as_often_and_as_far(tmp_path: Path) -> None:
    profile = profile_of(CORPUS / "cc1.tape", tmp_path)
    again = profile_of(drawn(profile, tmp_path), tmp_path)
    assert again["reallocs"]["calls"] == pytest.approx(profile["reallocs"]["calls"], rel=0.05)

    def grown(of: dict) -> float:
        return sum(row[3] for row in of["reallocs"]["chains"]) / sum(row[2] for row in of["reallocs"]["chains"])

    assert grown(again) == pytest.approx(grown(profile), rel=0.1)


def test_the_same_seed_gives_the_same_events_and_another_others(tmp_path: Path) -> None:
    profile = profile_of(CORPUS / "gs.tape", tmp_path)
    one, same, other = (
        hashlib.sha256(succeed(CONVERT, "dump", drawn(profile, tmp_path, "--seed", seed)).stdout.encode()).digest()
        for seed in (7, 7, 8)
    )
    assert one == same
    assert one != other


@pytest.mark.parametrize("times", [0.1, 3])
def test_another_length_scales_births_and_never_grows_the_heap(tmp_path: Path, times: float) -> None:
    profile = profile_of(CORPUS / "gs.tape", tmp_path)
    tape = drawn(profile, tmp_path, "--ops", round(times * profile["ops"]))
    again = assert_clean(tape)
    assert again["ops"] == pytest.approx(times * profile["ops"], rel=0.05)
    assert again["peak_live_bytes"] < 1.3 * profile["witness"]["peak_live_bytes"]
    assert "expected" not in info(tape)["info"]["synthetic"]


def test_it_is_called_synthetic_in_trace_workload_and_results(tmp_path: Path) -> None:
    profile = profile_of(CORPUS / "gs.tape", tmp_path) | {"program": "gs"}
    tape = drawn(profile, tmp_path, "--seed", 3)
    label = info(tape)["info"]["synthetic"]
    assert label["profile"] == {"program": "gs", "ops": profile["ops"], "threads": 1}
    assert label["seed"] == 3
    assert "order" in label["lacks"]
    assert "drawn from the profile of gs" in succeed(CONVERT, "info", tape).stdout
    work, result = tmp_path / "s.work", tmp_path / "s.json"
    succeed(CONVERT, "compile", tape, "-o", work)
    assert read_workload(work).info["synthetic"] == label
    call_heaptape("replay", work, "-a", "glibc", "--passes", "memory", "-n", "1", "-o", result)
    assert json.loads(result.read_text())["workload"]["synthetic"]["seed"] == 3
    shown = " ".join(call_heaptape("compare", result).stdout.split())
    assert "is a synthetic workload, drawn from the profile of gs, not recorded" in shown
    piece, unnamed = tmp_path / "piece.tape", tmp_path / "unnamed.tape"
    succeed(CONVERT, "convert", "--slice", "progress=10%..50%", tape, piece)
    assert "expected" not in info(piece)["info"]["synthetic"]
    succeed(CONVERT, "convert", "--anonymise", tape, unnamed)
    assert "program" not in info(unnamed)["info"]["synthetic"]["profile"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "offset 1: not a profile"),
        ("[]", "Expected `object`"),
        ('{"ops": 0, "windows": [], "sizes": {}, "lifetimes_bytes": []}', "ops: "),
        ('{"ops": 1, "windows": [[0]], "sizes": {}, "lifetimes_bytes": []}', "windows[0]"),
        ('{"ops": 1, "windows": [[0,0,1,1,0,8,0,0]], "sizes": {"free": [[8,1,8]]}, "lifetimes_bytes": []}', "'free'"),
        ('{"ops": 1, "windows": [[0,0,1,1,0,8,0,-1]], "sizes": {}, "lifetimes_bytes": []}', ">= 0"),
    ],
)
def test_a_malformed_profile_is_one_clear_error_and_leaves_no_file(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "bad.json").write_text(text)
    result = refused(HEAPTAPE_HERE, "synth", tmp_path / "bad.json", "-o", tmp_path / "s.tape", says=says)
    assert "bad.json" in result.stderr
    assert not (tmp_path / "s.tape").exists()


@pytest.mark.parametrize("text", ["{", "3", '["a"]', '{"a": 1, "a": 2}'])
def test_a_malformed_label_in_text_is_refused_by_file_and_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.txt").write_text(f"# heaptape-text 1 clock=ordinal synthetic={text}\n0 0 malloc(1) = 0x10\n")
    tape = tmp_path / "s.tape"
    refused(CONVERT, "convert", tmp_path / "bad.txt", tape, says="bad.txt:1: synthetic= is not a JSON object")
    assert not tape.exists()


@examples(50)
@given(data=st.data())
def test_births_are_spread_such_that_sizes_and_windows_come_out(data: st.DataObject) -> None:
    """Planted: a table with a power of the size in each window is recovered from its sums alone."""
    kinds, windows = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 6))
    random = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    sizes = np.sort(random.choice(np.arange(1, 4000), kinds, replace=False)).astype(float)
    table = (
        random.integers(10, 1000, (windows, 1)) * random.random(kinds) * sizes ** random.uniform(-1, 1, (windows, 1))
    )
    found = spread(table.sum(axis=0), sizes, table.sum(axis=1), table @ sizes)
    assert found.sum(axis=0) == pytest.approx(table.sum(axis=0))
    for axis in (np.ones(kinds), sizes):
        assert np.abs(found @ axis - table @ axis).sum() <= 0.1 * (table @ axis).sum()


def test_a_profile_of_nothing_but_calls_without_objects_is_drawn(tmp_path: Path) -> None:
    profile = {"ops": 5, "windows": [[0, 0, 5, 0, 0, 0, 0, 0]], "sizes": {}, "lifetimes_bytes": []}
    assert distributions("p", profile).kinds.births.size == 0
    assert assert_clean(drawn(profile, tmp_path))["ops"] == 5
