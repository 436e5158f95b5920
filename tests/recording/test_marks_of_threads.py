# SPDX-License-Identifier: MIT
"""Marks in programs with threads: a thread's calls after it has learnt of a mark come after the mark, earlier calls
before it. Each thread works in its own memory, which otherwise needs no stamps.
"""

import json
import struct
from pathlib import Path

import pytest
from heaptape.tape.workload_format import read_workload

from tests.support import CONVERT, OUT, REPLAY, record, succeed

THREADS, PHASES, COUNT = 4, 6, 300
OPS_OF_PHASE = 2 * THREADS * COUNT


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("marks") / "marks.tape"
    record(path, OUT / "test-programs/marked_phases", str(THREADS), str(PHASES), str(COUNT))
    return path


@pytest.fixture(scope="module")
def marks(tape: Path) -> list[dict]:
    """The marks of the origins file."""
    succeed(CONVERT, "compile", tape, "-o", tape.with_suffix(".work"), "--origins", tape.with_suffix(".origins"))
    data = tape.with_suffix(".origins").read_bytes()
    return json.loads(data[len(data) - struct.unpack_from("<Q", data, 48)[0] :])["marks"]


def test_all_of_a_phase_lies_between_its_marks(marks: list[dict]) -> None:
    assert [mark["name"] for mark in marks] == [f"phase {number}" for number in range(1, PHASES + 1)]
    positions = [mark["position"] for mark in marks]
    assert [after - before for before, after in zip(positions, positions[1:])] == [OPS_OF_PHASE] * (PHASES - 1)


def test_blame_samples_at_the_position_of_the_mark(tape: Path, marks: list[dict]) -> None:
    """At a mark no object of the phases lives."""
    asked = [f"mark={mark['name']}" for mark in marks[1:]]
    options = [word for where in asked for word in ("--at", where)]
    origins, work = tape.with_suffix(".origins"), tape.with_suffix(".work")
    run = json.loads(
        succeed(REPLAY, "--pass", "blame", "--origins", origins, "--positions", "0", *options, work).stdout
    )
    places = [place for place in run["blame"]["positions"] if "asked" in place["why"]]
    assert [place["position"] for place in places] == [mark["position"] for mark in marks[1:]]
    assert len({place["live_bytes"] for place in places}) == 1


@pytest.mark.parametrize("phases", ["phase 2", "phase 2,phase 5", "2..5"])
def test_a_group_has_all_objects_of_its_phases(tape: Path, marks: list[dict], phases: str) -> None:
    work = tape.with_suffix(".removed")
    succeed(CONVERT, "compile", tape, "-o", work, "--group", f"phase={phases}&size=1000=remove")
    (about,) = read_workload(work).info["whatif"]
    assert about["objects"] == {"phase 2": 1, "phase 2,phase 5": 2, "2..5": 4}[phases] * THREADS * COUNT
