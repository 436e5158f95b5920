# SPDX-License-Identifier: MIT
"""Calls by which a program sets its allocator up are recorded in their place, and replayed on that allocator."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from heaptape.tape.calls import NAMES
from heaptape.tape.trace import open_trace

from capture.test.driven import Driven
from tests.support import CONVERT, HEAPTAPE_HERE, OUT, compile_c, compile_trace, info, record, succeed, system_library

SOURCE = Path(__file__).parent / "controls.c"
ARENA_MAX, TOP_PAD, MMAP_MAX, OPTION_15 = 2**32 - 8, 2**32 - 2, 2**32 - 4, 15
MALLOPT = 13  # of core/trace/calls.def
CONTROLS = [
    name
    for name in NAMES
    if name.startswith(("mall", "mi_", "Malloc", "scalable", "tc_")) and name not in ("malloc", "malloc_usable_size")
]
MINUS_1 = 2**63 - 1
ASKED = [
    ("mallopt", ARENA_MAX, 2), ("malloc_trim", 0, 4096), ("mallinfo", 0, 0), ("mallinfo2", 0, 0),
    ("malloc_stats", 0, 0), ("malloc_info", 0, 0),
]  # fmt: skip


def option(function: str, name: str) -> int:
    """The number that a trace has for such a name (core/trace/control_names.def)."""
    shape = re.sub(r"\b\d+\b", "<i>", name)
    table = (Path(__file__).parents[3] / "core" / "trace" / "control_names.def").read_text()
    number = int(re.findall(rf'^CONTROL_NAME\((\d+), {function}, "{re.escape(shape)}"', table, re.MULTILINE)[0])
    index = re.findall(r"\b\d+\b", name)
    return number | int(index[0]) << 16 if index else number


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(tmp_path_factory.mktemp("controls") / "controls", SOURCE, "-O1")


def events(path: Path) -> pd.DataFrame:
    with open_trace(path) as trace:
        return pd.concat(trace.frames(), ignore_index=True)


def controls(path: Path) -> list[tuple[str, int, int]]:
    frame = events(path)
    rows = frame[frame["call"].isin(CONTROLS)]
    return [(str(row.call), int(row.param), int(row.size)) for row in rows.fillna(0).itertuples()]


def replayed(tape: Path, *arguments: str | Path) -> dict:
    work = compile_trace(tape)
    return json.loads(succeed(OUT / "libexec/heaptape-replay", "--pass", "memory", *arguments, work).stdout)


def test_control_calls_are_recorded_with_their_arguments_between_the_calls_around_them(program, tmp_path):
    record(tmp_path / "a.tape", program, "asks")
    assert controls(tmp_path / "a.tape") == ASKED
    frame = events(tmp_path / "a.tape")
    first, last = (frame.index[frame["request_bytes"] == size][-1] for size in (4242, 4243))
    places = frame.index[frame["call"].isin(CONTROLS)]
    assert first < places[0]
    assert places[-1] < last
    assert frame.loc[places, "acquire_stamp"].is_unique


def test_what_the_program_does_is_said_in_a_line(program, tmp_path):
    record(tmp_path / "a.tape", program, "trim")
    said = info(tmp_path / "a.tape")["witness"]["controls"]
    assert said["text"] == "calls malloc_trim 5 times"
    assert said["of"] == "glibc"
    assert said["calls"] == [{"call": "malloc_trim", "value": 0, "count": 5}]


def test_a_function_that_is_looked_up_in_the_c_library_is_recorded(program, tmp_path):
    record(tmp_path / "a.tape", program, "found")
    assert controls(tmp_path / "a.tape") == [("malloc_trim", 0, 7)]


@pytest.mark.parametrize(
    ("library", "seen", "expected"),
    [
        (None, "0 0 0", []),
        (
            "libmimalloc.so.2",
            "1 1 0",
            [
                ("mi_collect", 0, 1),
                ("mi_option_set", OPTION_15, MINUS_1),
                ("mi_option_set_enabled", OPTION_15, 1),
                ("mi_option_set_enabled", OPTION_15, 0),
            ],
        ),
        (
            "libtcmalloc_minimal.so.4",
            "0 0 1",
            [
                ("MallocExtension_ReleaseFreeMemory", 0, 0),
                ("MallocExtension_ReleaseToSystem", 0, 4096),
                (
                    "MallocExtension_SetNumericProperty",
                    option("PROPERTY", "tcmalloc.max_total_thread_cache_bytes"),
                    1 << 20,
                ),
                ("MallocExtension_MarkThreadIdle", 0, 0),
                ("tc_mallopt", 2**32 - 3, 2**32 - 1),
                ("tc_mallinfo", 0, 0),
            ],
        ),
    ],
)
def test_functions_of_the_program_s_allocator_are_recorded_and_others_stay_absent(
    library, seen, expected, program, tmp_path
):
    options = ["--preload", system_library(library)] if library else []
    assert record(tmp_path / "a.tape", program, "own", options=options).stdout.strip() == seen
    assert controls(tmp_path / "a.tape") == expected


MEMBERS = """
#include <gperftools/malloc_extension.h>
#include <stdlib.h>
int main() {
  MallocExtension *its = MallocExtension::instance();
  free(malloc(10));
  its->ReleaseFreeMemory();
  its->ReleaseToSystem(4096);
  its->SetMemoryReleaseRate(2.5);
  its->SetNumericProperty("tcmalloc.max_total_thread_cache_bytes", 1 << 20);
  its->SetNumericProperty("no.such.property", 1);
  its->MarkThreadIdle();
  return its->GetMemoryReleaseRate() == 2.5 ? 0 : 1;
}
"""


def assert_virtual_functions_are_recorded(tmp_path: Path, library: Path) -> None:
    record(tmp_path / "a.tape", compile_c(tmp_path / "members", MEMBERS, "-O1", library, "-pthread", compiler="g++"))
    assert controls(tmp_path / "a.tape") == [
        ("MallocExtension_ReleaseFreeMemory", 0, 0),
        ("MallocExtension_ReleaseToSystem", 0, 4096),
        ("MallocExtension::SetMemoryReleaseRate", 0, 2_500_000),
        ("MallocExtension_SetNumericProperty", option("PROPERTY", "tcmalloc.max_total_thread_cache_bytes"), 1 << 20),
        ("MallocExtension_MarkThreadIdle", 0, 0),
    ]
    replayed(tmp_path / "a.tape", "--preload", system_library("libtcmalloc_minimal.so.4"))


def test_virtual_functions_of_tcmalloc_are_recorded_as_its_c_functions_are(tmp_path):
    assert_virtual_functions_are_recorded(tmp_path, system_library("libtcmalloc_minimal.so.4"))


@pytest.mark.parametrize("how", ["linked", "preloaded"])
def test_calls_of_mallctl_that_change_something_are_recorded_by_name_and_value(how, program, tmp_path):
    library = system_library("libjemalloc.so.2")
    if how == "linked":
        program = compile_c(tmp_path / "linked", SOURCE, "-Wl,--no-as-needed", library)
    assert_calls_of_mallctl_are_recorded(program, tmp_path, ["--preload", library] if how == "preloaded" else [])


def assert_calls_of_mallctl_are_recorded(program: Path, tmp_path: Path, options: list[str | Path]) -> None:
    created = int(record(tmp_path / "a.tape", program, "named", options=options).stdout)
    assert controls(tmp_path / "a.tape") == [
        ("mallctl", option("MALLCTL", "arenas.dirty_decay_ms"), MINUS_1),
        ("mallctl", option("MALLCTL", "thread.tcache.enabled"), 1),
        ("mallctl", option("MALLCTL", "thread.arena"), 0),
        ("mallctl", option("MALLCTL", "arena.0.purge"), 0),
        ("mallctl", option("MALLCTL", "arena.0.dss"), 0),
        ("mallctl", option("MALLCTL", "arenas.create"), created),
        ("mallctlbymib", option("MALLCTL", f"arena.{created}.muzzy_decay_ms"), MINUS_1),
        ("mallctlbymib", option("MALLCTL", "thread.tcache.flush"), 0),
    ]
    said = info(tmp_path / "a.tape")["witness"]["controls"]
    assert said["of"] == "jemalloc"
    assert said["text"].startswith("sets arenas.dirty_decay_ms=-1, sets thread.tcache.enabled=1, sets thread.arena=0, ")
    assert "calls mallctl for arena.0.dss (never replayed)" in said["text"]
    replayed(tmp_path / "a.tape", "--preload", system_library("libjemalloc.so.2"))


@pytest.mark.parametrize("library", ["libjemalloc.so.2", "libtcmalloc_minimal.so.4"])
def test_a_replay_gives_memory_back_where_the_program_asked_its_allocator_to(library, program, tmp_path):
    ends = {}
    for mode in ("trim", "plain"):
        record(tmp_path / f"{mode}.tape", program, mode, options=["--preload", system_library(library)])
        ends[mode] = replayed(tmp_path / f"{mode}.tape", "--preload", system_library(library))["rss_anon_end_bytes"]
    assert ends["trim"] < ends["plain"] - (4 << 20)
    assert replayed(tmp_path / "trim.tape")["rss_anon_end_bytes"] > 8 << 20, "glibc: left out"


def ops_of(tape: Path) -> list[str]:
    """The control calls of its workload, as printed."""
    dump = succeed(CONVERT, "dump", compile_trace(tape)).stdout
    return [line for line in dump.splitlines() if "mallopt" in line or "malloc_trim" in line]


def test_a_later_file_of_a_rotation_and_a_fork_child_begin_with_what_was_set(program, tmp_path):
    record(tmp_path / "t.tape", program, "forks", options=["--all-processes", "--rotate", "70K"])
    files = sorted(tmp_path.glob("t.0*.tape"))
    (child,) = tmp_path.glob("t.[1-9]*.0*.tape")
    assert len(files) > 2
    assert [call for call, _, _ in controls(files[0])] == ["mallopt", "mallopt", "malloc_trim", "mallopt"]
    set_before = [[MALLOPT, ARENA_MAX, 2], [MALLOPT, TOP_PAD, 4 << 20]]
    for tape in [*files[1:], child]:
        about = info(tape)
        assert about["info"]["set_before"] == set_before, tape
        assert "settings_by_calls" not in about["info"]["lacks"]
        assert about["events"] == 0 or about["witness"]["controls"]["text"].startswith("sets M_ARENA_MAX=2")
    assert len(ops_of(files[1])) == 2
    assert controls(files[1]) == []
    assert controls(child) == [("mallopt", MMAP_MAX, 5)]
    assert len(ops_of(child)) == 3
    succeed(CONVERT, "convert", "--merge", *files, tmp_path / "whole.tape")
    assert len(controls(tmp_path / "whole.tape")) == 4
    assert "set_before" not in info(tmp_path / "whole.tape")["info"]


def test_what_was_set_in_a_pause_is_unknown_to_later_files_and_fork_children(program, tmp_path):
    driven = Driven(tmp_path / "t.tape", "--rotate", "70K", program=[str(program), "steps"])
    driven.work()
    for verb in ("stop", "start"):
        succeed(HEAPTAPE_HERE, "ctl", str(driven.process.pid), verb)
        driven.work()

    def files_of_program() -> list[Path]:
        return sorted(tmp_path.glob("t.0*.tape"))

    begun = len(files_of_program())
    while len(files_of_program()) == begun:  # a recorder without processor time begins none for a while
        driven.work()
    driven.end()

    def unknown(tapes: list[Path]) -> list[bool]:
        return ["settings_by_calls" in info(tape)["info"]["lacks"] for tape in tapes]

    files = unknown(files_of_program())
    assert not files[0]
    assert files[-1]
    assert files == sorted(files)
    children = sorted(tmp_path.glob("t.[1-9]*.0*.tape"), key=lambda tape: int(tape.name.split(".")[1]))
    assert unknown(children) == [False, *[True] * (len(children) - 1)]


def test_a_slice_begins_with_what_was_set_before_it(program, tmp_path):
    record(tmp_path / "t.tape", program, "forks")
    succeed(CONVERT, "convert", "--slice", "progress=50..60", tmp_path / "t.tape", tmp_path / "s.tape")
    assert controls(tmp_path / "s.tape") == [
        ("mallopt", ARENA_MAX, 2), ("mallopt", TOP_PAD, 1 << 20), ("mallopt", TOP_PAD, 4 << 20),
    ]  # fmt: skip
    frame = events(tmp_path / "s.tape")
    assert list(frame.index[frame["call"] == "mallopt"]) == [0, 1, 2]


def test_a_replay_trims_where_the_program_did_on_its_own_allocator_alone(program, tmp_path):
    ends = {}
    for mode in ("trim", "plain"):
        record(tmp_path / f"{mode}.tape", program, mode)
        ends[mode] = replayed(tmp_path / f"{mode}.tape")["rss_anon_end_bytes"]
    assert ends["trim"] < 1 << 20
    assert ends["plain"] > 8 << 20
    jemalloc = system_library("libjemalloc.so.2")
    if jemalloc.exists():
        replayed(tmp_path / "trim.tape", "--preload", jemalloc)


@pytest.mark.parametrize("how", ["-pie", "-no-pie"])
def test_settings_that_a_program_has_for_jemalloc_are_in_its_trace_before_the_environments(how, tmp_path):
    library = system_library("libjemalloc.so.2")
    source = """
    const char *malloc_conf = "narenas:1,dirty_decay_ms:0";
    int main(void) { free(malloc(10)); }"""
    linked = compile_c(tmp_path / "linked", source, how, "-fPIE", "-Wl,--no-as-needed", library)
    record(tmp_path / "a.tape", linked, env={"MALLOC_CONF": "narenas:2"})
    system = Path("/etc/malloc.conf")
    parts = ["narenas:1,dirty_decay_ms:0", *([str(system.readlink())] if system.is_symlink() else []), "narenas:2"]
    assert info(tmp_path / "a.tape")["info"]["settings"] == {"MALLOC_CONF": ",".join(parts)}
    record(tmp_path / "b.tape", compile_c(tmp_path / "not", source, how, "-fPIE"))
    assert info(tmp_path / "b.tape")["info"]["settings"] == {}
