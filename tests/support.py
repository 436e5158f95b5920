# SPDX-License-Identifier: MIT
"""Shared by tests and benchmarks: paths of built files, and running heaptape's programs."""

import difflib
import fcntl
import io
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tomllib
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests import convert_server
from tests.output_shapes import conforms, output_of

if TYPE_CHECKING:
    import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
OUT = Path(os.environ.get("HEAPTAPE_OUT", REPOSITORY / "out")).resolve()
RECORD = OUT / "libexec" / "heaptape-record"
CONVERT = OUT / "libexec" / "heaptape-convert"
REPLAY = OUT / "libexec" / "heaptape-replay"
OBSERVE = OUT / "libexec" / "heaptape-observe"
VALGRIND_TOOL = OUT / "libexec/valgrind/heaptape-amd64-linux"
HEAPTAPE = OUT / "bin" / "heaptape"
HEAPTAPE_HERE = Path("heaptape in this process")  # for run, succeed and refused: call_heaptape
ALLOCATORS = ", ".join(tomllib.loads((REPOSITORY / "allocators" / "allocators.toml").read_text()))
TIMEOUT_S = 240  # only bounds a hang
# What selects and sets an allocator in a caller's environment, as in many container images.
INHERITED = {
    "LD_PRELOAD": str(OUT / "lib" / "libreference.so"),
    "MALLOC_ARENA_MAX": "1",
    "GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=4096:glibc.malloc.tcache_count=0",
    "MALLOC_CONF": "narenas:1,dirty_decay_ms:0",
}


@dataclass
class Result:
    """Result of one run of a program: exit status (negative: the signal), what it wrote."""

    status: int
    stdout: str
    stderr: str


def run(
    *command: str | Path,
    env: dict[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
    cwd: Path | None = None,
    most_bytes: int = 0,
) -> Result:
    """Runs a program to its end. env is added to the present environment, without the name of the test: its length
    moves the program's stack, and so changes its cache misses. most_bytes: of its address space.
    """
    if command[0] is HEAPTAPE_HERE:
        assert env is None, "only a separate process has its own environment"
        assert cwd is None
        return call_heaptape(*command[1:])
    if command[0] is CONVERT and env is None:
        served = convert_server.run(OUT / "test-programs" / "convert_server", command, cwd, timeout_s, most_bytes)
        if served:
            return Result(*served)
    environment = {**os.environ, **(env or {})}
    environment.pop("PYTEST_CURRENT_TEST", None)
    if most_bytes:
        command = ("prlimit", f"--as={most_bytes}", *command)
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout_s,
        env=environment,
        stdin=subprocess.DEVNULL,
        cwd=cwd,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def take_interrupts() -> None:
    """Called in a process that is about to be started: SIGINT ends it. A shell's background job, as the tests may be,
    ignores SIGINT.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def refused(*command: str | Path, says: str, status: int = 1, env: dict[str, str] | None = None) -> Result:
    """Runs a program that must fail with that exit status, and give the reason in one line."""
    result = run(*command, env=env)
    assert result.status == status, f"{command} exited with {result.status}: {result.stderr}"
    assert result.stderr.count("\n") == 1, result.stderr
    assert says in result.stderr, result.stderr
    return result


def same_as_before(path: Path, text: str) -> None:
    """The file holds the text; `make golden` writes it anew."""
    if "HEAPTAPE_GOLDEN" in os.environ:
        path.write_text(text)
    before, now = path.read_text().splitlines(), text.splitlines()
    assert now == before, "\n".join(difflib.unified_diff(before, now, str(path), "now", n=1, lineterm=""))


def compile_c(into: Path, source: str | Path, *options: str | Path, compiler: str = "cc") -> Path:
    """Compiles a source file, or the text of one, to a program; with -shared and -fPIC to a library. The compiler keeps
    each call as written. Our own files are included by their paths from the root; a text that includes nothing has
    core/test/usual.h.
    """
    language = "c++" if "+" in compiler else "c"
    given: list[str | Path] = ["-x", language, "-", "-x", "none"] if isinstance(source, str) else [source]
    gnu = ["-D_GNU_SOURCE="] if language == "c" else []  # C++ has it
    text = source if isinstance(source, str) else None
    usual = ["-include", REPOSITORY / "core" / "test" / "usual.h"] if text and "#include" not in text else []
    command = [compiler, "-fno-builtin", *gnu, *usual, *given, "-o", into, *options, f"-I{REPOSITORY}"]
    subprocess.run([str(word) for word in command], input=text, text=True, check=True)
    return into


def call_heaptape(*arguments: str | Path) -> Result:
    """Runs the command in this process: without the second that a fresh interpreter takes to import pandas. Only for
    Python subcommands: a subcommand that is a C program replaces the process.
    """
    from heaptape.commands.main import run
    from heaptape.commands.programs import PROGRAMS
    from heaptape.common.home import Home
    from heaptape.features import modules

    words = [str(word) for word in arguments]
    assert not words or words[0] not in PROGRAMS or any(one.wanted(words[1:]) for one in modules("conversions")), (
        f"{words[0]} would replace this process"
    )
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as errors, _warnings_on_standard_error():
        try:
            status = run(words, Home(OUT))
        except SystemExit as ended:
            status = int(ended.code or 0)
    own = words[: words.index("--")] if "--" in words else words
    if "--json" in own and out.getvalue() and "-n" not in own:  # top -n N: a line each
        conforms(output_of(*own), out.getvalue().encode())
    return Result(status, out.getvalue(), errors.getvalue())


def made_once(folders: "pytest.TempPathFactory", name: str, make: Callable[[Path], None]) -> Path:
    """The file or folder `name`, which all workers of the run share: the first that requests it makes it, the others
    wait. It must only be read.
    """
    shared = folders.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    path = shared / name
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            partial = shared / f"partial-{name}"
            make(partial)
            partial.rename(path)
    return path


@contextmanager
def _warnings_on_standard_error() -> Iterator[None]:
    """As in a separate process: pytest would capture them."""
    with warnings.catch_warnings():
        warnings.resetwarnings()
        for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", category)
        warnings.showwarning = lambda message, category, file, line, *_: print(
            warnings.formatwarning(message, category, file, line), end="", file=sys.stderr
        )
        yield


def succeed(*command: str | Path, env: dict[str, str] | None = None, timeout_s: float = TIMEOUT_S) -> Result:
    result = run(*command, env=env, timeout_s=timeout_s)
    assert result.status == 0, f"{command} exited with {result.status}: {result.stderr}"
    return result


def need(*programs: str) -> str:
    """The path of the last of them; skips the test where one is not installed."""
    import pytest

    found = [shutil.which(program) or pytest.skip(f"{program} is not installed") for program in programs]
    return found[-1]


def system_library(name: str) -> Path:
    """A library that a package of the system installs; skips the test where it is not installed."""
    import pytest

    found = sorted(Path("/usr/lib").glob(f"*/{name}"))
    return found[0] if found else pytest.skip(f"{name} is not installed")


def proved(tape: Path, *none: str) -> dict[str, Any]:
    """The witness of a legal history with none of these: counts of the witness that must be 0."""
    witness = check(tape)
    assert witness["ok"], (tape.name, witness)
    assert {name: witness[name] for name in none} == dict.fromkeys(none, 0), (tape.name, witness)
    return witness


def workload(name: str) -> Path:
    return OUT / "workloads" / name


def record(
    tape: Path,
    *command: str | Path,
    options: Sequence[str | Path] = (),
    env: dict[str, str] | None = None,
    status: int = 0,
) -> Result:
    """Records a program, with all its processes; it must end with that exit status."""
    result = run(RECORD, "--all-processes", "-o", tape, *options, "--", *command, env=env)
    assert result.status == status, f"{command} exited with {result.status}: {result.stderr}"
    return result


def import_text(folder: Path, lines: str, about: str = "") -> Path:
    """A trace of a history in heaptape text. `about`: the settings in its first line."""
    source, tape = folder / "history.txt", folder / "history.tape"
    source.write_text(f"# heaptape-text 1 {about}".rstrip() + f"\n{lines}")
    convert(source, tape)
    return tape


def convert(*arguments: str | Path) -> Result:
    """`heaptape-convert convert`, which writes its output also where the history is illegal, and then exits with 1."""
    result = run(CONVERT, "convert", *arguments)
    illegal = "not a legal history" in result.stderr or "more memory than any machine has" in result.stderr
    assert result.status == (1 if illegal else 0), result.stderr
    return result


def compile_trace(tape: Path) -> Path:
    succeed(CONVERT, "compile", tape)
    return tape.with_suffix(".work")


def check(path: Path) -> dict[str, Any]:
    """The output of `check --json` for a trace or workload, whether legal or not."""
    result = run(CONVERT, "check", path, "--json")
    assert result.status in (0, 1), result.stderr
    assert result.stdout, result.stderr
    return json.loads(result.stdout)


def info(path: Path) -> dict[str, Any]:
    return published("info", succeed(CONVERT, "info", path, "--json").stdout)


def published(name: str, text: str) -> dict[str, Any]:
    """Parses JSON, which must have the shape that docs/formats/SCHEMAS.md names as NAME."""
    conforms(name, text.encode())
    return json.loads(text)


def counted_calls(folder: Path) -> dict[int, Counter[str]]:
    """Calls by process, as preload/count_calls.c counted them in that folder."""
    calls: dict[int, Counter[str]] = defaultdict(Counter)
    for file in folder.iterdir():
        with file.open("rb") as image:
            (processes,) = struct.unpack("<Q", image.read(8))
            for _ in range(min(processes, 4096)):
                (pid,) = struct.unpack("<Q", image.read(8))
                for name, count in struct.iter_unpack("<40sQ", image.read(31 * 48)):
                    calls[pid][name.rstrip(b"\0").decode()] += count
    return {pid: +counts for pid, counts in calls.items() if +counts}


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Mounts a file system of that size there (tmpfs's `size=`). Needs root."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def assert_clean(tape: Path) -> dict[str, Any]:
    """The trace's history is legal without repairs: nothing repaired, unseen, dropped or missing. Returns the witness.

    Only a trace that lacks the start, by its own INFO (of a fork child), may free objects that it never saw acquired.
    """
    witness = proved(tape, "inversions_repaired", "double_frees", "dropped")
    assert witness["unseen_frees"] == 0 or witness["lacks_start"], (tape.name, witness)
    about = info(tape)
    assert not about["truncated"], (tape.name, about)
    assert about["events"] == witness["events"]
    return witness
