# SPDX-License-Identifier: MIT
"""What heaptape-record refuses before it starts a program, and how a failing recording ends."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support import CONVERT, RECORD, Result, compile_c, info, proved, record, refused, run, workload


def recorded(tmp_path: Path, *command: str | Path, options: tuple[str, ...] = ()) -> Result:
    """Runs the recorder in tmp_path; the trace, if any, is t.tape."""
    return run(RECORD, "-o", tmp_path / "t.tape", *options, "--", *command)


def make_program(path: Path, kind: str) -> str | Path:
    """A file of that kind, or the name of none."""
    if kind == "missing":
        return "no-such-program"
    if kind == "setuid" and os.getuid() != 0:
        pytest.skip("needs root to give a file to another user")
    compile_c(path, "int main(void) { return 0; }", *(kind.split() if kind.startswith("-static") else []))
    image = bytearray(path.read_bytes())
    if kind == "setuid":
        os.chown(path, 1, 1)
        path.chmod(0o4755)
    elif kind == "not executable":
        path.chmod(0o644)
    elif kind == "damaged":
        path.write_bytes(image[:44])
    elif kind == "32 bits":
        image[4] = 1  # EI_CLASS
        path.write_bytes(image)
    elif kind == "script":
        interpreter = make_program(path.with_name("interpreter"), "-static -s")
        path.write_text(f"#!{interpreter}\n")
    return path


REFUSED = {
    "missing": (127, "no such program"),
    "not executable": (126, "not an executable file"),
    "-static -s": (1, "statically linked"),
    "-static-pie -s": (1, "statically linked"),
    "script": (1, "statically linked"),
    "setuid": (1, "setuid"),
    "damaged": (1, "another kind of processor"),
    "32 bits": (1, "32 bits"),
}


@pytest.mark.parametrize("options", [(), ("--accesses",)], ids=["calls", "accesses"])
@pytest.mark.parametrize("kind", REFUSED)
def test_a_program_that_cannot_be_recorded_is_refused(tmp_path: Path, kind: str, options: tuple[str, ...]) -> None:
    """In one line on standard error, with that exit status; no trace is left behind."""
    status, says = REFUSED[kind]
    program = make_program(tmp_path / "program", kind)
    refused(RECORD, "-o", tmp_path / "t.tape", *options, "--", program, says=says, status=status)
    assert not list(tmp_path.glob("*.tape"))


@pytest.mark.parametrize("library", ["/no/such.so", "libnosuch.so.2", "libm.so.6/"])
def test_a_missing_library_to_preload_is_refused(tmp_path: Path, library: str) -> None:
    refused(RECORD, "-o", tmp_path / "t.tape", "--preload", library, "--", "true", says="no such library")
    assert not list(tmp_path.glob("*.tape"))


def test_a_library_to_preload_is_found_by_its_name_as_the_loader_finds_it(tmp_path: Path) -> None:
    record(tmp_path / "t.tape", workload("malloc_pairs"), options=["--preload", "libjemalloc.so.2"])
    assert "jemalloc" in info(tmp_path / "t.tape")["info"]["allocator"]


def test_program_that_the_loader_is_asked_to_start_is_recorded(tmp_path: Path) -> None:
    """The loader itself names no loader, as a static program."""
    [loader] = Path("/lib64").glob("ld-linux-*.so.2")
    assert recorded(tmp_path, loader, workload("malloc_pairs")).status == 0
    assert info(tmp_path / "t.tape")["calls"]["malloc"] > 0


WRONG = [
    ([], "no CMD to record"),
    (["--on-full", "maybe"], "--on-full"),
    (["--no-such-option"], "--no-such-option"),
    (["-o"], "-o"),
    (["--signal", "KILL"], "--signal"),
    *((["--signal", name], "--signal") for name in ("NOPE", "65", "RTMIN+99", "0", "RTMIN-1")),
    (["--duration", "-1"], "--duration"),
    (["-o", "-"], "-o -: standard output is the program's"),
    (["--max-size", "1Q"], "--max-size"),
    (["--budget", "0"], "--budget 0: is not a share"),
    (["--budget", "101%"], "--budget 101%: is not a share"),
    (["--budget", "2x"], "--budget 2x: is not a share"),
    (["--budget-after", "3"], "give --budget, too"),
    (["--rotate", "1K"], "--rotate 1K: is less than 64K"),
    (["--keep", "3"], "give --rotate, too"),
    (["--rotate", "1M", "--keep", "0"], "--keep 0: is not a number of files"),
    *(([f"--accesses={value}"], "--accesses") for value in ("100", "32", "many", "2G")),
    (["--burst", "a..b"], "give --accesses"),
    (["--accesses", "--budget", "2%"], "--budget is about calls"),
    (["--accesses", "--rotate", "1M"], "--rotate can't divide data accesses"),
    (["--accesses", "--burst", ".."], "FROM..TO"),
    (["--accesses", "--burst", "begin"], "FROM..TO"),
    (["--accesses", "--burst", f"{'x' * 256}..b"], "at most 255 bytes"),
    (["--accesses", "--burst", "SIGTERM..b"], "needs that signal itself"),
    *(([f"--attach={value}"], f"--attach {value}: is not a process ID") for value in ("0", "-1", "x", "12x", "")),
    *(
        (["--attach", "1", *option.split()], "not for --attach")
        for option in ("--preload x", "--own-mappings", "--describe", "--accesses", "--unwind libunwind")
    ),
    (["--attach", "1", "--", "true"], "starts no program"),
]


@pytest.mark.parametrize(("options", "says"), WRONG, ids=[" ".join(options)[:40] for options, _ in WRONG])
def test_wrong_usage_is_refused_before_the_program_starts(tmp_path: Path, options: list[str], says: str) -> None:
    flag = tmp_path / "ran"
    alone = not options or options == ["-o"] or options[0].startswith("--attach")
    refused(RECORD, *options, *([] if alone else ["--", "touch", flag]), says=says, status=2)
    assert not flag.exists()


STATUSES = [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -9 $$", 137)]


@pytest.mark.parametrize(("script", "status"), STATUSES)
def test_exit_status_is_that_of_the_program(tmp_path: Path, script: str, status: int) -> None:
    assert recorded(tmp_path, "sh", "-c", script).status == status


def test_signal_to_the_recorder_reaches_the_program(tmp_path: Path) -> None:
    trace = tmp_path / "t.tape"
    recorder = subprocess.Popen([RECORD, "-o", trace, "--", "sleep", "60"], stderr=subprocess.DEVNULL)
    while not trace.exists() or trace.stat().st_size == 0:
        time.sleep(0.01)
    recorder.send_signal(signal.SIGTERM)
    assert recorder.wait(timeout=120) == 128 + signal.SIGTERM


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
    daemon = int(recorder.stdout.readline())
    time.sleep(0.3)
    assert recorder.poll() is None, "it waits for the process that outlives its parent"
    recorder.send_signal(signal.SIGTERM)
    assert recorder.wait(timeout=120) == 0
    os.kill(daemon, signal.SIGKILL)  # fails if it has ended


def test_counter_orders_threads_where_there_is_no_clock(tmp_path: Path) -> None:
    trace = tmp_path / "t.tape"
    record(trace, workload("remote_storm"), "--rounds=30000", options=("--clock", "counter"))
    proved(trace, "inversions_repaired")
    assert info(trace)["info"]["clock"]["kind"] == "counter"


def test_the_socket_in_tmp_is_gone_with_the_recorder(tmp_path: Path) -> None:
    script = 'at=/tmp/${HEAPTAPE_SOCKET%%:*}; test -S "$at" && echo "$at"'
    result = run(RECORD, "-o", tmp_path / "t.tape", "--", "sh", "-c", script)
    assert result.status == 0, result.stderr
    assert not Path(result.stdout.strip()).exists()


def test_a_limit_that_leaves_the_recorder_too_few_descriptors_is_said_before_the_program_starts(tmp_path: Path) -> None:
    for limit in (5, 8, 12, 24):
        limited = f'echo $$; ulimit -n {limit}; exec "$@"'
        result = run("sh", "-c", limited, "sh", RECORD, "-o", tmp_path / "t.tape", "--", "echo", "started")
        recorder = int(result.stdout)  # and nothing of the program
        assert result.status == 1
        assert [*Path("/tmp").glob(f"heaptape-{recorder:07}-*")] == []
        assert "Too many open files" in result.stderr or "more file descriptors than this limit" in result.stderr
    assert not (tmp_path / "t.tape").exists()
