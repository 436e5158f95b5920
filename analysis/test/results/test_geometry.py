# SPDX-License-Identifier: MIT
"""The caches and TLBs of a machine, fitted to the simulator: a power of two of sets, whatever the machine has."""

import hypothesis
import hypothesis.strategies as st
import pytest
from heaptape.results.model.penalties import LINE_BYTES, Geometry, Level, fitted, from_sysfs, machine_geometry, rising


def plant(folder, rows):
    for number, (kind, size, ways) in enumerate(rows):
        index = folder / f"index{number}"
        index.mkdir(parents=True)
        for name, text in (("type", kind), ("size", size), ("ways_of_associativity", ways)):
            (index / name).write_text(f"{text}\n")
    return folder


def test_sysfs_gives_the_caches_of_data(tmp_path):
    rows = [("Data", "48K", "12"), ("Instruction", "32K", "8"), ("Unified", "2048K", "16"), ("Unified", "30M", "0")]
    assert from_sysfs(plant(tmp_path, rows)) == [Level(48 << 10, 12), Level(2 << 20, 16), Level(30 << 20, 16)]


def test_a_machine_is_given_as_options(tmp_path):
    folder = plant(tmp_path, [("Data", "32K", "8"), ("Unified", "1024K", "8"), ("Unified", "32768K", "16")])
    found = machine_geometry([Level(72, 72), Level(3072, 8)], folder)
    assert found.options == ["--caches", "32768:8,1048576:8,33554432:16", "--tlbs", "72:72,3072:6"]


@pytest.mark.parametrize(
    ("level", "fits"),
    [
        (Level(48 << 10, 12), Level(48 << 10, 12)),
        (Level(30 << 20, 20), Level(30 << 20, 15)),
        (Level(36 << 20, 16), Level(36 << 20, 18)),
    ],
)
def test_ways_are_the_nearest_that_make_a_power_of_two_of_sets(level, fits):
    assert fitted(level, LINE_BYTES) == fits


@hypothesis.given(st.integers(1, 1 << 24), st.integers(0, 64))
def test_every_size_fits_the_simulator(blocks, ways):
    found = fitted(Level(blocks * LINE_BYTES, ways), LINE_BYTES)
    sets, rest = divmod(found.capacity // LINE_BYTES, found.ways)
    assert rest == 0
    assert sets & (sets - 1) == 0
    assert sets > 0
    assert blocks * LINE_BYTES / 2 < found.capacity <= blocks * LINE_BYTES


def test_levels_rise():
    assert rising([Level(64, 4), Level(32, 2), Level(64, 8)]) == (Level(32, 2), Level(64, 8))


def test_an_unknown_level_is_the_simulators_own(tmp_path, monkeypatch):
    monkeypatch.setattr("os.sysconf", lambda name: 0)
    assert machine_geometry([], tmp_path) == Geometry()
