"""The arithmetic of predictions, on time lines made by hand."""

import numpy as np
import pytest
from heaptape.fidelity.prediction import Own, Replayed, laziest, mean_over_time, own_part, predict, replayed, thinned

MS = 1e6
# 100 ops in 100 ms.
CLOCK = np.array([0, 100 * MS]), np.array([0.0, 100])


def replay_of(*rows: tuple[float, float]) -> Replayed:
    position, rss = np.array(rows, dtype=float).T
    return Replayed(position, rss, 10 * rss)


def flat(own_bytes: float) -> Own:
    times = np.arange(0, 101, 10) * MS
    return Own(times, times, times / MS, *([np.full(11, own_bytes)] * 3))


def test_own_part_is_recorded_less_replayed() -> None:
    times = np.arange(0, 101, 10) * MS
    replay = replay_of(*[(position, 5.0 * position) for position in range(0, 101)])
    own = own_part(times, times, 1000 + 5 * times / MS, 10_000 + 50 * times / MS, CLOCK, replay)
    assert own.rss_anon_bytes == pytest.approx(np.full(11, own.rss_anon_bytes[0]), abs=60)
    assert own.rss_anon_bytes[5] == pytest.approx(1000, abs=60)


def test_a_sample_read_late_is_not_taken_for_memory_of_the_programs_own() -> None:
    """The replay jumps by 10,000 at op 50; the recorded samples show it one sample late."""
    times = np.arange(0, 101, 10) * MS
    replay = replay_of((0, 0), (50, 10_000), (100, 10_000))
    recorded = np.where(times > 50 * MS, 10_700.0, 700.0)
    own = own_part(times, times, recorded, recorded, CLOCK, replay)
    assert own.rss_anon_bytes == pytest.approx(np.full(11, 700.0))


def test_memory_of_the_programs_own_that_comes_and_stays_is_found() -> None:
    times = np.arange(0, 101, 10) * MS
    replay = replay_of((0, 100), (100, 100))
    recorded = np.where(times >= 40 * MS, 5100.0, 100.0)
    own = own_part(times, times, recorded, recorded, CLOCK, replay)
    assert own.rss_anon_bytes.tolist() == [0.0] * 4 + [5000.0] * 7


def test_what_the_recorder_added_is_taken_away() -> None:
    times = np.arange(0, 101, 10) * MS
    recorded = np.full(11, 900.0)
    own = own_part(times, times, recorded, recorded, CLOCK, replay_of((0, 100), (100, 100)), 300, 0)
    assert own.rss_anon_bytes == pytest.approx(np.full(11, 500.0))


def test_time_lines_are_added_point_by_point_and_the_peak_taken_of_the_sum() -> None:
    """Own memory is high early, the allocator's late: the sum of the peaks (1,500) is never reached."""
    own = flat(0)
    own.rss_anon_bytes[:4] = 1000
    predicted = predict(own, replay_of((0, 0), (50, 500), (60, 100), (100, 100)))
    assert predicted.rss_anon_peak_bytes == 1000
    assert predicted.peak_own_bytes == 1000
    other = predict(own, replay_of((0, 0), (30, 700), (50, 0), (100, 0)))
    assert other.rss_anon_peak_bytes == 1700
    assert other.peak_time_ns == 30 * MS


def test_a_peak_between_samples_counts() -> None:
    run = {"timeline": [[0, 10, 100, 0], [100, 20, 100, 0]], "rss_anon_peak_bytes": 9000, "rss_anon_peak_position": 55}
    assert predict(flat(7), replayed(run)).rss_anon_peak_bytes == 9007


def test_own_part_may_be_less_than_nothing_where_the_program_touches_late() -> None:
    assert predict(flat(-40), replay_of((0, 100), (100, 100))).rss_anon_peak_bytes == 60


def test_mean_is_over_time_not_over_samples() -> None:
    assert mean_over_time(np.array([0.0, 90, 100]), np.array([10.0, 110, 0])) == pytest.approx(20)
    assert mean_over_time(np.array([5.0, 5]), np.array([10.0, 30])) == 20


@pytest.mark.parametrize("seed", range(20))
def test_laziest_line_stays_in_its_band_and_moves_no_more_than_any_other(seed: int) -> None:
    rng = np.random.default_rng(seed)
    low = rng.integers(0, 100, 30).astype(float)
    high = low + rng.integers(0, 60, 30)
    line = laziest(low, high)
    assert (line >= low).all()
    assert (line <= high).all()
    # Whoever stays in the band goes at least from each band's edge to the next one beyond it.
    for _ in range(50):
        other = low + (high - low) * rng.random(30)
        assert np.abs(np.diff(line)).sum() <= np.abs(np.diff(other)).sum() + abs(line[0] - other[0]) + 1e-9


def test_mean_is_over_the_programs_own_processor_time() -> None:
    """It waits, as others work, for half of the time, with little memory."""
    times = np.array([0.0, 50, 100]) * MS
    own = Own(times, np.array([0.0, 1, 50]) * MS, np.array([0.0, 50, 100]), *([np.zeros(3)] * 3))
    predicted = predict(own, replay_of((0, 100), (50, 1000), (100, 1000)))
    assert predicted.rss_anon_wall_mean_bytes == pytest.approx(550)
    assert predicted.rss_anon_mean_bytes == pytest.approx((100 + 49 * 1000) / 50)


def test_thinned_line_keeps_the_highest_of_each_span() -> None:
    time = np.arange(1000, dtype=float)
    values = np.zeros(1000)
    values[437] = 8
    line = thinned(time, values, 10)
    assert len(line) == 10
    assert [value for _, value in line] == [0, 0, 0, 0, 8, 0, 0, 0, 0, 0]
