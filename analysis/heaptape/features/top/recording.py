# SPDX-License-Identifier: MIT
"""Finds a recording, and reads its counts so far: the recorder's counts, memory from /proc, and names of sites (each
frame is looked up once, by `heaptape-convert names`, when it is first seen).

Two readings of a recording as one sample: rates between them, estimates with their errors, memory.

Counts are exact: all calls that had returned before the second reading. Live memory is estimated from a sample of
addresses, the acquires of sites from a sample of acquires; errors are half of a 95 % interval (1.96 standard
deviations), and 0 where the sample is complete.
"""

import json
import math
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

import msgspec

from heaptape.common.checked import checked
from heaptape.common.console import printable
from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.run.ctl import ask, asked, recorder_sockets

HOW_TO_RECORD = "heaptape record -o F.tape -- CMD"
Counts = dict[str, Any]


_Variance = Annotated[float, msgspec.Meta(ge=0)]


class _Estimate(TypedDict):
    live_bytes: float
    live_objects: float
    live_bytes_variance: _Variance
    live_objects_variance: _Variance


class _Site(_Estimate):
    node: int
    frames: list[int]
    calls: float
    bytes: float
    calls_variance: _Variance
    bytes_variance: _Variance


class _Thread(TypedDict):
    thread: int
    tid: int
    events: int
    request_bytes: int


class _Counted(_Estimate):
    pid: int
    name: str
    trace: str
    forked: bool
    calls: dict[str, int]
    events: int
    request_bytes: int
    threads_recorded: int
    dropped: int
    skipped: int
    lost: int
    file_bytes: int
    live_share: float
    given_up: str | None
    paused: bool
    stacks: bool


class _Process(_Counted, total=False):
    """`threads`, `sites`: of the one that was asked for."""

    threads: list[_Thread]
    sites: list[_Site]


class _Reply(TypedDict):
    """A recorder's reply to "counts": capture/recorder/control.c."""

    recorder: int
    processes: list[_Process]
    time_ns: int
    recorded: int
    running: int
    ended: bool


def _checked(reply: Counts, socket: str) -> Counts:
    """The reply, with keys of other versions too. Raises HeaptapeError: it has another shape."""
    checked(f"the recorder at @{socket}", reply, _Reply)
    return reply


@dataclass(frozen=True)
class Recording:
    """A running recorder: its socket, and its process."""

    socket: str
    recorder: int

    def counts(self, pid: int) -> Counts | None:
        """The counts of process `pid`, or of all if it is the recorder's own number; None where that process is gone,
        or the recorder has ended or does not answer.
        """
        return self.counted(ask(self.socket, "counts", pid))

    def counted(self, reply: dict[str, Any] | None) -> Counts | None:
        """What a reply says, as `counts` gives it."""
        if reply and reply.get("error") == "unknown verb":
            raise HeaptapeError(f"recorder {self.recorder} is of another version, which can't be watched")
        return _checked(reply, self.socket) if reply and reply.get("ok") else None

    def modules(self, pid: int) -> list[dict[str, Any]]:
        """The process's modules, as input for `heaptape-convert names`."""
        reply = ask(self.socket, "modules", pid)
        modules = reply.get("modules") if reply and reply.get("ok") else []
        return modules if isinstance(modules, list) else []

    def trace(self, process: Counts) -> Path:
        """Path of the process's trace; the recorder names it relative to its own folder."""
        return Path(f"/proc/{self.recorder}/cwd", process["trace"])

    def has_ended(self) -> bool:
        return self.socket not in recorder_sockets()


def recordings() -> list[tuple[Recording, Counts]]:
    """The recordings that answer this user, each with its counts."""
    found = []
    for socket, reply in asked("counts"):
        if reply.get("ok"):
            found.append((Recording(socket, int(socket.split("-")[1])), _checked(reply, socket)))
    return found


def find(target: str) -> tuple[Recording, int] | None:
    """The recording of `target` (a process, its recorder or its trace), and the process to show (the recorder's number:
    any). None: a file that is not being recorded here. Raises HeaptapeError.
    """
    return _of_process(int(target)) if target.isdecimal() else _of_file(Path(target))


def only_one() -> tuple[Recording, int]:
    """The only running recording, where no target is given. Raises HeaptapeError if there is none or more than one."""
    found = recordings()
    if len(found) == 1:
        return found[0][0], found[0][0].recorder
    if not found:
        raise HeaptapeError(f"you are not recording anything; to record: {HOW_TO_RECORD}")
    names = ", ".join(f"{recording.recorder} ({printable(_first_name(counts))})" for recording, counts in found)
    raise HeaptapeError(f"{len(found)} recordings are in progress: heaptape top PID, one of {names}")


def _first_name(counts: Counts) -> str:
    return counts["processes"][0]["name"] if counts["processes"] else "no process yet"


def _of_process(pid: int) -> tuple[Recording, int]:
    fault = None  # of another recorder, as long as none has the process
    for socket, reply in asked("counts", pid):
        recording = Recording(socket, int(socket.split("-")[1]))
        try:
            if recording.counted(reply):
                return recording, pid
        except HeaptapeError as error:
            fault = error
    if fault:
        raise fault
    if not Path(f"/proc/{pid}").exists():
        raise HeaptapeError(f"there is no process {pid}")
    command = f"heaptape record --attach {pid} -o F.tape"
    raise HeaptapeError(f"process {pid}: neither a recorder of yours nor recorded by one; to record it: {command}")


def _of_file(path: Path) -> tuple[Recording, int] | None:
    meant = path.stat()
    for recording, counts in recordings():
        for process in counts["processes"]:
            trace = recording.trace(process)
            if trace.exists() and os.path.samestat(trace.stat(), meant):
                return recording, process["pid"]
    return None


@dataclass(frozen=True)
class Memory:
    """A process's memory in bytes, from /proc/PID/status. None: it can't be read."""

    rss_anon: int | None = None
    rss_file: int | None = None


def memory(pid: int) -> Memory:
    """RssAnon and RssFile now."""
    found = {}
    try:
        for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
            if line.startswith(("RssAnon:", "RssFile:")):
                name, kib, _ = line.split()
                found[name] = int(kib) << 10
    except OSError:
        pass
    return Memory(found.get("RssAnon:"), found.get("RssFile:"))


def cpu_s(pid: int) -> float | None:
    """Processor time of a process so far; None: it can't be read."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def thread_name(pid: int, tid: int) -> str:
    """The thread's name in the kernel; empty if the thread is gone."""
    try:
        return Path(f"/proc/{pid}/task/{tid}/comm").read_text(errors="replace").strip()
    except OSError:
        return ""


CALLERS = 3  # functions in a site's name
PARAMETERS = re.compile(r"(?<!^)(?<!:)(?<!operator)\((?!anonymous namespace\)).*$")  # of a C++ function's name


class Function(msgspec.Struct):
    """Of an instruction, as `heaptape-convert names` prints it."""

    function: str = ""
    module: str = ""
    offset: str = "0x0"
    wrapper: bool = False


class Named(msgspec.Struct):
    names: list[list[Function]]  # of each instruction the innermost first


class Names:
    """Names of frames by process, as far as they were looked up."""

    def __init__(self, home: Home, recording: Recording) -> None:
        self._home, self._recording = home, recording
        self._frames: dict[int, dict[int, list[Function]]] = {}

    def of_sites(self, process: Counts) -> dict[int, str]:
        """Node -> name, for the sites of a reading."""
        known = self._frames.setdefault(process["pid"], {})
        sites = process.get("sites", [])
        unknown = sorted({frame for site in sites for frame in site["frames"]} - known.keys())
        if unknown:
            modules = self._recording.modules(process["pid"])
            known.update(zip(unknown, look_up(self._home, modules, unknown), strict=True))
        return {site["node"]: site_name([known[frame] for frame in site["frames"]]) for site in sites}


def look_up(home: Home, modules: list[dict[str, Any]], instructions: list[int]) -> list[list[Function]]:
    """The functions of each instruction, innermost first; empty where they can't be looked up."""
    done = subprocess.run(
        [str(home.program("convert")), "names", "-"],
        input=json.dumps({"modules": modules, "instructions": instructions}),
        capture_output=True,
        errors="replace",
    )
    if done.returncode != 0:
        return [[] for _ in instructions]
    return msgspec.json.decode(done.stdout, type=Named).names


def site_name(frames: list[list[Function]]) -> str:
    """The function that requested memory and its callers; wrappers, which only return what they allocate, are left out
    unless there are only wrappers.
    """
    functions = [function for frame in frames for function in frame if function.function or function.module]
    while len(functions) > 1 and functions[0].wrapper:
        functions = functions[1:]
    return " < ".join(_called(function) for function in functions[:CALLERS])


def _called(function: Function) -> str:
    return PARAMETERS.sub("", function.function) or f"{function.module}+{function.offset}"


Z = 1.96


@dataclass(frozen=True)
class Reading:
    """All processes at one moment, and one of them in detail (None: none is recorded now)."""

    all: Counts
    one: Counts | None
    memory: Memory
    recorder_cpu_s: float | None

    @property
    def time_s(self) -> float:
        """Time of the recorder's clock when it counted the shown process."""
        return (self.one or self.all)["time_ns"] / 1e9

    @property
    def process(self) -> Counts | None:
        return self.one["processes"][0] if self.one and self.one["processes"] else None


def sample(before: Reading, after: Reading, names: Mapping[int, str], threads: Mapping[int, str]) -> dict[str, Any]:
    """The output of `heaptape top --json`. `names`: of nodes of the tree of stacks; `threads`: of tids."""
    seconds = after.time_s - before.time_s
    cpu = None
    if before.recorder_cpu_s is not None and after.recorder_cpu_s is not None and seconds > 0:
        cpu = 100 * (after.recorder_cpu_s - before.recorder_cpu_s) / seconds
    earlier = {process["pid"]: process for process in before.all["processes"]}
    all_seconds = (after.all["time_ns"] - before.all["time_ns"]) / 1e9
    return {
        "recorder": after.all["recorder"],
        "interval_s": seconds,
        "recorded": after.all["recorded"],
        "running": after.all["running"],
        "ended": after.all["ended"],
        "recorder_cpu_percent": cpu,
        "processes": [
            {key: process[key] for key in ("pid", "name", "trace", "events", "live_bytes")}
            | {"events_per_s": _rate(earlier.get(process["pid"]), process, "events", all_seconds)}
            for process in after.all["processes"]
        ],
        "process": after.process and _process(before, after, names, threads),
    }


def _rate(before: Counts | None, after: Counts, key: str, seconds: float) -> float | None:
    """Per second; None where there is no earlier reading, or the number now belongs to another process."""
    if before is None or seconds <= 0 or after[key] < before[key]:
        return None
    return (after[key] - before[key]) / seconds


def _process(
    before: Reading, after: Reading, names: Mapping[int, str], threads: Mapping[int, str]
) -> dict[str, Any] | None:
    new, old = after.process, before.process
    if new is None:
        return None
    if old is not None and (old["pid"] != new["pid"] or old["events"] > new["events"]):
        old = None
    seconds = after.time_s - before.time_s
    rss = after.memory.rss_anon
    kept = {
        key: new[key]
        for key in ("pid", "name", "trace", "forked", "given_up", "events", "request_bytes", "threads_recorded")
        + ("dropped", "skipped", "lost", "file_bytes", "live_bytes", "live_objects", "live_share", "stacks")
    }
    return kept | {
        "paused": new["paused"],
        "events_per_s": _rate(old, new, "events", seconds),
        "request_bytes_per_s": _rate(old, new, "request_bytes", seconds),
        "calls": _calls(old, new, seconds),
        "live_bytes_error": Z * math.sqrt(new["live_bytes_variance"]),
        "live_objects_error": Z * math.sqrt(new["live_objects_variance"]),
        "rss_anon_bytes": rss,
        "rss_file_bytes": after.memory.rss_file,
        "beside_live_bytes": None if rss is None else rss - new["live_bytes"],
        "threads": _threads(old, new, seconds, threads),
        "sites": _sites(old, new, seconds, names) if new["stacks"] else None,
    }


def _calls(old: Counts | None, new: Counts, seconds: float) -> list[dict[str, Any]]:
    calls = [
        {
            "name": name,
            "calls": count,
            "calls_per_s": _rate(old and {name: old["calls"].get(name, 0)}, new["calls"], name, seconds),
        }
        for name, count in new["calls"].items()
    ]
    return sorted(calls, key=lambda call: -(call["calls_per_s"] or 0))


def _threads(old: Counts | None, new: Counts, seconds: float, names: Mapping[int, str]) -> list[dict[str, Any]]:
    earlier = {thread["thread"]: thread for thread in (old or {}).get("threads", [])}
    nothing = {"events": 0, "request_bytes": 0}  # a new thread had made no calls before
    threads = []
    for thread in new.get("threads", []):
        before = earlier.get(thread["thread"], nothing) if old else None
        threads.append(
            thread
            | {
                "name": names.get(thread["tid"], ""),
                "events_per_s": _rate(before, thread, "events", seconds),
                "request_bytes_per_s": _rate(before, thread, "request_bytes", seconds),
            }
        )
    return sorted(threads, key=lambda thread: (-(thread["events_per_s"] or 0), thread["thread"]))


def _sites(old: Counts | None, new: Counts, seconds: float, names: Mapping[int, str]) -> list[dict[str, Any]]:
    earlier = {site["node"]: site for site in (old or {}).get("sites", [])}
    sites = []
    for site in new.get("sites", []):
        before = earlier.get(site["node"])
        sites.append(
            {
                "name": names.get(site["node"]) or "?",
                "frames": site["frames"],
                "live_bytes": site["live_bytes"],
                "live_bytes_error": Z * math.sqrt(site["live_bytes_variance"]),
                "live_objects": site["live_objects"],
                "live_objects_error": Z * math.sqrt(site["live_objects_variance"]),
                "calls": site["calls"],
                "calls_error": Z * math.sqrt(site["calls_variance"]),
                "bytes": site["bytes"],
                "bytes_error": Z * math.sqrt(site["bytes_variance"]),
            }
            | _site_rate(before, site, "calls", seconds)
            | _site_rate(before, site, "bytes", seconds)
        )
    return sorted(sites, key=lambda site: -site["live_bytes"])


def _site_rate(before: Counts | None, after: Counts, key: str, seconds: float) -> dict[str, Any]:
    """Rate and error of a site. Sums only grow and later draws are independent, so the variance of a difference is the
    difference of the variances.
    """
    rate = _rate(before, after, key, seconds)
    error = None
    if rate is not None and before is not None:
        error = Z * math.sqrt(max(0.0, after[f"{key}_variance"] - before[f"{key}_variance"])) / seconds
    return {f"{key}_per_s": rate, f"{key}_per_s_error": error}
