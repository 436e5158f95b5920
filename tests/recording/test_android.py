# SPDX-License-Identifier: MIT
"""A real recording of another recorder compiles the same from its text and from the trace made from it.

Long: its replay under every allocator, compared with its text.
"""

import json
from collections import Counter
from pathlib import Path

import pytest

from convert.test.formats.test_android import reference
from tests.support import CONVERT, HEAPTAPE_HERE, REPOSITORY, check, succeed

RECORDING = REPOSITORY / "workloads" / "corpus" / "android-systemui.zip"


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("android") / "systemui.tape"
    succeed(CONVERT, "convert", RECORDING, path)
    return path


def test_recording_compiles_the_same_from_the_zip_and_from_the_trace(tape: Path) -> None:
    witnesses = []
    for source, name in ((tape, "a.work"), (RECORDING, "b.work")):
        work = tape.with_name(name)
        witnesses.append(json.loads(succeed(CONVERT, "compile", source, "-o", work, "--json").stdout)["witness"])
        assert check(work)["ok"]
    assert witnesses[0] == witnesses[1]


@pytest.mark.long
def test_recording_replays_under_every_allocator(tape: Path, tmp_path: Path) -> None:
    results = tmp_path / "r.json"
    found = json.loads(succeed(HEAPTAPE_HERE, "allocators", "--json").stdout)["allocators"]
    names = [allocator["name"] for allocator in found if allocator["found"]]
    assert "glibc" in names
    chosen = [word for name in names for word in ("-a", name)]
    succeed(HEAPTAPE_HERE, "replay", "-n", "1", "--passes", "time,memory", *chosen, "-o", results, tape)
    about = json.loads(results.read_text())
    calls, peak_bytes, _ = reference(RECORDING)
    assert about["workload"]["ideal_rss_bytes"] == peak_bytes
    assert {run["allocator"] for run in about["runs"]} == set(names)
    for run in about["runs"]:
        assert run["failed_calls"] == 0
        if run["pass"] == "time":
            counts = Counter({call: figures["count"] for call, figures in run["calls"].items()})
            assert counts + Counter(run["folded_calls"]) <= Counter(calls)
            assert counts.total() == about["workload"]["ops"]
        else:
            assert run["rss_anon_peak_bytes"] > peak_bytes / 4
