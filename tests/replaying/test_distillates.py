# SPDX-License-Identifier: MIT
"""A distillate is a trace like any other, and keeps its manifest and margins through every conversion.

Distillates of a program of 1,000 threads, of an Android import, and of an anonymised archive. Long: all tests of the
first and the last; each allocator.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec
import pytest
from heaptape.common.home import default_home
from heaptape.results import distilled
from heaptape.results.schema import figures, results
from heaptape.results.structs import Distilled
from heaptape.run import registry
from heaptape.tape.trace import open_trace
from heaptape.tape.workload_format import read_workload

from replay.test.engine import make
from tests.support import CONVERT, HEAPTAPE_HERE, OUT, REPOSITORY, assert_clean, call_heaptape, check, refused, succeed

CORPUS = REPOSITORY / "workloads" / "corpus"
EXPECTED = {"instructions": 1.5, "rss-peak": 3.0, "rss-mean": 4.0}
WINDOW_OPS = 400
# Tests that convert it or read the manifest, whatever it was made from; those of the others are long.
KINDS = ("android", "1,000 threads", "anonymised")
FROM_ONE = pytest.mark.parametrize(
    "made", [KINDS[0], *(pytest.param(kind, marks=pytest.mark.long) for kind in KINDS[1:])], indirect=True
)


@dataclass(frozen=True)
class Made:
    """A distillate and the trace that it was made from."""

    tape: Path
    whole: Path
    manifest: dict


def plan(ops: int) -> dict:
    """Four windows, evenly over the whole, each with a warm-up."""
    begins = [ops * quarter // 4 + WINDOW_OPS for quarter in range(4)]
    windows = [[at - WINDOW_OPS // 2, at, at + WINDOW_OPS, ops / (4 * WINDOW_OPS)] for at in begins]
    return {"windows": windows, "manifest": {"kind": "both", "expected": EXPECTED, "errors": []}}


def whole_of(kind: str, folder: Path) -> Path:
    path = folder / "whole.work"
    if kind == "1,000 threads":
        make(path, ops=15_000, threads=1000, live_objects=1000, remote_percent=30, gap_ns=100)
        return path
    source = CORPUS / {"android": "android-systemui.zip", "anonymised": "redis.tape"}[kind]
    succeed(CONVERT, "compile", source, "-o", path)
    return path


@pytest.fixture(scope="module", params=KINDS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("distillates")
    whole = whole_of(request.param, folder)
    (folder / "plan.json").write_text(json.dumps(plan(read_workload(whole).ops)))
    tape = folder / "d.tape"
    succeed(CONVERT, "distil", whole, "--plan", folder / "plan.json", "-o", tape)
    return Made(tape, whole, manifest_of(tape))


def manifest_of(tape: Path) -> dict:
    """The manifest in the trace itself: `info` prints it rounded."""
    with open_trace(tape) as trace:
        return trace.info["distilled"]


@cache
def calls_of(tape: Path) -> list[str]:
    """Each event of a dump without time, thread number and addresses: calls with sizes, in order."""
    lines = succeed(CONVERT, "dump", tape).stdout.splitlines()
    words = [line.split(" ", 2)[2] for line in lines if line and not line.startswith("#")]
    return ["".join(part for part in word.split("0x") if part) for word in words]


def same_but(one: dict, other: dict, *keys: str) -> bool:
    return {k: v for k, v in one.items() if k not in keys} == {k: v for k, v in other.items() if k not in keys}


def test_it_is_a_legal_history_and_checks_clean(made: Made) -> None:
    assert_clean(made.tape)
    assert made.manifest["map"][-1][1] == read_workload(made.whole).ops
    assert check(made.tape)["ops"] == made.manifest["map"][-1][0]


@FROM_ONE
def test_its_dump_reads_back_as_the_same_history(made: Made, tmp_path: Path) -> None:
    text, again = tmp_path / "d.txt", tmp_path / "again.tape"
    text.write_text(succeed(CONVERT, "dump", made.tape).stdout)
    succeed(CONVERT, "convert", text, again)
    assert_clean(again)
    assert check(again)["peak_live_bytes"] == check(made.tape)["peak_live_bytes"]
    assert calls_of(again) == calls_of(made.tape)


@FROM_ONE
@pytest.mark.parametrize("option", ["--archive", "--anonymise"])
def test_archived_or_anonymised_it_keeps_ops_and_manifest(made: Made, tmp_path: Path, option: str) -> None:
    other = tmp_path / "other.tape"
    succeed(CONVERT, "convert", option, made.tape, other)
    assert_clean(other)
    assert [line.split("(")[0] for line in calls_of(other)] == [line.split("(")[0] for line in calls_of(made.tape)]
    kept = manifest_of(other)
    assert same_but(kept, made.manifest, "whole")
    assert same_but(kept["whole"], made.manifest["whole"], "name")


def test_its_workload_has_the_manifest_and_threads_of_the_whole(made: Made, tmp_path: Path) -> None:
    work = tmp_path / "d.work"
    succeed(CONVERT, "compile", made.tape, "-o", work)
    found = read_workload(work)
    assert found.info["distilled"] == made.manifest
    assert found.ops == made.manifest["map"][-1][0]
    assert found.threads <= read_workload(made.whole).threads


def replayed(made: Made, names: Iterable[str], passes: str, output: Path) -> Path:
    chosen = [word for name in names for word in ("-a", name)]
    call_heaptape("replay", made.tape, *chosen, "--passes", passes, "-n", "1", "-o", output)
    return output


@pytest.mark.long
def test_every_allocator_replays_it_and_its_memory_has_the_margin(made: Made, tmp_path: Path) -> None:
    known = [name for name, one in registry.load(default_home()).items() if one.path]
    file = results(replayed(made, known, "memory", tmp_path / "r.json"))
    assert not file.failures
    assert file.data["workload"]["distilled"] == made.manifest
    table = figures([file])
    peaks = table[table["metric"] == "peak_rss"]
    assert set(peaks["allocator"]) == set(known)
    assert set(peaks["margin_percent"]) == {EXPECTED["rss-peak"]}
    assert set(table.loc[table["metric"] == "mean_rss", "margin_percent"]) == {EXPECTED["rss-mean"]}
    assert "distillate" in call_heaptape("compare", tmp_path / "r.json").stdout
    shown = call_heaptape("compare", tmp_path / "r.json", "--table", "all").stdout
    assert "±3.0 %" in shown
    assert "is a distillate" in " ".join(shown.split())


@FROM_ONE
def test_its_instructions_are_estimated_by_the_windows_that_a_replay_counts(made: Made, tmp_path: Path) -> None:
    if not (OUT / "libexec" / "valgrind").exists():
        pytest.skip("instructions are counted by windows by our Valgrind tool alone")
    file = results(replayed(made, ["glibc"], "instructions", tmp_path / "r.json"))
    assert not file.failures
    run, manifest = file.measured[0], msgspec.convert(made.manifest, Distilled)
    assert run.windows
    assert run.windows.positions == distilled.edges(manifest)
    table = figures([file]).drop_duplicates("metric").set_index("metric")
    by_hand = distilled.weights(manifest) @ distilled.counted("instructions", run, manifest)
    assert table.at["total_instructions", "value"] == pytest.approx(by_hand)
    assert table.at["total_instructions", "margin_percent"] == EXPECTED["instructions"]


def test_no_advice_is_made_from_it(made: Made) -> None:
    refused(HEAPTAPE_HERE, "advise", made.tape, says="a distillate has nothing of the program's own memory")


@FROM_ONE
def test_a_gate_says_that_it_is_one(made: Made, tmp_path: Path) -> None:
    output = tmp_path / "g.json"
    words = ["--old", "glibc", "--new", "glibc", "--tolerate", "rss=1%", "--minimise", "none", "-o", output]
    shown = call_heaptape("gate", made.tape, *words, "--artefacts", tmp_path / "artefacts").stdout
    assert "is a distillate" in " ".join(shown.split())
    (one,) = json.loads(output.read_text())["workloads"]
    assert one["workload"]["stand_in"]["expected"] == EXPECTED
