# SPDX-License-Identifier: MIT
"""Programs with an allocator in the executable, attached to: what their recordings from the start have, too."""

import subprocess
from pathlib import Path

import pytest

from capture.test.attach.attached import HANG_S, Attached, Worker, requests, text
from capture.test.linked.test_linked_registers import registers  # noqa: F401 (a fixture)
from capture.test.linked.test_linked_rust import ALLOCATORS, programs  # noqa: F401 (a fixture)
from tests.support import info, proved


def test_calls_of_an_attached_process_leave_every_register_and_flag(registers: Path, tmp_path: Path) -> None:  # noqa: F811
    with subprocess.Popen([registers], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout.readline() == b"\n"
        for number in range(3):
            attached = Attached(program.pid, tmp_path / f"{number}.tape")
            attached.stop_when_it_holds(1000)
            assert info(attached.trace)["info"]["allocator"] == "registers"
        program.stdin.close()
        assert program.wait(timeout=HANG_S) == 0


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(ALLOCATORS))
def test_a_server_with_a_crates_allocator_is_recorded_while_it_runs(name, programs, tmp_path):  # noqa: F811
    server = Worker((programs / name, tmp_path), 2)
    before = text(server.pid)
    for _ in range(3):
        attached = Attached(server.pid, tmp_path / "t.tape")
        for _ in range(5):
            server.obey("c")
        attached.stop()
        assert text(server.pid) == before
        calls = requests(attached.trace)
        acquired = calls[calls["call"].isin(["malloc", "memalign"])]
        assert (acquired["bytes"] == 4243).sum() == 5000
        proved(attached.trace, "double_frees", "overlapping_acquires", "dropped")
    assert server.end() == 0
