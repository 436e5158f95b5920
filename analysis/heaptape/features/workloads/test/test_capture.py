# SPDX-License-Identifier: MIT
"""`heaptape workloads capture`: it records the recipe's process, reports why it can't, and leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.features.workloads import capture
from heaptape.features.workloads import known as workloads
from heaptape.run import recipes

from tests.support import HEAPTAPE_HERE, call_heaptape, succeed


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "out").mkdir()
    return tmp_path


def recipe_of(folder: Path, text: str) -> recipes.Recipe:
    path = folder / "one.toml"
    path.write_text(f'summary = "s"\nstands_for = "t"\n{text}')
    return recipes.read(path)


def left_behind(folder: Path) -> list[str]:
    return sorted(path.name for part in ("out", "tmp") for path in (folder / part).iterdir())


def test_of_several_processes_the_one_meant_is_chosen_and_of_several_the_busiest(cache, out):
    script = "ls / >/dev/null; ls -lR /etc >/dev/null; sort /etc/services >/dev/null"
    recipe = recipe_of(cache, f'command = ["sh", "-c", "{script}"]\ntrace = "ls"')
    done = capture.capture(recipe, cache / "out" / "a.tape", Home(out))
    listings = [trace for trace in (done.chosen, *done.others) if trace.program == "ls"]
    assert len(listings) == 2
    assert done.chosen.about["events"] == max(trace.about["events"] for trace in listings)
    assert {"sh", "sort"} <= {trace.program for trace in done.others}
    assert left_behind(cache) == ["a.tape"]
    assert done.row()["verdict"] == "legal"


def test_the_others_are_kept_where_wanted(cache, out):
    recipe = recipe_of(cache, 'command = ["sh", "-c", "ls / >/dev/null; true"]\ntrace = "ls"')
    done = capture.capture(recipe, cache / "out" / "a.tape", Home(out), keep_all=True)
    pid = done.others[0].about["info"]["pid"]
    assert left_behind(cache) == [f"a.{pid}.tape", "a.tape"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('command = ["sh", "-c", "echo no such sheet; exit 3"]', "ended with status 3\n  no such sheet"),
        ('command = ["ls"]\ntrace = "cat"', "cat was not among the recorded programs \\(ls\\)"),
        ('command = ["no-such-program"]\npackages = ["p"]', "no-such-program not found: heaptape workloads setup one"),
        ('command = ["sleep", "60"]\ntime_limit_s = 1', "not done after 1 s"),
        ('command = ["ls"]\nprepare = "echo half >a; echo no disk; exit 1"', "prepare script failed \\(1\\): no disk"),
    ],
)
def test_a_failure_says_why_and_leaves_nothing(cache, out, text, complaint):
    with pytest.raises(HeaptapeError, match=complaint):
        capture.capture(recipe_of(cache, text), cache / "out" / "a.tape", Home(out))
    assert left_behind(cache) == []
    assert (recipes.cache_directory() / "one").exists() == ("prepare" not in text and "no-such" not in text)


def test_a_recipe_is_prepared_again_when_a_file_of_its_name_changes(cache):
    (cache / "one.input").write_text("old")
    recipe = recipe_of(cache, 'command = ["ls"]\nprepare = "cp $HERE/one.input input"')
    for text in ("old", "new"):
        (cache / "one.input").write_text(text)
        assert (recipes.prepare(recipe, cache / "cache") / "input").read_text() == text


def test_an_interrupt_ends_all_processes_and_leaves_nothing(cache, out):
    """The daemon leaves its session, so that no signal to a process group reaches it."""
    pid_file = cache / "daemon"
    recipe = recipe_of(
        cache,
        f'command = ["sh", "-c", "setsid sh -c \'echo $$ >{pid_file}; sleep 100\' & sleep 100"]\ntime_limit_s = 90',
    )
    program = (
        "import sys; from pathlib import Path; from heaptape.common.home import Home;"
        "from heaptape.features.workloads import capture; from heaptape.run import recipes;"
        "recipe, output, home = map(Path, sys.argv[1:]); capture.capture(recipes.read(recipe), output, Home(home))"
    )
    command = [sys.executable, "-c", program, recipe.path, cache / "out" / "a.tape", out]
    # A shell without job control starts background processes with SIGINT ignored, and Python keeps it ignored.
    running = subprocess.Popen(
        command, stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    )
    for _ in range(2400):
        if pid_file.is_file() and pid_file.read_text():
            break
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    assert b"KeyboardInterrupt" in running.communicate(timeout=120)[1]
    assert left_behind(cache) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


def test_a_program_that_refuses_root_runs_as_nobody_and_is_recorded(cache, out):
    text = 'command = ["sh", "-c", "test $(id -u) != 0 && touch mine && ls $HOME >/dev/null"]\ntrace = "ls"\n'
    recipe = recipe_of(cache, text + 'unprivileged = true\nprepare = "id -u >who"')
    cache.chmod(0o755)
    for folder in cache.parents[:3]:  # pytest's own folders are for the owner only
        folder.chmod(folder.stat().st_mode | 0o011)
    (cache / "tmp").chmod(0o777)
    assert capture.capture(recipe, cache / "out" / "a.tape", Home(out)).chosen.about["events"] > 10


def test_the_list_gives_kind_and_reason(out, monkeypatch):
    listed = json.loads(succeed(HEAPTAPE_HERE, "workloads", "--json").stdout)["workloads"]
    by_name = {one["name"]: one for one in listed}
    assert by_name["cfrac"]["kind"] == "synthetic"
    assert by_name["cfrac"]["can_run"]
    assert by_name["sqlite3"]["kind"] == "app"
    monkeypatch.setenv("PATH", "/nowhere")
    recipe = next(workload for workload in workloads.find(Home(out)) if workload.name == "redis")
    assert recipe.missing == "redis-server, redis-benchmark not found: heaptape workloads setup redis"


def test_setup_of_what_is_there_installs_nothing_and_says_so():
    done = call_heaptape("workloads", "setup", "sqlite3")
    assert (done.status, done.stdout) == (0, "can run: sqlite3\n"), done.stderr
    assert done.stderr == ""
