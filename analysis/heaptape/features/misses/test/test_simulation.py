# SPDX-License-Identifier: MIT
"""The caches that the pass `misses` simulates by default; `heaptape observe --simulate`."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from heaptape.allocators import registry
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import default_home
from heaptape.results.model.penalties import SCHEMA
from heaptape.run import exact, machine, replay
from heaptape.run.rounds import Settings

from tests.support import HEAPTAPE, REPOSITORY, published, run, succeed

OUT = Path(os.environ.get("HEAPTAPE_OUT", REPOSITORY / "out"))
needs_tool = pytest.mark.skipif(
    not shutil.which("valgrind") or not (OUT / "libexec/valgrind/heaptape-amd64-linux").exists(),
    reason="the Valgrind tool was not built",
)
CAPACITIES = {
    "caches": [{"bytes": 49152, "ways": 12}, {"bytes": 2 << 20, "ways": 16}],
    "tlbs": [{"entries": 96, "ways": 96}, {"entries": 2048, "ways": 16}],
}


@pytest.fixture
def machine_file(tmp_path, monkeypatch):
    """The place of the kept measurement, where there is none yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(machine, "describe", lambda: {"cpu": "A processor"})
    (tmp_path / "heaptape").mkdir()
    return tmp_path / "heaptape" / "machine.json"


def test_a_measured_machines_own_sizes_are_simulated_unless_others_are_given(machine_file):
    machine_file.write_text(json.dumps({"schema": SCHEMA, "cpu": "A processor", "geometry": CAPACITIES}))
    settings, whose = replay.with_sizes(Settings(passes=("misses",)))
    assert whose == "machine"
    assert (settings.caches, settings.tlbs) == ("49152:12,2097152:16", "96:96,2048:16")
    given = Settings(passes=("misses",), caches="32768:8,262144:8")
    assert replay.with_sizes(given) == (given, "given")


def test_where_the_machine_was_not_measured_the_tools_sizes_are_simulated(machine_file):
    plain = Settings(passes=("misses",))
    assert replay.with_sizes(plain) == (plain, "default")
    machine_file.write_text(json.dumps({"schema": SCHEMA, "cpu": "Another one", "geometry": CAPACITIES}))
    assert replay.with_sizes(plain) == (plain, "default")


def test_without_the_pass_misses_no_sizes_are_reported(machine_file):
    plain = Settings(passes=("memory",))
    assert replay.with_sizes(plain) == (plain, None)


def test_a_workload_without_data_accesses_is_an_error_of_one_line(tmp_path):
    home = default_home()
    workload = replay.prepare(str(REPOSITORY / "workloads" / "corpus" / "gs.tape"), home, tmp_path)
    with pytest.raises(HeaptapeError, match="^glibc, misses pass: .*accesses"):
        exact.Bench(workload, home).figures(registry.choose("glibc", registry.load(home)), ["misses"])


def observe(*arguments):
    return subprocess.run([OUT / "bin/heaptape", "observe", *arguments], capture_output=True, text=True, timeout=120)


@needs_tool
def test_a_simulation_separates_allocator_and_program():
    done = observe(
        "--simulate", "--caches", "65536:16,1048576:16", "-a", "reference", "--format", "json", "--", "ls", "/"
    )
    assert done.returncode == 0, done.stderr
    found = published("observe", done.stderr)
    assert [cache["bytes"] for cache in found["caches"]] == [65536, 1048576]
    assert found["allocator"]["instructions"] + found["program"]["instructions"] == found["instructions"]
    assert found["allocator"]["instructions"] > 1000


@needs_tool
def test_a_simulation_as_text_has_its_figures_below_one_another():
    lines = observe("--simulate", "--caches", "32768:8,262144:8", "--", "true").stderr.splitlines()
    assert lines[0].startswith("true (")
    assert lines[1].split() == ["figure", "all", "allocator", "program"]
    assert lines[2].startswith("instructions ")
    assert any(line.startswith("misses of 256 KiB ") for line in lines)


def test_options_of_simulate_are_in_the_help_and_the_near_one_is_suggested():
    assert "--instruction-cache BYTES:WAYS" in succeed(HEAPTAPE, "observe", "--help").stdout
    assert "did you mean --time-only?" in run(HEAPTAPE, "observe", "--simulat", "--time-onyl", "--", "true").stderr
