# SPDX-License-Identifier: MIT
"""The parameters of simulated cycles follow from the machine's measurement, and cycles become CPU time."""

from heaptape.results.model import dataflow
from heaptape.results.model.penalties import penalties
from results.planted import core_measurement as measured
from results.planted import measurement


def options(made: dict) -> dict[str, str]:
    words = dataflow.options(made)
    return dict(zip(words[::2], words[1::2]))


def test_the_core_is_what_planted_loops_show():
    window, loads = (round((within * beyond) ** 0.5) for within, beyond in ((224, 448), (48, 64)))
    assert options(measured())["--core"] == f"5:{window}:{loads}:20:8:21"


def test_a_load_takes_the_time_of_a_chain_that_fits_into_the_cache():
    found = options(measured())
    assert found["--caches"] == "32768:8,1048576:16,4194304:16,16777216:16"
    rows = [tuple(map(int, row.split(":"))) for row in found["--latencies"].split(",")]
    # 16 KiB, 512 KiB, then 4 MiB for 2 and 16 MiB for 8, then 128 MiB for 64
    assert [row[0] for row in rows] == [2, 10, 82, 82, 362]
    # every second load of the chain in few OS pages takes nothing: what a stream takes is left
    assert [row[1] for row in rows] == [2, 5, 11, 11, 21]
    assert all(foreseen <= near <= other for other, near, foreseen in rows)


def test_a_walk_takes_what_one_line_in_each_os_page_takes_longer():
    found = options(measured())
    assert found["--tlbs"] == "64:64,1536:12,6144:12,24576:12"
    first, *walks = map(int, found["--tlb-latencies"].split(","))
    assert 0 < first < walks[0]
    assert walks == sorted(walks)


def test_without_the_whole_core_nothing_is_simulated():
    made = measured()
    del made["core"]["waiting_loads"]
    assert dataflow.options(made) == []
    del made["core"]
    assert dataflow.options(made) == []
    assert dataflow.options(measurement()) == []


def test_cpu_time_is_cycles_page_faults_and_system_calls():
    costs = penalties(measured())
    calls = {"mmap": 3, "munmap": 0, "brk": 1, "madvise": 0, "mremap": 0, "other": 2}
    found = {"cycles": 1000, "page_faults": 7, "syscalls_by_kind": calls}
    kernel = 3 * costs.system_calls["mmap"].middle + costs.system_calls["brk"].middle
    kernel += 2 * costs.other_system_call.low
    assert dataflow.cpu_ns(found, costs) == 500 + 7 * costs.page_fault.middle + kernel
