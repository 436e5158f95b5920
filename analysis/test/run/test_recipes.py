# SPDX-License-Identifier: MIT
"""Recipes: which are refused, and how they run."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.run import recipes

GOOD = 'summary = "s"\nstands_for = "t"\n'


def write(folder: Path, text: str) -> recipes.Recipe:
    path = folder / "one.toml"
    path.write_text(GOOD + text)
    return recipes.read(path)


def test_every_recipe_of_the_checkout_reads():
    names = [recipe.name for recipe in recipes.find()]
    assert "sqlite3" in names
    assert names == sorted(names)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "missing required field `command`"),
        ("command = []", "command: Expected `array` of length >= 1"),
        ('command = "ls"', "command: Expected `array`, got `str`"),
        ('command = ["ls"]\ncomand = 1', "unknown field `comand`"),
        ('command = ["ls"]\nstop = "NOSUCH"', "stop: there is no signal SIGNOSUCH"),
        ('command = ["ls"]\nset = "both"', "set: Invalid enum value 'both'"),
        ('command = ["ls"]\nname = "two"', "unknown field `name`"),
        ('command = ["ls"', "one.toml"),
    ],
)
def test_a_malformed_recipe_is_refused_by_name_and_key(tmp_path, text, complaint):
    with pytest.raises(HeaptapeError, match=complaint) as caught:
        write(tmp_path, text)
    assert "one.toml" in str(caught.value)


def test_each_run_starts_from_a_fresh_copy_of_what_prepare_made(tmp_path):
    recipe = write(tmp_path, 'command = ["sh", "-c", "test ! -e mark && cp input mark"]\nprepare = \'echo x >input\'')
    prepared = recipes.prepare(recipe, tmp_path / "cache")
    for _ in range(2):
        assert recipes.run(recipe, prepared, tmp_path / "scratch").status == 0
    assert not (tmp_path / "scratch").exists()
    assert [path.name for path in prepared.iterdir()] == ["input"]


def test_a_server_is_loaded_when_ready_and_stopped_by_signal(tmp_path):
    handler = "http.server.SimpleHTTPRequestHandler"
    server = f"import http.server; http.server.HTTPServer(('127.0.0.1', int('$PORT')), {handler}).serve_forever()"
    client = "import os, urllib.request; print(urllib.request.urlopen('http://127.0.0.1:' + os.environ['PORT']).status)"
    recipe = write(
        tmp_path,
        f'command = ["{sys.executable}", "-c", """{server}"""]\nstop = "TERM"\n'
        f"ready = '''{sys.executable} -c \"{client}\"'''\nload = '''{sys.executable} -c \"{client}\"'''\n",
    )
    done = recipes.run(recipe, recipes.prepare(recipe, tmp_path / "cache"), tmp_path / "scratch")
    assert done.status == -15
    assert done.load_s > 0


def test_a_failing_load_is_reported_in_its_own_words(tmp_path):
    recipe = write(tmp_path, 'command = ["sleep", "60"]\nload = "echo no such table; exit 3"\nstop = "TERM"')
    with pytest.raises(HeaptapeError, match="load script failed \\(3\\): no such table"):
        recipes.run(recipe, recipes.prepare(recipe, tmp_path / "cache"), tmp_path / "scratch")


def test_settings_reach_the_command_and_not_its_load(tmp_path):
    recipe = write(tmp_path, "command = ['sh', '-c', 'test \"$MARK\" = 1']\nload = 'test -z \"$MARK\"'")
    prepared = recipes.prepare(recipe, tmp_path / "cache")
    assert recipes.run(recipe, prepared, tmp_path / "scratch", environment={"MARK": "1"}).status == 0


def test_a_run_that_hangs_is_ended_and_reported(tmp_path):
    recipe = write(tmp_path, 'command = ["sleep", "60"]\ntime_limit_s = 1')
    with pytest.raises(HeaptapeError, match="not done after 1 s"):
        recipes.run(recipe, recipes.prepare(recipe, tmp_path / "cache"), tmp_path / "scratch")


def is_not_reaped(number: int) -> bool:
    """Raises ChildProcessError if it is."""
    return os.waitid(os.P_PID, number, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


@pytest.mark.parametrize("settings", ["", 'ready = "exit 0"', 'ready = "exit 1"', 'stop = "TERM"', 'load = "exit 1"'])
def test_a_group_is_signalled_before_its_leader_is_reaped(settings, tmp_path, monkeypatch):
    """Afterwards the number may be another group's."""
    signalled, killpg, kill = [], os.killpg, os.kill

    def watched(number: int, what: int, send: Callable[[int, int], None]) -> None:
        signalled.append(is_not_reaped(number))
        send(number, what)

    monkeypatch.setattr(os, "killpg", lambda number, what: watched(number, what, killpg))
    monkeypatch.setattr(os, "kill", lambda number, what: watched(number, what, kill))
    recipe = write(tmp_path, f"command = ['sh', '-c', 'sleep 100 & exit 3']\n{settings}")
    prepared = recipes.prepare(recipe, tmp_path / "cache")
    with contextlib.suppress(HeaptapeError):
        assert recipes.run(recipe, prepared, tmp_path / "scratch").status in (3, -signal.SIGTERM)
    assert len(signalled) >= 1
