# SPDX-License-Identifier: MIT
"""Inputs that were changed by their structure, checksums computed again, give one error or are read; the programs are
built under AddressSanitizer and UBSan.

Long: `make mutants` tries 10,000; these are the first few of each kind. `"heaptape-convert"`, `"heaptape-record"`,
`"heaptape-replay"` of `"sanitize"` and the test program `"hostile_host"` are needed.
"""

import random
from pathlib import Path

import pytest

from tests.fuzz.hosts import hostile, legal
from tests.fuzz.inputs import (
    HOSTS_RECORDERS,
    KINDS,
    Recorder,
    Seeds,
    control_request,
    trace_of_a_host,
    try_one,
)
from tests.oracle.reader import open_trace
from tests.support import check, info

pytestmark = pytest.mark.long

EACH = 40
HOSTS = 100
SLOW = {"accesses": 2}  # under Valgrind


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Seeds:
    return Seeds.make(tmp_path_factory.mktemp("seeds"))


@pytest.mark.parametrize("kind", KINDS)
def test_changed_input_is_read_or_gives_one_error_that_names_it(kind: str, seeds: Seeds, tmp_path: Path) -> None:
    wrong = [try_one(kind, number, seeds, tmp_path) for number in range(SLOW.get(kind, EACH))]
    assert [problem for problem in wrong if problem] == []


def test_a_recorder_goes_on_whatever_it_is_asked(seeds: Seeds, tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    try:
        wrong = [recorder.ask(control_request(random.Random(f"control-{n}"), seeds)) for n in range(EACH)]
    finally:
        end = recorder.end()
    assert [problem for problem in wrong if problem] == []
    assert end == ""


def test_a_host_that_keeps_the_rules_is_recorded_whole(tmp_path: Path) -> None:
    """So that what the next test changes is a recording."""
    recorder = Recorder(tmp_path, *HOSTS_RECORDERS["hosts"])
    played = [recorder.play(b"".join(legal(random.Random(number), 60, linked=number > 0))) for number in range(2)]
    assert played == ["", ""]
    assert recorder.end() == ""
    whose = set()
    for path in recorder.traces():
        assert check(path)["ok"]
        with open_trace(path) as trace:
            if trace.info["program"] == "hostile":
                assert sum(info(path)["calls"].values()) > 30
                whose.add(trace.info["allocator"])
    assert whose == {"libc.so.6", "hostile"}  # the second one's own malloc was redirected


@pytest.mark.parametrize("kind", HOSTS_RECORDERS)
def test_a_recorder_goes_on_and_writes_readable_traces_whatever_its_hosts_do(kind: str, tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, *HOSTS_RECORDERS[kind])
    wrong = [recorder.play(hostile(random.Random(f"{kind}-{number}"))) for number in range(HOSTS)]
    wrong.append(recorder.end())
    wrong += [trace_of_a_host(random.Random(path.name), path) for path in recorder.traces()]
    assert [problem for problem in wrong if problem] == []
