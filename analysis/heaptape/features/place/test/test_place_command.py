# SPDX-License-Identifier: MIT
"""`heaptape place`: finds the planted call site, says what it saves, writes a plan that saves it live; and says where
nothing is to be won.
"""

import os
import subprocess
from pathlib import Path

import pytest
from heaptape.features.place import code, plan
from heaptape.features.place.confirm import Confirmed
from heaptape.features.place.place_command import _live

from tests.support import HEAPTAPE, INHERITED, OUT, RECORD, published, refused, succeed

PLANTED = OUT / "test-programs" / "planted"


def record(folder: Path, name: str) -> Path:
    tape = folder / f"{name}.tape"
    succeed(RECORD, "--stacks", "-o", tape, "--", PLANTED, name)
    return tape


@pytest.fixture(scope="module")
def pins(tmp_path_factory) -> Path:
    """A folder with pins.tape, the plan for it, and what the command printed."""
    folder = tmp_path_factory.mktemp("pins")
    tape = record(folder, "pins")
    found = succeed(HEAPTAPE, "place", tape, tape, "-o", folder / "plan.toml", "--limit", "1000")
    (folder / "printed").write_text(found.stdout)
    return folder


def test_the_site_that_pins_is_found_and_held_against_another_recording(pins):
    printed = (pins / "printed").read_text()
    assert "session in memory of their own (1 call site) save" in printed
    assert "In pins, " in printed
    assert len(printed.splitlines()) <= 24
    (site,) = plan.read(pins / "plan.toml").sites
    assert site.function.startswith("session")


def test_an_allocator_in_the_caller_s_environment_changes_nothing(pins, tmp_path):
    words = (pins / "pins.tape", pins / "pins.tape", "-o", pins / "plan.toml", "--limit", "1000")
    before = (pins / "plan.toml").read_bytes()
    found = succeed(HEAPTAPE, "place", *words, env=os.environ | INHERITED)
    assert found.stdout == (pins / "printed").read_text()
    assert (pins / "plan.toml").read_bytes() == before
    assert "MALLOC_CONF of this environment: not used" in found.stderr


def test_live_runs_save_what_was_predicted(pins):
    words = ("--limit", "1000", "--live-runs", "2", "--json", "--", PLANTED, "pins")
    live = published("place", succeed(HEAPTAPE, "place", pins / "pins.tape", *words).stdout)["live"]
    before, after, predicted = (live[key] for key in ("before", "after", "predicted"))
    saved = before["peak_rss_bytes"] - after["peak_rss_bytes"]
    assert saved == pytest.approx(predicted["peak_rss_bytes"], rel=0.05)
    saved = before["mean_rss_bytes"] - after["mean_rss_bytes"]
    assert saved == pytest.approx(predicted["mean_rss_bytes"], rel=0.5)
    assert live["cpu"]["low"] <= live["cpu"]["ratio"] <= live["cpu"]["high"]


def test_a_change_of_cpu_time_that_is_not_known_is_said_with_what_makes_it_known():
    memory = {"peak_rss": 4 << 20, "mean_rss": 3 << 20}

    def said(low: float, high: float) -> list[str]:
        return _live(Confirmed(memory, memory, memory, {"ratio": 1.087, "low": low, "high": high}), 3)[2:]

    assert said(1.05, 1.1) == ["Live, the change of CPU time is +8.7 % (+5.0 to +10)."]
    assert said(0.73, 1.63) == [
        "Live, the change of CPU time is not known: -27 to +63 %.",
        "To know it: --live-runs 12, on a machine that does nothing else.",
    ]


def test_nothing_to_win_is_said_and_writes_no_plan(tmp_path):
    tape = record(tmp_path, "even")
    found = succeed(HEAPTAPE, "place", tape, "-o", tmp_path / "plan.toml")
    assert "Nothing to win, no reason to change: none saves 2 % and 1 MiB of peak memory" in found.stdout
    assert not (tmp_path / "plan.toml").exists()


def test_a_recording_without_stacks_is_refused(tmp_path):
    tape = tmp_path / "plain.tape"
    succeed(RECORD, "-o", tape, "--", PLANTED, "even")
    refused(HEAPTAPE, "place", tape, says="record with --stacks")


@pytest.mark.parametrize("kind", code.KINDS)
def test_code_names_each_site_once_and_its_region(pins, kind):
    found = succeed(HEAPTAPE, "place", pins / "plan.toml", "--code", kind).stdout
    assert found.count("session (planted.c:") == 1
    assert "{n}" not in found


def test_the_lines_for_pmr_compile(tmp_path):
    made = plan.Plan((plan.PlacedSite(1, ("ab+0x1",), "f"), plan.PlacedSite(2, ("ab+0x2",), "g")))
    lines = code.lines(made, "pmr").splitlines()
    once = [line for line in lines if line.startswith("static")]
    calls = [line for line in lines if line.startswith("    ")]
    text = ["#include <memory_resource>", *once, "int main() { void *p; size_t bytes = 8;", *calls, "}"]
    compiled = subprocess.run(
        ["g++", "-std=c++17", "-x", "c++", "-fsyntax-only", "-"], input="\n".join(text), text=True, capture_output=True
    )
    assert (len(once), len(calls), compiled.stderr) == (2, 4, "")
