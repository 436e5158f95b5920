# SPDX-License-Identifier: MIT
"""Inputs that were changed by their structure, checksums computed again, give one error or are read; the programs are
built under AddressSanitizer and UBSan.

Long: `make mutants` tries 10,000; these are the first few of each kind. `"heaptape-convert"`, `"heaptape-record"`,
`"heaptape-replay"` of `"sanitize"` are needed.
"""

import random
from pathlib import Path

import pytest

from tests.fuzz.inputs import KINDS, Recorder, Seeds, control_request, try_one

pytestmark = pytest.mark.long

EACH = 40
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
