# SPDX-License-Identifier: MIT
"""What a replay must not lose: results that are there, runs made before a Ctrl-C, and the user's patience."""

import json

import pytest
from heaptape.commands import replaying
from heaptape.common import console
from heaptape.common.home import default_home
from heaptape.results.schema import Results
from heaptape.run import machine, registry, replay, rounds

from tests.support import call_heaptape, import_text


@pytest.fixture(scope="module")
def tape(tmp_path_factory):
    lines = [f"{i} 1 malloc({24 + i % 80}) = {0x10000 + 1024 * i:#x}" for i in range(2000)]
    return import_text(tmp_path_factory.mktemp("tape"), "\n".join(lines) + "\n", "clock=nanoseconds")


def test_results_are_never_overwritten_unasked(tape, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "history.results.json").write_text("mine")
    words = ["replay", tape, "-a", "glibc", "--passes", "memory"]
    for name in ("history.2.results.json", "history.3.results.json"):
        done = call_heaptape(*words)
        assert (done.status, done.stderr) == (0, f"heaptape: results in {name}\n")
    assert (tmp_path / "history.results.json").read_text() == "mine"
    assert call_heaptape(*words, "-o", "history.results.json").status == 0
    assert json.loads((tmp_path / "history.results.json").read_text())["schema"] == 1


def test_a_ctrl_c_keeps_the_runs_that_were_made(tape, tmp_path):
    home = default_home()
    workload = replay.prepare(str(tape), home, tmp_path)
    choices = registry.choose_all(["glibc", "mimalloc"], registry.load(home))

    def interrupt(run, share):
        if run and share > 0.6:
            raise KeyboardInterrupt

    about = replay.describe_workload(workload, "w")
    data = replay.replay(workload, about, choices, rounds.Settings(4, passes=("time",)), home, interrupt)
    assert data["settings"]["interrupted"] is True
    assert 4 <= len(data["runs"]) < 8
    assert not Results("r.json", data).failures

    def at_once(run, share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replay.replay(workload, about, choices, rounds.Settings(4, passes=("time",)), home, at_once)


def test_the_command_says_how_to_go_on_after_a_ctrl_c(tape, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = replay.replay

    def interrupted(*arguments):
        data = made(*arguments)
        return data | {"settings": data["settings"] | {"interrupted": True}}

    monkeypatch.setattr(replay, "replay", interrupted)
    done = call_heaptape("replay", tape, "-a", "glibc", "--passes", "memory")
    assert done.status == 130
    assert "stopped: 2 runs are kept; the same command makes the others" in done.stderr
    assert (tmp_path / "history.results.json").is_file()


def test_without_a_terminal_progress_is_a_line_every_ten_seconds(monkeypatch, capsys):
    clock = iter([0.0, 1.0, 11.0, 12.0, 22.0])
    monkeypatch.setattr(console.time, "monotonic", lambda: next(clock))
    with console.WorkProgress() as shown:
        for share in (0.1, 0.25, 0.5, 0.75):
            shown.update("replaying", share)
    assert capsys.readouterr().err == (
        "heaptape: replaying: 25 % done, 33 s left\nheaptape: replaying: 75 % done, 7 s left\n"
    )
    assert [console.duration(one) for one in (40, 170, 7500)] == ["40 s", "3 min", "2 h 5 min"]


def test_a_machine_that_was_not_measured_is_measured_once(monkeypatch, tmp_path):
    measured = []
    monkeypatch.setattr(machine, "known_costs", lambda: None)
    monkeypatch.setattr(machine, "measure_costs", measured.append)
    with replaying.work() as work:
        replaying.calibrate(["memory", "time"], default_home(), work)
        assert measured == []
        replaying.calibrate(["memory", "instructions"], default_home(), work)
    assert len(measured) == 1
