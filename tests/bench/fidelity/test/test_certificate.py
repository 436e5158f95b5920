# SPDX-License-Identifier: MIT
"""The certificate is what its raw results say; predictions are made from replays and live runs."""

from tests.bench.fidelity.__main__ import main
from tests.bench.fidelity.prediction import predict
from tests.bench.fidelity.raw import read_results, write_results
from tests.support import REPOSITORY

MIB = 1 << 20
RAW = REPOSITORY / "docs" / "methods" / "fidelity"


def test_the_certificate_and_the_errors_that_comparisons_carry_are_those_of_the_raw_results(tmp_path) -> None:
    raw = [path for folder in ("", "counted", "timed") for path in sorted((RAW / folder).glob("*.json.zst"))]
    written, carried = tmp_path / "FIDELITY.md", tmp_path / "fidelity.json"
    assert main(["--read", *map(str, raw), "--write", str(written), "--table", str(carried)]) == 0
    assert written.read_text() == (RAW.parent / "FIDELITY.md").read_text()
    assert carried.read_text() == (REPOSITORY / "analysis/heaptape/results/fidelity.json").read_text()
    (one,) = read_results(raw[-1:])
    write_results(one, tmp_path / "again.json.zst")
    assert read_results([tmp_path / "again.json.zst"]) == [one]


def test_the_own_part_of_an_aligned_mean_is_of_runs_under_the_recorder() -> None:
    lived = [
        {"allocator": "glibc", "kind": "memory"} | of_replay(100, 50),
        *({"allocator": "glibc", "kind": "recorded", "rss_anon_aligned_mean_bytes": mean} for mean in (58, 62)),
    ]
    replays = {
        label: [of_replay(peak, 40) | {"rss_anon_aligned_mean_bytes": mean}]
        for label, peak, mean in (("glibc", 80, 41), ("jemalloc", 90, 45))
    }
    found = predict(replays, lived, "glibc")["jemalloc"]
    assert (found["rss_anon_aligned_mean_bytes"], found["own_aligned_mean_bytes"]) == (64, 19)
    assert found["rss_anon_peak_bytes"] == 110


def test_the_own_part_is_what_the_live_run_had_above_the_replay_of_the_recordings_allocator() -> None:
    peaks = {"glibc": (100, 102, 101), "jemalloc": (500,)}
    lived = [
        {"allocator": label, "kind": "memory"} | of_replay(peak * MIB, peak * MIB / 2)
        for label, runs in peaks.items()
        for peak in runs
    ]
    figures = {"glibc": [(80, 40), (82, 40)], "jemalloc": [(95, 45), (97, 45)]}
    replays = {label: [of_replay(peak * MIB, mean * MIB) for peak, mean in runs] for label, runs in figures.items()}
    found = predict(replays, lived, "glibc")
    assert found["jemalloc"]["rss_anon_peak_bytes"] == (101 - 81 + 96) * MIB
    assert found["jemalloc"]["vm_size_peak_bytes"] == 3 * (101 - 81 + 96) * MIB
    assert found["jemalloc"]["own_at_peak_bytes"] == 20 * MIB
    assert found["jemalloc"]["rss_anon_mean_bytes"] == 50.5 * MIB - 40 * MIB + 45 * MIB
    assert found["glibc"]["rss_anon_mean_bytes"] == 50.5 * MIB
    assert found["glibc"]["own_mean_bytes"] == 10.5 * MIB
    assert "rss_anon_wall_mean_bytes" not in found["glibc"]


def of_replay(peak: float, mean: float) -> dict[str, float]:
    return {"rss_anon_peak_bytes": peak, "vm_size_peak_bytes": 3 * peak, "rss_anon_mean_bytes": mean}
