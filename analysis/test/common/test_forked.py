# SPDX-License-Identifier: MIT
"""Work in several processes: its order, its errors, and that no process is left."""

import multiprocessing
import os
import signal

import pytest
from heaptape.common import process
from heaptape.common.errors import FormatError, HeaptapeError


@pytest.fixture(autouse=True)
def three_processors(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})


def test_pieces_come_in_their_order_from_other_processes_and_none_is_left():
    made = list(process.in_order(lambda n: (n, os.getpid()), 7))
    assert [n for n, _ in made] == list(range(7))
    assert len({pid for _, pid in made} - {os.getpid()}) == 3
    assert multiprocessing.active_children() == []


def test_an_error_is_raised_complete_in_its_place_and_other_processes_are_stopped():
    def work(n: int) -> int:
        if n == 1:
            raise FormatError("r.json", 7, "cut off")
        if n == 2:
            signal.pause()
        return n

    made = process.in_order(work, 3)
    assert next(made) == 0
    with pytest.raises(FormatError, match="r.json: offset 7: cut off") as raised:
        next(made)
    assert (raised.value.path, raised.value.offset) == ("r.json", 7)
    assert multiprocessing.active_children() == []


def test_a_lost_process_is_one_clear_error():
    with pytest.raises(HeaptapeError, match="a process of ours was ended"):
        list(process.in_order(lambda n: os.kill(os.getpid(), signal.SIGKILL), 3))
    assert multiprocessing.active_children() == []
