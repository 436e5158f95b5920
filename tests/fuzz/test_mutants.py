# SPDX-License-Identifier: MIT
"""Inputs that were changed by their structure, checksums computed again, give one error or are read; the programs are
built under AddressSanitizer and UBSan.

Long. HEAPTAPE_MUTANTS: how many inputs of all kinds (`make mutants`: 10,000; else the first few of each); files of
those that are wrong stay in the tests' folders. MUTANTS_SEED=TEXT: other changes. `"heaptape-convert"`,
`"heaptape-record"`, `"heaptape-replay"` of `"sanitize"` and the test program `"hostile_host"` are needed.
"""

import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.fuzz.hosts import hostile, legal
from tests.fuzz.inputs import (
    CONTROL_SHARE,
    HOSTS_RECORDERS,
    HOSTS_SHARE,
    KINDS,
    Recorder,
    Seeds,
    chances,
    control_request,
    trace_of_a_host,
    try_one,
)
from tests.oracle.reader import open_trace
from tests.support import check, info

pytestmark = pytest.mark.long

COUNT = int(os.environ.get("HEAPTAPE_MUTANTS", "0"))
AT_A_TIME = 50
EACH = {kind: round(COUNT * about.share) or (2 if kind == "accesses" else 40) for kind, about in KINDS.items()}
CONTROLS, HOSTS = max(40, round(COUNT * CONTROL_SHARE)), max(100, round(COUNT * HOSTS_SHARE / 2))
PARTS = [(kind, first) for kind, count in EACH.items() for first in range(0, count, AT_A_TIME)]


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Seeds:
    return Seeds.make(tmp_path_factory.mktemp("seeds"))


@pytest.mark.parametrize(("kind", "first"), PARTS)
def test_changed_input_is_read_or_gives_one_error_that_names_it(
    kind: str, first: int, seeds: Seeds, tmp_path: Path
) -> None:
    numbers = range(first, min(first + AT_A_TIME, EACH[kind]))
    wrong = [try_one(kind, number, seeds, tmp_path) for number in numbers]
    assert [problem for problem in wrong if problem] == []


def test_a_recorder_goes_on_whatever_it_is_asked(seeds: Seeds, tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    try:
        wrong = [recorder.ask(control_request(chances(f"control-{n}"), seeds)) for n in range(CONTROLS)]
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
    """Of several at a time."""
    recorder = Recorder(tmp_path, *HOSTS_RECORDERS[kind])
    with ThreadPoolExecutor(2 * (os.cpu_count() or 1)) as pool:
        wrong = list(pool.map(lambda n: recorder.play(hostile(chances(f"{kind}-{n}"))), range(HOSTS)))
        wrong.append(recorder.end())
        wrong += pool.map(lambda path: trace_of_a_host(chances(path.name), path), recorder.traces())
    assert [problem for problem in wrong if problem] == []
