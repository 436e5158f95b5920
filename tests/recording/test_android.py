# SPDX-License-Identifier: MIT
"""A real recording of another recorder: imported, checked, compiled, replayed, and held against its text.

Long: its replay under every allocator.
"""

import json
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from tests.support import CONVERT, HEAPTAPE_HERE, REPOSITORY, check, info, succeed

RECORDING = REPOSITORY / "workloads" / "corpus" / "android-systemui.zip"
ALLOCATORS = 5


def figures_of_the_text() -> tuple[Counter[str], int]:
    """Calls by name and peak live bytes, straight from the text."""
    calls: Counter[str] = Counter()
    live: dict[str, int] = {}
    live_bytes = peak_bytes = 0
    with zipfile.ZipFile(RECORDING) as archive:
        lines = archive.read(archive.namelist()[0]).decode().splitlines()
    for line in lines:
        _, call, *words = line.split()
        if call == "thread_done":
            continue
        calls[call] += 1
        released = words[1] if call == "realloc" else words[0] if call == "free" else None
        live_bytes -= live.pop(released, 0)
        if call != "free" and words[0] != "0x0":
            size = int(words[1]) * int(words[2]) if call == "calloc" else int(words[-1])
            live[words[0]] = size
            live_bytes += size
        peak_bytes = max(peak_bytes, live_bytes)
    return calls, peak_bytes


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("android") / "systemui.tape"
    succeed(CONVERT, "convert", RECORDING, path)
    return path


def test_imported_recording_has_the_texts_calls_and_peak(tape: Path) -> None:
    calls, peak_bytes = figures_of_the_text()
    about = info(tape)
    assert Counter(about["calls"]) == calls
    assert about["events"] == calls.total()
    assert about["peak_live_bytes"] == peak_bytes
    assert check(tape)["ok"]


def test_recording_compiles_the_same_from_the_zip_and_from_the_trace(tape: Path) -> None:
    summaries = []
    for source, name in ((tape, "a.work"), (RECORDING, "b.work")):
        work = tape.with_name(name)
        summaries.append(json.loads(succeed(CONVERT, "compile", source, "-o", work, "--json").stdout))
        witness = check(work)
        assert witness["ok"]
    assert summaries[0]["witness"]["ops"] == summaries[1]["witness"]["ops"] == figures_of_the_text()[0].total()
    assert summaries[0]["witness"] == summaries[1]["witness"]
    assert summaries[0]["witness"]["peak_live_bytes"] == figures_of_the_text()[1]


@pytest.mark.long
def test_recording_replays_under_every_allocator(tape: Path, tmp_path: Path) -> None:
    results = tmp_path / "r.json"
    found = json.loads(succeed(HEAPTAPE_HERE, "allocators", "--json").stdout)["allocators"]
    names = [allocator["name"] for allocator in found if allocator["found"]]
    assert "glibc" in names
    chosen = [word for name in names for word in ("-a", name)]
    succeed(HEAPTAPE_HERE, "replay", "-n", "1", "--passes", "time,memory", *chosen, "-o", results, tape)
    about = json.loads(results.read_text())
    calls, peak_bytes = figures_of_the_text()
    assert about["workload"]["ideal_rss_bytes"] == peak_bytes
    assert {run["allocator"] for run in about["runs"]} == set(names)
    for run in about["runs"]:
        assert run["failed_calls"] == 0
        if run["pass"] == "time":
            counts = Counter({call: figures["count"] for call, figures in run["calls"].items()})
            assert counts + Counter(run["folded_calls"]) <= calls
            assert counts.total() == about["workload"]["ops"]
        else:
            assert run["rss_anon_peak_bytes"] > peak_bytes / 4
