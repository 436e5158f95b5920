# SPDX-License-Identifier: MIT
"""Recordings of several process images: which one has the requested file, which are deleted, and what is printed."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support import CONVERT, RECORD, Result, compile_c, info, run, succeed

BUSY = "exec /usr/bin/python3 -S -c 'for i in range(40000): str(i) * 100'"
TWO_BUSY = "a='a b c d'; for i in 1 2 3 4 5 6 7 8; do ls -l /etc >/dev/null; done"
MALLOC = {"PYTHONMALLOC": "malloc"}


def recorded(folder: Path, *command: str, options: tuple[str, ...] = (), output: str = "t.tape") -> Result:
    return succeed(RECORD, "-o", folder / output, *options, "--", *command, env=MALLOC)


def programs(folder: Path) -> dict[str, str]:
    """The recorded program, by file name."""
    return {tape.name: info(tape)["info"]["program"] for tape in folder.glob("*.tape")}


@pytest.mark.parametrize("wrapper", ["sh -c", "exec"])
def test_the_requested_file_is_that_of_the_busiest_image_and_small_ones_are_deleted_and_named(tmp_path, wrapper):
    command = ("sh", "-c", BUSY) if wrapper == "sh -c" else ("env", "X=1", "sh", "-c", f"{BUSY}; true")
    done = recorded(tmp_path, *command)
    assert {name: program[:6] for name, program in programs(tmp_path).items()} == {"t.tape": "python"}
    calls = info(tmp_path / "t.tape")["events"]
    line, deleted, after = " ".join(done.stderr.split()).partition("heaptape: deleted: ")[0::2] + ("",)
    assert re.match(rf"heaptape: python\S*: {calls:,} calls, 1 thread, [0-9.]+ bytes per call ", line), line
    assert f"-> {tmp_path / 't.tape'}" in line
    assert re.match(
        r"\d+ recordings? of small processes \([0-9,]+ calls?\): (env, )?sh; --all-processes keeps", deleted
    )
    assert f"next: heaptape replay {tmp_path / 't.tape'}" in deleted
    assert after == ""


def test_what_is_kept_and_what_is_deleted_adds_up_to_all_calls(tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    (tmp_path / "some").mkdir()
    whole = recorded(tmp_path / "all", "sh", "-c", f"/bin/true; {BUSY}", options=("--all-processes",))
    some = recorded(tmp_path / "some", "sh", "-c", f"/bin/true; {BUSY}")
    assert "deleted" not in whole.stderr
    assert sorted(program[:6] for program in programs(tmp_path / "all").values()) == ["python", "sh", "true"]
    assert programs(tmp_path / "all")["t.tape"][:6] == "python"
    said = re.search(r"deleted: 2 recordings of small processes \(([0-9,]+) calls\)", " ".join(some.stderr.split()))
    assert said
    small = [info(tape)["events"] for tape in (tmp_path / "all").glob("t.*.tape")]
    assert int(said[1].replace(",", "")) == sum(small)


def test_a_shell_with_a_few_calls_more_does_not_take_the_programs_file(tmp_path: Path) -> None:
    """The two programs differ in their calls by a sixth, and in the memory that they use 8 times; only the order of
    the processes differs."""
    source = """
        int main(int argc, char **argv) {
          (void)argc;
          for (int i = atoi(argv[1]); i > 0; i--) free(malloc(99));
          memset(malloc(atoi(argv[2])), 1, atoi(argv[2]));
          return 0; }"""
    busier, larger = (compile_c(tmp_path / name, source) for name in ("busier", "larger"))
    calls = {str(busier): f"{busier} 7000 2000000", str(larger): f"{larger} 6000 16000000"}
    for first, second in ((busier, larger), (larger, busier)):
        recorded(tmp_path, "sh", "-c", f"{calls[str(first)]}; {calls[str(second)]}; true")
        assert programs(tmp_path)["t.tape"] == "larger"
    recorded(tmp_path, "sh", "-c", f"{busier} 13000 2000000; {calls[str(larger)]}; true")
    assert programs(tmp_path)["t.tape"] == "busier"


@pytest.mark.parametrize("wrapper", [("sh", "-c", "exec {}"), ("bash", "-c", "true; {}; true"), ("env", "X=1", "{}")])
def test_a_program_of_few_calls_and_much_memory_is_the_one_recorded_whatever_starts_it(tmp_path, wrapper):
    few = compile_c(tmp_path / "few", "#include <stdlib.h>\n#include <string.h>\n"
                    "int main(void) { return memset(malloc(16000000), 1, 16000000) == 0; }")  # fmt: skip
    recorded(tmp_path, *(word.format(few) for word in wrapper))
    assert programs(tmp_path)["t.tape"] == "few"
    assert info(tmp_path / "t.tape")["events"] == 1
    many = compile_c(tmp_path / "many", "#include <stdlib.h>\n"
                     "int main(int count, char **words) { for (int i = 0; i < 2000; i++) free(malloc(9));"
                     "return count > 1 ? system(words[1]) : 0; }")  # fmt: skip
    recorded(tmp_path, many, few)
    assert programs(tmp_path)["t.tape"] == "many"


def test_images_of_a_percent_or_more_keep_their_files_and_the_busiest_of_them_is_first(tmp_path: Path) -> None:
    done = recorded(tmp_path, "sh", "-c", TWO_BUSY)
    found = {tape.name: info(tape)["events"] for tape in tmp_path.glob("*.tape")}
    assert 2 * found["t.tape"] >= max(found.values())
    assert len(found) >= 8
    total = sum(found.values())
    assert all(100 * events >= total for events in found.values())
    lines = [line for line in done.stderr.splitlines() if re.match(r"heaptape: \S+: [0-9,]+ calls", line)]
    assert len(lines) == 6
    assert re.search(r"^heaptape: and \d smaller recordings?, [0-9,]+ calls$", done.stderr, re.MULTILINE)


def test_an_old_file_is_replaced_a_link_stays_and_a_device_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "t.tape").write_text("old")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link.tape").symlink_to(tmp_path / "elsewhere" / "real.tape")
    recorded(tmp_path, "sh", "-c", BUSY)
    recorded(tmp_path, "sh", "-c", BUSY, output="link.tape")
    assert programs(tmp_path)["t.tape"][:6] == "python"
    assert (tmp_path / "link.tape").is_symlink()
    assert info(tmp_path / "elsewhere" / "real.tape")["info"]["program"][:6] == "python"
    subprocess.run(["mknod", tmp_path / "null", "c", "1", "3"], check=True)
    done = run(RECORD, "-o", tmp_path / "null", "--", "sh", "-c", BUSY, env=MALLOC)
    assert (tmp_path / "null").is_char_device()
    assert done.status == 0


def test_names_are_escaped_and_one_is_one(tmp_path: Path) -> None:
    evil = tmp_path / "ev\033[31mil"
    evil.write_text("#!/bin/sh\nls -l /etc >/dev/null\n")
    evil.chmod(0o755)
    done = succeed(RECORD, "--all-processes", "-o", tmp_path / "t.tape", "--", evil)
    assert "\033" not in done.stderr
    assert r"ev\x1b[31mil" in done.stderr
    assert not re.search(r"\b1 (threads|calls|recordings)\b", done.stderr)


def test_a_program_whose_name_is_no_utf_8_is_recorded(tmp_path: Path) -> None:
    program = compile_c(tmp_path / "p", "#include <stdlib.h>\nint main(void) { return malloc(10000) == NULL; }")
    name = os.fsencode(tmp_path) + b"/caf\xe9"
    program.rename(os.fsdecode(name))
    done = succeed(RECORD, "-o", tmp_path / "t.tape", "--", os.fsdecode(name))
    assert "caf\\xe9: 1 call" in done.stderr
    assert info(tmp_path / "t.tape")["info"]["program"] == "caf?"


def test_memory_beyond_live_bytes_is_said_by_the_same_words_as_info_says_it(tmp_path: Path) -> None:
    code = "x = [str(i) for i in range(200000)]\nimport time; time.sleep(0.1)"
    words = "Live bytes peak at {} % of the program's peak memory: the rest is retained by the allocator, or bypasses "
    words += "malloc; heaptape replay tells which. For CPython record with PYTHONMALLOC=malloc."
    words = re.escape(words).replace(r"\{\}", r"(\d+)")
    done = succeed(RECORD, "-o", tmp_path / "t.tape", "--", "/usr/bin/python3", "-S", "-c", code)
    shares = [
        re.search(words, " ".join(text.split()))
        for text in (done.stderr, succeed(CONVERT, "info", tmp_path / "t.tape").stdout)
    ]
    assert all(shares), done.stderr
    estimated, exact = (int(share[1]) for share in shares if share)
    assert 0 < exact < 50
    assert abs(estimated - exact) <= 3
    without = recorded(tmp_path, "/usr/bin/python3", "-S", "-c", code)
    assert "Live bytes peak" not in without.stderr + succeed(CONVERT, "info", tmp_path / "t.tape").stdout


@pytest.mark.parametrize("seed", range(4))
def test_a_printed_peak_is_that_of_info(tmp_path: Path, seed: int) -> None:
    """Where the recorder only has an estimate, it prints none."""
    count = (1000, 9000)[seed % 2]
    code = f"import random; random.seed({seed}); x = [bytes(random.randrange(9000)) for i in range({count})]"
    done = recorded(tmp_path, "/usr/bin/python3", "-S", "-c", code)
    found = re.search(r"peak live ([0-9.]+) MiB", done.stderr)
    exact = info(tmp_path / "t.tape")["peak_live_bytes"] / (1 << 20)
    assert not found or float(found[1]) == pytest.approx(exact, abs=0.05)


def test_where_the_recorder_was_killed_the_first_file_says_that_its_process_became_another_program(tmp_path):
    command = "exec /usr/bin/python3 -S -c 'import time; print(1, flush=True); time.sleep(60)'"
    recorder = subprocess.Popen(
        [RECORD, "-o", tmp_path / "t.tape", "--", "sh", "-c", f"echo $$; {command}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    program = int(recorder.stdout.readline())
    assert recorder.stdout.readline() == "1\n"
    recorder.kill()
    recorder.wait()
    os.kill(program, signal.SIGKILL)
    assert sorted(programs(tmp_path)) == [f"t.{program}.tape", "t.tape"]
    said = " ".join(succeed(CONVERT, "info", tmp_path / "t.tape").stdout.split())
    assert "end the process then executed another program" in said


CHILDREN = """
static void call(size_t bytes) { for (int i = 0; i < 10; i++) free(malloc(bytes)); }
int main(void) {
  call(100);
  if (syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0) { call(555); _exit(0); }
  wait(NULL);
  if (vfork() == 0) { call(666); _exit(0); }
  return wait(NULL) < 0;
}
"""


def test_a_child_by_a_raw_clone_has_its_own_recording_and_one_by_vfork_its_parents(tmp_path: Path) -> None:
    program = compile_c(tmp_path / "children", CHILDREN, "-w")
    recorded(tmp_path, str(program), options=("--all-processes",))
    dumped = [succeed(CONVERT, "dump", trace).stdout for trace in tmp_path.glob("*.tape")]
    found = [[text.count(f" malloc({size})") for size in (100, 555, 666)] for text in dumped]
    assert sorted(found) == [[0, 10, 0], [10, 0, 10]]
