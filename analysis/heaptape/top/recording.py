# SPDX-License-Identifier: MIT
"""Finds a recording, and reads its counts so far: the recorder's counts, memory from /proc, and names of sites (each
frame is looked up once, by `heaptape-convert names`, when it is first seen).
"""

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heaptape.common.errors import HeaptapeError
from heaptape.common.home import Home
from heaptape.run.ctl import ask, recorder_sockets

HOW_TO_RECORD = "heaptape record -o F.tape -- CMD"
Counts = dict[str, Any]


@dataclass(frozen=True)
class Recording:
    """A running recorder: its socket, and its process."""

    socket: str
    recorder: int

    def counts(self, pid: int) -> Counts | None:
        """The counts of process `pid`, or of all if it is the recorder's own number; None where that process is gone,
        or the recorder has ended or does not answer.
        """
        reply = ask(self.socket, "counts", pid)
        if reply and reply.get("error") == "unknown verb":
            raise HeaptapeError(f"recorder {self.recorder} is of another version, which can't be watched")
        return reply if reply and reply.get("ok") else None

    def modules(self, pid: int) -> list[dict[str, Any]]:
        """The process's modules, as input for `heaptape-convert names`."""
        reply = ask(self.socket, "modules", pid)
        return reply["modules"] if reply and reply.get("ok") else []

    def trace(self, process: Counts) -> Path:
        """Path of the process's trace; the recorder names it relative to its own folder."""
        return Path(f"/proc/{self.recorder}/cwd", process["trace"])

    def has_ended(self) -> bool:
        return self.socket not in recorder_sockets()


def recordings() -> list[tuple[Recording, Counts]]:
    """The recordings that answer this user, each with its counts."""
    found = []
    for socket in recorder_sockets():
        recording = Recording(socket, int(socket.split("-")[1]))
        reply = ask(socket, "counts", recording.recorder)
        if reply and reply.get("ok"):
            found.append((recording, reply))
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
    names = ", ".join(f"{recording.recorder} ({_first_name(counts)})" for recording, counts in found)
    raise HeaptapeError(f"{len(found)} recordings run; say which: heaptape top PID, one of {names}")


def _first_name(counts: Counts) -> str:
    return counts["processes"][0]["name"] if counts["processes"] else "no process yet"


def _of_process(pid: int) -> tuple[Recording, int]:
    for socket in recorder_sockets():
        recording = Recording(socket, int(socket.split("-")[1]))
        if recording.counts(pid):
            return recording, pid
    if not Path(f"/proc/{pid}").exists():
        raise HeaptapeError(f"process {pid}: there is none")
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


class Names:
    """Names of frames by process, as far as they were looked up."""

    def __init__(self, home: Home, recording: Recording) -> None:
        self._home, self._recording = home, recording
        self._frames: dict[int, dict[int, list[dict[str, Any]]]] = {}

    def of_sites(self, process: Counts) -> dict[int, str]:
        """Node -> name, for the sites of a reading."""
        known = self._frames.setdefault(process["pid"], {})
        sites = process.get("sites", [])
        unknown = sorted({frame for site in sites for frame in site["frames"]} - known.keys())
        if unknown:
            modules = self._recording.modules(process["pid"])
            known.update(zip(unknown, look_up(self._home, modules, unknown), strict=True))
        return {site["node"]: site_name([known[frame] for frame in site["frames"]]) for site in sites}


def look_up(home: Home, modules: list[dict[str, Any]], instructions: list[int]) -> list[list[dict[str, Any]]]:
    """The functions of each instruction, innermost first; empty where they can't be looked up."""
    done = subprocess.run(
        [str(home.program("convert")), "names", "-"],
        input=json.dumps({"modules": modules, "instructions": instructions}),
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        return [[] for _ in instructions]
    names: list[list[dict[str, Any]]] = json.loads(done.stdout)["names"]
    return names


def site_name(frames: list[list[dict[str, Any]]]) -> str:
    """The function that requested memory and its callers; wrappers, which only return what they allocate, are left out
    unless there are only wrappers.
    """
    functions = [function for frame in frames for function in frame if function.get("function") or "module" in function]
    while len(functions) > 1 and functions[0].get("wrapper"):
        functions = functions[1:]
    return " < ".join(_called(function) for function in functions[:CALLERS])


def _called(function: dict[str, Any]) -> str:
    name = function.get("function")
    if not name:
        return f"{function['module']}+{function.get('offset', '0x0')}"
    return PARAMETERS.sub("", str(name))
