# SPDX-License-Identifier: MIT
"""The schema of results: the published one is that of the structs, and measured results fit it; wrong ones don't."""

import copy
import json
import re

import pytest
from heaptape.common.engine import OF_ACCESSES, PASSES
from heaptape.common.errors import HeaptapeError
from heaptape.results import structs
from heaptape.results.schema import results
from heaptape.results.structs import json_schema
from jsonschema import Draft202012Validator
from synthetic_results import make_results, write

from tests.support import HEAPTAPE, HEAPTAPE_HERE, REPOSITORY, call_heaptape, refused, succeed

# Of the others: replay/test/passes/test_misses.py, test_accesses.py.
WITHOUT_ACCESSES = [pass_ for pass_ in PASSES if pass_ not in OF_ACCESSES]
VALIDATOR = Draft202012Validator(json_schema())


def errors(data: dict) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(data)]


def keys(schema: dict, name: str) -> set[str]:
    return set(schema["$defs"][name]["properties"])


@pytest.fixture(scope="module")
def measured(tmp_path_factory, small_tape):
    """Results of every pass that a trace without data accesses allows, of an allocator with a heap walk and of one
    without.
    """
    path = tmp_path_factory.mktemp("measured") / "r.json"
    done = call_heaptape(
        "replay",
        small_tape,
        "-a",
        "glibc",
        "-a",
        "reference",
        "-n",
        "1",
        "--passes",
        ",".join(WITHOUT_ACCESSES),
        "-o",
        path,
    )
    assert done.status == 0, done.stderr
    return path


def test_measured_results_of_every_pass_fit_the_published_schema(measured):
    data = json.loads(measured.read_text())
    assert {run["pass"] for run in data["runs"] if "error" not in run} == set(WITHOUT_ACCESSES)
    assert errors(data) == []
    assert results(measured).data == data


def test_the_schema_knows_every_key_that_is_measured(measured):
    data = json.loads(measured.read_text())
    assert set(data) <= keys(json_schema(), "ResultsFile")
    assert {key for run in data["runs"] for key in run} <= keys(json_schema(), "Run")
    assert set(data["workload"]) <= keys(json_schema(), "Workload")
    assert set(data["machine"]) <= keys(json_schema(), "Machine")


def test_made_up_results_and_those_of_nearly_nothing_fit():
    assert errors(make_results()) == []
    assert errors({"runs": [{"allocator": "a", "variant": None, "of_our_own": [1, "x"]}]}) == []


@pytest.fixture(scope="module")
def short_results():
    """Results with every kind of run and row, but few rows of each: the schema is checked in Python, value by value."""
    data = make_results(repeats=1)
    for place, run in enumerate(data["runs"]):
        if place != 5:
            run.pop("memory_map", None)
        for rows in [run.get("timeline", []), *(call["histogram"] for call in run.get("calls", {}).values())]:
            del rows[5:]
    del data["workload"]["recorded"][5:]
    return data


@pytest.mark.parametrize(
    ("keys", "wrong"),
    [
        (("runs",), {}),
        (("runs", 0, "allocator"), None),
        (("runs", 0, "variant"), 1),
        (("runs", 0, "pass"), ["time"]),
        (("runs", 0, "calls", "malloc", "mean"), "90"),
        (("runs", 5, "timeline"), [[1, 2, 3]]),
        (("runs", 5, "timeline", 3, 1), "12"),
        (("runs", 5, "rss_anon_peak_bytes"), "12 MiB"),
        (("runs", 5, "memory_map", "positions"), 7),
        (("machine",), "this one"),
        (("workload",), []),
        (("workload", "request_sizes"), [[1, 2]]),
        (("workload", "recorded", 0), 7),
        (("settings",), [1]),
        (("heaptape",), "0.1"),
        (("allocators",), ["glibc"]),
        (("schema",), 2),
        (("workload", "ops"), "\ud800"),  # half of a surrogate pair
    ],
)
def test_a_value_of_a_wrong_type_is_refused_by_both_with_its_place(keys, wrong, short_results, tmp_path):
    data = copy.deepcopy(short_results)
    *way, last = keys
    place = data
    for key in way:
        place = place[key]
    assert last in place or isinstance(last, int)
    place[last] = wrong
    assert len(errors(data)) == 1
    path = write(tmp_path / "r.json", data)
    with pytest.raises(HeaptapeError) as caught:
        results(path)
    named = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")
    # Of a dictionary, msgspec names no keys: [...].
    assert str(caught.value).startswith(f"{path}: ")
    assert last in ("schema", "ops") or named.replace(".malloc", "[...]") in str(caught.value)


def test_every_reason_why_a_figure_is_missing_has_its_place_in_the_structs():
    """Under the name of the figure, never as a value of the figure itself."""
    sources = (path.read_text() for part in ("replay", "observe") for path in (REPOSITORY / part).rglob("*.c"))
    written = {name for text in sources for name in re.findall(r'"(\w*missing_because)"', text)}
    known = {
        name
        for one in vars(structs).values()
        if isinstance(one, type)
        for name in getattr(one, "__struct_fields__", ())
    }
    assert {"preempted_missing_because", "syscalls_missing_because"} <= written
    assert written <= known


def test_results_without_restartable_sequences_are_whole(small_tape, tmp_path):
    """As on a glibc before 2.35."""
    file = tmp_path / "r.json"
    allocator = "reference:GLIBC_TUNABLES=glibc.pthread.rseq=0"
    succeed(HEAPTAPE, "replay", small_tape, "-n", "1", "--passes", "time", "-a", allocator, "-o", file)
    (time,) = json.loads(file.read_text())["runs"]
    assert "restartable sequences" in time["preempted_missing_because"]
    assert errors(results(file).data) == []


@pytest.mark.parametrize("value", [10**400, 1 << 64, -(1 << 63) - 1])
@pytest.mark.parametrize("command", ["compare", "report"])
def test_an_integer_that_no_counter_holds_is_refused_by_its_place(tmp_path, command, value):
    path = tmp_path / "r.json"
    path.write_text(json.dumps(make_results() | {"workload": {"ideal_rss_bytes": value}}))
    refused(HEAPTAPE_HERE, command, path, says="r.json: workload.ideal_rss_bytes: Expected `int` ")


def test_what_can_not_be_decoded_is_refused_by_file_and_allocator(tmp_path):
    path = tmp_path / "r.json"
    runs = [run | {"memory_map": {"cells": "\u202e"}} for run in make_results()["runs"]]
    path.write_text(json.dumps(make_results() | {"runs": runs}))
    refused(HEAPTAPE_HERE, "report", path, "-o", tmp_path / "r.html", says="r.json: the memory map of ")
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize("variant", [None, "", "default"])
def test_default_settings_bear_the_name_of_their_allocator_alone(variant):
    assert structs.label("one", variant) == "one"
    assert structs.label("one", "lean") == "one:lean"
