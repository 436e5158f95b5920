# SPDX-License-Identifier: MIT
"""Exports as other tools read them: Parquet in DuckDB and pandas, HDF5, pprof, folded stacks, Chrome's trace events."""

import gzip
import json
import os
import shutil
import subprocess
from collections import Counter

import duckdb
import h5py
import numpy as np
import pandas as pd
import pytest
from heaptape.features.export.conversions import NAMES
from heaptape.tape.trace import open_trace

from tests.leb import Reader
from tests.support import CONVERT, HEAPTAPE, call_heaptape, small_disk, succeed


@pytest.fixture(scope="module")
def tape(tmp_path_factory, write_random_trace):
    """A trace with gaps, samples, marks, names, stacks; each thread has its own small heap."""
    path = tmp_path_factory.mktemp("tape") / "a.tape"
    write_random_trace(3, 4000, path)
    return path


def export(*arguments):
    done = call_heaptape("convert", *arguments)
    assert done.status == 0, done.stderr


def test_parquet_opens_in_duckdb_with_all_events(tmp_path, tape):
    export(tape, "--to", "parquet", tmp_path / "p")
    query = f"select * from read_parquet('{tmp_path}/p/events/*/*.parquet', hive_partitioning = true)"
    counts = dict(duckdb.sql(f"select thread, count(*) from ({query}) group by thread").fetchall())
    with open_trace(tape) as trace:
        frames = [pd.concat(list(trace.frames(t))) for t in range(trace.threads)]
    assert counts == {t: len(frame) for t, frame in enumerate(frames)}
    asked = f"select sum(request_bytes)::hugeint from ({query}) where acquired_address is not null"
    total = duckdb.sql(asked).fetchall()[0][0]
    assert total == sum(int(n) for f in frames for n in f.request_bytes[f.acquired_address.notna()])


def test_parquet_opens_in_pandas_with_the_documented_schema(tmp_path, tape):
    export(tape, "--to", "parquet", tmp_path / "p")
    frame = pd.read_parquet(tmp_path / "p" / "events" / "thread=1" / "part-0.parquet", dtype_backend="numpy_nullable")
    with open_trace(tape) as trace:
        expected = pd.concat(list(trace.frames(1)), ignore_index=True)
        samples = trace.samples()
    assert list(frame.columns) == ["time_ns", *(c for c in expected.columns if c != "thread")]
    for name in ("event", "released_address", "acquired_address", "stack", "latency"):
        assert frame[name].astype("UInt64").equals(expected[name].astype("UInt64")), name
    assert (frame["call"].astype(str) == expected["call"].astype(str)).all()
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "p" / "samples.parquet"), samples)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system takes root")
@pytest.mark.parametrize("name", NAMES)
def test_what_has_no_room_on_the_disk_does_not_appear(tmp_path, tape, name):
    with small_disk(tmp_path / "disk", "4k") as disk:
        done = call_heaptape("convert", tape, "--to", name, disk / "out")
        assert (done.status, done.stderr.count("\n")) == (1, 1), done.stderr
        assert done.stderr.startswith(f"heaptape: {disk}/out: can't be written")
        assert not list(disk.iterdir())


def test_what_was_there_stays_there(tmp_path, tape):
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "file").write_text("mine")
    done = call_heaptape("convert", tape, "--to", "parquet", tmp_path / "p")
    assert (done.status, done.stderr) == (1, f"heaptape: {tmp_path}/p: Not empty\n")
    assert [path.name for path in tmp_path.iterdir()] == ["p"]


def test_hdf5_has_all_events(tmp_path, tape):
    export(tape, tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file, open_trace(tape) as trace:
        assert json.loads(file.attrs["info"]) == trace.info
        for thread in range(trace.threads):
            expected = pd.concat(list(trace.frames(thread)))
            group = file[f"events/{thread}"]
            assert (group["acquired_address"][:] == expected["acquired_address"].fillna(0).to_numpy(np.uint64)).all()
            calls = file["calls"][:][group["call"][:]].astype(str)
            assert (calls == expected["call"].astype(str).to_numpy()).all()


def live_at_end(trace):
    """Slow and simple: bytes live at the end, and all acquired bytes, by stack. Each thread has its own addresses."""
    leaks, given = {}, {}
    for thread in range(trace.threads):
        live = {}
        for frame in trace.frames(thread):
            for row in frame.itertuples():
                if row.releases:
                    live.pop(row.released_address, None)
                if not pd.isna(row.acquired_address):
                    stack = 0 if pd.isna(row.stack) else int(row.stack)
                    live[row.acquired_address] = stack, int(row.request_bytes)
                    given[stack] = given.get(stack, 0) + int(row.request_bytes)
        for stack, size in live.values():
            leaks[stack] = leaks.get(stack, 0) + size
    return leaks, given


def folded(path):
    return [int(line.rsplit(" ", 1)[1]) for line in path.read_text().splitlines()]


def test_folded_stacks_add_up(tmp_path, tape):
    export(tape, "--to", "folded", tmp_path / "bytes.folded")
    export(tape, "--to", "folded-leaks", tmp_path / "leaks.folded")
    with open_trace(tape) as trace:
        leaks, given = live_at_end(trace)
    assert sorted(folded(tmp_path / "bytes.folded")) == sorted(v for v in given.values() if v)
    assert sorted(folded(tmp_path / "leaks.folded")) == sorted(v for v in leaks.values() if v)


def fields(data):
    """(number, value) of a protobuf message: an int, or bytes."""
    numbers = Reader(data)
    while numbers.more:
        key = numbers.leb()
        assert key & 7 in (0, 2)
        value = numbers.leb()
        yield key >> 3, numbers.bytes(value) if key & 7 == 2 else value


def test_pprof_profile_is_consistent(tmp_path, tape):
    export(tape, tmp_path / "a.pb.gz")
    message = list(fields(gzip.decompress((tmp_path / "a.pb.gz").read_bytes())))
    strings = [value.decode() for number, value in message if number == 6]
    assert strings[0] == ""
    kinds = [strings[dict(fields(value))[1]] for number, value in message if number == 1]
    assert kinds == ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"]
    locations = [dict(fields(value)) for number, value in message if number == 4]
    functions = {dict(fields(value))[1] for number, value in message if number == 5}
    assert locations
    assert {dict(fields(location[4]))[1] for location in locations} == functions


def test_trace_without_stacks_is_one_error(tmp_path, write_random_trace):
    write_random_trace(1, 100, tmp_path / "a.tape")
    done = call_heaptape("convert", tmp_path / "a.tape", "--to", "folded", tmp_path / "o")
    assert done.status == 1
    assert "has no call stacks" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_time_line_has_samples_marks_and_threads(tmp_path, tape):
    export(tape, "--to", "chrome", tmp_path / "a.json")
    events = json.loads((tmp_path / "a.json").read_text())["traceEvents"]
    with open_trace(tape) as trace:
        assert sum(e["name"] == "rss_anon_bytes" for e in events) == len(trace.samples())
        assert sum(e["ph"] == "i" for e in events) == len(trace.marks())
        assert sum(e["ph"] == "X" for e in events) == trace.threads
        assert {e["args"]["name"] for e in events if e["name"] == "thread_name"} >= set(trace.thread_names().values())


def test_list_names_every_format_that_is_written():
    """First the formats of heaptape-convert, then those of the Python command, none twice."""
    inner = succeed(CONVERT, "convert", "--list").stdout
    listed = succeed(HEAPTAPE, "convert", "--list").stdout
    assert listed.startswith(inner)
    names = [line.split()[0] for line in listed.splitlines() if line[0] != " "]
    assert names[-len(NAMES) :] == list(NAMES)
    assert len(set(names)) == len(names)


KNOWN = """
#include <stdlib.h>
static void *volatile kept;
__attribute__((noinline, noclone)) static void grow_table(size_t bytes) {
  kept = malloc(bytes);
  __asm__ volatile("");
}
static inline __attribute__((always_inline)) void inlined_step(size_t bytes) {
  grow_table(bytes);
}
__attribute__((noinline, noclone)) static void load_all(void) {
  inlined_step(4321);
  __asm__ volatile("");
}
int main(void) {
  for (int i = 0; i < 3; i++)
    load_all();
  grow_table(1234);
  free(kept);
  return 0;
}
"""


@pytest.fixture(scope="module")
def known_tape(tmp_path_factory, heaptape):
    """A recording of KNOWN with its stacks: (trace, source)."""
    if not shutil.which("gcc"):
        pytest.skip("no gcc here")
    folder = tmp_path_factory.mktemp("known")
    (folder / "known.c").write_text(KNOWN)
    subprocess.run(["gcc", "-g", "-O2", "-o", folder / "known", folder / "known.c"], check=True)
    done = heaptape("record", "--stacks", "-o", folder / "a.tape", "--", folder / "known")
    assert done.returncode == 0, done.stderr
    return folder / "a.tape", folder / "known.c"


@pytest.mark.parametrize(
    ("kind", "main_value", "load_value"),
    [("folded", 1234, 3 * 4321), ("folded-objects", 1, 3), ("folded-leaks", 0, 3 * 4321)],
)
def test_folded_stacks_are_function_names(tmp_path, known_tape, kind, main_value, load_value):
    export(known_tape[0], "--to", kind, tmp_path / "o")
    lines = [line.rsplit(" ", 1) for line in (tmp_path / "o").read_text().splitlines()]
    found = Counter(
        {stack[stack.index(";main;") + 1 :]: int(value) for stack, value in lines if stack.endswith("grow_table")}
    )
    assert found["main;grow_table"] == main_value
    assert found["main;load_all;inlined_step;grow_table"] == load_value
    assert found.total() == main_value + load_value


def test_a_frame_without_a_name_is_module_and_offset(tmp_path, known_tape):
    """The program's file is no longer the one that was recorded."""
    program = known_tape[1].with_name("known")
    moved = program.rename(program.with_name("away"))
    try:
        export(known_tape[0], "--to", "folded", tmp_path / "o")
    finally:
        moved.rename(program)
    text = (tmp_path / "o").read_text()
    assert "grow_table" not in text
    assert ";known+0x" in text


def test_pprof_functions_have_names_files_and_lines(tmp_path, known_tape):
    export(known_tape[0], tmp_path / "a.pb.gz")
    message = list(fields(gzip.decompress((tmp_path / "a.pb.gz").read_bytes())))
    strings = [value.decode() for number, value in message if number == 6]
    functions = {f[1]: (strings[f[2]], strings[f.get(4, 0)]) for f in (dict(fields(v)) for n, v in message if n == 5)}
    lines = []  # of each location, innermost first
    for location in (list(fields(value)) for number, value in message if number == 4):
        placed = [dict(fields(value)) for number, value in location if number == 4]
        lines.append([(*functions[line[1]], line.get(2, 0)) for line in placed])
    source = KNOWN.splitlines()
    call = next(i for i, text in enumerate(source, 1) if "  inlined_step(" in text)
    names = [[name for name, _, _ in location] for location in lines]
    assert ["inlined_step", "load_all"] in names
    inlined = lines[names.index(["inlined_step", "load_all"])]
    assert [file for _, file, _ in inlined] == [str(known_tape[1])] * 2
    assert inlined[1][2] == call
    mappings = [dict(fields(value)) for number, value in message if number == 3]
    known = next(m for m in mappings if strings[m[5]] == "known")
    assert known[7] == known[8] == known[9] == known[10] == 1
