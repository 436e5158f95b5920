# SPDX-License-Identifier: MIT
"""The certificate computed from raw results."""

import pytest

from tests.bench.fidelity.certificate import carried_errors, errors, pairs, summary
from tests.bench.fidelity.certificate_document import document
from tests.bench.fidelity.prediction import predict

MIB = 1 << 20
ABOUT = {"created_unix_s": 0, "machine": {}, "elapsed_s": 0}


def a_result(**live_and_predicted: tuple[list[float], float]) -> dict:
    """Peaks in MiB: allocator=([live repetitions], predicted). 10 MiB of them are the program's own."""
    live, predicted = [], {}
    for label, (peaks, said) in live_and_predicted.items():
        for repeat, peak in enumerate(peaks):
            about = {"allocator": label, "kind": "memory", "repeat": repeat}
            live.append(about | {"rss_anon_peak_bytes": peak * MIB, "rss_anon_mean_bytes": peak * MIB / 2})
        predicted[label] = {
            "rss_anon_peak_bytes": said * MIB,
            "rss_anon_mean_bytes": said * MIB / 2,
            "own_at_peak_bytes": 10 * MIB,
            "own_mean_bytes": 5 * MIB,
        }
    app = {"name": "made", "set": "tuned", "threads": 1}
    return {
        "schema": 1, "kind": "fidelity", "app": app, "live": live, "replays": [], "predicted": predicted,
        "failures": {},
    }  # fmt: skip


def with_cpu(data: dict, **times: tuple[list[float], float]) -> dict:
    """allocator=([live CPU in ms], replay's CPU in ms)."""
    for label, (values, replayed) in times.items():
        for repeat, value in enumerate(values):
            data["live"].append({"allocator": label, "kind": "time", "repeat": repeat, "cpu_ns": value * 1e6})
        data["replays"].append({"allocator": label, "pass": "bare", "repeat": 0, "cpu_ns": replayed * 1e6})
    return data


def with_recorded(data: dict, own_mib: float, **means: tuple[list[float], float]) -> dict:
    """allocator=([aligned means of live repetitions in MiB], predicted)."""
    for label, (values, said) in means.items():
        for repeat, value in enumerate(values):
            figures = {"rss_anon_peak_bytes": 0, "rss_anon_aligned_mean_bytes": value * MIB}
            data["live"].append({"allocator": label, "kind": "recorded", "repeat": repeat} | figures)
        data["predicted"][label] |= {"rss_anon_aligned_mean_bytes": said * MIB, "own_aligned_mean_bytes": own_mib * MIB}
    return data


def error_of(data: dict, allocator: str, figure: str) -> float:
    table = errors([data])
    return float(table[(table["allocator"] == allocator) & (table["figure"] == figure)]["error"].iloc[0])


def test_errors_are_of_the_whole_and_of_the_allocators_part() -> None:
    data = a_result(glibc=([100, 100], 100), jemalloc=([110, 110], 99))
    assert error_of(data, "jemalloc", "peak") == pytest.approx(-10)
    assert error_of(data, "jemalloc", "peak_part") == pytest.approx(-11)
    assert error_of(data, "jemalloc", "mean") == pytest.approx(-10)


def test_the_recorded_allocator_counts_in_no_summary() -> None:
    data = a_result(glibc=([100, 100], 150), jemalloc=([100, 100], 102))
    found = summary(errors([data])).set_index("figure")
    assert found.loc["peak", "worst"] == pytest.approx(2)
    assert found.loc["peak", "count"] == 1


def test_change_of_cpu_time_is_in_percent_of_the_programs_whole() -> None:
    data = with_cpu(
        a_result(glibc=([100], 100), jemalloc=([100], 100)), glibc=([1000, 1000], 300), jemalloc=([900, 900], 220)
    )
    row = errors([data]).query("figure == 'cpu_change'").iloc[0]
    assert row["live"] == pytest.approx(-10)
    assert row["predicted"] == pytest.approx(-8)
    assert row["error"] == pytest.approx(20)


def test_a_pair_counts_only_where_repetitions_do_not_overlap() -> None:
    found = pairs([a_result(glibc=([100, 104], 100), jemalloc=([103, 107], 101), mimalloc=([120, 121], 90))], "peak")
    clear = found[found["beyond_noise"]]
    assert set(zip(clear["a"], clear["b"])) == {("glibc", "mimalloc"), ("jemalloc", "mimalloc")}
    assert not clear["right"].any()
    assert bool(found.iloc[0]["right"])


def test_live_runs_under_the_recorder_count_for_the_aligned_mean_only() -> None:
    bare = a_result(glibc=([100, 100], 100), jemalloc=([110, 110], 99))
    data = with_recorded(bare, 10, glibc=([40, 40], 40), jemalloc=([50, 52], 48.96))
    assert error_of(data, "jemalloc", "aligned_mean") == pytest.approx(-4)
    assert error_of(data, "jemalloc", "aligned_mean_part") == pytest.approx(-100 * 2.04 / 41)
    assert error_of(data, "jemalloc", "peak") == pytest.approx(-10)
    found = pairs([data], "aligned_mean").iloc[0]
    assert bool(found["beyond_noise"])
    assert bool(found["right"])
    assert "mean over the recording's time" in document([data | ABOUT], "a command")


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


def test_an_error_is_carried_only_where_many_pairs_stand_behind_it() -> None:
    few = [a_result(glibc=([100], 100), jemalloc=([100], 104))] * 19
    assert carried_errors(few)["figures"] == {}
    many = carried_errors([*few, few[0]])["figures"]
    assert many["peak_rss"]["all"]["p90"] == pytest.approx(100 * 4 / 90, abs=0.001)
    assert many["peak_rss"]["allocators"] == {"jemalloc": many["peak_rss"]["all"]}


def test_the_own_part_is_what_the_live_run_had_above_the_replay_of_the_recordings_allocator() -> None:
    lived = a_result(glibc=([100, 102, 101], 0), jemalloc=([500], 0))["live"]
    for run in lived:
        run["vm_size_peak_bytes"] = 3 * run["rss_anon_peak_bytes"]
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
