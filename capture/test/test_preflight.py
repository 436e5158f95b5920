# SPDX-License-Identifier: MIT
"""What heaptape-record refuses before it starts a program, and how a failing recording ends."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support import CONVERT, RECORD, Result, check, compile_c, info, record, run, small_disk, workload


def recorded(tmp_path: Path, *command: str | Path, options: tuple[str, ...] = ()) -> Result:
    """Runs the recorder in tmp_path; the trace, if any, is t.tape."""
    return run(RECORD, "-o", tmp_path / "t.tape", *options, "--", *command)


def assert_refused(result: Result, status: int, says: str, tmp_path: Path) -> None:
    """One line on standard error, the right exit status, and no trace left behind."""
    assert result.status == status, result.stderr
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert says in result.stderr, result.stderr
    assert not list(tmp_path.glob("*.tape"))


def test_missing_program_is_127(tmp_path: Path) -> None:
    assert_refused(recorded(tmp_path, "no-such-program"), 127, "no such program", tmp_path)


def test_file_without_execute_right_is_126(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("text")
    assert_refused(recorded(tmp_path, tmp_path / "data"), 126, "not an executable file", tmp_path)


@pytest.mark.parametrize("kind", ["-static", "-static-pie"])
def test_static_program_is_refused(kind: str, tmp_path: Path) -> None:
    program = compile_c(tmp_path / "program", "int main(void) { return 0; }", kind)
    assert_refused(recorded(tmp_path, program), 1, "statically linked", tmp_path)


def test_program_that_the_loader_is_asked_to_start_is_recorded(tmp_path: Path) -> None:
    """The loader itself names no loader, as a static program."""
    [loader] = Path("/lib64").glob("ld-linux-*.so.2")
    assert recorded(tmp_path, loader, workload("malloc_pairs")).status == 0
    assert info(tmp_path / "t.tape")["calls"]["malloc"] > 0


def test_script_of_a_static_interpreter_is_refused(tmp_path: Path) -> None:
    interpreter = compile_c(tmp_path / "program", "int main(void) { return 0; }", "-static")
    script = tmp_path / "script"
    script.write_text(f"#!{interpreter}\n")
    script.chmod(0o755)
    assert_refused(recorded(tmp_path, script), 1, "statically linked", tmp_path)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to give a file to another user")
def test_setuid_program_is_refused(tmp_path: Path) -> None:
    program = compile_c(tmp_path / "program", "int main(void) { return 0; }")
    os.chown(program, 1, 1)
    program.chmod(0o4755)
    assert_refused(recorded(tmp_path, program), 1, "setuid", tmp_path)


def test_damaged_elf_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF" + bytes(40))
    program.chmod(0o755)
    assert recorded(tmp_path, program).status == 1


def test_unwritable_output_is_found_before_the_program_runs(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    result = run(RECORD, "-o", tmp_path / "no" / "t.tape", "--", "touch", mark)
    assert result.status == 1
    assert "cannot be written" in result.stderr
    assert not mark.exists()


def test_missing_preload_library_is_refused(tmp_path: Path) -> None:
    result = recorded(tmp_path, "true", options=("--preload", "/no/such.so"))
    assert_refused(result, 1, "no such library", tmp_path)


@pytest.mark.parametrize("arguments", [(), ("--on-full", "maybe", "true"), ("--no-such-option", "true"), ("-o",)])
def test_wrong_usage_is_2(arguments: tuple[str, ...]) -> None:
    assert run(RECORD, *arguments).status == 2


STATUSES = [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -9 $$", 137)]


@pytest.mark.parametrize(("script", "status"), STATUSES)
def test_exit_status_is_that_of_the_program(tmp_path: Path, script: str, status: int) -> None:
    assert recorded(tmp_path, "sh", "-c", script).status == status


@pytest.mark.skipif(os.getuid() != 0, reason="needs root for a file system of its own")
def test_full_disk_ends_the_trace_and_not_the_program(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", "64k") as small:
        source = """#include <stdlib.h>
                    int main(void) {
                      for (unsigned i = 0, s = 1; i < 200000; i++) {
                        s = s * 1664525 + 1013904223;
                        void *volatile object = malloc(s >> 16);
                        free(object);
                      }
                      return 9;
                    }"""
        program = compile_c(tmp_path / "program", source)
        result = run(RECORD, "-o", small / "t.tape", "--", program)
        assert result.status == 9, result.stderr
        assert len(result.stderr.splitlines()) == 1, result.stderr
        assert str(small / "t.tape") in result.stderr, result.stderr
        summary = info(small / "t.tape")
        assert not summary["truncated"]
        assert summary["dropped"] > 0


def test_signal_to_the_recorder_reaches_the_program(tmp_path: Path) -> None:
    trace = tmp_path / "t.tape"
    recorder = subprocess.Popen([RECORD, "-o", trace, "--", "sleep", "60"], stderr=subprocess.DEVNULL)
    while not trace.exists() or trace.stat().st_size == 0:
        time.sleep(0.01)
    recorder.send_signal(signal.SIGTERM)
    assert recorder.wait(timeout=120) == 128 + signal.SIGTERM


def test_daemon_is_recorded_after_its_parent_has_gone(tmp_path: Path) -> None:
    source = """#include <stdlib.h>
                #include <unistd.h>
                int main(void) {
                  if (daemon(1, 1) != 0)
                    return 1;
                  usleep(100000);
                  for (int i = 0; i < 5000; i++) {
                    void *volatile object = malloc(10);
                    free(object);
                  }
                  return 0;
                }"""
    assert recorded(tmp_path, compile_c(tmp_path / "program", source, "-D_GNU_SOURCE")).status == 0
    assert any(info(trace)["events"] == 10000 for trace in tmp_path.glob("t.*.tape"))


@pytest.mark.parametrize(
    ("name", "recorded_as"),
    [("alias", "alias"), ("a-name-longer-than-the-kernel-keeps", "a-name-longer-t"), ("prog", "program")],
)
def test_program_is_named_as_it_was_started(tmp_path: Path, name: str, recorded_as: str) -> None:
    """Not by the file behind a symlink; of a long name the kernel keeps 15 bytes, unless the file has it too."""
    program = compile_c(tmp_path / "program", "int main(void) { return 0; }")
    (tmp_path / name).symlink_to(program)
    result = recorded(tmp_path, tmp_path / name)
    assert result.status == 0, result.stderr
    assert info(tmp_path / "t.tape")["info"]["program"] == recorded_as


def test_existing_preload_is_kept(tmp_path: Path) -> None:
    result = run(RECORD, "-o", tmp_path / "t.tape", "--", "printenv", "LD_PRELOAD", env={"LD_PRELOAD": "libm.so.6"})
    assert result.status == 0
    assert result.stdout.strip().endswith("libheaptape.so:libm.so.6")


def test_describe_stores_arguments_and_nothing_does_otherwise(tmp_path: Path) -> None:
    secret = "a-word-that-only-the-arguments-hold"
    for options, stored in (((), False), (("--describe",), True)):
        recorded(tmp_path, "true", secret, options=options)
        said = run(CONVERT, "info", tmp_path / "t.tape", "--json").stdout
        assert (secret in said) == stored


def test_recorder_leaves_a_daemon_running_when_told_to_end(tmp_path: Path) -> None:
    trace = tmp_path / "t.tape"
    recorder = subprocess.Popen(
        [RECORD, "-o", trace, "--", "sh", "-c", "sleep 30 & echo $!"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert recorder.stdout
    daemon = int(recorder.stdout.readline())
    time.sleep(0.3)
    assert recorder.poll() is None, "it waits for the process that outlives its parent"
    recorder.send_signal(signal.SIGTERM)
    assert recorder.wait(timeout=120) == 0
    os.kill(daemon, signal.SIGKILL)  # fails if it has ended


def test_counter_orders_threads_where_there_is_no_clock(tmp_path: Path) -> None:
    trace = tmp_path / "t.tape"
    record(trace, workload("remote_storm"), "--rounds=30000", options=("--clock", "counter"))
    witness = check(trace)
    assert witness["ok"]
    assert witness["inversions_repaired"] == 0
    assert info(trace)["info"]["clock"]["kind"] == "counter"
