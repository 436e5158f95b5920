# SPDX-License-Identifier: MIT
"""Commands that do not replay the recorded allocator judge the recording's replay nevertheless."""

from pathlib import Path

from heaptape.common.home import default_home
from heaptape.run import judging, replay

from tests.support import compile_c, import_text, record


def about_of(tape: Path, folder: Path) -> tuple[dict, Path]:
    workload = replay.prepare(str(tape), default_home(), folder)
    return replay.describe_workload(workload, ""), workload


def test_a_replay_on_the_recorded_allocator_is_made_and_what_it_shows_is_kept(tmp_path, monkeypatch):
    body = "for (int i = 0; i < 2000; i++) { free(malloc(i)); usleep(50); }"  # so long that it is sampled
    source = f"#include <stdlib.h>\n#include <unistd.h>\nint main(void) {{ {body} }}"
    record(tmp_path / "F.tape", compile_c(tmp_path / "program", source))
    about, workload = about_of(tmp_path / "F.tape", tmp_path)
    judging.judge(about, tmp_path / "F.tape", workload, default_home())
    assert (about["judged_on"], about.get("disproof")) == ("glibc", None)
    monkeypatch.setattr(judging, "disproved", lambda *_: "It is not true.")
    judging.judge(about, tmp_path / "F.tape", workload, default_home())
    assert about["disproof"] == "It is not true."


def test_a_history_without_samples_is_not_judged(tmp_path: Path) -> None:
    tape = import_text(tmp_path, "1 0 malloc(16) = 0x1000")
    about, workload = about_of(tape, tmp_path)
    judging.judge(about, tape, workload, default_home())
    assert "judged_on" not in about
