# SPDX-License-Identifier: MIT
"""Under a limit of memory or of processes, a command ends with one line that names the limit."""

import errno
import os
import re
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from heaptape.commands import outcome

from tests.support import CONVERT, HEAPTAPE, import_text, run


@pytest.mark.parametrize("error", [MemoryError("7 GiB"), ImportError("x.so: failed to map segment"), SystemError("x")])
def test_what_fails_under_a_limit_of_memory_is_said_in_one_line(error, monkeypatch, capsys):
    def fail() -> int:
        raise error

    monkeypatch.setattr(resource, "getrlimit", lambda _: (300 << 20, 300 << 20))
    assert outcome.status_of(fail) == 1
    assert capsys.readouterr().err == "heaptape: out of memory (ulimit -v is 307200 KiB)\n"


@pytest.mark.parametrize("of_thread", [False, True])
def test_too_few_processes_are_said_in_one_line(of_thread, monkeypatch, capsys):
    def refused(*_: object, **__: object) -> None:
        raise RuntimeError("in other words than today's")

    def fail() -> int:
        if not of_thread:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        for name in {"_start_new_thread", "_start_joinable_thread"} & vars(threading).keys():  # before and from 3.13
            monkeypatch.setattr(threading, name, refused)
        threading.Thread(target=print).start()
        return 0

    limits = {resource.RLIMIT_NPROC: 30, resource.RLIMIT_AS: resource.RLIM_INFINITY}
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limits[which],) * 2)
    assert outcome.status_of(fail) == 1
    assert re.fullmatch(r"heaptape: .+ \(ulimit -u is 30\)\n", capsys.readouterr().err)


LOADING = """
import os, re, sys
sys.path.insert(0, sys.argv[1])
from heaptape.common.extensions import load_within_limits
load_within_limits()
import numpy, scipy.special
print(os.environ.get("OPENBLAS_NUM_THREADS"), re.search(r"Threads:\\s*(\\d+)", open("/proc/self/status").read())[1])
"""


@pytest.mark.parametrize("given", [None, "8"])
def test_numpy_and_scipy_start_no_threads_and_leave_the_environment(given: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    environment |= {} if given is None else {"OPENBLAS_NUM_THREADS": given}
    command = [sys.executable, "-c", LOADING, str(Path(outcome.__file__).parents[2])]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == f"{given} 1\n"


def test_matplotlib_says_nothing_where_it_can_keep_no_files() -> None:
    """As in a home that can't be written: it would print two warnings before each picture and report."""
    told = []
    for loading in ("", LOADING):
        script = f"import sys; sys.path.insert(0, sys.argv[1])\n{loading}\nimport matplotlib; matplotlib.get_cachedir()"
        command = [sys.executable, "-c", script, str(Path(outcome.__file__).parents[2])]
        environment = os.environ | {"MPLCONFIGDIR": "/dev/null/none"}
        told.append(subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stderr)
    assert "temporary cache" in told[0]
    assert told[1] == ""


@pytest.mark.parametrize("mib", [60, 100, 140, 240, 310])  # of these, OpenBLAS and numpy failed in other ways
def test_a_command_in_a_small_address_space_names_the_limit(mib: int, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text("{}")
    done = run(HEAPTAPE, "compare", tmp_path / "r.json", most_bytes=mib << 20)
    assert (done.status, done.stderr) == (1, f"heaptape: out of memory (ulimit -v is {mib << 10} KiB)\n")


def test_a_fault_of_ours_is_no_lack_of_memory_where_there_is_no_limit() -> None:
    def fail() -> int:
        raise ImportError("no such module")

    with pytest.raises(ImportError):
        outcome.status_of(fail)


def test_the_c_programs_name_the_limit_too(tmp_path: Path) -> None:
    tape = import_text(tmp_path, "".join(f"{n} 0 malloc({n}) = {hex(n << 16)}\n" for n in range(1, 50_000)))
    done = run(CONVERT, "check", tape, most_bytes=20 << 20)
    assert (done.status, done.stderr.count("\n")) == (1, 1)
    assert "(ulimit -v is 20480 KiB)" in done.stderr


@pytest.mark.parametrize("command", ["record -o {}/t.tape -- true", "replay {} -a glibc"])
def test_where_proc_is_missing_it_is_named(command: str, tmp_path: Path) -> None:
    hidden = ("unshare", "-rm", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh")
    if run(*hidden, "true").status != 0:
        pytest.skip("no user namespaces here")
    done = run(*hidden, HEAPTAPE, *command.format(tmp_path).split())
    assert (done.status, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.endswith(" (needs /proc: mount -t proc proc /proc)\n")
