# SPDX-License-Identifier: MIT
"""What a stranger's file says of its recording has other types than it should."""

import json
import struct
import zlib

import pytest
from heaptape.common.errors import FormatError
from heaptape.results.structs import workload_of
from heaptape.run.recorded import recorded_on
from heaptape.run.replay import describe_workload
from heaptape.tape.info import WorkloadInfo
from heaptape.tape.trace import clock_of, open_trace
from heaptape.tape.workload_format import read_workload
from hypothesis import given
from hypothesis import strategies as st

from convert.test.models.tape_maker import FOOTER, INFO, Tape
from tests.support import CONVERT, call_heaptape, import_text, succeed

NUMBERS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False)
ROWS = st.lists(st.lists(NUMBERS, max_size=4), max_size=3)
ANY = st.recursive(
    NUMBERS | st.text(max_size=3) | ROWS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def tape(tmp_path_factory):
    return import_text(tmp_path_factory.mktemp("tape"), "1 1 malloc(9) = 0x1000\n", "clock=nanoseconds")


@pytest.fixture(scope="module")
def workload(tape):
    succeed(CONVERT, "compile", tape, "-o", tape.with_suffix(".work"))
    return tape.with_suffix(".work")


def with_info(workload, info):
    data = bytearray(workload.read_bytes())
    text = json.dumps(info).encode()
    text += b" " * (-len(text) % 8)
    struct.pack_into("<Q", data, 16, len(data) + len(text))
    struct.pack_into("<QQ", data, 104, len(data), len(text))
    struct.pack_into("<I", data, 252, zlib.crc32(bytes(data[:252])))
    changed = workload.with_name("changed.work")
    changed.write_bytes(data + text)
    return changed


@given(st.sampled_from(WorkloadInfo.__struct_fields__), ANY)
def test_a_workloads_info_of_any_json_is_read_or_refused_by_its_key(workload, key, value):
    changed = with_info(workload, {**read_workload(workload).info, key: value})
    compiled, refused = None, ""
    try:
        compiled = read_workload(changed)
    except FormatError as error:
        refused = str(error)
    if compiled is None:
        assert refused.startswith(f"{changed}: offset ")
        assert f"$.{key}" in refused
        return
    assert (key in compiled.info) == (value is not None)
    clock = compiled.program_clock
    assert clock is None or clock.ndim == 2
    assert workload_of(describe_workload(changed, "")).ops == 1
    recorded_on(compiled.info, {})


@pytest.mark.parametrize("said", [{"settings": {"A": "x\0"}}, {"settings": {"\0": ""}}, {"settings": {"A=B": ""}}])
def test_what_no_environment_can_hold_is_no_setting(workload, said):
    with pytest.raises(FormatError, match="settings"):
        read_workload(with_info(workload, said))


@pytest.mark.parametrize("key", ["program_clock", "recorded", "settings", "lacks"])
def test_a_command_names_the_file_and_the_key(workload, key):
    changed = with_info(workload, {key: [[{}]]})
    for words in (("replay", "--passes", "memory", "-a", "glibc"), ("advise", "-a", "glibc")):
        done = call_heaptape(*words, changed)
        assert (done.status, done.stdout) == (1, "")
        (line,) = done.stderr.splitlines()
        assert f"{changed}: offset" in line
        assert key in line


@pytest.mark.parametrize(
    ("kind", "said"),
    [(INFO, {"clock": 5}), (INFO, {"clock": {"hz": "x"}}), (INFO, {"clock": {}, "lacks": "calls"}),
     (INFO, {"clock": {}, "settings": []}), (FOOTER, {"events": 1, "dropped": 0, "final": []})],
)  # fmt: skip
def test_a_traces_info_and_footer_are_refused_by_name(tape, kind, said):
    made = Tape.read(tape)
    made.first(kind).columns[0].raw = json.dumps(said).encode()
    changed = tape.with_name("changed.tape")
    made.write(changed)
    with pytest.raises(FormatError, match=str(changed)):
        open_trace(changed)


def test_a_command_names_the_trace_whose_info_is_refused(tape):
    made = Tape.read(tape)
    made.first(INFO).columns[0].raw = b'{"clock": {}, "settings": []}'
    changed = tape.with_name("changed.tape")
    made.write(changed)
    done = call_heaptape("replay", "--passes", "memory", "-a", "glibc", changed)
    assert (done.status, done.stdout) == (1, "")
    assert done.stderr.startswith(f"heaptape: {changed}: the info: ")


def test_a_trace_of_a_clock_without_a_rate_is_read(tape):
    made = Tape.read(tape)
    made.first(INFO).columns[0].raw = b'{"clock": {}, "lacks": null}'
    changed = tape.with_name("changed.tape")
    made.write(changed)
    with open_trace(changed) as trace:
        assert clock_of(trace) == (0.0, 0)
        assert "lacks" not in trace.info
