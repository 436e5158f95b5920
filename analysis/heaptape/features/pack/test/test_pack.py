# SPDX-License-Identifier: MIT
"""A packed recording has the calls of the original, and nothing that names the program, its machine or its user."""

import json

from tests.support import HEAPTAPE_HERE, info, record, succeed, workload


def test_a_packed_recording_has_the_same_calls_and_none_of_what_it_says_it_lacks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record(tmp_path / "secret.tape", workload("mtmalloc"), options=["--stacks"])
    done = succeed(HEAPTAPE_HERE, "pack", tmp_path / "secret.tape")
    assert done.stdout.startswith("secret.packed.tape: ")
    before, after = info(tmp_path / "secret.tape"), info(tmp_path / "secret.packed.tape")
    same = ("calls", "threads", "peak_live_bytes", "peak_live_objects", "live_at_end")
    assert [before[key] for key in same] == [after[key] for key in same]
    assert after["file_bytes"] < before["file_bytes"]
    said = json.dumps(after["info"])
    assert "mtmalloc" in json.dumps(before["info"])
    assert not [word for word in ("mtmalloc", str(tmp_path), "hostname", "command", "pid") if word in said]
    assert not after.get("stack_nodes")
    assert "times" in after["info"]["lacks"]
