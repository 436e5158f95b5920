# SPDX-License-Identifier: MIT
"""`heaptape tune` from end to end, on an allocator that wastes memory by a formula and on our own.

Long: more signals.
"""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from heaptape.common.home import Home
from heaptape.features.tune.test.planted import BEST, pages

from tests.support import (
    HEAPTAPE,
    HEAPTAPE_HERE,
    OUT,
    RECORD,
    call_heaptape,
    compile_c,
    published,
    refused,
    succeed,
    take_interrupts,
)

REGISTRY = """
[planted]
library = "planted_settings.so"
[planted.tunables]
variable = "PLANTED_{NAME}"
[planted.tunables.space]
a = { type = "integer", range = [0, 64], default = "0", meaning = "best at 40" }
b = { type = "integer", range = [1, 256], scale = "log", default = "256", meaning = "best at 8" }
mode = { type = "choice", values = ["x", "y", "z", "crash"], default = "x", meaning = "best is y" }
[planted.variants.near]
environment = { PLANTED_A = "32" }
[planted.variants.elsewhere]
environment = { OTHER = "1" }
"""


@pytest.fixture(scope="module")
def registered(tmp_path_factory):
    """A folder with the planted allocator, and a registry that has it alone."""
    folder = tmp_path_factory.mktemp("planted")
    compile_c(
        folder / "planted_settings.so",
        Path(__file__).parent / "planted_settings.c",
        "-shared",
        "-fPIC",
    )
    (folder / "allocators.toml").write_text(REGISTRY)
    return folder


@pytest.fixture(scope="module")
def tape(tmp_path_factory, small_tape):
    """The beginning of the small trace: the planted allocator's waste does not depend on it."""
    path = tmp_path_factory.mktemp("tape") / "small.txt"
    path.write_text("".join(small_tape.read_text().splitlines(keepends=True)[:40]))
    return path


def go_to(monkeypatch, folder, registered):
    """Makes `folder` the present directory, and the registry have only the planted allocator."""
    monkeypatch.setattr(Home, "registry_file", lambda self: registered / "allocators.toml")
    monkeypatch.setattr(Home, "library_directories", lambda self: [registered])
    monkeypatch.chdir(folder)


@pytest.fixture
def planted(registered, tmp_path, monkeypatch):
    go_to(monkeypatch, tmp_path, registered)


@pytest.fixture(scope="module")
def searched(registered, tape, tmp_path_factory):
    """The folder of a search, and its output."""
    folder = tmp_path_factory.mktemp("searched")
    with pytest.MonkeyPatch.context() as patch:
        go_to(patch, folder, registered)
        done = tune(tape, "--budget", "30")
    assert done.status == 0, done.stderr
    return folder, done.stdout


@pytest.fixture
def again(searched, planted, tmp_path):
    """A start in a copy of that folder, which has nothing left to search."""
    shutil.copytree(searched[0], tmp_path, dirs_exist_ok=True)


def tune(tape, *options):
    return call_heaptape("tune", tape, "-a", "planted", *options)


def points_of(path):
    return {one["label"]: one.get("figures") for one in json.loads(path.read_text())["points"]}


def test_the_planted_best_is_found_and_a_second_start_has_nothing_to_do(searched, again, tape, tmp_path):
    _, printed = searched
    assert "\n  PLANTED_A=40 PLANTED_B=8 PLANTED_MODE=y" in printed
    assert "near: a=32" in printed
    data = published("tune", (tmp_path / "small.planted.tune.json").read_text())
    assert data["winner"]["settings"] == BEST
    assert data["variants_left_out"] == ["elsewhere"]
    failed = [one for one in data["points"] if "error" in one]
    assert failed
    assert all(one["settings"]["mode"] == "crash" for one in failed)
    found = {one["label"]: one["figures"]["small"]["rss-peak"] for one in data["points"] if "error" not in one}
    of_formula = {one["label"]: 4096 * pages(one["settings"]) for one in data["points"] if "error" not in one}
    rest = {label: found[label] - of_formula[label] for label in found}
    assert max(rest.values()) == min(rest.values())  # what the program itself needs
    assert tune(tape, "--budget", "30").stdout == printed
    assert json.loads((tmp_path / "small.planted.tune.json").read_text())["points"] == data["points"]


def test_figures_are_the_same_however_many_replays_run_at_once(planted, tape, tmp_path):
    found = []
    for jobs in ("1", "4"):
        options = ["--objective", "rss-peak,rss-mean,syscalls", "--storage", f"{jobs}.journal", "-o", f"{jobs}.json"]
        done = tune(tape, "--budget", "14", "--jobs", jobs, *options)
        assert done.status == 0, done.stderr
        found.append(points_of(tmp_path / f"{jobs}.json"))
    assert found[0] == found[1]
    assert len(found[0]) > 10


def test_a_search_of_other_tunables_is_refused(planted, tape):
    assert tune(tape, "--budget", "2", "--tunables", "a,b").status == 0
    other = tune(tape, "--budget", "2", "--tunables", "a")
    assert other.status == 1
    assert "small.planted.tune.journal: holds a search of another space" in other.stderr


@pytest.mark.parametrize(
    ("options", "status", "says"),
    [
        (["--tunables", "a,c"], 1, "unknown tunable 'c' of planted: known are a, b, mode"),
        (["--objective", "speed"], 2, "unknown figure 'speed'"),
        (["--objective", "misses"], 1, "no data accesses; the misses pass needs all of them: record with --accesses"),
        (["--objective", "cpu"], 1, "no data accesses; the misses pass needs all of them: record with --accesses"),
        (["--limit", "rss=1"], 2, "'rss=1' is neither"),
        (["--budget", "0"], 2, "'0' is neither a number of replays nor a time"),
        (["--budget", "0m"], 2, "'0m' is neither"),
        (["--budget", "1", "--objective", "rss,instructions"], 2, "1 replays are less than one setting needs, 2"),
        (["--weights", "1,2"], 2, "2 for 1 workloads"),
        (["--storage", "none/s"], 1, "none/s: can't be written"),
        (["-o", "none/t.json"], 1, "none/t.json: can't be written"),
        (["--live"], 2, "needs the command after --"),
        (["--", "true"], 2, "needs --live"),
    ],
)
def test_wrong_use_is_one_line(planted, tape, options, status, says):
    done = tune(tape, *options)
    assert done.status == status, done.stderr
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_allocator_without_tunables_is_refused(small_tape):
    refused(HEAPTAPE_HERE, "tune", small_tape, "-a", "nosuch", says="unknown allocator 'nosuch'", status=2)
    library = OUT / "lib" / "libreference.so"
    refused(HEAPTAPE_HERE, "tune", small_tape, "-a", library, says="only an allocator of the registry has tunables")


def wait_for_points(path, count):
    """Waits until the search has `count` points."""
    for _ in range(2000):
        time.sleep(0.05)
        if path.exists() and path.read_text().count('"op_code":4') >= count:
            return
    raise AssertionError(f"{path} has no {count} points")


@pytest.mark.parametrize(
    ("number", "group"),
    [
        (signal.SIGKILL, True),
        pytest.param(signal.SIGINT, True, marks=pytest.mark.long),
        pytest.param(signal.SIGINT, False, marks=pytest.mark.long),
    ],
)
def test_a_search_that_was_ended_continues_where_it_was(tmp_path, monkeypatch, small_tape, number, group):
    command = ["tune", small_tape, "-a", "reference", "--tunables", "tcache_count,top_pad,arenas", "--budget", "6"]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    cut = subprocess.Popen([HEAPTAPE, *command], cwd=tmp_path, preexec_fn=take_interrupts, **options)
    wait_for_points(tmp_path / "small.reference.tune.journal", 2)
    (os.killpg if group else os.kill)(cut.pid, number)
    printed, errors = cut.communicate()
    if number == signal.SIGINT:
        assert cut.returncode == 130
        assert "the same command continues from small.reference.tune.journal" in errors
        assert "settings tried" in printed
    monkeypatch.chdir(tmp_path)
    for other in ([], ["--storage", "whole.journal", "-o", "whole.json"]):
        again = call_heaptape(*command, *other)
        assert again.status == 0, again.stderr
    assert points_of(tmp_path / "small.reference.tune.json") == points_of(tmp_path / "whole.json")


TOUCHES = """
#include <stdlib.h>
#include <string.h>
int main(void) {
  char *kept[500];
  for (int i = 0; i < 5000; i++) {
    if (i >= 500) free(kept[i % 500]);
    kept[i % 500] = memset(malloc(16 + i % 700), i, 16);
  }
}
"""


@pytest.mark.skipif(
    not (OUT / "libexec/valgrind/heaptape-amd64-linux").exists(), reason="the Valgrind tool was not built"
)
def test_instructions_misses_and_cpu_time_are_objectives_of_a_recording_with_accesses(monkeypatch, tmp_path):
    tape, program = tmp_path / "t.tape", compile_c(tmp_path / "touches", TOUCHES)
    succeed(RECORD, "--accesses", "-o", tape, "--", program)
    monkeypatch.chdir(tmp_path)
    done = call_heaptape("tune", tape, "-a", "glibc", "--objective", "instructions,misses,cpu", "--budget", "36")
    assert done.status == 0, done.stderr
    data = published("tune", (tmp_path / "t.glibc.tune.json").read_text())
    found = {one["label"]: one["figures"]["t"] for one in data["points"]}
    assert all(min(one[name] for name in ("instructions", "misses", "cpu")) > 0 for one in found.values())
    assert found["default"]["instructions"] < found["tcache_count=0"]["instructions"]
    assert found["default"]["cpu"] < found["tcache_count=0"]["cpu"]


def test_live_runs_of_default_and_winner_are_compared(again, tape, tmp_path):
    program = compile_c(tmp_path / "one", "#include <stdlib.h>\nint main(void) { return !malloc(1); }")
    done = tune(tape, "--budget", "30", "--live", "--live-runs", "2", "--", "env", "A=1", program)
    assert done.status == 0, done.stderr
    data = published("tune", (tmp_path / "small.planted.tune.json").read_text())
    (rss, cpu) = data["live"]["figures"]
    assert rss["verdict"] == "held"
    assert (cpu["figure"], cpu["verdict"]) == ("cpu", None)
    saved = {one["side"]: one["rss_anon_peak_bytes"] for one in data["live"]["rows"] if one["rss_anon_peak_bytes"]}
    assert saved["before"] - saved["after"] == pytest.approx(4096 * (pages({}) - pages(BEST)), abs=20 * 4096)
    failing = tune(tape, "--budget", "30", "--live", "--", "false")
    assert failing.status == 1
    assert "false on planted: exit status 1" in failing.stderr
