# SPDX-License-Identifier: MIT
"""Spans that a program marks (convert/inspect/): figures exact to the byte, of objects that a program plants."""

import json
from pathlib import Path

import pytest

from tests.support import CONVERT, OUT, RECORD, record, run, succeed

PROGRAM = OUT / "test-programs/planted_spans"
SITES = 9


def spans(tape: Path, *options: str) -> dict[str, dict]:
    found = json.loads(succeed(CONVERT, "spans", tape, *options).stdout)["spans"]
    return {span["name"]: span for span in found}


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("spans") / "spans.tape"
    record(path, PROGRAM, options=["--stacks"])
    return path


@pytest.fixture(scope="module")
def found(tape: Path) -> dict[str, dict]:
    return spans(tape, "--sites", str(SITES))


def test_spans_come_in_order_and_ended(found: dict[str, dict]) -> None:
    assert [(name, span["ended"]) for name, span in found.items()] == [
        ("peak", True), ("rest", True), ("thread", True), ("last", True)
    ]  # fmt: skip


def test_a_peak_is_of_the_objects_that_lived_at_once(found: dict[str, dict]) -> None:
    peak = found["peak"]
    assert (peak["peak_bytes"], peak["peak_objects"]) == (3000000 + 2000000, 2)
    assert (peak["growth_bytes"], peak["growth_objects"]) == (11, 1)
    assert (peak["allocations"], peak["allocated_bytes"]) == (4, 1000000 + 2000000 + 3000000 + 11)


def test_a_span_has_its_own_acquires_and_no_more(found: dict[str, dict]) -> None:
    """Neither an acquire after "rest" nor the release of an older object counts: the latter would hide growth."""
    rest = found["rest"]
    assert (rest["allocations"], rest["peak_bytes"], rest["growth_bytes"]) == (1, 40000, 40000)


def test_objects_of_other_threads_count(found: dict[str, dict]) -> None:
    thread = found["thread"]
    of_libc = thread["growth_bytes"] - 70  # libc's own memory for the thread
    assert thread["peak_bytes"] == 700000 + of_libc
    assert thread["allocations"] == 3


def test_sites_are_those_at_the_peak_and_at_the_end(found: dict[str, dict]) -> None:
    def sites_of(name: str, sites: str) -> list[tuple]:
        return [
            (site["bytes"], site["objects"], site["place"], site["frames"][0]["function"])
            for site in found[name][sites]
        ]

    assert sites_of("peak", "peak_sites") == [(3000000, 1, 2, "peak_span"), (2000000, 1, 2, "acquire")]
    assert sites_of("peak", "growth_sites") == [(11, 1, 2, "peak_span")]
    assert (700000, 1, 3, "acquire") in sites_of("thread", "peak_sites")
    assert (70, 1, 3, "in_thread") in sites_of("thread", "growth_sites")


def test_sites_add_up(found: dict[str, dict]) -> None:
    for span in found.values():
        assert sum(site["bytes"] for site in span["peak_sites"]) == span["peak_bytes"]
        assert sum(site["objects"] for site in span["peak_sites"]) == span["peak_objects"]
        assert sum(site["bytes"] for site in span["growth_sites"]) == span["growth_bytes"]


def test_only_that_many_sites_are_listed_the_largest_first(tape: Path) -> None:
    assert [site["bytes"] for site in spans(tape, "--sites", "1")["peak"]["peak_sites"]] == [3000000]


def test_without_sites_there_are_none(tape: Path) -> None:
    assert not {"peak_sites", "growth_sites"} & spans(tape)["peak"].keys()


def test_from_a_byte_after_all_events_nothing_was_acquired(tape: Path) -> None:
    after = spans(tape, "--from-byte", str(tape.stat().st_size))
    assert [span["allocations"] for span in after.values()] == [0, 0, 0, 0]


def test_a_killed_programs_last_span_did_not_end(tmp_path: Path) -> None:
    killed = tmp_path / "killed.tape"
    assert run(RECORD, "-o", killed, "--", PROGRAM, "kill").status == 128 + 9
    last = spans(killed)["last"]
    assert (last["ended"], last["peak_bytes"], last["growth_bytes"]) == (False, 123456, 123456)


@pytest.mark.parametrize("options", [("--sites", "-1"), ("--sites", "x"), ("--from-byte", "1.5")])
def test_a_wrong_number_is_refused(tape: Path, options: tuple[str, str]) -> None:
    refused = run(CONVERT, "spans", tape, *options)
    assert (refused.status, refused.stderr.count("\n")) == (2, 1)
    assert options[0] in refused.stderr
