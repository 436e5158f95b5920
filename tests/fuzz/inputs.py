# SPDX-License-Identifier: MIT
"""Kinds of input, and what may become of a changed one: done, or one error with status 1 or 2 that names it. No signal,
no report of a sanitizer, no hang.
"""

import gzip
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import zstandard

from convert.test.models.access_maker import add_accesses, made_rows
from convert.test.models.history_maker import legal
from convert.test.models.history_model import text as history_text
from replay.test.engine import stamp
from tests.fuzz import mutants
from tests.support import (
    CONVERT,
    HEAPTAPE_HERE,
    OUT,
    RECORD,
    REPLAY,
    call_heaptape,
    convert,
    import_text,
    run,
    succeed,
    workload,
)

SANITIZED = OUT / "sanitize" / "address"
ENGINE, READER, RECORDER = (SANITIZED / name for name in ("heaptape-replay", "heaptape-convert", "heaptape-record"))
REPORTED = 66  # the status of a process that a sanitizer ends
SANITIZERS = {
    "ASAN_OPTIONS": f"exitcode={REPORTED}:detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=4096:"
    "alloc_dealloc_mismatch=0:new_delete_type_mismatch=0",
    "UBSAN_OPTIONS": f"exitcode={REPORTED}:print_stacktrace=1",
}
HOST = OUT / "test-programs" / "hostile_host"
HANG_S = 100  # above the engine's own 60 s without progress

Judge = Callable[[random.Random, Path, "Seeds"], str]


def complaint(*command: str | Path, names: Path | str, usage: bool = False) -> str:
    """Runs the command; "": it was done, or failed as it may. usage: status 2 is a refusal too."""
    words = [str(word) for word in command]
    with subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | SANITIZERS,
        start_new_session=True,
    ) as process:
        try:
            said, errors = process.communicate(timeout=HANG_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return f"hangs: {words}"
    text = errors.decode(errors="replace")
    wrong = judged(process.returncode, said, text, names, usage)
    return wrong and f"{wrong}: {' '.join(words)}\n{text[-3000:]}"


def judged(status: int, said: bytes, errors: str, names: Path | str, usage: bool) -> str:
    """What is wrong about the end of a command; "": nothing."""
    if status < 0 or status == REPORTED or "SUMMARY: " in errors or "runtime error:" in errors:
        return f"status {status}"
    if " killed by signal " in errors:
        return "the engine died"
    if status not in ((0, 1, 2) if usage else (0, 1)):
        return f"status {status}"
    if status and not said and str(names) not in errors:
        return "an error that does not name the file"
    return ""


@dataclass
class Seeds:
    """Valid inputs by kind, and the folder with the files that they belong to."""

    folder: Path
    of: dict[str, list[bytes]] = field(default_factory=dict)
    formats: list[str] = field(default_factory=list)  # of each recording
    recognised: set[str] = field(default_factory=set)  # formats that are not always named
    works: list[bytes] = field(default_factory=list)  # of each origins and each accesses file

    @classmethod
    def make(cls, folder: Path) -> "Seeds":
        """Records and converts them."""
        seeds = cls(folder)
        tapes = seeds._tapes()
        seeds.of["trace"] = [path.read_bytes() for path in tapes]
        seeds.of["workload"] = seeds._workloads(tapes)
        seeds.of["engine"] = seeds.of["workload"]
        seeds._recordings()
        work = folder / "r.work"
        work.write_bytes(seeds.of["workload"][0])
        done = call_heaptape(
            "replay", work, "-a", "glibc", "-n", "1", "--passes", "memory,bare,time", "-o", folder / "r.json"
        )
        assert done.status == 0, done.stderr
        seeds.of["results"] = [(folder / "r.json").read_bytes()]
        seeds.of["control"] = [
            json.dumps({"verb": verb, "pid": 0}).encode() for verb in ("query", "counts", "start", "stop", "flush")
        ]
        return seeds

    def _tapes(self) -> list[Path]:
        threads, stacks, archive = (self.folder / f"{name}.tape" for name in ("threads", "stacks", "archive"))
        shape = (workload("many_threads"), "--threads=3", "--turns=4")
        succeed(RECORD, "-o", threads, "--usable", "--latency", "--describe", "--", *shape)
        succeed(RECORD, "-o", stacks, "--stacks", "--", *shape)
        convert("--archive", stacks, archive)
        events = legal(7, 2, 60, 8)
        accesses = import_text(self.folder, history_text(events, 2)).rename(self.folder / "accesses.tape")
        add_accesses(accesses, made_rows(7, events, 3))
        return [threads, stacks, archive, accesses]

    def _workloads(self, tapes: list[Path]) -> list[bytes]:
        made, found = self.folder / "made.work", []
        for number, tape in enumerate(tapes):
            work = self.folder / f"{number}.work"
            succeed(CONVERT, "compile", tape, "-o", work, "--origins", self.folder / "o")
            found.append(work.read_bytes())
            self.works.append(found[-1])
            self.of.setdefault("origins", []).append((self.folder / "o").read_bytes())
        succeed(CONVERT, "compile", tapes[3], "-o", made, "--accesses", self.folder / "a")
        self.of["accesses"] = [(self.folder / "a").read_bytes()]
        groups = ("--group", "size=1..200=pool=64k", "--group", "size=201..=segregate")
        succeed(CONVERT, "compile", tapes[0], "-o", made, *groups)
        found.append(made.read_bytes())
        for shape in ({"threads": 3, "remote_percent": 30, "run_ops": 4}, {"threads": 1, "gap_ns": 100}):
            words = [f"{name}={value}" for name, value in {"ops": 400, "live_objects": 40, **shape}.items()]
            succeed(OUT / "test-programs" / "make_workload", made, *words)
            found.append(made.read_bytes())
        return found

    def _recordings(self) -> None:
        from convert.fuzz.importer_seeds import MORE
        from convert.test.formats.importer_samples import FORMAT_OF, sample

        self.recognised = set(MORE) - set(FORMAT_OF.values())
        samples = [(name, sample(file, self.folder).read_bytes()) for file, name in FORMAT_OF.items()]
        for name, content in [*MORE.items(), *samples]:
            self.formats.append(name)
            unpacked = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
            if content[:4] == b"\x28\xb5\x2f\xfd":
                unpacked = zstandard.ZstdDecompressor().stream_reader(content).read()
            self.of.setdefault("recording", []).append(unpacked)


def read(source: random.Random, path: Path, _: Seeds) -> str:
    """A trace or a workload by the commands that read it."""
    out = path.with_suffix(".out")
    commands = [
        ("check", path),
        ("check", "--ranges", path),
        ("info", "--json", path),
        ("dump", path),
        ("dump", "--stacks", path),
        ("convert", path, out.with_suffix(".tape")),
        ("convert", "--archive", path, out.with_suffix(".tape")),
        ("convert", "--anonymise", path, out.with_suffix(".tape")),
        ("convert", "--slice", "progress=10%..60%", path, out.with_suffix(".tape")),
        ("compile", path, "-o", out),
        ("compile", path, "-o", out, "--origins", out.with_suffix(".origins")),
        ("compile", path, "-o", out, "--group", "size=1..64=pool=64k"),
        ("profile", path),
    ]
    if path.suffix == ".work":
        commands = commands[:4] + [("reduce", "-o", out.with_suffix(".tape"), path)]
    command, *words = source.choice(commands)
    return complaint(READER, command, *words, names=path, usage=True)


def import_(source: random.Random, path: Path, seeds: Seeds) -> str:
    """Another tool's recording, by its format or as its content is recognised."""
    name = seeds.formats[int(path.suffix[1:])]
    known = ["--from", name] if name not in seeds.recognised or source.random() < 0.5 else []
    if name == "columns":
        known = ["--columns", "op=1,size=2,ptr=3,old=4,count=5,align=6,time:us=7,thread=8"]
    more = ["--allow-gaps"] if source.random() < 0.5 else []
    if source.random() < 0.5:
        return complaint(READER, "check", *known, *more, path, names=path, usage=True)
    return complaint(READER, "convert", *known, *more, path, path.with_suffix(".tape"), names=path, usage=True)


PASSES = ["bare", "time", "memory", "contention", "sharing", "blame", "verify"]
ORDERS = ["recorded", "causal", "window=64", "random=3"]
MEASURED = ["--engine-cycles-per-op=0", "--baseline-rss-anon-bytes=0", "--baseline-vm-size-bytes=0"]


def replay(source: random.Random, path: Path, _: Seeds) -> str:
    """By the engine; mostly as if the workload were proved legal, on no allocator, so that a fault is the engine's."""
    pass_ = source.choice(PASSES)
    words = ["--pass", pass_, "--order", "recorded" if pass_ == "blame" else source.choice(ORDERS), *MEASURED]
    if pass_ != "verify" and source.random() < 0.75:
        words += ["--null", "--checked", stamp(path)]
    return complaint(ENGINE, *words, path, names=path)


def attributed(source: random.Random, path: Path, seeds: Seeds) -> str:
    """Origins, beside the workload that they belong to."""
    work = path.with_suffix(".work")
    work.write_bytes(seeds.works[int(path.suffix[1:])])
    words = ["--pass", "blame", "--origins", path, *source.choice([[], ["--at", "peak"], ["--positions", "3"]])]
    return complaint(ENGINE, *words, *MEASURED, work, names=path.stem)


def simulated(_: random.Random, path: Path, seeds: Seeds) -> str:
    """Accesses, beside their workload: under Valgrind, which takes the place of sanitizers."""
    work = path.with_suffix(".work")
    work.write_bytes(seeds.works[3])
    return complaint(REPLAY, "--pass", "misses", "--caches", "32768:8", "--accesses", path, work, names=path.stem)


def results(source: random.Random, path: Path, _: Seeds) -> str:
    """Results, by what shows them, in this process."""
    words = source.choice(
        [["compare"], ["compare", "--table", "all"], ["report", "-o", str(path) + ".html"], ["compare", "--json"]]
    )
    done = run(HEAPTAPE_HERE, words[0], path, *words[1:])
    return judged(done.status, b"", done.stderr, path, usage=False) and f"{words}: status {done.status}: {done.stderr}"


class Recorder:
    """A recorder under sanitizers, whose program waits."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        (folder / "libexec").mkdir()
        shutil.copy(RECORDER, folder / "libexec")
        (folder / "libexec" / "valgrind").symlink_to(OUT / "libexec" / "valgrind")
        (folder / "lib").symlink_to(OUT / "lib")
        self.process = subprocess.Popen(
            [folder / "libexec" / RECORDER.name, "--quiet", "--all-processes", *options, "-o", folder / "t.tape"]
            + ["--", "sh", "-c", 'echo "$HEAPTAPE_SOCKET"; exec cat'],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(folder / "stderr").open("w"),  # never full
            env=os.environ | SANITIZERS,
        )
        assert self.process.stdout
        self.setting = self.process.stdout.readline().decode().strip()
        self.name = self.setting.partition(":")[0]

    def ask(self, request: bytes) -> str:
        """Sends a request. The recorder may refuse it or send no answer; it goes on."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as one:
            one.settimeout(HANG_S)
            try:
                one.connect(b"\0" + self.name.encode())
                one.send(request[:60000])
                one.recv(1 << 20)
            except TimeoutError:
                return f"no answer to {request!r}"
            except OSError:
                pass
        return "" if self.process.poll() is None else f"the recorder ended: {request!r}"

    def play(self, script: bytes) -> str:
        """Has a hostile host do that. It may end in any way; the recorder goes on."""
        try:
            done = subprocess.run([HOST, self.setting], input=script, timeout=HANG_S, check=False)
        except subprocess.TimeoutExpired:
            return "its host hangs"
        if done.returncode == 2:
            return "a script that the host can't read"
        return "" if self.process.poll() is None else "the recorder ended"

    def traces(self) -> list[Path]:
        """What it has written."""
        return sorted(self.folder.glob("*.tape"))

    def end(self) -> str:
        """Ends the recording; "": it ended well."""
        self.process.communicate(timeout=HANG_S)
        errors = (self.folder / "stderr").read_text(errors="replace")
        return judged(self.process.returncode, b"", errors, "", usage=False) and errors


@dataclass(frozen=True)
class Kind:
    """A kind of input: its share of all, how it is changed, the suffix of its file, and who reads it."""

    share: float
    change: mutants.Mutator
    suffix: str  # N: the number of its seed
    judge: Judge


KINDS = {
    "trace": Kind(0.3, mutants.tape, ".tape", read),
    "workload": Kind(0.1, mutants.work, ".work", read),
    "engine": Kind(0.2, mutants.work, ".work", replay),
    "recording": Kind(0.2, mutants.recording, ".N", import_),
    "origins": Kind(0.09, mutants.origins, ".N", attributed),
    "accesses": Kind(0.01, mutants.items, ".accesses", simulated),
    "results": Kind(0.04, mutants.json_text, ".json", results),
}
CONTROL_SHARE = 0.03
HOSTS_SHARE = 0.2
HOSTS_RECORDERS = {"hosts": ("--stacks", "--latency", "--usable", "--describe"), "accesses of hosts": ("--accesses",)}


def control_request(source: random.Random, seeds: Seeds) -> bytes:
    """A changed request to a recorder, or bytes of another length than any request."""
    request = mutants.json_text(source, source.choice(seeds.of["control"]))
    return request if source.random() < 0.9 else struct.pack("<Q", source.getrandbits(64)) * source.randrange(1, 70)


def trace_of_a_host(source: random.Random, path: Path) -> str:
    """It can be read to its end, whatever its host has written; which calls it has need not be possible."""
    words = source.choice([("check",), ("dump",), ("check", "--ranges"), ("profile",)])
    info = subprocess.run(
        [READER, "info", "--json", path], capture_output=True, check=False, env=os.environ | SANITIZERS
    )
    if info.returncode or not info.stdout:
        return f"can't be read: {path}: {info.stderr.decode()}"
    return complaint(READER, words[0], *words[1:], path, names=path)


def chances(name: str) -> random.Random:
    """For the input of that name; others with another MUTANTS_SEED."""
    return random.Random(os.environ.get("MUTANTS_SEED", "") + name)


def try_one(kind: str, number: int, seeds: Seeds, folder: Path) -> str:
    """Makes input `number` of the kind and has it read; returns what is wrong, the file then stays, else ""."""
    source = chances(f"{kind}-{number}")
    which = source.randrange(len(seeds.of[kind]))
    about = KINDS[kind]
    path = folder / f"{kind}-{number}{about.suffix.replace('N', str(which))}"
    path.write_bytes(about.change(source, seeds.of[kind][which]))
    wrong = about.judge(source, path, seeds)
    if not wrong:
        for file in folder.glob(f"{kind}-{number}.*"):
            file.unlink()
    return wrong
