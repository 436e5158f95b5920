# SPDX-License-Identifier: MIT
"""What the commands print and write of a few traces is what it was: `make golden` writes it anew; read the difference.

Kept is what else no test has wholly: every figure of info, profile and check, the rows of each form of dump, and what
the conversions make of all that a trace can hold. Long output is kept as its first lines and a checksum.
"""

import json
import random
import re
import shlex
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from convert.test.models.access_maker import add_accesses, made_rows
from convert.test.models.history_maker import damage, in_turn, jitter, legal
from convert.test.models.history_model import Event, text
from convert.test.test_history import used_threads
from convert.test.test_tapes import random_trace
from tests.fuzz import mutants
from tests.support import CONVERT, REPOSITORY, import_text, run, same_as_before

KEPT = Path(__file__).with_name("kept")
SHOWN = ["check --json --ranges IN", "info IN", "info --table all IN", "info --json IN", "profile IN"]
SHOWN += ["spans --sites 2 IN", "dump IN", "dump --format csv IN", "dump --format jsonl --stacks IN", "dump --nodes IN"]
SHOWN += ["dump --stacks --thread 1 IN", "dump --accesses IN"]
MADE = "dump --stacks OUT.tape; info --json OUT.tape"
PARTS = ["progress=20%..70%", "size=25..5000", "time=1us..9us", "thread=0,2", "mark=mark 0.."]
CONVERTED = [f"convert {how} IN OUT.tape; {MADE}" for how in ("--anonymise", "--archive", "--allow-gaps")]
CONVERTED += [f"convert --slice {shlex.quote(part)} IN OUT.tape; {MADE}" for part in PARTS]
CONVERTED += [f"convert --merge IN OTHER OUT.tape; {MADE}; profile OUT.tape; convert --merge OTHER IN OUT.tape; {MADE}"]
CONVERTED += [
    "convert IN OUT.wl",
    *(f"convert --to {form} IN -" for form in ("android", "minimalloc", "mtrace", "rep")),
]
GROUPS = ["size=1k..=remove", "size=..100=segregate", "size=200..400&thread=0=pool=4096", "thread=0=early"]
GROUPS += ["thread=1..2&size=..50=late", "phase=mark 0=remove", "site=1..40=segregate", "function=make_node=late"]
COMPILED = "dump OUT.work; info --json OUT.work; check --json OUT.work"
WORKED = [
    f"compile IN -o OUT.work --json --origins OUT.origins; {COMPILED}; info --table all OUT.work;"
    "reduce OUT.work -o OUT.tape --json --end 300 --join 0; dump OUT.tape; info --json OUT.tape",
    "compile IN -o OUT.work --json --accesses OUT.accesses",
]
WORKED += [f"compile IN -o OUT.work --position 50 --group {shlex.quote(group)}; {COMPILED}" for group in GROUPS]


def history(folder: Path, made: list[Event]) -> Path:
    folder.mkdir(exist_ok=True)
    return import_text(folder, text(*used_threads(made)))


def with_accesses(folder: Path) -> Path:
    events, threads = in_turn(5, 200, 20)
    tape = import_text(folder, text(events, threads))
    add_accesses(tape, made_rows(5, events, 4))
    return tape


SOURCES = {
    "heap": lambda folder: random_trace(folder / "heap.tape", 3, 1500, 3 * 10**9),
    "heap-without-stacks": lambda folder: random_trace(folder / "heap.tape", 1, 2500),
    "recorded": lambda _: REPOSITORY / "analysis/test/show/as_before/nodes.tape",
    "jittered": lambda folder: history(folder, jitter(7, legal(7, 4, 600, 12), 5)),
    "damaged": lambda folder: history(folder, damage(8, legal(8, 3, 300, 9), 0.2, 0.1)),
    "accesses": with_accesses,
    "heaptrack": lambda _: REPOSITORY / "convert/test/formats/data/heaptrack-v3.raw",
}


def shortened(printed: str) -> str:
    """Without what compression decides; of what is long the beginning, and a checksum."""

    def cut(line: str, most: int = 160) -> str:
        return line if len(line) <= most else f"{line[:most]} ... {zlib.crc32(line.encode()):08x}"

    printed = re.sub(r"[\d.,]+( (KiB|MiB|bytes?)| \([\d,]+ bytes\))*, [\d.]+ bytes per call", "BYTES per call", printed)
    printed = re.sub(r"\b(file|bytes per call) +[\d.,]+.*", r"\1 ...", printed)
    if printed.startswith("{") and printed.count("\n{") == 0:
        values = {key: one for key, one in json.loads(printed).items() if key not in ("file_bytes", "bytes_per_event")}
        return "".join(f"{key}: {cut(json.dumps(one, sort_keys=True))}\n" for key, one in values.items())
    lines = printed.splitlines()
    rest = [f"... {len(lines)} lines, {zlib.crc32(printed.encode()):08x}"] if len(lines) > 9 else []
    return "".join(f"{cut(line)}\n" for line in [*(lines[:5] if rest else lines), *rest])


@pytest.mark.parametrize("name", SOURCES)
def test_what_the_commands_print_and_write_of_a_trace_is_what_it_was(tmp_path: Path, name: str) -> None:
    paths = {"IN": SOURCES[name](tmp_path), "OTHER": SOURCES["jittered"](tmp_path / "other"), "OUT": tmp_path / "out"}
    said = []
    for line in [*SHOWN, *CONVERTED, *WORKED]:
        said.append(f"$ {line}\n")
        for command in line.split(";"):
            words = [
                re.sub("^(IN|OTHER|OUT)\\b", lambda found: str(paths[found[0]]), word) for word in shlex.split(command)
            ]
            done = run(CONVERT, *words)
            out, errors = (
                one.replace(f"{tmp_path}/", "").replace(f"{REPOSITORY}/", "") for one in (done.stdout, done.stderr)
            )
            said += [shortened(out), f"status {done.status}: {errors or 'no message'}\n" if done.status else ""]
            written = sorted(tmp_path.glob("out.*"))
            if done.status and not written:
                break
        for path in written:
            said += (
                [f"{path.suffix}: {zlib.crc32(path.read_bytes()):08x}\n"] if path.suffix in (".origins", ".wl") else []
            )
            path.unlink()
    same_as_before(KEPT / f"{name}.txt", "".join(said))


def changed_inputs(folder: Path, kind: str) -> Iterator[tuple[str, bytes]]:
    """Names and contents."""
    if kind == "recordings":
        from convert.test.formats.importer_samples import FORMAT_OF, TEXT, sample

        for name in FORMAT_OF:
            data = sample(name, folder).read_bytes()
            change = mutants.text if name in TEXT else mutants.binary
            yield from ((f"{name}-{n}", change(random.Random(f"{name}-{n}"), data)) for n in range(9))
        return
    for name in ("recorded", "accesses" if kind == "traces" else "heap"):
        path = SOURCES[name](folder)
        if kind == "workloads":
            run(CONVERT, "compile", path, "-o", path := folder / "whole.work")
        data, change = path.read_bytes(), mutants.work if kind == "workloads" else mutants.tape
        yield from ((f"{name}-{n}", change(random.Random(f"{name}-{n}"), data)) for n in range(100))


@pytest.mark.parametrize("kind", ["traces", "workloads", "recordings"])
def test_what_is_said_of_changed_inputs_is_what_was_said(tmp_path: Path, kind: str) -> None:
    """Each change is of the structure: checksums are right, and the change itself gets to the code behind them."""
    said = []
    for name, data in changed_inputs(tmp_path, kind):
        path = tmp_path / f"{name}{'.work' * (kind == 'workloads')}"
        path.write_bytes(data)
        for command in ("check", "dump"):
            done = run(CONVERT, command, *["--stacks"] * (command == "dump" and kind == "traces"), path)
            answer = (done.stdout if command == "check" else "") + done.stderr
            if kind != "workloads":  # what is compressed has other lengths by another library
                answer = re.sub(r"\boffset \d+", "offset N", answer)
            answer += f" {zlib.crc32(done.stdout.encode()):08x}" if command == "dump" and done.status == 0 else ""
            said.append(
                f"{name} {command} {done.status}: {' '.join(answer.replace(f'{tmp_path}/', '').split())[:300]}\n"
            )
    same_as_before(KEPT / f"changed-{kind}.txt", "".join(said))
