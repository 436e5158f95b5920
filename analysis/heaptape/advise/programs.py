# SPDX-License-Identifier: MIT
"""The user's command line, run here unchanged: recorded, or live on an allocator."""

import contextlib
import math
import os
import re
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from heaptape.advise.budget import OUTSIDE_RUNS, WHOLE_RUNS
from heaptape.advise.load import Load
from heaptape.common import console
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.common.phrases import counted, seconds
from heaptape.common.process import descendants, send_signal
from heaptape.run import ctl
from heaptape.run.environment import left_out, without_allocator
from heaptape.run.exact import TimeUpError
from heaptape.tape.trace import open_trace, recorded_cpu_ns

GOOD_PART = 0.1  # of the calls or the CPU time of another process
MOST_OTHERS, MOST_PROCESSES = 2, 64
KEPT_BYTES = 2000  # of a program's output
NOT_STARTED = (126, 127)
STOPPED = "stopped"
BURST_S = 3.0
IN_BURST_RUNS = WHOLE_RUNS / 2  # recording alone, without what follows
RETRY_S = 0.2
WRAPPERS = ("env", "nice", "ionice", "timeout", "taskset", "setarch", "chrt", "nohup", "stdbuf", "setsid", "time")
SHELLS = ("sh", "bash", "dash", "ash", "ksh", "zsh")
FOR_A_SHELL = re.compile(r"[^\w@%+=:,./ \t-]")  # what it expands, quotes, or that joins commands
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
NOT_RECORDED = re.compile(r"^heaptape: (not recorded: .*(?:\n  .*)*)", re.MULTILINE)  # shown, not judged
LAST_WORDS_S = 2  # how long to wait for the last output: a daemon that the program left keeps the pipe open


@dataclass(frozen=True)
class Process:
    """A recorded process: its trace, base name of its executable (empty: not known), calls, CPU time, and how the
    recording ended (core/trace/FORMAT.md).
    """

    path: Path
    program: str
    calls: float
    cpu_ns: float
    end: str = "exit"


def _read(path: Path) -> Process:
    """Without its calls, which take as long as compiling them."""
    with open_trace(path) as trace:
        end = (trace.footer or {}).get("end", STOPPED)
        return Process(path, trace.info.get("program", ""), trace.event_count, recorded_cpu_ns(path) or 0.0, end)


@dataclass(frozen=True)
class Program:
    """A recorded command. `trace`: of the process that is advised (`chosen`); `status`: exit status of the command;
    `wall_s`: of the run; `others`: what else it ran, in words; `share`: of the CPU time of all its processes, that of
    this one. Not `whole`: the recording ended before it; `ended`: it was ended here, as its time was up.
    """

    command: tuple[str, ...]
    trace: Process
    status: int
    wall_s: float = 0.0
    others: str = ""
    share: float = 1.0
    whole: bool = True
    ended: bool = False

    @property
    def cpu_ns(self) -> float | None:
        """`recorded_cpu_ns` of that process."""
        return recorded_cpu_ns(self.trace.path)


@dataclass(frozen=True)
class Line:
    """A command line, and what it sets of the allocator by `env NAME=VALUE`, which is no part of the words: LD_PRELOAD
    set there would replace the recorder's, and the allocator's of a live run.
    """

    words: tuple[str, ...]
    settings: Mapping[str, str]


def _without_shell(command: Sequence[str]) -> list[str]:
    """`sh -c 'NAME=VALUE CMD'`, where that is all that the shell has to do, as `env NAME=VALUE CMD`."""
    words = list(command)
    at = next((at for at, word in enumerate(words) if Path(word).name in SHELLS), None)
    if at is None or words[at + 1 : -1] != ["-c"] or FOR_A_SHELL.search(words[-1]):
        return words
    parts = words[-1].split()
    end = next((end for end, part in enumerate(parts) if not ASSIGNMENT.match(part)), len(parts))
    called = parts[end + 1 :] if parts[end : end + 1] == ["exec"] else parts[end:]
    return [*words[:at], *(["env", *parts[:end]] if end else []), *called]


def line_of(command: Sequence[str]) -> Line:
    """Of a command behind any of WRAPPERS, or of a shell that has only that to do. `env` without anything else to do is
    left out. Other options of `env` than -u NAME and -C FOLDER, and other shells, are left as they are.
    """
    words = _without_shell(command)
    at = next((at for at, word in enumerate(words) if Path(word).name == "env"), None)
    if at is None or Path(words[0]).name not in WRAPPERS:
        return Line(tuple(command), {})
    end = at + 1
    while end < len(words) and words[end] in ("-u", "-C"):
        end += 2
    first = end
    while end < len(words) and "=" in words[end] and not words[end].startswith("-"):
        end += 1
    given = [word.split("=", 1) for word in words[first:end]]
    taken = left_out(dict(given))
    settings = {name: value for name, value in given if name in taken}
    if not settings or end == len(words):
        return Line(tuple(command), {})
    rest = [*words[at + 1 : first], *(f"{name}={value}" for name, value in given if name not in settings)]
    return Line((*words[:at], *([words[at], *rest] if rest else []), *words[end:]), settings)


@dataclass(frozen=True)
class Ended:
    """A run that ended: exit status (negative: by that signal), and the end of its stderr output."""

    status: int
    last_words: bytes


@dataclass(frozen=True)
class Wanted:
    """Of a recording. `name`: base name of the wanted process; `accesses`: the share of the program whose data accesses
    are recorded, too: 0 none, 1 all, else in bursts; `load`: what makes requests of a server; `within_s`: the time for
    it; `recorded_s`: recording ends after so long, and what there is of it is used although the program did not end.
    """

    name: str = ""
    accesses: float = 0.0
    load: Load | None = None
    within_s: float = math.inf
    recorded_s: float = math.inf


def record(command: Sequence[str], folder: Path, home: Home, wanted: Wanted = Wanted()) -> Program:
    """Records the command into `folder`. A
    Ctrl-C while it runs is left to the program: this is how servers are ended. Raises HeaptapeError where it can't be
    started or recorded, or no process of that name made a call, and TimeUpError.
    """
    first = folder / "first.tape"  # the busiest process's, by the recorder's rule
    name, accesses, load = wanted.name, wanted.accesses, wanted.load
    options = ["--all-processes"] if name else []
    options += ["--accesses"] if accesses else []
    in_bursts = 0 < accesses < 1
    options += ["--burst", "ctl..ctl"] if in_bursts else []
    is_part = wanted.recorded_s < math.inf
    options += ["--duration", f"{wanted.recorded_s:.9f}"] if is_part else []
    began = time.monotonic()
    with _interrupts_are_its_own(), _Bursts(accesses) if in_bursts else contextlib.nullcontext() as bursts:
        line = line_of(command)
        whole = [str(home.program("record")), "--quiet", "-o", str(first), *options, "--", *line.words]
        own = {name: os.environ[name] for name in left_out(os.environ)} | dict(line.settings)
        in_time = True
        try:
            ended = run(whole, own, bursts.begin if bursts else None, wanted.within_s, load)
        except TimeUpError:
            if load:
                raise HeaptapeError("--load: the budget has no time for its requests; a larger one has") from None
            if not is_part:
                raise
            ended, in_time = Ended(-signal.SIGTERM, b""), False
    wall_s = time.monotonic() - began
    paths = sorted(folder.glob("*.tape"), key=lambda path: (path != first, -path.stat().st_size))[:MOST_PROCESSES]
    processes = [_read(path) for path in paths]
    called = [one for one in processes if one.calls]
    if not processes or (ended.status in NOT_STARTED and not called):
        raise HeaptapeError(last_line(ended.last_words) or f"{command[0]}: nothing was recorded")
    meant = [one for one in called if name in ("", one.program)]
    if not called:
        raise HeaptapeError(f"{command[0]}: made no calls of malloc that could be recorded")
    if not meant:
        seen = ", ".join(sorted({one.program or "?" for one in called}))
        raise HeaptapeError(f"{command[0]}: no process '{name}' among those recorded: {seen}")
    busiest = chosen(meant)
    for missed in NOT_RECORDED.findall(ended.last_words.decode(errors="replace")):
        console.warning(" ".join(missed.split()))
    if not name and busiest.end == "exec":
        raise HeaptapeError(
            f"{busiest.program}, which made most of the recorded calls, then executed another program: advise that "
            f"one, with what is set for it before it, as in: heaptape advise -- env LD_PRELOAD=LIBRARY PROGRAM"
        )
    is_whole = in_time and not (is_part and busiest.end == STOPPED)
    part = "" if is_whole else f"Recorded are its first {seconds(1e9 * wanted.recorded_s)}."
    said = [part, share_text(busiest, called, bool(name)), others_than(busiest.program, called)]
    others, share = " ".join(filter(None, said)), share_of(busiest, called)
    return Program(tuple(command), busiest, ended.status, wall_s, others, share, is_whole, not in_time)


def seconds_of_a_run(command: Sequence[str], load: Load | None, within_s: float) -> float:
    """Wall time of a run that nothing records; infinite where it takes longer than `within_s`."""
    line, began = line_of(command), time.monotonic()
    own = {name: os.environ[name] for name in left_out(os.environ)} | dict(line.settings)
    try:
        run(line.words, own, None, within_s, load)
    except TimeUpError:
        return math.inf
    return time.monotonic() - began


def chosen(processes: Sequence[Process]) -> Process:
    """The process to advise: of those with a good part of the most calls, the one that takes most CPU time; a script
    makes calls, too, but what it runs does the work.
    """
    most = max(one.calls for one in processes)
    return max((one for one in processes if one.calls >= GOOD_PART * most), key=lambda one: (one.cpu_ns, one.calls))


def share_of(one: Process, processes: Sequence[Process]) -> float:
    """Of the CPU time of all processes; of their calls where that is not known."""
    cpu_ns = sum(other.cpu_ns for other in processes)
    return one.cpu_ns / cpu_ns if cpu_ns else _share_of_calls(one, processes)


def _share_of_calls(one: Process, processes: Sequence[Process]) -> float:
    return one.calls / sum(other.calls for other in processes)


def share_text(one: Process, processes: Sequence[Process], named: bool = False) -> str:
    """What is replayed of all that ran; empty: nearly all. `named`: by --program."""
    of_all, of_calls = share_of(one, processes), _share_of_calls(one, processes)
    if min(of_calls, of_all) > 1 - GOOD_PART:
        return ""
    of_cpu = f" and {100 * of_all:.0f} % of their CPU time" if any(other.cpu_ns for other in processes) else ""
    return (
        f"Replayed is one of {len(processes)} processes, with {100 * of_calls:.0f} % of their calls{of_cpu}; "
        f"live runs measure the CPU time of all{f' named {one.program}' if named else ''}."
    )


def others_than(name: str, processes: Sequence[Process]) -> str:
    """The other programs among the processes that make or take a good part of what this one does, in words."""
    of: dict[str, tuple[float, float]] = {}
    for one in processes:
        calls, cpu_ns = of.get(one.program, (0.0, 0.0))
        of[one.program] = calls + one.calls, cpu_ns + one.cpu_ns
    calls, cpu_ns = of.pop(name)
    large = [other for other, (made, took) in of.items() if made > GOOD_PART * calls or took > GOOD_PART * cpu_ns]
    large.sort(key=lambda other: -of[other][1])
    shown = [
        f"{console.printable(other)} ({counted(int(of[other][0]), 'call')}, {seconds(of[other][1])} CPU)"
        for other in large[:MOST_OTHERS]
    ]
    more = [f"{len(large) - MOST_OTHERS} more"] * (len(large) > MOST_OTHERS)
    return f"It ran, too, and --program advises: {', '.join([*shown, *more])}." if large else ""


class _Bursts:
    """Begins and ends bursts in a recording of data accesses, from another thread, until the context ends. `share`: of
    the program.
    """

    def __init__(self, share: float) -> None:
        self._off_s = BURST_S * (1 - share) / share * OUTSIDE_RUNS / IN_BURST_RUNS
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "_Bursts":
        return self

    def __exit__(self, *about: object) -> None:
        self._over.set()
        if self._thread:
            self._thread.join()

    def begin(self, recorder: int) -> None:
        self._thread = threading.Thread(target=self._run, args=(recorder,), daemon=True)
        self._thread.start()

    def _run(self, recorder: int) -> None:
        wait_s, verb = self._off_s / 2, "begin-burst"
        while not self._over.wait(wait_s):
            try:
                ctl.command(verb, recorder)
            except HeaptapeError:  # it has just begun, or is about to end
                wait_s = RETRY_S
                continue
            began = verb == "begin-burst"
            wait_s, verb = (BURST_S, "end-burst") if began else (self._off_s, "begin-burst")


def run(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    started: Callable[[int], object] | None = None,
    within_s: float = math.inf,
    load: Load | None = None,
) -> Ended:
    """Runs the command in this folder to its end, in this environment; with `environment` in that and what of this one
    selects no allocator. Its output is read, not shown: some programs do less
    where their output is discarded. A file on standard input is read from its start each time. If an exception is
    raised here, the command is terminated. `started` gets its process number. `load`: of a server; ends with it. Raises
    TimeUpError where it takes longer than `within_s`, and as `Load.end`.
    """
    with contextlib.closing(os.fdopen(_standard_input(), "rb")) as source:
        process = subprocess.Popen(
            list(command),
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if environment is None else without_allocator(os.environ) | dict(environment),
        )
    for begin in (started, load.begin if load else None):
        if begin:
            begin(process.pid)
    last = bytearray()
    assert process.stdout
    assert process.stderr
    readers = [
        threading.Thread(target=_drain, args=(process.stdout, None), daemon=True),
        threading.Thread(target=_drain, args=(process.stderr, last), daemon=True),
    ]
    for reader in readers:
        reader.start()
    try:
        status = process.wait(None if within_s == math.inf else max(within_s, 0.0))
    except subprocess.TimeoutExpired:
        _end(process)
        if load:
            with contextlib.suppress(HeaptapeError):
                load.end()
        raise TimeUpError from None
    except BaseException:
        process.terminate()
        process.wait()
        raise
    finally:
        for reader in readers:
            reader.join(LAST_WORDS_S)
    if load:
        load.end(status, last_line(bytes(last)))
    return Ended(status, bytes(last))


def _end(process: subprocess.Popen) -> None:
    """Asks the program behind the observer or recorder to end, which then do, too; at last kills all."""
    for ask in (signal.SIGTERM, signal.SIGKILL):
        for pid, seen in descendants(process.pid).items():
            send_signal(pid, seen, ask)
        if ask == signal.SIGKILL:
            process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(LAST_WORDS_S)
            return
    process.wait()


def last_line(text: bytes) -> str:
    """The last line, without the prefix of a heaptape program."""
    line = (text.decode(errors="replace").strip().splitlines() or [""])[-1]
    return line.removeprefix("heaptape-record: ").removeprefix("heaptape: ")


def _drain(stream: IO[bytes], kept: bytearray | None) -> None:
    with stream:
        while chunk := os.read(stream.fileno(), 1 << 16):
            if kept is not None:
                kept += chunk
                del kept[:-KEPT_BYTES]


def input_kind() -> str:
    """What standard input is: "file" (or nothing), "terminal" or "pipe"."""
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return "file"
    if os.isatty(0):
        return "terminal"
    return "pipe" if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else "file"


def _standard_input() -> int:
    """A descriptor of standard input: a file is opened again, anything else duplicated; /dev/null if it is closed."""
    try:
        is_file = stat.S_ISREG(os.fstat(0).st_mode)
    except OSError:
        return os.open(os.devnull, os.O_RDONLY)
    return os.open("/proc/self/fd/0", os.O_RDONLY) if is_file else os.dup(0)


@contextlib.contextmanager
def _interrupts_are_its_own() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
