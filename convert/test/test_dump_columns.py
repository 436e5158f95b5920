# SPDX-License-Identifier: MIT
"""dump prints all that a trace has: latencies, usable and touched sizes, stacks, names. Against tests/oracle."""

import csv
import json
import re

import pytest

from convert.test.test_tapes import events_of, random_trace
from tests.oracle.reader import open_trace
from tests.support import CONVERT, succeed

OPTIONS = {"touched": "touched_os_pages", "latency": "latency_ns", "usable": "usable_bytes"}


@pytest.mark.parametrize("clock_hz", [10**9, 3 * 10**9])
def test_csv_and_text_have_the_columns_of_the_trace(tmp_path, clock_hz):
    tape = random_trace(tmp_path / "a.tape", 0, 900, clock_hz)
    with open_trace(tape) as trace:
        events = [events_of(trace, thread) for thread in range(trace.threads)]
    for thread, frame in enumerate(events):
        dumped = [
            succeed(CONVERT, "dump", "--thread", str(thread), "--format", form, tape).stdout for form in ("csv", "text")
        ]
        rows = list(csv.DictReader(dumped[0].splitlines()))
        frame["latency_ns"] = [x if pd_missing(x) else int(x * 1e9 / clock_hz + 0.5) for x in frame.latency]
        for column in (*OPTIONS.values(), "stack"):
            assert [row[column] for row in rows] == [
                "" if pd_missing(x) or (column == "stack" and x == 0) else str(x) for x in frame[column]
            ]
        lines = [line for line in dumped[1].splitlines() if not line.startswith("#")]
        for line, row in zip(lines, rows, strict=True):
            found = dict(re.findall(r" (touched|latency|usable)=(\d+)", line))
            assert found == {option: row[column] for option, column in OPTIONS.items() if row[column]}


def pd_missing(value: object) -> bool:
    return not isinstance(value, int) and str(value) == "<NA>"


def test_each_stack_is_printed_once_before_its_first_event(tmp_path):
    tape = random_trace(tmp_path / "a.tape", 3, 300)
    with open_trace(tape) as trace:
        nodes = {node.Index: node for node in trace.stacks().itertuples()}
        names, modules = trace.thread_names(), list(trace.modules().itertuples())

    def frame(node: int) -> dict[str, str]:
        at = int(nodes[node].instruction)
        if at == 0:
            return {}
        inside = [one for one in modules[: nodes[node].modules] if one.start <= at < one.end]
        return {"module": inside[-1].name, "offset": hex(at - inside[-1].bias)} if inside else {"offset": hex(at)}

    def frames(node: int) -> list[dict]:
        return [frame(node), *frames(nodes[node].parent)] if node else []

    def shown(one: dict) -> str:
        where = "+".join(one[key] for key in ("module", "offset") if key in one)
        return f"? in {where}" if one else "... (frames beyond the depth of the recording)"

    printed: dict[int, list[str]] = {}
    for line in succeed(CONVERT, "dump", "--stacks", tape).stdout.splitlines():
        if begins := re.fullmatch(r"# stack (\d+)", line):
            node = int(begins[1])
            assert node not in printed
            printed[node] = []
        elif line.startswith("#   "):
            printed[node].append(line[4:])
        elif used := re.search(r" stack=(\d+)$", line):
            assert int(used[1]) in printed
    assert len(printed) > 100
    for node, lines in printed.items():
        assert lines == [shown(one) for one in frames(node)]
    rows = [
        json.loads(line) for line in succeed(CONVERT, "dump", "--stacks", "--format", "jsonl", tape).stdout.splitlines()
    ]
    stacks = {row["stack"]: row["frames"] for row in rows if "frames" in row}
    assert stacks == {node: frames(node) for node in printed}
    assert {row["thread"]: row["name"] for row in rows if "name" in row} == names
