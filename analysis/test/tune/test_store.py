# SPDX-License-Identifier: MIT
"""The file of a search: continued only by the same search, and one clear line for anything else."""

import builtins
import sqlite3

import pytest
from heaptape.common.errors import HeaptapeError
from heaptape.tune import trials
from heaptape.tune.trials import Point
from tune.planted import planted_space


def opened(path, about, objectives=1):
    trials.require_optuna()
    with trials.opened(path, about, objectives, planted_space()) as kept:
        return len(kept.points)


def test_points_are_there_again(tmp_path):
    points = [
        Point({}, 0, {"w": {"rss-peak": 0.1}}, budget=20),
        Point({"a": "8"}, 3, {"w": {"rss-peak": 1 / 3}}, again=2),
        Point({"a": "1", "b": "nothing of the space"}, -1, error="killed"),
    ]
    trials.require_optuna()
    with trials.opened(tmp_path / "s", {}, 1, planted_space()) as kept:
        for point in points:
            kept.keep(point, [1.0])
    with trials.opened(tmp_path / "s", {}, 1, planted_space()) as kept:
        assert kept.points == points


def test_another_search_is_refused_with_what_differs(tmp_path):
    opened(tmp_path / "s", {"workloads": {"a": "1"}, "seed": 0})
    with pytest.raises(HeaptapeError, match='s: holds a search of another workloads: {"a": "1"}, not {"a": "2"}'):
        opened(tmp_path / "s", {"workloads": {"a": "2"}, "seed": 0})
    assert opened(tmp_path / "s", {"workloads": {"a": "1"}, "seed": 0}) == 0


@pytest.mark.parametrize("content", [b"x", b"not a database" * 1000, b"SQLite format 3\0" + b"junk" * 2000])
def test_a_file_of_something_else_is_refused_and_left_as_it_is(tmp_path, content):
    path = tmp_path / "s"
    path.write_bytes(content)
    with pytest.raises(HeaptapeError, match=f"^{path}: ") as caught:
        opened(path, {})
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == content


def test_a_database_of_something_else_is_refused(tmp_path):
    path = tmp_path / "s"
    with sqlite3.connect(path) as connection:
        connection.execute("create table studies (name text)")
    with pytest.raises(HeaptapeError, match=f"^{path}: not usable as the storage of a search: "):
        opened(path, {})


def test_two_searches_do_not_share_a_file(tmp_path):
    trials.require_optuna()
    with (
        trials.opened(tmp_path / "s", {}, 1, planted_space()),
        pytest.raises(HeaptapeError, match="another search is using it"),
    ):
        opened(tmp_path / "s", {})


def test_a_place_that_can_not_be_written_is_reported(tmp_path):
    with pytest.raises(HeaptapeError, match="none/s: can't be written: No such file or directory"):
        opened(tmp_path / "none" / "s", {})


def test_without_optuna_the_command_that_installs_it_is_reported(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name == "optuna":
            raise ImportError("No module named 'optuna'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(HeaptapeError, match="^tune needs the Python package optuna: pip install optuna"):
        trials.require_optuna()
